"""What takes part in a benchmark, and what it is asked to do."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from pcfgnat.config import from_dict
from pcfgnat.runtimes.exported import load_exported_metadata
from pcfgnat.runtimes.native import native_reason
from pcfgnat.translator.loading import ONNX, model_directory

WORKER = "pcfgnat.benchmark.worker"
SHORTLIST = {"shortlist": True, "exact": False}
CTRANSLATE2_FILE, ONNX_FILE = "model.bin", "exported.toml"
RUNTIMES = ("torch", "onnx", "native")


@dataclass(frozen=True)
class Contender:
    """A model in a runtime with a way to decode.

    model:        what the network is, for people and for tables: `pcfg λ=4`, `autoregressive 6-6`
    runtime:      `torch`, `onnx`, `native` or `ctranslate2`; what else a worker of another module knows
    directory:    a checkpoint, an exported one or a CTranslate2 model
    decode:       a strategy of the model; none for the checkpoint's own
    precision:    of weights and products
    shortlist:    whether only likely types are scored; none for what the model does by itself
    forced:       whether the translation has as many tokens as its source, whatever the model thinks
    worker:       the module that is run in the contender's process
    """

    name: str
    model: str
    runtime: str
    directory: Path
    decode: str | None = None
    beam: int = 5
    precision: str = "float32"
    shortlist: bool | None = None
    forced: bool = False
    worker: str = WORKER

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


def parse_contender(text: str) -> Contender:
    """Read NAME=DIR, or NAME=DIR:HOW with a strategy, a runtime, `shortlist` or `exact`, joined by `+`.

    A checkpoint that has an exported model inside runs as `translate` runs it: on the native kernels where
    they can, or else on onnxruntime.
    """
    name, equals, place = text.partition("=")
    path, _, how = place.partition(":")
    words = how.split("+") if how else []
    wanted = [word for word in words if word in RUNTIMES]
    decode = [word for word in words if word not in (*SHORTLIST, *RUNTIMES)]
    if not equals or not path or len(decode) > 1 or len(wanted) > 1:
        raise ValueError(f"a model must look like NAME=DIR or NAME=DIR:beam+shortlist, got {text!r}")
    if not Path(path).is_dir():
        raise ValueError(f"a model must be a directory, but {path} does not exist")
    directory = model_directory(path)
    foreign = (directory / CTRANSLATE2_FILE).exists()
    exported = [place for place in (directory, directory / ONNX) if (place / ONNX_FILE).exists()]
    if foreign and wanted:
        raise ValueError(f"{path} is a CTranslate2 model and must run there, got {wanted[0]}")
    return Contender(
        name=name,
        model=name,
        runtime="ctranslate2" if foreign else wanted[0] if wanted else _usual(exported),
        directory=directory,
        decode=decode[0] if decode else None,
        shortlist=next((SHORTLIST[word] for word in words if word in SHORTLIST), None),
    )


def _usual(exported: Sequence[Path]) -> str:
    """Return what runs a checkpoint, whose exported models these are, if nobody says so."""
    if not exported:
        return "torch"
    return "native" if native_reason(load_exported_metadata(exported[0])) is None else "onnx"


def selected(contenders: Sequence[Contender], patterns: Sequence[str]) -> list[Contender]:
    """Return the contenders whose name fits one of the patterns, in their own order; all without patterns."""
    if not patterns:
        return list(contenders)
    names = [contender.name for contender in contenders]
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise ValueError(f"{pattern!r} must fit one of the contenders {', '.join(names)}, but fits none")
    return [c for c in contenders if any(fnmatchcase(c.name, pattern) for pattern in patterns)]
