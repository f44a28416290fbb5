"""Set-up of all tests: shapes and types are checked at run time, one thread, reproducible examples."""

from pathlib import Path

import torch
from hypothesis import settings
from jaxtyping import install_import_hook

SOURCE = Path(__file__).parents[1] / "src"


def checked_modules() -> list[str]:
    """All modules but kernels and operators: what numba compiles or torch traces must not be wrapped.

    Packages are left out as well, because the hook takes whatever lies below a name.
    """
    files = [path.relative_to(SOURCE) for path in sorted(SOURCE.glob("pcfgnat/**/*.py"))]
    return [
        ".".join(file.with_suffix("").parts)
        for file in files
        if not {"__init__", "kernels", "operators"} & {file.stem, *file.parts}
    ]


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
