"""Drafts that are verified: the reader's own greedy translation, whatever the drafter proposes."""

import math
from typing import Any

import numpy as np
import pytest

from pcfgnat.decoding import DecodingError, Request, Rescore, Verify, Viterbi
from pcfgnat.decoding.stepwise import GreedySteps
from pcfgnat.grammar.search import Hypothesis
from pcfgnat.networks import Batch
from pcfgnat.runtimes.base import Sources
from pcfgnat.runtimes.paired import Paired
from pcfgnat.runtimes.torch import torch_runtime
from pcfgnat.structures import Padded
from pcfgnat.structures.by_length import ByLength
from tests.decoding.test_stepwise import TableSteps, next_token
from tests.decoding.test_structured import VOCABULARY, alone, best_sentences, grammar_of
from tests.support.grammars import oracle
from tests.support.lattices import random_dag
from tests.support.sentences import EOS, ids, scores, sentences
from tests.support.zoo import autoregressive, made

LENGTHS = (7, 2, 5, 9, 3, 4, 2, 12)


def greedy(pair: Paired, sources: Sources, request: Request) -> list[list[Hypothesis]]:
    return GreedySteps().decode(pair.verifier, sources, request)


@pytest.mark.parametrize("ending", [-1.0, 1.0])
@pytest.mark.parametrize(
    "drafts",
    [
        grammar_of(6, 0, [6, 2, 4], seed=1),
        grammar_of(5, 1, [5, 3, 5], seed=2),
        grammar_of(3, 2, [3, 3, 2], seed=3),
        random_dag([7, 3, 5], VOCABULARY, scale=5.0),
    ],
    ids=["depth 0", "depth 1", "depth 2", "dag"],
)
@pytest.mark.parametrize("limit", [None, 3, (9, 2, 5)])
def test_the_translation_is_the_readers_own(
    drafts: ByLength, ending: float, limit: int | tuple[int, ...] | None
) -> None:
    pair, sources = Paired(alone(drafts, 3), TableSteps(ending)), [[11], [12], [13]]
    for penalty in (0.0, 1.0, 5.0):
        request = Request(length_penalty=penalty, max_length=limit)
        found, expected = Verify().decode(pair, sources, request), greedy(pair, sources, request)
        assert ids(found) == ids(expected)
        assert scores(found) == pytest.approx(scores(expected), abs=1e-9)
        for (one,) in found:
            written = sum(entry.accepted for entry in one.rounds) + len(one.rounds)
            ended_on_a_draft = one.rounds[-1].accepted == len(one.rounds[-1].draft)
            assert written - ended_on_a_draft == len(one.ids) - 1  # every round but that adds one token


def test_a_drafter_that_agrees_needs_one_round() -> None:
    """A reader that follows the drafter's best sentence, and one that leaves it at one place."""
    grammar = grammar_of(6, 1, seed=4)
    ((best,),) = Viterbi().decode(alone(grammar), [[5]], Request(max_length=8))
    assert len(best.ids) > 2

    class Follows(TableSteps):
        pass

    reader = Follows()
    pair = Paired(alone(grammar), reader)

    def follow(sentence: int, prefix: tuple[int, ...], ending: float = 0.0) -> np.ndarray:
        row = next_token(sentence, prefix, ending)
        if prefix == best.ids[: len(prefix)] and len(prefix) < len(best.ids):
            row[best.ids[len(prefix)]] = 5.0
        return row

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tests.decoding.test_stepwise.next_token", follow)
        ((found,),) = Verify().decode(pair, [[5]], Request(max_length=8))
    assert found.ids == best.ids
    assert [entry.accepted for entry in found.rounds] == [len(best.ids) - 1]
    assert reader.steppers[0].steps == 1


@pytest.mark.parametrize("seed", range(3))
def test_with_a_tolerance_every_token_is_about_as_good_as_the_best(seed: int) -> None:
    pair, changed = Paired(alone(grammar_of(6, 1, seed=seed)), TableSteps(-1.0)), 0
    for source in range(20):
        request = Request(max_length=9)
        ((found,),) = Verify(tolerance=0.3).decode(pair, [[source]], request)
        ((exact,),) = Verify().decode(pair, [[source]], request)
        changed += found.ids != exact.ids
        total = 0.0
        for place in range(1, len(found.ids)):
            row = next_token(source, found.ids[:place], -1.0)
            total += row[found.ids[place]]
            if place < 8:
                allowed = row[[EOS, 4, 5, 6]].max()
                assert row[found.ids[place]] >= allowed + math.log(0.3) - 1e-12
        assert found.score == pytest.approx(total, abs=1e-9)
    assert changed


@pytest.mark.parametrize("drafter", ["pcfg", "pcfg of depth 2", "dag"])
def test_networks_give_the_greedy_translation_alone_and_together(drafter: str) -> None:
    sources, request = sentences(*LENGTHS), Request()
    for seed in (0, 1):
        pair = Paired(torch_runtime(made(drafter, seed=seed)), torch_runtime(autoregressive(seed=seed)))  # type: ignore[arg-type]
        expected = greedy(pair, sources, request)
        together = Verify().decode(pair, sources, request)
        assert ids(together) == ids(expected)
        assert scores(together) == pytest.approx(scores(expected), abs=1e-9)
        alone_ = [Verify().decode(pair, [source], request)[0] for source in sources]
        assert ids(alone_) == ids(expected)
        assert [found[0].rounds for found in alone_] == [found[0].rounds for found in together]


def test_reading_and_reading_again_is_stepping() -> None:
    """Several tokens a call, behind prefixes of different lengths, are what one by one are."""
    network, draw = autoregressive(), np.random.default_rng(0)
    runtime = torch_runtime(network)
    sources = sentences(7, 3, 5)
    targets = draw.integers(4, 12, (3, 10))
    stepped = runtime.start(sources)  # type: ignore[attr-defined]
    rows = [stepped.step(targets[:, i : i + 1], None, None) for i in range(10)]
    end = np.concatenate([row.end for row in rows], 1)
    best = np.concatenate([row.tokens[:, :, 0] for row in rows], 1)
    reader = runtime.start(sources)  # type: ignore[attr-defined]
    rubbish = draw.integers(4, 12, (3, 9))
    reader.read(
        np.concatenate([targets[:, :2], rubbish], 1),
        np.concatenate([rubbish, rubbish[:, :2]], 1),
        np.zeros(3, dtype=np.int64),
    )
    kept = np.array([2, 0, 1])
    reader.read(
        np.stack([own[k : k + 4] for own, k in zip(targets, kept, strict=True)]), targets[:, :4], kept
    )
    kept = np.array([5, 3, 1])
    reader.select(np.array([2, 0, 1, 0]))
    kept, order = kept[[2, 0, 1, 0]], [2, 0, 1, 0]
    tokens = np.stack([targets[own][k : k + 5] for own, k in zip(order, kept, strict=True)])
    found = reader.read(tokens, np.full((4, 5), EOS), kept)
    for row, (own, k) in enumerate(zip(order, kept.tolist(), strict=True)):
        assert found.best[row].tolist() == best[own, k : k + 5].tolist()
        assert found.end[row].tolist() == pytest.approx(end[own, k : k + 5].tolist(), abs=1e-10)
        assert found.given_log_probs[row].tolist() == pytest.approx(found.end[row].tolist(), abs=0)


@pytest.mark.parametrize("weight", [0.0, 0.4, 1.0])
@pytest.mark.parametrize(("chain_length", "depth"), [(5, 0), (4, 1)])
def test_rescoring_equals_enumeration(chain_length: int, depth: int, weight: float) -> None:
    grammar, penalty = grammar_of(chain_length, depth, seed=7), 0.8
    pair = Paired(alone(grammar), TableSteps())
    candidates = best_sentences(oracle(grammar, 0), 6, penalty)[:9]

    def read(sentence: tuple[int, ...]) -> float:
        return math.fsum(next_token(8, sentence[:i])[sentence[i]] for i in range(1, len(sentence)))

    expected = sorted(
        ((weight * read(own) / len(own) ** penalty + (1 - weight) * value, own) for value, own in candidates),
        reverse=True,
    )
    request = Request(results=5, length_penalty=penalty, max_length=6)
    (found,) = Rescore(size=9, weight=weight, verify=False).decode(pair, [[8]], request)
    assert [one.ids for one in found] == [own for _, own in expected[:5]]
    values = [one.normalised_score(penalty) for one in found]
    assert values == pytest.approx([value for value, _ in expected[:5]], abs=1e-9)
    assert all(one.tree is not None and one.tree.tokens == one.ids for one in found)


@pytest.mark.parametrize("weight", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("penalty", [0.7, 1.2])
@pytest.mark.parametrize("size", [0, 3])
def test_drafts_on_the_way_to_the_greedy_translation_are_candidates(
    size: int, weight: float, penalty: float
) -> None:
    """Of everything that was read the best by both models is returned, also what has no tree."""
    grammar, added = grammar_of(5, 1, seed=7), 0
    request = Request(length_penalty=penalty, max_length=7)
    for source in range(12):
        pair = Paired(alone(grammar), TableSteps(-1.0))
        ((verified,),) = Verify().decode(pair, [[source]], request)
        drafted, prefix = {verified.ids}, 1
        for entry in verified.rounds:
            drafted.add((*verified.ids[:prefix], *entry.draft))
            prefix += entry.accepted + 1
        ranked = best_sentences(oracle(grammar, 0), 7, penalty)
        own = {ids: value * len(ids) ** penalty for value, ids in ranked}
        candidates = drafted | {ids for _, ids in ranked[:size]}
        added += len(candidates) > size

        def score(ids: tuple[int, ...], source: int = source, own: Any = own) -> float:
            read = math.fsum(next_token(source, ids[:i], -1.0)[ids[i]] for i in range(1, len(ids)))
            drafter = (1 - weight) * own.get(ids, -math.inf) if weight < 1 else 0.0
            return weight * read + drafter

        best = max(candidates, key=lambda ids: score(ids) / len(ids) ** penalty)
        strategy = Rescore(size, weight)
        ((found,),) = strategy.decode(pair, [[source]], request)
        assert found.ids == best
        assert found.score == pytest.approx(score(best), abs=1e-9)
        assert found.tree is None or found.tree.tokens == best
    assert added


def test_rescoring_finds_the_same_alone_and_together() -> None:
    sources = sentences(*LENGTHS)
    pair = Paired(torch_runtime(made("pcfg")), torch_runtime(autoregressive()))  # type: ignore[arg-type]
    for strategy in (Rescore(5, 0.6, verify=False), Rescore(3, 0.6)):
        together = strategy.decode(pair, sources, Request(results=3))
        alone_ = [strategy.decode(pair, [source], Request(results=3))[0] for source in sources]
        assert ids(together) == ids(alone_)
        assert scores(together) == pytest.approx(scores(alone_), abs=1e-9)
        greedy_ids = [own[0].ids for own in greedy(pair, sources, Request())]
        if strategy.verify:
            many = Rescore(size=1).decode(pair, sources, Request(results=30))
            assert all(best in [one.ids for one in own] for best, own in zip(greedy_ids, many, strict=True))


def test_all_weights_come_from_one_decoding() -> None:
    reader, sources = TableSteps(), [[8], [9], [11]]
    pair = Paired(alone(grammar_of(5, 1, [5, 4, 3], seed=7), 3), reader)
    request = Request(length_penalty=0.8, max_length=6)
    weights = (0.0, 0.3, 0.7, 1.0)
    found = Rescore(size=6, verify=False).weigh(pair, sources, request, weights)
    assert len(reader.steppers) == 1
    for place, weight in enumerate(weights):
        expected = Rescore(size=6, weight=weight, verify=False).decode(pair, sources, request)
        assert [[own[place]] for own in found] == expected
    assert any(len({one.ids for one in own}) > 1 for own in found)
    assert Rescore().weigh(pair, [], request, weights) == []


def test_networks_are_rescored_by_their_likelihood() -> None:
    reader, sources = autoregressive(), sentences(7, 2, 5)
    pair = Paired(torch_runtime(made("pcfg")), torch_runtime(reader))  # type: ignore[arg-type]
    found = Rescore(size=4, verify=False).decode(pair, sources, Request(results=4))
    assert [len(own) for own in found] == [4, 4, 4]
    for source, own in zip(sources, found, strict=True):
        batch = Batch(Padded.from_lists([source] * 4), Padded.from_lists([one.ids for one in own]))
        expected = reader.log_prob(batch).tolist()
        assert [one.score for one in own] == pytest.approx(expected, abs=1e-9)
        (single,) = Rescore(size=4, verify=False).decode(pair, [source], Request())
        assert single[0].ids == own[0].ids


def test_nothing_gives_nothing() -> None:
    pair = Paired(alone(random_dag([5], VOCABULARY), 0), TableSteps())
    for strategy in (Verify(), Rescore()):
        assert strategy.decode(Paired(torch_runtime(made("pcfg")), pair.verifier), [], Request()) == []  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (lambda: Verify(0.0), "tolerance must be above 0 and at most 1, got 0.0"),
        (lambda: Verify(1.5), "tolerance must be above 0 and at most 1, got 1.5"),
        (lambda: Rescore(size=-1), "size must be at least 0, got -1"),
        (lambda: Rescore(size=0, verify=False), "size must be at least 1 without verify, got 0"),
        (lambda: Rescore(weight=-0.1), "weight must be in 0 … 1, got -0.1"),
    ],
)
def test_impossible_settings_are_named(settings: object, message: str) -> None:
    with pytest.raises(DecodingError, match=message):
        settings()  # type: ignore[operator]
