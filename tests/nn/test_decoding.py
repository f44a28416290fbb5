import itertools
import math

import pytest
import torch
from torch import Tensor

from pcfgnat.nn import BeamSearch, Ends, Finished, Sampling, Stepper, Strategy, decode

FIRST, LAST, BANNED = 0, 1, 2
ENDS = Ends(FIRST, LAST, (BANNED, FIRST))
WORDS = (3, 4, 5)
VOCABULARY = 6
PENALTIES = [-0.5, 0.0, 0.6, 1.0, 2.0]


def next_token(sentence: int, prefix: tuple[int, ...], ending: float = 0.0) -> Tensor:
    """Log-probabilities that depend on the sentence and on all that was read."""
    generator = torch.Generator().manual_seed(hash((sentence, prefix)) % 2**40)
    scores = torch.randn(VOCABULARY, dtype=torch.float64, generator=generator)
    scores[LAST] += ending
    return scores.log_softmax(0)


class TableStepper(Stepper):
    """Remembers what it read, and puts each hypothesis together from what it may see."""

    def __init__(self, sentences: list[int], ending: float = 0.0) -> None:
        self.device = torch.device("cpu")
        self.sentences, self.ending, self.steps = sentences, ending, 0
        self.read: list[list[int]] = [[] for _ in sentences]

    def step(self, tokens: Tensor, visible: Tensor | None) -> Tensor:
        self.steps += 1
        rows = []
        for b, new in enumerate(tokens.tolist()):
            self.read[b] += new
            seen = [[True] * len(self.read[b])] if visible is None else visible[b].tolist()
            prefixes = [tuple(itertools.compress(self.read[b], row)) for row in seen]
            rows.append(torch.stack([next_token(self.sentences[b], p, self.ending) for p in prefixes]))
        return torch.stack(rows)

    def select(self, rows: Tensor) -> None:
        self.sentences = [self.sentences[i] for i in rows.tolist()]
        self.read = [list(self.read[i]) for i in rows.tolist()]


def score(sentence: int, ids: tuple[int, ...], ending: float = 0.0) -> float:
    return sum(float(next_token(sentence, ids[:i], ending)[ids[i]]) for i in range(1, len(ids)))


def every_ending(sentence: int, limit: int) -> list[Finished]:
    """All sentences that fit, with their scores."""
    bodies = (body for n in range(limit - 1) for body in itertools.product(WORDS, repeat=n))
    return [Finished(ids, score(sentence, ids)) for ids in ((FIRST, *body, LAST) for body in bodies)]


def textbook_beam(sentence: int, limit: int, search: BeamSearch) -> list[Finished]:
    """Beam search over whole prefixes: no cache, no batch, no tensors."""
    going: list[tuple[float, tuple[int, ...]]] = [(0.0, (FIRST,))]
    finished: list[Finished] = []
    while going and len(finished) < search.size:
        best_length = limit if search.length_penalty >= 0 else len(going[0][1]) + 1
        hope = going[0][0] / best_length**search.length_penalty
        if any(end.normalised_score(search.length_penalty) >= hope for end in finished):
            break
        must_end = len(going[0][1]) + 1 == limit
        allowed = (LAST,) if must_end else (LAST, *WORDS)
        ranked = sorted(
            (
                (total + float(next_token(sentence, ids)[t]), (*ids, t))
                for total, ids in going
                for t in allowed
            ),
            reverse=True,
        )
        finished += [Finished(ids, s) for s, ids in ranked[: search.size] if ids[-1] == LAST]
        going = [(s, ids) for s, ids in ranked if ids[-1] != LAST][: search.size]
    ordered = sorted(finished, key=lambda end: end.normalised_score(search.length_penalty), reverse=True)
    return ordered[: search.size]


def same(found: list[Finished], wanted: list[Finished]) -> None:
    assert [end.ids for end in found] == [end.ids for end in wanted]
    assert [end.score for end in found] == pytest.approx([end.score for end in wanted], abs=1e-12)


@pytest.mark.parametrize("length_penalty", PENALTIES)
def test_a_beam_that_holds_everything_finds_the_best(length_penalty: float) -> None:
    limits = [5, 2, 4, 5, 3, 5]
    results = decode(TableStepper([*range(6)]), limits, BeamSearch(100, length_penalty), ENDS)
    for sentence, (limit, found) in enumerate(zip(limits, results, strict=True)):
        best = max(every_ending(sentence, limit), key=lambda end: end.normalised_score(length_penalty))
        same(found[:1], [best])


@pytest.mark.parametrize("length_penalty", PENALTIES)
@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_equals_the_textbook(size: int, length_penalty: float) -> None:
    search, sentences = BeamSearch(size, length_penalty), [*range(20)]
    limits = [2 + (7 * sentence) % 9 for sentence in sentences]
    batch = decode(TableStepper(sentences), limits, search, ENDS)
    for sentence in sentences:
        wanted = textbook_beam(sentence, limits[sentence], search)
        same(batch[sentence], wanted)
        same(decode(TableStepper([sentence]), [limits[sentence]], search, ENDS)[0], wanted)


def test_greedy_follows_the_most_probable_token() -> None:
    for sentence in range(10):
        ids: tuple[int, ...] = (FIRST,)
        while ids[-1] != LAST:
            scores = next_token(sentence, ids)
            scores[[FIRST, BANNED]] = -math.inf
            ids = (*ids, LAST if len(ids) == 8 else int(scores.argmax()))
        ((found,),) = decode(TableStepper([sentence]), [9], BeamSearch(1, 1.0), ENDS)
        assert found.ids == ids
        assert found.score == pytest.approx(score(sentence, ids), abs=1e-12)


def test_results_are_ordered_well_formed_and_different() -> None:
    for found in decode(TableStepper([*range(30)]), [12] * 30, BeamSearch(4, 0.7), ENDS):
        ranks = [end.normalised_score(0.7) for end in found]
        assert ranks == sorted(ranks, reverse=True)
        assert 1 <= len({end.ids for end in found}) == len(found) <= 4
        for end in found:
            assert (end.ids[0], end.ids[-1]) == (FIRST, LAST)
            assert set(end.ids[1:-1]) <= set(WORDS)
            assert len(end.ids) <= 12


def test_stops_as_soon_as_no_open_hypothesis_can_win() -> None:
    stepper = TableStepper([0], ending=50.0)
    ((found,),) = decode(stepper, [100], BeamSearch(5, 1.0), ENDS)
    assert found.ids == (FIRST, LAST)
    assert stepper.steps == 1


def test_sentences_that_are_done_are_forgotten() -> None:
    stepper = TableStepper([*range(8)], ending=-50.0)
    decode(stepper, [3, 3, 3, 3, 3, 3, 3, 9], BeamSearch(2, 1.0), ENDS)
    assert stepper.sentences == []
    stepper = TableStepper([*range(8)], ending=-50.0)
    limits = [3, 9, 9, 9, 9, 9, 9, 9]
    results = decode(stepper, limits, BeamSearch(2, 1.0), ENDS)
    assert [len(found[0].ids) for found in results] == limits
    assert stepper.steps == 8


def test_samples_come_as_often_as_they_should() -> None:
    draws = 4000
    generator = torch.Generator().manual_seed(0)
    results = decode(TableStepper([3] * draws), [4] * draws, Sampling(generator), ENDS)
    counts: dict[tuple[int, ...], int] = {}
    for (found,) in results:
        counts[found.ids] = counts.get(found.ids, 0) + 1
        assert found.score == pytest.approx(score(3, found.ids), abs=1e-9)
    for end in every_ending(3, 4):
        chance = probability_without_banned(3, end.ids, limit=4)
        error = math.sqrt(chance * (1 - chance) / draws)
        assert counts.get(end.ids, 0) / draws == pytest.approx(chance, abs=4 * error + 1e-9)


def probability_without_banned(sentence: int, ids: tuple[int, ...], limit: int) -> float:
    """Chance of a sample: banned tokens share out among the others, and the end comes surely at the limit."""
    chance = 1.0
    for i in range(1, min(len(ids), limit - 1)):
        allowed = next_token(sentence, ids[:i]).exp()
        allowed[[FIRST, BANNED]] = 0
        chance *= float(allowed[ids[i]] / allowed.sum())
    return chance


def test_the_generator_decides() -> None:
    def draw(seed: int) -> list[list[Finished]]:
        return decode(TableStepper([1, 2]), [9, 9], Sampling(torch.Generator().manual_seed(seed)), ENDS)

    assert draw(0) == draw(0)
    assert draw(0) != draw(1)


@pytest.mark.parametrize("strategy", [BeamSearch(3, 1.0), Sampling()])
def test_no_sentences_give_no_results(strategy: Strategy) -> None:
    assert decode(TableStepper([]), [], strategy, ENDS) == []


class BrokenStepper(TableStepper):
    def step(self, tokens: Tensor, visible: Tensor | None) -> Tensor:
        return super().step(tokens, visible) * math.nan


def test_a_broken_network_is_named() -> None:
    with pytest.raises(
        ValueError, match="sentence 0 has no hypothesis whose probability is a number above 0"
    ):
        decode(BrokenStepper([0, 1]), [5, 2], BeamSearch(3, 1.0), ENDS)
