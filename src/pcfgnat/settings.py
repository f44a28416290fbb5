"""What settings mean: descriptions from the docstrings of their dataclasses, and TOML that carries them.

A docstring describes a field on a line `name: text`; further lines of the text are indented.
"""

import dataclasses
import inspect
import re
import textwrap
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Literal, get_origin, get_type_hints

from pcfgnat.config import choice_of, described_kind, is_required, tables_of, to_dict
from pcfgnat.storage.toml import dump_toml

ENTRY = re.compile(r"(\w+): +(\S.*)")
WIDTH, LEAST_TEXT, WIDEST_ASSIGNMENT = 110, 50, 44


@dataclasses.dataclass(frozen=True)
class Setting:
    """A field of a settings class.

    kind:     its annotation
    default:  plain data; None if it is not set by default, or required
    text:     its description
    """

    name: str
    kind: Any
    default: Any
    required: bool
    text: str

    @property
    def type(self) -> str:
        """What a value must be, in words."""
        return described_kind(self.kind)

    @property
    def help(self) -> str:
        """The description, and the choices if there are any."""
        return f"{self.text} ({self.type})" if get_origin(self.kind) is Literal else self.text

    @property
    def is_table(self) -> bool:
        """Whether its value is settings again."""
        return bool(tables_of(self.kind))


def settings_of(kind: type[Any]) -> list[Setting]:
    """Return all fields of a settings class, in their order."""
    hints, texts = get_type_hints(kind, include_extras=True), descriptions(kind)
    return [
        Setting(field.name, hints[field.name], _default(field), is_required(field), texts.get(field.name, ""))
        for field in dataclasses.fields(kind)
        if field.init
    ]


def descriptions(kind: type[Any]) -> dict[str, str]:
    """Return what docstrings say about the fields of a class, its own and inherited ones."""
    names = {field.name for field in dataclasses.fields(kind)}
    found: dict[str, str] = {}
    for owner in reversed(kind.__mro__):
        found.update((name, text) for name, text in _entries(owner.__doc__ or "") if name in names)
    return found


def commented_toml(config: Any, placeholders: Collection[str] = ()) -> str:
    """Write settings as TOML, with a comment on each; what is not set is written as a comment.

    Top-level settings in `placeholders` are written as if they were missing.
    """
    data = {name: value for name, value in to_dict(config).items() if name not in placeholders}
    return "\n".join([*_table(type(config), data, ()), ""])


def _entries(docstring: str) -> Iterator[tuple[str, str]]:
    name, lines = "", list[str]()
    for line in [*inspect.cleandoc(docstring).splitlines(), ""]:
        if name and line.startswith(" "):
            lines.append(line.strip())
            continue
        if name:
            yield name, " ".join(lines)
        match = ENTRY.fullmatch(line)
        name, lines = (match[1], [match[2]]) if match else ("", [])


def _default(field: "dataclasses.Field[Any]") -> Any:
    if field.default_factory is not dataclasses.MISSING:
        value = field.default_factory()
    else:
        value = None if field.default is dataclasses.MISSING else field.default
    return to_dict(value) if dataclasses.is_dataclass(value) else value


def _table(kind: type[Any], data: Mapping[str, Any] | None, path: tuple[str, ...]) -> Iterator[str]:
    """Yield the lines of a table; one that is not set (None) has only comments."""
    settings = settings_of(kind)
    values = [setting for setting in settings if not setting.is_table]
    yield from _aligned([_assignment(setting, data) for setting in values])
    for setting in settings:
        if setting.is_table:
            yield from _subtable(setting, None if data is None else data.get(setting.name), path)


def _subtable(setting: Setting, data: Mapping[str, Any] | None, path: tuple[str, ...]) -> Iterator[str]:
    """Yield the lines of a table inside another; a table with a name begins with that."""
    inner, choice = (*path, setting.name), choice_of(setting.kind)
    yield ""
    yield f"{'# ' if data is None else ''}[{'.'.join(inner)}]  # {setting.text}"
    if choice is None:
        yield from _table(tables_of(setting.kind)[0], data, inner)
    elif data is not None:
        yield from _aligned([(f'name = "{data["name"]}"', f"one of {', '.join(choice.kinds)}")])
        yield from _table(choice.kinds[data["name"]], data, inner)


def _assignment(setting: Setting, data: Mapping[str, Any] | None) -> tuple[str, str]:
    if data is not None and setting.name in data:
        return dump_toml({setting.name: data[setting.name]}).strip(), setting.help
    state = "required: " if setting.required else ""
    example = "" if data is not None or setting.default is None else f"{_plain(setting.default)}"
    return f"# {setting.name} = {example or f'({setting.type})'}", f"{state}{setting.help}"


def _plain(value: Any) -> str:
    return dump_toml({"x": value}).strip().removeprefix("x = ")


def _aligned(lines: list[tuple[str, str]]) -> Iterator[str]:
    """Yield assignments with their comments in a column beside them, or above those that are too wide."""
    fitting = [len(assignment) for assignment, _ in lines if len(assignment) <= WIDEST_ASSIGNMENT]
    column = max(fitting, default=0) + 2
    for assignment, text in lines:
        if len(assignment) + 2 > column:
            yield from textwrap.wrap(text, WIDTH, initial_indent="# ", subsequent_indent="# ")
            yield assignment
            continue
        first, *rest = textwrap.wrap(text, max(WIDTH - column - 2, LEAST_TEXT)) or [""]
        yield f"{assignment:<{column}}# {first}"
        yield from (f"{'':<{column}}# {line}" for line in rest)
