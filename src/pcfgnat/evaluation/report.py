"""Several systems side by side, as a table and as plain data."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from pcfgnat.evaluation.scores import Scores, Significance
from pcfgnat.report.table import NOTHING, Table, number

SIGNIFICANT = 0.05


@dataclass(frozen=True)
class SweepPoint:
    """BLEU and length ratio under one β."""

    length_penalty: float
    bleu: float
    length_ratio: float


@dataclass(frozen=True)
class WeightPoint:
    """BLEU and length ratio under one weight of `rescore`."""

    weight: float
    bleu: float
    length_ratio: float


@dataclass(frozen=True)
class RepeatPoint:
    """BLEU and length ratio without or with `no_repeat`."""

    no_repeat: bool
    bleu: float
    length_ratio: float


@dataclass(frozen=True)
class SystemReport:
    """What is known of a system; decoding, speed and what was varied only of a model, not of a file."""

    name: str
    scores: Scores
    strategy: str | None = None
    length_penalty: float | None = None
    sentences_per_second: float | None = None
    significance: Significance | None = None
    sweep: tuple[SweepPoint, ...] = ()
    weights: tuple[WeightPoint, ...] = ()
    settings: str | None = None  # the strategy with all of its settings
    repeats: tuple[RepeatPoint, ...] = ()
    passes: float | None = None  # of the decoder, mean over sentences, of strategies that take several


@dataclass(frozen=True)
class Report:
    """Systems on a test set; `tuned_on` and `sweep_on` say where β was chosen and where it was varied."""

    data: str
    systems: tuple[SystemReport, ...]
    tuned_on: str | None = None
    sweep_on: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)


def render(report: Report) -> str:
    """Return tables that people read."""
    first = report.systems[0]
    blocks = [f"{report.data}: {first.scores.sentences} sentences", _systems_table(report)]
    for system in report.systems:
        if system.weights:
            weights = {point.weight: (point.bleu, point.length_ratio) for point in system.weights}
            blocks.append(_varied("weight", weights, system.name, report.sweep_on))
        if system.sweep:
            betas = {point.length_penalty: (point.bleu, point.length_ratio) for point in system.sweep}
            blocks.append(_varied("β", betas, system.name, report.sweep_on))
        if system.repeats:
            repeats = {f"{p.no_repeat}".lower(): (p.bleu, p.length_ratio) for p in system.repeats}
            blocks.append(_varied("no_repeat", repeats, system.name, report.sweep_on))
    blocks.append("\n".join(_notes(report)))
    return "\n\n".join(blocks)


def _notes(report: Report) -> Iterator[str]:
    first = report.systems[0]
    scores = first.scores
    yield f"BLEU      {scores.bleu_signature}"
    if scores.tokenised_bleu_signature is not None:
        yield f"tok. BLEU {scores.tokenised_bleu_signature}"
    yield f"chrF      {scores.chrf_signature}"
    yield "repeated  adjacent equal words, in percentage points above the references"
    yield "missing   words of the references that the translations lack, in %"
    if _refined(report):
        yield "passes    of the decoder over all length candidates of a sentence, on average"
    if first.significance is not None:
        yield (
            f"± is the 95 % interval; p is against {first.name}, by paired bootstrap with "
            f"{first.significance.resamples} resamples; * marks p < {SIGNIFICANT}"
        )


def _refined(report: Report) -> bool:
    return any(system.passes is not None for system in report.systems)


def _systems_table(report: Report) -> str:
    first = report.systems[0]
    compared, tokenised = first.significance is not None, first.scores.tokenised_bleu is not None
    header = ["system", "strategy", "β", "BLEU", *(["±", "p"] if compared else []), "chrF"]
    header += [*(["p"] if compared else []), *(["tok. BLEU"] if tokenised else [])]
    refined = _refined(report)
    header += ["length", "repeated", "missing", *(["passes"] if refined else []), "sent./s"]
    rows = []
    for system in report.systems:
        scores, against = system.scores, system.significance
        bleu, chrf = [number(scores.bleu, 2)], [number(scores.chrf, 2)]
        if against is not None:
            bleu += [number(against.bleu_interval, 2), _p(against.bleu_p)]
            chrf.append(_p(against.chrf_p))
        decoding = [system.strategy or NOTHING, number(system.length_penalty, 2)]
        others = [number(scores.tokenised_bleu, 2)] if tokenised else []
        others += [number(scores.length_ratio, 3), f"{scores.repeated_words:+.2f}"]
        others += [number(scores.missing_words, 1), *([number(system.passes, 1)] if refined else [])]
        others.append(number(system.sentences_per_second, 1))
        rows.append([system.name, *decoding, *bleu, *chrf, *others])
    return Table(header, rows, left=2).text()


def _varied(what: str, points: Mapping[Any, tuple[float, float]], name: str, split: str | None) -> str:
    """Return BLEU and length ratio by value, the best marked."""
    best = max(points, key=lambda value: points[value][0])
    rows = [
        [
            f"{value:g}" if isinstance(value, float) else value,
            f"{bleu:.2f}",
            f"{ratio:.3f}",
            "best" if value == best else "",
        ]
        for value, (bleu, ratio) in points.items()
    ]
    return Table([what, "BLEU", "length", ""], rows, 0, f"{name}, {what} varied on {split}:").text()


def _p(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.3f}{'*' if value < SIGNIFICANT else ' '}"
