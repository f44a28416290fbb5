"""What a user gets: a translation with its score, its pieces, its tree and its alternatives, as a value."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from pcfgnat.draw import translation_html
from pcfgnat.structures import Hypothesis, ParseTree
from pcfgnat.text import Tokenizer
from pcfgnat.translator.confidence import Word


@dataclass(frozen=True)
class Verification:
    """How a translation was drafted and verified: in rounds, of so many drafted tokens that were accepted.

    drafts:   the pieces that each round's draft proposed, eos included
    accepted: how many of them were accepted
    """

    drafts: tuple[tuple[str, ...], ...]
    accepted: tuple[int, ...]

    @classmethod
    def from_hypothesis(cls, hypothesis: Hypothesis, tokenizer: Tokenizer) -> "Verification | None":
        """Read the rounds of what a model found, if there are any."""
        rounds = hypothesis.rounds
        drafts = tuple(tuple(tokenizer.pieces(one.draft)) for one in rounds)
        return cls(drafts, tuple(one.accepted for one in rounds)) if rounds else None

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        pairs = zip(self.drafts, self.accepted, strict=True)
        return {
            "rounds": len(self.drafts),
            "accepted": sum(self.accepted),
            "drafts": [{"pieces": list(draft), "accepted": accepted} for draft, accepted in pairs],
        }


@dataclass(frozen=True)
class Candidate:
    """One way to translate a text.

    `score` is the natural logarithm of its probability, with the tree if there is one; `pieces` are the
    subwords, without bos and eos; `tree` is the parse tree, its words the pieces, of models that have one;
    `verification` is there for translations that were drafted and verified; `passes` are the pieces after
    each pass, of translations that were written in several; `forced` are the places of the pieces that
    constraints asked for.
    """

    text: str
    score: float
    pieces: tuple[str, ...]
    tree: ParseTree | None = None
    forced: tuple[int, ...] = ()
    verification: Verification | None = None
    passes: tuple[tuple[str, ...], ...] = ()

    def __str__(self) -> str:
        return self.text

    @classmethod
    def from_hypothesis(
        cls, hypothesis: Hypothesis, tokenizer: Tokenizer, forced: tuple[int, ...] = ()
    ) -> "Candidate":
        """Read what a model found."""
        tree, words = hypothesis.tree, tokenizer.pieces(hypothesis.ids)
        if tree is not None:
            tree = tree.with_words(words)
        verification = Verification.from_hypothesis(hypothesis, tokenizer)
        text, score = tokenizer.decode(hypothesis.ids), float(hypothesis.score)
        passes = tuple(tuple(tokenizer.pieces(ids)[1:-1]) for ids in hypothesis.passes)
        return cls(text, score, tuple(words[1:-1]), tree, forced, verification, passes)

    @classmethod
    def joined(cls, parts: Sequence["Candidate"], gaps: Sequence[str]) -> "Candidate":
        """Put translations of consecutive pieces of a text together; they keep trees of their own."""
        pieces = tuple(piece for part in parts for piece in part.pieces)
        text = "".join(f"{p.text}{g}" if p.text else g.strip(" ") for p, g in zip(parts, gaps, strict=True))
        starts = accumulate((len(part.pieces) for part in parts), initial=0)
        forced = tuple(s + place for s, part in zip(starts, parts, strict=False) for place in part.forced)
        return cls(text.strip(), math.fsum(part.score for part in parts), pieces, None, forced)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        data: dict[str, Any] = {"text": self.text, "score": _finite(self.score), "pieces": list(self.pieces)}
        if self.tree is not None:
            data["tree"] = json.loads(self.tree.to_json())
        if self.verification is not None:
            data["verification"] = self.verification.to_dict()
        if self.forced:
            data["forced"] = list(self.forced)
        if self.passes:
            data["passes"] = [list(pieces) for pieces in self.passes]
        return data


@dataclass(frozen=True)
class Translation:
    """The best translation of a text.

    `alternatives` are the next best ones, if they were asked for. A text too long for the model was
    translated in pieces: `parts` has their translations, and `notes` says so. `unmet` are the constraints
    that could not be fulfilled, `words` how sure the model is of each word, if that was asked for.
    """

    source: str
    text: str
    score: float
    pieces: tuple[str, ...]
    tree: ParseTree | None = None
    alternatives: tuple[Candidate, ...] = ()
    parts: tuple["Translation", ...] = ()
    notes: tuple[str, ...] = ()
    forced: tuple[int, ...] = ()
    unmet: tuple[str, ...] = ()
    words: tuple[Word, ...] = ()
    verification: Verification | None = None
    passes: tuple[tuple[str, ...], ...] = ()

    def __str__(self) -> str:
        return self.text

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """The translation and its alternatives, best first."""
        how = (self.forced, self.verification, self.passes)
        best = Candidate(self.text, self.score, self.pieces, self.tree, *how)
        return (best, *self.alternatives)

    @property
    def trees(self) -> tuple[ParseTree, ...]:
        """The tree, or one for each part."""
        return self.trees_of(0)

    def trees_of(self, rank: int) -> tuple[ParseTree, ...]:
        """Return the tree of a candidate, 0 the best, or one for each part."""
        if self.parts:
            return tuple(tree for part in self.parts for tree in part.trees_of(rank))
        tree = self.candidates[rank].tree
        return () if tree is None else (tree,)

    @classmethod
    def empty(cls, source: str) -> "Translation":
        """The translation of nothing: nothing, for certain."""
        return cls(source, "", 0.0, ())

    @classmethod
    def from_candidates(cls, source: str, candidates: Sequence[Candidate]) -> "Translation":
        """Take the first candidate, and the others as alternatives."""
        best, *others = candidates
        own = (best.text, best.score, best.pieces, best.tree)
        return cls(
            source,
            *own,
            tuple(others),
            forced=best.forced,
            verification=best.verification,
            passes=best.passes,
        )

    @classmethod
    def joined(
        cls, source: str, parts: Sequence["Translation"], gaps: Sequence[str], notes: tuple[str, ...]
    ) -> "Translation":
        """Put the translations of a text's pieces together; alternative i consists of alternatives i.

        `gaps` are what stands behind each piece: a space, or line breaks.
        """
        rows = zip(*(part.candidates for part in parts), strict=False)  # as many as all parts have
        best, *others = [Candidate.joined(row, gaps) for row in rows]
        own = (best.text, best.score, best.pieces, None)
        notes = (*notes, *(own for part in parts for own in part.notes))
        unmet = tuple(clause for part in parts for clause in part.unmet)
        starts = accumulate((len(part.pieces) for part in parts), initial=0)
        words = tuple(w.moved(start) for start, p in zip(starts, parts, strict=False) for w in p.words)
        return cls(source, *own, tuple(others), tuple(parts), notes, best.forced, unmet, words)

    def _repr_html_(self) -> str:
        """Show the tree in a notebook."""
        return translation_html(self.to_dict())

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; what there is none of is left out."""
        best, *others = self.candidates
        data = {"source": self.source, **best.to_dict()}
        if others:
            data["alternatives"] = [candidate.to_dict() for candidate in others]
        if self.parts:
            data["parts"] = [part.to_dict() for part in self.parts]
        if self.notes:
            data["notes"] = list(self.notes)
        if self.words:
            data["words"] = [word.to_dict() for word in self.words]
        if self.unmet:
            data["unmet"] = list(self.unmet)
        return data


def _finite(score: float) -> float | None:
    """JSON has no infinity."""
    return score if math.isfinite(score) else None
