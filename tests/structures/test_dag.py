import math
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from pcfgnat.structures import (
    DAG,
    RHPCFG,
    Hypothesis,
    Padded,
    RuleScores,
    Search,
    SpecialTokens,
    backend,
)
from tests.support.grammars import random_target
from tests.support.lattices import dag_oracle, random_dag, random_transitions
from tests.support.oracle import log_sum
from tests.support.unchecked import shapes_unchecked

SPECIAL = SpecialTokens(bos=0, eos=1, pad=2, unk=3)


@pytest.fixture(params=["reference", "numba"])
def engine(request: pytest.FixtureRequest) -> Iterator[str]:
    with backend(request.param):
        yield request.param


def grammar_of(lattice: DAG) -> RHPCFG:
    """The right-heavy grammar of depth 0, with the ε symbol's row in front of the emissions."""
    batch, vertices, _ = lattice.transitions.shape
    emit = torch.cat([torch.full_like(lattice.emit[:, :1], math.nan), lattice.emit], 1)
    prefix = torch.zeros(batch, vertices, 0, dtype=emit.dtype)
    return RHPCFG(RuleScores(lattice.transitions.unsqueeze(2), prefix, emit), lattice.num_nodes)


def test_is_the_right_heavy_grammar_of_depth_0(engine: str) -> None:
    lattice, target = random_dag([7, 3, 5]), random_target([4, 3, 2])
    mine, grammar = lattice.posterior(target), grammar_of(lattice).posterior(target)
    assert_close(mine.log_partition, grammar.log_partition)
    assert_close(mine.marginals(), grammar.marginals()[:, 1:])
    assert_close(mine.entropy(), grammar.entropy())
    assert mine.num_derivations().tolist() == grammar.num_derivations().tolist()
    assert_close(mine.argmax().position, grammar.argmax().position[:, 1:])
    assert mine.best_tree() == grammar.best_tree()


@pytest.mark.parametrize(
    ("strategy", "of_the_grammar"),
    [("greedy", "greedy"), ("lookahead", "lookahead"), ("joint-viterbi", "viterbi")],
)
@pytest.mark.parametrize("special", [None, SPECIAL])
def test_decodes_like_the_grammar(
    engine: str, strategy: str, of_the_grammar: str, special: SpecialTokens | None
) -> None:
    lattice = random_dag([7, 3, 5], vocabulary=7)
    mine = lattice.mode(Search(strategy, special_tokens=special))
    grammar = grammar_of(lattice).mode(Search(of_the_grammar, special_tokens=special))
    for left, right in zip(mine, grammar, strict=True):
        assert (left.ids, left.score, left.tree) == (right.ids, right.score, right.tree)
        assert tuple(vertex + 1 for vertex in left.nodes) == right.nodes


@given(vertices=st.integers(2, 7), length=st.integers(0, 8), seed=st.integers(0, 10**6), data=st.data())
@settings(max_examples=40)
def test_equals_enumeration(vertices: int, length: int, seed: int, data: st.DataObject) -> None:
    lattice = random_dag([vertices], vocabulary=3, scale=data.draw(st.sampled_from([1.0, 20.0])), seed=seed)
    if data.draw(st.booleans()):  # some edges missing
        holes = torch.rand(lattice.transitions.shape, generator=torch.Generator().manual_seed(seed)) < 0.3
        lattice = DAG(lattice.transitions.masked_fill(holes, -math.inf), lattice.emit, lattice.num_nodes)
    target = random_target([length], vocabulary=3, seed=seed)
    structures = dag_oracle(lattice, 0).of(target.to_lists()[0])
    for name in ("reference", "numba"):
        with backend(name):
            posterior = lattice.posterior(target)
            assert float(posterior.log_partition) == pytest.approx(log_sum([s for s, _ in structures]))
            assert float(posterior.num_derivations()) == len(structures)
            if structures:
                assert float(posterior.argmax().score) == pytest.approx(structures[0][0])
                assert tuple(posterior.argmax().position[0].tolist()) == structures[0][1]


@pytest.mark.parametrize("strategy", ["viterbi", "joint-viterbi"])
@pytest.mark.parametrize("length_penalty", [0.0, 0.5, 1.0, 3.0])
@pytest.mark.parametrize("special", [None, SPECIAL])
def test_viterbi_equals_enumeration(
    engine: str, strategy: str, length_penalty: float, special: SpecialTokens | None
) -> None:
    lattice = random_dag([7, 4, 6], vocabulary=7, scale=2.0)
    for limit in (7, 3):
        search = Search(strategy, limit, length_penalty, special)
        for b, hypothesis in enumerate(lattice.mode(search)):
            size = int(lattice.num_nodes[b])
            words = [*range(4, 7)] if special else [*range(7)]
            allowed = [[0] if special else words, *[words] * (size - 2), [1] if special else words]
            oracle = dag_oracle(lattice, b)
            score, path = oracle.best(allowed, length_penalty, min(limit, size), strategy == "joint-viterbi")
            assert hypothesis.nodes == path
            assert hypothesis.score == pytest.approx(score, abs=1e-12)
            assert hypothesis.score == pytest.approx(oracle.score(path, list(hypothesis.ids)), abs=1e-12)


def small(transitions: dict[tuple[int, int], float], emit: list[list[float]]) -> DAG:
    """A single lattice from probabilities."""
    table = torch.zeros(1, len(emit), len(emit), dtype=torch.float64)
    for (i, j), chance in transitions.items():
        table[0, i, j] = chance
    return DAG(table.log(), torch.tensor([emit], dtype=torch.float64).log(), torch.tensor([len(emit)]))


def decode(lattice: DAG, strategy: str, **options: Any) -> Hypothesis:
    (hypothesis,) = lattice.mode(Search(strategy, **options))
    return hypothesis


def test_strategies_differ_as_they_should(engine: str) -> None:
    # vertex 1 is the likeliest step, 2 starts the likeliest path, 3 is sure of its token
    steps = {(0, 1): 0.4, (0, 2): 0.35, (0, 3): 0.25, (1, 3): 0.6, (1, 4): 0.4, (2, 4): 1.0, (3, 4): 1.0}
    emit = [[1.0, 0.0], [0.5, 0.5], [0.6, 0.4], [0.01, 0.99], [0.0, 1.0]]
    lattice = small(steps, emit)
    assert decode(lattice, "greedy").nodes == (0, 1, 3, 4)
    assert decode(lattice, "lookahead").nodes == (0, 3, 4)
    assert decode(lattice, "viterbi", length_penalty=0.0).nodes == (0, 2, 4)
    assert decode(lattice, "joint-viterbi", length_penalty=0.0).nodes == (0, 3, 4)
    assert decode(lattice, "joint-viterbi", length_penalty=5.0).nodes == (0, 1, 3, 4)
    assert decode(lattice, "joint-viterbi", length_penalty=5.0, max_length=3).nodes == (0, 3, 4)
    assert decode(lattice, "lookahead").score == pytest.approx(math.log(0.25 * 0.99))


@pytest.mark.parametrize("strategy", ["greedy", "lookahead", "viterbi", "joint-viterbi"])
def test_special_tokens_stand_only_at_the_ends(engine: str, strategy: str) -> None:
    lattice = random_dag([8, 2, 6], vocabulary=6)
    for hypothesis in lattice.mode(Search(strategy, special_tokens=SPECIAL)):
        assert hypothesis.ids[0] == SPECIAL.bos
        assert hypothesis.ids[-1] == SPECIAL.eos
        assert not set(hypothesis.ids[1:-1]) & set(SPECIAL.ids)


def test_trees_branch_to_the_right(engine: str) -> None:
    lattice, target = random_dag([6, 3]), random_target([4, 4])
    posterior = lattice.posterior(target)
    tree, nothing = posterior.best_tree()
    assert nothing is None
    assert tree is not None
    assert tree.children == ((None, 1), (None, 2), (None, 3), (None, None))
    assert tree.tokens == tuple(target.to_lists()[0])
    assert tree.nodes == tuple(vertex + 1 for vertex in posterior.argmax().nodes(0))
    assert tree.log_prob == pytest.approx(float(posterior.argmax().score[0]), abs=1e-12)
    second = posterior.trees(posterior.k_best(2)[1])[0]
    assert second is not None
    assert second.log_prob == pytest.approx(float(posterior.k_best(2)[1].score[0]), abs=1e-12)


def test_samples_are_scored(engine: str) -> None:
    lattice = random_dag([6, 2, 5])
    for b, hypothesis in enumerate(lattice.sample(torch.Generator().manual_seed(3))):
        expected = dag_oracle(lattice, b).score(hypothesis.nodes, list(hypothesis.ids))
        assert hypothesis.score == pytest.approx(expected, abs=1e-12)
        assert hypothesis.nodes[-1] == int(lattice.num_nodes[b]) - 1


def test_sizes_may_be_32_bit(engine: str) -> None:
    lattice, target = random_dag([6, 3]), random_target([4, 2])
    narrow = DAG(lattice.transitions, lattice.emit, lattice.num_nodes.int())
    assert_close(narrow.log_prob(target), lattice.log_prob(target))
    for strategy in ("greedy", "lookahead", "viterbi", "joint-viterbi"):
        assert narrow.mode(Search(strategy)) == lattice.mode(Search(strategy))


def test_half_precision_runs_in_plain_torch_only() -> None:
    lattice, target = random_dag([6, 3]), random_target([4, 2])
    half = DAG(lattice.transitions.bfloat16(), lattice.emit.bfloat16(), lattice.num_nodes)
    assert_close(half.log_prob(target).double(), lattice.log_prob(target), rtol=0.05, atol=0.1)
    with (
        backend("numba"),
        pytest.raises(RuntimeError, match=r"float32 or float64 on the CPU, got torch\.bfloat16"),
    ):
        half.log_prob(target)


def test_dead_ends_are_named(engine: str) -> None:
    lattice = small({(0, 1): 1.0, (0, 3): 0.0, (1, 2): 0.0, (2, 3): 1.0}, [[1.0]] * 4)
    for strategy in ("greedy", "lookahead"):
        with pytest.raises(ValueError, match="sentence 0: main-chain node 1 must have a rule of non-zero"):
            lattice.mode(Search(strategy))
    with pytest.raises(
        ValueError, match="vertex 1 of sentence 0 must have a successor of non-zero probability"
    ):
        lattice.sample()
    for strategy in ("viterbi", "joint-viterbi"):
        with pytest.raises(ValueError, match="sentence 0 has no derivation of at most 3 tokens"):
            lattice.mode(Search(strategy, max_length=3))
    assert lattice.infeasible(Padded.from_lists([[0, 0, 0]])) == {
        0: "every path uses a transition or token of probability 0"
    }


def test_nan_scores_do_not_hang(engine: str) -> None:
    lattice = random_dag([5])
    lattice.emit[0, 1] = math.nan
    with pytest.raises(
        ValueError, match="sentence 0: main-chain node 0 must have a rule of non-zero probability"
    ):
        lattice.mode(Search("lookahead"))
    lattice.transitions[0, 0, 2] = math.nan
    with pytest.raises(
        ValueError, match="sentence 0: main-chain node 0 must have a rule of non-zero probability"
    ):
        lattice.mode(Search("greedy"))
    assert math.isnan(float(lattice.log_prob(random_target([5]))))


@shapes_unchecked()
def test_arguments_are_checked() -> None:
    transitions, emit, sizes = random_transitions([4, 3]), torch.zeros(2, 4, 5).double(), torch.tensor([4, 3])
    with pytest.raises(ValueError, match=r"transitions must have shape \(B, M, M\), got \(2, 4, 3\)"):
        DAG(transitions[:, :, :3], emit, sizes)
    with pytest.raises(ValueError, match=r"transitions must have shape \(B, M, M\), got \(4, 4\)"):
        DAG(transitions[0], emit, sizes)
    with pytest.raises(ValueError, match=r"emit must have shape \(2, 4, V\), got \(2, 3, 5\)"):
        DAG(transitions, emit[:, :3], sizes)
    with pytest.raises(
        ValueError, match=r"num_nodes must be whole numbers of shape \(2,\), got torch.int64 \(1,\)"
    ):
        DAG(transitions, emit, sizes[:1])
    with pytest.raises(
        ValueError, match=r"num_nodes must be whole numbers of shape \(2,\), got torch.float32 \(2,\)"
    ):
        DAG(transitions, emit, sizes.float())
    with pytest.raises(ValueError, match=r"num_nodes must be in 2 … 4, got \[4, 1\]"):
        DAG(transitions, emit, torch.tensor([4, 1]))
    with pytest.raises(ValueError, match=r"num_nodes must be in 2 … 4, got \[5, 2\]"):
        DAG(transitions, emit, torch.tensor([5, 2]))
    with pytest.raises(ValueError, match="emit must be on cpu like transitions, got meta"):
        DAG(transitions, emit.to("meta"), sizes)
    with pytest.raises(ValueError, match="num_nodes must be on cpu like transitions, got meta"):
        DAG(transitions, emit, sizes.to("meta"))


@pytest.mark.parametrize("strategy", ["viterbi", "joint-viterbi"])
def test_several_results_are_the_best_of_each_length(engine: str, strategy: str) -> None:
    lattice = random_dag([7, 2, 5], vocabulary=7, scale=2.0)
    search = Search(strategy, max_length=(4, 2, 5), length_penalty=0.8, special_tokens=SPECIAL, results=3)
    results = lattice.n_best(search)
    assert [len(found) for found in results] == [3, 1, 3]
    for b, (found, limit) in enumerate(zip(results, (4, 2, 5), strict=True)):
        by_length = []
        for length in range(2, limit + 1):
            limits = tuple(length if other == b else 7 for other in range(3))
            alone = lattice.mode(Search(strategy, limits, 99.0, SPECIAL))[b]  # so the longest one wins
            assert len(alone.ids) == length
            by_length.append(alone)
        by_length.sort(key=lambda hypothesis: -hypothesis.normalised_score(0.8))
        assert found == by_length[:3]
    assert [found[0] for found in results] == lattice.mode(search)


@pytest.mark.parametrize("strategy", ["greedy", "lookahead", "viterbi", "joint-viterbi"])
def test_all_penalties_are_answered_at_once(engine: str, strategy: str) -> None:
    lattice, penalties = random_dag([7, 2, 5], vocabulary=7, scale=2.0), [0.0, 1.0, 99.0]
    found = lattice.modes(Search(strategy, max_length=6), penalties)
    for index, penalty in enumerate(penalties):
        expected = lattice.mode(Search(strategy, max_length=6, length_penalty=penalty))
        assert [sentence[index] for sentence in found] == expected
    differ = any(len(set(sentence)) > 1 for sentence in found)
    assert differ == (strategy in ("viterbi", "joint-viterbi"))


@pytest.mark.parametrize("strategy", ["greedy", "lookahead"])
def test_a_strategy_that_finds_one_path_gives_one(engine: str, strategy: str) -> None:
    lattice = random_dag([7, 2, 5])
    found = lattice.n_best(Search(strategy, results=3))
    assert found == [[hypothesis] for hypothesis in lattice.mode(Search(strategy))]
