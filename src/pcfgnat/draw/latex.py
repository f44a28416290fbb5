"""Trees for papers, with LaTeX's package forest: the main chain on one line, prefix trees below it."""

from collections.abc import Mapping, Sequence
from typing import Any

from pcfgnat.draw.data import Word, read_tree

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
BEGIN = r"""\begin{forest}
  for tree={font=\sffamily, rounded corners=2pt, inner sep=3pt, s sep=5pt, l sep=9pt,
    text height=1.7ex, text depth=0.5ex, edge={orange!70!black}}
"""


def tree_latex(tree: Mapping[str, Any]) -> str:
    """Return a forest environment; the comment before it says what a document needs for it.

    Shades are the probabilities of tokens. An invisible root holds the words of the main chain.
    """
    words = read_tree(tree)
    lines = ["  [, phantom, s sep=14pt"]
    for word in words:
        if word.main_chain:
            lines += _chain_word(word, words)
    chain = [f"(w{word.position})" for word in words if word.main_chain]
    lines += ["  ]", rf"  \draw[blue!60!black, thick] {' -- '.join(chain)};", r"\end{forest}", ""]
    return PREAMBLE + BEGIN + "\n".join(lines)


def latex_document(environments: Sequence[tuple[str, str]]) -> str:
    """Put captions and environments of `tree_latex` below each other into a document of their own."""
    rows = [
        (rf"\textsf{{{escape_latex(caption)}}} \\[4pt]" + "\n" if caption else "")
        + environment
        + "\\\\[12pt]\n"
        for caption, environment in environments
    ]
    return DOCUMENT.replace("%s", "".join(rows))


def escape_latex(text: str) -> str:
    """Let every character stand for itself."""
    return "".join(SPECIAL.get(character, character) for character in text)


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
