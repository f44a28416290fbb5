"""Small checkpoints of random weights and prepared text, made once for all tests of the commands."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch

from pcfgnat.checkpoints.checkpoint import describe, save_checkpoint
from pcfgnat.checkpoints.metadata import DecodingDefaults, Languages
from pcfgnat.networks import AutoregressiveConfig, AutoregressiveNetwork, Network, PCFGConfig, PCFGNetwork
from pcfgnat.nn import LinkConfig, TransformerConfig
from pcfgnat.text import (
    LearnSettings,
    Prepared,
    PrepareSettings,
    SentencePieceTokenizer,
    SubwordTokenizer,
    Tokenizer,
    prepare,
)
from tests.text.bilingual import sentences, write_lines, write_pair

SMALL = TransformerConfig(
    layers_encoder=1, layers_decoder=1, width=16, ffn=24, heads=2, dropout=0.0, max_positions=60
)


@dataclass(frozen=True)
class World:
    """Where everything is."""

    root: Path
    teacher: Path  # an autoregressive model
    other: Path  # another one of the same kind
    grammar: Path  # a pcfg model
    marked: Path  # an autoregressive model of text split with @@
    prepared: Path
    prepared_marked: Path


def short_sentences(count: int) -> list[tuple[str, str]]:
    return [pair for pair in sentences(4 * count, seed=count) if len(pair[0]) < 60][:count]


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep converted teachers out of the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PCFGNAT_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    root = tmp_path_factory.mktemp("world")
    for name, count in (("train", 60), ("valid", 6), ("test", 8)):
        write_pair(root, name, short_sentences(count))
    prepare(_settings(root, root / "prepared"))
    types = sorted({word for pair in short_sentences(60) for text in pair for word in text.split()})
    vocabulary = write_lines(root / "types.txt", types)
    prepare(replace(_settings(root, root / "prepared-marked"), subword_vocabulary=vocabulary))
    tokenizer = Prepared.open(root / "prepared").tokenizer
    assert isinstance(tokenizer, SentencePieceTokenizer)
    _save(root / "teacher", _autoregressive(tokenizer, 0), "autoregressive", tokenizer)
    _save(root / "other", _autoregressive(tokenizer, 1), "autoregressive", tokenizer)
    torch.manual_seed(2)
    grammar = PCFGNetwork(
        PCFGConfig(SMALL, upsampling=2, rules=LinkConfig(heads=2)), tokenizer.vocabulary_size
    )
    _save(root / "grammar", grammar, "pcfg", tokenizer)
    subwords = SubwordTokenizer.from_file(vocabulary)
    _save(root / "marked", _autoregressive(subwords, 3), "autoregressive", subwords)
    places = [
        root / name for name in ("teacher", "other", "grammar", "marked", "prepared", "prepared-marked")
    ]
    return World(root, *places)


def _settings(root: Path, output: Path) -> PrepareSettings:
    from pcfgnat.text import TextPair

    train, valid, test = (
        TextPair.from_prefix(root / name, "de", "zh") for name in ("train", "valid", "test")
    )
    return PrepareSettings(
        output, (train,), valid, test, "de", "zh", learn=LearnSettings(vocabulary_size=150)
    )


def _autoregressive(tokenizer: Tokenizer, seed: int) -> AutoregressiveNetwork:
    torch.manual_seed(seed)
    model = AutoregressiveNetwork(AutoregressiveConfig(SMALL), tokenizer.vocabulary_size)
    for weight in model.parameters():
        weight.data *= 1.5  # to have opinions
    return model


def _save(directory: Path, network: Network, name: str, tokenizer: Tokenizer) -> None:
    strategy = "beam:size=2" if name == "autoregressive" else network.default_strategy
    metadata = describe(name, network.config, tokenizer.vocabulary_size, DecodingDefaults(strategy))
    save_checkpoint(directory, network, tokenizer, replace(metadata, languages=Languages("de", "zh")))
