"""Verified drafts beside CTranslate2 with the same weights: `python -m benchmarks.verification`.

Sentences are translated one by one, by turns: our `verify`, `rescore` and the verifier's own greedy search,
and CTranslate2 with the verifier's weights, greedy and with beam 5.

  python -m benchmarks.verification --model runs/pcfg/final --verifier runs/at/final --source F --reference F
  python -m benchmarks.verification --model runs/hybrid/final --source F --reference F --shortlist DATA

A checkpoint that has an exported model inside runs that; export in the precision of --precision. With
--shortlist both sides look only at the tokens that it makes likely.
"""

import argparse
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

from benchmarks.measure import interleave, per_item, shown, write_json
from pcfgnat.benchmark.contender import Contender
from pcfgnat.benchmark.runners import CTranslate2Runner
from pcfgnat.evaluation import EvaluationSet, measures_for
from pcfgnat.export.ctranslate2 import convert
from pcfgnat.report import Table
from pcfgnat.report.statistics import Timing
from pcfgnat.runtimes.exported_runtime import ExportedOptions
from pcfgnat.text import Prepared
from pcfgnat.translator import TranslateOptions, Translation, Translator, describe_model, model_directory

VERIFY, GREEDY, RESCORE = "verify", "greedy", "rescore"
THEIR_GREEDY, THEIR_BEAM = "CTranslate2 greedy", "CTranslate2 beam 5"


@dataclass(frozen=True)
class Way:
    """One way to translate all sentences.

    seconds:      time per sentence
    bleu, chrf:   of all sentences
    as_greedy:    sentences that are exactly those of our greedy search
    """

    name: str
    seconds: Timing
    bleu: float
    chrf: float
    as_greedy: int


@dataclass(frozen=True)
class Rounds:
    """How drafts fared: rounds per sentence, tokens written and drafted tokens accepted, eos included."""

    sentences: int
    mean: float
    written: float
    accepted: float


@dataclass(frozen=True)
class Asked:
    """What takes part: a model that drafts, one that reads (a hybrid's own, if None), and how they run."""

    model: Path
    verifier: Path | None
    precision: Literal["float32", "int8"]
    threads: int
    shortlist: Path | None

    def ours(self, rescore: str) -> dict[str, Translator]:
        """Load our models once, decoded in several ways."""
        exact = None if self.shortlist is None else False
        onnx, plain = ExportedOptions(self.threads, exact), TranslateOptions(keep=False)
        translator = Translator.load(self.model, options=plain, onnx=onnx, verifier=self.verifier)
        wanted = {VERIFY: "verify", GREEDY: "greedy", RESCORE: rescore}
        return {
            name: translator.with_options(replace(plain, strategy=strategy))
            for name, strategy in wanted.items()
        }

    def theirs(self, directory: Path) -> dict[str, CTranslate2Runner]:
        """Convert what reads, and load it in CTranslate2."""
        place, vmap = model_directory(self.verifier or self.model), None
        if self.shortlist is not None:
            prepared = Prepared.open(self.shortlist)
            if (shortlist := prepared.shortlist()) is None:
                raise ValueError(f"{self.shortlist} must have a shortlist: prepare it with --shortlist")
            vmap = shortlist.to_vmap(prepared.tokenizer)
        convert(place, directory, self.precision, vmap)
        return {
            name: CTranslate2Runner(
                Contender(name, name, "ctranslate2", directory, decode, shortlist=vmap is not None),
                self.threads,
            )
            for name, decode in ((THEIR_GREEDY, "greedy"), (THEIR_BEAM, "beam"))
        }


def compared(
    ours: dict[str, Translator],
    theirs: dict[str, CTranslate2Runner],
    texts: EvaluationSet,
    language: str,
    rounds: int,
) -> tuple[list[Way], Rounds]:
    """Translate all sentences by each contender, in turns."""
    translated: dict[str, list[Translation]] = {}
    found: dict[str, list[str]] = {}
    sources = texts.source_for(ours[GREEDY].tokenizer)

    def by_us(name: str) -> Callable[[], None]:
        def run() -> None:
            translated[name] = [ours[name](source) for source in sources]
            found[name] = [str(one) for one in translated[name]]

        return run

    def by_them(name: str) -> Callable[[], None]:
        def run() -> None:
            found[name] = [theirs[name].run([source], 0)[0] for source in sources]

        return run

    runs = {name: by_us(name) for name in ours} | {name: by_them(name) for name in theirs}
    timings, measures = interleave(runs, rounds), measures_for(language)

    def quality(lines: Sequence[str]) -> tuple[float, float]:
        scores = measures.score(lines, texts.reference)
        return scores.bleu, scores.chrf

    rows = [
        Way(
            name,
            per_item(timings[name], len(sources)),
            *quality(lines),
            sum(one == other for one, other in zip(lines, found[GREEDY], strict=True)),
        )
        for name, lines in found.items()
    ]
    return rows, rounds_of(translated[VERIFY])


def rounds_of(translations: Sequence[Translation]) -> Rounds:
    """Return the means over all sentences, split ones piece by piece."""
    parts = [part for whole in translations for part in (whole.parts or (whole,))]
    verified = [(part, part.verification) for part in parts if part.verification is not None]
    count = len(verified)
    return Rounds(
        count,
        sum(len(found.drafts) for _, found in verified) / max(count, 1),
        sum(len(part.pieces) + 1 for part, _ in verified) / max(count, 1),
        sum(sum(found.accepted) for _, found in verified) / max(count, 1),
    )


def table(rows: Sequence[Way], sentences: int) -> Table:
    """Return time, BLEU and equality; times are those of CTranslate2's greedy search over each."""
    base = next(row.seconds.median for row in rows if row.name == THEIR_GREEDY)
    cells = [
        [
            row.name,
            shown(row.seconds),
            f"{base / row.seconds.median:.2f}",
            f"{row.bleu:.2f}",
            f"{row.chrf:.2f}",
            f"{row.as_greedy} of {sentences}",
        ]
        for row in rows
    ]
    return Table(["", "time per sentence", "times as fast", "BLEU", "chrF", "as greedy"], cells)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    add = parser.add_argument
    add("--model", type=Path, required=True, help="a pcfg or dag model, or a hybrid")
    add("--verifier", type=Path, help="an autoregressive checkpoint (default: a hybrid's own head)")
    add("--source", type=Path, required=True, help="sentences to translate")
    add("--reference", type=Path, required=True, help="their translations")
    add("--sentences", type=int, default=1000)
    add("--rounds", type=int, default=3, help="turns of each contender, after one that is not counted")
    add("--threads", type=int, default=1)
    add("--precision", choices=("int8", "float32"), default="int8", help="of CTranslate2 (default: int8)")
    add("--rescore", default="rescore:size=8", help="settings of rescore")
    add("--shortlist", type=Path, metavar="DATA", help="prepared data with a shortlist, used on both sides")
    add("--json", type=Path, help="also write the results as JSON")
    given = parser.parse_args(arguments)
    texts = EvaluationSet.files(given.source, given.reference).first(given.sentences)
    asked = Asked(given.model, given.verifier, given.precision, given.threads, given.shortlist)
    language = describe_model(given.model).languages.target
    with tempfile.TemporaryDirectory() as scratch:
        theirs = asked.theirs(Path(scratch) / "converted")
        rows, rounds = compared(asked.ours(given.rescore), theirs, texts, language, given.rounds)
    print(table(rows, len(texts.reference)).text())
    accepted = f"{rounds.accepted:.2f} of {rounds.written:.2f} tokens were accepted drafts"
    print(f"verify: {rounds.mean:.2f} rounds per sentence, {accepted}")
    if given.json is not None:
        write_json(given.json, {"contenders": [asdict(row) for row in rows], "rounds": asdict(rounds)})


if __name__ == "__main__":
    main()
