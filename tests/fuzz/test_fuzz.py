"""A few seconds of fuzzing, and every finding of longer runs."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.mutations import mutated
from tests.fuzz.run import CORPUS, tried
from tests.fuzz.targets import TARGETS, Target, Weights

FINDINGS = sorted(path for path in CORPUS.glob("*/*") if path.is_file())
# each builds a network, or loads a graph
SLOW = {"Metadata": 10, "OldMetadata": 10, "ExportedMetadata": 20, "ExportedTable": 20, "Weights": 10}


@pytest.fixture(params=TARGETS, ids=lambda kind: kind.__name__.lower())
def target(request: pytest.FixtureRequest) -> Iterator[Target]:
    chosen: Target = request.param()
    yield chosen
    chosen.close()


def test_contents_that_are_altered(target: Target) -> None:
    seeds = target.seeds()

    @settings(max_examples=SLOW.get(type(target).__name__, 60), suppress_health_check=list(HealthCheck))
    @given(st.sampled_from(seeds), st.integers(0, 2**32))
    def alter(seed: bytes, number: int) -> None:
        finding = tried(target, mutated(seed, random.Random(number)))
        assert finding is None, finding

    for seed in seeds:
        target.check(seed)  # what is not altered is read
    alter()


@pytest.mark.parametrize("path", FINDINGS, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_earlier_findings(path: Path) -> None:
    (kind,) = [kind for kind in TARGETS if kind.__name__.lower() == path.parent.name]
    chosen = kind()
    chosen.seeds()
    finding = tried(chosen, path.read_bytes())
    chosen.close()
    assert finding is None, finding


def test_a_finding_would_be_found() -> None:
    class Careless(Weights):
        def check(self, content: bytes) -> None:
            raise KeyError("x")

    careless = Careless()
    assert "KeyError" in str(tried(careless, b""))
    careless.close()
