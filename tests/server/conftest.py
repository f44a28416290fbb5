"""What the server's tests share: the bundled model, one that obeys the tests, and an address."""

import shutil
from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from pcfgnat.server import Limits, ServedModel, create_app
from pcfgnat.translator import bundled_model
from tests.server.served import Echo, echo


@pytest.fixture(scope="session")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> ServedModel:
    """The bundled model, without what was exported from it: torch has all strategies."""
    place = tmp_path_factory.mktemp("en-de")
    shutil.copytree(bundled_model(), place, ignore=shutil.ignore_patterns("onnx"), dirs_exist_ok=True)
    return ServedModel.load("en-de", place)


@pytest.fixture(scope="module")
def client(embedded: ServedModel) -> Iterator[TestClient]:
    """Talks to the embedded model and to one that repeats everything."""
    app = create_app({"en-de": embedded, "echo": echo()[1]})
    with TestClient(app, raise_server_exceptions=False) as client:
        yield client


@pytest.fixture
def gated() -> Iterator[tuple[TestClient, Echo]]:
    """Talks to a model that can be stopped, with a short queue and little patience."""
    model, served = echo()
    with TestClient(create_app({"echo": served}, Limits(queue=2, timeout=0.3))) as client:
        yield client, model
        model.gate.set()
