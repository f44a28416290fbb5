"""CTranslate2 as a runtime: beam and greedy search find what torch's find."""

from pathlib import Path

import pytest

from pcfgnat.checkpoints.metadata import CheckpointError
from pcfgnat.decoding import DecodingError, Request, parse_strategy, strategies_of
from pcfgnat.export import ctranslate2 as export
from pcfgnat.grammar.search import Hypothesis
from pcfgnat.networks import AutoregressiveNetwork, Batch
from pcfgnat.runtimes.ctranslate2 import CTranslate2Runtime
from pcfgnat.runtimes.torch import torch_runtime
from pcfgnat.storage.cache import cache_directory
from pcfgnat.storage.files import StorageError
from pcfgnat.structures import Padded
from pcfgnat.text import LearnSettings, SentencePieceTokenizer
from tests.export.test_ctranslate2 import SMALL, TEXTS, random_network, saved
from tests.text.bilingual import sentences


@pytest.fixture(scope="module")
def tokenizer() -> SentencePieceTokenizer:
    lines = [text for pair in sentences(200) for text in pair]
    return SentencePieceTokenizer.learn(lines, LearnSettings(vocabulary_size=150))


@pytest.fixture(scope="module")
def network(tokenizer: SentencePieceTokenizer) -> AutoregressiveNetwork:
    return random_network(SMALL, 0.2, tokenizer.vocabulary_size)


@pytest.fixture(scope="module")
def checkpoint(
    network: AutoregressiveNetwork,
    tokenizer: SentencePieceTokenizer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    return saved(tmp_path_factory.mktemp("model") / "ours", network, "autoregressive", tokenizer)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PCFGNAT_CACHE", str(tmp_path / "cache"))


def ended(found: list[list[Hypothesis]], limits: list[int]) -> list[int]:
    """Sentences that were not cut at their limit, where the two differ."""
    return [i for i, own in enumerate(found) if len(own[0].ids) < limits[i] - 2]


@pytest.mark.parametrize("strategy", ["greedy", "beam:size=5", "beam:size=2"])
def test_finds_what_torch_finds(
    strategy: str, checkpoint: Path, network: AutoregressiveNetwork, tokenizer: SentencePieceTokenizer
) -> None:
    theirs = CTranslate2Runtime(export.converted(checkpoint, "float32"), tokenizer, threads=2)
    ours, sources = torch_runtime(network), tokenizer.encode_all(TEXTS)
    assert set(strategies_of(theirs)) == {"beam", "greedy"}
    assert theirs.max_source_length == ours.max_source_length
    request = Request(length_penalty=1e-6)
    expected = parse_strategy(strategy, ours).decode(ours, sources, request)
    found = parse_strategy(strategy, theirs).decode(theirs, sources, request)
    same = ended(expected, [2 * len(source) + 10 for source in sources])
    assert len(same) >= 14
    assert [found[i][0].ids for i in same] == [expected[i][0].ids for i in same]
    assert [found[i][0].score for i in same] == pytest.approx([expected[i][0].score for i in same], abs=1e-3)


def test_scores_are_log_probabilities_whatever_the_penalty(
    checkpoint: Path, network: AutoregressiveNetwork, tokenizer: SentencePieceTokenizer
) -> None:
    theirs = CTranslate2Runtime(export.converted(checkpoint, "float32"), tokenizer, threads=1)
    request, sources = Request(length_penalty=1.0, results=3), tokenizer.encode_all(TEXTS)
    found = parse_strategy("beam:size=4", theirs).decode(theirs, sources, request)
    limits = [2 * len(source) + 10 for source in sources]
    whole = [
        (source, one)
        for source, own, limit in zip(sources, found, limits, strict=True)
        for one in own
        if len(one.ids) < limit - 2
    ]
    read, wrote = (Padded.from_lists(side) for side in ([s for s, _ in whole], [one.ids for _, one in whole]))
    exact = network.log_prob(Batch(read, wrote)).tolist()
    assert [one.score for _, one in whole] == pytest.approx(exact, abs=1e-3)
    for own in found:
        ranks = [one.normalised_score(1.0) for one in own]
        assert ranks == sorted(ranks, reverse=True)
        assert len(own) == 3


def test_a_translation_does_not_depend_on_its_neighbours(
    checkpoint: Path, tokenizer: SentencePieceTokenizer
) -> None:
    runtime = CTranslate2Runtime(export.converted(checkpoint, "float32"), tokenizer, threads=2)
    sources, strategy = tokenizer.encode_all(TEXTS), parse_strategy("beam:size=3", runtime)
    together = strategy.decode(runtime, sources, Request())
    assert together == strategy.decode(runtime, sources, Request())
    alone = [strategy.decode(runtime, [source], Request())[0] for source in sources]
    assert [own[0].ids for own in together] == [own[0].ids for own in alone]
    assert strategy.decode(runtime, [], Request()) == []
    for limit in (2, 3, 5):
        short = strategy.decode(runtime, sources, Request(max_length=limit))
        assert all(len(own[0].ids) <= limit for own in short)


def test_is_converted_once(
    checkpoint: Path, tokenizer: SentencePieceTokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, small = export.converted(checkpoint, "float32"), export.converted(checkpoint, "int8")
    assert first != small
    assert first.parent.parent == cache_directory()
    before = (first / "model.bin").stat().st_mtime_ns
    assert export.converted(checkpoint, "float32") == first
    assert (first / "model.bin").stat().st_mtime_ns == before
    assert (small / "model.bin").stat().st_size < (first / "model.bin").stat().st_size


def test_what_cannot_be_used_is_named(
    checkpoint: Path, tokenizer: SentencePieceTokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = export.converted(checkpoint, "float32")
    (place / "model.bin").write_bytes(b"")
    with pytest.raises(CheckpointError, match="must be a model of CTranslate2: RuntimeError: "):
        CTranslate2Runtime(place, tokenizer, threads=1)
    with pytest.raises(CheckpointError, match="must be a model of CTranslate2: FileNotFoundError: "):
        CTranslate2Runtime(tmp_path, tokenizer, threads=1)
    monkeypatch.setenv("PCFGNAT_CACHE", "/proc/nowhere")
    with pytest.raises(StorageError, match=r"cannot write to the cache /proc/nowhere: .*; set PCFGNAT_CACHE"):
        cache_directory()


def test_a_beam_has_a_size(checkpoint: Path, tokenizer: SentencePieceTokenizer) -> None:
    runtime = CTranslate2Runtime(export.converted(checkpoint, "float32"), tokenizer, threads=1)
    with pytest.raises(DecodingError, match="size must be at least 1, got 0"):
        parse_strategy("beam:size=0", runtime)
    with pytest.raises(DecodingError, match="the strategy must be one of beam, greedy for this model"):
        parse_strategy("sample", runtime)
