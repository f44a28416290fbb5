"""Corpus scores by sacreBLEU, and whether systems differ by more than chance."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.significance import PairedTest, Result

BLEU_TOKENIZERS = ("13a", "zh", "intl", "char", "none")
RESAMPLES = 1000


@dataclass(frozen=True)
class Scores:
    """Scores of a system on a test set, and the signatures under which others can reproduce them.

    tokenised_bleu: BLEU of text that is tokenised already, or tokenised by mteval-v14's international rules;
        `tok:none` or `tok:intl` in its signature says which
    length_ratio:   length of all translations over that of all references, in BLEU's tokens
    """

    sentences: int
    bleu: float
    bleu_signature: str
    chrf: float
    chrf_signature: str
    tokenised_bleu: float
    tokenised_bleu_signature: str
    length_ratio: float


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
    """Which tokenizers BLEU uses: for the usual figure, and for the tokenised one."""

    tokenize: str = "13a"
    tokenised: str = "intl"

    def __post_init__(self) -> None:
        for name in (self.tokenize, self.tokenised):
            if name not in BLEU_TOKENIZERS:
                raise ValueError(f"tokenize must be one of {', '.join(BLEU_TOKENIZERS)}, got {name!r}")

    def score(self, translations: Sequence[str], references: Sequence[str]) -> Scores:
        """Score translations, given in the order of their references."""
        _check_lengths(translations, references, "translations")
        bleu, tokenised, chrf = self._bleu(self.tokenize), self._bleu(self.tokenised), CHRF()
        found = bleu.corpus_score(translations, [references])
        return Scores(
            sentences=len(references),
            bleu=float(found.score),
            bleu_signature=str(bleu.get_signature()),
            chrf=float(chrf.corpus_score(translations, [references]).score),
            chrf_signature=str(chrf.get_signature()),
            tokenised_bleu=float(tokenised.corpus_score(translations, [references]).score),
            tokenised_bleu_signature=str(tokenised.get_signature()),
            length_ratio=float(found.ratio),
        )

    def bleu(self, translations: Sequence[str], references: Sequence[str]) -> tuple[float, float]:
        """Return only BLEU and the length ratio."""
        _check_lengths(translations, references, "translations")
        found = self._bleu(self.tokenize).corpus_score(translations, [references])
        return float(found.score), float(found.ratio)

    @staticmethod
    def _bleu(tokenize: str) -> BLEU:
        return BLEU(tokenize=tokenize, force=True)  # no advice about text that looks tokenised


def measures_for(target_language: str, tokenised: bool = False, tokenize: str | None = None) -> Measures:
    """Choose tokenizers: `zh` for Chinese and `13a` otherwise, `none` for text that is tokenised already."""
    chinese = target_language.lower().replace("_", "-").split("-")[0] in ("zh", "zho", "cmn")
    chosen = tokenize or ("zh" if chinese else "13a")
    return Measures(chosen, "none" if tokenised else "intl")


def compare(
    systems: Mapping[str, Sequence[str]], references: Sequence[str], measures: Measures
) -> dict[str, Significance]:
    """Compare every system with the first one; sacreBLEU's seed makes it repeatable."""
    for name, translations in systems.items():
        _check_lengths(translations, references, name)
    metrics = {"BLEU": BLEU(tokenize=measures.tokenize, force=True, references=[references])}
    chrf = {"chrF": CHRF(references=[references])}
    test = PairedTest(list(systems.items()), {**metrics, **chrf}, None, test_type="bs", n_samples=RESAMPLES)
    _, columns = test()
    bleu, chrf2 = (_results(columns[name]) for name in test.metrics)
    return {
        name: Significance(float(b.ci or 0.0), _p_value(b, bleu[0]), _p_value(c, chrf2[0]), RESAMPLES)
        for name, b, c in zip(systems, bleu, chrf2, strict=True)
    }


def _p_value(result: Result, first: Result) -> float | None:
    """Return p: 1 where there is no difference at all, which sacreBLEU takes for a certain one."""
    if result is first or result.p_value is None:
        return None
    return 1.0 if result.score == first.score else float(result.p_value)


def _results(column: Sequence[str | Result]) -> list[Result]:
    return [entry for entry in column if isinstance(entry, Result)]


def _check_lengths(translations: Sequence[str], references: Sequence[str], name: str) -> None:
    if not references:
        raise ValueError("there must be at least one reference, got none")
    if len(translations) != len(references):
        raise ValueError(
            f"{name} must have {len(references)} lines, one a reference, got {len(translations)}"
        )
