"""The sentences that a model translates at a time: what is asked of each, and what is found."""

import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from pcfgnat.decoding import Request, Strategy
from pcfgnat.decoding.constraints import Asked, Clause, Constraining, Constraints, Satisfied, constraining
from pcfgnat.runtimes.base import Runtime, Tables
from pcfgnat.text import Tokenizer
from pcfgnat.text.surfaces import Surfaces, surfaces_of
from pcfgnat.translator.confidence import Word, word_confidences
from pcfgnat.translator.demands import piece_constraints
from pcfgnat.translator.keeping import Substitution, awkward_items, lost_items, substituted

T = TypeVar("T")


@dataclass(frozen=True)
class Unit:
    """A text that fits into a model, as its ids; `changed` if it is not the text that was given."""

    text: str
    ids: list[int]
    clauses: tuple[Clause, ...] = ()
    changed: Substitution | None = None

    @property
    def question(self) -> Hashable:
        """All that a decoding of it depends on."""
        return tuple(self.ids), self.clauses

    def reported(self, unmet: Sequence[Clause]) -> list[Clause]:
        """Return what is missing of what the user asked for; what was only to be kept is put back."""
        kept = () if self.changed is None else self.changed.required
        return [clause for clause in unmet if clause.kind != "require" or clause.text not in kept]

    def written(self, translation: str) -> str:
        """Return the text of a translation, with everything that was taken out of the source."""
        return translation if self.changed is None else self.changed.undone(translation)


@dataclass(frozen=True)
class _Translated:
    """Ids of a source and of its translation."""

    ids: list[int]
    translation: tuple[int, ...]

    @property
    def question(self) -> Hashable:
        """All that the confidence of its words depends on."""
        return tuple(self.ids), self.translation


U = TypeVar("U", Unit, _Translated)


@dataclass(frozen=True)
class BatchSize:
    """How many sentences are translated together, as long as they have no more than so many tokens."""

    sentences: int
    tokens: int


@dataclass(frozen=True)
class UnitDecoder:
    """A model with a strategy."""

    runtime: Runtime
    tokenizer: Tokenizer
    strategy: Strategy
    request: Request
    size: BatchSize

    @property
    def surfaces(self) -> Surfaces:
        """What each token adds to a text."""
        return surfaces_of(self.tokenizer)

    def constrained(self, units: Sequence[Unit], constraints: Constraints) -> list[Unit]:
        """Return the pieces of one text with what is asked of each."""
        if constraints.is_empty or not units:
            return list(units)
        wanted = piece_constraints(constraints, [unit.text for unit in units], partial(self._costs, units))
        pairs = zip(units, wanted, strict=True)
        return [replace(unit, clauses=own.clauses(unit.text)) for unit, own in pairs]

    def found(self, units: Sequence[Unit]) -> list[Satisfied]:
        """Decode all units; what nothing is asked of is decoded as ever."""
        if not any(unit.clauses for unit in units):
            return in_batches(units, self._decode, self.size)
        free = [index for index, unit in enumerate(units) if not unit.clauses]
        bound = [index for index, unit in enumerate(units) if unit.clauses]
        plain = in_batches([units[index] for index in free], self._decode, self.size)
        kept = in_batches([units[index] for index in bound], self._decode_constrained, self.size)
        found = dict(zip([*free, *bound], [*plain, *kept], strict=True))
        return [found[index] for index in range(len(units))]

    def kept(self, units: Sequence[Unit], found: Sequence[Satisfied]) -> tuple[list[Unit], list[Satisfied]]:
        """Decode again where something of the source was lost that must survive."""
        changes = dict[Hashable, Unit | None]()  # equal texts with equal translations are changed once
        changed = dict[int, Unit | None]()
        for index, unit in enumerate(units):
            case = (unit.text, unit.question, found[index].hypotheses[0].ids)
            if case not in changes:
                changes[case] = self._changed(unit, found[index])
            changed[index] = changes[case]
        again = {index: unit for index, unit in changed.items() if unit is not None}
        better = dict(zip(again, self.found(list(again.values())), strict=True))
        indices = range(len(units))
        return [again.get(i, units[i]) for i in indices], [better.get(i, found[i]) for i in indices]

    def words(self, units: Sequence[Unit], found: Sequence[Satisfied]) -> list[tuple[Word, ...]]:
        """Return how sure the model is of the words of each best translation; none if it has no rules."""
        runtime = self.runtime
        if not isinstance(runtime, Tables):
            return [()] * len(units)
        best = [_Translated(u.ids, own.hypotheses[0].ids) for u, own in zip(units, found, strict=True)]

        def decode(batch: Sequence[_Translated]) -> list[tuple[Word, ...]]:
            sources, translations = [own.ids for own in batch], [own.translation for own in batch]
            return word_confidences(runtime, sources, translations, self.surfaces)

        return in_batches(best, decode, self.size)

    def _changed(self, unit: Unit, found: Satisfied) -> Unit | None:
        """Return what to translate instead, if anything was lost."""
        items = awkward_items(unit.text, self.surfaces)
        translation = self.tokenizer.decode(found.hypotheses[0].ids)
        if not lost_items(items, translation):
            return None
        change = substituted(unit.text, items, translation, self.surfaces)
        ids = self.tokenizer.encode(change.text)
        if not 2 < len(ids) <= self.runtime.max_source_length:
            ids, change = unit.ids, replace(change, required=())
        able = isinstance(self.strategy, Constraining)
        wanted = tuple(Clause("require", text) for text in change.required) if able else ()
        clauses = tuple(dict.fromkeys((*unit.clauses, *wanted)))
        return replace(unit, ids=ids, clauses=clauses, changed=change)

    def _costs(self, units: Sequence[Unit], phrase: str) -> list[float]:
        """Return how much less probable units become with a phrase."""
        clause = Clause("require", phrase)
        without = self._decode_constrained([replace(unit, clauses=()) for unit in units])
        with_phrase = self._decode_constrained([replace(unit, clauses=(clause,)) for unit in units])
        return [
            math.inf if bound.unmet else free.hypotheses[0].score - bound.hypotheses[0].score
            for free, bound in zip(without, with_phrase, strict=True)
        ]

    def _decode(self, units: Sequence[Unit]) -> list[Satisfied]:
        sources = [unit.ids for unit in units]
        return [Satisfied(best) for best in self.strategy.decode(self.runtime, sources, self.request)]

    def _decode_constrained(self, units: Sequence[Unit]) -> list[Satisfied]:
        strategy, sources = constraining(self.strategy), [unit.ids for unit in units]
        asked = Asked([unit.clauses for unit in units], self.surfaces)
        return strategy.decode_constrained(self.runtime, sources, self.request, asked)


def in_batches(units: Sequence[U], decode: Callable[[Sequence[U]], list[T]], size: BatchSize) -> list[T]:
    """Decode in batches of similar length; the results are in the order of the units.

    Of equal units only the first is decoded: a megabyte of dots is a thousand times the same piece.
    """
    if len(units) == 1:
        return decode(units)
    questions = [unit.question for unit in units]
    first = {question: index for index, question in reversed(list(enumerate(questions)))}
    found: dict[Hashable, T] = {}
    order = sorted(first.values(), key=lambda index: (len(units[index].ids), index))
    for batch in _batches(order, [len(unit.ids) for unit in units], size):
        results = decode([units[index] for index in batch])
        found.update(zip([questions[index] for index in batch], results, strict=True))
    return [found[question] for question in questions]


def _batches(order: Sequence[int], lengths: Sequence[int], size: BatchSize) -> Iterator[list[int]]:
    """Cut indices, sorted by length, into batches."""
    batch: list[int] = []
    for index in order:
        full = len(batch) >= size.sentences or (len(batch) + 1) * lengths[index] > size.tokens
        if batch and full:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch
