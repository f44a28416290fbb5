"""The run itself: in every round each contender takes its turn in each case, one at a time."""

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from tqdm import tqdm

from pcfgnat.benchmark.contender import Case, Contender
from pcfgnat.benchmark.machine import free_memory
from pcfgnat.benchmark.process import ContenderError, Worker
from pcfgnat.benchmark.results import Memory, Results, Sample

LEAST_FREE_MEMORY = 1 << 30
TURN_CALLS, TURN_SECONDS = 5, 0.4
LEAST_ROUNDS = 3


@dataclass(frozen=True)
class Plan:
    """What is measured.

    texts:   by length (0 for real text), sentences that batches are cut from; the same for all contenders
    judge:   what returns BLEU of the translations of all real text, if that is wanted
    rounds:  turns of each contender in each case
    seconds: what a contender may spend on a case; when they are used up and it has had 3 rounds, it sits out
    """

    contenders: Sequence[Contender]
    cases: Sequence[Case]
    threads: Sequence[int]
    texts: Mapping[int, Sequence[str]]
    rounds: int = 10
    seconds: float = 30.0
    judge: Callable[[list[str]], float] | None = None

    def __post_init__(self) -> None:
        for name in ("contenders", "cases", "threads"):
            if not getattr(self, name):
                raise ValueError(f"there must be at least one of {name}, got none")
        for case in self.cases:
            if (known := len(self.texts[case.length])) < case.batch:
                raise ValueError(f"a batch of {case.batch} must be of different texts, got {known}")
        if self.rounds < 1:
            raise ValueError(f"rounds must be at least 1, got {self.rounds}")

    def batches(self, case: Case, turn: int) -> list[list[str]]:
        """Return what is translated in a turn: other sentences in each, over and over again."""
        texts = self.texts[case.length]
        first = turn * TURN_CALLS * case.batch
        return [
            [texts[(first + call * case.batch + i) % len(texts)] for i in range(case.batch)]
            for call in range(TURN_CALLS)
        ]


def measure(plan: Plan, results: Results, output: Path) -> None:
    """Add what is found to the results, saved after each round; a contender that fails is left out."""
    for threads in plan.threads:
        _Measurement(plan, threads, results, output).run()


class _Measurement:
    """All contenders with one number of threads."""

    def __init__(self, plan: Plan, threads: int, results: Results, output: Path) -> None:
        self._plan, self._threads, self._results, self._output = plan, threads, results, output
        self._workers: list[Worker] = []
        self._samples: dict[tuple[str, Case], Sample] = {}
        self._memory: dict[str, Memory] = {}
        self._last: dict[tuple[str, Case], float] = {}  # seconds of the last turn

    def run(self) -> None:
        plan, count = self._plan, len(self._plan.contenders)
        turns = count * len(plan.cases)
        with ExitStack() as stack, tqdm(total=count + turns * (1 + plan.rounds), disable=None) as bar:
            for contender in plan.contenders:
                bar.set_description(f"{self._threads} threads, loading {contender.name}")
                self._attempt(contender, lambda contender=contender: self._start(contender, stack))  # type: ignore[misc]
                bar.update()
            for turn in range(1 + plan.rounds):
                name = f"round {turn}" if turn else "warm-up"
                bar.set_description(f"{self._threads} threads, {name}{self._left(turn)}")
                self._round(turn, bar)
                self._results.save(self._output)

    def _start(self, contender: Contender, stack: ExitStack) -> None:
        free = free_memory()
        if free is not None and free < LEAST_FREE_MEMORY:
            raise ContenderError(f"not started: only {free / 1e9:.1f} GB of memory are free; choose fewer")
        worker = stack.enter_context(Worker(contender, self._threads))
        plan, quality = self._plan, self._results.quality
        if plan.judge is not None and contender.name not in quality:
            quality[contender.name] = plan.judge(worker.ask("translate", plan.texts[0])["lines"])
        loaded = worker.loaded
        bytes_, seconds = loaded["memory"], loaded["seconds"]
        memory = Memory(contender.name, self._threads, bytes_, bytes_, seconds, loaded["ran"])
        self._memory[contender.name] = memory
        self._results.memory.append(memory)
        self._workers.append(worker)

    def _round(self, turn: int, bar: "tqdm[object]") -> None:
        for case in self._plan.cases:
            for worker in list(self._workers):
                self._attempt(worker.contender, lambda w=worker, c=case: self._turn(w, c, turn))  # type: ignore[misc]
            bar.update(len(self._plan.contenders))

    def _turn(self, worker: Worker, case: Case, turn: int) -> None:
        """Take a turn; the first one warms up, and is not counted."""
        name = worker.contender.name
        sample = self._samples.get((name, case))
        if sample is not None and self._spent(sample):
            sample.rounds.append([])
            self._last[name, case] = 0.0
            return
        answer = worker.ask(
            "time", self._plan.batches(case, turn), case.length, TURN_SECONDS if turn else 0.0
        )
        self._last[name, case] = sum(answer["seconds"])
        self._memory[name].peak = max(self._memory[name].peak, answer["memory"])
        if sample is None:
            sample = self._samples[name, case] = Sample(name, self._threads, case)
            self._results.samples.append(sample)
        else:
            sample.rounds.append(answer["seconds"])

    def _spent(self, sample: Sample) -> bool:
        taken = [calls for calls in sample.rounds if calls]
        return len(taken) >= LEAST_ROUNDS and sum(map(sum, taken)) >= self._plan.seconds

    def _attempt(self, contender: Contender, action: Callable[[], None]) -> None:
        """Run an action of a contender; if it fails, the contender is dropped, and the others continue."""
        try:
            action()
        except ContenderError as error:
            self._workers = [worker for worker in self._workers if worker.contender != contender]
            self._results.failures[f"{contender.name}, {self._threads} threads"] = str(error)
            tqdm.write(f"{contender.name} is left out: {error}", file=sys.stderr)

    def _left(self, turn: int) -> str:
        """Return the time left, estimated from the last round, as text."""
        seconds = sum(self._last.values()) * (self._plan.rounds + 1 - turn)
        return f", about {timedelta(seconds=round(seconds))} left" if turn else ""
