"""An exported model on disk: a directory that holds all that is needed to translate with it.

One-pass networks are one graph, `network.onnx`, from embedded source and canvas to states and rules; what
comes before the decoder's first look at the source may be another, `start.onnx`, run once for each length.
Where decoding fills canvases again and again, `encoder.onnx` and `decoder.onnx` take its place; a hybrid has
all three. `exact.onnx` and `selected.onnx` go from states to tokens, and `tables/` has what is looked up by
id or position.
`exported.toml` describes it and has the checksum of every other file.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from pcfgnat.checkpoints.metadata import Card, CheckpointError, DecodingDefaults, Languages, sha256_of
from pcfgnat.config import ConfigError
from pcfgnat.grammar.canvas import Geometry
from pcfgnat.runtimes.machine import first_line
from pcfgnat.storage.files import StorageError
from pcfgnat.storage.regular import require_regular_files
from pcfgnat.storage.toml import load_config
from pcfgnat.text import Tokenizer

METADATA, OLD_METADATA = "exported.toml", "engine.toml"
NETWORK, START = "network.onnx", "start.onnx"
ENCODER, DECODER = "encoder.onnx", "decoder.onnx"
EXACT, SELECTED = "exact.onnx", "selected.onnx"
WEIGHTS = "weights.safetensors"
TABLES, TOKENIZER, CARD = "tables", "tokenizer", "README.md"

FLOATS = (np.float32, np.float16)

MAX_WIDTH, MAX_POSITIONS, MAX_UPSAMPLING, MAX_DEPTH = 1 << 16, 1 << 20, 64, 4


@dataclass(frozen=True)
class Shape:
    """What the runtime has to know about the network.

    max_canvas_length: nodes of the longest canvas
    geometry:          how the canvas follows from the source; none if its length is predicted
    blank:             whether slots may stay blank
    """

    width: int
    max_source_length: int
    max_canvas_length: int
    copy_input: bool = False
    geometry: Geometry | None = None
    blank: bool = False

    def __post_init__(self) -> None:
        limits = {"width": MAX_WIDTH, "max_source_length": MAX_POSITIONS, "max_canvas_length": MAX_POSITIONS}
        for name, most in limits.items():
            if not 1 <= (value := getattr(self, name)) <= most:
                raise ValueError(f"{name} must be in 1 … {most}, got {value}")
        if self.geometry is None:
            return
        if not 1 <= self.geometry.upsampling <= MAX_UPSAMPLING:
            raise ValueError(
                f"geometry.upsampling must be in 1 … {MAX_UPSAMPLING}, got {self.geometry.upsampling}"
            )
        if not 0 <= self.geometry.prefix_depth <= MAX_DEPTH:
            raise ValueError(
                f"geometry.prefix_depth must be in 0 … {MAX_DEPTH}, got {self.geometry.prefix_depth}"
            )
        needed = self.geometry.longest_canvas(self.max_source_length)
        if needed != self.max_canvas_length:
            raise ValueError(f"max_canvas_length must be {needed} by geometry, got {self.max_canvas_length}")


@dataclass(frozen=True)
class ShortlistFacts:
    """What was measured of a shortlist: BLEU lost on so many sentences, and how many tokens it keeps."""

    bleu_lost: float
    sentences: int
    tokens: float

    @property
    def by_default(self) -> bool:
        """Whether it is used unless somebody asks for exact translation."""
        return self.bleu_lost <= 0.1


@dataclass(frozen=True)
class ExportedMetadata:
    """What `exported.toml` holds; `origin_sha256` is that of the weights it was made from."""

    format: Literal[2]
    version: str
    vocabulary: int
    precision: Literal["float32", "int8"]
    origin_sha256: str
    shape: Shape
    files: dict[str, str]
    network: dict[str, Any]
    decoding: DecodingDefaults
    languages: Languages = field(default_factory=Languages)
    card: Card = field(default_factory=Card)
    training: dict[str, Any] = field(default_factory=dict)
    shortlist: ShortlistFacts | None = None

    @property
    def network_name(self) -> str:
        """The network's name in `NETWORKS`."""
        return str(self.network.get("name", ""))


@dataclass(frozen=True)
class Exported:
    """An exported model, opened and known to be whole."""

    directory: Path
    metadata: ExportedMetadata
    tokenizer: Tokenizer

    @classmethod
    def open(cls, directory: Path | str) -> "Exported":
        """Read the metadata, compare all checksums, and read the tokenizer."""
        directory = Path(directory)
        metadata = load_exported_metadata(directory)
        for name, expected in metadata.files.items():
            _verify(directory, name, expected)
        try:
            tokenizer = Tokenizer.load(directory / TOKENIZER)
        except (ConfigError, StorageError) as error:
            raise CheckpointError(f"{directory} is not a usable exported model: {error}") from error
        if metadata.vocabulary != tokenizer.vocabulary_size:
            found = f"{tokenizer.vocabulary_size} of the tokenizer"
            raise CheckpointError(f"{directory}: vocabulary must be {metadata.vocabulary}, got {found}")
        return cls(directory, metadata, tokenizer)

    @property
    def network_weights(self) -> int:
        """About how many weights the network has."""
        holders = (NETWORK, ENCODER, DECODER, WEIGHTS)  # graphs hold what is not in the file of weights
        files = [self.directory / name for name in holders if name in self.metadata.files]
        size = sum(path.stat().st_size for path in files)
        return size if self.metadata.precision == "int8" else size // 4

    def path(self, name: str) -> Path:
        """Return where a file is whose checksum was compared."""
        if name not in self.metadata.files:
            raise CheckpointError(f"{self.directory / METADATA} must have {name} among its files")
        return self.directory / name

    def table(
        self, name: str, shape: tuple[int | None, ...], dtypes: Sequence[type[np.generic]] = FLOATS
    ) -> np.ndarray:
        """Map a table into memory; None in a shape is any size."""
        path = self.path(f"{TABLES}/{name}.npy")
        try:
            mapped = np.lib.format.open_memmap(path, mode="r")
        except Exception as error:  # numpy reads headers with Python's parser, whose errors are of many kinds
            raise CheckpointError(f"{path} must be a table of numbers: {first_line(error)}") from error
        fits = len(mapped.shape) == len(shape) and all(
            wanted in (None, size) for wanted, size in zip(shape, mapped.shape, strict=True)
        )
        if not fits:
            raise CheckpointError(f"{path} must have shape {shape}, got {mapped.shape}")
        if mapped.dtype not in dtypes:
            wanted = " or ".join(dtype.__name__ for dtype in dtypes)
            raise CheckpointError(f"{path} must hold {wanted}, got {mapped.dtype}")
        return np.asarray(mapped)  # a memmap is slow to take rows from

    def has(self, name: str) -> bool:
        """Whether a table of this name exists."""
        return f"{TABLES}/{name}.npy" in self.metadata.files


def is_exported(directory: Path) -> bool:
    """Whether a directory is an exported model, rather than a checkpoint."""
    return (directory / METADATA).is_file() or (directory / OLD_METADATA).is_file()


def load_exported_metadata(directory: Path) -> ExportedMetadata:
    """Read what an exported model says of itself, and nothing else."""
    if not (directory / METADATA).is_file():
        if (directory / OLD_METADATA).is_file():
            raise CheckpointError(f"{directory} was exported by pcfgnat 0.1: export its checkpoint again")
        raise CheckpointError(f"{directory} must be an exported model, but it has no {METADATA}")
    try:
        require_regular_files(directory)
        return load_config(ExportedMetadata, directory / METADATA)
    except (ConfigError, StorageError) as error:
        raise CheckpointError(f"{directory} is not a usable exported model: {error}") from error


def _verify(directory: Path, name: str, expected: str) -> None:
    path = directory / name
    if Path(name).is_absolute() or ".." in Path(name).parts:
        raise CheckpointError(f"{directory / METADATA} must name files below it, got {name!r}")
    if (found := sha256_of(path)) != expected:
        raise CheckpointError(f"{path} is damaged: its sha256 must be {expected}, got {found}")
