"""The engine against the torch models that it was exported from."""

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pcfgnat.checkpoints.checkpoint import Checkpoint, CheckpointError
from pcfgnat.export.onnx import ExportSettings, export_onnx
from pcfgnat.grammar.lattice import HasLattice
from pcfgnat.runtimes.onnx import Engine, OnnxOptions
from pcfgnat.runtimes.onnx.sessions import available_cores
from pcfgnat.structures import Hypothesis, Padded, Search
from pcfgnat.text.shortlist import Shortlist
from tests.runtimes.models import NETWORKS, save_model

LENGTHS = (3, 9, 4, 9, 24, 1, 5, 5, 12)


def sources(types: int = 44) -> list[list[int]]:
    draw = random.Random(1)
    return [[2, *(draw.randrange(4, types) for _ in range(n - 2)), 3][:n] for n in LENGTHS]


def assert_same(found: list[list[Hypothesis]], expected: list[list[Hypothesis]]) -> None:
    for ours, theirs in zip(found, expected, strict=True):
        assert [h.ids for h in ours] == [h.ids for h in theirs]
        assert [h.nodes for h in ours] == [h.nodes for h in theirs]
        assert [h.score for h in ours] == pytest.approx([h.score for h in theirs], abs=1e-3)
        for own, other in zip(ours, theirs, strict=True):
            assert (own.tree is None) == (other.tree is None)
            if own.tree is not None and other.tree is not None:
                assert own.tree.rule_log_probs == pytest.approx(other.tree.rule_log_probs, abs=1e-3)
                assert own.tree.token_log_probs == pytest.approx(other.tree.token_log_probs, abs=1e-3)


@pytest.mark.parametrize("name", [name for name in NETWORKS if name != "vanilla"])
def test_translations_are_those_of_torch(name: str, tmp_path: Path) -> None:
    model = Checkpoint.open(save_model(tmp_path / "model", name)).model()
    export_onnx(tmp_path / "model", tmp_path / "engine")
    engine = Engine.load(tmp_path / "engine")
    assert (engine.max_source_length, engine.default_search) == (24, model.default_search)
    batch = sources()
    for strategy in engine.strategies:
        assert strategy in model.strategies
        for search in (
            Search(strategy, length_penalty=0.8, results=3),
            Search(strategy, max_length=7, length_penalty=1.5),
        ):
            expected = model.translate(Padded.from_lists(batch), search)
            assert_same(engine.translate(batch, search), expected)
            assert_same([engine.translate([ids], search)[0] for ids in batch], expected)
        penalties = (0.0, 1.0, 2.0)
        swept = model.sweep(Padded.from_lists(batch), Search(strategy), penalties)
        assert_same(engine.sweep(batch, Search(strategy), penalties), swept)
    assert engine.translate([], Search(engine.strategies[0])) == []


def test_a_vocabulary_of_several_blocks(tmp_path: Path) -> None:
    model = Checkpoint.open(save_model(tmp_path / "model", "depth 1", types=4500)).model()
    export_onnx(tmp_path / "model", tmp_path / "engine")
    batch = sources(4504)
    search = Search("viterbi")
    expected = model.translate(Padded.from_lists(batch), search)
    assert max(max(h.ids) for (h,) in expected) > 2100  # beyond the first block
    assert_same(Engine.load(tmp_path / "engine").translate(batch, search), expected)


@pytest.mark.parametrize("name", ["depth 2", "dag"])
def test_lattices_are_those_of_torch(name: str, tmp_path: Path) -> None:
    model = Checkpoint.open(save_model(tmp_path / "model", name)).model()
    export_onnx(tmp_path / "model", tmp_path / "engine")
    engine = Engine.load(tmp_path / "engine")
    assert isinstance(model, HasLattice)
    ours, theirs = (found.lattice_scores(sources()[1], 4) for found in (engine, model))
    assert (ours.kind, ours.prefix_depth) == (theirs.kind, theirs.prefix_depth)
    np.testing.assert_array_equal(ours.top_ids, theirs.top_ids)
    np.testing.assert_allclose(ours.top_log_probs, theirs.top_log_probs, atol=2e-3)
    np.testing.assert_allclose(ours.chain, theirs.chain, atol=5e-3)
    used = slice(1, -1)  # root and last node have no prefix tree
    np.testing.assert_allclose(ours.prefix[used], theirs.prefix[used], atol=5e-3)


@pytest.mark.parametrize("int8", [False, True])
def test_a_shortlist_keeps_to_its_types(tmp_path: Path, int8: bool) -> None:
    save_model(tmp_path / "model", "depth 1")
    few = Shortlist(np.array([7, 9], np.uint32), np.zeros(45, np.int64), np.zeros(0, np.uint32))
    everything = replace(few, frequent=np.arange(4, 44, dtype=np.uint32))
    batch, search = sources(), Search("viterbi", length_penalty=2.0)
    for name, shortlist in (("few", few), ("all", everything)):
        export_onnx(tmp_path / "model", tmp_path / name, ExportSettings(int8, shortlist))
    exact = Engine.load(tmp_path / "all", OnnxOptions(exact=True)).translate(batch, search)
    # nobody has said what it costs, so it is not used by itself
    assert_same(Engine.load(tmp_path / "all").translate(batch, search), exact)
    if not int8:  # whose rounding depends on what is looked at together
        assert_same(Engine.load(tmp_path / "all", OnnxOptions(exact=False)).translate(batch, search), exact)
    for source, (best,) in zip(
        batch, Engine.load(tmp_path / "few", OnnxOptions(exact=False)).translate(batch, search), strict=True
    ):
        assert set(best.ids) <= {2, 3, 7, 9, *source}


def test_what_cannot_be_exported_or_asked_for(tmp_path: Path) -> None:
    save_model(tmp_path / "vanilla", "vanilla")
    with pytest.raises(CheckpointError, match=r"the engine runs pcfg, dag or ctc .*is of kind vanilla"):
        export_onnx(tmp_path / "vanilla", tmp_path / "engine")
    assert not (tmp_path / "engine").exists()
    export_onnx(save_model(tmp_path / "ctc", "ctc"), tmp_path / "engine")
    engine = Engine.load(tmp_path / "engine")
    with pytest.raises(ValueError, match="strategy must be one of greedy, got 'beam'"):
        engine.translate(sources(), Search("beam"))
    with pytest.raises(ValueError, match=r"ids must be in 0 … 43, got 2 … 44"):
        engine.translate([[2, 44, 3]], Search("greedy"))
    with pytest.raises(ValueError, match=r"a source must have 1 … 24 tokens, got 25"):
        engine.translate([[4] * 25], Search("greedy"))
    with pytest.raises(ValueError, match="a lattice needs a model whose nodes are joined by rules"):
        engine.lattice_scores([2, 3], 1)
    with pytest.raises(CheckpointError, match="has no shortlist"):
        Engine.load(tmp_path / "engine", OnnxOptions(exact=False))
    few = Shortlist(np.array([7], np.uint32), np.zeros(9, np.int64), np.zeros(0, np.uint32))
    with pytest.raises(CheckpointError, match="vocabulary must be 44, got 8 of the shortlist"):
        export_onnx(tmp_path / "ctc", tmp_path / "other", ExportSettings(shortlist=few))


def test_threads_are_cores_or_what_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert available_cores() == 3
    for unset in ("", "0", "many"):
        monkeypatch.setenv("OMP_NUM_THREADS", unset)
        assert available_cores() >= 1
