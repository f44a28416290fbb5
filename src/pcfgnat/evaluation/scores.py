"""Corpus scores by sacreBLEU, and whether systems differ by more than chance."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pcfgnat.evaluation.tokenizers import bleu_metric, bleu_tokenizer, check_tokenizer
from pcfgnat.evaluation.words import missing_words, repeated_words

if TYPE_CHECKING:
    from sacrebleu.significance import Result

RESAMPLES = 1000
TOKENISED = "none"


@dataclass(frozen=True)
class Scores:
    """Scores of a system on a test set, and the signatures under which others can reproduce them.

    length_ratio:   length of all translations over that of all references, in BLEU's tokens
    repeated_words: adjacent equal words, in percentage points above the references
    missing_words:  words of the references that the translations lack, in %
    tokenised_bleu: BLEU of the text as it is, only where that is tokenised already
    """

    sentences: int
    bleu: float
    bleu_signature: str
    chrf: float
    chrf_signature: str
    length_ratio: float
    repeated_words: float
    missing_words: float
    tokenised_bleu: float | None = None
    tokenised_bleu_signature: str | None = None


@dataclass(frozen=True)
class Significance:
    """A system against the first one: the chance of so large a difference if there were none.

    By paired bootstrap with `resamples` resamples of the test set; `bleu_interval` is half of the 95 %
    confidence interval of the system's BLEU. The first system has no p.
    """

    bleu_interval: float
    bleu_p: float | None
    chrf_p: float | None
    resamples: int


@dataclass(frozen=True)
class Measures:
    """How translations are scored: BLEU's tokenizer, and whether the text is tokenised already."""

    tokenize: str = "13a"
    tokenised: bool = False

    def __post_init__(self) -> None:
        check_tokenizer(self.tokenize)

    def score(self, translations: Sequence[str], references: Sequence[str]) -> Scores:
        """Return all scores of translations, given in the order of their references."""
        from sacrebleu.metrics.chrf import CHRF

        _check_lengths(translations, references, "translations")
        bleu, chrf = bleu_metric(self.tokenize), CHRF()
        found = bleu.corpus_score(translations, [references])
        plain = bleu_metric(TOKENISED) if self.tokenised else None
        tokens = bleu.tokenizer

        def words(line: str) -> list[str]:
            return str(tokens(line.rstrip())).split()

        return Scores(
            sentences=len(references),
            bleu=float(found.score),
            bleu_signature=str(bleu.get_signature()),
            chrf=float(chrf.corpus_score(translations, [references]).score),
            chrf_signature=str(chrf.get_signature()),
            length_ratio=float(found.ratio),
            repeated_words=repeated_words(translations, references, words),
            missing_words=missing_words(translations, references, words),
            tokenised_bleu=None
            if plain is None
            else float(plain.corpus_score(translations, [references]).score),
            tokenised_bleu_signature=None if plain is None else str(plain.get_signature()),
        )

    def bleu(self, translations: Sequence[str], references: Sequence[str]) -> tuple[float, float]:
        """Return only BLEU and the length ratio."""
        _check_lengths(translations, references, "translations")
        found = bleu_metric(self.tokenize).corpus_score(translations, [references])
        return float(found.score), float(found.ratio)


def measures_for(target_language: str, tokenised: bool = False, tokenize: str | None = None) -> Measures:
    """Return the measures for a target language, or those with the tokenizer that is asked for."""
    return Measures(tokenize or bleu_tokenizer(target_language), tokenised)


def compare(
    systems: Mapping[str, Sequence[str]], references: Sequence[str], measures: Measures
) -> dict[str, Significance]:
    """Compare every system with the first one; sacreBLEU's seed makes it repeatable."""
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.significance import PairedTest

    for name, translations in systems.items():
        _check_lengths(translations, references, name)
    metrics = {"BLEU": bleu_metric(measures.tokenize, list(references))}
    chrf = {"chrF": CHRF(references=[references])}
    test = PairedTest(list(systems.items()), {**metrics, **chrf}, None, test_type="bs", n_samples=RESAMPLES)
    _, columns = test()
    bleu, chrf2 = (_results(columns[name]) for name in test.metrics)
    return {
        name: Significance(float(b.ci or 0.0), _p_value(b, bleu[0]), _p_value(c, chrf2[0]), RESAMPLES)
        for name, b, c in zip(systems, bleu, chrf2, strict=True)
    }


def _p_value(result: "Result", first: "Result") -> float | None:
    """Return p: 1 where there is no difference at all, which sacreBLEU takes for a certain one."""
    if result is first or result.p_value is None:
        return None
    return 1.0 if result.score == first.score else float(result.p_value)


def _results(column: "Sequence[str | Result]") -> "list[Result]":
    from sacrebleu.significance import Result

    return [entry for entry in column if isinstance(entry, Result)]


def _check_lengths(translations: Sequence[str], references: Sequence[str], name: str) -> None:
    if not references:
        raise ValueError("there must be at least one reference, got none")
    if len(translations) != len(references):
        raise ValueError(
            f"{name} must have {len(references)} lines, one per reference, got {len(translations)}"
        )
