"""`pcfgnat benchmark`: how fast models are, side by side."""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pcfgnat.cli.files import notice
from pcfgnat.cli.options import Commands, new_command, positive

if TYPE_CHECKING:
    from pcfgnat.benchmark.contender import Case, Contender
    from pcfgnat.benchmark.paper_size import Cache
    from pcfgnat.benchmark.results import Results
    from pcfgnat.benchmark.run import Grid

DESCRIPTION = """\
Measure how long translation takes, from text to text. Each contender runs in a process of its own; they take
turns, so that what disturbs the machine disturbs all of them. Use a quiet machine.

Without --models, networks of the paper's size with random weights compete: ours in torch and in the engine,
and the same autoregressive weights in CTranslate2. Autoregressive ones stop at the length of their source.
With --models, trained ones translate a test set, and BLEU stands beside the time.
"""
EXAMPLE = """\
examples:
  pcfgnat benchmark                                    everything; takes hours
  pcfgnat benchmark --bars                             the ratios that the documentation promises
  pcfgnat benchmark --contenders 'pcfg-*' '*int8*' --lengths 25 --batches 1 --threads 1 --rounds 5
  pcfgnat benchmark --models pcfg=runs/pcfg/final ar=runs/ar/final:beam --data runs/data/multi30k
  pcfgnat benchmark --train --config pcfg dag ctc --data runs/data/multi30k
"""
LENGTHS, BATCHES = (10, 25, 50, 100), (1, 8, 32)
OUTPUT = Path("runs/benchmark")
SHORTLIST = {"shortlist": True, "exact": False}
CTRANSLATE2_FILE, ONNX_FILE = "model.bin", "exported.toml"


def add_command(commands: Commands) -> None:
    """Describe the command's options."""
    parser = new_command(commands, "benchmark", "measure speed side by side", DESCRIPTION, run)
    parser.epilog = EXAMPLE
    modes = parser.add_argument_group("what to measure").add_mutually_exclusive_group()
    modes.add_argument("--paper-size", action="store_true", help="random weights, paper's size (default)")
    modes.add_argument("--bars", action="store_true", help="of these, only what the promised ratios need")
    modes.add_argument("--list", action="store_true", help="say which contenders there are, and do nothing")
    modes.add_argument(
        "--models",
        nargs="+",
        metavar="NAME=DIR",
        help="checkpoints, exported or CTranslate2 models; DIR:greedy, DIR:beam+shortlist … say how",
    )
    modes.add_argument("--train", action="store_true", help="training steps, and where their time goes")
    modes.add_argument("--report", type=Path, metavar="DIR", help="draw the tables of an earlier run again")
    group = parser.add_argument_group("how much")
    group.add_argument(
        "--contenders", nargs="+", default=[], metavar="PATTERN", help="such as 'pcfg-onnx-*' (all)"
    )
    group.add_argument(
        "--lengths", nargs="+", type=positive, metavar="N", help="source tokens, ends counted (10 25 50 100)"
    )
    group.add_argument(
        "--batches",
        nargs="+",
        type=positive,
        metavar="N",
        help="sentences at a time (1 8 32; models: 1 32)",
    )
    group.add_argument("--threads", nargs="+", type=positive, metavar="N", help="(1 2)")
    group.add_argument("--rounds", type=positive, default=10, metavar="N", help="turns of each one (10)")
    group.add_argument(
        "--seconds", type=float, default=30.0, metavar="S", help="most for a contender in one case (30)"
    )
    group = parser.add_argument_group("data and files")
    group.add_argument("--data", type=Path, metavar="DIR", help="prepared text (for --models, --train)")
    group.add_argument("--sentences", type=positive, metavar="N", help="only so many of its test set")
    group.add_argument(
        "--config",
        nargs="+",
        default=[],
        metavar="RECIPE",
        help="of --train (all at the paper's size)",
    )
    group.add_argument(
        "--output", type=Path, default=Path("runs/benchmark"), metavar="DIR", help="(runs/benchmark)"
    )
    group.add_argument(
        "--cache", type=Path, metavar="DIR", help="where random models are kept (~/.cache/pcfgnat/paper-size)"
    )


def run(options: argparse.Namespace) -> None:
    """Measure and print."""
    from pcfgnat.benchmark.report import report
    from pcfgnat.benchmark.results import Results

    if options.list:
        print("\n".join(contender.name for contender in _cache(options).contenders()))
        return
    if options.train:
        _train(options)
        return
    if options.report is not None:
        print(report(Results.load(options.report), options.report))
        return
    results = _trained(options) if options.models else _paper_size(options)
    print(report(results, options.output))
    if results.settings["interrupted"]:
        raise KeyboardInterrupt


def _paper_size(options: argparse.Namespace) -> "Results":
    from pcfgnat.benchmark.bars import CASES, bar_contenders
    from pcfgnat.benchmark.contender import Case
    from pcfgnat.benchmark.run import paper_size

    lengths, batches = options.lengths or LENGTHS, options.batches or BATCHES
    cases = [Case(length, batch) for batch in batches for length in lengths]
    patterns = options.contenders
    if options.bars:
        cases, patterns = list(CASES), bar_contenders()
    threads = options.threads or ([1] if options.bars else [1, 2])
    return paper_size(_cache(options), _grid(options, cases, threads), patterns, options.output, notice)


def _trained(options: argparse.Namespace) -> "Results":
    from pcfgnat.benchmark.contender import Case, selected
    from pcfgnat.benchmark.run import RealText, trained
    from pcfgnat.evaluation import measures_for
    from pcfgnat.text import Prepared

    if options.data is None:
        raise ValueError("--models needs --data, the prepared directory whose test set is translated")
    contenders = selected([_named(model) for model in options.models], options.contenders)
    prepared = Prepared.open(options.data)
    source, reference = (lines[: options.sentences] for lines in prepared.raw("test"))
    measures = measures_for(str(prepared.report.settings.get("target_language", "")))
    text = RealText(source, lambda lines: measures.bleu(lines, reference)[0])
    cases = [Case(0, batch) for batch in options.batches or (1, 32)]
    grid = _grid(options, cases, options.threads or [1])
    return trained(contenders, text, grid, options.output, notice)


def _train(options: argparse.Namespace) -> None:
    from pcfgnat.benchmark.machine import machine
    from pcfgnat.benchmark.paper_size import Size
    from pcfgnat.benchmark.training import measure_training, paper_size_configs, report_training
    from pcfgnat.text import Prepared
    from pcfgnat.training.recipe import resolve_recipe

    facts, size = machine(), Size()
    places = {"data": str(options.data or "generated"), "output": str(options.output)}
    configs = {
        recipe: resolve_recipe(recipe, (), places).config for recipe in options.config
    } or paper_size_configs(size)
    threads = (options.threads or [1])[0]
    configs = {name: replace(config, threads=threads) for name, config in configs.items()}
    data = None if options.data is None else Prepared.open(options.data)
    found = measure_training(configs, data, size.vocabulary, options.rounds)
    print(report_training(found, facts, options.output))


def _grid(options: argparse.Namespace, cases: Sequence["Case"], threads: Sequence[int]) -> "Grid":
    from pcfgnat.benchmark.run import Grid

    return Grid(cases, threads, options.rounds, options.seconds)


def _cache(options: argparse.Namespace) -> "Cache":
    from pcfgnat.benchmark.paper_size import Cache, Size

    return Cache(options.cache or Path.home() / ".cache" / "pcfgnat" / "paper-size", Size(), notice)


def _named(model: str) -> "Contender":
    """Read NAME=DIR:HOW."""
    from pcfgnat.benchmark.contender import Contender

    name, equals, place = model.partition("=")
    path, _, how = place.partition(":")
    words = how.split("+") if how else []
    decode = [word for word in words if word not in SHORTLIST]
    if not equals or not path or len(decode) > 1:
        raise ValueError(f"a model must look like NAME=DIR or NAME=DIR:beam+shortlist, got {model!r}")
    directory = Path(path)
    if not directory.is_dir():
        raise ValueError(f"a model must be a directory, but there is no {path}")
    engine, foreign = ((directory / file).exists() for file in (ONNX_FILE, CTRANSLATE2_FILE))
    return Contender(
        name=name,
        model=name,
        runtime="ctranslate2" if foreign else "onnx" if engine else "torch",
        directory=directory,
        decode=decode[0] if decode else None,
        shortlist=next((SHORTLIST[word] for word in words if word in SHORTLIST), None),
    )
