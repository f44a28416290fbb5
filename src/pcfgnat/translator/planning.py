"""A text as the pieces that a model translates, and how their translations become one again."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from pcfgnat.text import Tokenizer
from pcfgnat.text.surfaces import Surfaces, surfaces_of
from pcfgnat.text.unknown import unknown_note
from pcfgnat.translator.influence import Influence
from pcfgnat.translator.markup import Mark, Passage, passages_of
from pcfgnat.translator.nesting import nested
from pcfgnat.translator.placing import Opposites, opposites, placed
from pcfgnat.translator.sentences import sentences_of
from pcfgnat.translator.splitting import Extent, split_to_fit
from pcfgnat.translator.translation import Candidate, Translation
from pcfgnat.translator.units import Unit

NO_EXTENT = Extent(0, 0, 0)


@dataclass(frozen=True)
class Planner:
    """How texts are cut: into sentences if `split`, and into pieces of at most `limit` tokens."""

    tokenizer: Tokenizer
    limit: int
    split: bool

    def units(self, sentence: str) -> list[Unit]:
        """Return the pieces of a sentence, none if it is empty."""
        ids = self.tokenizer.encode(sentence)
        fits = Extent.surely_fits(sentence, ids, self.limit)
        if not fits and Extent.of(sentence, ids).room > self.limit:
            pieces = split_to_fit(sentence, self.tokenizer, self.limit)
            return list(map(Unit, pieces, self.tokenizer.encode_all(pieces)))
        return [Unit(sentence, ids)] if len(ids) > 2 else []

    def sentences(self, text: str) -> Iterator[tuple[str, str]]:
        """Yield the sentences of a text, or all of it, and what stands behind each."""
        return sentences_of(text) if self.split else iter([(text, "")])

    def plain(self, text: str) -> "Job":
        """Return the pieces of a text."""
        units, gaps, longest = list[Unit](), list[str](), NO_EXTENT
        for sentence, gap in self.sentences(text):
            if own := self.units(sentence):
                units += own
                gaps += [" "] * (len(own) - 1) + [gap]
                longest = max(longest, self._extent(sentence, own))
            elif gaps:
                gaps[-1] += gap
        return Job(text, units, gaps, longest)

    def html(self, text: str) -> "Job":
        """Return the pieces of the passages of an HTML document."""
        parts, units, longest = list[str | _Spans](), list[Unit](), NO_EXTENT
        for part in passages_of(text):
            if isinstance(part, str):
                parts.append(part)
                continue
            spans, end = list[_Span](), 0
            for sentence, _ in self.sentences(part.text):
                own = self.units(sentence)
                longest = max(longest, self._extent(sentence, own))
                for unit in own:
                    start = part.text.index(unit.text.strip(), end)
                    stop = start + len(unit.text.strip())
                    spans += [_Span(end, start, None), _Span(start, stop, len(units))]
                    units.append(unit)
                    end = stop
            parts.append(_Spans(part, (*spans, _Span(end, len(part.text), None))))
        return Job(text, units, [" "] * len(units), longest, tuple(parts))

    def _extent(self, sentence: str, units: Sequence[Unit]) -> Extent:
        """Return the extent of a sentence that was cut; of no other does anybody ask."""
        return Extent.of(sentence, self.tokenizer.encode(sentence)) if len(units) > 1 else NO_EXTENT


@dataclass(frozen=True)
class _Span:
    """Characters of a passage; `unit` is what is translated of them, none if they stay."""

    start: int
    stop: int
    unit: int | None

    def is_before(self, mark: Mark) -> bool:
        """Return whether a mark stands behind it, or opens what follows."""
        return mark.place > self.stop or (mark.place == self.stop and mark.kind == "open")


@dataclass(frozen=True)
class _Spans:
    """A passage, cut."""

    passage: Passage
    spans: tuple[_Span, ...]

    def marked(self) -> Iterator[tuple[_Span, list[Mark]]]:
        """Yield each span with its marks, whose places are counted from its start."""
        marks = list(self.passage.marks)
        for number, span in enumerate(self.spans, start=1):
            count = 0
            while count < len(marks) and (number == len(self.spans) or not span.is_before(marks[count])):
                count += 1
            own, marks = marks[:count], marks[count:]
            yield span, [replace(mark, place=max(0, mark.place - span.start)) for mark in own]


@dataclass(frozen=True)
class Job:
    """A text to translate.

    gaps:     what stands behind each of its pieces
    longest:  the extent of the longest sentence that was cut
    document: of HTML, what the text consists of
    """

    text: str
    units: list[Unit]
    gaps: list[str]
    longest: Extent
    document: tuple[str | _Spans, ...] | None = None

    def joined(
        self,
        parts: Sequence[Translation],
        tokenizer: Tokenizer,
        limit: int,
        influence: Influence | None = None,
    ) -> Translation:
        """Put the translations of all pieces together; tags follow the words that `influence` finds again."""
        if not parts:
            empty = Translation.empty(self.text)
            return empty if self.document is None else replace(empty, text=self.text)
        surfaces = surfaces_of(tokenizer)
        unknown = unknown_note(
            [unit.text for unit in self.units], [unit.ids for unit in self.units], surfaces
        )
        notes = () if unknown is None else (unknown,)
        if len(parts) == 1 and self.document is None:
            if parts[0].source == self.text and not notes:
                return parts[0]
            return replace(parts[0], source=self.text, notes=notes + parts[0].notes)
        if self.longest.room > limit:
            notes = (f"split into {len(parts)} pieces: {self.longest.too_long_for(limit)}", *notes)
        whole = Translation.joined(self.text, parts, self.gaps, notes)
        if self.document is None:
            return whole
        rows = list(zip(*(part.candidates for part in parts), strict=False))
        best, *others = ("".join(self._written(row, surfaces, influence)) for row in rows)
        pairs = zip(whole.alternatives, others, strict=True)
        alternatives = tuple(replace(candidate, text=text) for candidate, text in pairs)
        return replace(whole, text=best, alternatives=alternatives)

    def _written(
        self, found: Sequence[Candidate], surfaces: Surfaces, influence: Influence | None
    ) -> Iterator[str]:
        """Yield the document with translations, each with the marks of its source."""
        for part in self.document or ():
            if isinstance(part, str):
                yield part
                continue
            for span, marks in part.marked():
                source = part.passage.text[span.start : span.stop]
                if span.unit is None:
                    yield placed(source, source, marks, Opposites.same(source))
                else:
                    candidate, ids = found[span.unit], self.units[span.unit].ids
                    html = influence and nested(source, ids, candidate, marks, influence)
                    opposite = opposites(source, ids, candidate, surfaces)
                    yield html or placed(source, candidate.text, marks, opposite)
