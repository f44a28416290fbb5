"""How long the models of a grid take: all in turns, so that what disturbs the machine disturbs them alike."""

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from pcfgnat.translator import Translator

BATCH = 32
ROUNDS, WARM_UP = 3, 1


@dataclass
class Latency:
    """Seconds for a sentence, of each call: alone, and together with others."""

    alone: list[float] = field(default_factory=list)
    together: list[float] = field(default_factory=list)

    @property
    def milliseconds(self) -> tuple[float, float]:
        """Return both medians."""
        return 1e3 * statistics.median(self.alone), 1e3 * statistics.median(self.together)


def latencies(contenders: Sequence[tuple[Translator, Sequence[str]]]) -> list[Latency]:
    """Let each translator translate its sources, one by one and in batches."""
    found = [Latency() for _ in contenders]
    for turn in range(WARM_UP + ROUNDS):
        for latency, (translator, texts) in zip(found, contenders, strict=True):
            own = latency if turn >= WARM_UP else Latency()
            own.alone += [_timed(translator, [text]) for text in texts]
            batches = [texts[first : first + BATCH] for first in range(0, len(texts), BATCH)]
            own.together += [_timed(translator, batch) / len(batch) for batch in batches]
    return found


def _timed(translator: Translator, texts: Sequence[str]) -> float:
    start = time.perf_counter()
    for _ in translator.stream(texts):
        pass
    return time.perf_counter() - start
