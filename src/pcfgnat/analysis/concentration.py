"""How much of P(Y|X) the best structure holds: P(Y, T*|X) / P(Y|X) (paper, section 4.7).

Y is the reference, T* its best parse tree, its best path in a graph or its best alignment.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import cycle
from typing import Any

from pcfgnat.analysis.lengths import CLASSES, by_length
from pcfgnat.analysis.subject import Subject, Walk, left_out_rows, left_out_text
from pcfgnat.evaluation import EvaluationSet
from pcfgnat.networks.emissions import target_distribution
from pcfgnat.report import NOTHING, Report, Table, number
from pcfgnat.report.figure import COLOURS, MARKERS
from pcfgnat.report.statistics import mean, quantile, standard_error

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
BINS = 20


@dataclass(frozen=True)
class Share:
    """One reference: its line from 1, its length without bos and eos, log P(Y|X), and log of the share."""

    line: int
    tokens: int
    log_prob: float
    log_share: float


@dataclass(frozen=True)
class Concentration:
    """The shares of a model's best structures, in the order of the text, and the lines without one."""

    name: str
    model: str
    shares: tuple[Share, ...]
    left_out: list[dict[str, Any]]

    def values(self, lines: frozenset[int] | None = None) -> list[float]:
        """Return the shares themselves, of all sentences or of these lines only."""
        return [math.exp(share.log_share) for share in self.shares if lines is None or share.line in lines]


def concentration(subject: Subject, texts: EvaluationSet) -> Concentration:
    """Compute the share of the best structure of each reference."""
    subject.require("pcfg", "dag", "ctc", reason="others have one structure a sentence")
    walk = Walk(subject, texts.encoded(subject.tokenizer))
    found = []
    for indices, batch in walk:
        distribution, local = target_distribution(subject.network, batch)
        posterior = distribution.posterior(local)
        totals, best = posterior.log_partition.tolist(), posterior.argmax().score.tolist()
        if -math.inf in totals:
            for row, reason in distribution.infeasible(local).items():
                walk.leave_out(indices[row], reason)
        for index, length, total, top in zip(
            indices, batch.target.lengths.tolist(), totals, best, strict=True
        ):
            if index not in walk.left_out:
                # rounding must not make the part greater than the whole
                found.append(Share(index + 1, length - 2, total, min(top - total, 0.0)))
    found.sort(key=lambda share: share.line)
    return Concentration(subject.name, subject.kind, tuple(found), left_out_rows(walk.left_out))


def concentration_report(texts: EvaluationSet, results: Sequence[Concentration]) -> Report:
    """Put models side by side."""
    common = frozenset.intersection(*(frozenset(share.line for share in r.shares) for r in results))
    rows = [_row(result, common) for result in results]
    header = [
        "model",
        "kind",
        "sentences",
        "mean",
        "± s.e.",
        *(f"{q:.0%}" for q in QUANTILES),
        "mean, common",
    ]
    table = Table(
        header,
        [
            [row["name"], row["model"], str(row["sentences"])]
            + [number(row[key], 4) for key in ("mean", "standard_error")]
            + [number(value, 4) for value in row["quantiles"].values()]
            + [number(row["mean_common"], 4)]
            for row in rows
        ],
        left=2,
    )
    by_class = Table(
        ["tokens", *(row["name"] for row in rows)],
        [
            [name, *(_class_cell(row["by_length"].get(name)) for row in rows)]
            for name in CLASSES
            if any(name in row["by_length"] for row in rows)
        ],
    )
    parts = [
        "# Share of the best structure, P(Y,T*|X) / P(Y|X)",
        f"{texts.name}; {len(common)} sentences that all models can derive",
        table.markdown(),
        "By length of the reference in tokens, mean (sentences):",
        by_class.markdown(),
        "\n".join(left_out_text(result.name, result.left_out) for result in results),
    ]
    data = {
        "analysis": "concentration",
        "text": texts.name,
        "common_sentences": len(common),
        "models": [
            {**row, "left_out": result.left_out, "shares": [asdict(share) for share in result.shares]}
            for row, result in zip(rows, results, strict=True)
        ],
    }
    return Report("concentration", "\n\n".join(parts), data, lambda figure: _draw(figure, results))


def _row(result: Concentration, common: frozenset[int]) -> dict[str, Any]:
    values = result.values()
    classes = by_length((share.tokens, math.exp(share.log_share)) for share in result.shares)
    return {
        "name": result.name,
        "model": result.model,
        "sentences": len(values),
        "mean": mean(values),
        "standard_error": standard_error(values),
        "quantiles": {f"{q:g}": quantile(values, q) if values else None for q in QUANTILES},
        "mean_common": mean(result.values(common)),
        "by_length": {
            name: {
                "sentences": len(inside),
                "mean": mean(inside),
                "standard_error": standard_error(inside),
            }
            for name, inside in classes.items()
        },
    }


def _class_cell(inside: dict[str, Any] | None) -> str:
    return NOTHING if inside is None else f"{inside['mean']:.4f} ({inside['sentences']})"


def _draw(figure: Any, results: Sequence[Concentration]) -> None:
    """On the left the distribution of the shares, on the right their mean by length."""
    shares, lengths = figure.subplots(1, 2)
    for result, colour, marker in zip(results, cycle(COLOURS), cycle(MARKERS)):
        values = result.values()
        middle = mean(values)
        if middle is None:
            continue
        weights = [1 / len(values)] * len(values)
        edges = [i / BINS for i in range(BINS + 1)]
        label = f"{result.name} (mean {middle:.3f})"
        shares.hist(values, edges, weights=weights, histtype="stepfilled", color=colour, alpha=0.18)
        shares.hist(values, edges, weights=weights, histtype="step", color=colour, linewidth=1.6, label=label)
        shares.axvline(middle, color=colour, linestyle="--", linewidth=1.2)
        classes = by_length((share.tokens, value) for share, value in zip(result.shares, values, strict=True))
        place = [CLASSES.index(name) for name in classes]
        means = [mean(inside) for inside in classes.values()]
        errors = [standard_error(inside) or 0.0 for inside in classes.values()]
        lengths.errorbar(
            place, means, errors, color=colour, marker=marker, markersize=5, capsize=3, label=result.name
        )
    shares.set(xlabel="P(Y,T*|X) / P(Y|X)", ylabel="share of sentences", xlim=(0, 1))
    shares.set_title("How much the best structure holds")
    shares.legend(frameon=False)
    lengths.set(xlabel="tokens of the reference", ylabel="mean, with its standard error", ylim=(0, 1.02))
    lengths.set_xticks(range(len(CLASSES)), CLASSES)
    lengths.set_title("By length")
    lengths.grid(axis="y", alpha=0.3)
    if len(results) > 1:
        lengths.legend(frameon=False)
