"""Another default for a model on disk, without its weights being read: whole or not at all."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pcfgnat.checkpoints.formats import METADATA, load_metadata
from pcfgnat.checkpoints.metadata import CheckpointError, DecodingDefaults, sha256_of
from pcfgnat.config import ConfigError
from pcfgnat.storage.files import StorageError, replaced_directory
from pcfgnat.storage.regular import require_regular_files
from pcfgnat.storage.toml import dump_toml, load_toml, sealed_toml

CARD, EXPORTED, INSIDE = "README.md", "exported.toml", "onnx"


def store_length_penalty(directory: Path, length_penalty: float, strategy: str | None = None) -> None:
    """Make β the default of a checkpoint and of the exported model inside it, or of an exported one alone.

    `strategy`, with its settings, becomes the default too, if it is given.
    """
    directory = directory.resolve()
    settings: dict[str, Any] = {"length_penalty": length_penalty}
    if strategy is not None:
        settings["strategy"] = strategy
    DecodingDefaults("any", length_penalty)  # raises if β is out of range
    is_checkpoint = (directory / METADATA).is_file()
    if not is_checkpoint and not (directory / EXPORTED).is_file():
        raise CheckpointError(f"{directory} must be a checkpoint or an exported model to store a β in")
    try:
        require_regular_files(directory)
        if is_checkpoint:
            load_metadata(directory / METADATA)
        with replaced_directory(directory, METADATA if is_checkpoint else EXPORTED) as fresh:
            shutil.copytree(directory, fresh, dirs_exist_ok=True)
            for place in (fresh, fresh / INSIDE):
                _write(place, settings)
    except (ConfigError, StorageError) as error:
        raise CheckpointError(f"cannot store β in {directory}: {error}") from error


def _write(place: Path, settings: Mapping[str, Any]) -> None:
    """Change what is there: metadata of either kind, and the card."""
    card = place / CARD
    if card.is_file():
        text = card.read_text(encoding="utf-8")
        for name, value in settings.items():
            shown = f"- {name.replace('_', ' ')}: "
            text = "".join(
                f"{shown}{value}\n" if line.startswith(shown) else line for line in text.splitlines(True)
            )
        card.write_text(text, encoding="utf-8")
    if (path := place / METADATA).is_file():
        path.write_text(sealed_toml(_changed(path, settings)), encoding="utf-8")
    if (path := place / EXPORTED).is_file():
        data = _changed(path, settings)
        sums = {CARD: sha256_of(card)} if CARD in data["files"] else {}
        path.write_text(dump_toml({**data, "files": {**data["files"], **sums}}), encoding="utf-8")


def _changed(path: Path, settings: Mapping[str, Any]) -> Mapping[str, Any]:
    data = load_toml(path)
    table = "search" if data.get("format") == 1 else "decoding"
    return {**data, table: {**data[table], **settings}}
