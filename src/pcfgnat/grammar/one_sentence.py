"""One sentence of a batch of grammars, for searches that look at sentences one by one."""

from collections.abc import Sequence

from pcfgnat.grammar.continuations import SentenceRules
from pcfgnat.grammar.decoding import Grammars
from pcfgnat.grammar.free_lattice import FreeLattice
from pcfgnat.grammar.k_best import LeadingTokens, RankedSentences, best_sentences
from pcfgnat.grammar.search import Hypothesis, SpecialTokens


def sentence_rules(grammars: Grammars, index: int) -> SentenceRules:
    """Return the rules of a sentence."""
    return SentenceRules(grammars.chain[index], grammars.prefix[index], int(grammars.chain_lengths[index]))


def ranked_sentences(
    grammars: Grammars, limits: Sequence[int], length_penalty: float, count: int, special: SpecialTokens
) -> list[RankedSentences]:
    """Return the best different sentences of each grammar, rules and tokens together, of all lengths."""
    found = []
    for index, limit in enumerate(limits):
        tokens = LeadingTokens.of(grammars, index, count, special)
        own = best_sentences(FreeLattice.of(grammars, index), tokens, limit, length_penalty, count)
        if not len(own):
            raise ValueError(f"sentence {index} has no derivation of at most {limit} tokens")
        found.append(own)
    return found


def k_best(
    grammars: Grammars, limits: Sequence[int], length_penalty: float, count: int, special: SpecialTokens
) -> list[list[Hypothesis]]:
    """Return the same with their trees."""
    found = ranked_sentences(grammars, limits, length_penalty, count, special)
    return [
        [ranked.hypothesis(grammars, index, place) for place in range(len(ranked))]
        for index, ranked in enumerate(found)
    ]
