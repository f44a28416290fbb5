"""Networks on onnxruntime against the torch networks that they were exported from."""

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pcfgnat.checkpoints.checkpoint import Checkpoint
from pcfgnat.checkpoints.metadata import CheckpointError
from pcfgnat.decoding import Request, Strategy, parse_strategy, strategies_of
from pcfgnat.export.onnx import ExportSettings, export_onnx
from pcfgnat.grammar.search import Hypothesis
from pcfgnat.runtimes.base import Frames, Runtime, Slots, Steps, Tables
from pcfgnat.runtimes.machine import available_cores
from pcfgnat.runtimes.onnx import ONNX_RUNTIMES, Exported, ExportedOptions, OnnxRuntime, onnx_runtime
from pcfgnat.runtimes.torch import torch_runtime
from pcfgnat.text.shortlist import Shortlist
from tests.runtimes.conftest import Exports
from tests.runtimes.models import MODELS, save_model
from tests.support.unchecked import shapes_unchecked

LENGTHS = (3, 9, 4, 9, 24, 1, 5, 5, 12)
# with other settings than the default, where a strategy has any
STRATEGIES = {
    "pcfg": (
        "viterbi",
        "joint-viterbi",
        "lookahead",
        "greedy",
        "sample",
        "mbr:size=3",
        "mbr:size=4,draw=true",
    ),
    "dag": ("viterbi", "joint-viterbi", "lookahead", "greedy", "sample", "mbr:size=3"),
    "ctc": ("greedy", "beam:size=4", "sample"),
    "slots": ("greedy", "greedy:lengths=5", "sample", "mask-predict", "update-all:iterations=3"),
    "cmlmc": ("greedy:lengths=5", "sample", "mask-predict:iterations=3", "update-all:iterations=4"),
    "imputer": (
        "greedy",
        "beam:size=4",
        "sample",
        "imputation:iterations=3",
        "imputation:iterations=4,blocks=true",
    ),
    "disco": (
        "greedy:lengths=5",
        "sample",
        "mask-predict:iterations=4",
        "update-all:iterations=3",
        "easy-first",
    ),
    "autoregressive": ("beam:size=3", "greedy", "sample"),
    "hybrid": (
        "viterbi",
        "joint-viterbi",
        "lookahead",
        "mbr:size=3",
        "beam:size=3",
        "greedy",
        "sample",
        "verify",
        "rescore:size=3,weight=0.7",
    ),
}


def sources(types: int = 44) -> list[list[int]]:
    draw = random.Random(1)
    return [[2, *(draw.randrange(4, types) for _ in range(n - 2)), 3][:n] for n in LENGTHS]


def on_onnx(directory: Path, options: ExportedOptions | None = None) -> OnnxRuntime:
    return onnx_runtime(Exported.open(directory), options)


def both(place: Path, name: str, types: int = 40) -> tuple[Runtime, OnnxRuntime]:
    """A network of torch, and what was exported of it."""
    checkpoint = save_model(place / "model", name, types)
    export_onnx(checkpoint, place / "onnx")
    return torch_runtime(Checkpoint.open(checkpoint).network()), on_onnx(place / "onnx")


def shared(exports: Exports, name: str) -> tuple[Runtime, OnnxRuntime]:
    """The same, of what other tests use as well."""
    checkpoint, exported = exports(name)
    return torch_runtime(Checkpoint.open(checkpoint).network()), on_onnx(exported)


def assert_same(found: list[list[Hypothesis]], expected: list[list[Hypothesis]]) -> None:
    for ours, theirs in zip(found, expected, strict=True):
        assert [h.ids for h in ours] == [h.ids for h in theirs]
        assert [h.nodes for h in ours] == [h.nodes for h in theirs]
        assert [h.passes for h in ours] == [h.passes for h in theirs]
        assert [h.score for h in ours] == pytest.approx([h.score for h in theirs], abs=1e-3)
        for own, other in zip(ours, theirs, strict=True):
            assert (own.tree is None) == (other.tree is None)
            if own.tree is not None and other.tree is not None:
                assert own.tree.rule_log_probs == pytest.approx(other.tree.rule_log_probs, abs=1e-3)
                assert own.tree.token_log_probs == pytest.approx(other.tree.token_log_probs, abs=1e-3)


def assert_alike(strategy: Strategy, found: list[list[Hypothesis]], expected: list[list[Hypothesis]]) -> None:
    """The same; of what is drawn, one sentence may differ whose random number fell between two roundings."""
    if strategy.draws:
        differing = [i for i, (a, b) in enumerate(zip(found, expected, strict=True)) if _ids(a) != _ids(b)]
        assert len(differing) <= 1
        kept = [i for i in range(len(found)) if i not in differing]
        found, expected = [found[i] for i in kept], [expected[i] for i in kept]
    assert_same(found, expected)


def _ids(hypotheses: list[Hypothesis]) -> list[tuple[int, ...]]:
    return [hypothesis.ids for hypothesis in hypotheses]


@shapes_unchecked()
@pytest.mark.parametrize("name", MODELS)
def test_translations_are_those_of_torch(name: str, exports: Exports) -> None:
    torch, onnx = shared(exports, name)
    assert onnx.max_source_length == torch.max_source_length == 24
    assert strategies_of(onnx) == strategies_of(torch)
    asked = STRATEGIES[MODELS[name][0]]
    assert {text.partition(":")[0] for text in asked} == set(strategies_of(onnx))
    several = Request(length_penalty=0.8, results=3, seed=2), [ids for ids in sources() if len(ids) < 9]
    one = Request(max_length=7, length_penalty=1.5), sources()
    for text in asked:
        strategy = parse_strategy(text, onnx)
        for request, batch in (several, one):
            expected = strategy.decode(torch, batch, request)
            assert_alike(strategy, strategy.decode(onnx, batch, request), expected)
            some = range(len(batch)) if request.results > 1 else (1, 4)  # of length 9 and the longest
            alone = [strategy.decode(onnx, [batch[place]], request)[0] for place in some]
            assert_alike(strategy, alone, [expected[place] for place in some])
        penalties = (0.0, 1.0, 2.0)
        swept = strategy.sweep(torch, several[1], Request(), penalties)
        assert all(len(row) == 3 for row in swept)
        assert_alike(strategy, strategy.sweep(onnx, several[1], Request(), penalties), swept)
        assert strategy.decode(onnx, [], Request()) == []


@pytest.mark.parametrize(
    "name", ["depth 0", "depth 1", "depth 2", "dag", "ctc", "slots", "cmlmc", "imputer", "disco"]
)
def test_draws_vary_with_the_seed_alone(name: str, exports: Exports) -> None:
    torch, onnx = shared(exports, name)
    strategy, batch = parse_strategy("sample", onnx), sources()
    first = strategy.decode(onnx, batch, Request(results=4, seed=5))
    assert_same(strategy.decode(onnx, batch[::-1], Request(results=4, seed=5))[::-1], first)
    assert_alike(strategy, strategy.decode(torch, batch, Request(results=4, seed=5)), first)
    other = strategy.decode(onnx, batch, Request(results=4, seed=6))
    assert _ids(other[4]) != _ids(first[4])
    assert len(set(_ids(first[4]))) == 4


def test_length_candidates_differ_from_the_one_that_is_most_probable(exports: Exports) -> None:
    """Or the lengths of slots would not be compared at all."""
    _, onnx = shared(exports, "slots")
    several = parse_strategy("greedy:lengths=5", onnx)
    found = several.decode(onnx, sources(), Request(results=5))
    assert {len(own) for own in found} >= {5}
    single = parse_strategy("greedy", onnx).decode(onnx, sources(), Request(results=5))
    assert {len(own) for own in single} == {1}
    swept = several.sweep(onnx, sources(), Request(), (0.0, 5.0))
    assert any(len(short.ids) < len(long.ids) for short, long in swept)


def test_a_vocabulary_of_several_blocks(tmp_path: Path) -> None:
    torch, onnx = both(tmp_path, "depth 1", types=4500)
    batch, viterbi = sources(4504), parse_strategy("viterbi", onnx)
    expected = viterbi.decode(torch, batch, Request())
    assert max(max(h.ids) for (h,) in expected) > 2100  # beyond the first block
    assert_same(viterbi.decode(onnx, batch, Request()), expected)


@pytest.mark.parametrize("name", ["depth 2", "dag"])
def test_lattices_are_those_of_torch(name: str, exports: Exports) -> None:
    torch, onnx = shared(exports, name)
    assert isinstance(torch, Tables)
    assert isinstance(onnx, Tables)
    ((_, ours),), ((_, theirs),) = (runtime.grammars([sources()[1]]) for runtime in (onnx, torch))
    one, other = ours.lattice(0, 4), theirs.lattice(0, 4)
    assert (one.kind, one.prefix_depth) == (other.kind, other.prefix_depth)
    np.testing.assert_array_equal(one.top_ids, other.top_ids)
    np.testing.assert_allclose(one.top_log_probs, other.top_log_probs, atol=2e-3)
    np.testing.assert_allclose(one.chain, other.chain, atol=5e-3)
    used = slice(1, -1)  # root and last node have no prefix tree
    np.testing.assert_allclose(one.prefix[used], other.prefix[used], atol=5e-3)


def chances(runtime: Runtime, batch: list[list[int]]) -> list[np.ndarray]:
    """Probabilities of all rules and tokens that a runtime can tell of."""
    found: list[np.ndarray] = []
    if isinstance(runtime, Tables):
        for group, grammars in runtime.grammars(batch):
            for place in range(len(group)):
                scores = grammars.lattice(place, 44)
                nodes = np.arange(grammars.framing.first_node, grammars.support(place).num_nodes - 1)
                found += [scores.chain, scores.prefix[1:-1], grammars.emissions.log_probs(place, nodes)]
    elif isinstance(runtime, Frames):
        found += [slots.log_probs() for _, frames in runtime.frames(batch) for slots in frames]
    elif isinstance(runtime, Steps):
        stepper, tokens = runtime.start(batch), np.array([[2, 9, 20, 31]] * len(batch))
        for place in range(4):
            following = stepper.step(tokens[:, place : place + 1], None, None)
            by_token = np.empty_like(following.log_probs)
            np.put_along_axis(by_token, following.tokens, following.log_probs, 2)
            found.append(by_token)
        reading = runtime.start(batch).read(
            tokens, tokens[:, ::-1].copy(), np.zeros(len(batch), dtype=np.int64)
        )
        found += [reading.best_log_probs, reading.end]
    else:
        assert isinstance(runtime, Slots)
        reader = runtime.read(batch)
        canvas = np.array([[2, 1, 9, 1, 3]] * len(batch))
        filled = reader.fill(np.arange(len(batch)), canvas, np.full(len(batch), 5))
        found += [reader.length_log_probs(), *(filled.log_probs(i, np.arange(5)) for i in range(len(batch)))]
    return [np.exp(scores.astype(np.float64)).ravel() for scores in found]


@pytest.mark.parametrize("name", MODELS)
def test_int8_is_close(name: str, exports: Exports) -> None:
    """Of weights that are not blown up: what is drawn at random has no redundancy, and so rounding shows."""
    checkpoint, exported = exports(name, int8=True, factor=1.0)
    onnx, torch = on_onnx(exported), torch_runtime(Checkpoint.open(checkpoint).network())
    assert onnx.metadata.precision == "int8"
    batch = [ids for ids in sources() if len(ids) == 9]  # which are run together, and so in one order
    ours, theirs = (np.concatenate(chances(runtime, batch)) for runtime in (onnx, torch))
    assert np.abs(ours - theirs).sum() < 0.05 * theirs.sum()
    assert np.abs(ours - theirs).max() < 0.06
    assert np.corrcoef(ours, theirs)[0, 1] > 0.998


@shapes_unchecked()
@pytest.mark.parametrize("name", MODELS)
def test_int8_does_not_depend_on_neighbours(name: str, exports: Exports) -> None:
    runtime, batch = on_onnx(exports(name, int8=True, factor=1.0)[1]), sources()
    decode = next(iter(strategies_of(runtime).values()))().decode
    alone = [decode(runtime, [ids], Request())[0] for ids in batch]
    assert_same(decode(runtime, batch, Request()), alone)


@pytest.mark.parametrize(
    ("name", "strategy", "int8"),
    [
        ("depth 1", "viterbi", False),
        ("depth 1", "viterbi", True),
        ("ctc", "beam", True),
        ("slots", "greedy", False),
        ("autoregressive", "beam", True),
    ],
)
def test_a_shortlist_keeps_to_its_types(name: str, strategy: str, tmp_path: Path, int8: bool) -> None:
    save_model(tmp_path / "model", name)
    few = Shortlist(np.array([7, 9], np.uint32), np.zeros(45, np.int64), np.zeros(0, np.uint32))
    everything = replace(few, frequent=np.arange(4, 44, dtype=np.uint32))
    for kind, shortlist in (("few", few), ("all", everything)):
        export_onnx(tmp_path / "model", tmp_path / kind, ExportSettings(int8, shortlist))
    batch, request = sources(), Request(length_penalty=2.0)

    def decoded(kind: str, exact: bool | None) -> list[list[Hypothesis]]:
        runtime = on_onnx(tmp_path / kind, ExportedOptions(exact=exact))
        return parse_strategy(strategy, runtime).decode(runtime, batch, request)

    exact = decoded("all", True)
    assert_same(decoded("all", None), exact)  # nobody has said what it costs, so it is not used by itself
    assert_same(decoded("all", False), exact)
    for source, (best,) in zip(batch, decoded("few", False), strict=True):
        assert set(best.ids) <= {2, 3, 7, 9, *source}


@pytest.mark.parametrize("name", ["depth 1", "ctc", "slots"])
def test_what_cannot_be_asked_for(name: str, exports: Exports) -> None:
    _, onnx = shared(exports, name)
    greedy = parse_strategy("greedy", onnx)
    with pytest.raises(ValueError, match=r"ids must be in 0 … 43, got 2 … 44"):
        greedy.decode(onnx, [[2, 44, 3]], Request())
    with pytest.raises(ValueError, match=r"ids must be in 0 … 43, got -1 … 3"):
        greedy.decode(onnx, [[2, -1, 3]], Request())
    with pytest.raises(ValueError, match=r"a source must have 1 … 24 tokens, got 25"):
        greedy.decode(onnx, [[4] * 25], Request())
    with pytest.raises(ValueError, match=r"a source must have 1 … 24 tokens, got 0"):
        greedy.decode(onnx, [[2, 3], []], Request())
    with pytest.raises(ValueError, match=r"must be one of .* for this model, got 'dream'"):
        parse_strategy("dream", onnx)


def test_what_cannot_be_exported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    teacher = save_model(tmp_path / "teacher", "autoregressive")
    with monkeypatch.context() as patch:
        patch.delitem(ONNX_RUNTIMES, "autoregressive")
        expected = r"onnxruntime runs pcfg, dag, .* networks, but .*teacher is of kind autoregressive"
        with pytest.raises(CheckpointError, match=expected):
            export_onnx(teacher, tmp_path / "onnx")
    assert not (tmp_path / "onnx").exists()
    export_onnx(save_model(tmp_path / "ctc", "ctc"), tmp_path / "onnx")
    with pytest.raises(CheckpointError, match="has no shortlist"):
        on_onnx(tmp_path / "onnx", ExportedOptions(exact=False))
    few = Shortlist(np.array([7], np.uint32), np.zeros(9, np.int64), np.zeros(0, np.uint32))
    with pytest.raises(CheckpointError, match="vocabulary must be 44, got 8 of the shortlist"):
        export_onnx(tmp_path / "ctc", tmp_path / "other", ExportSettings(shortlist=few))


def test_threads_are_cores_or_what_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert available_cores() == 3
    for unset in ("", "0", "many"):
        monkeypatch.setenv("OMP_NUM_THREADS", unset)
        assert available_cores() >= 1
