"""Decoding of the grammar against the enumeration of every derivation, on both implementations."""

import math

import pytest
import torch

from pcfgnat.structures import RHPCFG, RuleScores, Search, SpecialTokens, SupportTree
from tests.structures.test_rhpcfg import SIZES, ragged
from tests.support.grammars import oracle, random_grammar
from tests.support.oracle import GrammarOracle


def stepwise(grammar: GrammarOracle, lookahead: bool, node: int = 1) -> tuple[int, ...]:
    """Symbols below a node when each takes its best children, weighed with their best tokens if asked."""

    def value(pair: tuple[int, int]) -> float:
        tokens: float = sum(max(grammar.emit[child]) for child in pair if child) if lookahead else 0.0
        return grammar.rule(node, *pair) + tokens

    pairs = list(grammar.tree.children(node))
    if not pairs:
        return (node,) if node else ()
    left, right = max(pairs, key=value)
    return (*stepwise(grammar, lookahead, left), node, *stepwise(grammar, lookahead, right))


class TestDecoding:
    special = SpecialTokens(bos=0, eos=2, pad=1, unk=3)

    @pytest.mark.parametrize("strategy", ["viterbi", "greedy", "lookahead"])
    @pytest.mark.parametrize(("chain_length", "depth"), SIZES)
    def test_special_tokens_stay_at_the_ends(
        self, either_backend: str, strategy: str, chain_length: int, depth: int
    ) -> None:
        tree = SupportTree(chain_length, depth)
        grammar = random_grammar(tree, [chain_length, 2, chain_length - 1], vocabulary=9, scale=3.0)
        for found in grammar.mode(Search(strategy, special_tokens=self.special)):
            assert found.ids[0] == self.special.bos
            assert found.ids[-1] == self.special.eos
            assert not set(found.ids[1:-1]) & set(self.special.ids)
            assert found.tree is not None
            assert found.score == pytest.approx(found.tree.log_prob)

    @pytest.mark.parametrize("strategy", ["viterbi", "greedy", "lookahead"])
    def test_a_batch_decodes_as_its_sentences_do(self, either_backend: str, strategy: str) -> None:
        tree = SupportTree(7, 1)
        lengths = [7, 4, 2, 6]
        grammar = random_grammar(tree, lengths, vocabulary=7, dtype=torch.float32)
        together = grammar.mode(Search(strategy))
        for b, length in enumerate(lengths):
            own = SupportTree(length, 1)
            scores = grammar.scores
            alone = RuleScores(
                scores.chain[b : b + 1, :length, :, :length],
                scores.prefix[b : b + 1, :length],
                scores.emit[b : b + 1, : own.num_nodes],
            )
            assert RHPCFG(alone, torch.tensor([length])).mode(Search(strategy)) == [together[b]]

    def test_greedy_takes_the_best_rule_and_lookahead_weighs_tokens(self) -> None:
        tree = SupportTree(4, 1)
        chain = torch.full((1, 4, 2, 4), -math.inf)
        chain[0, 0, 0, 1], chain[0, 0, 0, 3] = math.log(0.4), math.log(0.6)
        chain[0, 1, 1, 3], chain[0, 1, 0, 3] = math.log(0.9), math.log(0.1)
        chain[0, 2, 0, 3] = 0.0
        emit = torch.full((1, tree.num_nodes, 2), math.log(0.5))
        emit[0, 7] = torch.tensor(
            [0.3, 0.7]
        ).log()  # the last node is unsure, chain node 1 and its prefix are not
        emit[0, 3] = emit[0, 2] = torch.tensor([0.99, 0.01]).log()
        emit[0, 7] = torch.tensor([0.55, 0.45]).log()
        grammar = RHPCFG(RuleScores(chain, torch.zeros(1, 4, 0), emit), torch.tensor([4]))
        assert grammar.mode(Search("greedy"))[0].nodes == (1, 7)
        assert grammar.mode(Search("lookahead"))[0].nodes == (1, 2, 3, 7)

    @pytest.mark.parametrize("strategy", ["greedy", "lookahead"])
    @pytest.mark.parametrize(("chain_length", "depth"), SIZES)
    def test_each_symbol_takes_its_best_children(self, strategy: str, chain_length: int, depth: int) -> None:
        for seed in range(30):  # few derivations hang on the left child of a prefix node
            grammar, _ = ragged(chain_length, depth, scale=2.0, seed=seed)
            for b, found in enumerate(grammar.mode(Search(strategy))):
                assert found.nodes == stepwise(oracle(grammar, b), strategy == "lookahead")
                assert found.ids == tuple(grammar.scores.emit[b, list(found.nodes)].argmax(-1).tolist())

    def test_impossible_lengths_and_strategies_are_refused(self, either_backend: str) -> None:
        grammar = random_grammar(SupportTree(4, 1))
        with pytest.raises(ValueError, match="no derivation of at most 1 tokens"):
            grammar.mode(Search(max_length=1))
        with pytest.raises(
            ValueError, match="strategy must be one of greedy, lookahead, viterbi, got 'beam'"
        ):
            grammar.mode(Search("beam"))

    def test_a_node_without_rules_is_refused(self) -> None:
        grammar = random_grammar(SupportTree(4, 1))
        grammar.scores.chain[0, 0] = -math.inf
        with pytest.raises(ValueError, match="sentence 0: main-chain node 0 must have a rule"):
            grammar.mode(Search("greedy"))
        with pytest.raises(ValueError, match="sentence 0 has no derivation"):
            grammar.mode(Search("viterbi"))


@pytest.mark.parametrize(("chain_length", "depth"), SIZES)
def test_several_results_are_the_best_of_each_length(
    either_backend: str, chain_length: int, depth: int
) -> None:
    grammar, _ = ragged(chain_length, depth, scale=1.0)
    limits = (4, 3, min(5, grammar.tree.max_length))
    search = Search("viterbi", max_length=limits, length_penalty=0.8, results=3)
    results = grammar.n_best(search)
    for b, (found, limit) in enumerate(zip(results, limits, strict=True)):
        options = [(oracle(grammar, b).best_of_length(n), n) for n in range(2, limit + 1)]
        ranked = sorted((option[0] / n**0.8, option[1].nodes) for option, n in options if option is not None)[
            ::-1
        ]
        assert [hypothesis.nodes for hypothesis in found] == [nodes for _, nodes in ranked[:3]]
        values = [hypothesis.normalised_score(0.8) for hypothesis in found]
        assert values == pytest.approx([value for value, _ in ranked[:3]], abs=1e-9)
    assert [found[0] for found in results] == grammar.mode(search)
    greedy = Search("greedy", results=3)
    assert grammar.n_best(greedy) == [[hypothesis] for hypothesis in grammar.mode(greedy)]


@pytest.mark.parametrize("strategy", ["viterbi", "greedy", "lookahead"])
def test_all_penalties_are_answered_at_once(either_backend: str, strategy: str) -> None:
    grammar, penalties = random_grammar(SupportTree(6, 1), [6, 2, 4], scale=2.0), [0.0, 1.0, 3.0]
    limits = (6, 2, 4)
    found = grammar.modes(Search(strategy, limits), penalties)
    for index, penalty in enumerate(penalties):
        expected = grammar.mode(Search(strategy, limits, penalty))
        assert [sentence[index] for sentence in found] == expected
    assert any(len(set(sentence)) > 1 for sentence in found) == (strategy == "viterbi")
    if strategy == "viterbi":
        longest = grammar.mode(Search(strategy, limits, 99.0))
        assert [len(hypothesis.ids) for hypothesis in longest] == [6, 2, 4]
