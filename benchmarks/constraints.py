"""What constraints cost, and whether they hold: `python -m benchmarks.constraints --source F --reference F`.

Terms are words of each sentence's own reference, drawn at random, so that they suit it. Sentences are
translated one by one, without terms and with 1, 2 and 4, in turns. What the grammar cannot say at all is
reported as impossible; everything else has to be there.

  python -m benchmarks.constraints --model runs/pcfg/final --source test.en --reference test.de
"""

import argparse
import random
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from benchmarks.measure import interleave, per_item, shown, write_json
from pcfgnat.decoding.constraints import Clause, Constraints
from pcfgnat.evaluation import EvaluationSet
from pcfgnat.report import NOTHING, Table
from pcfgnat.report.statistics import Timing
from pcfgnat.runtimes.onnx import ExportedOptions
from pcfgnat.text.surfaces import is_word_character
from pcfgnat.translator import TranslateOptions, Translation, Translator

COUNTS = (0, 1, 2, 4)
WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Cost:
    """Sentences with so many terms each.

    seconds:    time per sentence
    sentences:  those whose reference has enough words
    impossible: those of which a term was reported as impossible
    satisfied:  those whose translation has all terms that were not
    """

    terms: int
    seconds: Timing
    sentences: int
    impossible: int
    satisfied: int


def terms_of(reference: str, count: int, seed: int) -> tuple[str, ...]:
    """Draw different words of a reference; fewer if it has fewer."""
    words = list(dict.fromkeys(WORD.findall(reference)))
    return tuple(random.Random(f"{seed} {reference}").sample(words, min(count, len(words))))


def has_all(text: str, terms: Sequence[str]) -> bool:
    """Whether a text has all terms as whole words, as far as its script separates words."""
    spaced = "".join(letter if is_word_character(letter) else " " for letter in text)
    return all(f" {term} " in f" {spaced} " if _is_word(term) else term in text for term in terms)


def _is_word(term: str) -> bool:
    return all(map(is_word_character, term))


def costs(
    translator: Translator, texts: EvaluationSet, counts: Sequence[int], rounds: int, seed: int
) -> list[Cost]:
    """Translate all sentences with each number of terms, in turns, and look for the terms."""
    sources = texts.source_for(translator.tokenizer)
    drawn = {count: [terms_of(line, count, seed) for line in texts.reference] for count in counts}
    found: dict[int, list[Translation]] = {}

    def run(count: int) -> None:
        pairs = zip(sources, drawn[count], strict=True)
        found[count] = [translator(source, constraints=Constraints(require=terms)) for source, terms in pairs]

    timings = interleave({str(count): partial(run, count) for count in counts}, rounds)
    return [
        _cost(count, timings[str(count)], list(zip(found[count], drawn[count], strict=True)))
        for count in counts
    ]


def _cost(count: int, whole: Timing, pairs: Sequence[tuple[Translation, tuple[str, ...]]]) -> Cost:
    complete = [(found, terms) for found, terms in pairs if len(terms) == count]
    impossible = sum(bool(found.unmet) for found, _ in complete)
    satisfied = sum(has_all(found.text, possible(terms, found.unmet)) for found, terms in complete)
    return Cost(count, per_item(whole, len(pairs)), len(complete), impossible, satisfied)


def possible(terms: Sequence[str], unmet: Sequence[str]) -> list[str]:
    """Return the terms that were not reported as impossible."""
    return [term for term in terms if str(Clause("require", term)) not in unmet]


def table(found: Sequence[Cost]) -> Table:
    """Return time and share of satisfied sentences by the number of terms."""
    first = found[0].seconds.median
    rows = [
        [
            str(cost.terms),
            shown(cost.seconds),
            f"{cost.seconds.median / first:.2f}",
            str(cost.sentences),
            str(cost.impossible) if cost.terms else NOTHING,
            f"{100 * cost.satisfied / cost.sentences:.1f} %" if cost.terms and cost.sentences else NOTHING,
        ]
        for cost in found
    ]
    return Table(["terms", "time per sentence", "times", "sentences", "impossible", "satisfied"], rows)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    add = parser.add_argument
    add("--model", type=Path, help="a pcfg, dag or hybrid model (default: the bundled one)")
    add("--source", type=Path, required=True, help="sentences to translate")
    add("--reference", type=Path, required=True, help="their translations, of which terms are words")
    add("--sentences", type=int, default=1000)
    add("--rounds", type=int, default=3, help="turns of each number of terms, after one that is not counted")
    add("--terms", type=int, nargs="+", default=COUNTS, help="numbers of terms, the first to compare with")
    add("--threads", type=int, default=1)
    add("--decode", default="joint-viterbi", help="viterbi or joint-viterbi")
    add("--seed", type=int, default=1, help="of the terms")
    add("--json", type=Path, help="also write the results as JSON")
    given = parser.parse_args(arguments)
    texts = EvaluationSet.files(given.source, given.reference).first(given.sentences)
    options = TranslateOptions(strategy=given.decode, keep=False)  # nothing but the terms is asked for
    onnx = ExportedOptions(threads=given.threads)
    found = costs(
        Translator.load(given.model, options=options, onnx=onnx), texts, given.terms, given.rounds, given.seed
    )
    print(table(found).text())
    if given.json is not None:
        write_json(given.json, {"constraints": [asdict(cost) for cost in found]})


if __name__ == "__main__":
    main()
