"""Settings as plain text: TOML to frozen dataclasses and back, strictly.

An unknown or missing key or a value of the wrong kind is an error that says what was expected and what came.
Files that the program writes for itself carry a seal: the checksum of their text, on the first line.
"""

import copy
import dataclasses
import hashlib
import json
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

T = TypeVar("T")

PLAIN: dict[type, tuple[type | tuple[type, ...], str]] = {  # annotation: what may come, and its name
    bool: (bool, "true or false"),
    int: (int, "a whole number"),
    float: ((int, float), "a number"),
    str: (str, "a string"),
    Path: ((str, Path), "a path"),
}
MAX_TOML_BYTES = 1 << 23
SEAL = "# sha256 of all below: "


class ConfigError(ValueError):
    """Settings that cannot be used."""


def load_config(kind: type[T], path: Path | str, overrides: Sequence[str] = ()) -> T:
    """Read a TOML file, apply `key=value` overrides and build the settings."""
    data = load_toml(path)
    try:
        return from_dict(kind, override(data, overrides))
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def from_dict(kind: type[T], data: Mapping[str, Any], where: str = "") -> T:
    """Build a (nested) dataclass; `where` is the name of the table that the data stands in."""
    fields = {field.name: field for field in dataclasses.fields(cast(Any, kind)) if field.init}
    unknown = [key for key in data if key not in fields]
    if unknown:
        place = f"in [{where}]" if where else "at the top level"
        raise ConfigError(f"unknown key {unknown[0]!r} {place}; valid keys: {', '.join(fields) or 'none'}")
    hints = get_type_hints(kind)
    values = {}
    for name, field in fields.items():
        key = f"{where}.{name}" if where else name
        if name in data:
            values[name] = _converted(hints[name], data[name], key)
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise ConfigError(f"missing key {key}, which must be {_described(hints[name])}")
    try:
        return kind(**values)
    except ConfigError:
        raise
    except ValueError as error:
        raise ConfigError(f"[{where}]: {error}" if where else str(error)) from error


def to_dict(config: Any) -> dict[str, Any]:
    """Return plain data from which `from_dict` builds an equal dataclass; `None` is left out."""
    data = {}
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if value is not None:
            data[field.name] = _plain(value)
        elif field.default is not None:
            raise ConfigError(f"{field.name} is None, which has no TOML form, and its default is not None")
    return data


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


def override(data: Mapping[str, Any], assignments: Iterable[str]) -> dict[str, Any]:
    """Return a copy with `train.steps=100` and the like applied; a value that is not TOML is a string."""
    result = copy.deepcopy(dict(data))
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        *tables, name = parts = [part.strip() for part in key.split(".")]
        if not equals or not all(parts):
            raise ConfigError(f"an override must look like table.key=value, got {assignment!r}")
        table = result
        for depth, part in enumerate(tables, start=1):
            table = table.setdefault(part, {})
            if not isinstance(table, dict):
                place = ".".join(tables[:depth])
                raise ConfigError(f"{assignment!r}: {place} must be a table, got {table!r}")
        table[name] = parsed_value(text.strip())
    return result


def _check_seal(content: bytes, path: Path | str) -> None:
    first, _, rest = content.partition(b"\n")
    if not first.startswith(SEAL.encode()):
        return
    expected, found = first[len(SEAL) :].decode(errors="replace"), hashlib.sha256(rest).hexdigest()
    if found != expected:
        advice = "if it was edited on purpose, remove its first line"
        raise ConfigError(f"{path} is damaged: its sha256 must be {expected}, got {found}; {advice}")


def _converted(kind: Any, value: Any, key: str) -> Any:
    """Turn a TOML value into what a field's annotation asks for."""
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any:
        return value
    if origin in (Union, UnionType):
        return _first_fitting(kind, value, key)
    if dataclasses.is_dataclass(kind) and isinstance(value, Mapping):
        return from_dict(cast(type[Any], kind), value, key)
    if origin is Literal and any(value == choice and type(value) is type(choice) for choice in arguments):
        return value
    if origin in (list, tuple) and isinstance(value, list | tuple):
        kinds = _item_kinds(kind, len(value))
        if len(kinds) == len(value):
            items = enumerate(zip(kinds, value, strict=True))
            return origin(_converted(item_kind, item, f"{key}[{i}]") for i, (item_kind, item) in items)
    if origin is dict and isinstance(value, Mapping):
        return {name: _converted(arguments[1], item, f"{key}.{name}") for name, item in value.items()}
    if kind in PLAIN and isinstance(value, PLAIN[kind][0]) and (kind is bool or not isinstance(value, bool)):
        return _plain_value(kind, value, key)
    raise ConfigError(f"{key} must be {_described(kind)}, got {value!r}")


def _plain_value(kind: Any, value: Any, key: str) -> Any:
    if kind is Path and "\0" in str(value):
        raise ConfigError(f"{key} must be a path, got {value!r}, which has a zero byte")
    try:
        return kind(value)
    except OverflowError as error:  # a float cannot be as large as a whole number
        raise ConfigError(f"{key} must be {_described(kind)} up to 1e308, got one that is larger") from error


def _first_fitting(kind: Any, value: Any, key: str) -> Any:
    alternatives = [alternative for alternative in get_args(kind) if alternative is not NoneType]
    if value is None and NoneType in get_args(kind):
        return None
    if len(alternatives) == 1:
        return _converted(alternatives[0], value, key)
    for alternative in alternatives:
        try:
            return _converted(alternative, value, key)
        except ConfigError:
            continue
    raise ConfigError(f"{key} must be {_described(kind)}, got {value!r}")


def _item_kinds(kind: Any, length: int) -> Sequence[Any]:
    arguments = get_args(kind)
    if get_origin(kind) is list or arguments[-1] is Ellipsis:
        return [arguments[0]] * length
    return arguments


def _described(kind: Any) -> str:
    """Name what a field's annotation asks for."""
    origin, arguments = get_origin(kind), get_args(kind)
    if kind in PLAIN:
        return PLAIN[kind][1]
    if origin in (Union, UnionType):
        return " or ".join(_described(item) for item in arguments if item is not NoneType)
    if origin is Literal:
        return f"one of {', '.join(map(repr, arguments))}"
    if origin is list or (origin is tuple and arguments[-1] is Ellipsis):
        return f"a list (each item {_described(arguments[0])})"
    if origin is tuple:
        return f"a list of {len(arguments)} ({', '.join(map(_described, arguments))})"
    return "a table"


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return to_dict(value)
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, Path) else value


def parsed_value(text: str) -> Any:
    """Return a value as TOML writes it; what is not TOML is a string."""
    try:
        data = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):  # no TOML, a number of thousands of digits, or nested too deeply
        return text
    return data["value"] if len(data) == 1 else text


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
