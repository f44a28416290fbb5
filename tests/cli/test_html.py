"""`pcfgnat translate --format html`: arguments and files are documents."""

import json
from pathlib import Path

import pytest

from pcfgnat.cli import main

Capture = pytest.CaptureFixture[str]


def test_arguments_are_documents(capsys: Capture) -> None:
    assert main(["translate", "--format", "html", "<p>Hello.</p>", "<b>Hello.</b>"]) == 0
    assert capsys.readouterr().out == "<p>Hallo.</p>\n<b>Hallo.</b>\n"


def test_a_file_is_one_document(tmp_path: Path, capsys: Capture) -> None:
    page, output = tmp_path / "page.html", tmp_path / "seite.html"
    page.write_text("<h1>Hello.</h1>\n<script>\nHello.\n</script>\n<p title='Hello.'>\n Hello.\n</p>\n")
    expected = "<h1>Hallo.</h1>\n<script>\nHello.\n</script>\n<p title='Hello.'>\n Hallo.\n</p>\n"
    assert main(["translate", "--format", "html", "--input", str(page), "--output", str(output)]) == 0
    assert output.read_text() == expected
    assert main(["translate", "--format", "html", "--input", str(page), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["text"] == expected.removesuffix("\n")


@pytest.mark.parametrize("option", ["--tree", "--results=2"])
def test_forms_of_lines_are_refused(option: str, capsys: Capture) -> None:
    assert main(["translate", "--format", "html", option, "<p>Hello.</p>"]) != 0
    assert "--format html must come without --results and --tree" in capsys.readouterr().err
