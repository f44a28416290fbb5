"""TOML files: strict when they are read, and with a seal where the program writes them for itself.

The seal is the checksum of a file's text, on its first line.
"""

import hashlib
import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pcfgnat.config import ConfigError, from_dict, override

MAX_TOML_BYTES = 1 << 23
SEAL = "# sha256 of all below: "

T = TypeVar("T")


def load_config(kind: type[T], path: Path | str, overrides: Sequence[str] = ()) -> T:
    """Read a TOML file, apply `key=value` overrides and build the settings."""
    data = load_toml(path)
    try:
        return from_dict(kind, override(data, overrides))
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def load_toml(path: Path | str) -> dict[str, Any]:
    """Read a TOML file; if it has a seal, that must be right."""
    try:
        with Path(path).open("rb") as file:
            content = file.read(MAX_TOML_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    if len(content) > MAX_TOML_BYTES:
        raise ConfigError(f"{path} must have at most {MAX_TOML_BYTES} bytes, got more")
    _check_seal(content, path)
    try:
        return tomllib.loads(content.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8: byte 0x{content[error.start]:02x}") from error
    except RecursionError as error:
        raise ConfigError(f"{path} is not TOML that can be read: it is nested too deeply") from error
    except ValueError as error:  # TOMLDecodeError, or a number of thousands of digits
        raise ConfigError(f"{path} is not TOML: {error}") from error


def sealed_toml(data: Mapping[str, Any]) -> str:
    """Write TOML with a seal, by which `load_toml` finds out whether it was cut or altered.

    The seal stands on top: whatever is cut off, a part of the text is missing that it vouches for. Without it
    a file is read as it is, so whoever edits one removes that line.
    """
    text = dump_toml(data)
    return f"{SEAL}{hashlib.sha256(text.encode()).hexdigest()}\n{text}"


def dump_toml(data: Mapping[str, Any]) -> str:
    """Write nested tables of strings, numbers, booleans and lists as TOML."""
    return "\n".join([*_table(data, ()), ""]).removeprefix("\n")


def _check_seal(content: bytes, path: Path | str) -> None:
    first, _, rest = content.partition(b"\n")
    if not first.startswith(SEAL.encode()):
        return
    expected, found = first[len(SEAL) :].decode(errors="replace"), hashlib.sha256(rest).hexdigest()
    if found != expected:
        advice = "if it was edited on purpose, remove its first line"
        raise ConfigError(f"{path} is damaged: its sha256 must be {expected}, got {found}; {advice}")


def _table(data: Mapping[str, Any], path: tuple[str, ...]) -> list[str]:
    """Lines of a table: its own values first, because what follows a header belongs to it."""
    lines = [f"{_key(k)} = {_value(v, (*path, k))}" for k, v in data.items() if not isinstance(v, Mapping)]
    for name, item in data.items():
        if isinstance(item, Mapping):
            inner = (*path, name)
            lines += ["", f"[{'.'.join(map(_key, inner))}]", *_table(item, inner)]
    return lines


def _value(value: Any, path: tuple[str, ...]) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        return _string(value, path)
    if isinstance(value, list | tuple):
        return f"[{', '.join(_value(item, path) for item in value)}]"
    if isinstance(value, Mapping):
        inside = ", ".join(f"{_key(k)} = {_value(v, (*path, k))}" for k, v in value.items())
        return f"{{{inside}}}"
    raise ConfigError(f"{'.'.join(path)} has no TOML form: {value!r}")


def _string(text: str, path: tuple[str, ...]) -> str:
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise ConfigError(f"{'.'.join(path)} has no TOML form: {text!r} is not Unicode text")
    return json.dumps(text, ensure_ascii=False).replace(
        "\x7f", "\\u007f"
    )  # JSON's escapes are TOML's, but for DEL


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _string(name, ("key",))
