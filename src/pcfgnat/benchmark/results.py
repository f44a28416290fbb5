"""What a run found: every single time, and what follows from them."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pcfgnat.benchmark.contender import Case, Contender
from pcfgnat.report.statistics import Ratio, Timing
from pcfgnat.storage.files import write_atomically

RESULTS = "results.json"


@dataclass
class Sample:
    """The times of a contender in a case: for each round those of all its calls, none if it sat out."""

    contender: str
    threads: int
    case: Case
    rounds: list[list[float]] = field(default_factory=list)

    @property
    def seconds(self) -> list[float]:
        """All times."""
        return [one for calls in self.rounds for one in calls]

    @property
    def timing(self) -> Timing:
        """Their summary."""
        return Timing.of(self.seconds)

    @property
    def sentences_per_second(self) -> float:
        """Throughput, by the median."""
        return self.case.batch / self.timing.median


@dataclass
class Memory:
    """Resident bytes of a contender's process: when it had loaded, and the most that it had; what ran."""

    contender: str
    threads: int
    loaded: int
    peak: int
    load_seconds: float
    ran: str = ""


@dataclass
class Results:
    """Everything, as it is saved after each round.

    quality:  BLEU of each contender, where there was something to judge
    failures: what went wrong, by contender and number of threads
    """

    machine: dict[str, Any]
    settings: dict[str, Any]
    contenders: list[Contender]
    samples: list[Sample] = field(default_factory=list)
    memory: list[Memory] = field(default_factory=list)
    quality: dict[str, float] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)

    def sample(self, contender: str, threads: int, case: Case) -> Sample | None:
        """Return the times of a contender in a case, if it was measured."""
        for sample in self.samples:
            if (sample.contender, sample.threads, sample.case) == (
                contender,
                threads,
                case,
            ) and sample.seconds:
                return sample
        return None

    def cases(self, threads: int) -> list[Case]:
        """Return all cases that were measured with so many threads."""
        return sorted(
            {sample.case for sample in self.samples if sample.threads == threads and sample.seconds}
        )

    def thread_counts(self) -> list[int]:
        """Return the numbers of threads that were measured."""
        return sorted({sample.threads for sample in self.samples})

    def save(self, directory: Path) -> None:
        """Write everything; an existing file is replaced atomically."""
        directory.mkdir(parents=True, exist_ok=True)
        content = json.dumps(self.to_dict(), ensure_ascii=False, indent=1) + "\n"
        write_atomically(directory / RESULTS, content.encode())

    def to_dict(self) -> dict[str, Any]:
        """Plain data, summaries included."""
        return {
            "format": 1,
            "machine": self.machine,
            "settings": self.settings,
            "contenders": [contender.to_dict() for contender in self.contenders],
            "samples": [_plain(sample) for sample in self.samples],
            "memory": [vars(memory) for memory in self.memory],
            "quality": self.quality,
            "failures": self.failures,
        }

    @classmethod
    def load(cls, directory: Path) -> "Results":
        """Read what `save` wrote."""
        data = json.loads((directory / RESULTS).read_text(encoding="utf-8"))
        if data.get("format") != 1:
            raise ValueError(f"{directory / RESULTS} must have format 1, got {data.get('format')!r}")
        samples = [
            Sample(one["contender"], one["threads"], Case(one["length"], one["batch"]), one["rounds"])
            for one in data["samples"]
        ]
        return cls(
            data["machine"],
            data["settings"],
            [Contender.from_dict(contender) for contender in data["contenders"]],
            samples,
            [Memory(**memory) for memory in data["memory"]],
            data["quality"],
            data["failures"],
        )


def ratio(above: Sample, below: Sample) -> Ratio:
    """Divide the times of a contender by those of another one."""
    return Ratio.of(above.rounds, below.rounds)


def _plain(sample: Sample) -> dict[str, Any]:
    plain: dict[str, Any] = {
        "contender": sample.contender,
        "threads": sample.threads,
        "length": sample.case.length,
        "batch": sample.case.batch,
    }
    if sample.seconds:
        plain["seconds"] = vars(sample.timing)
        plain["sentences_per_second"] = sample.sentences_per_second
    return {**plain, "rounds": sample.rounds}
