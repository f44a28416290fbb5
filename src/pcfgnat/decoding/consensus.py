"""Minimum Bayes risk: of many candidates, the one that agrees best with all that the model expects."""

from collections.abc import Sequence
from dataclasses import dataclass

from pcfgnat.decoding.base import DecodingError, Request, Strategy
from pcfgnat.decoding.structured import limited_grammars
from pcfgnat.grammar.consensus import rank_by_consensus
from pcfgnat.grammar.decoding import Grammars
from pcfgnat.grammar.search import Hypothesis
from pcfgnat.runtimes.base import Sources, Tables
from pcfgnat.text.special import SPECIAL_TOKENS

MOST_TOKENS = 8  # of an n-gram


@dataclass(frozen=True)
class MinimumRisk(Strategy):
    """Candidates ranked by BLEU against the expected n-grams of the grammar or graph (DeNero et al. 2009).

    The expectation is exact, over all trees and sentences. `score` stays a candidate's own log-probability.

    size:  number of candidates, all different
    order: longest n-grams that are compared
    draw:  whether candidates are drawn; otherwise they are the best by `score / L^β`
    """

    size: int = 16
    order: int = 4
    draw: bool = False

    name = "mbr"
    protocol = Tables
    uses_penalty = True
    draws = True

    def __post_init__(self) -> None:
        if self.size < 1:
            raise DecodingError(f"size must be at least 1, got {self.size}")
        if not 1 <= self.order <= MOST_TOKENS:
            raise DecodingError(f"order must be in 1 … {MOST_TOKENS}, got {self.order}")

    def decode(self, runtime: Tables, sources: Sources, request: Request) -> list[list[Hypothesis]]:
        """Return the candidates that agree best, the best first."""
        found: dict[int, list[Hypothesis]] = {}
        for group, grammars, limits in limited_grammars(runtime.grammars(sources), sources, request):
            candidates = self._candidates(grammars, [sources[i] for i in group], limits, request)
            for index, own, hypotheses in zip(group, range(len(group)), candidates, strict=True):
                found[index] = ranked_by_consensus(grammars, own, hypotheses, self.order)[: request.results]
        return [found[index] for index in range(len(sources))]

    def _candidates(
        self, grammars: Grammars, sources: Sources, limits: Sequence[int], request: Request
    ) -> list[list[Hypothesis]]:
        """Return different candidates of each sentence, at least as many as results are wanted."""
        count = max(self.size, request.results)
        if not self.draw:
            from pcfgnat.grammar.one_sentence import k_best  # numba takes a moment

            return k_best(grammars, limits, request.length_penalty, count, SPECIAL_TOKENS)
        generators = request.generators(sources)
        drawn = [grammars.sample(generators) for _ in range(count)]
        return [list({one.ids: one for one in own}.values()) for own in zip(*drawn, strict=True)]


def ranked_by_consensus(
    grammars: Grammars, index: int, candidates: Sequence[Hypothesis], order: int
) -> list[Hypothesis]:
    """Return candidates of a sentence by their agreement with what its grammar expects, the best first."""
    from pcfgnat.grammar.emission_chain import emission_chain
    from pcfgnat.grammar.one_sentence import sentence_rules

    chain = emission_chain(sentence_rules(grammars, index))
    plain = [one.ids[1:-1] for one in candidates]
    counts = chain.counts(plain, order, lambda tokens: grammars.columns(index, tokens))
    ranked = rank_by_consensus(plain, counts, chain.expected_length)
    return [candidates[number] for number, _ in ranked]
