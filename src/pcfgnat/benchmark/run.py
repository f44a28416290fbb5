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
from pcfgnat.text import Tokenizer

NEAREST = 50  # sentences of about a length


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
    tokenizer: Tokenizer | None = None,
) -> Results:
    """Measure trained models on real text; cases of a length take sentences of about so many tokens."""
    measures, source = measures_for(texts.target_language), texts.source or []
    plan = Plan(
        contenders,
        grid.cases,
        grid.threads,
        {0: source, **by_length(source, tokenizer, grid.cases)},
        grid.rounds,
        grid.seconds,
        lambda lines: measures.bleu(lines, texts.reference)[0],
    )
    return measured(plan, Results(machine(), grid.to_dict(), list(contenders)), output, say)


def by_length(
    source: Sequence[str], tokenizer: Tokenizer | None, cases: Sequence[Case]
) -> dict[int, list[str]]:
    """Return for each length the sentences whose numbers of tokens come nearest, ends included."""
    lengths = {case.length for case in cases if case.length}
    if not lengths:
        return {}
    if tokenizer is None:
        raise ValueError("cases of a length need a tokenizer that counts tokens, got none")
    different = list(dict.fromkeys(source))
    sizes = dict(zip(different, map(len, tokenizer.encode_all(different)), strict=True))
    count = max(NEAREST, *(case.batch for case in cases))
    return {
        length: sorted(different, key=lambda text, length=length: abs(sizes[text] - length))[:count]  # type: ignore[misc]
        for length in lengths
    }


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
