"""Translations as lines of text, and notices about what was asked for but does not exist."""

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from pcfgnat.draw import MIN_WIDTH, draw_terminal
from pcfgnat.text.unknown import MOSTLY_UNKNOWN
from pcfgnat.translator.translation import Translation


@dataclass(frozen=True)
class Form:
    """How a translation is written.

    kind:    `text`, `tree` for text with the parse tree below it, `json` for one object per line
    results: with more than one, text becomes line number, score and text for each, separated by tabs
    width:   columns of a tree; colour: whether it has colours
    """

    kind: Literal["text", "tree", "json"] = "text"
    results: int = 1
    width: int = MIN_WIDTH
    colour: bool = False

    def lines(self, translation: Translation, number: int) -> Iterator[str]:
        """Yield the lines of a translation; `number` is that of its source line, from 1."""
        if self.kind == "json":
            yield json.dumps(translation.to_dict(), ensure_ascii=False, allow_nan=False)
            return
        for rank, candidate in enumerate(translation.candidates):
            score = f"{number}\t{candidate.score:.4f}\t" if self.results > 1 else ""
            yield f"{score}{candidate.text}"
            for tree in translation.trees_of(rank) if self.kind == "tree" else ():
                yield f"\n{draw_terminal(tree.to_dict(), self.width, self.colour)}\n"

    def record(self) -> dict[str, str]:
        """Return what the written lines depend on, for the record of a job."""
        shape = {"width": str(self.width), "colour": str(self.colour)} if self.kind == "tree" else {}
        return {"form": self.kind, **shape}


def terminal_width() -> int:
    """Return the columns of the terminal, 100 without one, and at least what a tree needs."""
    return max(shutil.get_terminal_size((100, 24)).columns, MIN_WIDTH)


class Notices:
    """Reports what happened to a line each time, and what the model cannot give once."""

    def __init__(self, form: Form, strategy: str, say: Callable[[str], None]) -> None:
        self._form, self._strategy, self._say = form, strategy, say
        self._said: set[str] = set()

    def report(self, translation: Translation, number: int) -> None:
        """Report on the translation of a line, counted from 1."""
        for note in translation.notes:
            if note.startswith(MOSTLY_UNKNOWN):
                self._once("unknown", f"line {number}: {note}; no more such lines are reported")
            else:
                self._say(f"line {number}: {note}")
        found, wanted = len(translation.candidates), self._form.results
        if translation.pieces and found < wanted:
            self._once(
                "results", f"{self._strategy} found only {found} of {wanted} translations of line {number}"
            )
        if translation.pieces and self._form.kind == "tree" and not translation.trees:
            self._once("tree", "this model builds no trees")

    def _once(self, kind: str, message: str) -> None:
        if kind not in self._said:
            self._said.add(kind)
            self._say(message)
