"""What strategies cost beside the model: `python -m benchmarks.strategies --model RUN/final --source FILE`.

Sentences are decoded one by one. CPU time inside the runtime (networks, emissions, reading) and outside of it
(dynamic programs and bookkeeping) are counted apart, so that other work on the machine hardly matters.
"""

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import write_json
from pcfgnat.decoding import parse_strategy
from pcfgnat.grammar.decoding import Grammars
from pcfgnat.report import Table
from pcfgnat.runtimes.base import Drafts, DraftsReader, Sources
from pcfgnat.runtimes.onnx import ExportedOptions
from pcfgnat.translator import TranslateOptions, Translator

STRATEGIES = ("viterbi", "verify", "rescore:size=8")
EMISSIONS = ("everywhere", "at", "log_probs", "columns", "leading")
STEPPER = ("step", "read", "select")


class Stopwatch:
    """CPU seconds of this process inside the runtime, and the number of calls, by name."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.calls: dict[str, int] = {}

    def timed(self, name: str, call: Callable[[], Any]) -> Any:
        """Call a function, and count its time."""
        begin = time.process_time()
        found = call()
        self.seconds[name] = self.seconds.get(name, 0.0) + time.process_time() - begin
        self.calls[name] = self.calls.get(name, 0) + 1
        return found


class Timed:
    """Emissions or a stepper, of which some methods are timed."""

    def __init__(self, inner: Any, watch: Stopwatch, methods: Sequence[str]) -> None:
        self._inner, self._watch, self._methods = inner, watch, methods

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._inner, name)
        if name not in self._methods:
            return value
        return lambda *given: self._watch.timed(name, lambda: value(*given))


@dataclass(frozen=True)
class TimedReader:
    """Encoded sources whose parts are timed."""

    inner: DraftsReader
    watch: Stopwatch

    def grammars(self) -> Iterator[tuple[Sequence[int], Grammars]]:
        """Yield the grammars, with timed emissions."""
        groups = iter(self.inner.grammars())
        while (found := self.watch.timed("grammars", lambda: next(groups, None))) is not None:
            emissions = Timed(found[1].emissions, self.watch, EMISSIONS)
            yield found[0], replace(found[1], emissions=emissions)

    def start(self) -> Any:
        """Return a stepper that is timed."""
        return Timed(self.watch.timed("start", self.inner.start), self.watch, STEPPER)


class TimedDrafts:
    """A runtime whose parts are timed."""

    def __init__(self, inner: Drafts, watch: Stopwatch) -> None:
        self._inner, self._watch = inner, watch
        self.max_source_length, self.max_target_length = inner.max_source_length, inner.max_target_length

    def read_drafts(self, sources: Sources) -> TimedReader:
        """Encode sources."""
        found = self._watch.timed("encode", lambda: self._inner.read_drafts(sources))
        return TimedReader(found, self._watch)

    def grammars(self, sources: Sources) -> Iterator[tuple[Sequence[int], Grammars]]:
        """Yield grammars."""
        return self.read_drafts(sources).grammars()

    def start(self, sources: Sources) -> Any:
        """Encode sources."""
        return Timed(self._watch.timed("start", lambda: self._inner.start(sources)), self._watch, STEPPER)


@dataclass(frozen=True)
class Cost:
    """Microseconds of CPU time per sentence, and of them those inside the runtime; calls of the runtime."""

    strategy: str
    whole: float
    runtime: float
    reads: float
    parts: dict[str, float]

    @property
    def beside(self) -> float:
        """What the strategy takes by itself."""
        return self.whole - self.runtime


def cost(translator: Translator, sources: Sources, strategy: str) -> Cost:
    """Decode sentences one by one."""
    runtime, request = translator.runtime, translator.request
    assert isinstance(runtime, Drafts)
    chosen, watch = parse_strategy(strategy, runtime), Stopwatch()
    for source in sources[:20]:  # kernels are compiled at their first use
        chosen.decode(runtime, [source], request)
    timed: Any = TimedDrafts(runtime, watch)
    begin = time.process_time()
    for source in sources:
        chosen.decode(timed, [source], request)
    scale = 1e6 / len(sources)
    whole = (time.process_time() - begin) * scale
    parts = {name: seconds * scale for name, seconds in watch.seconds.items()}
    reads = (watch.calls.get("read", 0) + watch.calls.get("step", 0)) / len(sources)
    return Cost(strategy, whole, sum(parts.values()), reads, parts)


def table(found: Sequence[Cost]) -> Table:
    """Return CPU time by strategy."""
    rows = [
        [
            one.strategy,
            f"{one.whole:.0f} µs",
            f"{one.runtime:.0f} µs",
            f"{one.beside:.0f} µs",
            f"{one.reads:.2f}",
            f"{one.beside / max(one.reads, 1):.0f} µs",
        ]
        for one in found
    ]
    return Table(["strategy", "sentence", "in the runtime", "beside it", "reads", "beside, by read"], rows)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    add = parser.add_argument
    add("--model", type=Path, required=True, help="a hybrid model, or a pcfg or dag with --verifier")
    add("--verifier", type=Path, help="an autoregressive model")
    add("--source", type=Path, required=True, help="sentences to translate")
    add("--sentences", type=int, default=300)
    add("--strategies", nargs="+", default=STRATEGIES)
    add("--exact", action="store_true", help="look at the whole vocabulary, even if there is a shortlist")
    add("--json", type=Path, help="also write the results as JSON")
    given = parser.parse_args(arguments)
    onnx = ExportedOptions(threads=1, exact=given.exact)
    options = TranslateOptions(keep=False)
    translator = Translator.load(given.model, options=options, onnx=onnx, verifier=given.verifier)
    lines = given.source.read_text(encoding="utf-8").splitlines()[: given.sentences]
    sources = [translator.tokenizer.encode(line) for line in lines]
    found = [cost(translator, sources, strategy) for strategy in given.strategies]
    print(table(found).text())
    for one in found:
        parts = ", ".join(f"{name} {value:.0f}" for name, value in one.parts.items())
        print(f"{one.strategy}: {parts} µs; {np.round(one.beside, 1)} beside")
    if given.json is not None:
        write_json(given.json, {"strategies": [asdict(one) for one in found]})


if __name__ == "__main__":
    main()
