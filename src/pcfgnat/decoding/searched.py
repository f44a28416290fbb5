"""Strategies of runtimes that search by themselves."""

from dataclasses import dataclass

from pcfgnat.decoding.base import DecodingError, Request, Strategy
from pcfgnat.decoding.stepwise import length_limits
from pcfgnat.grammar.search import Hypothesis
from pcfgnat.runtimes.base import Searches, Sources


@dataclass(frozen=True)
class SearchedBeam(Strategy):
    """The runtime's own beam search; what it finds is ranked by `score / L^β`, where L counts bos and eos."""

    size: int = 5

    name = "beam"
    protocol = Searches
    uses_penalty = True

    def __post_init__(self) -> None:
        if self.size < 1:
            raise DecodingError(f"size must be at least 1, got {self.size}")

    def decode(self, runtime: Searches, sources: Sources, request: Request) -> list[list[Hypothesis]]:
        """Return up to `request.results` of what was found of each sentence."""
        limits, penalty = length_limits(runtime.max_target_length, sources, request), request.length_penalty
        found = runtime.search(sources, limits, max(self.size, request.results), penalty) if sources else []
        ranked = [sorted(own, key=lambda one: -one.normalised_score(penalty)) for own in found]
        return [own[: request.results] for own in ranked]


@dataclass(frozen=True)
class SearchedGreedy(Strategy):
    """The runtime's own greedy search: a beam of one."""

    name = "greedy"
    protocol = Searches

    def decode(self, runtime: Searches, sources: Sources, request: Request) -> list[list[Hypothesis]]:
        """Return the one translation that is found of each sentence."""
        limits = length_limits(runtime.max_target_length, sources, request)
        return runtime.search(sources, limits, 1, 0.0) if sources else []
