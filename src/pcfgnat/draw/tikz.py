"""Scenes for LaTeX, drawn with TikZ at the places that the layout gave them."""

from pcfgnat.draw.scene import FONT_SIZE, LIGHT, Box, Label, Point, Role, Scene, Stroke

SPECIAL = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "`": r"\textasciigrave{}",
    "'": r"\textquotesingle{}",
    "-": "{-}",  # no dashes out of several
    "\u2212": r"\ensuremath{-}",  # pdfLaTeX knows no minus
    "␣": r"\textvisiblespace{}",
    "∅": r"$\emptyset$",
    "�": "?",
}
COLOURS = {"chain": LIGHT.chain, "prefix": LIGHT.prefix, "muted": LIGHT.muted, "ink": LIGHT.ink}
POINTS = 0.75  # of a CSS pixel
ALIGNED = {"start": "base west", "middle": "base", "end": "base east"}
BEGIN = r"""% needs \usepackage[T1]{fontenc}, \usepackage{textcomp} and \usepackage{tikz};
% words that are not in Latin letters need LuaLaTeX or XeLaTeX with a font that has them
\begin{tikzpicture}[x=0.75pt, y=-0.75pt, font=\sffamily, inner sep=0pt,
  box/.style={text height=1.5ex, text depth=0.25ex, line width=0.9pt}]
"""


def scene_tikz(scene: Scene) -> str:
    """Return a tikzpicture; one of its units is a pixel of the scene, 0.75 pt."""
    lines = [
        *(
            rf"  \definecolor{{pcfgnat-{name}}}{{HTML}}{{{value[1:].upper()}}}"
            for name, value in COLOURS.items()
        ),
        *(_stroke(stroke) for stroke in scene.strokes),
        *(_box(box) for box in scene.boxes),
        *(_label(label) for label in scene.labels),
    ]
    return BEGIN + "\n".join([*lines, r"\end{tikzpicture}", ""])


def escape_latex(text: str) -> str:
    """Return a text with LaTeX's special characters escaped."""
    return "".join(SPECIAL.get(character, character) for character in text)


def _stroke(stroke: Stroke) -> str:
    first, *others = [_place(point) for point in stroke.points]
    if stroke.curved:
        triples = zip(others[::3], others[1::3], others[2::3], strict=True)
        path = "".join(f" .. controls {a} and {b} .. {end}" for a, b, end in triples)
    else:
        path = "".join(f" -- {place}" for place in others)
    shade = _shade(stroke.role, stroke.opacity)
    return rf"  \draw[{shade}, line width={stroke.width * POINTS:.2f}pt] {first}{path};"


def _box(box: Box) -> str:
    """Draw a node; white below its shade hides what runs behind it."""
    options = [
        "box",
        f"minimum width={box.width * POINTS:.1f}pt",
        f"minimum height={box.height * POINTS:.1f}pt",
        f"rounded corners={min(box.radius, box.height / 2 - 0.5) * POINTS:.1f}pt",
        f"draw={_shade(box.role, box.border_opacity)}",
        f"fill={_shade(box.role, box.fill_opacity)}",
        f"text=pcfgnat-{'muted' if box.hollow else 'ink'}!{round(100 * box.text_opacity)}",
        *(["dashed"] if box.hollow else []),
    ]
    size = r"\normalsize" if box.size == FONT_SIZE else r"\footnotesize"
    text = escape_latex(box.text)
    content = rf"\textbf{{{text}}}" if box.role == "chain" else text
    return rf"  \node[{', '.join(options)}] at {_place((box.x, box.y))} {{{size} {content}}};"


def _label(label: Label) -> str:
    text = escape_latex(label.text)
    content = rf"\textbf{{{text}}}" if label.strong else text
    anchor = ALIGNED[label.anchor]
    return (
        rf"  \node[anchor={anchor}, text=pcfgnat-{'ink' if label.strong else 'muted'}] "
        rf"at {_place((label.x, label.y))} {{\footnotesize {content}}};"
    )


def _shade(role: Role, share: float) -> str:
    """Mix the colour of a role with white."""
    name = role if role in ("chain", "prefix") else "muted"
    return f"pcfgnat-{name}!{round(100 * share)}"


def _place(point: Point) -> str:
    return f"({point[0]:.1f},{point[1]:.1f})"
