"""Where compiled kernels are kept: read from anywhere, written where that is allowed, else compiled anew."""

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import numba
import pytest
from numba.core import config

from pcfgnat.grammar import compiled
from pcfgnat.grammar.compiled import cache_directories

SOURCE = """
import numba
from pcfgnat.grammar.compiled import cached

@cached(numba.njit)
def {name}(x):
    return x + 1
"""


@pytest.fixture
def homeless(monkeypatch: pytest.MonkeyPatch) -> None:
    """No cache of the user's."""
    monkeypatch.setenv("XDG_CACHE_HOME", "/nonexistent/cache")
    monkeypatch.setattr(config, "CACHE_DIR", "")


def loaded(file: Path, name: str = "successor") -> Any:
    """Write a module with a kernel, unless it exists, and import it as a new process would."""
    if not file.exists():
        file.write_text(SOURCE.format(name=name), encoding="utf-8")
    spec = importlib.util.spec_from_file_location("some_kernels", file)
    assert spec is not None
    assert spec.loader is not None
    module: ModuleType = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)


def hits(kernel: Any) -> tuple[int, int]:
    """Run a kernel; return how often it was found and how often it was compiled."""
    assert kernel(1) == 2
    return sum(kernel.stats.cache_hits.values()), sum(kernel.stats.cache_misses.values())


def unwritable(monkeypatch: pytest.MonkeyPatch, *places: Path) -> None:
    """Forbid some directories, for root too."""
    monkeypatch.setattr(compiled, "is_writable", lambda directory: directory not in places)


@pytest.mark.usefixtures("homeless")
def test_a_kernel_is_found_again(tmp_path: Path) -> None:
    assert hits(loaded(tmp_path / "a.py")) == (0, 1)
    assert hits(loaded(tmp_path / "a.py")) == (1, 0)


@pytest.mark.usefixtures("homeless")
def test_what_was_compiled_ahead_is_found_where_nothing_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a.py"
    assert hits(loaded(file)) == (0, 1)
    unwritable(monkeypatch, tmp_path / "__pycache__")
    kernel = loaded(file)
    assert hits(kernel) == (1, 0)
    assert kernel.stats.cache_path is None
    before = sorted(tmp_path.rglob("*.nb*"))
    assert kernel(1.5) == 2.5  # compiled for another type, and not kept
    assert sorted(tmp_path.rglob("*.nb*")) == before


@pytest.mark.usefixtures("homeless")
def test_without_any_directory_it_is_compiled_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a.py"
    unwritable(monkeypatch, tmp_path / "__pycache__")
    assert hits(loaded(file)) == hits(loaded(file)) == (0, 1)
    assert list(tmp_path.rglob("*.nb*")) == []


@pytest.mark.usefixtures("homeless")
def test_a_disk_that_is_full_costs_only_the_cache(tmp_path: Path) -> None:
    kernel = loaded(tmp_path / "a.py")
    place = tmp_path / "__pycache__"
    place.rename(tmp_path / "away")
    place.write_text("no directory")  # whatever is written to it fails
    assert hits(kernel) == (0, 1)


@pytest.mark.usefixtures("homeless")
def test_a_change_in_any_kernel_makes_all_stale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a.py"
    hits(loaded(file))
    monkeypatch.setattr(compiled, "sources_digest", lambda: b"another")
    assert hits(loaded(file)) == (0, 1)


def test_the_order_of_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path / "chosen"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    chosen, beside, own = cache_directories(Path("/package/kernels/a.py"))
    assert beside == Path("/package/kernels/__pycache__")
    assert chosen.parent == tmp_path / "chosen" / "pcfgnat"
    assert own.parent == tmp_path / "home" / "pcfgnat"
    monkeypatch.setenv("XDG_CACHE_HOME", "/nonexistent/.cache")
    assert cache_directories(Path("/package/kernels/a.py")) == [chosen, beside]


def test_functions_that_are_not_compiled_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "DISABLE_JIT", 1)

    def plain(x: int) -> int:
        return x

    assert compiled.cached(numba.njit)(plain) is plain
