"""Generated documents are up to date."""

import re
from pathlib import Path

import pytest

from pcfgnat import structures
from tools import api_reference, screenshots


def test_the_api_reference_is_up_to_date() -> None:
    written = api_reference.DOCUMENT.read_text(encoding="utf-8")
    assert written == api_reference.page(), "run python -m tools.api_reference"


def test_the_api_reference_has_all_distributions() -> None:
    page = api_reference.page()
    for name in ("RHPCFG", "DAG", "CTC", "Independent", "RuleScores", "Padded", "SupportTree"):
        assert name in structures.__all__
        assert re.search(rf"^### `{name}`", page, re.MULTILINE)
    assert "log_prob(target: Padded) -> Float[Tensor, 'B']" in page


def test_a_missing_name_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    chapters = (("Graphs", "structures/dag.py", ("Tree",)),)
    monkeypatch.setattr(api_reference, "CHAPTERS", chapters)
    with pytest.raises(ValueError, match=r"pcfgnat.structures.dag must define Tree"):
        api_reference.page()


def test_pictures_are_drawn_by_the_commands_that_the_page_shows(tmp_path: Path) -> None:
    commands = screenshots.drawing_commands(tmp_path)
    shown = re.findall(r"\]\(pictures/([\w.-]+)\)", screenshots.PAGE.read_text(encoding="utf-8"))
    assert [Path(command[-1]).name for command in commands] == shown
    assert all(command[0] == "draw" for command in commands)
