"""A tokenizer that was really learnt, once for all tests."""

import pytest

from pcfgnat.text.tokenizer import LearnSettings, SentencePieceTokenizer
from tests.text.bilingual import sentences

LEARN = LearnSettings(vocabulary_size=300)


@pytest.fixture(scope="session")
def tokenizer() -> SentencePieceTokenizer:
    return SentencePieceTokenizer.learn([text for pair in sentences(400) for text in pair], LEARN)
