"""Where compiled kernels are kept, so that they run on read-only installations too.

numba refuses to compile a cached function when no directory is writable, and ignores what lies in one that
is not. Here a kernel is loaded from the first directory that has it, saved in the first that is writable, and
compiled anew in every process if there is none.
"""

import hashlib
import logging
import os
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from numba.core import config
from numba.core.caching import CompileResultCacheImpl, FunctionCache, NullCache
from numba.core.dispatcher import Dispatcher

PACKAGE = Path(__file__).parents[1]
LOG = logging.getLogger("pcfgnat.kernels")
Compiler = Callable[[Callable[..., Any]], Any]


def cached(compile_function: Compiler) -> Compiler:
    """Return a decorator like `numba.njit(…)` that also keeps what it compiled."""

    def compiled(function: Callable[..., Any]) -> Any:
        kernel = compile_function(function)
        if isinstance(kernel, Dispatcher):  # and not the function itself, under NUMBA_DISABLE_JIT
            kernel._cache = KernelCache(function)  # type: ignore[attr-defined]
        return kernel

    return compiled


def cache_directories(file: Path) -> list[Path]:
    """Return where a file's kernels may be kept: as the user chose, beside it, in the user's cache."""
    shared = Path("pcfgnat", hashlib.sha256(str(file.parent).encode()).hexdigest()[:16])
    chosen: str = config.CACHE_DIR  # type: ignore[attr-defined] # NUMBA_CACHE_DIR
    places = [Path(chosen, shared)] if chosen else []
    places.append(file.parent / "__pycache__")
    home = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))
    if home.is_absolute() and home.parent.is_dir():  # a home that does not exist is not made
        places.append(home / shared)
    return places


@cache
def is_writable(directory: Path) -> bool:
    """Whether files can be made in a directory, which is made first where it is missing."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=directory).close()
    except OSError:
        return False
    return True


@cache
def sources_digest() -> bytes:
    """Return a checksum of all kernels: one that calls another is recompiled when either changes."""
    files = [*PACKAGE.glob("**/kernels.py"), *PACKAGE.glob("**/kernels/*.py")]
    return hashlib.sha256(b"".join(path.read_bytes() for path in sorted(files))).digest()


class KernelCache(NullCache):
    """Looks into several directories and writes to the first that it may write to."""

    def __init__(self, function: Callable[..., Any]) -> None:
        places = cache_directories(Path(function.__code__.co_filename))
        self._layers: Sequence[_Layer] = [_Layer(function, place) for place in places]
        self._writable = next((layer for layer in self._layers if is_writable(layer.directory)), None)

    @property
    def cache_path(self) -> str | None:
        """Where new kernels are kept, if anywhere."""
        return None if self._writable is None else str(self._writable.directory)

    def load_overload(self, signature: Any, target: Any) -> Any:
        """Return a kernel that was compiled before, for these types and this processor."""
        for layer in self._layers:
            try:
                found = layer.load_overload(signature, target)
            except OSError as error:
                LOG.debug("cannot read kernels from %s: %s", layer.directory, error)
                continue
            if found is not None:
                return found
        return None

    def save_overload(self, signature: Any, compiled: Any) -> None:
        """Keep a kernel; it works without that, on a full disk for instance."""
        if self._writable is None:
            return
        try:
            self._writable.save_overload(signature, compiled)
        except OSError as error:
            LOG.debug("cannot keep a kernel in %s: %s", self._writable.directory, error)


class _Layer(FunctionCache):
    """One function's kernels in one directory."""

    def __init__(self, function: Callable[..., Any], directory: Path) -> None:
        self.directory = directory
        self._impl_class = _implementation(directory)
        super().__init__(function)


@cache
def _implementation(directory: Path) -> type[CompileResultCacheImpl]:
    class Implementation(CompileResultCacheImpl):
        def __init__(self, function: Callable[..., Any]) -> None:
            self._lineno = function.__code__.co_firstlineno
            self._locator = _Locator(function, directory)
            file = Path(function.__code__.co_filename).stem
            self._filename_base = self.get_filename_base(f"{file}.{function.__qualname__}", "")

    return Implementation


class _Locator:
    """What numba asks about the place of a kernel."""

    def __init__(self, function: Callable[..., Any], directory: Path) -> None:
        self._py_file = function.__code__.co_filename
        self._line, self._directory = function.__code__.co_firstlineno, directory

    def ensure_cache_path(self) -> None:
        """Make the directory."""
        self._directory.mkdir(parents=True, exist_ok=True)

    def get_cache_path(self) -> str:
        """Return the directory."""
        return str(self._directory)

    def get_source_stamp(self) -> bytes:
        """Return what changes with the source."""
        return sources_digest()

    def get_disambiguator(self) -> str:
        """Return what distinguishes functions of the same name."""
        return str(self._line)
