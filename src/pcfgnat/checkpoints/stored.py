"""A checkpoint as it lies on the disk, described without torch."""

import math
from dataclasses import dataclass
from pathlib import Path

import safetensors

from pcfgnat.checkpoints.formats import METADATA, load_metadata
from pcfgnat.checkpoints.metadata import CheckpointError, Metadata, sha256_of
from pcfgnat.config import ConfigError
from pcfgnat.storage.files import StorageError
from pcfgnat.storage.regular import require_regular_files
from pcfgnat.text import Tokenizer

WEIGHTS, TOKENIZER = "model.safetensors", "tokenizer"


@dataclass(frozen=True)
class StoredCheckpoint:
    """Settings, tokenizer and number of weights; the network itself is never built."""

    directory: Path
    metadata: Metadata
    tokenizer: Tokenizer
    parameters: int

    @classmethod
    def open(cls, directory: Path) -> "StoredCheckpoint":
        """Read settings, tokenizer and the header of the weights, and compare the checksums."""
        weights = directory / WEIGHTS
        for name in (METADATA, WEIGHTS):
            if not (directory / name).is_file():
                raise CheckpointError(f"{directory} must be a checkpoint, but it has no {name}")
        try:
            require_regular_files(directory)
            metadata = load_metadata(directory / METADATA)
            tokenizer = Tokenizer.load(directory / TOKENIZER)
        except (ConfigError, StorageError) as error:
            raise CheckpointError(f"{directory} is not a usable checkpoint: {error}") from error
        expected, found = metadata.weights_sha256, sha256_of(weights)
        if found != expected:
            raise CheckpointError(f"{weights} is damaged: its sha256 must be {expected}, got {found}")
        return cls(directory, metadata, tokenizer, _numbers(weights))


def _numbers(path: Path) -> int:
    """Return how many numbers a safetensors file holds, from its header."""
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            return sum(math.prod(file.get_slice(name).get_shape()) for name in file.keys())  # noqa: SIM118
    except (safetensors.SafetensorError, OSError) as error:
        raise CheckpointError(f"{path} is damaged, or not a safetensors file: {error}") from error
