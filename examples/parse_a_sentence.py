"""What a right-heavy grammar makes of a sentence: its trees, their probabilities, the best one drawn.

A trained network would give the scores. Here they are random, with a bonus for the tree that the paper draws.
"""

import math

import torch

from pcfgnat.draw import draw_terminal
from pcfgnat.structures import RHPCFG, Padded, ParseTree, RuleScores, Search, SpecialTokens, backend
from pcfgnat.structures.rhpcfg.reference import legal_chain_rules

VOCABULARY = ["<bos>", "<eos>", "<pad>", "<unk>", "You", "are", "gonna", "need", "a", "bigger", "boat", "."]
SPECIAL = SpecialTokens(bos=0, eos=1, pad=2, unk=3)
PAPER_TREE = """(V1 <bos> (V5 You (V13 (V11 are (V12 gonna)) need
                (V21 (V19 a (V20 bigger)) boat (V25 . (V29 <eos>))))))"""


def make_scores(wanted: ParseTree, bonus: float) -> RuleScores:
    """Random log-probabilities that favour one tree."""
    tree, noise = wanted.support, torch.Generator().manual_seed(0)
    chain = torch.randn(1, tree.chain_length, tree.block, tree.chain_length, generator=noise)
    prefix = torch.randn(1, tree.chain_length, len(tree.prefix_rules()), generator=noise)
    emit = torch.randn(1, tree.num_nodes, len(VOCABULARY), generator=noise)
    for node, token, (left, right) in zip(wanted.nodes, wanted.tokens, wanted.children, strict=True):
        emit[0, node, token] += bonus
        k, offset = tree.locate(node)
        j = 0 if left is None else tree.locate(wanted.nodes[left])[1]
        if right is not None and tree.is_chain(node):
            chain[0, k, j, tree.locate(wanted.nodes[right])[0]] += bonus
        elif right is not None:
            prefix[0, k, tree.prefix_rules().index((offset, j, tree.locate(wanted.nodes[right])[1]))] += bonus
    # One softmax for all pairs of children of a node; at depth 2 the rules of a prefix tree have one parent.
    illegal = ~legal_chain_rules(tree, torch.tensor([tree.chain_length]))
    chain = chain.masked_fill(illegal, -math.inf).flatten(2).log_softmax(-1).view_as(illegal)
    return RuleScores(chain.masked_fill(illegal, -math.inf), prefix.log_softmax(-1), emit.log_softmax(-1))


def main() -> None:
    """Ask the grammar about the sentence."""
    wanted = ParseTree.from_brackets(PAPER_TREE, prefix_depth=2, token_id=VOCABULARY.index)
    grammar = RHPCFG(make_scores(wanted, bonus=3.5), torch.tensor([wanted.support.chain_length]))
    posterior = grammar.posterior(Padded.from_lists([wanted.tokens]))
    shares = [math.exp(float(found.score - posterior.log_partition)) for found in posterior.k_best(2)]
    tree = posterior.best_tree()[0]
    assert tree is not None  # None is for sentences that the grammar cannot derive
    tree = tree.with_words([VOCABULARY[token] for token in tree.tokens])
    print(f"{tree.support.num_nodes} symbols derive Y = {' '.join(tree.words or ())}")
    print(f"in {int(posterior.num_derivations())} ways; log P(Y) is {float(posterior.log_partition):.2f}.\n")
    print(f"{draw_terminal(tree.to_dict())}\n\n{tree.to_brackets()}\n")
    print(f"This tree, the best, has {shares[0]:.1%} of P(Y), the second-best {shares[1]:.1%}.")
    found = grammar.mode(Search("viterbi", special_tokens=SPECIAL))[0]
    print("Viterbi decoding, which does not know the sentence:", *(VOCABULARY[token] for token in found.ids))


if __name__ == "__main__":
    with backend("reference"):  # so small a grammar is not worth compiling kernels for
        main()
