"""A small prepared corpus, made once for all tests."""

from pathlib import Path

import pytest

from pcfgnat.text import LearnSettings, PrepareSettings, prepare
from tests.text.bilingual import sentences, write_pair


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepared(tmp_path_factory.mktemp("corpus"))


def prepared(directory: Path, seed: int = 0) -> Path:
    pairs = [pair for pair in sentences(400, seed) if len(pair[0]) < 80]
    settings = PrepareSettings(
        output=directory / "data",
        train=(write_pair(directory, "train", pairs[:120]),),
        valid=write_pair(directory, "valid", pairs[120:126]),
        source_language="de",
        target_language="zh",
        learn=LearnSettings(vocabulary_size=300),
    )
    prepare(settings)
    return settings.output
