"""Texts to translations, with a model: cutting, batching, decoding, and putting everything back in order."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, Protocol, TypeVar, overload, runtime_checkable

from pcfgnat.checkpoints.metadata import SPECIAL_TOKENS, CheckpointError, Description
from pcfgnat.config import ConfigError, load_config
from pcfgnat.runtimes.onnx import Engine, EngineDescription, EngineOptions, Exported, runtime_is_there
from pcfgnat.runtimes.onnx.description import DESCRIPTION as ENGINE_DESCRIPTION
from pcfgnat.runtimes.onnx.description import is_exported
from pcfgnat.structures import Hypothesis, Search
from pcfgnat.text import Tokenizer
from pcfgnat.translator.splitting import split_to_fit
from pcfgnat.translator.translation import Candidate, Translation

EMBEDDED = Path(__file__).parents[1] / "embedded" / "en-de"
CHECKPOINT_DESCRIPTION = "checkpoint.toml"
ENGINE = "engine"  # a directory in a checkpoint, with the same model exported
WINDOW_CHARACTERS = 1 << 18

T = TypeVar("T")
Runtime = Literal["auto", "torch", "engine"]


@runtime_checkable
class Translates(Protocol):
    """What a translator knows of a model, be it of torch or of the engine."""

    @property
    def strategies(self) -> tuple[str, ...]:
        """What `Search.strategy` may be, the default first."""

    @property
    def default_search(self) -> Search:
        """How to translate when nobody says otherwise."""

    @property
    def max_source_length(self) -> int:
        """The longest source that can be translated, bos and eos counted."""


@runtime_checkable
class _Decoder(Protocol):
    """What a translator asks of a model: ids to hypotheses."""

    def translate(self, sources: Sequence[Sequence[int]], search: Search) -> list[list[Hypothesis]]: ...

    def sweep(
        self, sources: Sequence[Sequence[int]], search: Search, length_penalties: Sequence[float]
    ) -> list[list[Hypothesis]]: ...


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
        model: Translates,
        tokenizer: Tokenizer,
        search: Search | None = None,
        options: TranslateOptions | None = None,
    ) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.options = options or TranslateOptions()
        self._defaults = search or model.default_search
        self.search = _search(model, self._defaults, self.options)
        self._decoder = model if isinstance(model, Engine) else _torch_decoder(model)

    @classmethod
    def load(
        cls,
        directory: Path | str | None = None,
        device: object = "cpu",
        options: TranslateOptions | None = None,
        runtime: Runtime = "auto",
        engine: EngineOptions | None = None,
    ) -> "Translator":
        """Load a checkpoint or an exported model; without a directory the model that comes with the package.

        `device` is a torch.device or its name. A checkpoint that has the same model exported, in a directory
        `engine` inside it, runs on that where it can, unless `runtime` says otherwise; `engine` tells how.
        """
        place = embedded_model() if directory is None else Path(directory)
        decode = options.decode if options is not None else None
        exported = engine_for(place, str(device), decode, runtime)
        if exported is not None:
            found = Exported.open(exported)
            if exported != place:
                _check_origin(place, found)
            return cls(Engine(found, engine), found.tokenizer, found.description.search.search(), options)
        from pcfgnat.checkpoints.checkpoint import Checkpoint

        checkpoint = Checkpoint.open(place)
        search = checkpoint.description.search.search()
        return cls(checkpoint.model(device=str(device)), checkpoint.tokenizer, search, options)

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
        for window in windows(lines, self.options.window):
            yield from self._translate(window)

    def sweep(self, texts: Iterable[str], betas: Sequence[float]) -> list[list[str]]:
        """Return the translations of all texts for each β, from one decoding where the model can do that."""
        columns: list[list[str]] = [[] for _ in betas]
        for window in windows(texts, self.options.window):
            jobs, units = self._planned(window)
            found = self._in_batches(units, lambda sources: self._decoder.sweep(sources, self.search, betas))
            for job in jobs:
                rows = [found[index] for index in job.units]
                for i, column in enumerate(columns):
                    parts = [self.tokenizer.decode(row[i].ids) for row in rows]
                    column.append(" ".join(part for part in parts if part))
        return columns

    def _translate(self, texts: Sequence[str]) -> list[Translation]:
        jobs, units = self._planned(texts)
        found = self._in_batches(units, lambda sources: self._decoder.translate(sources, self.search))
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


def engine_for(
    directory: Path, device: str = "cpu", decode: str | None = None, runtime: Runtime = "auto"
) -> Path | None:
    """Say where the exported model lies that is run for a directory; None if that is run by torch."""
    if is_exported(directory):
        if runtime == "torch" or device != "cpu":
            wanted = "torch" if runtime == "torch" else device
            raise CheckpointError(f"{directory} is an exported model: it must run on cpu, got {wanted}")
        return directory
    inside = directory / ENGINE
    if runtime == "torch" or not is_exported(inside):
        if runtime == "engine":
            raise CheckpointError(f"{directory} must be an exported model or have one in {inside}")
        return None
    if runtime == "engine":
        return inside
    can = decode is None or decode in _described(inside, ENGINE_DESCRIPTION, EngineDescription).strategies
    return inside if can and device == "cpu" and runtime_is_there() else None


def describe_model(directory: Path) -> Description | EngineDescription:
    """Read what a checkpoint or an exported model says of itself."""
    if is_exported(directory):
        return _described(directory, ENGINE_DESCRIPTION, EngineDescription)
    return _described(directory, CHECKPOINT_DESCRIPTION, Description)


def _described(directory: Path, name: str, kind: type[T]) -> T:
    if not (directory / name).is_file():
        raise CheckpointError(f"{directory} must be a checkpoint, but it has no {name}")
    try:
        return load_config(kind, directory / name)
    except ConfigError as error:
        raise CheckpointError(f"{directory} is not a usable checkpoint: {error}") from error


def _check_origin(checkpoint: Path, exported: Exported) -> None:
    """Complain if an engine was made from other weights than those that lie beside it."""
    weights = _described(checkpoint, CHECKPOINT_DESCRIPTION, Description).weights_sha256
    if weights != exported.description.origin_sha256:
        raise CheckpointError(
            f"{exported.directory} was exported from other weights than those of {checkpoint}: export again"
        )


def _torch_decoder(model: Translates) -> _Decoder:
    from pcfgnat.networks import Model
    from pcfgnat.translator.torch_model import TorchModel

    if not isinstance(model, Model):
        raise ValueError(f"a translator needs a Model or an Engine, got {type(model).__name__}")
    return TorchModel(model)


@dataclass(frozen=True)
class _Job:
    """A text to translate: its pieces, where their ids stand among all, and how many it has in all."""

    text: str
    pieces: list[str]
    units: range
    length: int


def _search(model: Translates, defaults: Search, options: TranslateOptions) -> Search:
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
