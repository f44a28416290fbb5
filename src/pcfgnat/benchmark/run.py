"""The benchmarks as functions: models of the paper's size, and trained ones with their BLEU."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pcfgnat.benchmark.contender import Case, Contender, selected
from pcfgnat.benchmark.machine import machine
from pcfgnat.benchmark.paper_size import Cache
from pcfgnat.benchmark.results import Results
from pcfgnat.benchmark.rounds import Plan, measure
from pcfgnat.benchmark.synthetic import sentences
from pcfgnat.config import to_dict

SENTENCES = 160


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


def paper_size(
    models: Cache, grid: Grid, patterns: Sequence[str], output: Path, say: Callable[[str], None]
) -> Results:
    """Measure models of random weights; those that decode token by token stop at the source's length."""
    contenders = selected(models.contenders(), patterns)
    for contender in contenders:
        models.build(contender)
    tokenizer = models.tokenizer()
    lengths = {case.length for case in grid.cases}
    texts = {length: sentences(tokenizer, length, SENTENCES) for length in lengths}
    settings = {
        **grid.to_dict(),
        "pcfg": to_dict(models.size.models()["pcfg"][1]),
        "vocabulary": tokenizer.vocabulary_size,
    }
    results = Results(machine(), settings, contenders)
    plan = Plan(contenders, grid.cases, grid.threads, texts, grid.rounds, grid.seconds)
    return _measured(plan, results, output, say)


@dataclass(frozen=True)
class RealText:
    """Text to translate, and a judge of the translations that returns BLEU."""

    source: Sequence[str]
    judge: Callable[[list[str]], float]


def trained(
    contenders: Sequence[Contender], test: RealText, grid: Grid, output: Path, say: Callable[[str], None]
) -> Results:
    """Measure trained models on real text: BLEU and time of the same translations."""
    results = Results(machine(), grid.to_dict(), list(contenders))
    texts = {0: test.source}
    plan = Plan(contenders, grid.cases, grid.threads, texts, grid.rounds, grid.seconds, test.judge)
    return _measured(plan, results, output, say)


def _measured(plan: Plan, results: Results, output: Path, say: Callable[[str], None]) -> Results:
    """Measure until the end or Ctrl-C; what was found until then is kept."""
    results.settings["interrupted"] = True  # until the end is reached
    try:
        measure(plan, results, output)
        results.settings["interrupted"] = False
    except KeyboardInterrupt:
        say("interrupted: the report is of what was measured until now")
    results.save(output)
    return results
