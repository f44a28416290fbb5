"""`pcfgnat evaluate`: how good systems are, side by side."""

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pcfgnat.cli.files import notice, writing
from pcfgnat.cli.options import (
    Commands,
    add_decoding_options,
    add_machine_options,
    add_runtime_option,
    load_translator,
    named_paths,
    new_command,
)

if TYPE_CHECKING:
    from pcfgnat.evaluation import EvaluationSet
    from pcfgnat.evaluation.report import SystemReport

DESCRIPTION = """\
Translate a test set and score it: sacreBLEU with its signature, chrF, length ratio, repeated and missing
words, speed; also BLEU of tokenised text where the text is tokenised already.

A SYSTEM is a checkpoint directory or a file with one translation per line; NAME=PATH gives it a name. Several
systems are compared with the first one by paired bootstrap. A sweep varies β; models that find the best
sentence of every length do that with a single decoding.
"""
EXAMPLE = """\
examples:
  pcfgnat evaluate runs/pcfg/best runs/teacher/best --data prepared/en-de
  pcfgnat evaluate runs/pcfg/best --data prepared/en-de --tune-on valid --store
  pcfgnat evaluate ours=a.txt theirs=b.txt --reference test.de
"""
TEST_SET = (
    "a test set must be either --data DIR, or --reference FILE with --source FILE; --tune-on needs --data"
)


def add_command(commands: Commands) -> None:
    """Describe the command's options."""
    parser = new_command(commands, "evaluate", "score and compare systems", DESCRIPTION, run)
    parser.epilog = EXAMPLE
    add = parser.add_argument
    add("systems", nargs="*", metavar="SYSTEM", help="systems to score (default: the bundled model)")
    add = parser.add_argument_group("test set: either --data, or --reference with --source").add_argument
    add("--data", type=Path, metavar="DIR", help="the output of `pcfgnat prepare`")
    add("--split", choices=("valid", "test"), default="test", help="which part of it (default: test)")
    add("--source", type=Path, metavar="FILE", help="text to translate")
    add("--reference", type=Path, metavar="FILE", help="the right translations")
    add("--raw", action="store_true", help="the files are raw text; models of @@ text must carry their codes")
    add("--limit", type=int, metavar="N", help="only the first N sentences")
    add = parser.add_argument_group("scores").add_argument
    add("--tokenize", metavar="NAME", help="13a, zh, ja-mecab, ko-mecab, intl, char or none "
        "of sacreBLEU (default: by the target language of data or checkpoint)")  # fmt: skip
    add(
        "--tokenized", action="store_true", help="the text is tokenised already (known of data split with @@)"
    )
    add("--sweep", nargs="?", const="", metavar="A:B:STEP", help="vary β (default: 0.6:1.6:0.1; also 1,1.2)")
    add(
        "--tune-on",
        choices=("valid",),
        help="take the β (of rescore the weight too; without --decode, no_repeat on or off too) that is "
        "best on the valid part of --data",
    )
    add("--store", action="store_true", help="make what --tune-on finds the default of each checkpoint")
    add("--json", type=Path, metavar="FILE", help="also write everything as JSON")
    add("--save", type=Path, metavar="DIR", help="write the translations of each system to DIR/NAME.txt")
    add_decoding_options(parser)
    add_machine_options(parser)
    add_runtime_option(parser)


def run(options: argparse.Namespace) -> None:
    """Translate, score, compare and print."""
    from pcfgnat.evaluation import (
        AUTOMATIC_BETAS,
        Comparison,
        choose_measures,
        on_stderr,
        parse_betas,
        render,
    )

    systems = named_paths(options.systems)
    if options.store:
        _check_storable(options)
    varied = options.sweep is not None or options.tune_on is not None
    betas = parse_betas(options.sweep or AUTOMATIC_BETAS) if varied else ()
    texts = _texts(options, options.split)
    tuning = None if options.tune_on is None else _texts(options, options.tune_on)
    measures = choose_measures(texts, systems, options.tokenized, options.tokenize)
    comparison = Comparison(texts, measures, betas, tuning, on_stderr)
    report, lines = comparison.run(systems, lambda path: load_translator(options, path), options.limit)
    print(render(report))
    if options.store:
        _store(systems, report.systems)
    if options.json is not None:
        with writing(options.json) as file:
            json.dump(report.to_dict(), file, ensure_ascii=False, indent=2, allow_nan=False)
            file.write("\n")
    if options.save is not None:
        options.save.mkdir(parents=True, exist_ok=True)
        for name, translations in lines.items():
            with writing(options.save / f"{name.replace('/', '_')}.txt") as file:
                file.writelines(f"{line}\n" for line in translations)


def _check_storable(options: argparse.Namespace) -> None:
    if options.tune_on is None or not options.systems:
        raise ValueError("--store must come with --tune-on and the checkpoints to store β in")
    if options.verifier is not None:
        raise ValueError("--store must come without --verifier: a pair of models has no directory of its own")
    if options.decode is not None and options.decode.partition(":")[0] != "rescore":
        raise ValueError(
            "--store must come without --decode, other than rescore: β is that of the default strategy"
        )


def _store(systems: Mapping[str, Path | None], found: Sequence["SystemReport"]) -> None:
    """Write the β of each model into its directory, and the strategy if it was tuned; files have neither."""
    from pcfgnat.checkpoints.storing import store_length_penalty
    from pcfgnat.translator import describe_model, model_directory

    for report in found:
        path, beta = systems[report.name], report.length_penalty
        if path is not None and path.is_dir() and beta is not None:
            default = describe_model(model_directory(path)).decoding.strategy
            tuned = report.weights or (report.repeats and report.settings != default)
            strategy = report.settings if tuned else None
            store_length_penalty(model_directory(path), beta, strategy)
            also = "" if strategy is None else f" and {strategy}"
            notice(f"stored β = {beta:g}{also} in {model_directory(path)}")


def _texts(options: argparse.Namespace, split: str) -> "EvaluationSet":
    from pcfgnat.evaluation import EvaluationSet

    if options.raw and options.data is not None:
        raise ValueError("--raw must come with --source and --reference, got --data")
    files = options.source is not None or options.reference is not None
    if options.data is not None and not files:
        return EvaluationSet.prepared(options.data, "valid" if split == "valid" else "test").first(
            options.limit
        )
    if options.data is not None or options.reference is None or options.tune_on is not None:
        raise ValueError(TEST_SET)
    return EvaluationSet.files(options.source, options.reference, options.raw).first(options.limit)
