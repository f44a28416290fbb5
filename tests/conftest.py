"""Set-up of all tests: shapes are checked at run time, one thread, reproducible examples."""

from collections.abc import Generator
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch
from hypothesis import settings
from jaxtyping import install_import_hook

from tests.support.unchecked import shapes_unchecked

TESTS = Path(__file__).parent
SOURCE = TESTS.parent / "src"
# Tests of single parts: whole programs call the same functions far more often, and would take twice as long.
PARTS = (
    *("checkpoints", "decoding", "evaluation", "export", "grammar"),
    *("networks", "nn", "objectives", "runtimes", "structures", "text"),
)


def checked_modules() -> list[str]:
    """All modules with shapes but kernels and operators, which numba compiles or torch traces as they are.

    Packages are left out as well, because the hook takes whatever lies below a name.
    """
    files = [path.relative_to(SOURCE) for path in sorted(SOURCE.glob("pcfgnat/**/*.py"))]
    return [
        ".".join(file.with_suffix("").parts)
        for file in files
        if not {"__init__", "kernels", "operators"} & {file.stem, *file.parts}
        and "jaxtyping" in (SOURCE / file).read_text(encoding="utf-8")
    ]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Check shapes in the tests of single parts, fixtures included."""
    part = item.path.relative_to(TESTS).parts[0] in PARTS
    with nullcontext() if part else shapes_unchecked():
        return (yield)


def forget_stale_kernels() -> None:
    """Drop compiled kernels that are older than any kernel's source.

    Numba looks only at the file of the function that is called, not at those which that function calls.
    """
    sources = [*SOURCE.glob("pcfgnat/**/kernels.py"), *SOURCE.glob("pcfgnat/**/kernels/*.py")]
    newest = max(path.stat().st_mtime for path in sources)
    for path in SOURCE.glob("pcfgnat/**/__pycache__/*.nb[ic]"):
        if path.stat().st_mtime < newest:
            path.unlink(missing_ok=True)


forget_stale_kernels()
install_import_hook(checked_modules(), "beartype.beartype")  # before the first import of pcfgnat
torch.set_num_threads(1)
settings.register_profile("pcfgnat", deadline=None, derandomize=True)
settings.load_profile("pcfgnat")
