"""Strategies of grammars and graphs: one pass, then dynamic programming or a walk from the root."""

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from pcfgnat.decoding.base import Request, Strategy
from pcfgnat.decoding.constraints import Asked, Constraining, Satisfied, Satisfying, admitted_tokens
from pcfgnat.grammar.decoding import Grammars
from pcfgnat.grammar.lengths import best_ranked
from pcfgnat.grammar.search import Hypothesis
from pcfgnat.runtimes.base import Sources, Tables
from pcfgnat.text.special import SPECIAL_TOKENS

SPARE = 4  # candidates for each result without repeats
LimitedGroup = tuple[Sequence[int], Grammars, list[int]]


@dataclass(frozen=True)
class Walk(Strategy):
    """One derivation from the root down, whatever its length."""

    protocol = Tables

    @abstractmethod
    def walk(self, grammars: Grammars) -> list[Hypothesis]:
        """Derive a sentence of each grammar."""

    def decode(self, runtime: Tables, sources: Sources, request: Request) -> list[list[Hypothesis]]:
        """Return the one translation that is found of each sentence."""
        found: dict[int, Hypothesis] = {}
        for group, grammars in runtime.grammars(sources):
            found.update(zip(group, self.walk(grammars), strict=True))
        return [[found[index]] for index in range(len(sources))]


@dataclass(frozen=True)
class Greedy(Walk):
    """The most probable rule at each node."""

    name = "greedy"

    def walk(self, grammars: Grammars) -> list[Hypothesis]:
        """Derive a sentence of each grammar."""
        return grammars.greedy()


@dataclass(frozen=True)
class Lookahead(Walk):
    """Rule and child tokens scored together at each node."""

    name = "lookahead"

    def walk(self, grammars: Grammars) -> list[Hypothesis]:
        """Derive a sentence of each grammar."""
        return grammars.lookahead()


@dataclass(frozen=True)
class ByLength(Constraining):
    """The best derivation of every length in one pass; lengths are compared by `score / L^β`.

    no_repeat: the best sentence in which no word follows itself; where the best of all has repeats, it is
               searched for again, by rules and tokens together; constraints come first
    """

    no_repeat: bool = False

    protocol = Tables
    uses_penalty = True
    switches = ("no_repeat",)
    joint_on_graphs: ClassVar[bool]

    def decode(self, runtime: Tables, sources: Sources, request: Request) -> list[list[Hypothesis]]:
        """Return the best sentences, all different; of a graph by transitions, the best of each length.

        Without repeated words, the best comes first, and others only if they have none.
        """
        penalty, results = request.length_penalty, request.results
        if results == 1:
            return self._decode(runtime, sources, request, [penalty])
        wanted = SPARE * results if self.no_repeat else results  # those with repeats are dropped
        from pcfgnat.grammar.one_sentence import k_best  # numba takes a moment

        found: dict[int, list[Hypothesis]] = {}
        for group, grammars, limits in limited_grammars(runtime.grammars(sources), sources, request):
            if self._joint(grammars):
                best = k_best(grammars, limits, penalty, wanted, SPECIAL_TOKENS)
            else:
                best = grammars.by_length(limits, best_ranked(penalty, wanted), joint=False)
            if self.no_repeat:
                best = self._unrepeated(grammars, limits, request, [penalty], best)
            found.update(zip(group, best, strict=True))
        return [found[index][:results] for index in range(len(sources))]

    def sweep(
        self, runtime: Tables, sources: Sources, request: Request, length_penalties: Sequence[float]
    ) -> list[list[Hypothesis]]:
        """Return the best translation under each length penalty, all from one decoding."""
        return self._decode(runtime, sources, request, length_penalties)

    def decode_constrained(
        self, runtime: Tables, sources: Sources, request: Request, asked: Asked
    ) -> list[Satisfied]:
        """Return the best structures and tokens together that fulfil constraints, also of a graph."""
        from pcfgnat.grammar.constrained import ConstrainedSearch  # numba takes a moment

        choose = best_ranked(request.length_penalty, request.results)
        starts = request.starts(len(asked.surfaces.texts)) if self.no_repeat else None
        limits = request.limits([2 * len(source) for source in sources])
        found: dict[int, Satisfied] = {}
        for group, grammars in runtime.grammars(sources):
            for place, (index, most) in enumerate(zip(group, grammars.max_lengths, strict=True)):
                own = asked.clauses[index]
                admitted = admitted_tokens(own, asked.surfaces)
                search = ConstrainedSearch.of(grammars, place, min(limits[index], most), admitted)
                found[index] = Satisfying(search, asked.surfaces, choose, starts).satisfy(own)
        return [found[index] for index in range(len(sources))]

    def _decode(
        self, runtime: Tables, sources: Sources, request: Request, penalties: Sequence[float]
    ) -> list[list[Hypothesis]]:
        """Return the best translation of each sentence under each length penalty."""
        found: dict[int, list[Hypothesis]] = {}
        for group, grammars, limits in limited_grammars(runtime.grammars(sources), sources, request):
            best = grammars.best(limits, penalties, self._joint(grammars))
            if self.no_repeat:
                best = self._unrepeated(grammars, limits, request, penalties, best)
            found.update(zip(group, best, strict=True))
        return [found[index] for index in range(len(sources))]

    def _unrepeated(
        self,
        grammars: Grammars,
        limits: Sequence[int],
        request: Request,
        penalties: Sequence[float],
        best: Sequence[Sequence[Hypothesis]],
    ) -> list[list[Hypothesis]]:
        """Replace the best sentence under each penalty, if it has repeats; drop what else has any."""
        from pcfgnat.decoding.unrepeated import Unrepeated  # numba takes a moment

        replaced = []
        for index, (own, limit) in enumerate(zip(best, limits, strict=True)):
            search = Unrepeated(grammars, index, limit, request.word_starts)
            first = [search.best(penalty, one) for penalty, one in zip(penalties, own, strict=False)]
            others = [one for one in own[len(penalties) :] if search.allows(one) and one.ids != first[0].ids]
            replaced.append([*first, *others])
        return replaced

    def _joint(self, grammars: Grammars) -> bool:
        return self.joint_on_graphs or not grammars.is_graph


def limited_grammars(
    found: Iterable[tuple[Sequence[int], Grammars]], sources: Sources, request: Request
) -> Iterator[LimitedGroup]:
    """Yield groups of sources, their grammars as found, and the greatest length of each translation."""
    limits = request.limits([2 * len(source) for source in sources])
    for group, grammars in found:
        own = [min(limits[i], most) for i, most in zip(group, grammars.max_lengths, strict=True)]
        yield group, grammars, own


@dataclass(frozen=True)
class Viterbi(ByLength):
    """Of a grammar the best tree and tokens (paper, section 3.4); of a graph the best path by transitions."""

    name = "viterbi"
    joint_on_graphs = False


@dataclass(frozen=True)
class JointViterbi(ByLength):
    """The best structure and tokens together (Shao et al. 2022); of a grammar the same as `viterbi`."""

    name = "joint-viterbi"
    joint_on_graphs = True


@dataclass(frozen=True)
class Sample(Strategy):
    """Draws of a tree and its tokens, from what has no special token inside."""

    name = "sample"
    protocol = Tables
    draws = True

    def decode(self, runtime: Tables, sources: Sources, request: Request) -> list[list[Hypothesis]]:
        """Return `request.results` draws, in the order drawn."""
        found: dict[int, list[Hypothesis]] = {}
        for group, grammars in runtime.grammars(sources):
            generators = request.generators([sources[index] for index in group])
            drawn = [grammars.sample(generators) for _ in range(request.results)]
            found.update(zip(group, map(list, zip(*drawn, strict=True)), strict=True))
        return [found[index] for index in range(len(sources))]
