"""Switch off the shape checks that conftest.py installs, to meet the package's own complaints."""

from collections.abc import Iterator
from contextlib import contextmanager

from jaxtyping import config


@contextmanager
def shapes_unchecked() -> Iterator[None]:
    """In this block arguments of the wrong shape reach the code, as they do for users."""
    before = config.jaxtyping_disable
    config.update("jaxtyping_disable", True)
    try:
        yield
    finally:
        config.update("jaxtyping_disable", before)
