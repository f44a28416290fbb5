"""Texts to translations, with a model: cutting, batching, decoding, and putting everything back in order."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar, overload

import torch

from pcfgnat.checkpoint import Checkpoint, CheckpointError
from pcfgnat.models import SPECIAL_TOKENS, Model
from pcfgnat.structures import Hypothesis, Padded, Search
from pcfgnat.text import Tokenizer
from pcfgnat.translator.splitting import split_to_fit
from pcfgnat.translator.translation import Candidate, Translation

EMBEDDED = Path(__file__).parents[1] / "embedded" / "en-de"
WINDOW_CHARACTERS = 1 << 18

T = TypeVar("T")


@dataclass(frozen=True)
class TranslateOptions:
    """How to translate; `None` stands for what the model's checkpoint says.

    decode: one of the model's strategies, such as viterbi, greedy, lookahead, beam or sample
    beta:   the β of `score / L^β`: greater ones favour longer translations
    beam:   hypotheses kept in beam search
    nbest:  how many translations of each text are wanted
    batch:  sentences that are translated together, as long as they have no more than `batch_tokens` tokens
    window: lines that `stream` reads ahead, to put those of similar length together
    """

    decode: str | None = None
    beta: float | None = None
    beam: int | None = None
    nbest: int = 1
    batch: int = 32
    batch_tokens: int = 2048
    window: int = 1024

    def __post_init__(self) -> None:
        for name in ("beam", "nbest", "batch", "batch_tokens", "window"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")


class Translator:
    """A model that reads and writes text.

    translator = Translator.load("checkpoints/en-de")
    print(translator("Hello."))
    """

    def __init__(
        self,
        model: Model,
        tokenizer: Tokenizer,
        search: Search | None = None,
        options: TranslateOptions | None = None,
    ) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.options = options or TranslateOptions()
        self._defaults = search or model.default_search
        self.search = _search(model, self._defaults, self.options)
        self._device = next(model.parameters()).device

    @classmethod
    def load(
        cls,
        directory: Path | str | None = None,
        device: torch.device | str = "cpu",
        options: TranslateOptions | None = None,
    ) -> "Translator":
        """Load a checkpoint; without a directory the model that comes with the package."""
        checkpoint = Checkpoint.open(embedded_model() if directory is None else directory)
        search = checkpoint.description.search.search()
        return cls(checkpoint.model(device=device), checkpoint.tokenizer, search, options)

    def with_options(self, options: TranslateOptions) -> "Translator":
        """Return a translator with the same model and other options."""
        return Translator(self.model, self.tokenizer, self._defaults, options)

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
        for window in _windows(lines, self.options.window):
            yield from self._translate(window)

    def sweep(self, texts: Iterable[str], betas: Sequence[float]) -> list[list[str]]:
        """Return the translations of all texts for each β, from one decoding where the model can do that."""
        columns: list[list[str]] = [[] for _ in betas]
        for window in _windows(texts, self.options.window):
            jobs, units = self._planned(window)
            found = self._in_batches(units, lambda source: self.model.sweep(source, self.search, betas))
            for job in jobs:
                rows = [found[index] for index in job.units]
                for i, column in enumerate(columns):
                    parts = [self.tokenizer.decode(row[i].ids) for row in rows]
                    column.append(" ".join(part for part in parts if part))
        return columns

    def _translate(self, texts: Sequence[str]) -> list[Translation]:
        jobs, units = self._planned(texts)
        found = self._in_batches(units, lambda source: self.model.translate(source, self.search))
        return [self._result(job, found) for job in jobs]

    def _planned(self, texts: Sequence[str]) -> tuple[list["_Job"], list[list[int]]]:
        """Encode texts; one that is too long becomes several units, an empty one none."""
        jobs: list[_Job] = []
        units: list[list[int]] = []
        limit = self.model.max_source_length
        for text, ids in zip(texts, self.tokenizer.encode_all(texts), strict=True):
            if len(ids) <= limit:
                pieces, encoded = [text], [ids] if len(ids) > 2 else []
            else:
                pieces = split_to_fit(text, self.tokenizer, limit)
                encoded = self.tokenizer.encode_all(pieces)
            jobs.append(_Job(text, pieces, range(len(units), len(units) + len(encoded)), len(ids)))
            units += encoded
        return jobs, units

    def _in_batches(self, units: Sequence[list[int]], decode: Callable[[Padded], list[T]]) -> list[T]:
        """Decode in batches of similar length; the results are in the order of the units."""
        found: dict[int, T] = {}
        order = sorted(range(len(units)), key=lambda index: len(units[index]))
        for batch in _batches(order, [len(unit) for unit in units], self.options):
            source = Padded.from_lists([units[index] for index in batch])
            results = decode(Padded(source.ids.to(self._device), source.lengths.to(self._device)))
            found.update(zip(batch, results, strict=True))
        return [found[index] for index in range(len(units))]

    def _result(self, job: "_Job", found: Sequence[list[Hypothesis]]) -> Translation:
        if not job.units:
            return Translation.empty(job.text)
        parts = []
        for piece, index in zip(job.pieces, job.units, strict=True):
            best = found[index][: self.options.nbest]
            candidates = [Candidate.from_hypothesis(hypothesis, self.tokenizer) for hypothesis in best]
            parts.append(Translation.from_candidates(piece, candidates))
        if len(parts) == 1:
            return replace(parts[0], source=job.text)
        limit = self.model.max_source_length
        note = f"split into {len(parts)} pieces: {job.length} tokens, but the model reads at most {limit}"
        return Translation.joined(job.text, parts, note)


def embedded_model() -> Path:
    """Return the checkpoint that comes with the package."""
    if not EMBEDDED.is_dir():
        raise CheckpointError(
            f"a model must be named, because this package has none of its own in {EMBEDDED}"
        )
    return EMBEDDED


@dataclass(frozen=True)
class _Job:
    """A text to translate: its pieces, where their ids stand among all, and how many it has in all."""

    text: str
    pieces: list[str]
    units: range
    length: int


def _search(model: Model, defaults: Search, options: TranslateOptions) -> Search:
    """Put together what the checkpoint and the user say."""
    strategy = options.decode or defaults.strategy
    if strategy not in model.strategies:
        raise ValueError(
            f"decode must be one of {', '.join(model.strategies)} for this model, got {strategy!r}"
        )
    beam = max(options.beam or defaults.beam_size, options.nbest)
    return replace(
        defaults,
        strategy=strategy,
        length_penalty=defaults.length_penalty if options.beta is None else options.beta,
        beam_size=options.nbest if strategy == "sample" else beam,
        special_tokens=SPECIAL_TOKENS,
        results=options.nbest,
    )


def _windows(lines: Iterable[str], size: int) -> Iterator[list[str]]:
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
