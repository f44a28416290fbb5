"""Texts to translations, with a model: cutting, batching, decoding, and putting everything back in order."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, overload

from pcfgnat.checkpoints.metadata import DecodingDefaults
from pcfgnat.decoding import (
    Beam,
    DecodingError,
    Request,
    Rescore,
    Strategy,
    parse_strategy,
    strategies_of,
    strategy_text,
)
from pcfgnat.decoding.constraints import NOTHING, Constraints, Satisfied
from pcfgnat.grammar.search import Hypothesis
from pcfgnat.runtimes.base import Drafts, Runtime, Tables
from pcfgnat.runtimes.exported_runtime import ExportedOptions
from pcfgnat.text import Tokenizer
from pcfgnat.text.surfaces import word_starts
from pcfgnat.translator.confidence import Word
from pcfgnat.translator.demands import forced_pieces, raise_unsatisfied, repeat_notes
from pcfgnat.translator.influence import Influence
from pcfgnat.translator.loading import Loaded, RuntimeName, load_model, model_directory
from pcfgnat.translator.planning import Job, Planner
from pcfgnat.translator.translation import Candidate, Translation
from pcfgnat.translator.units import BatchSize, Unit, UnitDecoder, in_batches

WINDOW_CHARACTERS = 1 << 18


@dataclass(frozen=True)
class TranslateOptions:
    """How to translate; `None` stands for the model's own default.

    strategy:       one of the model's, with its settings: viterbi, greedy, lookahead, beam:size=8, sample …
    length_penalty: the β of `score / L^β`: greater ones favour longer translations
    results:        how many translations of each text are wanted
    seed:           of strategies that draw
    batch:          sentences that are translated together, as long as they have no more than `batch_tokens`
    window:         lines that `stream` reads ahead, to put those of similar length together
    constraints:    what translations must have and must not have
    keep:           whether numbers, addresses, tags, emoji and unknown characters of the source must survive
    split:          whether several sentences of a text are translated one by one; line breaks are then kept
    confidence:     whether to compute how sure the model is of each word, where it is a grammar or a graph
    format:         text, or html: a text is then a document, of which what stands between tags is translated
    """

    strategy: str | None = None
    length_penalty: float | None = None
    results: int = 1
    seed: int = 1
    batch: int = 32
    batch_tokens: int = 2048
    window: int = 1024
    constraints: Constraints = NOTHING
    keep: bool = False
    split: bool = False
    confidence: bool = False
    format: Literal["text", "html"] = "text"

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
            word_starts=word_starts(tokenizer),
        )

    @classmethod
    def load(
        cls,
        directory: Path | str | None = None,
        device: object = "cpu",
        options: TranslateOptions | None = None,
        runtime: RuntimeName = "auto",
        onnx: ExportedOptions | None = None,
        verifier: Path | str | None = None,
    ) -> "Translator":
        """Load a checkpoint, an exported model or the result of a training run; by default the bundled model.

        `device` is a torch.device or its name. A checkpoint that has the same model exported, in a directory
        `onnx` inside it, runs on onnxruntime where that is installed, unless `runtime` says otherwise. A
        `verifier` is an autoregressive model of the same tokenizer, which reads the drafts of a grammar, a
        graph or latents. The translator reads and writes raw text, if the model carries all that this takes.
        """
        loaded = load_model(model_directory(directory), str(device), runtime, onnx)
        if verifier is not None:
            loaded = loaded.verified_by(load_model(model_directory(verifier), str(device), runtime, onnx))
        return cls(loaded.runtime, loaded.tokenizer.for_raw_text(), loaded.defaults, options, loaded)

    def with_options(self, options: TranslateOptions) -> "Translator":
        """Return a translator with the same model and other options."""
        return Translator(self.runtime, self.tokenizer, self.defaults, options, self.loaded)

    def for_corpus_text(self) -> "Translator":
        """Return a translator of the text that the model was trained on, which may be split already."""
        tokenizer = self.tokenizer.for_corpus_text()
        if tokenizer is self.tokenizer:
            return self
        return Translator(self.runtime, tokenizer, self.defaults, self.options, self.loaded)

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
        if not self.options.constraints.is_empty:
            job["constraints"] = hashlib.sha256(repr(self.options.constraints).encode()).hexdigest()
        if self.options.keep:
            job["keep"] = str(self.options.keep)
        for name in ("split", "confidence"):
            if getattr(self.options, name):
                job[name] = "True"
        if self.options.format != "text":
            job["format"] = self.options.format
        return {**job, "seed": str(self.request.seed)} if self.strategy.draws else job

    @property
    def strategies(self) -> tuple[str, ...]:
        """Names of the strategies that the model can be decoded by, the default first."""
        default = self.defaults.strategy.partition(":")[0]
        return tuple(sorted(strategies_of(self.runtime), key=lambda name: name != default))

    @property
    def units(self) -> UnitDecoder:
        """What decodes sentences."""
        size = BatchSize(self.options.batch, self.options.batch_tokens)
        return UnitDecoder(self.runtime, self.tokenizer, self.strategy, self.request, size)

    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, texts: str, constraints: Constraints | None = None
    ) -> Translation: ...

    @overload
    def __call__(self, texts: Iterable[str], constraints: Constraints | None = None) -> list[Translation]: ...

    def __call__(
        self, texts: str | Iterable[str], constraints: Constraints | None = None
    ) -> Translation | list[Translation]:
        """Translate one text or several, under other constraints than those of the options if given."""
        if constraints is not None:
            return self.with_options(replace(self.options, constraints=constraints))(texts)
        if isinstance(texts, str):
            return self._translate([texts])[0]
        return list(self.stream(texts))

    def stream(self, lines: Iterable[str]) -> Iterator[Translation]:
        """Translate lines one after the other, in memory that does not grow with their number."""
        for window in windows(lines, self.options.window):
            yield from self._translate(window)

    def sweep(self, texts: Iterable[str], length_penalties: Sequence[float]) -> list[list[str]]:
        """Return the translations of all texts for each β, from one decoding where that is possible."""

        def decode(units: Sequence[Unit]) -> list[list[Hypothesis]]:
            sources = [unit.ids for unit in units]
            return self.strategy.sweep(self.runtime, sources, self.request, length_penalties)

        return self._columns(texts, len(length_penalties), decode)

    def weigh(self, texts: Iterable[str], weights: Sequence[float]) -> list[list[str]]:
        """Return the translations of all texts for each weight of `rescore`, from one decoding."""
        strategy, runtime = self.strategy, self.runtime
        if not isinstance(strategy, Rescore) or not isinstance(runtime, Drafts):
            raise DecodingError(f"weights are those of rescore, got {strategy.name}")

        def decode(units: Sequence[Unit]) -> list[list[Hypothesis]]:
            return strategy.weigh(runtime, [unit.ids for unit in units], self.request, weights)

        return self._columns(texts, len(weights), decode)

    def _columns(
        self, texts: Iterable[str], count: int, decode: Callable[[Sequence[Unit]], list[list[Hypothesis]]]
    ) -> list[list[str]]:
        """Return the translations of all texts, in `count` ways, which `decode` finds of some sentences."""
        columns: list[list[str]] = [[] for _ in range(count)]
        for window in windows(texts, self.options.window):
            jobs = [self._planned(text) for text in window]
            units = [unit for job in jobs for unit in job.units]
            found = iter(in_batches(units, decode, self.units.size))
            for job in jobs:
                rows = [next(found) for _ in job.units]
                for i, column in enumerate(columns):
                    parts = [self.tokenizer.decode(row[i].ids) for row in rows]
                    column.append(" ".join(part for part in parts if part))
        return columns

    def _translate(self, texts: Sequence[str]) -> list[Translation]:
        decoder, constraints = self.units, self.options.constraints
        jobs = [self._planned(text) for text in texts]
        units = [unit for job in jobs for unit in decoder.constrained(job.units, constraints)]
        found = decoder.found(units)
        if self.options.keep:
            units, found = decoder.kept(units, found)
        words = decoder.words(units, found) if self.options.confidence else [()] * len(units)
        rest = map(self._part, units, found, words)
        return [self._result(job, [next(rest) for _ in job.units]) for job in jobs]

    def _planned(self, text: str) -> Job:
        """Encode a text; sentences and what is too long become units of their own, what is empty none."""
        planner = Planner(self.tokenizer, self.runtime.max_source_length, self.options.split)
        return planner.html(text) if self.options.format == "html" else planner.plain(text)

    def _result(self, job: Job, parts: Sequence[Translation]) -> Translation:
        if self.options.constraints.strict:
            raise_unsatisfied(job.text, [clause for part in parts for clause in part.unmet])
        influence = None
        if job.document is not None and isinstance(self.runtime, Tables):
            influence = Influence(self.runtime, self.units.surfaces, self.tokenizer.unk)
        return job.joined(parts, self.tokenizer, self.runtime.max_source_length, influence)

    def _part(self, unit: Unit, found: Satisfied, words: tuple[Word, ...]) -> Translation:
        candidates = []
        for hypothesis in found.hypotheses[: self.options.results]:
            clauses, surfaces = unit.clauses, self.units.surfaces
            forced = forced_pieces(hypothesis.ids, clauses, surfaces) if clauses else ()
            candidate = Candidate.from_hypothesis(hypothesis, self.tokenizer, forced)
            changed = unit.changed is not None
            candidates.append(replace(candidate, text=unit.written(candidate.text)) if changed else candidate)
        unmet = tuple(map(str, unit.reported(found.unmet)))
        notes = tuple(f"cannot {clause}" for clause in unmet)
        notes += repeat_notes(self.strategy, self.request, found.hypotheses[0])
        best = Translation.from_candidates(unit.text, candidates)
        return replace(best, notes=notes, unmet=unmet, words=words) if notes or unmet or words else best


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
