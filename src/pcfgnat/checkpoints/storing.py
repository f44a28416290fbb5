"""Another default for a model on disk, without its weights being read: whole or not at all."""

import re
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
CARD_LINE = re.compile(r"^- length penalty: .*$", re.MULTILINE)


def store_length_penalty(directory: Path, length_penalty: float) -> None:
    """Make β the default of a checkpoint and of the exported model inside it, or of an exported one alone."""
    directory = directory.resolve()
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
                _write(place, length_penalty)
    except (ConfigError, StorageError) as error:
        raise CheckpointError(f"cannot store β in {directory}: {error}") from error


def _write(place: Path, length_penalty: float) -> None:
    """Change what is there: metadata of either kind, and the card."""
    card = place / CARD
    if card.is_file():
        line = f"- length penalty: {length_penalty}"
        card.write_text(CARD_LINE.sub(line, card.read_text(encoding="utf-8")), encoding="utf-8")
    if (path := place / METADATA).is_file():
        path.write_text(sealed_toml(_changed(path, length_penalty)), encoding="utf-8")
    if (path := place / EXPORTED).is_file():
        data = _changed(path, length_penalty)
        sums = {CARD: sha256_of(card)} if CARD in data["files"] else {}
        path.write_text(dump_toml({**data, "files": {**data["files"], **sums}}), encoding="utf-8")


def _changed(path: Path, length_penalty: float) -> Mapping[str, Any]:
    data = load_toml(path)
    table = "search" if data.get("format") == 1 else "decoding"
    return {**data, table: {**data[table], "length_penalty": length_penalty}}
