"""Texts to translations, with a model: cutting, batching, decoding, and putting everything back in order."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar, overload

from pcfgnat.checkpoints.metadata import DecodingDefaults
from pcfgnat.decoding import Beam, Request, Strategy, parse_strategy, strategies_of, strategy_text
from pcfgnat.grammar.search import Hypothesis
from pcfgnat.runtimes.base import Runtime
from pcfgnat.runtimes.onnx.base import OnnxOptions
from pcfgnat.text import Tokenizer
from pcfgnat.translator.loading import Loaded, RuntimeName, load_model, model_directory
from pcfgnat.translator.splitting import split_to_fit
from pcfgnat.translator.translation import Candidate, Translation

WINDOW_CHARACTERS = 1 << 18

T = TypeVar("T")


@dataclass(frozen=True)
class TranslateOptions:
    """How to translate; `None` stands for the model's own default.

    strategy:       one of the model's, with its settings: viterbi, greedy, lookahead, beam:size=8, sample …
    length_penalty: the β of `score / L^β`: greater ones favour longer translations
    results:        how many translations of each text are wanted
    seed:           of strategies that draw
    batch:          sentences that are translated together, as long as they have no more than `batch_tokens`
    window:         lines that `stream` reads ahead, to put those of similar length together
    """

    strategy: str | None = None
    length_penalty: float | None = None
    results: int = 1
    seed: int = 1
    batch: int = 32
    batch_tokens: int = 2048
    window: int = 1024

    def __post_init__(self) -> None:
        for name in ("results", "batch", "batch_tokens", "window"):
            if (value := getattr(self, name)) < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")


class Translator:
    """A model that reads and writes text.

    translator = Translator.load("checkpoints/en-de")
    print(translator("Hello."))
    """

    def __init__(
        self,
        runtime: Runtime,
        tokenizer: Tokenizer,
        defaults: DecodingDefaults,
        options: TranslateOptions | None = None,
        loaded: Loaded | None = None,
    ) -> None:
        self.runtime, self.tokenizer, self.defaults = runtime, tokenizer, defaults
        self.options = options or TranslateOptions()
        self.loaded = loaded
        self.strategy = _strategy(runtime, defaults, self.options)
        penalty = self.options.length_penalty
        self.request = Request(
            results=self.options.results,
            length_penalty=defaults.length_penalty if penalty is None else penalty,
            seed=self.options.seed,
        )

    @classmethod
    def load(
        cls,
        directory: Path | str | None = None,
        device: object = "cpu",
        options: TranslateOptions | None = None,
        runtime: RuntimeName = "auto",
        onnx: OnnxOptions | None = None,
        verifier: Path | str | None = None,
    ) -> "Translator":
        """Load a checkpoint, an exported model or the result of a training run; by default the bundled model.

        `device` is a torch.device or its name. A checkpoint that has the same model exported, in a directory
        `onnx` inside it, runs on onnxruntime where that is installed, unless `runtime` says otherwise. A
        `verifier` is an autoregressive model of the same tokenizer, which reads the drafts of a grammar or
        graph.
        """
        loaded = load_model(model_directory(directory), str(device), runtime, onnx)
        if verifier is not None:
            loaded = loaded.verified_by(load_model(model_directory(verifier), str(device), runtime, onnx))
        return cls(loaded.runtime, loaded.tokenizer, loaded.defaults, options, loaded)

    def with_options(self, options: TranslateOptions) -> "Translator":
        """Return a translator with the same model and other options."""
        return Translator(self.runtime, self.tokenizer, self.defaults, options, self.loaded)

    def job(self) -> dict[str, str]:
        """Return everything that translations depend on, but for the text: a resumed job must be the same."""
        if self.loaded is None:
            raise ValueError("only a translator of a model that was loaded can be resumed")
        job = {
            **self.loaded.job(),
            "strategy": strategy_text(self.strategy),
            "length_penalty": str(self.request.length_penalty),
            "results": str(self.request.results),
        }
        return {**job, "seed": str(self.request.seed)} if self.strategy.draws else job

    @property
    def strategies(self) -> tuple[str, ...]:
        """Names of the strategies that the model can be decoded by, the default first."""
        default = self.defaults.strategy.partition(":")[0]
        return tuple(sorted(strategies_of(self.runtime), key=lambda name: name != default))

    @overload
    def __call__(self, texts: str) -> Translation: ...  # type: ignore[overload-overlap]

    @overload
    def __call__(self, texts: Iterable[str]) -> list[Translation]: ...

    def __call__(self, texts: str | Iterable[str]) -> Translation | list[Translation]:
        """Translate one text or several."""
        if isinstance(texts, str):
            return self._translate([texts])[0]
        return list(self.stream(texts))

    def stream(self, lines: Iterable[str]) -> Iterator[Translation]:
        """Translate lines one after the other, in memory that does not grow with their number."""
        for window in windows(lines, self.options.window):
            yield from self._translate(window)

    def sweep(self, texts: Iterable[str], length_penalties: Sequence[float]) -> list[list[str]]:
        """Return the translations of all texts for each β, from one decoding where that is possible."""
        columns: list[list[str]] = [[] for _ in length_penalties]
        for window in windows(texts, self.options.window):
            jobs, units = self._planned(window)
            found = self._in_batches(
                units,
                lambda sources: self.strategy.sweep(self.runtime, sources, self.request, length_penalties),
            )
            for job in jobs:
                rows = [found[index] for index in job.units]
                for i, column in enumerate(columns):
                    parts = [self.tokenizer.decode(row[i].ids) for row in rows]
                    column.append(" ".join(part for part in parts if part))
        return columns

    def _translate(self, texts: Sequence[str]) -> list[Translation]:
        jobs, units = self._planned(texts)
        found = self._in_batches(
            units, lambda sources: self.strategy.decode(self.runtime, sources, self.request)
        )
        return [self._result(job, found) for job in jobs]

    def _planned(self, texts: Sequence[str]) -> tuple[list["_Job"], list[list[int]]]:
        """Encode texts; one that is too long becomes several units, an empty one none."""
        jobs: list[_Job] = []
        units: list[list[int]] = []
        limit = self.runtime.max_source_length
        for text, ids in zip(texts, self.tokenizer.encode_all(texts), strict=True):
            if len(ids) <= limit:
                pieces, encoded = [text], [ids] if len(ids) > 2 else []
            else:
                pieces = split_to_fit(text, self.tokenizer, limit)
                encoded = self.tokenizer.encode_all(pieces)
            jobs.append(_Job(text, pieces, range(len(units), len(units) + len(encoded)), len(ids)))
            units += encoded
        return jobs, units

    def _in_batches(
        self, units: Sequence[list[int]], decode: Callable[[Sequence[list[int]]], list[T]]
    ) -> list[T]:
        """Decode in batches of similar length; the results are in the order of the units."""
        found: dict[int, T] = {}
        order = sorted(range(len(units)), key=lambda index: len(units[index]))
        for batch in _batches(order, [len(unit) for unit in units], self.options):
            results = decode([units[index] for index in batch])
            found.update(zip(batch, results, strict=True))
        return [found[index] for index in range(len(units))]

    def _result(self, job: "_Job", found: Sequence[list[Hypothesis]]) -> Translation:
        if not job.units:
            return Translation.empty(job.text)
        parts = []
        for piece, index in zip(job.pieces, job.units, strict=True):
            best = found[index][: self.options.results]
            candidates = [Candidate.from_hypothesis(hypothesis, self.tokenizer) for hypothesis in best]
            parts.append(Translation.from_candidates(piece, candidates))
        if len(parts) == 1:
            return replace(parts[0], source=job.text)
        limit = self.runtime.max_source_length
        note = f"split into {len(parts)} pieces: {job.length} tokens, but the model reads at most {limit}"
        return Translation.joined(job.text, parts, note)


@dataclass(frozen=True)
class _Job:
    """A text to translate: its pieces, where their ids stand among all, and how many it has in all."""

    text: str
    pieces: list[str]
    units: range
    length: int


def _strategy(runtime: Runtime, defaults: DecodingDefaults, options: TranslateOptions) -> Strategy:
    """Return the strategy that is asked for; a beam is wide enough for all results."""
    strategy = parse_strategy(options.strategy or defaults.strategy, runtime)
    if isinstance(strategy, Beam) and strategy.size < options.results:
        return replace(strategy, size=options.results)
    return strategy


def windows(lines: Iterable[str], size: int) -> Iterator[list[str]]:
    """Cut lines into lists of bounded size; if reading fails, what was read comes before the error."""
    window: list[str] = []
    characters = 0
    try:
        for line in lines:
            window.append(line)
            characters += len(line)
            if len(window) >= size or characters >= WINDOW_CHARACTERS:
                yield window
                window, characters = [], 0
    except (ValueError, OSError):
        if window:
            yield window
        raise
    if window:
        yield window


def _batches(order: Sequence[int], lengths: Sequence[int], options: TranslateOptions) -> Iterator[list[int]]:
    """Cut indices, sorted by length, into batches."""
    batch: list[int] = []
    for index in order:
        full = len(batch) >= options.batch or (len(batch) + 1) * lengths[index] > options.batch_tokens
        if batch and full:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch
