"""Settings as plain text: TOML to frozen dataclasses and back, strictly.

An unknown or missing key or a value of the wrong kind is an error that names the setting and says what was
expected and what came. A dataclass rejects a value by a ValueError whose message starts with a field's name.
"""

import copy
import dataclasses
import difflib
import re
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

T = TypeVar("T")

PLAIN: dict[type, tuple[type | tuple[type, ...], str]] = {  # annotation: what may come, and its name
    bool: (bool, "true or false"),
    int: (int, "an integer"),
    float: ((int, float), "a number"),
    str: (str, "a string"),
    Path: ((str, Path), "a path"),
}
UNSET = "none"  # `key=none` on a command line


class ConfigError(ValueError):
    """Settings that cannot be used."""


@dataclasses.dataclass(frozen=True, eq=False)
class ByName:
    """Annotation of a table of plain data: `name` selects the dataclass that its other keys are settings of.

    `Annotated[dict[str, Any], ByName({"pcfg": PCFGConfig, ...})]` is read with all settings spelled out.
    """

    kinds: Mapping[str, type[Any]]


def from_dict(kind: type[T], data: Mapping[str, Any], where: str = "") -> T:
    """Build a (nested) dataclass; `where` is the name of the table that the data stands in."""
    fields = {field.name: field for field in dataclasses.fields(cast(Any, kind)) if field.init}
    unknown = [key for key in data if key not in fields]
    if unknown:
        raise ConfigError(_unknown_key(kind, unknown[0], where))
    hints = get_type_hints(kind, include_extras=True)
    missing = [name for name, field in fields.items() if name not in data and is_required(field)]
    if missing:
        listed = ", ".join(f"{_dotted(where, name)} ({described_kind(hints[name])})" for name in missing)
        raise ConfigError(f"missing: {listed}")
    values = {
        name: _converted(hints[name], data[name], _dotted(where, name)) for name in fields if name in data
    }
    try:
        return kind(**values)
    except ConfigError:
        raise
    except ValueError as error:
        raise ConfigError(_located(str(error), where, fields)) from error


def is_required(field: "dataclasses.Field[Any]") -> bool:
    """Return whether a dataclass cannot be built without this field."""
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


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


def override(data: Mapping[str, Any], assignments: Iterable[str]) -> dict[str, Any]:
    """Return a copy with `train.steps=100` and the like applied; a value that is not TOML is a string.

    `key=none` makes the value None: not set, where a setting may be that, and the word "none" elsewhere.
    """
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
        table[name] = None if text.strip() == UNSET else parsed_value(text.strip())
    return result


def described_kind(kind: Any) -> str:
    """Return what a field's annotation asks for, in words."""
    origin, arguments = get_origin(kind), get_args(kind)
    if kind in PLAIN:
        return PLAIN[kind][1]
    if origin in (Union, UnionType):
        return " or ".join(described_kind(item) for item in arguments if item is not NoneType)
    if origin is Literal:
        return f"one of {', '.join(map(repr, arguments))}"
    if origin is list or (origin is tuple and arguments[-1] is Ellipsis):
        return f"a list (each item {described_kind(arguments[0])})"
    if origin is tuple:
        return f"a list of {len(arguments)} ({', '.join(map(described_kind, arguments))})"
    return "a table"


def choice_of(kind: Any) -> ByName | None:
    """Return what selects the settings of a table that has a name."""
    return next((item for item in get_args(kind)[1:] if isinstance(item, ByName)), None)


def tables_of(kind: Any) -> list[type[Any]]:
    """Return the dataclasses that a field's annotation has room for."""
    if (choice := choice_of(kind)) is not None:
        return list(choice.kinds.values())
    alternatives = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    return [item for item in alternatives if dataclasses.is_dataclass(item) and isinstance(item, type)]


def closest_first(word: str, choices: Collection[str]) -> list[str]:
    """Return all choices, those that resemble a word first."""
    close = difflib.get_close_matches(word, choices, n=3)
    return [*close, *(choice for choice in choices if choice not in close)]


def _converted(kind: Any, value: Any, key: str) -> Any:
    """Turn a TOML value into what a field's annotation asks for."""
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any:
        return value
    if origin is Annotated:
        choice = choice_of(kind)
        return _converted(arguments[0], value, key) if choice is None else _by_name(choice, value, key)
    if origin in (Union, UnionType):
        return _first_fitting(kind, value, key)
    if value is None:
        value = UNSET
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
    raise ConfigError(f"{key} must be {described_kind(kind)}, got {value!r}")


def _by_name(choice: ByName, value: Any, key: str) -> dict[str, Any]:
    """Return a table with `name` and every setting of the dataclass that it selects."""
    if not isinstance(value, Mapping):
        raise ConfigError(f"{key} must be a table with a name, got {value!r}")
    names = list(choice.kinds)
    if "name" not in value:
        raise ConfigError(f"missing: {key}.name (one of {', '.join(names)})")
    name = value["name"]
    if name not in names:
        listed = ", ".join(closest_first(str(name), names))
        raise ConfigError(f"{key}.name must be one of {listed}, got {name!r}")
    rest = {setting: item for setting, item in value.items() if setting != "name"}
    return {"name": name, **to_dict(from_dict(choice.kinds[name], rest, key))}


def _plain_value(kind: Any, value: Any, key: str) -> Any:
    if kind is Path and "\0" in str(value):
        raise ConfigError(f"{key} must be a path, got {value!r}, which has a zero byte")
    try:
        return kind(value)
    except OverflowError as error:  # a float cannot be as large as an integer
        raise ConfigError(f"{key} must be {described_kind(kind)} up to 1e308, got more") from error


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
    raise ConfigError(f"{key} must be {described_kind(kind)}, got {value!r}")


def _item_kinds(kind: Any, length: int) -> Sequence[Any]:
    arguments = get_args(kind)
    if get_origin(kind) is list or arguments[-1] is Ellipsis:
        return [arguments[0]] * length
    return arguments


def _unknown_key(kind: type[Any], key: str, where: str) -> str:
    names = [field.name for field in dataclasses.fields(kind) if field.init]
    deeper = [path for path in _paths(kind, where) if path.rsplit(".", 1)[-1] == key]
    close = [_dotted(where, name) for name in difflib.get_close_matches(key, names, n=1)]
    meant = list(dict.fromkeys(deeper or close))
    question = f"did you mean {' or '.join(meant)}? " if meant else ""
    valid = ", ".join(closest_first(key, names)) or "none"
    return f"unknown key {_dotted(where, key)!r}; {question}valid keys: {valid}"


def _paths(kind: type[Any], where: str) -> Iterator[str]:
    """Yield the dotted names of all settings in and below a table."""
    hints = get_type_hints(kind, include_extras=True)
    for field in dataclasses.fields(kind):
        yield _dotted(where, field.name)
        for inner in tables_of(hints[field.name]):
            yield from _paths(inner, _dotted(where, field.name))


def _located(message: str, where: str, fields: Collection[str]) -> str:
    """Put the name of its table before a message that starts with a field's name."""
    first = re.match(r"\w*", message)
    if not where or first is None:
        return message
    return f"{where}.{message}" if first[0] in fields else f"{where}: {message}"


def _dotted(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


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
    except (ValueError, RecursionError):  # not TOML, a number of thousands of digits, nested too deeply
        return text
    return data["value"] if len(data) == 1 else text
