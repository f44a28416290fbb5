"""An exported model on a disk: a directory that holds all that is needed to translate with it.

`network.onnx` goes from embedded source to states and rules, `exact.onnx` and `selected.onnx` from states to
tokens. `start.onnx`, where it is there, does what comes before the decoder's first look at the source.
`tables/` has what is looked up by id or position. `engine.toml` says what it is and has the checksum of every
other file.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from pcfgnat.checkpoints.metadata import Card, CheckpointError, Languages, SearchDefaults, sha256_of
from pcfgnat.config import ConfigError, load_config
from pcfgnat.text import TextError, Tokenizer

DESCRIPTION, NETWORK, EXACT, SELECTED = "engine.toml", "network.onnx", "exact.onnx", "selected.onnx"
START = "start.onnx"
TABLES, TOKENIZER, CARD = "tables", "tokenizer", "README.md"

STRATEGIES = {
    "pcfg": ("viterbi", "greedy", "lookahead"),
    "dag": ("joint-viterbi", "viterbi", "lookahead", "greedy"),
    "ctc": ("greedy",),
}


@dataclass(frozen=True)
class Shape:
    """What the engine has to know about the network.

    upsampling:   λ, nodes (of the main chain) for each source token
    prefix_depth: l, 0 for models without a grammar
    """

    width: int
    max_source_length: int
    upsampling: int
    prefix_depth: int = 0
    copy_input: bool = False


@dataclass(frozen=True)
class ShortlistFacts:
    """What was measured of a shortlist: BLEU lost on so many sentences, and how many types it keeps."""

    bleu_lost: float
    sentences: int
    types: float

    @property
    def by_default(self) -> bool:
        """Whether it is used unless somebody asks for exact translation."""
        return self.bleu_lost <= 0.1


@dataclass(frozen=True)
class EngineDescription:
    """What `engine.toml` says; `origin_sha256` is that of the weights of the checkpoint it was made from."""

    format: Literal[1]
    version: str
    model: Literal["pcfg", "dag", "ctc"]
    vocabulary: int
    precision: Literal["float32", "int8"]
    origin_sha256: str
    shape: Shape
    files: dict[str, str]
    config: dict[str, Any]
    search: SearchDefaults
    languages: Languages = field(default_factory=Languages)
    card: Card = field(default_factory=Card)
    training: dict[str, Any] = field(default_factory=dict)
    shortlist: ShortlistFacts | None = None

    @property
    def strategies(self) -> tuple[str, ...]:
        """What `Search.strategy` may be, the default first."""
        return STRATEGIES[self.model]


@dataclass(frozen=True)
class Exported:
    """An exported model, opened and known to be whole."""

    directory: Path
    description: EngineDescription
    tokenizer: Tokenizer

    @classmethod
    def open(cls, directory: Path | str) -> "Exported":
        """Read the description, compare all checksums, and read the tokenizer."""
        directory = Path(directory)
        if not (directory / DESCRIPTION).is_file():
            raise CheckpointError(f"{directory} must be an exported model, but it has no {DESCRIPTION}")
        try:
            description = load_config(EngineDescription, directory / DESCRIPTION)
            for name, expected in description.files.items():
                _verify(directory, name, expected)
            tokenizer = Tokenizer.load(directory / TOKENIZER)
        except (ConfigError, TextError) as error:
            raise CheckpointError(f"{directory} is not a usable exported model: {error}") from error
        if description.vocabulary != tokenizer.vocabulary_size:
            found = f"{tokenizer.vocabulary_size} of the tokenizer"
            raise CheckpointError(f"{directory}: vocabulary must be {description.vocabulary}, got {found}")
        return cls(directory, description, tokenizer)

    @property
    def network_weights(self) -> int:
        """About how many weights the network has."""
        size = (self.directory / NETWORK).stat().st_size
        return size if self.description.precision == "int8" else size // 4

    def table(self, name: str) -> np.ndarray:
        """Map a table into memory."""
        path = self.directory / TABLES / f"{name}.npy"
        try:
            mapped = np.load(path, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError) as error:
            raise CheckpointError(f"{path} must be a table of numbers: {error}") from error
        return np.asarray(mapped)  # a memmap is slow to take rows from

    def has(self, name: str) -> bool:
        """Whether there is a table of this name."""
        return f"{TABLES}/{name}.npy" in self.description.files


def is_exported(directory: Path) -> bool:
    """Whether a directory is an exported model, rather than a checkpoint."""
    return (directory / DESCRIPTION).is_file()


def _verify(directory: Path, name: str, expected: str) -> None:
    path = directory / name
    if Path(name).is_absolute() or ".." in Path(name).parts:
        raise CheckpointError(f"{directory / DESCRIPTION} must name files below it, got {name!r}")
    if (found := sha256_of(path)) != expected:
        raise CheckpointError(f"{path} is damaged: its sha256 must be {expected}, got {found}")
