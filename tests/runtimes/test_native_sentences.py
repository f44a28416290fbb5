"""Whole sentences in one call of a kernel, against the same step by step; with shortlists and without."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pcfgnat.decoding import Request
from pcfgnat.decoding.rescore import read_rows
from pcfgnat.decoding.stepwise import GreedySteps, Stepwise, length_limits
from pcfgnat.decoding.structured import limited_grammars
from pcfgnat.decoding.verify import _in_rounds, _started, reading_limits, verified
from pcfgnat.export.onnx import ExportSettings, export_onnx
from pcfgnat.grammar.search import Verified
from pcfgnat.runtimes.base import Drafts, DraftsVerifier, GreedyWriter, Tables, Verifying
from pcfgnat.runtimes.exported import Exported
from pcfgnat.runtimes.exported_runtime import ExportedOptions
from pcfgnat.runtimes.native import native_runtime
from pcfgnat.runtimes.native.emissions import NativeEmissions
from pcfgnat.runtimes.output import Emissions
from pcfgnat.text.shortlist import Shortlist
from tests.runtimes.models import save_model
from tests.runtimes.test_native import GRAMMARS, HYBRIDS, MILD, STEPWISE, sources

TYPES = 44


def random_shortlist() -> Shortlist:
    draw = np.random.default_rng(5)
    offsets = 6 * np.arange(TYPES + 1)
    candidates = draw.integers(4, TYPES, offsets[-1]).astype(np.uint32)
    return Shortlist(np.array([5, 9, 30], np.uint32), offsets, candidates)


@pytest.fixture(scope="module")
def listed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where models with a shortlist are exported to."""
    return tmp_path_factory.mktemp("listed")


def loaded(listed: Path, name: str, exact: bool) -> object:
    place = listed / name.replace(" ", "_")
    if not place.exists():
        save_model(place / "model", name, factor=MILD)
        export_onnx(place / "model", place / "onnx", ExportSettings(True, random_shortlist()))
    return native_runtime(Exported.open(place / "onnx"), ExportedOptions(1, exact=exact))


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("name", STEPWISE)
def test_greedy_search_in_one_call(listed: Path, name: str, exact: bool) -> None:
    native = loaded(listed, name, exact)
    assert isinstance(native, GreedyWriter)
    for request in (Request(), Request(max_length=7)):
        step_by_step = [found[0] for found in Stepwise.decode(GreedySteps(), native, sources(), request)]
        found = [found[0] for found in GreedySteps().decode(native, sources(), request)]
        assert [one.ids for one in found] == [one.ids for one in step_by_step]
        assert [one.score for one in found] == pytest.approx([one.score for one in step_by_step], abs=1e-4)
        alone = [GreedySteps().decode(native, [source], request)[0][0] for source in sources()]
        assert [one.ids for one in alone] == [one.ids for one in found]
        assert [one.score for one in alone] == [one.score for one in found]
    limits = length_limits(native.max_target_length, sources(), Request(max_length=7))
    assert all(len(one.ids) <= limit for one, limit in zip(found, limits, strict=True))
    assert GreedySteps().decode(native, [], Request()) == []


def assert_alike(found: Verified, expected: Verified) -> None:
    assert found.ids == expected.ids
    assert found.rounds == expected.rounds
    assert found.score == pytest.approx(expected.score, abs=1e-4)
    assert found.tree_score == pytest.approx(expected.tree_score, abs=1e-4)
    assert [one.given for one in found.read] == [one.given for one in expected.read]
    for part in ("score", "tree_score"):
        values = [[getattr(one, part) for one in own.read] for own in (found, expected)]
        assert values[0] == pytest.approx(values[1], abs=1e-4)


@pytest.mark.parametrize("tolerance", [1.0, 0.3])
@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("name", HYBRIDS)
def test_drafts_are_verified_in_one_call(
    listed: Path, name: str, exact: bool, tolerance: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    native = loaded(listed, name, exact)
    assert isinstance(native, Drafts)
    monkeypatch.setattr("pcfgnat.runtimes.native.verified.AT_ONCE", 2)
    how = Verifying(1.3, -math.log(tolerance))
    for request in (Request(length_penalty=1.3), Request(length_penalty=1.3, max_length=5)):
        reader, limits = native.read_drafts(sources()), reading_limits(native, sources(), request)
        assert isinstance(reader, DraftsVerifier)
        asked = replace(request, max_length=limits)
        groups = list(limited_grammars(reader.grammars(), sources(), asked))
        expected = _in_rounds(_started(groups, limits, how.length_penalty), reader.start(), how.slack)
        whole = verified(reader, groups, limits, replace(how, whole=True))
        for one, other in zip(whole, expected, strict=True):
            assert_alike(one, other)
        for one, other in zip(verified(reader, groups, limits, how), whole, strict=True):
            assert (one.ids, one.rounds, one.read) == (other.ids, other.rounds, ())
            assert one.score == pytest.approx(other.score, abs=1e-5)


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("name", HYBRIDS)
def test_candidates_are_read_at_once(listed: Path, name: str, exact: bool) -> None:
    native = loaded(listed, name, exact)
    assert isinstance(native, Drafts)
    some = sources()[:3]
    reader = native.read_drafts(some)
    assert isinstance(reader, DraftsVerifier)
    first, second = [2, 7, 9, 12, 5, 3], [2, 8, 8, 30, 31, 3]
    texts = np.array([first, [2, 7, 9, 13, 3, 0], second, [2, 7, 3, 0, 0, 0], first])
    lengths = np.array([6, 5, 6, 3, 6])
    for index in range(3):
        found = reader.score(index, texts, lengths)
        stepper = native.start(some)
        expected = read_rows(stepper, np.full(5, index), texts, lengths)
        assert found == pytest.approx(expected, abs=1e-4)
        assert found[0] == found[4]


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("name", GRAMMARS)
def test_several_tokens_of_each_node(listed: Path, name: str, exact: bool) -> None:
    native = loaded(listed, name, exact)
    assert isinstance(native, Tables)
    for _, grammars in native.grammars(sources()):
        emissions = grammars.emissions
        assert isinstance(emissions, NativeEmissions)
        plain = Emissions(
            emissions.layer, emissions.states, emissions.lengths, emissions.first, emissions.types
        )
        scores, tokens = plain.everywhere()
        best, ids = emissions.everywhere()
        assert (ids == tokens).all()
        assert best[np.isfinite(best)] == pytest.approx(scores[np.isfinite(scores)], abs=1e-5)
        for index, length in enumerate(emissions.lengths.tolist()):
            wanted = np.array([3, 9, 17, 2, 40])
            found, expected = (one.columns(index, wanted)[:length] for one in (emissions, plain))
            assert (np.isneginf(found) == np.isneginf(expected)).all()
            finite = np.isfinite(found)
            assert found[finite] == pytest.approx(expected[finite], abs=0.1)  # one of them is rounded
            assert_leading(emissions, plain, index, length)


def assert_leading(emissions: NativeEmissions, plain: Emissions, index: int, length: int) -> None:
    few, many = emissions.leading(index, 3), emissions.leading(index, 99)
    most = TYPES - 4 if emissions.types is None else len(emissions.types[index])
    assert few.shape == (emissions.states.shape[1], min(3, most))
    assert many.shape[1] == most
    inner = slice(plain.first + 1, length - 1)
    assert (few[inner] == many[inner, :3]).all()
    assert (few[inner, 0] == emissions.everywhere()[1][index, inner]).all()
    assert (few[plain.first, 0], few[length - 1, 0]) == (2, 3)
    allowed = set(range(4, TYPES)) if emissions.types is None else set(emissions.types[index].tolist())
    for node in range(plain.first + 1, length - 1):
        assert set(many[node].tolist()) == allowed
        scores = emissions.columns(index, many[node])[node]
        assert (np.diff(scores) <= 1e-5).all()
