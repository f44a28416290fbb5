"""Autoregressive networks on onnxruntime: several tokens a call, rolled back, and drafts that they verify."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pcfgnat.decoding import Request, Rescore, Verify
from pcfgnat.decoding.stepwise import GreedySteps
from pcfgnat.export.onnx import ExportSettings, export_onnx
from pcfgnat.runtimes.base import Steps
from pcfgnat.runtimes.onnx import Exported, ExportedOptions, onnx_runtime
from pcfgnat.runtimes.onnx.hybrid import OnnxHybrid
from pcfgnat.runtimes.onnx.one_pass import OnnxTables
from pcfgnat.runtimes.onnx.steps import OnnxSteps
from pcfgnat.runtimes.paired import Paired
from pcfgnat.text.shortlist import Shortlist
from tests.runtimes.conftest import Exports
from tests.runtimes.models import save_model
from tests.runtimes.test_onnx import shared, sources
from tests.support.sentences import ids, scores

EOS = 3
FEW = Shortlist(np.arange(4, 20, dtype=np.uint32), np.zeros(45, np.int64), np.zeros(0, np.uint32))


def loaded(place: Path, name: str, settings: ExportSettings, exact: bool | None = None) -> Any:
    export_onnx(save_model(place / name, name), place / f"{name} exported", settings)
    return onnx_runtime(Exported.open(place / f"{name} exported"), ExportedOptions(threads=1, exact=exact))


def paired(place: Path, settings: ExportSettings, exact: bool | None = None) -> Paired:
    drafter, verifier = (loaded(place, name, settings, exact) for name in ("depth 1", "autoregressive"))
    assert isinstance(drafter, OnnxTables)
    assert isinstance(verifier, OnnxSteps)
    return Paired(drafter, verifier)


@pytest.mark.parametrize("name", ["autoregressive", "other autoregressive"])
def test_reading_equals_torch_however_it_is_cut(name: str, exports: Exports) -> None:
    torch, onnx = shared(exports, name)
    assert isinstance(torch, Steps)
    assert isinstance(onnx, OnnxSteps)
    assert onnx.max_target_length == torch.max_target_length == 25
    batch = sources()[:4]
    targets = np.random.default_rng(0).integers(4, 44, (4, 24))
    targets[:, 0] = 2
    following = np.concatenate([targets[:, 1:], np.full((4, 1), EOS)], 1)
    whole = torch.start(batch).read(targets, following, np.zeros(4, dtype=np.int64))
    reader = onnx.start(batch)
    reader.read(targets[:, :6], following[:, :6], np.zeros(4, dtype=np.int64))
    for kept in ([2, 0, 6, 3], [4, 5, 9, 2], [20, 11, 15, 7], [9, 9, 9, 9]):
        starts, parts = np.array(kept), [slice(k, k + 4) for k in kept]
        if max(kept) > 12:  # read all that is skipped
            reader.read(targets[:, :21], following[:, :21], np.zeros(4, dtype=np.int64))
        tokens, given = (
            np.stack([row[part] for row, part in zip(table, parts, strict=True)])
            for table in (targets, following)
        )
        found = reader.read(tokens, given, starts)
        for row, part in enumerate(parts):
            assert found.best[row].tolist() == whole.best[row, part].tolist()
            for ours, theirs in (
                (found.best_log_probs, whole.best_log_probs),
                (found.given_log_probs, whole.given_log_probs),
                (found.end, whole.end),
            ):
                assert ours[row].tolist() == pytest.approx(theirs[row, part].tolist(), abs=1e-3)


def test_verified_drafts_are_the_greedy_translation_alone_and_together(tmp_path: Path) -> None:
    pair, batch, request = paired(tmp_path, ExportSettings()), sources(), Request()
    expected = GreedySteps().decode(pair.verifier, batch, request)
    found = Verify().decode(pair, batch, request)
    assert ids(found) == ids(expected)
    assert scores(found) == pytest.approx(scores(expected), abs=1e-3)
    alone = [Verify().decode(pair, [source], request)[0] for source in batch]
    assert ids(alone) == ids(expected)
    assert len({len(one.rounds) for (one,) in found}) > 1


def test_with_a_shortlist_the_greedy_translation_stays_in_it(tmp_path: Path) -> None:
    pair, batch = paired(tmp_path, ExportSettings(shortlist=FEW), exact=False), sources()
    expected = GreedySteps().decode(pair.verifier, batch, Request())
    found = Verify().decode(pair, batch, Request())
    assert ids(found) == ids(expected)
    for source, (one,) in zip(batch, found, strict=True):
        assert set(one.ids[1:-1]) <= set(FEW.types(source).tolist()) < set(range(44))
    everything = GreedySteps().decode(loaded(tmp_path, "autoregressive", ExportSettings()), batch, Request())
    assert ids(everything) != ids(found)


def test_int8_translates_nearly_as_float32(tmp_path: Path) -> None:
    exact = paired(tmp_path / "exact", ExportSettings())
    quick = paired(tmp_path / "quick", ExportSettings(int8=True))
    (source,) = sources()[1:2]
    target = np.array([[2, 7, 9, 30, 12]])
    following, start = np.array([[7, 9, 30, 12, EOS]]), np.zeros(1, dtype=np.int64)
    ours, theirs = (pair.start([source]).read(target, following, start) for pair in (quick, exact))
    assert ours.given_log_probs.tolist()[0] == pytest.approx(theirs.given_log_probs.tolist()[0], abs=1.0)
    assert not np.array_equal(ours.given_log_probs, theirs.given_log_probs)
    for pair in (quick, exact):
        for strategy in (Verify(), Rescore(size=3)):
            found = strategy.decode(pair, sources(), Request())
            assert all(one.ids[0] == 2 and one.ids[-1] == EOS and one.score < 0 for (one,) in found)


@pytest.mark.parametrize("name", ["hybrid", "hybrid of a dag"])
def test_a_hybrid_encodes_once_and_gives_the_greedy_translation(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime, batch = loaded(tmp_path, name, ExportSettings()), sources()
    assert isinstance(runtime, OnnxHybrid)
    assert runtime.max_target_length == 25
    encoder, read = runtime._encoder, list[int]()

    def counted(inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        read.extend([len(inputs["source_mask"])])
        return encoder(inputs)

    expected = GreedySteps().decode(runtime, batch, Request())
    monkeypatch.setattr(runtime, "_encoder", counted)
    for strategy in (Verify(), Rescore(size=3)):
        read.clear()
        found = strategy.decode(runtime, batch, Request())
        assert sum(read) == len(batch)
        if isinstance(strategy, Verify):
            assert ids(found) == ids(expected)
            assert scores(found) == pytest.approx(scores(expected), abs=1e-3)
            assert any(len(one.rounds) > 1 for (one,) in found)
    alone = [Verify().decode(runtime, [source], Request())[0] for source in batch]
    assert ids(alone) == ids(expected)
