"""A trained model as a directory of plain files: weights, settings, tokenizer and a card that people read.

`model.safetensors` has the weights, `checkpoint.toml` says what they are, `tokenizer/` turns text into ids
and `README.md` is the model card. Nothing in it is code, and nothing in it is run when it is read.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save as to_safetensors
from torch import Tensor

from pcfgnat import __version__
from pcfgnat.checkpoints.formats import METADATA, load_metadata
from pcfgnat.checkpoints.metadata import CheckpointError, DecodingDefaults, Metadata, model_card, sha256_of
from pcfgnat.checkpoints.weights import (
    check_same_shapes,
    load_weights,
    own_weights,
    read_tensors,
    shapes,
    stored_shapes,
)
from pcfgnat.config import ConfigError, from_dict, to_dict
from pcfgnat.networks import NETWORKS, Network
from pcfgnat.storage.files import StorageError, replaced_directory
from pcfgnat.storage.regular import require_regular_files
from pcfgnat.storage.toml import sealed_toml
from pcfgnat.text import Tokenizer

WEIGHTS, TOKENIZER, CARD = "model.safetensors", "tokenizer", "README.md"


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint, opened; the weights are read when they are asked for."""

    directory: Path
    metadata: Metadata
    tokenizer: Tokenizer

    @classmethod
    def open(cls, directory: Path | str) -> "Checkpoint":
        """Read metadata and tokenizer; raise an error if anything is missing or does not fit together."""
        directory = Path(directory)
        for name in (METADATA, WEIGHTS, TOKENIZER):
            if not (directory / name).is_file() and not (directory / name).is_dir():  # no pipe, no device
                raise CheckpointError(f"{directory} must be a checkpoint, but it has no {name}")
        try:
            require_regular_files(directory)
            metadata = load_metadata(directory / METADATA)
            tokenizer = Tokenizer.load(directory / TOKENIZER)
        except (ConfigError, StorageError) as error:
            raise CheckpointError(f"{directory} is not a usable checkpoint: {error}") from error
        if metadata.network_name not in NETWORKS:
            known = ", ".join(NETWORKS)
            raise CheckpointError(
                f"{directory}: network.name must be one of {known}, got {metadata.network_name!r}"
            )
        if metadata.vocabulary != tokenizer.vocabulary_size:
            found = f"{tokenizer.vocabulary_size} of the tokenizer"
            raise CheckpointError(f"{directory}: vocabulary must be {metadata.vocabulary}, got {found}")
        return cls(directory, metadata, tokenizer)

    def weights(self) -> dict[str, Tensor]:
        """Read all weights as they are stored; a damaged file is an error."""
        self._check_sum()
        return read_tensors(self.directory / WEIGHTS)

    def network(self, dtype: torch.dtype = torch.float32, device: torch.device | str = "cpu") -> Network:
        """Build the network with its weights, ready to run; torch's random numbers stay as they were.

        The settings must fit the file of weights before any memory is taken: they may be a stranger's.
        """
        build, kind = NETWORKS[self.metadata.network_name]
        path = self.directory / WEIGHTS
        self._check_sum()
        try:
            config = from_dict(kind, self.metadata.architecture, "network")
            with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
                self._check_shapes(config, stored_shapes(path))
                network = build(config, self.metadata.vocabulary)
        except ConfigError as error:
            raise CheckpointError(f"{self.directory / METADATA}: {error}") from error
        load_weights(network, read_tensors(path), str(path))
        return network.to(device=device, dtype=dtype).eval()

    def _check_sum(self) -> None:
        path, expected = self.directory / WEIGHTS, self.metadata.weights_sha256
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
                network = NETWORKS[self.metadata.network_name][0](config, self.metadata.vocabulary)
        except (ValueError, RuntimeError, OverflowError, TypeError) as error:
            reason = str(error).splitlines()[0]
            raise CheckpointError(f"{self.directory / METADATA}: no such network: {reason}") from error
        check_same_shapes(shapes(own_weights(network)), found, str(self.directory / WEIGHTS))


def describe(name: str, config: Any, vocabulary: int, decoding: DecodingDefaults) -> Metadata:
    """Describe a network to `save_checkpoint`; languages, card and facts are added with `replace`."""
    return Metadata(
        format=2,
        version=__version__,
        vocabulary=vocabulary,
        weights_sha256="",
        network={"name": name, **to_dict(config)},
        decoding=decoding,
    )


def save_checkpoint(
    directory: Path | str,
    weights: Network | Mapping[str, Tensor],
    tokenizer: Tokenizer,
    metadata: Metadata,
    dtype: torch.dtype | None = None,
) -> None:
    """Write a checkpoint whole or not at all; an existing one is replaced.

    `dtype` is that of floating-point numbers on the disk, their own if not given. The checksum of the weights
    is computed here.
    """
    if metadata.vocabulary != tokenizer.vocabulary_size:
        found = f"{tokenizer.vocabulary_size} of the tokenizer"
        raise CheckpointError(f"vocabulary must be {metadata.vocabulary}, got {found}")
    tensors = own_weights(weights) if isinstance(weights, Network) else weights
    plain = {name: _stored(tensor, dtype) for name, tensor in tensors.items()}
    content = to_safetensors(plain, {"format": "pt"})
    complete = replace(metadata, weights_sha256=hashlib.sha256(content).hexdigest())
    parameters = sum(tensor.numel() for tensor in plain.values())
    card = model_card(complete, parameters, Path(directory).name)
    try:
        with replaced_directory(Path(directory), METADATA) as partial:
            (partial / WEIGHTS).write_bytes(content)
            (partial / METADATA).write_text(sealed_toml(to_dict(complete)), encoding="utf-8")
            tokenizer.save(partial / TOKENIZER)
            (partial / CARD).write_text(card, encoding="utf-8")
    except StorageError as error:
        raise CheckpointError(str(error)) from error


def _stored(tensor: Tensor, dtype: torch.dtype | None) -> Tensor:
    kind = dtype if dtype is not None and tensor.is_floating_point() else tensor.dtype
    return tensor.detach().to("cpu", kind).contiguous()
