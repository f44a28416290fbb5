"""`pcfgnat info`: what a checkpoint or prepared data is."""

import argparse
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pcfgnat.cli.options import Commands, new_command

DESCRIPTION = """\
Describe a checkpoint or an exported model: network, size, languages, settings, decoding and training. All of
its files are checked against their checksums. For a prepared directory, print its counts.
"""


def add_command(commands: Commands) -> None:
    """Describe the command's options."""
    parser = new_command(commands, "info", "describe a model or prepared data", DESCRIPTION, run)
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
    from pcfgnat.text.prepared import REPORT
    from pcfgnat.translator import model_directory
    from pcfgnat.translator.facts import model_facts

    directory = model_directory(options.directory)
    facts = _prepared(directory) if (directory / REPORT).is_file() else model_facts(directory)
    if options.json:
        print(json.dumps(facts, ensure_ascii=False, indent=2))
    else:
        print("\n".join(_lines(facts)))


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
