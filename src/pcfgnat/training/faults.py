"""Steps that are skipped: when a loss is a spike, what is kept of bad steps, when there were too many."""

import math
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from statistics import median

from pcfgnat.storage.files import write_atomically
from pcfgnat.text import ParallelCorpus, Tokenizer
from pcfgnat.training.config import FaultsConfig, TrainingError
from pcfgnat.training.learner import StepResult
from pcfgnat.training.record.state import RunState

HISTORY, ENOUGH = 100, 20  # losses that the median is of: at most, and at least
LEAST_MEDIAN = (
    1.0  # nats: towards the end of an easy task all losses are small, and a multiple is still small
)
MOST_FILES, MOST_SENTENCES, MOST_CHARACTERS = 20, 100, 1000
ADVICE = {
    "not finite": "lower optimiser.rate or optimiser.clip, lengthen optimiser.warm_up, or use float32",
    "spike": "lower optimiser.rate or lengthen optimiser.warm_up; if such losses are usual in this data, "
    "raise faults.spike_factor",
    "no target": "the network can produce none of these targets: raise network.upsampling, or prepare with a "
    "smaller --max-ratio",
}


class Faults:
    """Knows the losses of a run, and keeps the sentences of bad steps for people to look at."""

    def __init__(
        self, config: FaultsConfig, directory: Path, say: Callable[[str], None], writes: bool = True
    ) -> None:
        self._config, self._directory, self._say, self._writes = config, directory, say, writes

    def limit(self, state: RunState) -> float:
        """Return the loss per target token above which a step is a spike."""
        if len(state.recent_losses) < ENOUGH:
            return math.inf
        return self._config.spike_factor * max(median(state.recent_losses), LEAST_MEDIAN)

    def note(
        self,
        state: RunState,
        result: StepResult,
        pairs: Sequence[int],
        corpus: ParallelCorpus,
        tokenizer: Tokenizer,
    ) -> None:
        """Take a step into account, which `state` is after already; give up if too many were bad in a row."""
        if result.fault is None:
            state.bad_in_a_row = 0
            state.recent_losses = [*state.recent_losses, result.token_loss][-HISTORY:]
            return
        state.interval.bad += 1
        state.bad_steps += 1
        state.bad_in_a_row += 1
        told = f"step {state.step} was skipped: {_described(result, self.limit(state))}"
        if self._writes and state.bad_steps <= MOST_FILES:
            path = self._directory / f"step-{state.step}.txt"
            lines = [told, *_shown(pairs, corpus, tokenizer)]
            self._directory.mkdir(exist_ok=True)
            write_atomically(path, "".join(f"{line}\n" for line in lines).encode())
            told += f"; its sentences are in {path}"
        self._say(told)
        if state.bad_in_a_row >= self._config.max_bad_steps:
            raise TrainingError(
                f"{state.bad_in_a_row} steps in a row, up to {state.step}, were skipped, the last because of "
                f"{_described(result, self.limit(state))}: {ADVICE[result.fault]}; see {self._directory}"
            )


def _described(result: StepResult, limit: float) -> str:
    if result.fault == "spike":
        return f"a loss of {result.token_loss:.4g} per target token, more than {limit:.4g}"
    if result.fault == "no target":
        return f"{result.skipped} targets that the network cannot produce, and no other"
    return f"a loss of {result.loss:.4g} with gradients of norm {result.grad_norm:.4g}, not finite"


def _shown(pairs: Sequence[int], corpus: ParallelCorpus, tokenizer: Tokenizer) -> list[str]:
    """Pairs as text, bounded in number and length, with their numbers in the prepared data."""
    lines = []
    for index in islice(pairs, MOST_SENTENCES):
        source, target = (tokenizer.decode(ids)[:MOST_CHARACTERS] for ids in corpus[index])
        lines.append(f"{index}\t{source}\t{target}")
    left = len(pairs) - len(lines)
    return [*lines, f"and {left} pairs more"] if left else lines
