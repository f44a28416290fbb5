"""`pcfgnat translate`: text to text."""

import argparse
import json
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from pcfgnat.cli.files import notice, opened, read_lines, replaceable, writing
from pcfgnat.cli.options import (
    Commands,
    add_decoding_options,
    add_machine_options,
    load_translator,
    new_command,
    positive,
)
from pcfgnat.cli.prompt import typed_lines
from pcfgnat.progress import progress_bar

if TYPE_CHECKING:
    from pcfgnat.translator import Translation, Translator

DESCRIPTION = """\
Translate the arguments, a file or what comes in on stdin, line by line. Order and empty lines stay. A line
that is too long for the model is cut after sentences, where possible, and a notice says so.

From --input FILE to --output FILE, a command that was interrupted, however roughly, goes on where it was when
it is given again, and says so. To begin anew, remove FILE.progress.toml beside the output.
"""
EXAMPLE = """\
examples:
  pcfgnat translate "How are you?" "Fine." --tree
  pcfgnat translate --input news.en.gz --output news.de --threads 4
  tail -f log | pcfgnat translate --batch 1        (answers every line at once)
"""


def add_command(commands: Commands) -> None:
    """Describe the command's options."""
    parser = new_command(commands, "translate", "translate text", DESCRIPTION, run)
    parser.epilog = EXAMPLE
    parser.add_argument("texts", nargs="*", metavar="TEXT", help="what to translate, instead of stdin")
    parser.add_argument("--model", type=Path, metavar="DIR", help="a checkpoint (the one that comes along)")
    parser.add_argument("--input", type=Path, metavar="FILE", help="a text to translate; .gz is unpacked")
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FILE",
        help="where to (stdout); while it is incomplete it has .partial behind its name",
    )
    form = parser.add_argument_group("form of the output").add_mutually_exclusive_group()
    form.add_argument("--tree", action="store_true", help="draw the parse tree below each translation")
    form.add_argument(
        "--json", action="store_true", help="a line of JSON for each line: text, score, pieces, tree"
    )
    add_decoding_options(parser)
    parser.add_argument(
        "--results",
        "--nbest",
        type=positive,
        default=1,
        metavar="N",
        help="the N best translations or samples, each as line number, score and text with tabs between",
    )
    add_machine_options(parser)


def run(options: argparse.Namespace) -> None:
    """Translate all lines."""
    if options.texts and options.input is not None:
        raise ValueError("either texts or --input may be given, got both")
    translator = load_translator(options, options.model, results=options.results, at_once=_is_typed(options))
    from_file = options.input is not None and (options.input.is_file() or not options.input.exists())
    if from_file and options.output is not None and replaceable(options.output):
        _translate_file(options, translator)
    else:
        _translate_stream(options, translator)


def _translate_stream(options: argparse.Namespace, translator: "Translator") -> None:
    lines = _checked(options.texts) if options.texts else _read(options)
    shown = _is_typed(options) or (options.output is None and sys.stdout.isatty())  # by the lines themselves
    notices = _Notices(options, translator.strategy.name)
    with writing(options.output) as file, progress_bar("", "lines", hidden=shown) as bar:
        for number, translation in enumerate(translator.stream(lines), start=1):
            notices.tell(translation, number)
            for line in _shown(translation, number, options):
                print(line, file=file)
            if translator.options.window == 1:
                file.flush()
            bar.update()


def _translate_file(options: argparse.Namespace, translator: "Translator") -> None:
    """Translate a file to a file, and go on if that was begun before."""
    from pcfgnat.storage.growing import GrowingFiles
    from pcfgnat.translator import translate_into

    def render(sources: Sequence[str], found: Sequence["Translation"], first: int) -> list[str]:
        lines = (_shown(translation, number, options) for number, translation in enumerate(found, first))
        return ["".join(f"{line}\n" for line in chain.from_iterable(lines))]

    record = options.output.with_name(f"{options.output.name}.progress.toml")
    job, notices = _job(options, translator), _Notices(options, translator.strategy.name)
    with opened(options.input) as lines, GrowingFiles([options.output], record, job, True) as output:
        if output.progress.complete:
            notice(f"complete already: {output.progress.lines} lines in {options.output}")
            return
        if done := output.progress.lines:
            notice(f"going on after {done} lines; to begin anew, remove {record}")
        window = translator.options.window
        with progress_bar("", "lines", initial=done) as bar:
            for chunk in translate_into(translator, lines, output, render, window):
                for number, translation in enumerate(chunk, done + 1):
                    notices.tell(translation, number)
                done += len(chunk)
                bar.update(len(chunk))


def _job(options: argparse.Namespace, translator: "Translator") -> dict[str, str]:
    """Name everything that the result depends on, but for the text itself."""
    return {
        **translator.job(),
        "form": "json" if options.json else "tree" if options.tree else "text",
        "input": str(options.input),
    }


def _is_typed(options: argparse.Namespace) -> bool:
    """Return whether a person sits at the other end of stdin."""
    return not options.texts and options.input is None and sys.stdin.isatty()


def _read(options: argparse.Namespace) -> Iterator[str]:
    """Yield the lines of the input, or what a person types."""
    if not _is_typed(options):
        return read_lines(options.input)
    from pcfgnat.translator import describe_model, model_directory

    languages = describe_model(model_directory(options.model)).languages
    return typed_lines(f"{languages.source or 'source'} → {languages.target or 'target'}")


def _checked(texts: Iterable[str]) -> Iterator[str]:
    """Complain about arguments that are no text."""
    for number, text in enumerate(texts, start=1):
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise ValueError(
                f"text {number} must be UTF-8, got a wrong byte at character {error.start + 1}"
            ) from error
        yield text


class _Notices:
    """Tells once what was asked for and is not there, and each time what happened to a line."""

    def __init__(self, options: argparse.Namespace, strategy: str) -> None:
        self._nbest, self._tree, self._strategy = options.results, options.tree, strategy
        self._told: set[str] = set()

    def tell(self, translation: "Translation", number: int) -> None:
        for note in translation.notes:
            notice(f"line {number}: {note}")
        found = len(translation.candidates)
        if translation.pieces and found < self._nbest:
            self._once(
                "nbest", f"{self._strategy} found only {found} of {self._nbest} translations of line {number}"
            )
        if translation.pieces and self._tree and not translation.trees:
            self._once("tree", "this model builds no trees")

    def _once(self, kind: str, message: str) -> None:
        if kind not in self._told:
            self._told.add(kind)
            notice(message)


def _shown(translation: "Translation", number: int, options: argparse.Namespace) -> Iterator[str]:
    if options.json:
        yield json.dumps(translation.to_dict(), ensure_ascii=False, allow_nan=False)
    elif options.results > 1:
        for candidate in translation.candidates:
            yield f"{number}\t{candidate.score:.4f}\t{candidate.text}"
    else:
        yield translation.text
    if options.tree:
        yield from _drawn(translation, colour=options.output is None and sys.stdout.isatty())


def _drawn(translation: "Translation", colour: bool) -> Iterator[str]:
    from pcfgnat.draw import MIN_WIDTH, draw_terminal

    width = max(shutil.get_terminal_size((100, 24)).columns, MIN_WIDTH)
    for tree in translation.trees:
        yield f"\n{draw_terminal(tree.to_dict(), width, colour)}\n"
