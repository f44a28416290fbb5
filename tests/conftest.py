"""Set-up of all tests: shapes and types are checked at run time, one thread, reproducible examples."""

from pathlib import Path

import torch
from hypothesis import settings
from jaxtyping import install_import_hook

SOURCE = Path(__file__).parents[1] / "src"


def checked_modules() -> list[str]:
    """All modules but the kernels: what numba compiles must not be wrapped.

    Packages are left out as well, because the hook takes whatever lies below a name.
    """
    files = [path.relative_to(SOURCE) for path in sorted(SOURCE.glob("pcfgnat/**/*.py"))]
    return [
        ".".join(file.with_suffix("").parts)
        for file in files
        if not {"__init__", "kernels"} & {file.stem, *file.parts}
    ]


install_import_hook(checked_modules(), "beartype.beartype")  # before the first import of pcfgnat
torch.set_num_threads(1)
settings.register_profile("pcfgnat", deadline=None, derandomize=True)
settings.load_profile("pcfgnat")
