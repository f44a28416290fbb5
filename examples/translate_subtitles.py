"""Translate subtitles (.srt): numbers and times stay, and every cue keeps its number of lines.

python examples/translate_subtitles.py film.en.srt film.de.srt [MODEL]
"""

import re
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import unescape
from pathlib import Path

from pcfgnat.translator import TranslateOptions, Translator

TIME = re.compile(r"^\d+:\d\d:\d\d[,.]\d+ --> \d+:\d\d:\d\d[,.]\d+.*$")


@dataclass(frozen=True)
class Cue:
    """What is shown at a time; `head` is its number, if it has one, and its time, as they were written."""

    head: tuple[str, ...]
    lines: tuple[str, ...]


def read_cues(text: str) -> list[Cue]:
    """Return all cues; a blank line ends one, and whatever comes before the first time is an error."""
    cues = list[Cue]()
    for block in re.split(r"\n\s*\n", text.removeprefix("\ufeff").replace("\r\n", "\n").strip("\n")):
        lines = block.split("\n")
        times = [number for number, line in enumerate(lines[:2]) if TIME.match(line)]
        if not times and cues:  # a cue with a blank line inside
            cues[-1] = replace(cues[-1], lines=(*cues[-1].lines, "", *lines))
        elif not times:
            raise ValueError(f"subtitles must begin with a number and a time, got {lines[0]!r}")
        else:
            cues.append(Cue(tuple(lines[: times[0] + 1]), tuple(lines[times[0] + 1 :])))
    return cues


def write_cues(cues: Sequence[Cue]) -> str:
    """Return the text of a file."""
    return "".join("\n".join((*cue.head, *cue.lines)) + "\n\n" for cue in cues)


def translated(cues: Sequence[Cue], translator: Translator) -> list[Cue]:
    """Translate what each person says as a document, whose tags (`<i>`) are kept, all of them together."""
    speeches = [_speeches(cue.lines) for cue in cues]
    documents = [document for own in speeches for _, document in own]
    options = replace(translator.options, format="html", split=True)
    found = iter(translator.with_options(options)(documents))
    said = [[dash + unescape(next(found).text) for dash, _ in own] for own in speeches]
    return [replace(cue, lines=_broken(own, len(cue.lines))) for cue, own in zip(cues, said, strict=True)]


def _speeches(lines: Sequence[str]) -> list[tuple[str, str]]:
    """Put lines together that one person says, behind the dash that begins them if there is one."""
    speeches = list[tuple[str, str]]()
    for line in lines:
        dash = line[: len(line) - len(line.lstrip("- "))]
        if speeches and not dash:
            speeches[-1] = (speeches[-1][0], f"{speeches[-1][1]} {line}")
        else:
            speeches.append((dash, line[len(dash) :]))
    return speeches


def _broken(speeches: Sequence[str], count: int) -> tuple[str, ...]:
    """Break what is said into as many lines as there were, of similar length."""
    if len(speeches) != 1 or count < 2:
        return tuple(speeches)
    (speech,) = speeches
    for width in range(max(1, len(speech) // count), len(speech) + 1):
        lines = textwrap.wrap(speech, width, break_long_words=False, break_on_hyphens=False)
        if len(lines) <= count:
            return tuple(lines)
    return (speech,)


def main(source: str, output: str, model: str | None = None) -> None:
    """Translate a file."""
    translator = Translator.load(model, options=TranslateOptions(keep=True))
    cues = read_cues(Path(source).read_text(encoding="utf-8"))
    Path(output).write_text(write_cues(translated(cues, translator)), encoding="utf-8")
    print(f"{len(cues)} cues written to {output}")


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(f"usage: {sys.argv[0]} SOURCE.srt OUTPUT.srt [MODEL]")
    main(*sys.argv[1:])
