"""Token by token: beam search against the textbook, and draws against their probabilities."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from pcfgnat.decoding import Beam, Request
from pcfgnat.decoding.stepwise import Finished, GreedySteps, SampleSteps, Stepwise
from pcfgnat.grammar.search import Hypothesis
from pcfgnat.networks import Batch
from pcfgnat.nn import TransformerConfig
from pcfgnat.runtimes.base import NextTokens, Reading, Sources
from pcfgnat.structures import Padded
from pcfgnat.text.special import SPECIAL_TOKENS
from tests.support.decoded import translated
from tests.support.sentences import BOS, EOS, ids, scores, sentences
from tests.support.zoo import DEEPER, autoregressive

WORDS = (4, 5, 6)
VOCABULARY = 7
BANNED = [token for token in SPECIAL_TOKENS.ids if token != EOS]
PENALTIES = [-0.5, 0.0, 0.6, 1.0, 2.0]


def next_token(sentence: int, prefix: tuple[int, ...], ending: float = 0.0) -> np.ndarray:
    """Log-probabilities that depend on the sentence and on all that was read."""
    scores = np.random.default_rng([sentence, *prefix]).normal(size=VOCABULARY)
    scores[EOS] += ending
    normalised: np.ndarray = scores - np.log(np.exp(scores).sum())
    return normalised


class TableStepper:
    """Remembers what it read, and puts each hypothesis together from what it may see."""

    def __init__(self, sentences: list[int], ending: float) -> None:
        self.sentences, self.ending, self.steps = sentences, ending, 0
        self.read_ids: list[list[int]] = [[] for _ in sentences]

    def step(self, tokens: np.ndarray, visible: np.ndarray | None, width: int | None) -> NextTokens:
        self.steps += 1
        rows = []
        for b, new in enumerate(tokens.tolist()):
            self.read_ids[b] += new
            seen = [[True] * len(self.read_ids[b])] if visible is None else visible[b].tolist()
            prefixes = [tuple(itertools.compress(self.read_ids[b], row)) for row in seen]
            rows.append([self.scores(self.sentences[b], prefix) for prefix in prefixes])
        log_probs = np.array(rows)
        log_probs[:, :, BANNED] = -np.inf
        best = np.argsort(-log_probs, axis=2)[:, :, :width]
        return NextTokens(np.take_along_axis(log_probs, best, 2), best, log_probs[:, :, EOS])

    def read(self, tokens: np.ndarray, following: np.ndarray, kept: np.ndarray) -> Reading:
        self.steps += 1
        rows = []
        for b, new in enumerate(tokens.tolist()):
            self.read_ids[b] = [*self.read_ids[b][: kept[b]], *new]
            ends = range(int(kept[b]) + 1, int(kept[b]) + 1 + len(new))
            rows.append([self.scores(self.sentences[b], tuple(self.read_ids[b][:end])) for end in ends])
        log_probs = np.array(rows)
        log_probs[:, :, BANNED] = -np.inf
        given = np.take_along_axis(log_probs, following[:, :, None], 2)[:, :, 0]
        return Reading(log_probs.argmax(2), log_probs.max(2), given, log_probs[:, :, EOS])

    def scores(self, sentence: int, prefix: tuple[int, ...]) -> np.ndarray:
        return next_token(sentence, prefix, self.ending)

    def select(self, rows: np.ndarray) -> None:
        self.sentences = [self.sentences[i] for i in rows.tolist()]
        self.read_ids = [list(self.read_ids[i]) for i in rows.tolist()]


class TableSteps:
    """A runtime whose source `[i]` is sentence i."""

    max_source_length = 10

    def __init__(self, ending: float = 0.0, max_target_length: int = 1000) -> None:
        self.ending, self.max_target_length = ending, max_target_length
        self.steppers: list[TableStepper] = []

    def start(self, sources: Sources) -> TableStepper:
        self.steppers.append(TableStepper([source[0] for source in sources], self.ending))
        return self.steppers[-1]


def found_by(
    strategy: Stepwise | SampleSteps, numbers: list[int], request: Request
) -> list[list[Hypothesis]]:
    return strategy.decode(TableSteps(), [[number] for number in numbers], request)


def score(sentence: int, ids: tuple[int, ...], ending: float = 0.0) -> float:
    return sum(float(next_token(sentence, ids[:i], ending)[ids[i]]) for i in range(1, len(ids)))


def every_ending(sentence: int, limit: int) -> list[Finished]:
    """All sentences that fit, with their scores."""
    bodies = (body for n in range(limit - 1) for body in itertools.product(WORDS, repeat=n))
    return [Finished(ids, score(sentence, ids)) for ids in ((BOS, *body, EOS) for body in bodies)]


def textbook_beam(sentence: int, limit: int, size: int, penalty: float) -> list[Finished]:
    """Beam search over whole prefixes: no cache, no batch, no arrays."""
    going: list[tuple[float, tuple[int, ...]]] = [(0.0, (BOS,))]
    finished: list[Finished] = []
    while going and len(finished) < size:
        best_length = limit if penalty >= 0 else len(going[0][1]) + 1
        hope = going[0][0] / best_length**penalty
        if any(end.normalised_score(penalty) >= hope for end in finished):
            break
        must_end = len(going[0][1]) + 1 == limit
        allowed = (EOS,) if must_end else (EOS, *WORDS)
        ranked = sorted(
            (
                (total + float(next_token(sentence, ids)[t]), (*ids, t))
                for total, ids in going
                for t in allowed
            ),
            reverse=True,
        )
        finished += [Finished(ids, s) for s, ids in ranked[:size] if ids[-1] == EOS]
        going = [(s, ids) for s, ids in ranked if ids[-1] != EOS][:size]
    ordered = sorted(finished, key=lambda end: end.normalised_score(penalty), reverse=True)
    return ordered[:size]


def same(found: list[Hypothesis], wanted: list[Finished]) -> None:
    assert [end.ids for end in found] == [end.ids for end in wanted]
    assert [end.score for end in found] == pytest.approx([end.score for end in wanted], abs=1e-12)
    assert [end.nodes for end in found] == [tuple(range(len(end.ids))) for end in wanted]


@pytest.mark.parametrize("penalty", PENALTIES)
def test_a_beam_that_holds_everything_finds_the_best(penalty: float) -> None:
    limits = (5, 2, 4, 5, 3, 5)
    results = found_by(Beam(100), [*range(6)], Request(length_penalty=penalty, max_length=limits))
    for sentence, (limit, found) in enumerate(zip(limits, results, strict=True)):
        best = max(every_ending(sentence, limit), key=lambda end: end.normalised_score(penalty))
        same(found, [best])


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_equals_the_textbook(size: int, penalty: float) -> None:
    numbers = [*range(20)]
    limits = tuple(2 + (7 * number) % 9 for number in numbers)
    request = Request(results=size, length_penalty=penalty, max_length=limits)
    batch = found_by(Beam(size), numbers, request)
    for number, limit, found in zip(numbers, limits, batch, strict=True):
        wanted = textbook_beam(number, limit, size, penalty)
        same(found, wanted)
        same(found_by(Beam(size), [number], replace(request, max_length=limit))[0], wanted)
        fewer = found_by(Beam(size), [number], replace(request, max_length=limit, results=1))
        same(fewer[0], wanted[:1])


def test_greedy_follows_the_most_probable_token() -> None:
    for sentence in range(10):
        ids: tuple[int, ...] = (BOS,)
        while ids[-1] != EOS:
            scores = next_token(sentence, ids)
            scores[BANNED] = -math.inf
            ids = (*ids, EOS if len(ids) == 8 else int(scores.argmax()))
        for strategy in (GreedySteps(), Beam(1)):
            ((found,),) = found_by(strategy, [sentence], Request(max_length=9))
            same([found], [Finished(ids, score(sentence, ids))])


def test_results_are_ordered_well_formed_and_different() -> None:
    request = Request(results=4, length_penalty=0.7, max_length=12)
    for found in found_by(Beam(4), [*range(30)], request):
        ranks = [end.normalised_score(0.7) for end in found]
        assert ranks == sorted(ranks, reverse=True)
        assert 1 <= len({end.ids for end in found}) == len(found) <= 4
        for end in found:
            assert (end.ids[0], end.ids[-1]) == (BOS, EOS)
            assert set(end.ids[1:-1]) <= set(WORDS)
            assert len(end.ids) <= 12


def test_stops_as_soon_as_no_open_hypothesis_can_win() -> None:
    runtime = TableSteps(ending=50.0)
    ((found,),) = Beam(5).decode(runtime, [[0]], Request(results=5, max_length=100))
    assert found.ids == (BOS, EOS)
    assert runtime.steppers[0].steps == 1


def test_sentences_that_are_done_are_forgotten() -> None:
    runtime, sources = TableSteps(ending=-50.0), [[number] for number in range(8)]
    Beam(2).decode(runtime, sources, Request(max_length=(3, 3, 3, 3, 3, 3, 3, 9)))
    assert runtime.steppers[0].sentences == []
    limits = (3, 9, 9, 9, 9, 9, 9, 9)
    results = Beam(2).decode(runtime, sources, Request(max_length=limits))
    assert tuple(len(found[0].ids) for found in results) == limits
    assert runtime.steppers[1].steps == 8


def test_limits_follow_from_source_request_and_network() -> None:
    def lengths(runtime: TableSteps, request: Request) -> list[int]:
        sources = [[0], [1] * 4]
        return [len(found[0].ids) for found in GreedySteps().decode(runtime, sources, request)]

    endless = TableSteps(ending=-50.0)
    assert lengths(endless, Request()) == [12, 18]  # 2 · Lx + 10
    assert lengths(endless, Request(max_length=5)) == [5, 5]
    assert lengths(endless, Request(max_length=(2, 40))) == [2, 40]
    assert lengths(TableSteps(ending=-50.0, max_target_length=7), Request(max_length=(5, 40))) == [5, 7]
    with pytest.raises(ValueError, match="max_length must be at least 2, for bos and eos, got 1"):
        lengths(endless, Request(max_length=1))


def test_samples_come_as_often_as_they_should() -> None:
    draws = 4000
    (results,) = found_by(SampleSteps(), [3], Request(results=draws, max_length=4))
    counts: dict[tuple[int, ...], int] = {}
    for found in results:
        counts[found.ids] = counts.get(found.ids, 0) + 1
        assert found.score == pytest.approx(score(3, found.ids), abs=1e-9)
    assert sum(counts.values()) == draws
    for end in every_ending(3, 4):
        chance = probability_without_banned(3, end.ids, limit=4)
        error = math.sqrt(chance * (1 - chance) / draws)
        assert counts.get(end.ids, 0) / draws == pytest.approx(chance, abs=4 * error + 1e-9)


def probability_without_banned(sentence: int, ids: tuple[int, ...], limit: int) -> float:
    """Chance of a sample: banned tokens share out among the others, and the end comes surely at the limit."""
    chance = 1.0
    for i in range(1, min(len(ids), limit - 1)):
        allowed = np.exp(next_token(sentence, ids[:i]))
        allowed[BANNED] = 0
        chance *= float(allowed[ids[i]] / allowed.sum())
    return chance


def test_draws_follow_from_seed_and_sentence_alone() -> None:
    def draw(seed: int, *numbers: int) -> list[list[Hypothesis]]:
        return found_by(SampleSteps(), [*numbers], Request(results=3, seed=seed, max_length=9))

    assert draw(0, 1, 2) == draw(0, 1, 2)
    assert draw(0, 1, 2) != draw(1, 1, 2)
    together = draw(0, *range(12))  # sentences end at different times, and are then forgotten
    assert together == [draw(0, number)[0] for number in range(12)]
    assert len({found.ids for own in together for found in own}) > 12


@pytest.mark.parametrize("strategy", [Beam(3), GreedySteps(), SampleSteps()])
def test_no_sentences_give_no_results(strategy: Stepwise | SampleSteps) -> None:
    assert found_by(strategy, [], Request()) == []


class BrokenSteps(TableSteps):
    def start(self, sources: Sources) -> TableStepper:
        return BrokenStepper([source[0] for source in sources], 0.0)


class BrokenStepper(TableStepper):
    def scores(self, sentence: int, prefix: tuple[int, ...]) -> np.ndarray:
        return np.full(VOCABULARY, np.nan)


@pytest.mark.parametrize("strategy", [Beam(3), GreedySteps(), SampleSteps()])
def test_a_broken_network_is_named(strategy: Stepwise | SampleSteps) -> None:
    with pytest.raises(
        ValueError, match="sentence 0 has no hypothesis whose probability is a number above 0"
    ):
        strategy.decode(BrokenSteps(), [[0], [1]], Request(max_length=(5, 2)))


VARIANTS = [
    DEEPER,
    replace(DEEPER, layers_encoder=12, layers_decoder=1),
    replace(DEEPER, pre_norm=False, activation="relu", share_embeddings=False),
]


@pytest.mark.parametrize("config", VARIANTS)
@pytest.mark.parametrize("strategy", ["greedy", "beam:size=4"])
def test_networks_decode_a_batch_as_they_decode_its_sentences(
    config: TransformerConfig, strategy: str
) -> None:
    network, sources, request = autoregressive(config), sentences(7, 2, 5, 9, 3, 4, 6, 2), Request(results=4)
    together = translated(network, strategy, sources, request)
    alone = [translated(network, strategy, [source], request)[0] for source in sources]
    assert ids(together) == ids(alone)
    assert scores(together) == pytest.approx(scores(alone), abs=1e-10)


@pytest.mark.parametrize("strategy", ["greedy", "beam", "sample"])
def test_scores_are_the_network_s_own(strategy: str) -> None:
    network, sources = autoregressive(), sentences(7, 2, 5, 9)
    results = translated(network, strategy, sources, Request(results=3))
    for source, found in zip(sources, results, strict=True):
        targets = Padded.from_lists([hypothesis.ids for hypothesis in found])
        batch = Batch(Padded.from_lists([source] * len(found)), targets)
        assert scores([found]) == pytest.approx(network.log_prob(batch).tolist(), abs=1e-10)
        for hypothesis in found:
            assert 2 <= len(hypothesis.ids) <= 2 * len(source) + 10
            assert hypothesis.nodes == tuple(range(len(hypothesis.ids)))


@pytest.mark.parametrize("penalty", PENALTIES)
def test_a_network_s_best_sentence_is_found_by_a_beam_that_holds_everything(penalty: float) -> None:
    limit = 6
    bodies = [b for n in range(limit - 1) for b in itertools.product(WORDS, repeat=n)]
    targets = [[BOS, *body, EOS] for body in bodies]
    request = Request(length_penalty=penalty, max_length=limit)
    for seed in range(3):
        network = autoregressive(vocabulary=VOCABULARY, seed=seed)
        source = sentences(5, vocabulary=VOCABULARY, seed=seed)[0]
        batch = Batch(Padded.from_lists([source] * len(targets)), Padded.from_lists(targets))
        log_probs = network.log_prob(batch).tolist()
        ranks = [score / len(t) ** penalty for score, t in zip(log_probs, targets, strict=True)]
        best = max(range(len(targets)), key=ranks.__getitem__)
        ((found,),) = translated(network, f"beam:size={len(targets)}", [source], request)
        assert list(found.ids) == targets[best]
        assert found.score == pytest.approx(log_probs[best], abs=1e-10)


def test_networks_write_no_more_than_they_can_read() -> None:
    network, sources = autoregressive(), sentences(7, 5)
    network.embeddings.tokens.weight.data[EOS] = -10  # sentences go on and on
    for limit in (2, 3, 9):
        for found in translated(network, "beam", sources, Request(results=5, max_length=limit)):
            assert {len(hypothesis.ids) for hypothesis in found} <= {*range(2, limit + 1)}
    short = autoregressive(replace(DEEPER, max_positions=7))
    for found in translated(short, "beam", sources, Request(results=5, max_length=100)):
        assert max(len(hypothesis.ids) for hypothesis in found) <= 8
