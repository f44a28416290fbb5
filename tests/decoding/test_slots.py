"""Slots of a predicted number, behind a runtime: length candidates and what each slot emits."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np
import pytest
import torch

from pcfgnat.decoding import DecodingError, EasyFirst, MaskPredict, Request, SlotGreedy, UpdateAll
from pcfgnat.decoding.slots import BestOfLengths, SlotSample, blank_canvases, slot_hypothesis
from pcfgnat.grammar.canvas import LENGTH_CLASSES, SAME_LENGTH
from pcfgnat.networks import SlotsNetwork
from pcfgnat.runtimes.base import Sources
from pcfgnat.structures.emissions import TensorEmissions
from pcfgnat.text.special import SPECIAL_TOKENS
from tests.support.decoded import translated
from tests.support.sentences import BOS, EOS, sentences
from tests.support.zoo import made, predict_length

VOCABULARY = 7
WORDS = (4, 5, 6)
UNK = SPECIAL_TOKENS.unk


def emitted(source: Sequence[int], length: int) -> np.ndarray:
    """Log-probabilities that depend on the source and on the canvas's length."""
    scores = np.random.default_rng([*source, length]).normal(size=(length, VOCABULARY))
    normalised: np.ndarray = scores - np.log(np.exp(scores).sum(1, keepdims=True))
    return normalised


@dataclass
class GivenReader:
    """Remembers the canvases that it filled."""

    sources: Sources
    best_lengths: Sequence[Sequence[int]]
    filled: list[np.ndarray] = field(default_factory=list)

    def length_log_probs(self) -> np.ndarray:
        """Let the wanted lengths be the most probable ones, in their order."""
        found = np.full((len(self.sources), LENGTH_CLASSES), -50.0)
        for row, source, best in zip(found, self.sources, self.best_lengths, strict=True):
            for rank, length in enumerate(best):
                row[length - len(source) + SAME_LENGTH] = -1.0 - rank
        return found

    def fill(self, sentence: np.ndarray, canvas: np.ndarray, lengths: np.ndarray) -> TensorEmissions:
        self.filled.append(canvas)
        emit = np.zeros((*canvas.shape, VOCABULARY))
        for row, index, length in zip(emit, sentence.tolist(), lengths.tolist(), strict=True):
            row[:length] = emitted(self.sources[index], length)
        return TensorEmissions(torch.from_numpy(emit), 0, torch.from_numpy(lengths) - 1, SPECIAL_TOKENS)


class GivenLengths:
    """A runtime that predicts given lengths of each source, best first."""

    max_source_length = 100

    def __init__(self, *best_lengths: Sequence[int], max_canvas_length: int = 30) -> None:
        self.best_lengths, self.max_canvas_length = best_lengths, max_canvas_length
        self.readers: list[GivenReader] = []

    def read(self, sources: Sources) -> GivenReader:
        self.readers.append(GivenReader(sources, self.best_lengths))
        return self.readers[-1]


def best_of(source: Sequence[int], length: int) -> tuple[tuple[int, ...], float]:
    """Best tokens of slots, and the score of those between bos and eos."""
    table = emitted(source, length)
    ids = (BOS, *(max(WORDS, key=row.__getitem__) for row in table[1:-1]), EOS)
    return ids, sum(float(row[token]) for row, token in zip(table[1:-1], ids[1:-1], strict=True))


SOURCES = [[2, 5, 6, 3], [2, 4, 3], [2, 6, 6, 6, 5, 3]]


def test_the_most_probable_length_is_taken() -> None:
    runtime = GivenLengths([5, 4], [2, 3], [7])
    results = SlotGreedy().decode(runtime, SOURCES, Request(results=4))
    assert [len(found) for found in results] == [1, 1, 1]
    for source, (found,), length in zip(SOURCES, results, (5, 2, 7), strict=True):
        ids, score = best_of(source, length)
        assert (found.ids, found.nodes) == (ids, tuple(range(length)))
        assert found.score == pytest.approx(score, abs=1e-12)


def test_canvases_are_blank_but_for_their_ends() -> None:
    runtime = GivenLengths([5], [2], [4])
    SlotGreedy().decode(runtime, SOURCES, Request())
    (canvas,) = runtime.readers[0].filled
    assert canvas[0].tolist() == [BOS, UNK, UNK, UNK, EOS]
    assert canvas[1, :2].tolist() == [BOS, EOS]
    assert canvas[2, :4].tolist() == [BOS, UNK, UNK, EOS]
    sentence, canvas, lengths = blank_canvases([[3, 4], [2]])
    assert (sentence.tolist(), lengths.tolist()) == ([0, 0, 1], [3, 4, 2])
    assert canvas[:, 0].tolist() == [BOS] * 3


@pytest.mark.parametrize("penalty", [-1.0, 0.0, 1.0, 3.0])
def test_length_candidates_are_compared_by_score_and_length(penalty: float) -> None:
    tried = [[5, 4, 8], [4, 3, 5], [7, 6, 9]]
    runtime, request = GivenLengths(*tried), Request(results=2, length_penalty=penalty)
    results = SlotGreedy(3).decode(runtime, SOURCES, request)
    for source, found, lengths in zip(SOURCES, results, tried, strict=True):
        ranked = sorted(lengths, key=lambda n: -best_of(source, n)[1] / n**penalty)[:2]
        assert [one.ids for one in found] == [best_of(source, n)[0] for n in ranked]
        assert [one.score for one in found] == pytest.approx([best_of(source, n)[1] for n in ranked])


@pytest.mark.parametrize("weight", [0.3, 1.0, 4.0])
def test_the_probability_of_the_length_may_count_too(weight: float) -> None:
    tried = [[5, 4, 8], [4, 3, 5], [7, 6, 9]]
    results = SlotGreedy(3, length_weight=weight).decode(GivenLengths(*tried), SOURCES, Request(results=3))
    for source, found, lengths in zip(SOURCES, results, tried, strict=True):
        scores = {n: best_of(source, n)[1] - weight * (1.0 + rank) for rank, n in enumerate(lengths)}
        ranked = sorted(lengths, key=lambda n: -scores[n] / n)
        assert [len(one.ids) for one in found] == ranked
        assert [one.score for one in found] == pytest.approx([scores[n] for n in ranked])


def test_the_probability_of_a_length_decides_in_the_end() -> None:
    tried = [[5, 4, 8], [4, 3, 5], [7, 6, 9]]
    by_tokens, by_length = (
        SlotGreedy(3, length_weight=weight).decode(GivenLengths(*tried), SOURCES, Request(length_penalty=0))
        for weight in (0.0, 100.0)
    )
    assert [len(found[0].ids) for found in by_length] == [5, 4, 7]
    assert by_tokens == SlotGreedy(3).decode(GivenLengths(*tried), SOURCES, Request(length_penalty=0))
    assert [len(found[0].ids) for found in by_tokens] == [4, 3, 6]


@pytest.mark.parametrize("kind", [SlotGreedy, MaskPredict, UpdateAll, EasyFirst])
def test_settings_beyond_their_range_are_named(kind: type[BestOfLengths]) -> None:
    with pytest.raises(DecodingError, match=f"^lengths must be in 1 … {LENGTH_CLASSES}, got 257$"):
        kind(lengths=257)  # type: ignore[call-arg]
    with pytest.raises(DecodingError, match=f"^lengths must be in 1 … {LENGTH_CLASSES}, got 0$"):
        kind(lengths=0)  # type: ignore[call-arg]
    with pytest.raises(DecodingError, match=r"^length_weight must be at least 0 and finite, got nan$"):
        kind(length_weight=math.nan)
    if kind is not SlotGreedy:
        with pytest.raises(DecodingError, match=r"^iterations must be at least 1, got 0$"):
            kind(iterations=0)  # type: ignore[call-arg]


def test_repetitions_may_be_merged() -> None:
    ids = np.array([BOS, 5, 5, 4, 0, 4, 0, 0, 6, 6, 6, EOS])  # 0 is the blank
    scores = -np.arange(12.0)
    plain, merged = (slot_hypothesis(ids, scores, merge) for merge in (False, True))
    assert plain.ids == (BOS, 5, 5, 4, 4, 6, 6, 6, EOS)
    assert (merged.ids, merged.nodes) == ((BOS, 5, 4, 4, 6, EOS), (0, 1, 3, 5, 8, 11))
    assert merged.score == plain.score == -55
    runtime, long = GivenLengths([20], [20], [20]), Request()
    before, after = (SlotGreedy(merge=merge).decode(runtime, SOURCES, long) for merge in (False, True))
    for (one,), (other,) in zip(before, after, strict=True):
        assert other.ids == tuple(token for token, _ in groupby(one.ids))
        assert len(other.ids) < len(one.ids) == 20


def test_a_sweep_fills_canvases_once() -> None:
    runtime, penalties = GivenLengths([5, 4, 8], [4, 3, 5], [7, 6, 9]), [-20.0, 0.0, 1.0, 20.0]
    swept = SlotGreedy(3).sweep(runtime, SOURCES, Request(results=3), penalties)
    assert len(runtime.readers) == len(runtime.readers[0].filled) == 1
    for index, penalty in enumerate(penalties):
        expected = SlotGreedy(3).decode(runtime, SOURCES, Request(length_penalty=penalty))
        assert [[own[index]] for own in swept] == expected
    assert [len(own[0].ids) for own in swept] == [4, 3, 6]
    assert [len(own[-1].ids) for own in swept] == [8, 5, 9]


def test_lengths_are_limited_by_request_and_canvas() -> None:
    def lengths(strategy: SlotGreedy, request: Request, longest: int = 30) -> list[list[int]]:
        runtime = GivenLengths([9, 1, 5], [2, 3, 1], [40, 6, 12], max_canvas_length=longest)
        results = strategy.decode(runtime, SOURCES, request)
        return [sorted(len(one.ids) for one in found) for found in results]

    assert lengths(SlotGreedy(), Request()) == [[9], [2], [30]]
    assert lengths(SlotGreedy(), Request(), longest=8) == [[8], [2], [8]]
    assert lengths(SlotGreedy(), Request(max_length=4)) == [[4], [2], [4]]
    assert lengths(SlotGreedy(), Request(max_length=(12, 1, 3))) == [[9], [2], [3]]
    # an empty sentence is no candidate among several, and each length is tried once
    assert lengths(SlotGreedy(3), Request(results=3)) == [[3, 5, 9], [3], [6, 12, 30]]
    assert lengths(SlotGreedy(3), Request(results=3, max_length=6)) == [[3, 5, 6], [3], [6]]
    assert lengths(SlotGreedy(3), Request(results=3, max_length=2)) == [[2], [2], [2]]
    with pytest.raises(ValueError, match="max_length must have 3 limits, one per sentence, got 1"):
        lengths(SlotGreedy(), Request(max_length=(3,)))


def test_samples_come_as_often_as_they_should() -> None:
    draws, source = 3000, SOURCES[0]
    (found,) = SlotSample().decode(GivenLengths([4, 3]), [source], Request(results=draws))
    table = emitted(source, 4)
    counted = dict[tuple[int, ...], int]()
    for one in found:
        counted[one.ids] = counted.get(one.ids, 0) + 1
        assert one.score == pytest.approx(sum(table[[1, 2], one.ids[1:-1]]), abs=1e-9)
        assert one.nodes == (0, 1, 2, 3)
    chances = np.exp(table[1:3][:, WORDS])
    chances /= chances.sum(1, keepdims=True)
    for i, first in enumerate(WORDS):
        for j, second in enumerate(WORDS):
            chance = chances[0, i] * chances[1, j]
            error = math.sqrt(chance * (1 - chance) / draws)
            count = counted.pop((BOS, first, second, EOS), 0)
            assert count / draws == pytest.approx(chance, abs=4.5 * error)
    assert not counted


def test_draws_follow_from_seed_and_sentence_alone() -> None:
    def drawn(seed: int, *places: int) -> list[list[tuple[int, ...]]]:
        runtime = GivenLengths(*[[8]] * len(places))
        results = SlotSample().decode(
            runtime, [SOURCES[place] for place in places], Request(results=5, seed=seed)
        )
        return [[one.ids for one in found] for found in results]

    first, second, third = drawn(1, 0, 1, 2)
    assert drawn(1, 2, 0) == [third, first]
    assert drawn(1, 1) == [second]
    assert drawn(2, 0) != [first]
    assert len(set(first)) > 2


@pytest.mark.parametrize(
    ("label", "lengths"),
    [(SAME_LENGTH, [7, 2, 40]), (SAME_LENGTH - 3, [4, 2, 37]), (0, [2, 2, 2]), (255, [134, 129, 167])],
)
def test_networks_translate_at_the_predicted_length(label: int, lengths: list[int]) -> None:
    network = made("slots")
    assert isinstance(network, SlotsNetwork)
    assert network.length is not None
    network.length.bias.data.zero_()
    predict_length(network, label)
    results = translated(network, "greedy", sentences(7, 2, 40))
    assert [len(found[0].ids) for found in results] == lengths
