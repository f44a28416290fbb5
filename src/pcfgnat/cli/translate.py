"""`pcfgnat translate`: text to text."""

import argparse
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pcfgnat.cli.constraining import add_constraint_options, constraints_of
from pcfgnat.cli.files import notice, read_lines, replaceable, writing
from pcfgnat.cli.options import (
    Commands,
    add_decoding_options,
    add_former_name,
    add_machine_options,
    add_runtime_option,
    load_translator,
    new_command,
    positive,
)
from pcfgnat.cli.prompt import typed_lines
from pcfgnat.progress import is_shown, progress_bar
from pcfgnat.storage.lines import count_lines

if TYPE_CHECKING:
    from pcfgnat.translator import Form, Translator

DESCRIPTION = """\
Translate the arguments, a file or stdin, line by line, the sentences of a line one by one. Order, empty lines
and line breaks stay. A sentence that is too long for the model is translated in pieces, with a notice.

From --input FILE to --output FILE, rerun an interrupted command to resume, even after kill -9. To start over,
delete FILE.progress.toml beside the output.
"""
EXAMPLE = """\
examples:
  pcfgnat translate "How are you?" "Fine." --tree
  pcfgnat translate --input news.en.gz --output news.de --threads 4
  pcfgnat translate --format html --input page.html --output page.de.html
  pcfgnat translate --model pcfg --verifier transformer --input news.en --output news.de
  tail -f log | pcfgnat translate --batch 1        (answers every line at once)
  pcfgnat translate --glossary terms.tsv --forbid Haus --max-characters 60 "The house is old."
"""


def add_command(commands: Commands) -> None:
    """Describe the command's options."""
    parser = new_command(commands, "translate", "translate text", DESCRIPTION, run)
    parser.epilog = EXAMPLE
    add = parser.add_argument
    add("texts", nargs="*", metavar="TEXT", help="text to translate, instead of stdin")
    add("--model", type=Path, metavar="DIR", help="a checkpoint (default: the bundled model)")
    add("--input", type=Path, metavar="FILE", help="a text to translate; .gz is unpacked")
    add(
        "--output",
        type=Path,
        metavar="FILE",
        help="(default: stdout) named FILE.partial until it is complete",
    )
    form = parser.add_argument_group("form of the output").add_mutually_exclusive_group()
    form.add_argument("--tree", action="store_true", help="draw the parse tree below each translation")
    form.add_argument(
        "--json",
        action="store_true",
        help="one JSON object per line: text, score, pieces, tree …",
    )
    add("--format", choices=("text", "html"), default="text",
        help="html: each TEXT, or the whole input, is a document; tags are kept (default: text)")  # fmt: skip
    add("--confidence", action="store_true", help="how sure the model is of each word, with --json")
    add("--split", action=argparse.BooleanOptionalAction, default=True,
        help="translate several sentences in a line one by one (default: yes)")  # fmt: skip
    add_decoding_options(parser)
    add("--results", type=positive, default=1, metavar="N", help="the N best translations or "
        "samples, each as line number, score and text, separated by tabs")  # fmt: skip
    add_former_name(parser, "--nbest", "results", positive)
    add_constraint_options(parser)
    add_machine_options(parser)
    add_runtime_option(parser)


def run(options: argparse.Namespace) -> None:
    """Translate all lines."""
    from pcfgnat.translator import FileJob, Form, model_directory, terminal_width, translate_file

    if options.texts and options.input is not None:
        raise ValueError("either texts or --input may be given, got both")
    constraints = constraints_of(options)
    translator = load_translator(options, options.model, results=options.results, at_once=_is_typed(options))
    if options.confidence and not options.json:
        raise ValueError("--confidence must come with --json, which shows it")
    wanted = replace(
        translator.options,
        constraints=constraints,
        keep=options.keep,
        split=options.split,
        confidence=options.confidence,
        format=options.format,
    )
    translator = translator.with_options(wanted)
    kind = "json" if options.json else "tree" if options.tree else "text"
    form = Form(kind, options.results, terminal_width(), options.output is None and sys.stdout.isatty())  # type: ignore[arg-type]
    if options.format == "html" and (options.results > 1 or options.tree):
        raise ValueError("--format html must come without --results and --tree")
    from_file = (
        options.format == "text"
        and options.input is not None
        and (options.input.is_file() or not options.input.exists())
    )
    if from_file and options.output is not None and replaceable(options.output):
        model = model_directory(options.model)
        translate_file(translator, FileJob(options.input, options.output, model, form), notice)
    else:
        _translate_stream(options, translator, form)


def _translate_stream(options: argparse.Namespace, translator: "Translator", form: "Form") -> None:
    from pcfgnat.translator import Notices

    lines = _checked(options.texts) if options.texts else _read(options)
    if options.format == "html" and not options.texts:
        lines = iter(["\n".join(lines)])
    shown = _is_typed(options) or (options.output is None and sys.stdout.isatty())  # by the lines themselves
    notices = Notices(form, translator.strategy.name, notice)
    total = len(options.texts) or (count_lines(options.input) if is_shown() and not shown else None)
    if options.format == "html" and not options.texts:
        total = 1
    with writing(options.output) as file, progress_bar("", "lines", total, hidden=shown) as bar:
        for number, translation in enumerate(translator.stream(lines), start=1):
            notices.report(translation, number)
            for line in form.lines(translation, number):
                print(line, file=file)
            if translator.options.window == 1:
                file.flush()
            bar.update()


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
    """Yield arguments; raise an error for one that is not text."""
    for number, text in enumerate(texts, start=1):
        try:
            text.encode()
        except UnicodeEncodeError as error:
            place = f"a wrong byte at character {error.start + 1}"
            raise ValueError(f"text {number} must be UTF-8, got {place}") from error
        yield text
