"""What the kernels cost on a GPU, calculated from bytes, operations and launches; nothing timed."""

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from pcfgnat.structures import CTC, RHPCFG, Padded, RuleScores, SupportTree, backend
from pcfgnat.structures.ctc.triton.operators import launch_sizes
from pcfgnat.structures.distribution import Posterior
from pcfgnat.structures.rhpcfg.triton.launch import tiles

NO_LAUNCH = (  # beginnings of the names of operations that start nothing on the device
    *("view", "_unsafe_view", "expand", "unsqueeze", "squeeze", "slice.", "select.", "transpose", "t."),
    *("alias", "detach", "unbind", "split", "permute", "empty", "new_empty", "diagonal"),
)
LAUNCH = 6e-6  # seconds until a kernel is started, as docs/scaling.md assumes
TILE_CYCLES = 1500  # a tile from load to sum: two trips to the cache and two reductions; assumed


@dataclass(frozen=True)
class GPU:
    """What the manufacturer says: bytes/s, multiprocessors, clock."""

    name: str
    bandwidth: float
    processors: int
    clock: float

    @property
    def exponentials(self) -> float:
        """Exponentials per second, 16 per cycle and multiprocessor."""
        return 16.0 * self.processors * self.clock


GPUS = (GPU("A100 80 GB", 2.0e12, 108, 1.41e9), GPU("H100 SXM", 3.35e12, 132, 1.83e9))


@dataclass(frozen=True)
class Batch:
    """A GPU's share of the paper's batch, 65,536 tokens on eight GPUs, of sentences of the mean length."""

    sentences: int = 292
    tokens: int = 28
    upsampling: int = 4
    depth: int = 1
    slots: int = 56  # of CTC, λ = 2

    @property
    def nodes(self) -> int:
        """Main-chain nodes."""
        return self.upsampling * self.tokens + 1

    @property
    def states(self) -> int:
        """Prefix states: left children and how many tokens they derive."""
        return {0: 1, 1: 2, 2: 5}[self.depth]


@dataclass(frozen=True)
class Cost:
    """A pass over a batch."""

    name: str
    bytes: float
    exponentials: float
    tiles: int  # one after the other in each sentence

    def seconds(self, gpu: GPU) -> tuple[float, float, float]:
        """Return the least time by memory, by exponentials, and by the chain of tiles."""
        return (
            self.bytes / gpu.bandwidth,
            self.exponentials / gpu.exponentials,
            self.tiles * TILE_CYCLES / gpu.clock,
        )


def costs(batch: Batch) -> tuple[Cost, ...]:
    """Return inside, outside and best: rules are read once, tables of spans stay in the cache."""
    rules = batch.sentences * batch.nodes**2 / 2 * (1 << batch.depth) * 4
    row = batch.sentences * batch.nodes * batch.tokens * 4
    terms = batch.sentences * batch.nodes**2 / 2 * batch.states * batch.tokens
    size = tiles(batch.tokens)
    rounds = ceil(batch.tokens / size["TILE_N"]) * batch.states
    chain = sum(ceil((batch.nodes - 1 - a) / size["TILE_C"]) for a in range(batch.nodes - 1)) * rounds
    whole = 2 * rules  # the table of gradients has both triangles
    return (
        Cost("inside", rules + row * (2 * batch.states + 2), terms, chain),
        Cost("outside", rules + 3 * whole + row * (3 * batch.states + 3), terms, chain),
        Cost("best tree", rules + row * (batch.states + 3), 0.0, chain),
    )


def ctc_costs(batch: Batch) -> tuple[Cost, ...]:
    """Return CTC's passes: a row of the table for each slot, three ways to reach each of its states."""
    states = 2 * batch.tokens + 1
    tokens, table = (4 * batch.sentences * batch.slots * count for count in (batch.tokens, states))
    terms = 3.0 * batch.sentences * batch.slots * states
    chain = batch.slots * ceil(states / launch_sizes(states)["TILE"])
    return (
        Cost("CTC forward", tokens + 2 * table, terms, chain),
        Cost("CTC backward", 2 * tokens + table, 2 * terms, chain),
        Cost("CTC best alignment", tokens + 2 * table, 0.0, 2 * chain),
    )


class Launches(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts operations that a GPU would be given; views are none."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.count = 0

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name = str(function).removeprefix("aten.")
        self.count += not name.startswith(NO_LAUNCH)
        return function(*args, **(kwargs or {}))


def launches(name: str, batch: Batch) -> dict[str, int]:
    """Count the calls of a training step by a backend, on a device without numbers."""
    grammar, alignments = _posteriors(batch)
    actions: dict[str, Callable[[], Any]] = {
        "log P and gradient": lambda: _learn(grammar),
        "best tree": grammar.argmax,
        "CTC: log P and gradient": lambda: _learn(alignments),
        "CTC: best alignment": alignments.argmax,
    }
    found = {}
    for title, action in actions.items():
        with backend(name), Launches() as counted:
            action()
        found[title] = counted.count
    return found


def _learn(posterior: Posterior) -> None:
    posterior.log_partition.sum().backward()  # type: ignore[no-untyped-call]


def _posteriors(batch: Batch) -> tuple[Posterior, Posterior]:
    """Return two sentences' derivations and alignments, on the meta device."""
    meta = torch.device("meta")
    scores = RuleScores.zeros(SupportTree(batch.nodes, batch.depth), 2, 8, device=meta)
    leaves = [part.requires_grad_() for part in (scores.chain, scores.prefix, scores.emit)]
    sizes = torch.zeros(2, dtype=torch.int64, device=meta)
    target = Padded(torch.zeros(2, batch.tokens, dtype=torch.int64, device=meta), sizes)
    slots = torch.zeros(2, batch.slots, 8, device=meta).requires_grad_()
    return RHPCFG(RuleScores(*leaves), sizes).posterior(target), CTC(slots, sizes, 0).posterior(target)


def table(batch: Batch) -> str:
    """Return the calculated times as Markdown."""
    lines = ["| GPU | pass | bytes | exponentials | by memory | by exponentials | by the chain of tiles |"]
    lines.append("|---|---|---|---|---|---|---|")
    for gpu in GPUS:
        for cost in costs(batch) + ctc_costs(batch):
            times = " | ".join(f"{1e6 * seconds:.0f} µs" for seconds in cost.seconds(gpu))
            work = f"{cost.bytes / 1e6:.0f} MB | {cost.exponentials / 1e6:.0f} M"
            lines.append(f"| {gpu.name} | {cost.name} | {work} | {times} |")
    return "\n".join(lines)


def launch_table(batch: Batch) -> str:
    """Return the counted calls as Markdown."""
    lines = ["| | calls by Triton | time to start them | calls by the plain loop | time to start them |"]
    lines.append("|---|---|---|---|---|")
    fast, plain = launches("triton", batch), launches("reference", batch)
    for title in fast:
        cells = (f"{count} | {1e3 * LAUNCH * count:.1f} ms" for count in (fast[title], plain[title]))
        lines.append(f"| {title} | {' | '.join(cells)} |")
    return "\n".join(lines)
