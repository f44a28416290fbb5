"""Verified drafts beside CTranslate2 with the same weights: `python -m benchmarks.verification`.

Sentences are translated one by one, by turns: our `verify`, `rescore` and the verifier's own greedy search,
and CTranslate2 with the verifier's weights, greedy and with beam 5.

  python -m benchmarks.verification --model runs/pcfg/final --verifier runs/at/final --source F --reference F
  python -m benchmarks.verification --model runs/hybrid/final --source F --reference F --precision float32

A checkpoint that has an exported model inside runs on onnxruntime; export in the precision of --precision.
"""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

from benchmarks.measure import interleave, per_item, shown, write_json
from pcfgnat.evaluation import EvaluationSet, measures_for
from pcfgnat.export.ctranslate2 import converted
from pcfgnat.report import Table
from pcfgnat.report.statistics import Timing
from pcfgnat.runtimes.onnx import ExportedOptions
from pcfgnat.translator import (
    TranslateOptions,
    Translation,
    Translator,
    describe_model,
    load_converted,
    model_directory,
)

VERIFY, GREEDY, RESCORE = "verify", "greedy", "rescore"
THEIR_GREEDY, THEIR_BEAM = "CTranslate2 greedy", "CTranslate2 beam 5"


@dataclass(frozen=True)
class Contender:
    """One way to translate all sentences.

    seconds:      time per sentence
    bleu:         of all sentences
    as_greedy:    sentences that are exactly those of our greedy search
    """

    name: str
    seconds: Timing
    bleu: float
    as_greedy: int


@dataclass(frozen=True)
class Rounds:
    """How drafts fared: rounds per sentence, tokens written and drafted tokens accepted, eos included."""

    sentences: int
    mean: float
    written: float
    accepted: float


def translators(
    model: Path, verifier: Path | None, precision: Literal["float32", "int8"], threads: int, rescore: str
) -> dict[str, Translator]:
    """Load both models, and CTranslate2 with the weights of the one that reads."""
    plain = TranslateOptions(keep=False)
    ours = Translator.load(model, options=plain, onnx=ExportedOptions(threads=threads), verifier=verifier)
    place = model_directory(verifier or model)
    loaded = load_converted(place, converted(place, precision), precision, threads)
    theirs = Translator(loaded.runtime, loaded.tokenizer, loaded.defaults, replace(plain, strategy="greedy"))
    wanted = {VERIFY: (ours, "verify"), GREEDY: (ours, "greedy"), RESCORE: (ours, rescore)}
    wanted |= {THEIR_GREEDY: (theirs, "greedy"), THEIR_BEAM: (theirs, "beam:size=5")}
    return {
        name: translator.with_options(replace(plain, strategy=strategy))
        for name, (translator, strategy) in wanted.items()
    }


def compared(
    contenders: dict[str, Translator], texts: EvaluationSet, language: str, rounds: int
) -> tuple[list[Contender], Rounds]:
    """Translate all sentences by each contender, in turns."""
    found: dict[str, list[Translation]] = {}

    def runs(name: str) -> Callable[[], None]:
        def run() -> None:
            translator = contenders[name]
            found[name] = [translator(source) for source in texts.source_for(translator.tokenizer)]

        return run

    timings = interleave({name: runs(name) for name in contenders}, rounds)
    measures, expected = measures_for(language), [one.pieces for one in found[GREEDY]]
    rows = [
        Contender(
            name,
            per_item(timings[name], len(expected)),
            measures.bleu([str(one) for one in translations], texts.reference)[0],
            sum(one.pieces == pieces for one, pieces in zip(translations, expected, strict=True)),
        )
        for name, translations in found.items()
    ]
    return rows, rounds_of(found[VERIFY])


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


def table(rows: Sequence[Contender], sentences: int) -> Table:
    """Return time, BLEU and equality; times are those of CTranslate2's greedy search over each."""
    base = next(row.seconds.median for row in rows if row.name == THEIR_GREEDY)
    cells = [
        [
            row.name,
            shown(row.seconds),
            f"{base / row.seconds.median:.2f}",
            f"{row.bleu:.2f}",
            f"{row.as_greedy} of {sentences}",
        ]
        for row in rows
    ]
    return Table(["", "time per sentence", "times as fast", "BLEU", "as greedy"], cells)


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
    add("--json", type=Path, help="also write the results as JSON")
    given = parser.parse_args(arguments)
    texts = EvaluationSet.files(given.source, given.reference).first(given.sentences)
    contenders = translators(given.model, given.verifier, given.precision, given.threads, given.rescore)
    rows, rounds = compared(contenders, texts, describe_model(given.model).languages.target, given.rounds)
    print(table(rows, len(texts.reference)).text())
    accepted = f"{rounds.accepted:.2f} of {rounds.written:.2f} tokens were accepted drafts"
    print(f"verify: {rounds.mean:.2f} rounds per sentence, {accepted}")
    if given.json is not None:
        write_json(given.json, {"contenders": [asdict(row) for row in rows], "rounds": asdict(rounds)})


if __name__ == "__main__":
    main()
