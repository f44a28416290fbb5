"""A trained model as a directory of plain files: weights, settings, tokenizer and a card that people read.

`model.safetensors` has the weights, `checkpoint.toml` says what they are, `tokenizer/` turns text into ids
and `README.md` is the model card. Nothing in it is code, and nothing in it is run when it is read.
"""

import hashlib
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import safetensors
import torch
from safetensors.torch import save as to_safetensors
from torch import Tensor

from pcfgnat import __version__
from pcfgnat.config import ConfigError, dump_toml, from_dict, load_config, to_dict
from pcfgnat.models import MODELS, Model
from pcfgnat.structures import Search
from pcfgnat.text import TextError, Tokenizer, atomic_directory

WEIGHTS, DESCRIPTION, TOKENIZER, CARD = "model.safetensors", "checkpoint.toml", "tokenizer", "README.md"
BLOCK = 1 << 20


class CheckpointError(ValueError):
    """A checkpoint that cannot be read, used or written."""


@dataclass(frozen=True)
class SearchDefaults:
    """How a model translates when nobody says otherwise."""

    strategy: str
    length_penalty: float = 1.0
    beam_size: int = 5

    @classmethod
    def of(cls, search: Search) -> "SearchDefaults":
        """Keep what does not depend on the sentence."""
        return cls(search.strategy, search.length_penalty, search.beam_size)

    def search(self) -> Search:
        """Return them as the models take them."""
        return Search(self.strategy, length_penalty=self.length_penalty, beam_size=self.beam_size)


@dataclass(frozen=True)
class Languages:
    """What is translated into what; empty if nobody said."""

    source: str = ""
    target: str = ""


@dataclass(frozen=True)
class Card:
    """What only people can say about a model; each may be empty."""

    title: str = ""
    licence: str = ""
    data: str = ""
    limits: str = ""


@dataclass(frozen=True)
class Description:
    """What `checkpoint.toml` says.

    model, config: name and settings of the model
    vocabulary:    number of ids, which is the tokenizer's
    training:      facts: data, steps, epochs, seconds, BLEU on the validation set and the like
    """

    format: Literal[1]
    version: str
    model: str
    vocabulary: int
    weights_sha256: str
    config: dict[str, Any]
    search: SearchDefaults
    languages: Languages = field(default_factory=Languages)
    card: Card = field(default_factory=Card)
    training: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint, opened; the weights are read when they are asked for."""

    directory: Path
    description: Description
    tokenizer: Tokenizer

    @classmethod
    def open(cls, directory: Path | str) -> "Checkpoint":
        """Read settings and tokenizer, and complain if anything is missing or does not fit together."""
        directory = Path(directory)
        for name in (DESCRIPTION, WEIGHTS, TOKENIZER):
            if not (directory / name).exists():
                raise CheckpointError(f"{directory} must be a checkpoint, but it has no {name}")
        try:
            description = load_config(Description, directory / DESCRIPTION)
            tokenizer = Tokenizer.load(directory / TOKENIZER)
        except (ConfigError, TextError) as error:
            raise CheckpointError(f"{directory} is not a usable checkpoint: {error}") from error
        if description.model not in MODELS:
            known = ", ".join(MODELS)
            raise CheckpointError(f"{directory}: model must be one of {known}, got {description.model!r}")
        if description.vocabulary != tokenizer.vocabulary_size:
            found = f"{tokenizer.vocabulary_size} of the tokenizer"
            raise CheckpointError(f"{directory}: vocabulary must be {description.vocabulary}, got {found}")
        return cls(directory, description, tokenizer)

    def weights(self) -> dict[str, Tensor]:
        """Read all weights as they are stored; a damaged file is an error."""
        path, expected = self.directory / WEIGHTS, self.description.weights_sha256
        found = sha256_of(path)
        if found != expected:
            raise CheckpointError(f"{path} is damaged: its sha256 must be {expected}, got {found}")
        return read_tensors(path)

    def model(self, dtype: torch.dtype = torch.float32, device: torch.device | str = "cpu") -> Model:
        """Build the model with its weights, ready to translate; torch's random numbers stay as they were."""
        build, kind = MODELS[self.description.model]
        weights = self.weights()
        try:
            config = from_dict(kind, self.description.config, "config")
            with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
                model = build(config, self.description.vocabulary)
        except ValueError as error:
            raise CheckpointError(f"{self.directory / DESCRIPTION}: {error}") from error
        load_weights(model, weights, str(self.directory / WEIGHTS))
        return model.to(device=device, dtype=dtype).eval()


def describe(name: str, config: Any, vocabulary: int, search: SearchDefaults) -> Description:
    """Describe a model to `save_checkpoint`; languages, card and facts are added with `replace`."""
    return Description(
        format=1,
        version=__version__,
        model=name,
        vocabulary=vocabulary,
        weights_sha256="",
        config=to_dict(config),
        search=search,
    )


def save_checkpoint(
    directory: Path | str,
    weights: Model | Mapping[str, Tensor],
    tokenizer: Tokenizer,
    description: Description,
    dtype: torch.dtype | None = None,
) -> None:
    """Write a checkpoint whole or not at all; one that is there already is replaced.

    `dtype` is that of floating-point numbers on the disk, their own if not given. What the description says
    of the weights' checksum does not matter.
    """
    if description.vocabulary != tokenizer.vocabulary_size:
        found = f"{tokenizer.vocabulary_size} of the tokenizer"
        raise CheckpointError(f"vocabulary must be {description.vocabulary}, got {found}")
    tensors = own_weights(weights) if isinstance(weights, Model) else weights
    plain = {name: _stored(tensor, dtype) for name, tensor in tensors.items()}
    content = to_safetensors(plain, {"format": "pt"})
    complete = replace(description, weights_sha256=hashlib.sha256(content).hexdigest())
    with _replaced(Path(directory)) as partial:
        (partial / WEIGHTS).write_bytes(content)
        (partial / DESCRIPTION).write_text(dump_toml(to_dict(complete)), encoding="utf-8")
        tokenizer.save(partial / TOKENIZER)
        parameters = sum(tensor.numel() for tensor in plain.values())
        (partial / CARD).write_text(model_card(complete, parameters, Path(directory).name), encoding="utf-8")


def average_checkpoints(
    sources: Sequence[Path],
    output: Path,
    dtype: torch.dtype | None = None,
    length_penalty: float | None = None,
) -> None:
    """Write the mean of the weights of several checkpoints of one model; all else is the first's.

    `dtype` is that of numbers on the disk and `length_penalty` what the result translates with, unless asked
    otherwise; the first's own if not given.
    """
    mean = averaged(sources)
    first = Checkpoint.open(sources[0])
    known = first.description.training
    facts = known if len(sources) == 1 else {**known, "average_of": len(sources)}
    search = first.description.search
    if length_penalty is not None:
        search = replace(search, length_penalty=length_penalty)
    description = replace(first.description, training=facts, search=search)
    save_checkpoint(output, mean, first.tokenizer, description, dtype)


def averaged(sources: Sequence[Path]) -> dict[str, Tensor]:
    """Return the mean of the weights of several checkpoints of one model, stored as the first one's are."""
    if not sources:
        raise CheckpointError("at least one checkpoint must be given to average, got none")
    first = Checkpoint.open(sources[0])
    kept = first.weights()
    total = {name: tensor.double() for name, tensor in kept.items()}
    for source in sources[1:]:
        other = Checkpoint.open(source)
        _check_alike(first, other)
        weights = other.weights()
        if {n: t.shape for n, t in weights.items()} != {n: t.shape for n, t in kept.items()}:
            places = f"{first.directory} and {other.directory} differ"
            raise CheckpointError(f"checkpoints to average must have the same weights, but {places}")
        for name, tensor in weights.items():
            total[name] += tensor.double()
    return {name: (tensor / len(sources)).to(kept[name].dtype) for name, tensor in total.items()}


def own_weights(model: Model) -> dict[str, Tensor]:
    """Return every parameter and buffer of a model once, under its first name if it has several."""
    parameters = dict(model.named_parameters())
    tied = {name for name, _ in model.named_parameters(remove_duplicate=False)} - set(parameters)
    state = model.state_dict()  # buffers that are computed are not in it
    return {name: tensor for name, tensor in state.items() if name not in tied}


def load_weights(model: Model, weights: Mapping[str, Tensor], origin: str) -> None:
    """Copy all weights into a model; `origin` is where they are from, to be named in an error."""
    own = own_weights(model)
    missing, unknown = sorted(own.keys() - weights.keys()), sorted(weights.keys() - own.keys())
    if missing:
        raise CheckpointError(f"{origin} must have {missing[0]}, one of {len(own)} weights, but lacks it")
    if unknown:
        raise CheckpointError(f"{origin} has {unknown[0]}, which is none of the model's {len(own)} weights")
    with torch.no_grad():
        for name, tensor in own.items():
            if (found := weights[name]).shape != tensor.shape:
                shapes = f"{tuple(tensor.shape)}, got {tuple(found.shape)}"
                raise CheckpointError(f"{origin}: {name} must have shape {shapes}")
            tensor.copy_(found)


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Read a file of tensors."""
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (it is no dict)
    except safetensors.SafetensorError as error:
        raise CheckpointError(f"{path} is damaged, or no safetensors file: {error}") from error
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror or error}") from error


def sha256_of(path: Path) -> str:
    """Return the checksum of a file."""
    checksum = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while block := file.read(BLOCK):
                checksum.update(block)
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror or error}") from error
    return checksum.hexdigest()


def model_card(description: Description, parameters: int, name: str) -> str:
    """Write what people want to know before they use a model, as far as it is known."""
    languages, search, card = description.languages, description.search, description.card
    pair = f"{languages.source or 'source'} to {languages.target or 'target'}"
    facts = {
        "model": f"{description.model}, {parameters / 1e6:.1f} million parameters",
        "languages": f"{languages.source or 'not stated'} → {languages.target or 'not stated'}",
        "vocabulary": f"{description.vocabulary} subwords",
        "written by": f"pcfgnat {description.version}",
    }
    decoding = {
        "strategy": search.strategy,
        "length penalty": search.length_penalty,
        "beam size": search.beam_size,
    }
    usage = (
        f'```sh\npcfgnat translate --model {name} "…"\n```\n\n'
        "```python\nfrom pcfgnat.translator import Translator\n\n"
        f'translator = Translator.load("{name}")\nprint(translator("…"))\n```'
    )
    sections = [
        f"# {card.title or f'Translation from {pair}'}\n\n{_listed(facts)}",
        f"## Use\n\n{usage}",
        f"## Decoding, if nothing else is asked for\n\n{_listed(decoding)}",
        f"## Training\n\n{_listed(description.training) or 'Not stated.'}",
        f"## Data\n\n{card.data or 'Not stated.'}",
        f"## Limits\n\n{card.limits or 'Not stated.'}",
        f"## Licence\n\n{card.licence or 'Not stated.'}",
    ]
    return "\n\n".join(sections) + "\n"


def _listed(facts: Mapping[str, Any]) -> str:
    shown = {name: value for name, value in facts.items() if not isinstance(value, Mapping)}
    return "\n".join(f"- {name.replace('_', ' ')}: {value}" for name, value in shown.items())


def _stored(tensor: Tensor, dtype: torch.dtype | None) -> Tensor:
    kind = dtype if dtype is not None and tensor.is_floating_point() else tensor.dtype
    return tensor.detach().to("cpu", kind).contiguous()


def _check_alike(first: Checkpoint, other: Checkpoint) -> None:
    for what, expected, found in (
        ("model", first.description.model, other.description.model),
        ("config", first.description.config, other.description.config),
        ("tokenizer", first.tokenizer.sha256, other.tokenizer.sha256),
    ):
        if expected != found:
            places = f"{first.directory} has {expected!r}, {other.directory} has {found!r}"
            raise CheckpointError(f"checkpoints to average must have the same {what}, but {places}")


@contextmanager
def _replaced(path: Path) -> Iterator[Path]:
    """Give a directory to write into that takes the place of `path` once it is whole."""
    fresh, old = (path.with_name(f".{path.name}.{suffix}") for suffix in ("new", "old"))
    try:
        if path.exists() and not (path / DESCRIPTION).exists() and any(path.iterdir()):
            raise CheckpointError(f"{path} must not exist, be empty or be a checkpoint to be replaced")
        for left in (fresh, old):  # of a process that was killed
            shutil.rmtree(left, ignore_errors=True)
        with atomic_directory(fresh) as partial:
            yield partial
        if path.exists():
            path.rename(old)
        fresh.rename(path)
        shutil.rmtree(old, ignore_errors=True)
    except TextError as error:
        message = str(error).replace(str(fresh.absolute()), str(path))
        raise CheckpointError(message) from error
    except OSError as error:
        raise CheckpointError(f"cannot write {path}: {error.strerror or error}") from error
