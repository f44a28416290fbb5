"""Networks on the native kernels against the torch networks that they were exported from."""

import random
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

from pcfgnat.checkpoints.checkpoint import Checkpoint
from pcfgnat.checkpoints.metadata import CheckpointError
from pcfgnat.decoding import Request, parse_strategy
from pcfgnat.export.graph import quantise
from pcfgnat.grammar.canvas import legal_rules
from pcfgnat.grammar.decoding import Grammars
from pcfgnat.networks import Network
from pcfgnat.runtimes.base import Drafts, Runtime, Steps, Tables
from pcfgnat.runtimes.exported import WEIGHTS, Exported
from pcfgnat.runtimes.exported_runtime import ExportedOptions
from pcfgnat.runtimes.native import native_reason, native_runtime
from pcfgnat.runtimes.native.size import Size
from pcfgnat.runtimes.native.weights import PackedWeights
from pcfgnat.runtimes.torch import torch_runtime
from tests.runtimes.conftest import Exports
from tests.runtimes.models import NATIVE

LENGTHS = (3, 9, 4, 9, 24, 1, 5, 5, 12)
GRAMMARS = [name for name, (kind, _) in NATIVE.items() if kind in ("pcfg", "dag", "hybrid")]
STEPWISE = [name for name, (kind, _) in NATIVE.items() if kind in ("autoregressive", "hybrid")]
HYBRIDS = [name for name, (kind, _) in NATIVE.items() if kind == "hybrid"]
UNSCALED = ("wide depth 3", "wide plain dag")
MILD = 1.2  # opinions that 8 bits do not turn round


def sources(types: int = 44) -> list[list[int]]:
    draw = random.Random(1)
    return [[2, *(draw.randrange(4, types) for _ in range(n - 2)), 3][:n] for n in LENGTHS]


def rounded(checkpoint: Path) -> Network:
    """Return the network with weights that 8 bits hold exactly, so that only activations are rounded."""
    network = Checkpoint.open(checkpoint).network()
    with torch.no_grad():
        for name, weight in network.named_parameters():
            if weight.ndim == 2 and "positions" not in name and ".project." not in f"{name}.":
                values, scale = quantise(weight.numpy())
                weight.copy_(torch.from_numpy(values * scale[:, None]))
    return network


def both(exports: Exports, name: str) -> tuple[Runtime, Runtime]:
    checkpoint, exported = exports(name, int8=True, factor=MILD)
    return torch_runtime(rounded(checkpoint)), native_runtime(Exported.open(exported), ExportedOptions(1))


def by_index(runtime: Tables) -> dict[int, tuple[Grammars, int]]:
    return {
        index: (found, place)
        for group, found in runtime.grammars(sources())
        for place, index in enumerate(group)
    }


@pytest.mark.parametrize("name", GRAMMARS)
def test_rules_and_tokens_are_those_of_torch_but_for_rounding(exports: Exports, name: str) -> None:
    torch_, native = (by_index(runtime) for runtime in both(exports, name) if isinstance(runtime, Tables))
    tolerance = 0.25 if name in UNSCALED else 0.08  # large scores make small differences large
    for index in range(len(LENGTHS)):
        (ours, i), (theirs, j) = native[index], torch_[index]
        size, block = int(ours.chain_lengths[i]), ours.chain.shape[2]
        assert size == theirs.chain_lengths[j]
        legal = legal_rules(np.arange(size), np.arange(block), np.array([size]))[0]
        found, expected = (np.exp(g.chain[k, :size, :, :size])[legal] for g, k in ((ours, i), (theirs, j)))
        assert np.abs(found - expected).mean() < tolerance / 4
        assert np.abs(found - expected).max(initial=0) < tolerance
        sums = np.where(legal, np.exp(ours.chain[i, :size, :, :size]), 0).sum((1, 2))
        assert sums[:-1] == pytest.approx(1.0, abs=1e-4)
        inner = np.exp(ours.prefix[i, 1:size]), np.exp(theirs.prefix[j, 1:size])
        assert np.abs(inner[0] - inner[1]).max(initial=0) < tolerance
        assert_tokens_alike(ours, i, theirs, j)


def assert_tokens_alike(ours: Grammars, i: int, theirs: Grammars, j: int) -> None:
    symbols = ours.symbol_log_probs(i), theirs.symbol_log_probs(j)
    assert np.abs(np.exp(symbols[0]) - np.exp(symbols[1])).max() < 0.08
    scores, tokens = (part[i] for part in ours.best_tokens())
    own = ours.emissions.rows(i, np.arange(len(symbols[0])))  # type: ignore[attr-defined]
    assert np.isfinite(scores[1 : len(own) + 1]).all()
    best = symbols[0].argmax(1)
    agreeing = best == tokens[1 : len(best) + 1]
    gap = symbols[0].max(1) - np.take_along_axis(symbols[0], tokens[1 : len(best) + 1, None], 1)[:, 0]
    assert (agreeing | (gap < 0.15)).all()
    assert scores[1 : len(best) + 1] == pytest.approx(symbols[0].max(1), abs=0.2)


@pytest.mark.parametrize("name", STEPWISE)
def test_readings_are_those_of_torch_but_for_rounding(exports: Exports, name: str) -> None:
    torch_, native = both(exports, name)
    assert isinstance(torch_, Steps)
    assert isinstance(native, Steps)
    some = sources()[:3]
    tokens = np.array([[2, 7, 9, 12, 5], [2, 8, 8, 30, 31], [2, 20, 6, 11, 4]])
    following, kept = np.roll(tokens, -1, 1), np.zeros(3, np.int64)
    following[:, -1] = 6  # not bos, which is never expected
    readings = [runtime.start(some).read(tokens, following, kept) for runtime in (torch_, native)]
    for part in ("best_log_probs", "given_log_probs", "end"):
        first, second = (np.exp(getattr(reading, part)) for reading in readings)
        assert np.abs(first - second).max() < 0.06


@pytest.mark.parametrize("name", STEPWISE)
def test_reading_in_parts_is_reading_at_once(exports: Exports, name: str) -> None:
    native = both(exports, name)[1]
    assert isinstance(native, Steps)
    some = sources()[:2]
    tokens = np.array([[2, 7, 9, 12, 5], [2, 8, 8, 30, 31]])
    following, none = np.roll(tokens, -1, 1), np.zeros(2, np.int64)
    whole = native.start(some).read(tokens, following, none)
    parts = native.start(some)
    parts.read(tokens[:, :4], following[:, :4], none)
    ends = np.array([2, 4])  # of the first sentence, two are forgotten
    again = np.array([[9, 12, 5], [31, 4, 4]])
    found = parts.read(again, np.array([[12, 5, 2], [2, 4, 4]]), ends)
    assert found.given_log_probs[0] == pytest.approx(whole.given_log_probs[0, 2:], abs=1e-5)
    assert found.given_log_probs[1, 0] == pytest.approx(whole.given_log_probs[1, 4], abs=1e-5)
    assert found.best[0].tolist() == whole.best[0, 2:].tolist()


@pytest.mark.parametrize("name", HYBRIDS)
def test_verified_drafts_are_the_greedy_translation(exports: Exports, name: str) -> None:
    native = both(exports, name)[1]
    assert isinstance(native, Drafts)
    greedy = parse_strategy("beam:size=1", native).decode(native, sources(), Request())
    verified = parse_strategy("verify", native).decode(native, sources(), Request())
    assert [found[0].ids for found in verified] == [found[0].ids for found in greedy]


@pytest.mark.parametrize("name", NATIVE)
def test_a_translation_does_not_depend_on_its_neighbours(exports: Exports, name: str) -> None:
    native = both(exports, name)[1]
    strategy = parse_strategy("viterbi" if isinstance(native, Tables) else "beam:size=3", native)
    together = strategy.decode(native, sources(), Request())
    alone = [strategy.decode(native, [source], Request())[0] for source in sources()]
    assert [found[0].ids for found in together] == [found[0].ids for found in alone]
    scores = [found[0].score for found in alone]
    assert [found[0].score for found in together] == pytest.approx(scores, abs=1e-5)


@pytest.mark.parametrize("name", ["wide depth 1", "wide hybrid"])
def test_threads_change_nothing(exports: Exports, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pcfgnat.runtimes.native.tables.MOST_NODES", 40)  # so that there are several groups
    exported = Exported.open(exports(name, int8=True, factor=MILD)[1])
    found = []
    for threads in (1, 2):
        runtime = native_runtime(exported, ExportedOptions(threads))
        assert isinstance(runtime, Tables)
        assert len(list(runtime.grammars(sources()))) > 2
        strategy = parse_strategy("verify" if "hybrid" in name else "viterbi", runtime)
        found.append([best[0].ids for best in strategy.decode(runtime, sources(), Request())])
    assert found[0] == found[1]


def test_a_shortlist_is_looked_at_only(exports: Exports) -> None:
    native = native_runtime(Exported.open(exports("wide depth 1", int8=True, factor=MILD)[1]))
    rows = np.random.default_rng(1).normal(size=(40, 64)).astype(np.float32)
    types = np.array([5, 9, 21, 30])
    some, everything = native.output.best(rows, types), native.output.best(rows, None)
    assert set(some.token.tolist()) <= set(types.tolist())
    expected = native.output.log_probs(rows, types)
    assert some.score == pytest.approx(expected[:, 4:].max(1), abs=0.05)
    assert np.exp(some.special) == pytest.approx(np.exp(expected[:, :4]), abs=0.02)
    assert everything.score == pytest.approx(native.output.log_probs(rows, None)[:, 4:].max(1), abs=0.05)


@pytest.mark.parametrize(
    ("name", "reason"), [("depth 1", "width is 16"), ("ctc", "no kernels for ctc networks")]
)
def test_what_kernels_cannot_run_is_named(exports: Exports, name: str, reason: str) -> None:
    exported = Exported.open(exports(name, int8=True)[1])
    assert reason in str(native_reason(exported.metadata))
    with pytest.raises(CheckpointError, match=reason):
        native_runtime(exported)


def test_an_export_of_floats_is_refused(exports: Exports) -> None:
    exported = Exported.open(exports("wide depth 1")[1])
    assert "export it with --int8" in str(native_reason(exported.metadata))


@pytest.mark.parametrize("damage", ["missing", "kind", "scale", "cut", "narrow", "norm"])
def test_damaged_weights_are_refused(exports: Exports, tmp_path: Path, damage: str) -> None:
    path = tmp_path / WEIGHTS
    shutil.copy(exports("wide depth 1", int8=True)[1] / WEIGHTS, path)
    name = "encoder.layers.0.feed_forward.widen"
    tensors = load_file(path)
    if damage == "missing":
        del tensors[name]
    elif damage == "kind":
        tensors[name] = tensors[name].astype(np.int16)
    elif damage == "narrow":  # kernels would write beyond what there is room for
        for part, axis in (("", 1), (".scale", 0), (".offset", 0)):
            tensors[name + part] = np.concatenate([tensors[name + part]] * 2, axis)
    elif damage == "norm":
        tensors["encoder.norm.weight"] = tensors["encoder.norm.weight"][:8]
    elif damage == "scale":
        tensors[f"{name}.scale"] = tensors[f"{name}.scale"][1:]
    save_file(tensors, path)
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:-100])
    size = Size.of(Exported.open(exports("wide depth 1", int8=True)[1]).metadata)
    with pytest.raises(CheckpointError, match=WEIGHTS):
        _ = [PackedWeights(path, size).weights([name], 2), PackedWeights(path, size).norms(["encoder.norm"])]
