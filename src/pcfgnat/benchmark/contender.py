"""What takes part in a benchmark, and what it is asked to do."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

from pcfgnat.config import from_dict

Runtime = Literal["torch", "onnx", "ctranslate2", "products"]


@dataclass(frozen=True)
class Contender:
    """A model in a run time with a way to decode.

    model:        what the network is, for people and for tables: `pcfg λ=4`, `autoregressive 6-6`
    runtime:      `torch` and `engine` are ours; `products` multiplies matrices of the sizes that the model
                  multiplies and does nothing else: no engine can be faster
    directory:    a checkpoint, an exported one or a CTranslate2 model
    decode:       a strategy of the model; none for the checkpoint's own
    precision:    of weights and products
    shortlist:    whether only likely types are scored; none for what the model does by itself
    forced:       whether the translation has as many tokens as its source, whatever the model thinks
    """

    name: str
    model: str
    runtime: Runtime
    directory: Path
    decode: str | None = None
    beam: int = 5
    precision: str = "float32"
    shortlist: bool | None = None
    forced: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {**asdict(self), "directory": str(self.directory)}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "Contender":
        """Read what `to_dict` wrote."""
        return from_dict(cls, data)


@dataclass(frozen=True, order=True)
class Case:
    """What is translated: `batch` texts at a time, each of `length` tokens; length 0 is real text."""

    length: int
    batch: int

    def __str__(self) -> str:
        what = f"{self.length} tokens" if self.length else "test set"
        return f"{what}, batch {self.batch}"


def selected(contenders: Sequence[Contender], patterns: Sequence[str]) -> list[Contender]:
    """Return the contenders whose name fits one of the patterns, in their own order; all without patterns."""
    if not patterns:
        return list(contenders)
    names = [contender.name for contender in contenders]
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise ValueError(f"{pattern!r} must fit one of the contenders {', '.join(names)}, but fits none")
    return [c for c in contenders if any(fnmatchcase(c.name, pattern) for pattern in patterns)]
