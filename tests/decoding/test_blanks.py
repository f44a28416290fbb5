"""Slots that may stay blank: blanks count in the score and are left out of translations, in every runtime."""

from pathlib import Path

import numpy as np
import pytest
import torch

from pcfgnat.checkpoints.checkpoint import Checkpoint, describe, save_checkpoint
from pcfgnat.checkpoints.metadata import DecodingDefaults
from pcfgnat.decoding import Request, parse_strategy
from pcfgnat.export.onnx import ExportSettings, export_onnx
from pcfgnat.grammar.search import Hypothesis
from pcfgnat.networks import CanvasIds, SlotsConfig, SlotsNetwork, inference
from pcfgnat.networks.emissions import all_emissions
from pcfgnat.networks.slots import BLANK
from pcfgnat.runtimes.onnx import Exported, ExportedOptions, onnx_runtime
from pcfgnat.runtimes.torch import torch_runtime
from pcfgnat.structures import Padded
from pcfgnat.text import SubwordTokenizer
from pcfgnat.text.shortlist import Shortlist
from pcfgnat.text.special import SPECIAL_TOKENS
from tests.runtimes.models import SMALL
from tests.support.decoded import translated
from tests.support.sentences import BOS, EOS, sentences

TOKENIZER = SubwordTokenizer("\n".join(f"w{i}" for i in range(20)).encode())
SOURCES = sentences(5, 9, 2, 12, 7, vocabulary=TOKENIZER.vocabulary_size)
NONE = np.zeros(0, dtype=np.uint32)


def half_blank() -> SlotsNetwork:
    """A network that leaves about half of its slots blank."""
    torch.manual_seed(0)
    network = SlotsNetwork(SlotsConfig(SMALL, blank=True), TOKENIZER.vocabulary_size).eval()
    with torch.no_grad():
        for weight in network.parameters():
            weight.mul_(1.7)
        network.embeddings.tokens.weight[BLANK] *= 4.0
        assert network.length is not None
        network.length.bias.copy_(-0.4 * (torch.arange(256) - 130.5).abs())
    return network


def by_hand(network: SlotsNetwork, source: list[int], size: int) -> tuple[list[int], list[int], float]:
    """The best token of every slot, by looking at all of them: what is left, where it stood, the score."""
    with inference(network):
        memory = network.encode(Padded.from_lists([source]))
        canvas = network.fill(memory, CanvasIds.blank(torch.tensor([size])))
        rows = all_emissions(network, canvas)[0].tolist()
    allowed = [v for v in range(len(rows[0])) if v not in SPECIAL_TOKENS.ids or v == BLANK]
    best = [max(allowed, key=row.__getitem__) for row in rows]
    best[0], best[-1] = BOS, EOS
    nodes = [node for node, token in enumerate(best) if token != BLANK]
    inner = list(zip(rows, best, strict=True))[1:-1]
    return [best[node] for node in nodes], nodes, sum(row[token] for row, token in inner)


def blanks(found: list[list[Hypothesis]]) -> int:
    return sum(own[0].nodes[-1] + 1 - len(own[0].ids) for own in found)


@pytest.mark.parametrize("strategy", ["greedy", "greedy:lengths=5"])
def test_blanks_are_left_out_and_their_score_counts(strategy: str) -> None:
    network = half_blank()
    results = translated(network, strategy, SOURCES, Request(results=5))
    assert blanks(results) > 5
    for source, found in zip(SOURCES, results, strict=True):
        sizes = [hypothesis.nodes[-1] + 1 for hypothesis in found]
        by_size = [hypothesis.score / size for hypothesis, size in zip(found, sizes, strict=True)]
        assert by_size == sorted(by_size, reverse=True)
        for hypothesis, size in zip(found, sizes, strict=True):
            ids, nodes, score = by_hand(network, source, size)
            assert (list(hypothesis.ids), list(hypothesis.nodes)) == (ids, nodes)
            assert hypothesis.score == pytest.approx(score, abs=1e-4)


@pytest.mark.parametrize("strategy", ["mask-predict:iterations=3", "update-all:iterations=3"])
def test_several_passes_leave_blanks_out_too(strategy: str) -> None:
    results = translated(half_blank(), strategy, SOURCES, Request(results=3))
    assert blanks(results) > 0
    for hypothesis in (hypothesis for found in results for hypothesis in found):
        assert BLANK not in hypothesis.ids
        assert hypothesis.passes[-1] == hypothesis.ids
        assert not any(BLANK in ids for ids in hypothesis.passes)


def test_draws_may_be_blank() -> None:
    results = translated(half_blank(), "sample", SOURCES, Request(results=3))
    assert blanks(results) > 0
    for hypothesis in (hypothesis for found in results for hypothesis in found):
        assert not set(hypothesis.ids[1:-1]) & set(SPECIAL_TOKENS.ids)


@pytest.mark.parametrize("exact", [True, False], ids=["exact", "shortlist"])
@pytest.mark.parametrize("strategy", ["greedy", "greedy:lengths=5", "sample"])
def test_onnxruntime_leaves_out_the_same(strategy: str, exact: bool, tmp_path: Path) -> None:
    network = half_blank()
    metadata = describe(
        "slots", network.config, TOKENIZER.vocabulary_size, DecodingDefaults(network.default_strategy)
    )
    save_checkpoint(tmp_path / "model", network, TOKENIZER, metadata)
    size = TOKENIZER.vocabulary_size
    all_words = Shortlist(np.arange(4, size, dtype=np.uint32), np.zeros(size + 1, dtype=np.int64), NONE)
    export_onnx(tmp_path / "model", tmp_path / "onnx", ExportSettings(shortlist=all_words))
    torch_side = torch_runtime(Checkpoint.open(tmp_path / "model").network())
    onnx = onnx_runtime(Exported.open(tmp_path / "onnx"), ExportedOptions(threads=1, exact=exact))
    assert (onnx.shortlist is None) == exact
    decoded = parse_strategy(strategy, onnx)
    ours, theirs = (decoded.decode(runtime, SOURCES, Request(seed=3)) for runtime in (onnx, torch_side))
    assert blanks(theirs) > 0
    assert [found[0].ids for found in ours] == [found[0].ids for found in theirs]
    assert [found[0].nodes for found in ours] == [found[0].nodes for found in theirs]
