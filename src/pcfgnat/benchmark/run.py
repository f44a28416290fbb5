"""A benchmark of trained models: BLEU and time of the same translations."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pcfgnat.benchmark.contender import Case, Contender
from pcfgnat.benchmark.machine import machine
from pcfgnat.benchmark.results import Results
from pcfgnat.benchmark.rounds import Plan, measure
from pcfgnat.evaluation import EvaluationSet, measures_for


@dataclass(frozen=True)
class Grid:
    """How much is measured."""

    cases: Sequence[Case]
    threads: Sequence[int] = (1, 2)
    rounds: int = 10
    seconds: float = 30.0

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {**vars(self), "cases": [vars(case) for case in self.cases], "threads": list(self.threads)}


def trained(
    contenders: Sequence[Contender],
    texts: EvaluationSet,
    grid: Grid,
    output: Path,
    say: Callable[[str], None],
) -> Results:
    """Measure trained models on real text."""
    measures = measures_for(texts.target_language)
    plan = Plan(
        contenders,
        grid.cases,
        grid.threads,
        {0: texts.source or []},
        grid.rounds,
        grid.seconds,
        lambda lines: measures.bleu(lines, texts.reference)[0],
    )
    return measured(plan, Results(machine(), grid.to_dict(), list(contenders)), output, say)


def measured(plan: Plan, results: Results, output: Path, say: Callable[[str], None]) -> Results:
    """Measure until the end or Ctrl-C; what was found until then is kept."""
    results.settings["interrupted"] = True  # until the end is reached
    try:
        measure(plan, results, output)
        results.settings["interrupted"] = False
    except KeyboardInterrupt:
        say("interrupted: the report covers what was measured until now")
    results.save(output)
    return results
