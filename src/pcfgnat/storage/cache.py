"""Where files are kept that can be made again."""

import os
import tempfile
from pathlib import Path

from pcfgnat.storage.files import StorageError


def cache_directory() -> Path:
    """Return the package's directory in the user's cache, or `PCFGNAT_CACHE`; it is made if it is missing.

    Raise an error if it cannot be written to.
    """
    home = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))
    place = Path(os.environ.get("PCFGNAT_CACHE") or home / "pcfgnat")
    try:
        place.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=place).close()
    except OSError as error:
        raise StorageError(
            f"cannot write to the cache {place}: {error.strerror or error}; set PCFGNAT_CACHE"
        ) from error
    return place
