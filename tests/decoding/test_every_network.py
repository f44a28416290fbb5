"""What holds for every strategy of every network, as torch runs it."""

import math
from dataclasses import replace

import pytest

from pcfgnat.decoding import Request, strategies_of
from pcfgnat.grammar.search import Hypothesis
from pcfgnat.networks import PredictedLengthNetwork, inference
from pcfgnat.networks.emissions import all_emissions, translation_distribution
from pcfgnat.runtimes.torch import torch_runtime
from pcfgnat.structures import Padded, backend
from pcfgnat.text.special import SPECIAL_TOKENS
from tests.decoding.of_networks import BY_LENGTH, PAIRS, REFINED, SEARCHES, STRATEGIES, has_tree
from tests.support.decoded import swept, translated
from tests.support.sentences import BOS, EOS, ids, scores, sentences
from tests.support.unchecked import shapes_unchecked
from tests.support.zoo import CANVAS, NAMES, any_network, made

# Shapes are checked where every strategy of every network runs once, and not where it runs often.
every_network = pytest.mark.parametrize("name", NAMES)
every_strategy = pytest.mark.parametrize(("name", "strategy"), PAIRS)
every_search = pytest.mark.parametrize(("name", "strategy"), SEARCHES)
by_length = pytest.mark.parametrize(("name", "strategy"), BY_LENGTH)
of_a_canvas = pytest.mark.parametrize(
    ("name", "strategy"),
    [pair for pair in PAIRS if pair[0] in CANVAS and pair[1] not in REFINED],
)


@every_network
def test_strategies_follow_from_what_the_runtime_offers(name: str) -> None:
    network = any_network(name)
    assert tuple(strategies_of(torch_runtime(network))) == STRATEGIES[name]
    assert network.default_strategy in STRATEGIES[name]


@shapes_unchecked()
@every_search
def test_decoding_in_a_batch_gives_what_decoding_alone_gives(name: str, strategy: str) -> None:
    network = made(name, copy_input=True) if name in CANVAS else any_network(name)
    sources = sentences(7, 2, 9, 3, 2)
    together = translated(network, strategy, sources)
    alone = [translated(network, strategy, [source])[0] for source in sources]
    assert ids(together) == ids(alone)
    assert [found[0].nodes for found in together] == [found[0].nodes for found in alone]
    assert scores(together) == pytest.approx(scores(alone), abs=1e-9)


@every_strategy
def test_translations_are_sentences(name: str, strategy: str) -> None:
    results = translated(any_network(name), strategy, sentences(7, 2, 5, 9), Request(results=3))
    assert [1 <= len(found) <= 3 for found in results] == [True] * 4
    for hypothesis in (hypothesis for found in results for hypothesis in found):
        assert (hypothesis.ids[0], hypothesis.ids[-1]) == (BOS, EOS)
        assert not set(hypothesis.ids[1:-1]) & set(SPECIAL_TOKENS.ids)
        assert len(hypothesis.nodes) == len(hypothesis.ids)
        if strategy != "rescore":  # the reader's own translation may have none
            assert (hypothesis.tree is not None) == has_tree(name, strategy)
        if hypothesis.tree is not None:
            assert hypothesis.tree.tokens == hypothesis.ids
            if strategy != "rescore":
                assert hypothesis.score == pytest.approx(hypothesis.tree.log_prob, abs=1e-12)


def ends_of(network: PredictedLengthNetwork, sources: list[list[int]]) -> list[float]:
    """Log-probability of bos and eos at the ends of each canvas, which the score of slots leaves out."""
    with inference(network):
        memory = network.encode(Padded.from_lists(sources))
        canvas = network.fill(memory, network.blank(memory, None))
        emit = all_emissions(network, canvas)
    last = (canvas.lengths - 1).tolist()
    return [float(row[0, BOS] + row[end, EOS]) for row, end in zip(emit, last, strict=True)]


@of_a_canvas
def test_scores_are_those_of_one_structure_at_most_all(name: str, strategy: str) -> None:
    network, sources = made(name), sentences(7, 2, 5, 9)
    results = translated(network, strategy, sources)
    target = network.emitted(Padded.from_lists([found[0].ids for found in results]))
    distribution = translation_distribution(network, Padded.from_lists(sources))
    totals = distribution.log_prob(target).tolist()
    best = distribution.posterior(target).argmax().score.tolist()
    ends = ends_of(network, sources) if isinstance(network, PredictedLengthNetwork) else [0.0] * 4
    found = [score + end for score, end in zip(scores(results), ends, strict=True)]
    for score, total, highest in zip(found, totals, best, strict=True):
        assert -math.inf < score <= total + 1e-9
        if strategy in ("joint-viterbi", "mbr") or (strategy == "viterbi" and name != "dag"):
            assert score == pytest.approx(highest, abs=1e-9)
        elif strategy != "beam":
            assert score <= highest + 1e-9
        if name == "slots":
            assert score == pytest.approx(total, abs=1e-9)


@shapes_unchecked()
@by_length
def test_lengths_are_limited(name: str, strategy: str) -> None:
    network, sources = made(name), sentences(7, 2, 5)
    longest = Request(length_penalty=50.0)  # score / L^β: nothing counts but the length

    def lengths(request: Request) -> list[int]:
        return [len(found[0].ids) for found in translated(network, strategy, sources, request)]

    assert lengths(longest) == [14, 4, 10]
    assert lengths(replace(longest, max_length=3)) == [3, 3, 3]
    assert lengths(replace(longest, max_length=(3, 5, 18))) == [3, 5, min(18, 15 if name == "dag" else 18)]
    with pytest.raises(ValueError, match="max_length must have 3 limits, one per sentence, got 2"):
        lengths(replace(longest, max_length=(3, 5)))
    with pytest.raises(ValueError, match="sentence 0 has no derivation of at most 1 tokens"):
        lengths(replace(longest, max_length=1))


@shapes_unchecked()
@by_length
def test_several_results_are_the_best_sentences(name: str, strategy: str) -> None:
    network, sources = made(name), sentences(7, 2, 5)
    request = Request(results=4, length_penalty=0.7)
    results = translated(network, strategy, sources, request)
    by_transitions = (name, strategy) == ("dag", "viterbi")  # of a graph the best of each length
    assert [len(found) for found in results] == [4, 3 if by_transitions else 4, 4]
    for found in results:
        values = [hypothesis.normalised_score(0.7) for hypothesis in found]
        assert values == sorted(values, reverse=True)
        assert len({hypothesis.ids for hypothesis in found}) == len(found)
    first = translated(network, strategy, sources, replace(request, results=1))
    assert [found[:1] for found in results] == first
    if not by_transitions:
        assert any(len({len(one.ids) for one in found}) < len(found) for found in results)


@shapes_unchecked()
@every_search
def test_a_sweep_translates_under_each_penalty(name: str, strategy: str) -> None:
    network, sources, penalties = any_network(name), sentences(7, 2, 5), [0.0, 1.5, 50.0]
    found = swept(network, strategy, sources, penalties, Request(results=3, length_penalty=9.0))
    for index, penalty in enumerate(penalties):
        expected = translated(network, strategy, sources, Request(length_penalty=penalty))
        assert [[sentence[index]] for sentence in found] == expected
    if (name, strategy) in [*BY_LENGTH, ("slots", "greedy:lengths=3")]:
        assert any(len(set(sentence)) > 1 for sentence in found)


@shapes_unchecked()
@every_search
def test_without_kernels_translations_are_the_same(name: str, strategy: str) -> None:
    network, sources = any_network(name), sentences(5, 2)
    native = translated(network, strategy, sources)
    with backend("reference"):
        assert ids(translated(network, strategy, sources)) == ids(native)


@shapes_unchecked()
@every_network
def test_samples_follow_from_the_seed(name: str) -> None:
    network, sources = any_network(name), sentences(7, 5)

    def draw(seed: int) -> list[list[Hypothesis]]:
        return translated(network, "sample", sources, Request(results=20, seed=seed))

    assert [len(found) for found in draw(0)] == [20, 20]
    assert draw(0) == draw(0)
    assert draw(0) != draw(1)
    assert all(len(set(found)) > 2 for found in draw(0))


@shapes_unchecked()
@every_network
def test_draws_do_not_depend_on_the_batch(name: str) -> None:
    network, sources = any_network(name), sentences(7, 2, 5, 9, 3)
    request = Request(results=5, seed=3)
    together = translated(network, "sample", sources, request)
    alone = [translated(network, "sample", [source], request)[0] for source in sources]
    assert ids(together) == ids(alone)
    assert [[one.nodes for one in found] for found in together] == [
        [one.nodes for one in found] for found in alone
    ]
    assert scores(together) == pytest.approx(scores(alone), abs=1e-9)
    backwards = translated(network, "sample", sources[::-1], request)
    assert ids(backwards[::-1]) == ids(together)


@every_network
def test_equal_sentences_are_drawn_equal_and_others_are_not(name: str) -> None:
    network = any_network(name)
    (source,) = sentences(7)
    other = [*source[:-2], 4 + (source[-2] - 3) % 8, EOS]
    first, second, third = translated(network, "sample", [source, source, other], Request(results=5))
    assert first == second
    assert ids([first]) != ids([third])


@every_network
def test_translating_leaves_training_as_it_was(name: str) -> None:
    network, sources = any_network(name).train(), sentences(7, 5)
    first = translated(network, network.default_strategy, sources)
    assert network.training
    assert network.encoder.training
    assert translated(network, network.default_strategy, sources) == first
    assert translated(network.eval(), network.default_strategy, sources) == first
    assert not network.training


@every_strategy
def test_nothing_gives_nothing(name: str, strategy: str) -> None:
    network = any_network(name)
    assert translated(network, strategy, []) == []
    assert swept(network, strategy, [], [1.0, 2.0]) == []


@shapes_unchecked()
@every_network
def test_bad_input_is_named(name: str) -> None:
    network, (source,) = any_network(name), sentences(4)
    for strategy in STRATEGIES[name]:
        with pytest.raises(ValueError, match="a sentence must have at most 40 positions, got 41"):
            translated(network, strategy, sentences(41))
        with pytest.raises(ValueError, match=r"lengths of the source must be in 1 … 4, got \[4, 0\]"):
            translated(network, strategy, [source, []])
        with pytest.raises(ValueError, match="ids must be in 0 … 11, got 2 … 12"):
            translated(network, strategy, [[BOS, 12, EOS]])
        with pytest.raises(ValueError, match="ids must be in 0 … 11, got -1 … 3"):
            translated(network, strategy, [[BOS, -1, EOS]])
    assert len(translated(network, network.default_strategy, sentences(40))) == 1
