"""One sentence of a batch of grammars, for searches that look at sentences one by one."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Float

from pcfgnat.grammar.continuations import SentenceRules
from pcfgnat.grammar.decoding import Grammars
from pcfgnat.grammar.k_best import best_sentences
from pcfgnat.grammar.search import Hypothesis


def sentence_rules(grammars: Grammars, index: int) -> SentenceRules:
    """Return the rules of a sentence."""
    return SentenceRules(grammars.chain[index], grammars.prefix[index], int(grammars.chain_lengths[index]))


def k_best(
    grammars: Grammars, limits: Sequence[int], length_penalty: float, count: int
) -> list[list[Hypothesis]]:
    """Return the best different sentences of each grammar, rules and tokens together, of all lengths."""
    found = []
    for index, (limit, tokens) in enumerate(zip(limits, _token_tables(grammars), strict=True)):
        own = best_sentences(sentence_rules(grammars, index), tokens, limit, length_penalty, count)
        if not own:
            raise ValueError(f"sentence {index} has no derivation of at most {limit} tokens")
        found.append([replace(one, nodes=tuple(s - grammars.offset for s in one.nodes)) for one in own])
    return found


def _token_tables(grammars: Grammars) -> list[Float[np.ndarray, "m V"]]:
    """Return log-probabilities of all tokens by symbol, -inf where not allowed.

    The best token of a symbol is the one that other strategies see, whatever rounding does to the others:
    so the first of several results is what is found alone.
    """
    scores, tokens = grammars.best_tokens()
    tables = []
    for index in range(len(grammars)):
        nodes = np.arange(grammars.framing.first_node, grammars.support(index).num_nodes - grammars.offset)
        symbols = nodes + grammars.offset
        rows = grammars.emissions.log_probs(index, nodes)
        table = np.full((grammars.support(index).num_nodes, rows.shape[1]), -np.inf, dtype=rows.dtype)
        table[symbols] = np.minimum(rows, scores[index, symbols, None])
        table[symbols, tokens[index, symbols]] = scores[index, symbols]
        tables.append(table)
    return tables
