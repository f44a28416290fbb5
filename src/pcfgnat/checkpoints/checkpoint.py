"""A trained model as a directory of plain files: weights, settings, tokenizer and a card that people read.

`model.safetensors` has the weights, `checkpoint.toml` says what they are, `tokenizer/` turns text into ids
and `README.md` is the model card. Nothing in it is code, and nothing in it is run when it is read.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import safetensors
import torch
from safetensors.torch import save as to_safetensors
from torch import Tensor

from pcfgnat import __version__
from pcfgnat.checkpoints.metadata import (
    Card,
    CheckpointError,
    Description,
    Languages,
    SearchDefaults,
    model_card,
    replaced,
    sha256_of,
)
from pcfgnat.config import ConfigError, from_dict, load_config, sealed_toml, to_dict
from pcfgnat.networks import MODELS, Model
from pcfgnat.text import TextError, Tokenizer

WEIGHTS, DESCRIPTION, TOKENIZER, CARD = "model.safetensors", "checkpoint.toml", "tokenizer", "README.md"
MAX_HEADER_BYTES = 1 << 23

__all__ = [
    "Card",
    "Checkpoint",
    "CheckpointError",
    "Description",
    "Languages",
    "SearchDefaults",
    "average_checkpoints",
    "averaged",
    "describe",
    "load_weights",
    "model_card",
    "own_weights",
    "read_tensors",
    "save_checkpoint",
    "sha256_of",
]


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
            if not (directory / name).is_file() and not (directory / name).is_dir():  # no pipe, no device
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
        self._check_sum()
        return read_tensors(self.directory / WEIGHTS)

    def model(self, dtype: torch.dtype = torch.float32, device: torch.device | str = "cpu") -> Model:
        """Build the model with its weights, ready to translate; torch's random numbers stay as they were.

        The settings must fit the file of weights before any memory is taken: they may be a stranger's.
        """
        build, kind = MODELS[self.description.model]
        path = self.directory / WEIGHTS
        self._check_sum()
        try:
            config = from_dict(kind, self.description.config, "config")
            with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
                self._check_shapes(config, stored_shapes(path))
                model = build(config, self.description.vocabulary)
        except ConfigError as error:
            raise CheckpointError(f"{self.directory / DESCRIPTION}: {error}") from error
        load_weights(model, read_tensors(path), str(path))
        return model.to(device=device, dtype=dtype).eval()

    def _check_sum(self) -> None:
        path, expected = self.directory / WEIGHTS, self.description.weights_sha256
        found = sha256_of(path)
        if found != expected:
            raise CheckpointError(f"{path} is damaged: its sha256 must be {expected}, got {found}")

    def _check_shapes(self, config: Any, found: Mapping[str, tuple[int, ...]]) -> None:
        """Compare what the settings imply with what is stored, without a single number."""
        layers = config.transformer.layers_encoder + config.transformer.layers_decoder
        if layers > len(found):  # or building them would take for ever
            at_most = f"{len(found)} layers, as many as it has weights"
            raise CheckpointError(f"{self.directory} must have at most {at_most}, got {layers}")
        try:
            with torch.device("meta"):
                model = MODELS[self.description.model][0](config, self.description.vocabulary)
        except (ValueError, RuntimeError, OverflowError, TypeError) as error:
            reason = str(error).splitlines()[0]
            raise CheckpointError(f"{self.directory / DESCRIPTION}: no such model: {reason}") from error
        _check_same_shapes(_shapes(own_weights(model)), found, str(self.directory / WEIGHTS))


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
    with replaced(Path(directory), DESCRIPTION) as partial:
        (partial / WEIGHTS).write_bytes(content)
        (partial / DESCRIPTION).write_text(sealed_toml(to_dict(complete)), encoding="utf-8")
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
    _check_same_shapes(_shapes(own), _shapes(weights), origin)
    with torch.no_grad():
        for name, tensor in own.items():
            if (found := weights[name]).is_floating_point() != tensor.is_floating_point():
                raise CheckpointError(f"{origin}: {name} must be like {tensor.dtype}, got {found.dtype}")
            tensor.copy_(found)


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Read a file of tensors."""
    with _opened(path) as file:
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (it is no dict)


def stored_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """Read names and shapes of the tensors in a file, and nothing else."""
    with _opened(path) as file:
        return {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """Open a safetensors file, after a look at the size of its header."""
    try:
        with path.open("rb") as file:
            size = int.from_bytes(file.read(8), "little")
        limit = min(MAX_HEADER_BYTES, max(path.stat().st_size - 8, 0))
        if not 0 < size <= limit:
            found = f"its header must have 1 … {limit} bytes, got {size}"
            raise CheckpointError(f"{path} is damaged, or no safetensors file: {found}")
        with safetensors.safe_open(path, framework="pt") as tensors:
            yield tensors
    except safetensors.SafetensorError as error:
        raise CheckpointError(f"{path} is damaged, or no safetensors file: {error}") from error
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror or error}") from error


def _shapes(tensors: Mapping[str, Tensor]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(tensor.shape) for name, tensor in tensors.items()}


def _check_same_shapes(
    own: Mapping[str, tuple[int, ...]], found: Mapping[str, tuple[int, ...]], origin: str
) -> None:
    missing, unknown = sorted(own.keys() - found.keys()), sorted(found.keys() - own.keys())
    if missing:
        raise CheckpointError(f"{origin} must have {missing[0]}, one of {len(own)} weights, but lacks it")
    if unknown:
        raise CheckpointError(f"{origin} has {unknown[0]}, which is none of the model's {len(own)} weights")
    for name, shape in own.items():
        if found[name] != shape:
            raise CheckpointError(f"{origin}: {name} must have shape {shape}, got {found[name]}")


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
