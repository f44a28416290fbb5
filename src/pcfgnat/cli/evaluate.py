"""`pcfgnat evaluate`: how good systems are, side by side."""

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pcfgnat.cli.files import writing
from pcfgnat.cli.options import (
    Commands,
    add_decoding_options,
    add_machine_options,
    load_translator,
    named_paths,
    new_command,
)
from pcfgnat.cli.test_sets import TestSet, choose_measures, read_test_set, read_translations
from pcfgnat.progress import progress_bar

if TYPE_CHECKING:
    from pcfgnat.evaluation import Measures, Report, SweepPoint, SystemReport
    from pcfgnat.translator import Translator

DESCRIPTION = """\
Translate a test set and score it: sacreBLEU with its signature, chrF, tokenised BLEU, length ratio, speed.

A SYSTEM is a checkpoint directory or a file with a translation a line; NAME=PATH gives it a name. Several
systems are compared with the first one by paired bootstrap. A sweep varies β; models that find the best
sentence of every length do that for the price of one decoding.
"""
EXAMPLE = """\
examples:
  pcfgnat evaluate runs/pcfg/best runs/teacher/best --data prepared/en-de
  pcfgnat evaluate runs/pcfg/best --data prepared/en-de --tune-on valid
  pcfgnat evaluate ours=a.txt theirs=b.txt --reference test.de
"""
AUTOMATIC_BETAS = "0.6:1.6:0.1"
WARM_UP_SENTENCES = 4


def add_command(commands: Commands) -> None:
    """Describe the command's options."""
    parser = new_command(commands, "evaluate", "score and compare systems", DESCRIPTION, run)
    parser.epilog = EXAMPLE
    parser.add_argument(
        "systems", nargs="*", metavar="SYSTEM", help="what to judge (the model that comes along)"
    )
    group = parser.add_argument_group("test set: either --data, or --reference with --source")
    group.add_argument("--data", type=Path, metavar="DIR", help="what `pcfgnat prepare` made")
    group.add_argument("--split", choices=("valid", "test"), default="test", help="which part of it (test)")
    group.add_argument("--source", type=Path, metavar="FILE", help="text to translate")
    group.add_argument("--reference", type=Path, metavar="FILE", help="the right translations")
    group.add_argument("--limit", type=int, metavar="N", help="only the first N sentences")
    group = parser.add_argument_group("scores")
    group.add_argument(
        "--tokenize",
        metavar="NAME",
        help="sacreBLEU's 13a, zh, intl, char or none (zh for Chinese, else 13a)",
    )
    group.add_argument(
        "--tokenized", action="store_true", help="the text is tokenised already (known of data split with @@)"
    )
    group.add_argument(
        "--sweep",
        nargs="?",
        const=AUTOMATIC_BETAS,
        metavar="A:B:STEP",
        help=f"vary β ({AUTOMATIC_BETAS}; also 1,1.2)",
    )
    group.add_argument(
        "--tune-on",
        choices=("valid",),
        help="take the β that is best on the valid part of --data for each model",
    )
    group.add_argument("--json", type=Path, metavar="FILE", help="write everything as JSON, too")
    group.add_argument(
        "--save", type=Path, metavar="DIR", help="write the translations of each system to DIR/NAME.txt"
    )
    add_decoding_options(parser)
    add_machine_options(parser)


def run(options: argparse.Namespace) -> None:
    """Translate, score, compare and print."""
    from pcfgnat.evaluation import render

    report, translations = _evaluated(options)
    print(render(report))
    if options.json is not None:
        with writing(options.json) as file:
            json.dump(report.to_dict(), file, ensure_ascii=False, indent=2, allow_nan=False)
            file.write("\n")
    if options.save is not None:
        options.save.mkdir(parents=True, exist_ok=True)
        for name, lines in translations.items():
            with writing(options.save / f"{name.replace('/', '_')}.txt") as file:
                file.writelines(f"{line}\n" for line in lines)


def _evaluated(options: argparse.Namespace) -> tuple["Report", dict[str, list[str]]]:
    from pcfgnat.evaluation import Report, compare

    paths = named_paths(options.systems)
    betas = _betas(options.sweep or AUTOMATIC_BETAS)
    test = read_test_set(options, options.split)
    tuning = None if options.tune_on is None else read_test_set(options, options.tune_on)
    measures = choose_measures(options)
    systems: list[SystemReport] = []
    translations: dict[str, list[str]] = {}
    for name, path in paths.items():
        if path is not None and path.is_file():
            lines = read_translations(path, len(test.reference), options.limit)
            report = _of_file(name, lines, test, measures)
        else:
            judge = _Judge(measures, test, tuning, betas if options.sweep else None)
            report, lines = judge.model(name, load_translator(options, path), betas)
        systems.append(report)
        translations[name] = lines
    if len(systems) > 1:
        found = compare(translations, test.reference, measures)
        systems = [replace(system, significance=found[system.name]) for system in systems]
    where = options.tune_on or (options.split if options.sweep else None)
    return Report(test.name, tuple(systems), options.tune_on, where), translations


@dataclass(frozen=True)
class _Judge:
    """Judges models on a test set, after their β was tuned on another one if that is wanted."""

    measures: "Measures"
    test: TestSet
    tuning: TestSet | None
    sweep: Sequence[float] | None

    def model(
        self, name: str, translator: "Translator", betas: Sequence[float]
    ) -> tuple["SystemReport", list[str]]:
        """Translate and score; also return the translations."""
        from pcfgnat.evaluation import SystemReport

        points: tuple[SweepPoint, ...] = ()
        if self.tuning is not None:
            points = self._swept(translator, self.tuning, betas)
            best = max(points, key=lambda point: point.bleu)
            translator = translator.with_options(replace(translator.options, length_penalty=best.beta))
        elif self.sweep is not None:
            points = self._swept(translator, self.test, self.sweep)
        source = self.test.source_for(translator.tokenizer)
        translator(source[:WARM_UP_SENTENCES])  # kernels are compiled at their first use
        start = time.perf_counter()
        lines = [str(translation) for translation in translator.stream(_progress(source, name))]
        seconds = time.perf_counter() - start
        report = SystemReport(
            name,
            self.measures.score(lines, self.test.reference),
            translator.strategy.name,
            translator.request.length_penalty,
            len(lines) / max(seconds, 1e-9),
            sweep=points,
        )
        return report, lines

    def _swept(
        self, translator: "Translator", data: TestSet, betas: Sequence[float]
    ) -> tuple["SweepPoint", ...]:
        from pcfgnat.evaluation import SweepPoint

        source = data.source_for(translator.tokenizer)
        columns = translator.sweep(_progress(source, f"sweep on {data.name}"), betas)
        return tuple(
            SweepPoint(beta, *self.measures.bleu(column, data.reference))
            for beta, column in zip(betas, columns, strict=True)
        )


def _of_file(name: str, lines: list[str], test: TestSet, measures: "Measures") -> "SystemReport":
    from pcfgnat.evaluation import SystemReport

    return SystemReport(name, measures.score(lines, test.reference))


def _betas(text: str) -> list[float]:
    """Read `0.8:1.6:0.1` or `0.8,1,1.2`."""
    try:
        if ":" not in text:
            return [float(part) for part in text.split(",")]
        low, high, step = (float(part) for part in text.split(":"))
    except ValueError as error:
        raise ValueError(f"--sweep must look like 0.8:1.6:0.1 or 0.8,1,1.2, got {text!r}") from error
    if not (step > 0 and low <= high):
        raise ValueError(f"--sweep must go up from A to B in steps of more than 0, got {text!r}")
    count = int((high - low) / step + 1e-6) + 1
    return [round(low + i * step, 10) for i in range(count)]


def _progress(lines: Sequence[str], label: str) -> Iterator[str]:
    with progress_bar(label, "lines", len(lines)) as bar:
        for line in lines:
            yield line
            bar.update()
