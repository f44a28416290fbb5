"""Slots that collapse, behind a runtime: against every alignment, and draws against their chances."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcfgnat.decoding import CollapsedBeam, Request, Strategy
from pcfgnat.decoding.collapse import CollapsedSample, Slotwise
from pcfgnat.grammar.canvas import Framing
from pcfgnat.grammar.prefix_beam import aligned
from pcfgnat.networks.ctc import BLANK
from pcfgnat.runtimes.base import Sources
from pcfgnat.structures import Padded, backend
from pcfgnat.text.special import SPECIAL_TOKENS
from tests.support.decoded import translated
from tests.support.lattices import random_ctc
from tests.support.oracle_lattices import CTCOracle
from tests.support.sentences import BOS, EOS, sentences
from tests.support.zoo import made

VOCABULARY = 7
BANNED = [token for token in SPECIAL_TOKENS.ids if token != BLANK]


@dataclass(frozen=True)
class GivenSlots:
    scores: np.ndarray  # -inf where not allowed

    def best(self) -> tuple[np.ndarray, np.ndarray]:
        return self.scores.max(1), self.scores.argmax(1)

    def log_probs(self) -> np.ndarray:
        return self.scores


class GivenFrames:
    """A runtime whose groups of sources, and what they are run to, are given."""

    max_source_length = 100
    framing = Framing(ends=False, blank=BLANK)

    def __init__(self, *groups: tuple[list[int], list[np.ndarray]]) -> None:
        self.groups = groups

    def frames(self, sources: Sources) -> Iterator[tuple[Sequence[int], Sequence[GivenSlots]]]:
        for group, scores in self.groups:
            yield group, [GivenSlots(own) for own in scores]


def slots_of(count: int, seed: int = 0) -> np.ndarray:
    scores = np.random.default_rng(seed).normal(size=(count, VOCABULARY))
    scores -= np.log(np.exp(scores).sum(1, keepdims=True))
    scores[:, BANNED] = -np.inf
    return scores


def alone(*scores: np.ndarray) -> GivenFrames:
    return GivenFrames(([*range(len(scores))], [*scores]))


def first_slots(position: Sequence[int], tokens: int) -> tuple[int, ...]:
    return tuple(list(position).index(i) for i in range(tokens))


@pytest.mark.parametrize("seed", range(5))
def test_greedy_is_the_best_alignment(seed: int) -> None:
    scores = slots_of(4, seed)
    score, ids, position = max(CTCOracle(scores.tolist(), BLANK).alignments())
    ((found,),) = Slotwise().decode(alone(scores), [[5]], Request(results=3))
    assert found.ids == (BOS, *ids, EOS)
    assert found.score == pytest.approx(score, abs=1e-12)
    assert found.nodes == (-1, *first_slots(position, len(ids)), -1)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("limit", [2, 3, 4, 9])
def test_a_wide_beam_finds_the_best_sentence_that_fits(seed: int, limit: int) -> None:
    scores = slots_of(4, seed)
    found_by_hand = CTCOracle(scores.tolist(), BLANK)
    chances = {ids: score for ids, score in found_by_hand.sentences().items() if len(ids) + 2 <= limit}
    best = max(chances, key=chances.__getitem__)
    ((found,),) = CollapsedBeam(10_000).decode(alone(scores), [[5]], Request(max_length=limit))
    assert found.ids == (BOS, *best, EOS)
    assert found.score == pytest.approx(chances[best], abs=1e-10)
    _, position = found_by_hand.of(list(best))[0]
    assert found.nodes == (-1, *first_slots(position, len(best)), -1)


def test_without_a_limit_a_beam_writes_at_most_twice_as_many_tokens_as_the_source_has() -> None:
    scores = np.full((8, VOCABULARY), -np.inf)
    scores[np.arange(8), 4 + np.arange(8) % 2] = 0.0  # eight tokens, no doubt
    scores[:, BLANK] = -5.0
    found = CollapsedBeam().decode(alone(scores, scores, scores), [[5], [5] * 3, [5] * 9], Request())
    assert [len(own[0].ids) for own in found] == [2, 6, 10]


@given(st.integers(1, 6), st.integers(0, 10**6), st.data())
def test_aligned_is_the_argmax_of_the_posterior(slots: int, seed: int, data: st.DataObject) -> None:
    ctc = random_ctc([slots], vocabulary=4, seed=seed)
    ids = tuple(data.draw(st.lists(st.integers(1, 3), max_size=slots)))
    repeats = sum(left == right for left, right in pairwise(ids))
    if len(ids) + repeats > slots:
        return
    found = aligned(ctc.log_probs[0].numpy(), ids, ctc.blank)
    for kind in ("numba", "reference"):
        with backend(kind):
            posterior = ctc.posterior(Padded.from_lists([ids]))
            position = posterior.argmax().position[0].tolist()
        assert found == first_slots(position, len(ids))


STRATEGIES = [Slotwise(), CollapsedBeam(3), CollapsedSample()]


@pytest.mark.parametrize("strategy", STRATEGIES, ids=repr)
def test_groups_are_put_back_into_order(strategy: Strategy) -> None:
    scores = [slots_of(count, count) for count in (4, 6, 3, 5)]
    runtime = GivenFrames(([3, 0], [scores[3], scores[0]]), ([2, 1], [scores[2], scores[1]]))
    sources, limits = [[5], [6], [7], [8]], (6, 5, 3, 4)
    found = strategy.decode(runtime, sources, Request(results=2, max_length=limits))
    for index, source in enumerate(sources):
        request = Request(results=2, max_length=limits[index])
        assert [found[index]] == strategy.decode(alone(scores[index]), [source], request)


def test_samples_come_as_often_as_they_should() -> None:
    draws, scores = 4000, slots_of(3)
    (found,) = CollapsedSample().decode(alone(scores), [[5]], Request(results=draws))
    share = np.exp(scores).sum(1).prod()  # what is left when nothing banned is emitted
    chances: dict[tuple[int, ...], float] = {}
    for score, ids, _ in CTCOracle(scores.tolist(), BLANK).alignments():
        chances[ids] = chances.get(ids, 0.0) + math.exp(score) / share
    counted: dict[tuple[int, ...], int] = {}
    for one in found:
        ids = one.ids[1:-1]
        counted[ids] = counted.get(ids, 0) + 1
        assert one.score <= CTCOracle(scores.tolist(), BLANK).of(list(ids))[0][0] + 1e-9
    for ids, chance in chances.items():
        error = math.sqrt(chance * (1 - chance) / draws)
        assert counted.get(ids, 0) / draws == pytest.approx(chance, abs=4.5 * error + 1e-9)


def test_a_drawn_score_is_that_of_the_drawn_alignment() -> None:
    scores = np.full((3, VOCABULARY), -np.inf)
    scores[0, 4], scores[1, 4], scores[2, BLANK] = -0.5, -0.25, -2.0  # nothing else can be drawn
    ((found,),) = CollapsedSample().decode(alone(scores), [[5]], Request())
    assert (found.ids, found.nodes) == ((BOS, 4, EOS), (-1, 0, -1))
    assert found.score == pytest.approx(-2.75)


@pytest.mark.parametrize("strategy", ["greedy", "beam", "sample"])
def test_bos_and_eos_are_added_but_not_emitted(strategy: str) -> None:
    for found in translated(made("ctc"), strategy, sentences(7, 4), Request(results=5)):
        for hypothesis in found:
            assert (hypothesis.ids[0], hypothesis.ids[-1]) == (BOS, EOS)
            assert (hypothesis.nodes[0], hypothesis.nodes[-1]) == (-1, -1)
            assert list(hypothesis.nodes[1:-1]) == sorted(set(hypothesis.nodes[1:-1]) - {-1})
            assert BLANK not in hypothesis.ids


@pytest.mark.parametrize("limit", [2, 3, 4, 6])
def test_a_limited_beam_counts_bos_and_eos(limit: int) -> None:
    network, sources = made("ctc"), sentences(9, 12)
    free = translated(network, "beam", sources)
    assert max(len(found[0].ids) for found in free) > 6
    limited = translated(network, "beam", sources, Request(max_length=limit))
    assert all(len(found[0].ids) <= limit for found in limited)
