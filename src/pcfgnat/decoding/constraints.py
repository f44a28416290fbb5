"""What a translation must have and must not have, and the best one that does."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from typing import TYPE_CHECKING, Any, Literal

from pcfgnat.decoding.base import DecodingError, Request, Strategy
from pcfgnat.grammar.automaton import Automaton
from pcfgnat.grammar.class_automaton import ClassAutomaton, TooManyStatesError, product
from pcfgnat.grammar.lengths import LengthChooser
from pcfgnat.grammar.repeats import RepeatsRemainError, best_without_repeats, repeated_words
from pcfgnat.grammar.search import Hypothesis
from pcfgnat.runtimes.base import Sources
from pcfgnat.text.automata import at_most, begins, contains, lacks
from pcfgnat.text.glossary import Term, terms_in
from pcfgnat.text.surfaces import Surfaces

if TYPE_CHECKING:
    from pcfgnat.grammar.constrained import ConstrainedSearch

MAX_PHRASE = 1000


@dataclass(frozen=True)
class Clause:
    """One thing that is asked of one sentence; `characters` is for `max-characters` only."""

    kind: Literal["prefix", "forbid", "max-characters", "require"]
    text: str = ""
    characters: int = 0

    def __str__(self) -> str:
        return f"{self.kind} {self.characters if self.kind == 'max-characters' else repr(self.text)}"


@dataclass(frozen=True)
class Constraints:
    """What is asked of translations; phrases are whole words, in any segmentation.

    require:        phrases that a translation must have
    forbid:         phrases that it must not have
    prefix:         how it must begin; its last word may go on, unless a space follows
    glossary:       terms, required where the source has them
    max_characters: how long its text may be
    strict:         whether it is an error if not all of this is possible
    """

    require: tuple[str, ...] = ()
    forbid: tuple[str, ...] = ()
    prefix: str = ""
    glossary: tuple[Term, ...] = ()
    max_characters: int | None = None
    strict: bool = False

    def __post_init__(self) -> None:
        for name, phrases in (("require", self.require), ("forbid", self.forbid)):
            for phrase in phrases:
                if not phrase.strip() or len(phrase) > MAX_PHRASE:
                    size = f"{len(phrase)} characters"
                    raise DecodingError(f"a phrase to {name} must have 1 … {MAX_PHRASE}, got {size}")
        if (self.prefix and not self.prefix.strip()) or len(self.prefix) > MAX_PHRASE:
            raise DecodingError(f"prefix must be a text of at most {MAX_PHRASE} characters")
        if self.max_characters is not None and self.max_characters < 1:
            raise DecodingError(f"max_characters must be at least 1, got {self.max_characters}")

    @property
    def is_empty(self) -> bool:
        """Whether nothing is asked of any translation."""
        asked = (self.require, self.forbid, self.prefix, self.glossary, self.max_characters)
        return not any(asked)

    def clauses(self, source: str) -> tuple[Clause, ...]:
        """Return what is asked of the translation of a source, the most important first."""
        wanted = [Clause("prefix", self.prefix)] if self.prefix else []
        wanted += [Clause("forbid", phrase) for phrase in self.forbid]
        if self.max_characters is not None:
            wanted.append(Clause("max-characters", characters=self.max_characters))
        wanted += [Clause("require", phrase) for phrase in self.require]
        wanted += [Clause("require", term.target) for term in terms_in(source, self.glossary)]
        return tuple(dict.fromkeys(wanted))


NOTHING = Constraints()


@dataclass(frozen=True)
class Satisfied:
    """The best translations of a sentence, and what they could not be made to fulfil."""

    hypotheses: list[Hypothesis]
    unmet: tuple[Clause, ...] = ()


@dataclass(frozen=True)
class Asked:
    """What is asked of each sentence of a batch, and the vocabulary that it is to be said in."""

    clauses: Sequence[tuple[Clause, ...]]
    surfaces: Surfaces


class Constraining(Strategy):
    """A strategy that finds the best translation under constraints."""

    @abstractmethod
    def decode_constrained(
        self, runtime: Any, sources: Sources, request: Request, asked: Asked
    ) -> list[Satisfied]:
        """Return up to `request.results` translations of each sentence, best first, and what they lack."""


def constraining(strategy: Strategy) -> Constraining:
    """Return a strategy that keeps constraints; raise an error for one that cannot."""
    if not isinstance(strategy, Constraining):
        raise DecodingError(
            f"constraints need viterbi or joint-viterbi of a grammar or graph, got {strategy.name}"
        )
    return strategy


@dataclass(frozen=True)
class Satisfying:
    """Finds the best sentences of one grammar or graph that fulfil clauses.

    starts: tokens that begin a word, if no word may follow itself
    """

    search: "ConstrainedSearch"
    surfaces: Surfaces
    choose: LengthChooser
    starts: frozenset[int] | None = None

    def satisfy(self, clauses: Sequence[Clause]) -> Satisfied:
        """Return the best sentences that fulfil all clauses.

        If there are none, each clause is kept that can be fulfilled together with those kept before it.
        """
        if found := self._best(clauses):
            return Satisfied(self._unrepeated(clauses, found))
        kept, unmet, found = list[Clause](), list[Clause](), self._best(())
        for clause in clauses:
            if better := self._best([*kept, clause]):
                kept.append(clause)
                found = better
            else:
                unmet.append(clause)
        return Satisfied(self._unrepeated(kept, found), tuple(unmet))

    def _best(self, clauses: Sequence[Clause], avoided: Automaton | None = None) -> list[Hypothesis]:
        """Return the best sentences that fulfil the clauses, and that another automaton accepts."""
        search, surfaces = self.search, self.surfaces
        automaton, afterwards = multiplied(tuple(clauses), surfaces, search.max_states)
        if avoided is not None:
            by_class = ClassAutomaton.from_tokens(avoided, len(surfaces.texts))
            automaton = product(automaton, by_class, search.max_states)
        checks = [automaton_of(clause, surfaces) for clause in afterwards]
        return search.best(automaton, self.choose, lambda ids: all(check.accepts(ids) for check in checks))

    def _unrepeated(self, clauses: Sequence[Clause], found: list[Hypothesis]) -> list[Hypothesis]:
        """Return the best sentence in which no word follows itself, and what else was found and has none.

        What was found is returned as it is, if clauses allow no other or the search takes too much.
        """
        starts = self.starts
        if starts is None or not found:
            return found
        best: Hypothesis | None = found[0]
        if repeated_words(found[0].ids, starts):
            try:
                best = best_without_repeats(lambda a: next(iter(self._best(clauses, a)), None), starts)
            except (RepeatsRemainError, TooManyStatesError):
                return found
        if best is None:
            return found
        others = [one for one in found[1:] if not repeated_words(one.ids, starts) and one.ids != best.ids]
        return [best, *others]


@lru_cache(maxsize=16)  # one may take megabytes, and a server sees many
def multiplied(
    clauses: tuple[Clause, ...], surfaces: Surfaces, max_states: int
) -> tuple[ClassAutomaton, tuple[Clause, ...]]:
    """Return one automaton for all clauses, and clauses that are to be checked afterwards.

    If the product has too many states, required phrases have to come in the order in which they are given; if
    that is not enough, the number of characters is looked at when the best sentence of each length is known.
    """
    required = [clause for clause in clauses if clause.kind == "require"]
    others = [clause for clause in clauses if clause.kind != "require"]
    short = [clause for clause in others if clause.kind == "max-characters"]
    rest = [clause for clause in others if clause not in short]
    phrases = tuple(clause.text for clause in required)
    ways: tuple[tuple[list[Clause], bool, list[Clause]], ...] = (
        (list(clauses), False, []),
        (others, True, []),
        (rest, True, short),
    )
    for factors, in_order, afterwards in ways:
        automata = [automaton_of(clause, surfaces) for clause in factors]
        automata += [_in_order(phrases, surfaces)] if in_order and phrases else []
        try:
            whole = reduce(
                lambda left, right: product(left, right, max_states), automata, _in_order((), surfaces)
            )
            return whole, tuple(afterwards)
        except TooManyStatesError:
            continue
    raise DecodingError(f"{len(clauses)} constraints must need at most {max_states} states, got more")


@lru_cache(maxsize=16)
def _in_order(phrases: tuple[str, ...], surfaces: Surfaces) -> ClassAutomaton:
    """Return the automaton of texts that have all phrases in this order; without any, all texts do."""
    return contains(phrases, surfaces)


@lru_cache(maxsize=256)  # 8 bytes for each token of the vocabulary
def automaton_of(clause: Clause, surfaces: Surfaces) -> ClassAutomaton:
    """Return the automaton of one clause."""
    if clause.kind == "prefix":
        return begins(clause.text, surfaces)
    if clause.kind == "forbid":
        return lacks(clause.text, surfaces)
    if clause.kind == "require":
        return contains([clause.text], surfaces)
    return at_most(clause.characters, surfaces)


def admitted_tokens(clauses: Sequence[Clause], surfaces: Surfaces) -> list[int]:
    """Return the tokens that could be part of what is required, for a shortlist to have them."""
    needed = [f" {surfaces.spelled(c.text)} " for c in clauses if c.kind in ("require", "prefix")]
    return sorted(set[int]().union(*map(surfaces.tokens_inside, needed)))
