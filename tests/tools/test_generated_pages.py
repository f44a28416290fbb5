"""Generated documents are up to date."""

import re

import pytest

from pcfgnat import structures
from tools import api_reference


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
