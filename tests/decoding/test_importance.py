"""FlowSeq's candidates and their ranks against plain Python over a stub; estimates against the bound."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from pcfgnat.decoding import DecodingError, Importance, Request, parse_strategy, strategies_of
from pcfgnat.decoding.importance import LatentRescore, log_mean
from pcfgnat.grammar.canvas import LENGTH_CLASSES, SAME_LENGTH
from pcfgnat.networks import Batch, FlowSeqConfig, FlowSeqNetwork
from pcfgnat.nn.flow import FlowConfig
from pcfgnat.objectives import FlowSeq
from pcfgnat.objectives.flowseq import normal_noise
from pcfgnat.runtimes.base import Sources
from pcfgnat.runtimes.paired import PairedLatents
from pcfgnat.runtimes.torch import torch_runtime
from pcfgnat.structures import Padded
from tests.support.sentences import BOS, EOS, VOCABULARY, batch_of, ids, scores, sentences
from tests.support.zoo import UNDROPPED, autoregressive, flowseq

SOURCES = [[2, 5, 6, 3], [2, 4, 3], [2, 6, 6, 6, 5, 3]]
TRIED = [[4, 2, 8], [2, 4, 6], [6, 8, 4]]
WIDTH = 3


def token(noise: np.ndarray) -> int:
    """What a position emits: a word that its noise decides, or the end."""
    return [5, 6, EOS][int(10 * abs(noise.sum())) % 3]


def weight(source: Sequence[int], tokens: Sequence[int], noise: np.ndarray) -> float:
    """Some number that depends on everything."""
    return -float(len(source) + np.dot(tokens, np.abs(noise).sum(1)))


@dataclass
class StubReader:
    """Remembers the noise that it was given."""

    sources: Sources
    given: list[np.ndarray] = field(default_factory=list)
    multiple = 2
    width = WIDTH

    def length_log_probs(self) -> np.ndarray:
        found = np.full((len(self.sources), LENGTH_CLASSES), -50.0)
        for row, source in zip(found, self.sources, strict=True):
            for rank, length in enumerate(TRIED[SOURCES.index(list(source))]):
                row[length - len(source) + SAME_LENGTH] = -1.0 - rank
                row[length + 1 - len(source) + SAME_LENGTH] = -0.5  # does not exist
        return found

    def write(
        self, sentence: np.ndarray, lengths: np.ndarray, noise: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        self.given.append(noise)
        return np.zeros(noise.shape[:2]), np.array([[token(place) for place in row] for row in noise])

    def log_weights(
        self, sentence: np.ndarray, lengths: np.ndarray, tokens: np.ndarray, noise: np.ndarray
    ) -> np.ndarray:
        rows = zip(sentence.tolist(), lengths.tolist(), tokens.tolist(), noise, strict=True)
        return np.array([weight(self.sources[i], own[:n], eta[:n]) for i, n, own, eta in rows])


class StubLatents:
    """A runtime whose lengths and tokens are known."""

    max_source_length = 100
    max_latents = 20

    def __init__(self) -> None:
        self.readers: list[StubReader] = []

    def read_latents(self, sources: Sources) -> StubReader:
        self.readers.append(StubReader(sources))
        return self.readers[-1]


def plainly(
    source: Sequence[int], strategy: Importance, penalty: float
) -> list[tuple[tuple[int, ...], float]]:
    """Sentences with their scores, the best first, one after the other."""
    chance = np.random.default_rng([1, *source])
    drafts: list[tuple[int, float, list[int]]] = []
    for rank, length in enumerate(TRIED[SOURCES.index(list(source))][: strategy.lengths]):
        for sample in range(strategy.samples):
            noise = np.zeros((length, WIDTH))
            if sample:
                noise = strategy.temperature * chance.normal(size=(length, WIDTH))
            tokens = [token(place) for place in noise]
            words = tokens[: tokens.index(EOS)] if EOS in tokens else tokens
            draft = (length, -1.0 - rank, words)
            if draft not in drafts:
                drafts.append(draft)
    log_weights = [
        [
            weight(source, [*words, *[EOS] * (n - len(words))], chance.normal(size=(n, WIDTH)))
            for n, _, words in drafts
        ]
        for _ in range(strategy.estimates)
    ]
    found = []
    for (n, log_prob, words), column in zip(drafts, zip(*log_weights, strict=True), strict=True):
        mean = math.log(sum(math.exp(value) for value in column) / len(column))
        found.append((-(mean + log_prob) / n**penalty, (BOS, *words, EOS), mean + log_prob))
    unique: dict[tuple[int, ...], float] = {}
    for _, sentence, score in sorted(found):
        unique.setdefault(sentence, score)
    return list(unique.items())


@pytest.mark.parametrize("penalty", [0.0, 1.0])
@pytest.mark.parametrize(
    "strategy", [Importance(1, 1, 0.5, 1), Importance(2, 4, 0.7, 3), Importance(3, 6, 1.0, 2)], ids=repr
)
def test_candidates_and_ranks_are_those_of_plain_python(strategy: Importance, penalty: float) -> None:
    found = strategy.decode(StubLatents(), SOURCES, Request(results=99, length_penalty=penalty))
    for source, own in zip(SOURCES, found, strict=True):
        expected = plainly(source, strategy, penalty)
        assert [one.ids for one in own] == [sentence for sentence, _ in expected]
        assert [one.score for one in own] == pytest.approx([score for _, score in expected], abs=1e-9)
    first = strategy.decode(StubLatents(), SOURCES, Request(length_penalty=penalty))
    assert first == [own[:1] for own in found]


def test_the_first_latents_of_each_length_are_those_of_no_noise() -> None:
    runtime = StubLatents()
    Importance(lengths=2, samples=3).decode(runtime, SOURCES[:1], Request())
    (noise,) = runtime.readers[0].given
    assert noise.shape == (6, 4, WIDTH)
    assert [bool(row.any()) for row in noise] == [False, True, True] * 2
    assert not noise[4:, 2:].any()  # of two positions


def test_a_sweep_draws_once() -> None:
    runtime, strategy, penalties = StubLatents(), Importance(samples=4), [0.0, 1.0, 4.0]
    swept = strategy.sweep(runtime, SOURCES, Request(), penalties)
    assert len(runtime.readers) == 1
    for index, penalty in enumerate(penalties):
        alone = strategy.decode(StubLatents(), SOURCES, Request(length_penalty=penalty))
        assert [[own[index]] for own in swept] == alone
    assert any(len({one.ids for one in own}) > 1 for own in swept)


def seeded(batch: Batch) -> Batch:
    return Batch(batch.source, batch.target, 7919 * torch.arange(1, len(batch.target.lengths) + 1))


def test_weights_are_the_bound_that_training_maximises() -> None:
    network, batch = flowseq(), seeded(batch_of((5, 4), (3, 7), (6, 3)))
    assert batch.seeds is not None
    memory = network.encode(batch.source)
    filled = network.filled(batch.target)
    noise = normal_noise(batch.seeds, filled.ids.shape[1], UNDROPPED.width)
    found = network.log_weights(memory, filled, noise)
    lengths = network.length_scores(memory).log_softmax(1)
    label = filled.lengths - memory.lengths + SAME_LENGTH
    bound = -(found + lengths.gather(1, label.unsqueeze(1)).squeeze(1)).mean()
    assert_close(bound, FlowSeq(0.0, annealing=0.0).loss(network, batch, 1.0).value)
    alone = network.log_weights(
        network.encode(Padded.from_lists(batch.source.to_lists()[:1])),
        Padded.from_lists(filled.to_lists()[:1]),
        noise[:1, : int(filled.lengths[0])],
    )
    assert_close(found[:1], alone)


def test_with_the_exact_posterior_every_draw_says_the_same() -> None:
    """Tokens that ignore the latents leave the prior as posterior, and it is the standard normal one."""
    torch.manual_seed(0)
    flow = FlowConfig((1, 1), ffn=8, heads=2)
    network = FlowSeqNetwork(FlowSeqConfig(UNDROPPED, 1, 0.0, flow), VOCABULARY).double().eval()
    for layer in (network.moments, network.reader.output):
        torch.nn.init.zeros_(layer.weight)
        torch.nn.init.zeros_(layer.bias)
    batch = batch_of((5, 4), (3, 7))
    memory, filled = network.encode(batch.source), network.filled(batch.target)
    draws = [
        network.log_weights(memory, filled, torch.randn(2, filled.ids.shape[1], UNDROPPED.width).double())
        for _ in range(3)
    ]
    z = torch.zeros(2, filled.ids.shape[1], UNDROPPED.width).double()
    log_probs = network.token_log_probs(network.written(memory, z, filled.mask))
    own = log_probs.gather(2, filled.ids.unsqueeze(2)).squeeze(2)
    for found in draws:
        expected = own.masked_fill(~filled.mask, 0.0).sum(1)
        assert_close(found, expected, rtol=0, atol=1e-4)  # linear maps are orthogonal in float32


def test_a_verifier_ranks_what_latents_propose() -> None:
    reader, sources = autoregressive(), sentences(7, 4, 9)
    pair = PairedLatents(torch_runtime(flowseq()), torch_runtime(reader))  # type: ignore[arg-type]
    strategy, request = LatentRescore(samples=8, temperature=2.0), Request(results=99, length_penalty=0.0)
    found = strategy.decode(pair, sources, request)
    assert max(map(len, found)) > 2
    for source, own in zip(sources, found, strict=True):
        assert len({one.ids for one in own}) == len(own)
        assert scores([own]) == sorted(scores([own]), reverse=True)
        for one in own:
            batch = Batch(Padded.from_lists([source]), Padded.from_lists([one.ids]))
            assert one.score == pytest.approx(reader.log_prob(batch).item(), abs=1e-9)
    alone = [strategy.decode(pair, [source], request)[0] for source in sources]
    assert ids(alone) == ids(found)
    swept = strategy.sweep(pair, sources, Request(), [0.0, 1.0])
    assert [own[:1] for own in swept] == [own[:1] for own in found]
    assert strategy.decode(pair, [], request) == []
    assert (
        max(len(one.ids) for own in strategy.decode(pair, sources, Request(max_length=4)) for one in own) <= 4
    )


def test_a_pair_has_the_strategies_of_both() -> None:
    pair = PairedLatents(torch_runtime(flowseq()), torch_runtime(autoregressive()))  # type: ignore[arg-type]
    assert set(strategies_of(pair)) == {"greedy", "sample", "importance", "beam", "rescore"}
    assert parse_strategy("rescore:samples=10", pair) == LatentRescore(samples=10)


def test_means_of_logarithms() -> None:
    values = np.array([[-1000.0, 0.0, -np.inf, -np.inf], [-1000.0, -np.inf, -np.inf, 2.0]])
    expected = [-1000.0, -math.log(2), -math.inf, 2 - math.log(2)]
    assert log_mean(values).tolist() == pytest.approx(expected)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lengths": 0}, "lengths must be in 1 … 256, got 0"),
        ({"samples": 0}, "samples must be at least 1, got 0"),
        ({"temperature": 0.0}, "temperature must be positive, got 0.0"),
        ({"estimates": 0}, "estimates must be at least 1, got 0"),
    ],
)
def test_settings_beyond_their_range_are_named(settings: dict[str, float], message: str) -> None:
    with pytest.raises(DecodingError, match=f"^{message}$"):
        Importance(**settings)  # type: ignore[arg-type]
