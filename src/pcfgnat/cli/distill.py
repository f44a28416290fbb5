"""`pcfgnat distill`: a teacher's translations as training targets."""

import argparse
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from pcfgnat.cli.files import notice, read_lines
from pcfgnat.cli.options import (
    Commands,
    add_decoding_options,
    add_machine_options,
    new_command,
    positive,
)
from pcfgnat.cli.teacher import add_runtime_options, load_teacher
from pcfgnat.progress import is_shown, progress_bar
from pcfgnat.storage.lines import count_lines

DESCRIPTION = """\
Translate the source side of training text with a teacher, usually an autoregressive model with beam search:
its output is easier to learn for models that translate in one step. Autoregressive teachers run in
CTranslate2 where that is installed, converted once and kept in the user's cache.

Writes PREFIX.SOURCE and PREFIX.TARGET, two files in step, for `pcfgnat prepare --train PREFIX`. Rerun an
interrupted command to resume, even after kill -9.
"""
EXAMPLE = """\
example:
  pcfgnat distill --model runs/teacher/final --input data/train.en.gz --output data/distilled
"""


def add_command(commands: Commands) -> None:
    """Describe the command's options."""
    parser = new_command(commands, "distill", "write training targets with a teacher", DESCRIPTION, run)
    parser.epilog = EXAMPLE
    parser.add_argument("--model", type=Path, required=True, metavar="DIR", help="the teacher's checkpoint")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--input", type=Path, nargs="+", metavar="FILE", help="source text; .gz is unpacked")
    source.add_argument(
        "--data", type=Path, metavar="DIR", help="or the training part of the output of `prepare`"
    )
    parser.add_argument(
        "--output", type=Path, required=True, metavar="PREFIX", help="prefix of the files' names"
    )
    parser.add_argument(
        "--suffixes",
        nargs=2,
        metavar=("SOURCE", "TARGET"),
        help="end of the files' names (default: the teacher's languages, or source and target)",
    )
    parser.add_argument(
        "--chunk", type=positive, default=512, metavar="N", help="lines between saves (default: 512)"
    )
    add_decoding_options(parser)
    add_machine_options(parser)
    add_runtime_options(parser)


def run(options: argparse.Namespace) -> None:
    """Translate what is not translated yet."""
    from pcfgnat.translator import describe_model, distill, job_record, model_directory, pair_files

    translator = load_teacher(options)
    languages = describe_model(model_directory(options.model)).languages
    source, target = options.suffixes or (languages.source or "source", languages.target or "target")
    if source == target:
        raise ValueError(f"--suffixes must be different, got {source!r} twice")
    given = [options.data] if options.data is not None else options.input
    job = {
        **job_record(translator, model_directory(options.model), options.chunk),
        "input": " ".join(map(str, given)),
    }
    cut = 0
    with pair_files(options.output, (source, target), job) as output:
        files = " and ".join(map(str, output.paths))
        if output.progress.complete:
            print(f"complete already: {output.progress.lines} lines in {files}")
            return
        if output.progress.lines:
            notice(f"resuming after {output.progress.lines} lines")
        with progress_bar("", "lines", _total(options), output.progress.lines) as bar:
            for chunk in distill(translator, _lines(options), output, options.chunk):
                cut += sum(bool(translation.parts) for translation in chunk)
                bar.update(len(chunk))
    if not output.progress.lines:
        raise ValueError("there must be at least one line to translate, got none")
    if cut:
        notice(f"{cut} lines were too long for the teacher and translated in pieces")
    print(f"{output.progress.lines} lines in {files}")


def _total(options: argparse.Namespace) -> int | None:
    """Return how many lines there are, if anybody sees the progress."""
    if not is_shown():
        return None
    if options.data is None:
        counts = [count_lines(path) for path in options.input]
        return None if None in counts else sum(count or 0 for count in counts)
    from pcfgnat.text import Prepared

    return Prepared.open(options.data).report.train.kept


def _lines(options: argparse.Namespace) -> Iterator[str]:
    if options.data is None:
        return chain.from_iterable(read_lines(path) for path in options.input)
    from pcfgnat.text import Prepared
    from pcfgnat.translator import training_sources

    return training_sources(Prepared.open(options.data), notice)
