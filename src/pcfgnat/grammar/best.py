"""The best sentences of a batch of grammars, rules and tokens together, in one call of a kernel."""

from collections.abc import Sequence

import numpy as np

from pcfgnat.grammar.block_plan import block_plan
from pcfgnat.grammar.decoding import Grammars
from pcfgnat.grammar.free_lattice import length_powers
from pcfgnat.grammar.kernels.best import best_of_batch
from pcfgnat.grammar.parse_tree import ParseTree
from pcfgnat.grammar.search import Hypothesis


def best_sentences(
    grammars: Grammars, limits: Sequence[int], length_penalties: Sequence[float]
) -> list[list[Hypothesis]]:
    """Return the best sentence of each grammar by `score / L^β` under each penalty; on a tie the shorter one.

    No sentence is longer than its limit. The tables take `C²/2 · d · N` steps for each sentence.
    """
    scores, tokens = grammars.emissions.everywhere()
    batch, longest = len(grammars), max(limits)
    plan, powers = block_plan(grammars.chain.shape[2].bit_length() - 1), _powers(longest, length_penalties)
    shape = (batch, len(powers), longest)
    lengths = np.empty(shape[:2], np.int64)
    symbols, ids = np.empty(shape, np.int64), np.empty(shape, np.int64)
    rule_scores, token_scores = np.empty(shape), np.empty(shape)
    best_of_batch(
        0, batch, grammars.chain, grammars.prefix, grammars.chain_lengths, plan.offsets, plan.lefts,
        plan.moves, plan.first, plan.entries, grammars.offset, scores, tokens, np.array(limits, np.int64),
        powers, lengths, symbols, ids, rule_scores, token_scores,
    )  # fmt: skip
    found, parts = [], (symbols, ids, rule_scores, token_scores)
    for b, own in enumerate(lengths.tolist()):
        if 0 in own:
            raise ValueError(f"sentence {b} has no derivation of at most {limits[b]} tokens")
        rows = [[part[b, p, :length] for part in parts] for p, length in enumerate(own)]
        found.append([_hypothesis(grammars, b, *row) for row in rows])
    return found


def _powers(longest: int, length_penalties: Sequence[float]) -> np.ndarray:
    """Return `L^β` by penalty and length."""
    return np.stack([length_powers(longest, penalty) for penalty in length_penalties])


def _hypothesis(
    grammars: Grammars,
    index: int,
    symbols: np.ndarray,
    ids: np.ndarray,
    rule_scores: np.ndarray,
    token_scores: np.ndarray,
) -> Hypothesis:
    nodes, tokens, offset = tuple(symbols.tolist()), tuple(ids.tolist()), grammars.offset
    scores = tuple(rule_scores.tolist()), tuple(token_scores.tolist())
    tree = ParseTree.derived(grammars.support(index), nodes, tokens, *scores)
    return Hypothesis(tokens, tree.log_prob, tuple([node - offset for node in nodes]), tree)
