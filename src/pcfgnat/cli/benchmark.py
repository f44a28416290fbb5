"""`pcfgnat benchmark`: how fast trained models are, side by side."""

import argparse
from itertools import chain
from pathlib import Path

from pcfgnat.cli.files import notice
from pcfgnat.cli.options import Commands, new_command, positive

DESCRIPTION = """\
Measure how long trained models take to translate a test set, from text to text, and show BLEU beside the
time. Each model runs in a separate process; they take turns, so that disturbances affect all of them. Use an
idle machine.

A model is a checkpoint, an exported model or a CTranslate2 model. A checkpoint with an exported model inside
runs on onnxruntime, as in `translate`; the report says what ran. NAME=DIR:HOW says how to decode: a
strategy, `torch` or `onnx`, `shortlist` or `exact`, joined by +.
"""
EXAMPLE = """\
examples:
  pcfgnat benchmark --models pcfg=runs/pcfg/final ar=runs/ar/final:beam --data runs/data/multi30k
  pcfgnat benchmark --models a=exported:viterbi+shortlist b=ct2:greedy --data runs/data/multi30k --batches 1
  pcfgnat benchmark --models a=runs/pcfg b=ct2:greedy --data runs/data/multi30k --threads 1,2 --lengths 10,25
  pcfgnat benchmark --report runs/benchmark
"""


def add_command(commands: Commands) -> None:
    """Describe the command's options."""
    parser = new_command(commands, "benchmark", "measure speed side by side", DESCRIPTION, run)
    parser.epilog = EXAMPLE
    modes = parser.add_argument_group("what to measure").add_mutually_exclusive_group(required=True)
    modes.add_argument(
        "--models", nargs="+", metavar="NAME=DIR", help="the models, as NAME=DIR or NAME=DIR:HOW"
    )
    modes.add_argument("--report", type=Path, metavar="DIR", help="print the tables of an earlier run again")
    add = parser.add_argument_group("data and files").add_argument
    add("--data", type=Path, metavar="DIR", help="prepared data whose test set is translated")
    add("--sentences", type=positive, metavar="N", help="only the first N sentences")
    add(
        "--output", type=Path, default=Path("runs/benchmark"), metavar="DIR", help="(default: runs/benchmark)"
    )
    add = parser.add_argument_group("how much").add_argument
    add(
        "--batches",
        nargs="+",
        type=positive,
        default=[1, 32],
        metavar="N",
        help="batch sizes (default: 1 32)",
    )
    add(
        "--threads",
        nargs="+",
        type=counts,
        default=[[1]],
        metavar="N",
        help="numbers of threads, such as 1,2: latency with each (default: 1)",
    )
    add(
        "--lengths",
        nargs="+",
        type=counts,
        default=[],
        metavar="N",
        help="also latency by length: sentences of the test set of about N tokens, such as 10,25",
    )
    add("--rounds", type=positive, default=10, metavar="N", help="turns of each model (default: 10)")
    add(
        "--seconds", type=float, default=30.0, metavar="S", help="limit for a model in one case (default: 30)"
    )


def counts(text: str) -> list[int]:
    """Read positive numbers, separated by commas."""
    return [positive(number) for number in text.split(",")]


def run(options: argparse.Namespace) -> None:
    """Measure and print."""
    from pcfgnat.benchmark.contender import Case, parse_contender
    from pcfgnat.benchmark.report import report
    from pcfgnat.benchmark.results import Results
    from pcfgnat.benchmark.run import Grid, trained
    from pcfgnat.evaluation import EvaluationSet
    from pcfgnat.text import Prepared

    if options.report is not None:
        print(report(Results.load(options.report), options.report))
        return
    if options.data is None:
        raise ValueError("--models needs --data, the prepared directory whose test set is translated")
    contenders = [parse_contender(model) for model in options.models]
    texts = EvaluationSet.prepared(options.data, "test").first(options.sentences)
    lengths, threads = (list(dict.fromkeys(chain(*lists))) for lists in (options.lengths, options.threads))
    cases = [Case(length, batch) for batch in options.batches for length in (0, *lengths)]
    grid = Grid(cases, threads, options.rounds, options.seconds)
    tokenizer = Prepared.open(options.data).tokenizer
    results = trained(contenders, texts, grid, options.output, notice, tokenizer)
    print(report(results, options.output))
    if results.settings["interrupted"]:
        raise KeyboardInterrupt
