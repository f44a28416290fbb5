"""Several systems on one text: translated or read, tuned, scored and compared with the first."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pcfgnat.decoding import Rescore, strategy_text
from pcfgnat.decoding.base import MAX_LENGTH_PENALTY
from pcfgnat.decoding.structured import ByLength
from pcfgnat.evaluation.evaluation_set import EvaluationSet, read_translations
from pcfgnat.evaluation.judging import Judged, Progress, judge_lines, judge_model, silent, swept, weighed
from pcfgnat.evaluation.report import RepeatPoint, Report, SweepPoint, WeightPoint
from pcfgnat.evaluation.scores import Measures, compare, measures_for
from pcfgnat.translator import Translator, describe_model, model_directory

AUTOMATIC_BETAS = "0.6:1.6:0.1"
MAX_SWEEP = 1000
WEIGHTS = tuple(tenth / 10 for tenth in range(11))

Systems = Mapping[str, Path | None]  # by name: a checkpoint, a file of translations, or the bundled model


@dataclass(frozen=True)
class Comparison:
    """What systems are judged on.

    betas:  values of β to try
    tuning: where β is chosen for each model, of `rescore` first the weight, at the model's β, and once more
            at the best one, and then `no_repeat`, of models that decode by their default strategy; without
            it, `betas` are only reported, on the text itself
    """

    texts: EvaluationSet
    measures: Measures
    betas: Sequence[float] = ()
    tuning: EvaluationSet | None = None
    progress: Progress = silent

    def run(
        self, systems: Systems, load: Callable[[Path | None], Translator], limit: int | None = None
    ) -> tuple[Report, dict[str, list[str]]]:
        """Judge all systems; also return their translations. `limit` cuts files of translations."""
        judged = [
            judge_lines(name, read_translations(path, self.texts, limit), self.texts, self.measures)
            if path is not None and path.is_file()
            else self._model(name, load(path))
            for name, path in systems.items()
        ]
        lines = {one.report.name: one.lines for one in judged}
        reports = [one.report for one in judged]
        if len(reports) > 1:
            found = compare(lines, self.texts.reference, self.measures)
            reports = [replace(report, significance=found[report.name]) for report in reports]
        tuned_on = None if self.tuning is None else self.tuning.split or self.tuning.name
        swept_on = tuned_on or (self.texts.split or self.texts.name if self.betas else None)
        return Report(self.texts.name, tuple(reports), tuned_on, swept_on), lines

    def _model(self, name: str, translator: Translator) -> Judged:
        points: tuple[SweepPoint, ...] = ()
        _, translator = self._weighed(translator)
        if self.betas:
            where = self.tuning or self.texts
            points = swept(translator, where, self.betas, self.measures, self.progress)
        if self.tuning is not None:
            best = max(points, key=lambda point: point.bleu)
            translator = translator.with_options(
                replace(translator.options, length_penalty=best.length_penalty)
            )
        weights, translator = self._weighed(translator)
        repeats, translator = self._without_repeats(translator)
        judged = judge_model(name, translator, self.texts, self.measures, self.progress)
        return replace(judged, report=replace(judged.report, sweep=points, weights=weights, repeats=repeats))

    def _weighed(self, translator: Translator) -> tuple[tuple[WeightPoint, ...], Translator]:
        """Choose the weight of `rescore`, at the β that the model has now."""
        strategy, tuning = translator.strategy, self.tuning
        if tuning is None or not isinstance(strategy, Rescore):
            return (), translator
        points = weighed(translator, tuning, WEIGHTS, self.measures, self.progress)
        best = max(points, key=lambda point: point.bleu)
        chosen = strategy_text(replace(strategy, weight=best.weight))
        return points, translator.with_options(replace(translator.options, strategy=chosen))

    def _without_repeats(self, translator: Translator) -> tuple[tuple[RepeatPoint, ...], Translator]:
        """Try `no_repeat` both ways, if the strategy is the model's own; it must help to be on."""
        strategy, tuning = translator.strategy, self.tuning
        if tuning is None or not isinstance(strategy, ByLength) or translator.options.strategy is not None:
            return (), translator
        ways = [
            translator.with_options(
                replace(translator.options, strategy=strategy_text(replace(strategy, no_repeat=on)))
            )
            for on in (False, True)
        ]
        betas = [translator.request.length_penalty]
        found = [swept(way, tuning, betas, self.measures, self.progress)[0] for way in ways]
        points = tuple(
            RepeatPoint(on, point.bleu, point.length_ratio)
            for on, point in zip((False, True), found, strict=True)
        )
        return points, ways[points[1].bleu > points[0].bleu]


def choose_measures(
    texts: EvaluationSet, systems: Systems, tokenised: bool = False, tokenize: str | None = None
) -> Measures:
    """Return the measures for the target language that the text names, or else the checkpoints."""
    language = texts.target_language
    if not language and tokenize is None:
        language = _target_language(systems)
    return measures_for(language, tokenised or texts.tokenised, tokenize)


def parse_betas(text: str) -> list[float]:
    """Read `0.8:1.6:0.1` or `0.8,1,1.2`."""
    try:
        numbers = [float(part) for part in text.split(":" if ":" in text else ",")]
    except ValueError as error:
        raise ValueError(f"--sweep must look like 0.8:1.6:0.1 or 0.8,1,1.2, got {text!r}") from error
    if not all(abs(number) <= MAX_LENGTH_PENALTY for number in numbers):  # nor NaN
        limit = f"{MAX_LENGTH_PENALTY:g}"
        raise ValueError(f"--sweep must stay in -{limit} … {limit}, got {text!r}")
    if ":" not in text:
        return numbers
    if len(numbers) != 3:
        raise ValueError(f"--sweep must look like 0.8:1.6:0.1 or 0.8,1,1.2, got {text!r}")
    low, high, step = numbers
    if not (step > 0 and low <= high):
        raise ValueError(f"--sweep must go up from A to B in steps of more than 0, got {text!r}")
    steps = (high - low) / step
    if steps >= MAX_SWEEP:
        raise ValueError(f"--sweep must have at most {MAX_SWEEP} values, got {text!r}")
    return [round(low + i * step, 10) for i in range(int(steps + 1e-6) + 1)]


def _target_language(systems: Systems) -> str:
    """Return the language that the checkpoints translate into; empty if none of them says."""
    models = [model_directory(path) for path in systems.values() if path is None or path.is_dir()]
    stated = {describe_model(path).languages.target for path in models} - {""}
    if len(stated) > 1:
        found = " and ".join(sorted(stated))
        raise ValueError(f"systems must translate into one language, got {found}; --tokenize settles it")
    return stated.pop() if stated else ""
