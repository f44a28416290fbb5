from pathlib import Path

import pytest

from pcfgnat.text import duplicates
from pcfgnat.text.duplicates import BYTES_EACH, DuplicateFinder
from tests.text.bilingual import sentences


@pytest.mark.parametrize("shares", [1, 7])
def test_the_first_one_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shares: int) -> None:
    monkeypatch.setattr(duplicates, "BLOCK", 100)
    pairs = [
        *sentences(300, seed=1),
        *sentences(100, seed=2)[::-1],
        *sentences(300, seed=1)[100:],
        ("a", "b"),
    ]
    pairs += [("a ", "\tb"), ("b", "a"), ("a b", ""), ("a", "b")]
    seen: set[tuple[str, str]] = set()
    expected = []
    for source, target in pairs:
        expected.append((source.strip(), target.strip()) in seen)
        seen.add((source.strip(), target.strip()))
    with DuplicateFinder(tmp_path, memory=len(pairs) * BYTES_EACH // shares) as finder:
        finder.add(pairs[:250])
        finder.add(pairs[250:])
        assert finder.found().tolist() == expected
    assert sum(expected) >= 200
    assert list(tmp_path.iterdir()) == []


def test_no_pairs(tmp_path: Path) -> None:
    with DuplicateFinder(tmp_path) as finder:
        assert finder.found().tolist() == []
