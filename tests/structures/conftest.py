"""What the tests of structures share."""

from collections.abc import Iterator

import pytest

from pcfgnat.structures import backend

BACKENDS = ["reference", "numba"]


@pytest.fixture(params=BACKENDS)
def either_backend(request: pytest.FixtureRequest) -> Iterator[str]:
    with backend(request.param):
        yield request.param
