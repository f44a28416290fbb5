"""Pictures for papers: trees with LaTeX's package forest, lattices with TikZ.

A tree has its main chain on one line and prefix trees below it; a long sentence continues in further rows.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from pcfgnat.draw.data import Word, read_tree
from pcfgnat.draw.lattice import lattice_scene
from pcfgnat.draw.text import wrapped
from pcfgnat.draw.tikz import escape_latex, scene_tikz
from pcfgnat.draw.tree import check_page, tree_rows

TEXT_PAGE = 640  # pixels, 17 cm: the text of an A4 page
FOREST = 1.25  # its letters and gaps are so much narrower than those of a scene, at least
CAPTION_SIZE = 13.0
PREAMBLE = r"""% needs \usepackage[T1]{fontenc}, \usepackage{textcomp} and \usepackage{forest};
% words that are not in Latin letters need LuaLaTeX or XeLaTeX with a font that has them
"""
DOCUMENT = r"""\documentclass[border=4pt]{standalone}
\usepackage{iftex}
\ifPDFTeX\usepackage[T1]{fontenc}\usepackage{textcomp}\else\usepackage{fontspec}\fi
\usepackage{forest}
\begin{document}
\begin{tabular}{@{}l@{}}
%s\end{tabular}
\end{document}
"""
LINE = "blue!60!black, thick"
BEGIN = r"""\begin{forest}
  for tree={font=\sffamily, rounded corners=2pt, inner sep=3pt, s sep=5pt, l sep=9pt,
    text height=1.7ex, text depth=0.5ex, edge={orange!70!black}}
"""


def tree_latex(tree: Mapping[str, Any], page: int = TEXT_PAGE) -> str:
    """Return a forest environment, or several in a table; the comment before it names what a document needs.

    Shades are the probabilities of tokens. An invisible root holds the words of the main chain. `page` is the
    width of a row in pixels of 0.75 pt.
    """
    check_page(page)
    words = read_tree(tree)
    rows = [_row(words, part) for part in tree_rows(words, round(page * FOREST))]
    if len(rows) == 1:
        return PREAMBLE + rows[0]
    return (
        PREAMBLE
        + "\\begin{tabular}{@{}l@{}}\n"
        + "\\\\\n\\noalign{\\vskip 8pt}\n".join(rows)
        + "\\end{tabular}\n"
    )


def lattice_latex(lattice: Mapping[str, Any], page: int = TEXT_PAGE) -> str:
    """Return a tikzpicture of what `Lattice.to_dict` gives."""
    return scene_tikz(lattice_scene(lattice, page=page))


def latex_document(environments: Sequence[tuple[str, str]], page: int = TEXT_PAGE) -> str:
    """Put captions and environments below each other into a document; the last line of a caption is bold."""
    rows, room = [], float(page)
    for caption, environment in environments:
        *context, own = caption.split("\n")
        lines = [(line, "") for text in context for line in wrapped(text, room, CAPTION_SIZE)]
        lines += [(line, r"\bfseries") for line in wrapped(own, room, CAPTION_SIZE)]
        rows += [rf"{{\sffamily\small{weight} {escape_latex(line)}}} \\" for line, weight in lines]
        rows += [r"\noalign{\vskip 4pt}", rf"{environment}\\", r"\noalign{\vskip 12pt}", ""]
    return DOCUMENT.replace("%s", "\n".join(rows))


def _row(words: Sequence[Word], part: range) -> str:
    """Write some words of the sentence; at a cut the line runs out and comes in again."""
    chain = [words[i] for i in part if words[i].main_chain]
    lines = ["  [, phantom, s sep=14pt"]
    for word in chain:
        lines += _chain_word(word, words)
    lines.append("  ]")
    if len(chain) > 1:
        lines.append(rf"  \draw[{LINE}] {' -- '.join(f'(w{word.position})' for word in chain)};")
    if part.start:
        lines.append(rf"  \draw[{LINE}, ->] ([xshift=-16pt]w{chain[0].position}.west) -- ++(14pt, 0);")
    if part.stop < len(words):
        lines.append(rf"  \draw[{LINE}, ->] (w{chain[-1].position}.east) -- ++(14pt, 0);")
    return BEGIN + "\n".join([*lines, r"\end{forest}", ""])


def _chain_word(word: Word, words: Sequence[Word]) -> list[str]:
    colour = "black" if word.special else "blue"
    options = f"name=w{word.position}, no edge, {_shade(word, colour)}"
    if word.left is None:
        return [f"    [{_content(word)}, {options}]"]
    below = _subtree(words[word.left], words)
    return [f"    [{_content(word)}, {options}, calign=last", *below, "      [, phantom]", "    ]"]


def _subtree(top: Word, words: Sequence[Word]) -> list[str]:
    """Write a prefix tree, without recursion; a missing left child leaves its place empty."""
    lines: list[str] = []
    stack: list[Word | str] = [top]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            lines.append(item)
            continue
        indent = " " * (4 + 2 * item.depth)
        lines.append(f"{indent}[{_content(item)}, {_shade(item, 'orange')}")
        children: list[Word | str] = []
        if item.left is not None or item.right is not None:
            children = [
                f"{indent}  [, phantom]" if child is None else words[child]
                for child in (item.left, item.right)
            ]
        stack += reversed([*children, f"{indent}]"])
    return lines


def _content(word: Word) -> str:
    """Braces keep forest from reading brackets, commas and signs of equality as its own."""
    text = escape_latex(word.text)
    return f"{{{text}}}" if not word.main_chain or word.special else rf"{{\textbf{{{text}}}}}"


def _shade(word: Word, colour: str) -> str:
    probability = 1.0 if word.token_probability is None else word.token_probability
    return f"draw={colour}!60!black, fill={colour}!{round(4 + 30 * probability)}"
