import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pcfgnat.draw import latex_document, lattice_latex, tree_latex
from pcfgnat.draw.tikz import escape_latex
from tests.draw.trees import chain, full, some_lattice, some_tree, weather

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


def test_a_long_sentence_continues_in_further_rows() -> None:
    text = tree_latex(chain(["<s>", *["▁word"] * 40, "</s>"]))
    rows = text.split(r"\begin{forest}")[1:]
    assert len(rows) > 2
    words = [re.findall(r"name=w(\d+)", row) for row in rows]
    assert [int(word) for row in words for word in row] == list(range(42))
    assert max(map(len, words)) <= 14
    assert text.count(", ->] ([xshift") == text.count(".east) -- ++") == len(rows) - 1
    for row, names in zip(rows, words, strict=True):
        assert " -- ".join(f"(w{name})" for name in names) in row
    assert tree_latex(weather()).count(r"\begin{forest}") == 1
    with pytest.raises(ValueError, match="at least 200 wide"):
        tree_latex(weather(), page=100)


def test_lines_of_a_caption_stay_apart_and_wrap() -> None:
    text = latex_document([("The source.\n" + "Wort " * 60, tree_latex(weather()))])
    lines = [line for line in text.splitlines() if line.startswith(r"{\sffamily\small")]
    assert lines[0] == r"{\sffamily\small The source.} \\"
    assert len(lines) > 3
    assert all(r"\bfseries" in line for line in lines[1:])
    assert " ".join(lines).count("Wort") == 60


def test_a_lattice_has_its_nodes_and_arcs() -> None:
    lattice = some_lattice(2, seed=3)
    text = lattice_latex(lattice, page=2000)  # one row: no arc is cut
    nodes = re.findall(r"\\node\[box.*\{\\(normalsize|footnotesize) (.*)\};", text)
    assert len(nodes) == len(lattice["nodes"])
    assert [size == "normalsize" for size, _ in nodes] == [node["visited"] for node in lattice["nodes"]]
    arcs = re.findall(r"\\draw\[.*;", text)
    assert all(".. controls" in arc for arc in arcs)
    used = [arc for arc in arcs if "pcfgnat-muted" not in arc]
    children = [
        rule[side]
        for node in lattice["nodes"]
        for rule in node["rules"]
        if rule["chosen"]
        for side in ("left", "right")
        if rule[side] is not None
    ]
    assert len(used) == len(children)


@pytest.mark.skipif(not packages_are_there(), reason="no LaTeX with forest and standalone here")
@pytest.mark.parametrize("engine", ENGINES)
def test_it_compiles(engine: str, tmp_path: Path) -> None:
    words = ["<s>", *SPECIAL, "schön", "</s>"]
    caption = "Größe_1 (log P \u22121.5) …"
    pictures = [tree_latex(chain(words)), tree_latex(full()), lattice_latex(some_lattice(3, 5), page=300)]
    document = latex_document([(caption, picture) for picture in pictures])
    (tmp_path / "tree.tex").write_text(document, encoding="utf-8")
    command = [engine, "-interaction=nonstopmode", "-halt-on-error", "tree.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    assert (tmp_path / "tree.pdf").stat().st_size > 1000
