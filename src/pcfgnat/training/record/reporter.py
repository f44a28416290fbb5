"""What a run prints: a progress bar on a terminal, lines elsewhere."""

import sys
from datetime import timedelta
from types import TracebackType
from typing import Any

from tqdm import tqdm

from pcfgnat.progress import is_quiet
from pcfgnat.training.record.logs import Value
from pcfgnat.training.record.state import Best
from pcfgnat.training.validation import Scores

SHOWN = ("loss", "nll")


class Reporter:
    """Writes to stderr, unless it is silent."""

    def __init__(self, silent: bool = False) -> None:
        self._silent = silent or is_quiet()
        self._bar: Any = None
        self._start: tuple[float, float] | None = None  # progress and seconds when this process began
        self._bleu = ""
        self._figures = ""

    def __enter__(self) -> "Reporter":
        if sys.stderr.isatty() and not self._silent:
            layout = "{percentage:3.0f}%|{bar:20}| {desc}"
            self._bar = tqdm(total=1.0, bar_format=layout, leave=False, mininterval=0.5, file=sys.stderr)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.close()

    def say(self, text: str) -> None:
        """Write a line."""
        if self._silent:
            return
        if self._bar is None:
            print(text, file=sys.stderr, flush=True)
        else:
            self._bar.write(text, file=sys.stderr)

    def step(self, step: int, progress: float, seconds: float) -> None:
        """Update the progress bar."""
        if self._start is None:
            self._start = (progress, seconds)
        if self._bar is not None:
            self._bar.n = progress
            left = self._left(progress, seconds)
            self._bar.set_description_str(f"step {step}{self._figures}{self._bleu}{left}", refresh=False)
            self._bar.update(0)

    def row(self, row: dict[str, Value], progress: float, steps_per_second: float) -> None:
        """Print the figures of a row of the log."""
        shown = "".join(f", {name} {row[name]:.3f}" for name in SHOWN if name in row)
        rates = f"{steps_per_second:.2f} steps/s, {row['tokens_per_second']:.0f} tokens/s"
        self._figures = f", epoch {row['epoch']:.2f}{shown}, {rates}"
        if self._bar is None:
            left = self._left(progress, float(row["seconds"]))
            self.say(f"{100 * progress:5.1f} %  step {row['step']}{self._figures}{self._bleu}{left}")

    def validated(self, scores: Scores, step: int, best: Best) -> None:
        """Print the result of a validation, and its BLEU in all following lines."""
        self._bleu = f", BLEU {scores.bleu:.2f} (best {best.bleu:.2f})"
        found = f"BLEU {scores.bleu:.2f} (best {best.bleu:.2f} at step {best.step})"
        ratio = f"length ratio {scores.length_ratio:.3f}"
        self.say(f"validation at step {step}: {found}, {ratio}, {scores.seconds:.0f} s")

    def _left(self, progress: float, seconds: float) -> str:
        if self._start is None or progress <= self._start[0]:
            return ""
        left = (seconds - self._start[1]) * (1 - progress) / (progress - self._start[0])
        return f", {timedelta(seconds=round(left))} left"
