"""Metadata of every format that was ever written: older ones are lifted to the newest on reading.

Format 1 had the settings of the objective among those of the model, and a search of three numbers.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pcfgnat.checkpoints.metadata import Metadata
from pcfgnat.config import ConfigError, from_dict
from pcfgnat.storage.toml import load_toml

METADATA = "checkpoint.toml"
NETWORK_NAMES = {"vanilla": "slots"}  # in format 1: now
OBJECTIVE_SETTINGS = ("glancing", "label_smoothing", "length_weight")
FORMAT_1 = ("format", "version", "model", "vocabulary", "weights_sha256", "config", "search")
ADDED = ("languages", "card", "training")


def load_metadata(path: Path) -> Metadata:
    """Read `checkpoint.toml` of any format."""
    data = load_toml(path)
    try:
        if (found := data.get("format")) not in (1, 2):
            raise ConfigError(f"format must be 1 or 2, which this version reads, got {found!r}")
        return from_dict(Metadata, lifted(data) if found == 1 else data)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def lifted(data: Mapping[str, Any]) -> dict[str, Any]:
    """Turn metadata of format 1 into format 2."""
    _check_format_1(data)
    model, config, search = data["model"], data["config"], data["search"]
    network = {key: value for key, value in config.items() if key not in OBJECTIVE_SETTINGS}
    objective = {key: value for key, value in config.items() if key in OBJECTIVE_SETTINGS}
    kind = "cross_entropy" if model == "autoregressive" else "likelihood"
    training = {**data.get("training", {}), "objective": {"name": kind, **objective}}
    kept = {key: data[key] for key in ("languages", "card") if key in data}
    return {
        "format": 2,
        "version": data["version"],
        "vocabulary": data["vocabulary"],
        "weights_sha256": data["weights_sha256"],
        "network": {"name": NETWORK_NAMES.get(model, model), **network},
        "decoding": lifted_search(search),
        **kept,
        "training": training,
    }


def lifted_search(search: Mapping[str, Any]) -> dict[str, Any]:
    """Turn a search of format 1 into decoding defaults: only beams have a size."""
    unknown = sorted(search.keys() - {"strategy", "length_penalty", "beam_size"})
    if unknown or not isinstance(search.get("strategy"), str):
        found = f"unknown key {unknown[0]!r}" if unknown else f"strategy {search.get('strategy')!r}"
        raise ConfigError(f"search must have strategy, length_penalty and beam_size, got {found}")
    strategy = search["strategy"]
    if strategy == "beam" and "beam_size" in search:
        strategy = f"beam:size={search['beam_size']}"
    kept = {"length_penalty": search["length_penalty"]} if "length_penalty" in search else {}
    return {"strategy": strategy, **kept}


def _check_format_1(data: Mapping[str, Any]) -> None:
    missing = [key for key in FORMAT_1 if key not in data]
    unknown = [key for key in data if key not in FORMAT_1 + ADDED]
    if missing:
        raise ConfigError(f"missing key {missing[0]}, which format 1 has")
    if unknown:
        raise ConfigError(f"unknown key {unknown[0]!r}; format 1 has {', '.join(FORMAT_1 + ADDED)}")
    for key in ("config", "search", "training"):
        if not isinstance(data.get(key, {}), Mapping):
            raise ConfigError(f"{key} must be a table, got {data[key]!r}")
    if not isinstance(data["model"], str):
        raise ConfigError(f"model must be a string, got {data['model']!r}")
