import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pcfgnat.draw import latex_document, tree_latex
from pcfgnat.draw.latex import escape_latex
from tests.draw.trees import chain, full, some_tree, weather

SPECIAL = [*r"\{}$&#%_^~[],=<>'`-", "--"]
ENGINES = [name for name in ("pdflatex", "lualatex", "xelatex") if shutil.which(name)]


def packages_are_there() -> bool:
    """Whether TeX has what our documents load."""
    command = ["kpsewhich", "forest.sty", "standalone.cls"]
    return bool(ENGINES) and subprocess.run(command, capture_output=True, check=False).returncode == 0


def balanced(text: str) -> bool:
    """Whether unescaped braces close, and brackets outside of them too."""
    braces = brackets = 0
    for character in re.sub(r"(?m)%.*$", "", re.sub(r"\\.", "", text)):
        braces += {"{": 1, "}": -1}.get(character, 0)
        if braces == 0:
            brackets += {"[": 1, "]": -1}.get(character, 0)
        if braces < 0 or brackets < 0:
            return False
    return braces == brackets == 0


def body(text: str) -> str:
    """The tree alone, without comment and options."""
    return text[text.index("  [, phantom") : text.index(r"  \draw")]


def test_the_main_chain_is_joined_and_prefix_trees_hang() -> None:
    text = tree_latex(weather())
    assert "(w0) -- (w1) -- (w2) -- (w3) -- (w5) -- (w6) -- (w7) -- (w8)" in text
    assert re.search(r"\{\\textbf\{schö\}\}, name=w5.*calign=last\n\s+\[\{heute\}", text)
    assert text.count("name=w") == 8
    assert "fill=blue!31" in text  # ▁Das has 90 %
    assert "fill=orange!22" in text  # ▁heute has 60 %


def test_missing_children_leave_their_place() -> None:
    assert re.findall(r"\[\{(\w)\}", body(tree_latex(full()))) == list("dbacfeg")  # parents come first
    assert re.findall(r"\[\{(\w+)\}|(phantom)\]", body(tree_latex(weather()))) == [
        ("heute", ""),
        ("", "phantom"),
    ]


@settings(max_examples=30)
@given(st.integers(0, 3), st.integers(0, 10**6))
def test_brackets_close(depth: int, seed: int) -> None:
    tree = some_tree(depth, seed)
    text = tree_latex(tree)
    assert balanced(body(text))
    assert len(re.findall(r"\[\{", body(text))) == len(tree["nodes"])


@settings(max_examples=30)
@given(st.lists(st.text(min_size=1, max_size=6), min_size=2, max_size=5))
def test_any_text_is_escaped(tokens: list[str]) -> None:
    assert balanced(body(tree_latex(chain(tokens))))


@pytest.mark.parametrize("word", SPECIAL)
def test_special_characters_stand_for_themselves(word: str) -> None:
    escaped = escape_latex(word)
    assert balanced(escaped) or word in "[]"
    assert not re.search(r"(?<!\\)[$&#%_^~]", escaped.replace(r"$\emptyset$", ""))


def test_commands_cannot_be_smuggled_in() -> None:
    text = tree_latex(chain(["<s>", r"\input{/etc/passwd}", r"}\write18{ls}", "%]]", "</s>"]))
    assert not re.search(r"\\(input|write)", text)
    assert balanced(body(text))


def test_a_document_has_everything() -> None:
    text = latex_document([("50 % & more", tree_latex(weather())), ("", tree_latex(full()))])
    assert text.startswith(r"\documentclass")
    assert r"50 \% \& more" in text
    assert text.count(r"\begin{forest}") == text.count(r"\end{forest}") == 2
    assert text.index(r"\usepackage{forest}") < text.index(r"\begin{document}")


@pytest.mark.skipif(not packages_are_there(), reason="no LaTeX with forest and standalone here")
@pytest.mark.parametrize("engine", ENGINES)
def test_it_compiles(engine: str, tmp_path: Path) -> None:
    words = ["<s>", *SPECIAL, "schön", "</s>"]
    caption = "Größe_1 (log P \u22121.5) …"
    document = latex_document([(caption, tree_latex(chain(words))), ("deep", tree_latex(full()))])
    (tmp_path / "tree.tex").write_text(document, encoding="utf-8")
    command = [engine, "-interaction=nonstopmode", "-halt-on-error", "tree.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    assert (tmp_path / "tree.pdf").stat().st_size > 1000
