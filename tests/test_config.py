import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcfgnat.config import ByName, ConfigError, from_dict, override, to_dict
from pcfgnat.storage.toml import dump_toml, load_config, load_toml


@dataclass(frozen=True)
class Net:
    layers: int
    dropout: float = 0.1
    kind: Literal["small", "large"] = "small"

    def __post_init__(self) -> None:
        if self.layers < 1:
            raise ValueError(f"layers must be at least 1, got {self.layers}")


@dataclass(frozen=True)
class Run:
    model: Net
    name: str = "run"
    bold: bool = False
    data: Path = Path("data")
    sizes: tuple[int, ...] = ()
    pair: tuple[str, float] = ("a", 1.0)
    tags: list[str] = field(default_factory=list)
    extra: dict[str, float] = field(default_factory=dict)
    teacher: Net | None = None
    steps: int | Literal["all"] = "all"


plain = st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
values = st.recursive(
    plain, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)
)
nets = st.builds(Net, st.integers(1), st.floats(0, 1), st.sampled_from(["small", "large"]))
runs = st.builds(
    Run,
    nets,
    name=st.text(),
    bold=st.booleans(),
    data=st.sampled_from([Path("a b/ü"), Path("/x")]),
    sizes=st.lists(st.integers(), max_size=3).map(tuple),
    pair=st.tuples(st.text(), st.floats(allow_nan=False)),
    tags=st.lists(st.text(), max_size=3),
    extra=st.dictionaries(st.text(), st.floats(allow_nan=False), max_size=3),
    teacher=st.none() | nets,
    steps=st.integers() | st.just("all"),
)


@given(st.dictionaries(st.text(), values, max_size=5))
def test_toml_comes_back(data: dict[str, Any]) -> None:
    assert same(override(load_text(dump_toml(data)), []), data)


@given(runs)
def test_settings_come_back(run: Run) -> None:
    assert from_dict(Run, load_text(dump_toml(to_dict(run)))) == run


def load_text(text: str) -> dict[str, Any]:
    return tomllib.loads(text)


def same(left: Any, right: Any) -> bool:
    """Equal, and of the same types: 1, 1.0 and true are equal in Python."""
    return repr(left) == repr(right) or (
        isinstance(left, dict)
        and isinstance(right, dict)
        and left.keys() == right.keys()
        and all(same(left[key], right[key]) for key in left)
    )


def test_toml_reads_well() -> None:
    data = {"name": "ü", "model": {"layers": 2, "inner": {"x": [1.0, True]}, "a b": []}, "steps": 3}
    assert dump_toml(data) == (
        'name = "ü"\nsteps = 3\n\n[model]\nlayers = 2\n"a b" = []\n\n[model.inner]\nx = [1.0, true]\n'
    )
    assert dump_toml({"model": {}}) == "[model]\n"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"model": {"lamda": 4}}, "unknown key 'model.lamda'; valid keys: layers, dropout, kind"),
        (
            {"modle": {}},
            "unknown key 'modle'; did you mean model? valid keys: "
            "model, name, bold, data, sizes, pair, tags, extra, teacher, steps",
        ),
        (
            {"layers": 3},
            "unknown key 'layers'; did you mean model.layers or teacher.layers? valid keys: model",
        ),
        (
            {"model": {"knid": 3}},
            "unknown key 'model.knid'; did you mean model.kind? valid keys: kind, layers",
        ),
        ({}, "missing: model (a table)"),
        ({"model": {}}, "missing: model.layers (an integer)"),
        ({"model": {"layers": "six"}}, "model.layers must be an integer, got 'six'"),
        ({"model": {"layers": 6.0}}, "model.layers must be an integer, got 6.0"),
        ({"model": {"layers": True}}, "model.layers must be an integer, got True"),
        ({"model": {"layers": 0}}, "model.layers must be at least 1, got 0"),
        ({"model": {"layers": 1, "dropout": "x"}}, "model.dropout must be a number, got 'x'"),
        ({"model": {"layers": 1, "dropout": False}}, "model.dropout must be a number, got False"),
        (
            {"model": {"layers": 1, "kind": "huge"}},
            "model.kind must be one of 'small', 'large', got 'huge'",
        ),
        ({"model": 3}, "model must be a table, got 3"),
        ({"model": {"layers": 1}, "name": 3}, "name must be a string, got 3"),
        ({"model": {"layers": 1}, "bold": 1}, "bold must be true or false, got 1"),
        ({"model": {"layers": 1}, "data": 1}, "data must be a path, got 1"),
        ({"model": {"layers": 1}, "sizes": 1}, "sizes must be a list (each item an integer), got 1"),
        ({"model": {"layers": 1}, "sizes": [1, "x"]}, "sizes[1] must be an integer, got 'x'"),
        (
            {"model": {"layers": 1}, "pair": ["a"]},
            "pair must be a list of 2 (a string, a number), got ['a']",
        ),
        ({"model": {"layers": 1}, "extra": {"x": "y"}}, "extra.x must be a number, got 'y'"),
        ({"model": {"layers": 1}, "teacher": {"x": 1}}, "unknown key 'teacher.x'; valid keys: "),
        (
            {"model": {"layers": 1}, "steps": "some"},
            "steps must be an integer or one of 'all', got 'some'",
        ),
    ],
)
def test_wrong_settings_are_named(data: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        from_dict(Run, data)
    assert str(caught.value).startswith(message)


def test_whole_numbers_are_numbers_too() -> None:
    net = from_dict(Net, {"layers": 1, "dropout": 0})
    assert isinstance(net.dropout, float)


def test_values_without_toml_form_are_named() -> None:
    with pytest.raises(ConfigError, match=r"^a\.b has no TOML form: None$"):
        dump_toml({"a": {"b": None}})
    with pytest.raises(ConfigError, match=r"^a has no TOML form: '\\udc80' is not Unicode text$"):
        dump_toml({"a": "\udc80"})


def test_overrides() -> None:
    data = {"train": {"steps": 1, "rate": 0.1}, "name": "x"}
    changes = ["train.steps=100", "train.rate = 5e-4", "name=big model", "new.a.b=[1, 2]", "on=true", "none="]
    assert override(data, changes) == {
        "train": {"steps": 100, "rate": 5e-4},
        "name": "big model",
        "new": {"a": {"b": [1, 2]}},
        "on": True,
        "none": "",
    }
    assert data == {"train": {"steps": 1, "rate": 0.1}, "name": "x"}
    assert override({"teacher": {"x": 1}}, ["teacher=none"]) == {"teacher": None}
    assert override({}, ["a=1\nb=2", 'c="1"', "d=../x=y"]) == {"a": "1\nb=2", "c": "1", "d": "../x=y"}


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("train.steps", "an override must look like table.key=value, got 'train.steps'"),
        ("=1", "an override must look like table.key=value, got '=1'"),
        ("a..b=1", "an override must look like table.key=value, got 'a..b=1'"),
        ("train.steps.x=1", "'train.steps.x=1': train.steps must be a table, got 5"),
    ],
)
def test_wrong_overrides_are_named(assignment: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        override({"train": {"steps": 5}}, [assignment])
    assert str(caught.value) == message


def test_none_unsets_what_may_be_unset_and_is_a_word_elsewhere() -> None:
    data = {"model": {"layers": 1}, "teacher": {"layers": 2}}
    assert from_dict(Run, override(data, ["teacher=none"])).teacher is None
    assert from_dict(Run, override(data, ["name=none", "data=none"])) == Run(
        Net(1), name="none", data=Path("none"), teacher=Net(2)
    )
    with pytest.raises(ConfigError, match=r"^model\.layers must be an integer, got 'none'$"):
        from_dict(Run, override(data, ["model.layers=none"]))
    with pytest.raises(ConfigError, match=r"^model must be a table, got 'none'$"):
        from_dict(Run, override(data, ["model=none"]))


@dataclass(frozen=True)
class Wide:
    width: int = 8


@dataclass(frozen=True)
class Named:
    net: Annotated[dict[str, Any], ByName({"deep": Net, "wide": Wide})]


def test_a_name_selects_the_settings_of_a_table() -> None:
    assert from_dict(Named, {"net": {"name": "deep", "layers": 3}}).net == {
        "name": "deep",
        "layers": 3,
        "dropout": 0.1,
        "kind": "small",
    }
    assert from_dict(Named, {"net": {"name": "wide"}}).net == {"name": "wide", "width": 8}
    named = from_dict(Named, {"net": {"name": "wide", "width": 2}})
    assert from_dict(Named, to_dict(named)) == named


@pytest.mark.parametrize(
    ("net", "message"),
    [
        ({"name": "wdie"}, "net.name must be one of wide, deep, got 'wdie'"),
        ({"name": ["deep"]}, "net.name must be one of deep, wide, got ['deep']"),
        ({"width": 3}, "missing: net.name (one of deep, wide)"),
        ("wide", "net must be a table with a name, got 'wide'"),
        ({"name": "wide", "layers": 3}, "unknown key 'net.layers'; valid keys: width"),
        ({"name": "deep"}, "missing: net.layers (an integer)"),
        ({"name": "deep", "layers": 0}, "net.layers must be at least 1, got 0"),
    ],
)
def test_what_is_wrong_with_a_named_table_is_said(net: Any, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        from_dict(Named, {"net": net})
    assert str(caught.value) == message


def test_files_are_named(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    with pytest.raises(ConfigError) as caught:
        load_toml(path)
    assert str(caught.value) == f"cannot read {path}: No such file or directory"
    path.write_bytes(b"a = \n")
    with pytest.raises(ConfigError) as caught:
        load_toml(path)
    assert str(caught.value) == f"{path} is not TOML: Invalid value (at line 1, column 5)"
    path.write_bytes(b'a = "\xff"\n')
    with pytest.raises(ConfigError) as caught:
        load_toml(path)
    assert str(caught.value) == f"{path} is not UTF-8: byte 0xff"
    path.write_text("[model]\nlayers = 2\n")
    assert load_config(Run, path, ["model.layers=3"]) == Run(Net(3))
    with pytest.raises(ConfigError) as caught:
        load_config(Run, path, ["model.layers=six"])
    assert str(caught.value) == f"{path}: model.layers must be an integer, got 'six'"
