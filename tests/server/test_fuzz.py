"""The API against what schemathesis makes of its description: whatever comes, no mistake of the server."""

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import CheckFunction
from schemathesis.specs.openapi.checks import positive_data_acceptance

from pcfgnat.decoding.constraints import Constraints
from pcfgnat.server import ServedModel, create_app
from tests.server.served import echo, running

# Names of models and strategies are known only to the server: most well-formed ones are refused.
EXCLUDED: list[CheckFunction] = [positive_data_acceptance]
QUIET = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
POSTS = ["/translate", "/explain"]
GETS = ["/models", "/healthz", "/metrics"]


@pytest.fixture(scope="module")
def api(embedded: ServedModel) -> Iterator[schemathesis.BaseSchema]:
    """The description of a server that runs."""
    embedded.translator("Hello.", constraints=Constraints(forbid=("a",)))  # compiles ahead of the requests
    with running(create_app({"echo": echo()[1], "en-de": embedded})) as address:
        yield schemathesis.openapi.from_url(f"{address}/openapi.json")


def fuzz(operation: Any, mode: GenerationMode, examples: int) -> None:
    """Call an operation with all kinds of data; every answer must be one that the description knows."""

    @settings(max_examples=examples, suppress_health_check=QUIET, database=None)
    @given(case=operation.as_strategy(generation_mode=mode))
    def ask(case: Any) -> None:
        case.call_and_validate(excluded_checks=EXCLUDED, timeout=60)

    ask()


@pytest.mark.parametrize("mode", list(GenerationMode))
@pytest.mark.parametrize("path", POSTS)
def test_a_little_of_everything(api: schemathesis.BaseSchema, path: str, mode: GenerationMode) -> None:
    fuzz(api[path]["POST"], mode, examples=25)


@pytest.mark.parametrize("path", GETS)
def test_questions_without_a_body(api: schemathesis.BaseSchema, path: str) -> None:
    fuzz(api[path]["GET"], GenerationMode.POSITIVE, examples=2)


@pytest.mark.slow
@pytest.mark.parametrize("mode", list(GenerationMode))
@pytest.mark.parametrize("path", POSTS)
def test_much_of_everything(api: schemathesis.BaseSchema, path: str, mode: GenerationMode) -> None:
    fuzz(api[path]["POST"], mode, examples=3000)
