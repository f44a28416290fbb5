"""`pcfgnat analyse`: the paper's analyses, on any checkpoint and text."""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pcfgnat.cli.files import notice
from pcfgnat.cli.options import Commands, named_paths, new_command, positive, use_machine

if TYPE_CHECKING:
    from pcfgnat.analysis import Report, Subject
    from pcfgnat.evaluation import EvaluationSet

DESCRIPTION = """\
Analyse trained models. Each analysis prints tables in Markdown and, with --output, writes them there with a
picture and all figures as JSON: NAME.md, NAME.png, NAME.json.
"""
CONCENTRATION = """\
How much of P(Y|X) the best structure of the reference holds: P(Y,T*|X) / P(Y|X), for the best tree of pcfg,
the best path of dag and the best alignment of ctc. Several models are put into one picture.
"""
SYNTAX = """\
Which words stand on the main chain, and which in prefix trees: frequencies of part-of-speech tags and of
unfinished subwords, each divided by the number of tokens of its place. For pcfg models into English.
"""
STRUCTURE = """\
What trees look like, by sentence length: tokens in prefix trees, depth, what the main chain skips, how much
of the canvas is used, and the entropy of the posterior over trees. For pcfg and dag.
"""
EXAMPLE = """\
example:
  pcfgnat analyse {name} pcfg=runs/pcfg/final --data prepared/de-en --output analysis
"""


def add_command(commands: Commands) -> None:
    """Describe the analyses and their options."""
    summary = "analyse the structures of trained models"
    parser = new_command(commands, "analyse", summary, DESCRIPTION, lambda _: parser.print_help())
    kinds = parser.add_subparsers(title="analyses", metavar="ANALYSIS", required=True)
    _analysis(kinds, "concentration", "share of the best structure", CONCENTRATION, _concentration)
    syntax = _analysis(kinds, "syntax", "parts of speech by place", SYNTAX, _syntax)
    structure = _analysis(kinds, "structure", "shape of the trees", STRUCTURE, _structure)
    for one, default in ((syntax, "translation"), (structure, "reference")):
        one.add_argument(
            "--trees",
            choices=("reference", "translation"),
            default=default,
            help=f"the best tree of the reference, or of the model's own translation (default: {default})",
        )


def _analysis(
    kinds: Commands, name: str, summary: str, description: str, run: Callable[[argparse.Namespace], "Report"]
) -> argparse.ArgumentParser:
    parser = new_command(kinds, name, summary, description, lambda options: _show(run(options), options))
    parser.epilog = EXAMPLE.format(name=name)
    parser.add_argument(
        "models", nargs="*", metavar="CHECKPOINT",
        help="checkpoints, as NAME=DIR to name them (default: the bundled model)",
    )  # fmt: skip
    split = "valid" if name == "concentration" else "test"  # as in the paper
    group = parser.add_argument_group("text: either --data, or --source with --target")
    group.add_argument("--data", type=Path, metavar="DIR", help="the output of `pcfgnat prepare`")
    group.add_argument(
        "--split", choices=("valid", "test"), default=split, help=f"which part of it (default: {split})"
    )
    group.add_argument("--source", type=Path, metavar="FILE", help="one sentence per line")
    group.add_argument("--target", type=Path, metavar="FILE", help="their translations")
    group.add_argument("--limit", type=positive, metavar="N", help="only the first N pairs")
    parser.add_argument("--output", type=Path, metavar="DIR", help="where to write tables, picture and JSON")
    group = parser.add_argument_group("machine")
    group.add_argument("--device", default="cpu", help="cpu, cuda, cuda:1, mps … (default: cpu)")
    group.add_argument(
        "--threads", type=positive, metavar="N", help="cores to use (default: what torch chooses)"
    )
    return parser


def _concentration(options: argparse.Namespace) -> "Report":
    from pcfgnat.analysis import concentration, concentration_report

    texts = _texts(options)
    results = [concentration(subject, texts) for subject in _subjects(options)]
    return concentration_report(texts, results)


def _syntax(options: argparse.Namespace) -> "Report":
    from pcfgnat.analysis import syntax, syntax_report

    texts = _texts(options)
    results = [syntax(subject, texts, notice, options.trees) for subject in _subjects(options)]
    return syntax_report(texts, results)


def _structure(options: argparse.Namespace) -> "Report":
    from pcfgnat.analysis import structure, structure_report

    texts = _texts(options)
    results = [structure(subject, texts, options.trees) for subject in _subjects(options)]
    return structure_report(texts, results)


def _show(report: "Report", options: argparse.Namespace) -> None:
    print(report.text)
    if options.output is not None:
        for path in report.write(options.output):
            notice(f"written: {path}")


def _texts(options: argparse.Namespace) -> "EvaluationSet":
    from pcfgnat.evaluation import EvaluationSet

    files: Sequence[Path | None] = (options.source, options.target)
    if options.data is not None and files == (None, None):
        return EvaluationSet.prepared(options.data, options.split).first(options.limit)
    if options.data is not None or options.source is None or options.target is None:
        raise ValueError("the text must be either --data DIR, or --source FILE with --target FILE")
    return EvaluationSet.files(options.source, options.target).first(options.limit)


def _subjects(options: argparse.Namespace) -> "list[Subject]":
    from pcfgnat.analysis import Subject
    from pcfgnat.translator import model_directory

    device = use_machine(options)
    paths = named_paths(options.models)
    return [Subject.load(name, model_directory(path), device) for name, path in paths.items()]
