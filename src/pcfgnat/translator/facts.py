"""What is known of a model's directory, for people who look at it."""

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pcfgnat.config import to_dict
from pcfgnat.decoding import strategies_of
from pcfgnat.runtimes.choice import chosen_runtime, run_exported
from pcfgnat.runtimes.exported import Exported, is_exported
from pcfgnat.translator.loading import ONNX, exported_alone, exported_for

if TYPE_CHECKING:
    from pcfgnat.checkpoints.checkpoint import Checkpoint

NOT_BUILT = "torch is not installed: checksums were compared, but the network was not built"


def model_facts(directory: Path) -> dict[str, Any]:
    """Return what a checkpoint or an exported model is, by name; its files are checked.

    Of a checkpoint without torch installed less is known: its network is not built.
    """
    if is_exported(directory):
        return _exported(directory)
    if exported_alone(directory):
        return _exported(directory / ONNX)
    if find_spec("torch") is None:
        return _stored(directory)
    from pcfgnat.checkpoints.checkpoint import Checkpoint

    return _described(Checkpoint.open(directory))


def _described(checkpoint: "Checkpoint") -> dict[str, Any]:
    from pcfgnat.runtimes.torch import torch_runtime

    network = checkpoint.network()
    facts = to_dict(checkpoint.metadata)
    return {
        "directory": str(checkpoint.directory),
        "network": facts["network"].pop("name"),
        "parameters": sum(weight.numel() for weight in network.parameters()),
        "size": _size(checkpoint.directory),
        "tokenizer": checkpoint.tokenizer.kind,
        "vocabulary": facts.pop("vocabulary"),
        "longest source": network.max_source_length,
        "strategies": list(strategies_of(torch_runtime(network))),
        "architecture": facts.pop("network"),
        **facts,
    }


def _stored(directory: Path) -> dict[str, Any]:
    """Describe a checkpoint without torch; its strategies are those of the exported model inside it."""
    from pcfgnat.checkpoints.stored import StoredCheckpoint

    stored = StoredCheckpoint.open(directory)
    inside = exported_for(directory)
    if inside is None:
        known: dict[str, Any] = {"note": NOT_BUILT}
    else:
        runtime = run_exported(Exported.open(inside))
        known = {"longest source": runtime.max_source_length, "strategies": list(strategies_of(runtime))}
    facts = to_dict(stored.metadata)
    return {
        "directory": str(directory),
        "network": facts["network"].pop("name"),
        "parameters": stored.parameters,
        "size": _size(directory),
        "tokenizer": stored.tokenizer.kind,
        "vocabulary": facts.pop("vocabulary"),
        **known,
        "architecture": facts.pop("network"),
        **facts,
    }


def _exported(directory: Path) -> dict[str, Any]:
    exported = Exported.open(directory)
    facts = to_dict(exported.metadata)
    del facts["files"]
    return {
        "directory": str(directory),
        "network": facts["network"].pop("name"),
        "runs on": "native kernels" if chosen_runtime(exported) == "native" else "onnxruntime",
        "precision": facts.pop("precision"),
        "size": _size(directory),
        "tokenizer": exported.tokenizer.kind,
        "vocabulary": facts.pop("vocabulary"),
        "longest source": exported.metadata.shape.max_source_length,
        "strategies": list(strategies_of(run_exported(exported))),
        "architecture": facts.pop("network"),
        **facts,
    }


def _size(directory: Path) -> str:
    size = sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())
    return f"{size / 1e6:.1f} MB"
