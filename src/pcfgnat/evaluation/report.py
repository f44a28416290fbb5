"""Several systems side by side, as a table and as plain data."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pcfgnat.evaluation.scores import Scores, Significance

NOTHING = "–"  # noqa: RUF001 (a dash, as in print)
SIGNIFICANT = 0.05


@dataclass(frozen=True)
class SweepPoint:
    """BLEU and length ratio under one β."""

    beta: float
    bleu: float
    length_ratio: float


@dataclass(frozen=True)
class SystemReport:
    """What is known of a system; decoding, speed and sweep only of a model, not of a file."""

    name: str
    scores: Scores
    decode: str | None = None
    beta: float | None = None
    sentences_per_second: float | None = None
    significance: Significance | None = None
    sweep: tuple[SweepPoint, ...] = ()


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
    """Draw tables that people read."""
    first = report.systems[0]
    blocks = [f"{report.data}: {first.scores.sentences} sentences", _systems_table(report)]
    blocks += [_sweep_table(system, report.sweep_on) for system in report.systems if system.sweep]
    blocks.append(
        f"BLEU            {first.scores.bleu_signature}\n"
        f"tokenised BLEU  {first.scores.tokenised_bleu_signature}\n"
        f"chrF            {first.scores.chrf_signature}"
    )
    if first.significance is not None:
        resamples = first.significance.resamples
        blocks.append(
            f"± is the 95 % interval; p is against {first.name}, by paired bootstrap with "
            f"{resamples} resamples; * marks p < {SIGNIFICANT}"
        )
    return "\n\n".join(blocks)


def _systems_table(report: Report) -> str:
    compared = report.systems[0].significance is not None
    header = ["system", "decode", "β", "BLEU", *(["±", "p"] if compared else []), "chrF"]
    header += [*(["p"] if compared else []), "tok. BLEU", "length", "sent./s"]
    rows = []
    for system in report.systems:
        scores, against = system.scores, system.significance
        bleu, chrf = [_number(scores.bleu, 2)], [_number(scores.chrf, 2)]
        if against is not None:
            bleu += [_number(against.bleu_interval, 2), _p(against.bleu_p)]
            chrf.append(_p(against.chrf_p))
        decoding = [system.decode or NOTHING, _number(system.beta, 2)]
        others = [_number(scores.tokenised_bleu, 2), _number(scores.length_ratio, 3)]
        rows.append([system.name, *decoding, *bleu, *chrf, *others, _number(system.sentences_per_second, 1)])
    return _aligned(header, rows, left=2)


def _sweep_table(system: SystemReport, split: str | None) -> str:
    best = max(system.sweep, key=lambda point: point.bleu)
    rows = [
        [f"{point.beta:g}", f"{point.bleu:.2f}", f"{point.length_ratio:.3f}", "best" if point is best else ""]
        for point in system.sweep
    ]
    table = _aligned(["β", "BLEU", "length", ""], rows, left=0)
    return f"{system.name}, β varied on {split}:\n{table}"


def _aligned(header: Sequence[str], rows: Sequence[Sequence[str]], left: int) -> str:
    """Put columns under each other; the first `left` are flush left, the others flush right."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    lines = []
    for row in (header, *rows):
        cells = [
            cell.ljust(width) if i < left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def _number(value: float | None, digits: int) -> str:
    return NOTHING if value is None else f"{value:.{digits}f}"


def _p(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.3f}{'*' if value < SIGNIFICANT else ' '}"
