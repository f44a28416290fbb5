"""`pcfgnat info`: what a checkpoint or prepared data is."""

import argparse
import json
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pcfgnat.cli.files import notice
from pcfgnat.cli.options import Commands, new_command

if TYPE_CHECKING:
    from pcfgnat.checkpoints.checkpoint import Checkpoint

DESCRIPTION = """\
Say what a checkpoint or an exported model is: model, size, languages, settings, how it translates, how it was
trained. Its files are read whole and checked against their checksums. Of a prepared directory the counts are
shown.
"""


def add_command(commands: Commands) -> None:
    """Describe the command's options."""
    parser = new_command(commands, "info", "describe a checkpoint or prepared data", DESCRIPTION, run)
    parser.add_argument(
        "directory",
        type=Path,
        nargs="?",
        metavar="CHECKPOINT",
        help="a directory (default: the bundled model)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> None:
    """Print what is known."""
    from pcfgnat.runtimes.onnx.exported import is_exported
    from pcfgnat.text.prepared import REPORT
    from pcfgnat.translator import model_directory

    directory = model_directory(options.directory)
    if (directory / REPORT).is_file():
        facts = _prepared(directory)
    elif is_exported(directory):
        facts = _exported(directory)
    elif find_spec("torch") is None:
        facts = _stored(directory)
    else:
        from pcfgnat.checkpoints.checkpoint import Checkpoint

        facts = _described(Checkpoint.open(directory))
    if options.json:
        print(json.dumps(facts, ensure_ascii=False, indent=2))
    else:
        print("\n".join(_lines(facts)))


def _described(checkpoint: "Checkpoint") -> dict[str, Any]:
    from pcfgnat.config import to_dict
    from pcfgnat.decoding import strategies_of
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
    from pcfgnat.config import to_dict
    from pcfgnat.decoding import strategies_of
    from pcfgnat.runtimes.onnx import Exported, onnx_runtime
    from pcfgnat.translator import exported_for

    stored = StoredCheckpoint.open(directory)
    inside = exported_for(directory)
    if inside is None:
        notice("torch is not installed: the checksums were compared, but the network was not built")
        known = {}
    else:
        runtime = onnx_runtime(Exported.open(inside))
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
    from pcfgnat.config import to_dict
    from pcfgnat.decoding import strategies_of
    from pcfgnat.runtimes.onnx import Exported, onnx_runtime

    exported = Exported.open(directory)
    facts = to_dict(exported.metadata)
    del facts["files"]
    return {
        "directory": str(directory),
        "network": facts["network"].pop("name"),
        "exported for": "onnxruntime",
        "precision": facts.pop("precision"),
        "size": _size(directory),
        "tokenizer": exported.tokenizer.kind,
        "vocabulary": facts.pop("vocabulary"),
        "longest source": exported.metadata.shape.max_source_length,
        "strategies": list(strategies_of(onnx_runtime(exported))),
        "architecture": facts.pop("network"),
        **facts,
    }


def _size(directory: Path) -> str:
    size = sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())
    return f"{size / 1e6:.1f} MB"


def _prepared(directory: Path) -> dict[str, Any]:
    from pcfgnat.config import to_dict
    from pcfgnat.text import Prepared

    prepared = Prepared.open(directory)
    prepared.verify()
    return {"directory": str(directory), "tokenizer": prepared.tokenizer.kind, **to_dict(prepared.report)}


def _lines(facts: Mapping[str, Any], indent: str = "") -> Iterator[str]:
    """One fact a line, values under each other, tables below; what is empty is left out."""
    flat = {name: _text(value) for name, value in facts.items() if not isinstance(value, Mapping)}
    flat = {name.replace("_", " "): text for name, text in flat.items() if text}
    width = max(map(len, flat), default=0)
    for name, text in flat.items():
        yield f"{indent}{name:<{width}}  {text}"
    for name, value in facts.items():
        if isinstance(value, Mapping) and (inside := list(_lines(value, f"{indent}  "))):
            yield from (f"{indent}{name.replace('_', ' ')}", *inside)


def _text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_text, value))
    if isinstance(value, Mapping):
        return " + ".join(map(_text, value.values()))
    return str(value)
