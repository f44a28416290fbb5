"""Train and judge all cells of a grid, one after the other; what is finished is not done again."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from pcfgnat.ablation.grid import Cell, Grid
from pcfgnat.ablation.judge import Exam, Judge, decoded
from pcfgnat.ablation.latency import latencies
from pcfgnat.ablation.outcome import Outcome, ablation_report, to_csv
from pcfgnat.config import ConfigError, from_dict, to_dict
from pcfgnat.storage.files import lock, write_atomically
from pcfgnat.storage.toml import dump_toml

RESULTS, TABLE, LOCK = "ablation.json", "ablation.csv", ".lock"
INTERRUPTED = 3  # exit code of a training that was told to stop
TIMED = 200  # sentences
FAILURES = (ValueError, OSError, RuntimeError)

Say = Callable[[str], None]


class CellError(ValueError):
    """A cell whose training failed."""


def ablate(grid: Grid, judge: Judge, say: Say) -> list[Outcome]:
    """Train and evaluate every cell; called again, resume where it stopped.

    The failure of a cell is recorded, and the others continue; called again, it is retried.
    """
    cells = grid.cells()
    plan = [(cell, decoding) for cell in cells for decoding in grid.decodings()]
    grid.output.mkdir(parents=True, exist_ok=True)
    with _claimed(grid.output) as claim:
        known = _known(grid.output / RESULTS)
        done: dict[int, Outcome] = {}
        for number, (cell, decoding) in enumerate(plan):
            question = judge.question(cell, decoding)
            done.update((number, outcome) for outcome in known if outcome.answers(question))
        others = [outcome for outcome in known if outcome.status == "done" and outcome not in done.values()]
        _write(grid, done, others)
        for place, cell in enumerate(cells, start=1):
            missing = [n for n, (own, _) in enumerate(plan) if own is cell and n not in done]
            if not missing:
                continue
            say(f"cell {place} of {len(cells)}: {cell.name}")
            ways = [plan[number][1] for number in missing]
            for number, outcome in zip(missing, _tried(cell, ways, judge, claim, say), strict=True):
                done[number] = outcome
                _write(grid, done, others)
        if judge.int8:
            done.update(_timed(plan, done, judge, say))
            _write(grid, done, others)
        return [done[number] for number in range(len(plan))]


def _timed(
    plan: Sequence[tuple[Cell, dict[str, Any]]], done: Mapping[int, Outcome], judge: Judge, say: Say
) -> dict[int, Outcome]:
    """Return the outcomes of all cells that were judged, with their latency."""
    judged = [number for number in sorted(done) if done[number].status == "done"]
    models = {cell.name: judge.translator(cell) for cell in (plan[number][0] for number in judged)}
    contenders = []
    for number in judged:
        cell, decoding = plan[number]
        translator = decoded(models[cell.name], decoding)
        contenders.append((translator, judge.texts(cell).first(TIMED).source_for(translator.tokenizer)))
    say(f"timing {len(judged)} models in turns")
    timed = {}
    for number, latency in zip(judged, latencies(contenders), strict=True):
        alone, together = latency.milliseconds
        timed[number] = replace(done[number], ms_alone=alone, ms_together=together)
    return timed


def _tried(
    cell: Cell, decodings: list[dict[str, Any]], judge: Judge, claim: int, say: Say
) -> Iterator[Outcome]:
    """Train a cell and judge it in all these ways, come what may."""
    try:
        _train(cell, claim, say)
        exam = Exam.of(cell, judge)
    except FAILURES as error:
        say(f"{cell.name} failed: {error}")
        for decoding in decodings:
            yield judge.question(cell, decoding).failed(str(error))
        return
    for decoding in decodings:
        question = judge.question(cell, decoding)
        try:
            outcome = exam.outcome(question, decoding)
            say(f"{cell.name} {_shown(decoding)}: BLEU {outcome.bleu:.2f}")
        except FAILURES as error:
            say(f"{cell.name} {_shown(decoding)} failed: {error}")
            outcome = question.failed(str(error))
        yield outcome


def _train(cell: Cell, claim: int, say: Say) -> None:
    """Train in a separate process, or resume; its output goes to a file beside the run.

    The process ends when ours does, having saved. Until then it keeps the claim on the whole grid.
    """
    run = cell.config.output
    path, log = run.with_name(f"{run.name}.toml"), run.with_name(f"{run.name}.log")
    write_atomically(path, dump_toml(to_dict(cell.config)).encode())
    say(f"{cell.name}: training, see {log}")
    command = [sys.executable, "-m", "pcfgnat.ablation.cell", str(path)]
    with log.open("ab") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            pass_fds=(claim,),
            start_new_session=True,  # Ctrl-C reaches us alone, and we let go of the pipe
        )
        try:
            code = process.wait()
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait()
    if code == INTERRUPTED:
        raise KeyboardInterrupt
    if code < 0:
        raise CellError(f"the training was ended by {signal.Signals(-code).name}")
    if code > 0:
        last = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:]
        raise CellError("".join(last).removeprefix("error: ") or f"the training ended with code {code}")


def _write(grid: Grid, done: Mapping[int, Outcome], others: list[Outcome]) -> None:
    outcomes = [done[number] for number in sorted(done)]
    ablation_report(grid, outcomes, others).write(grid.output)
    write_atomically(grid.output / TABLE, to_csv(grid, outcomes).encode())


def _known(path: Path) -> list[Outcome]:
    """Read the outcomes of an earlier call."""
    if not path.exists():
        return []
    try:
        data = json.loads(path.read_bytes())
        return [from_dict(Outcome, row, "outcomes") for row in (*data["outcomes"], *data["others"])]
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{path} is damaged: {error}; move it away to judge all cells again") from error


@contextmanager
def _claimed(directory: Path) -> Iterator[int]:
    """Exclude other calls."""
    handle = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        if not lock(handle):
            raise ConfigError(f"another process is at work in {directory}")
        yield handle
    finally:
        os.close(handle)


def _shown(decoding: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in decoding.items())
