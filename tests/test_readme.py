"""What the documents say must be so."""

import argparse
import re
import runpy
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from pcfgnat.cli import _parser, main

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted(
    str(path.relative_to(ROOT))
    for pattern in ("*.md", "docs/**/*.md", "src/pcfgnat/*/rhpcfg/README.md")
    for path in ROOT.glob(pattern)
)


def read(document: str) -> str:
    return (ROOT / document).read_text(encoding="utf-8")


def blocks(document: str) -> Iterator[tuple[str, str]]:
    """Language and text of every fenced block."""
    for match in re.finditer(r"^```(\w*)\n(.*?)^```$", read(document), re.MULTILINE | re.DOTALL):
        yield match.group(1), match.group(2)


def examples() -> list[tuple[str, str]]:
    """Python blocks of the README, each with the output that follows it."""
    found = list(blocks("README.md"))
    return [
        (text, output if kind == "text" else "")
        for (language, text), (kind, output) in zip(found, [*found[1:], ("", "")], strict=True)
        if language == "python"
    ]


def commands() -> list[tuple[str, str]]:
    """Every `pcfgnat …` in a shell block or an example of `--help`, with the document that has it."""
    texts = [(document, text) for document in DOCUMENTS for kind, text in blocks(document) if kind == "sh"]
    texts += [(name, parser.epilog) for name, parser in _subparsers().items() if parser.epilog]
    found = []
    for place, text in texts:
        for line in text.replace("\\\n", " ").splitlines():
            line = re.sub(r"\s+\(.*\)$|\s{2,}on a running cluster$", "", line)  # remarks
            parts = [part.split(">")[0].strip() for part in re.split(r"&&|\|", line) if "…" not in part]
            found += [(place, part) for part in parts if re.match(r"pcfgnat [a-z]", part)]
    return found


def _subparsers() -> dict[str, argparse.ArgumentParser]:
    (action,) = (each for each in _parser()._actions if isinstance(each, argparse._SubParsersAction))
    return dict(action.choices)


def test_readme_has_an_example() -> None:
    assert examples()


@pytest.mark.parametrize(("place", "command"), commands())
def test_commands_are_understood(place: str, command: str) -> None:
    arguments = shlex.split(command, comments=True)[1:]
    options = _parser().parse_args(arguments)
    assert options.command == arguments[0], place


@pytest.mark.parametrize(("code", "output"), examples())
def test_example_prints_what_the_readme_says(
    code: str, output: str, capsys: pytest.CaptureFixture[str]
) -> None:
    exec(compile(code, "README.md", "exec"), {"__name__": "__main__"})
    assert capsys.readouterr().out == output


def test_the_command_draws_what_the_readme_shows(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    drawing = next(text for language, text in blocks("README.md") if language == "text")
    command, shown = drawing.split("\n", 1)
    name, *arguments = shlex.split(command.removeprefix("$ "))
    monkeypatch.setenv("COLUMNS", "100")
    assert name == "pcfgnat"
    assert main(arguments) == 0
    assert without_figures(capsys.readouterr().out) == without_figures(shown)


def without_figures(drawing: str) -> list[str]:
    """Percentages may differ by one from machine to machine."""
    return [line.rstrip() for line in drawing.strip().splitlines() if "%" not in line]


def test_the_example_of_the_grammar_runs(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(ROOT / "examples/parse_a_sentence.py"), run_name="__main__")
    assert "gonna" in capsys.readouterr().out


@pytest.mark.parametrize("document", DOCUMENTS)
def test_make_targets_exist(document: str) -> None:
    targets = set(re.findall(r"^([a-z-]+):", read("Makefile"), re.MULTILINE))
    code = re.findall(r"`([^`\n]+)`", read(document)) + [text for _, text in blocks(document)]
    named = {name for text in code for name in re.findall(r"(?:^|[\s;&])make ([a-z][a-z-]*)", text)}
    assert named <= targets
    assert named or document not in ("README.md", "CONTRIBUTING.md")


def test_makefile_help_names_every_target() -> None:
    makefile = read("Makefile")
    phony = re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    assert phony
    assert set(phony.group(1).split()) == {"help", *re.findall(r"@echo 'make ([a-z-]+)", makefile)}


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_lead_somewhere(document: str) -> None:
    for link in re.findall(r"\]\(([^)#:]+)\)", read(document)):
        assert ((ROOT / document).parent / link).exists(), link


def test_the_map_is_right() -> None:
    section = read("README.md").split("## Map")[1].split("\n## ")[0]
    paths = re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE)
    assert paths
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_the_picture_is_up_to_date() -> None:
    drawn = runpy.run_path(str(ROOT / "docs/draw_support_tree.py"))["drawing"]()
    assert drawn == read("src/pcfgnat/structures/rhpcfg/support_tree.svg")
