"""Translate a text, score it, and measure the speed; vary β and the weight of `rescore`."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from pcfgnat.decoding import strategy_text
from pcfgnat.evaluation.evaluation_set import EvaluationSet
from pcfgnat.evaluation.report import SweepPoint, SystemReport, WeightPoint
from pcfgnat.evaluation.scores import Measures
from pcfgnat.progress import progress_bar
from pcfgnat.translator import Translation, Translator

WARM_UP_SENTENCES = 4

Progress = Callable[[Sequence[str], str], Iterable[str]]  # passes lines on; the text is a label


def silent(lines: Sequence[str], label: str) -> Iterable[str]:
    """Show no progress."""
    return lines


def on_stderr(lines: Sequence[str], label: str) -> Iterator[str]:
    """Show progress on stderr, if that is a terminal."""
    with progress_bar(label, "lines", len(lines)) as bar:
        for line in lines:
            yield line
            bar.update()


@dataclass(frozen=True)
class Judged:
    """A system's report and its translations."""

    report: SystemReport
    lines: list[str]


def judge_lines(name: str, lines: list[str], texts: EvaluationSet, measures: Measures) -> Judged:
    """Score finished translations."""
    return Judged(SystemReport(name, measures.score(lines, texts.reference)), lines)


def judge_model(
    name: str,
    translator: Translator,
    texts: EvaluationSet,
    measures: Measures,
    progress: Progress = silent,
) -> Judged:
    """Translate and score, and measure the speed of the whole text."""
    translator = texts.reader(translator)
    source = texts.source_for(translator.tokenizer)
    translator(source[:WARM_UP_SENTENCES])  # kernels are compiled at their first use
    begin = time.perf_counter()
    lines: list[str] = []
    passes: list[int] = []
    for translation in translator.stream(progress(source, name)):
        lines.append(str(translation))
        passes += _passes(translation)
    seconds = time.perf_counter() - begin
    report = SystemReport(
        name,
        measures.score(lines, texts.reference),
        translator.strategy.name,
        translator.request.length_penalty,
        len(lines) / max(seconds, 1e-9),
        settings=strategy_text(translator.strategy),
        passes=sum(passes) / len(passes) if passes else None,
    )
    return Judged(report, lines)


def _passes(translation: Translation) -> list[int]:
    """Return how many passes a sentence took, or each of its parts; nothing if the strategy keeps none."""
    if translation.parts:
        return [count for part in translation.parts for count in _passes(part)]
    return [len(translation.passes)] if translation.passes else []


def swept(
    translator: Translator,
    texts: EvaluationSet,
    betas: Sequence[float],
    measures: Measures,
    progress: Progress = silent,
) -> tuple[SweepPoint, ...]:
    """Return BLEU and length ratio for each β, from one decoding where the model can do that."""
    translator = texts.reader(translator)
    source = texts.source_for(translator.tokenizer)
    columns = translator.sweep(progress(source, f"sweep on {texts.name}"), betas)
    return tuple(
        SweepPoint(beta, *measures.bleu(column, texts.reference))
        for beta, column in zip(betas, columns, strict=True)
    )


def weighed(
    translator: Translator,
    texts: EvaluationSet,
    weights: Sequence[float],
    measures: Measures,
    progress: Progress = silent,
) -> tuple[WeightPoint, ...]:
    """Return BLEU and length ratio for each weight of `rescore`, from one decoding."""
    source = texts.source_for(translator.tokenizer)
    columns = translator.weigh(progress(source, f"weights on {texts.name}"), weights)
    return tuple(
        WeightPoint(weight, *measures.bleu(column, texts.reference))
        for weight, column in zip(weights, columns, strict=True)
    )
