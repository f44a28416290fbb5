"""Checkpoints come back as they were written, and damage is found."""

import json
import os
import shutil
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from pcfgnat.checkpoints.checkpoint import Checkpoint, describe, save_checkpoint
from pcfgnat.checkpoints.metadata import (
    Card,
    CheckpointError,
    DecodingDefaults,
    Languages,
    Metadata,
    sha256_of,
)
from pcfgnat.checkpoints.weights import load_weights, own_weights
from pcfgnat.decoding import Request, parse_strategy
from pcfgnat.networks import AutoregressiveConfig, AutoregressiveNetwork
from pcfgnat.nn import TransformerConfig
from pcfgnat.runtimes.torch import torch_runtime
from pcfgnat.storage.files import replaced_directory
from pcfgnat.storage.toml import SEAL, load_toml, sealed_toml
from pcfgnat.text import LearnSettings, SentencePieceTokenizer, Tokenizer
from tests.text.bilingual import sentences, tree

CONFIG = AutoregressiveConfig(TransformerConfig(1, 1, width=8, ffn=16, heads=2, max_positions=64))
DECODING = DecodingDefaults("beam:size=3", length_penalty=1.2)
WEIGHTS = "model.safetensors"


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    texts = [text for pair in sentences(200) for text in pair]
    return SentencePieceTokenizer.learn(texts, LearnSettings(vocabulary_size=200))


def network(seed: int = 0, vocabulary: int = 200) -> AutoregressiveNetwork:
    torch.manual_seed(seed)
    return AutoregressiveNetwork(CONFIG, vocabulary).eval()


def described(vocabulary: int = 200) -> Metadata:
    return describe("autoregressive", CONFIG, vocabulary, DECODING)


@pytest.fixture
def saved(tokenizer: Tokenizer, tmp_path: Path) -> Path:
    save_checkpoint(tmp_path / "saved", network(), tokenizer, described())
    return tmp_path / "saved"


def rewritten(path: Path, old: str, new: str) -> None:
    """Change the text of a file, and remove its seal."""
    seal, text = path.read_text(encoding="utf-8").split("\n", 1)
    assert seal.startswith(SEAL)
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def resealed(directory: Path) -> None:
    """Make the checksum right again, as someone who means harm would."""
    path = directory / "checkpoint.toml"
    plain = load_toml(path) | {"weights_sha256": sha256_of(directory / WEIGHTS)}
    path.write_text(sealed_toml(plain), encoding="utf-8")


def test_a_checkpoint_is_what_was_saved(saved: Path, tokenizer: Tokenizer) -> None:
    checkpoint = Checkpoint.open(str(saved))
    assert checkpoint.tokenizer.sha256 == tokenizer.sha256
    assert replace(checkpoint.metadata, weights_sha256="") == described()
    assert checkpoint.metadata.decoding == DECODING
    loaded, original = checkpoint.network(), network()
    assert not loaded.training
    for name, weight in own_weights(original).items():
        assert torch.equal(own_weights(loaded)[name], weight)
    source, request = [tokenizer.encode("Der Bär läuft.")], Request(length_penalty=DECODING.length_penalty)
    runtimes = [torch_runtime(loaded), torch_runtime(original)]
    found = [parse_strategy(DECODING.strategy, each).decode(each, source, request) for each in runtimes]
    assert found[0] == found[1]


def test_loading_draws_no_random_numbers(saved: Path) -> None:
    before = torch.get_rng_state()
    Checkpoint.open(saved).network()
    assert torch.equal(torch.get_rng_state(), before)


def test_it_has_only_plain_files(saved: Path) -> None:
    assert set(tree(saved)) == {
        *(WEIGHTS, "checkpoint.toml", "README.md"),
        *("tokenizer/tokenizer.model", "tokenizer/tokenizer.toml"),
    }


def test_half_precision_on_the_disk(saved: Path, tokenizer: Tokenizer, tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "half", network(), tokenizer, described(), torch.float16)
    half = Checkpoint.open(tmp_path / "half")
    assert (tmp_path / "half" / WEIGHTS).stat().st_size < 0.7 * (saved / WEIGHTS).stat().st_size
    for name, weight in own_weights(network()).items():
        loaded = own_weights(half.network())[name]
        assert loaded.dtype == torch.float32
        assert torch.equal(loaded, weight.half().float())
    assert own_weights(half.network(torch.bfloat16))["embeddings.tokens.weight"].dtype == torch.bfloat16


def test_tied_weights_are_stored_once_and_stay_tied(tokenizer: Tokenizer, tmp_path: Path) -> None:
    tied = network()
    tied.encoder.layers[0].feed_forward = tied.decoder.layers[0].feed_forward
    names = [name for name in own_weights(tied) if "feed_forward" in name]
    assert names
    assert all(name.startswith("encoder") for name in names)
    assert len(tied.state_dict()) == len(own_weights(tied)) + len(names)
    save_checkpoint(tmp_path / "tied", tied, tokenizer, described())
    other = network(1)
    other.encoder.layers[0].feed_forward = other.decoder.layers[0].feed_forward
    load_weights(other, Checkpoint.open(tmp_path / "tied").weights(), "tied")
    for name, weight in tied.state_dict().items():
        assert torch.equal(other.state_dict()[name], weight)


def test_the_card_tells_what_is_known_and_what_is_not(tokenizer: Tokenizer, tmp_path: Path) -> None:
    known = replace(
        described(),
        languages=Languages("German", "Chinese"),
        card=Card(title="Bears", licence="CC0", data="Made up."),
        training={"steps": 7, "settings": {"rate": 1}},
    )
    save_checkpoint(tmp_path / "bears", network(), tokenizer, known)
    card = (tmp_path / "bears" / "README.md").read_text(encoding="utf-8")
    for line in (
        "# Bears",
        "- languages: German → Chinese",
        "- steps: 7",
        "CC0",
        "Made up.",
        "- strategy: beam:size=3",
        "- length penalty: 1.2",
    ):
        assert line in card.splitlines()
    assert "## Limits\n\nNot stated." in card
    assert 'Translator.load("bears")' in card
    assert Checkpoint.open(tmp_path / "bears").metadata.training == known.training


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-9])


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-100] ^= 4
    path.write_bytes(content)


@pytest.mark.parametrize("damage", [cut, flip, lambda path: path.write_bytes(b"")])
def test_damaged_weights_are_found(saved: Path, damage: Callable[[Path], None]) -> None:
    damage(saved / WEIGHTS)
    with pytest.raises(CheckpointError, match=r"model.safetensors is damaged: its sha256 must be \w+, got"):
        Checkpoint.open(saved).network()


def header_that_lies(path: Path) -> None:
    """Let the header say that a tensor is larger than the file."""
    content = path.read_bytes()
    (size,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + size])
    entry = next(value for name, value in header.items() if name != "__metadata__")
    entry["shape"] = [10**6, *entry["shape"]]
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + content[8 + size :])


def endless_header(path: Path) -> None:
    path.write_bytes(struct.pack("<Q", 2**62) + path.read_bytes()[8:])


@pytest.mark.parametrize(
    "damage", [cut, header_that_lies, endless_header, lambda path: path.write_bytes(b"PK")]
)
def test_damage_with_the_right_checksum_is_found_too(saved: Path, damage: Callable[[Path], None]) -> None:
    damage(saved / WEIGHTS)
    resealed(saved)
    with pytest.raises(CheckpointError, match=r"model.safetensors is damaged, or no safetensors file: "):
        Checkpoint.open(saved).network()


def rename_one(weights: dict[str, torch.Tensor]) -> None:
    weights["strange"] = weights.pop("embeddings.tokens.weight")


def add_one(weights: dict[str, torch.Tensor]) -> None:
    weights["strange"] = torch.zeros(1)


def widen_one(weights: dict[str, torch.Tensor]) -> None:
    weights["embeddings.tokens.weight"] = torch.zeros(200, 9)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (rename_one, r"must have embeddings\.tokens\.weight, one of \d+ weights, but lacks it"),
        (add_one, r"has strange, which is none of the model's \d+ weights"),
        (widen_one, r"embeddings\.tokens\.weight must have shape \(200, 8\), got \(200, 9\)"),
    ],
)
def test_weights_of_another_model(
    saved: Path, change: Callable[[dict[str, torch.Tensor]], None], message: str
) -> None:
    weights = load_file(saved / WEIGHTS)
    change(weights)
    save_file(weights, saved / WEIGHTS)
    resealed(saved)
    with pytest.raises(CheckpointError, match=message):
        Checkpoint.open(saved).network()


@pytest.mark.parametrize("name", [WEIGHTS, "checkpoint.toml", "tokenizer"])
def test_a_missing_file(saved: Path, name: str) -> None:
    path = saved / name
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    with pytest.raises(CheckpointError, match=f"must be a checkpoint, but it has no {name}"):
        Checkpoint.open(saved)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('name = "autoregressive"', 'name = "rnn"', "network.name must be one of autor.*, got 'rnn'"),
        ('name = "autoregressive"\n', "", "network.name must be one of autoregressive, .*, got ''"),
        ("vocabulary = 200", "vocabulary = 201", "vocabulary must be 201, got 200 of the tokenizer"),
        ("format = 2", "format = 3", "format must be 1 or 2, which this version reads, got 3"),
        (
            "format = 2",
            "format = 2\npickle = true",
            "unknown key 'pickle'; valid keys: format",
        ),
        ("format = 2", "format = 1", "missing key model, which format 1 has"),
        ("length_penalty = 1.2", "length_penalty = 'x'", "decoding.length_penalty must be a number, got 'x'"),
        ("length_penalty = 1.2", "length_penalty = 101", "length_penalty must be in -100 … 100, got 101"),
        ("format = 2", "format = ", "is not TOML"),
    ],
)
def test_metadata_that_cannot_be_used(saved: Path, old: str, new: str, message: str) -> None:
    rewritten(saved / "checkpoint.toml", old, new)
    with pytest.raises(CheckpointError, match=message):
        Checkpoint.open(saved)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "width = 8",
            "widht = 8",
            "unknown key 'network.transformer.widht'; did you mean network.transformer.width",
        ),
        ("heads = 2", "heads = 3", "width must be a multiple of heads = 3, got 8"),
    ],
)
def test_settings_that_the_network_does_not_take(saved: Path, old: str, new: str, message: str) -> None:
    rewritten(saved / "checkpoint.toml", old, new)
    with pytest.raises(CheckpointError, match=message):
        Checkpoint.open(saved).network()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "width = 8",
            f"width = {10**7}",
            r"embeddings.tokens.weight must have shape \(200, 10000000\), got",
        ),
        ("width = 8", f"width = {10**6}", r"embeddings.tokens.weight must have shape \(200, 1000000\), got"),
        ("width = 8", f"width = {10**9}", "no such network: "),
        ("width = 8", f"width = {10**18}", "no such network: "),
        ("width = 8", f"width = {10**30}", "no such network: "),
        (
            "layers_encoder = 1",
            f"layers_encoder = {10**9}",
            r"must have at most \d+ layers, .*, got 1000000001",
        ),
        (
            "max_positions = 64",
            f"max_positions = {10**12}",
            r"positions.weight must have shape \(1000000000000, 8",
        ),
    ],
)
def test_absurd_sizes_take_no_memory(saved: Path, old: str, new: str, message: str) -> None:
    rewritten(saved / "checkpoint.toml", old, new)
    with pytest.raises(CheckpointError, match=message):
        Checkpoint.open(saved).network()


def test_weights_must_be_floating_point_numbers(saved: Path) -> None:
    weights = load_file(saved / WEIGHTS)
    weights["embeddings.tokens.weight"] = weights["embeddings.tokens.weight"].to(torch.int64)
    save_file(weights, saved / WEIGHTS)
    resealed(saved)
    with pytest.raises(CheckpointError, match=r"tokens.weight must be like torch.float32, got torch.int64"):
        Checkpoint.open(saved).network()


@pytest.mark.parametrize("name", ["checkpoint.toml", "tokenizer/tokenizer.toml"])
def test_altered_metadata_is_found(saved: Path, name: str) -> None:
    path = saved / name
    path.write_bytes(path.read_bytes().replace(b"200", b"201", 1))
    with pytest.raises(
        CheckpointError, match=r"toml is damaged: its sha256 must be \w+, got \w+; if it was ed"
    ):
        Checkpoint.open(saved)


def test_pipes_are_not_opened(saved: Path) -> None:
    (saved / WEIGHTS).unlink()
    os.mkfifo(saved / WEIGHTS)
    with pytest.raises(CheckpointError, match=r"must be a checkpoint, but it has no model.safetensors"):
        Checkpoint.open(saved)


def test_what_was_replaced_comes_back_if_the_new_one_never_came(saved: Path, tokenizer: Tokenizer) -> None:
    saved.rename(saved.with_name(".saved.old"))  # as after a kill between the two renamings
    with pytest.raises(CheckpointError, match="vocabulary"), replaced_directory(saved, "checkpoint.toml"):
        raise CheckpointError("vocabulary")
    assert Checkpoint.open(saved).tokenizer.sha256 == tokenizer.sha256
    assert [path.name for path in saved.parent.iterdir()] == ["saved"]


def test_a_damaged_tokenizer(saved: Path) -> None:
    flip(saved / "tokenizer" / "tokenizer.model")
    with pytest.raises(CheckpointError, match=r"tokenizer.model is damaged: its sha256 must be"):
        Checkpoint.open(saved)


def test_the_tokenizer_must_fit_when_saving(tokenizer: Tokenizer, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="vocabulary must be 201, got 200 of the tokenizer"):
        save_checkpoint(tmp_path / "new", network(vocabulary=201), tokenizer, described(201))
    assert not list(tmp_path.iterdir())


def test_a_checkpoint_is_replaced_as_a_whole(saved: Path, tokenizer: Tokenizer) -> None:
    (saved / "left over").write_text("", encoding="utf-8")
    save_checkpoint(saved, network(1), tokenizer, described())
    assert torch.equal(
        own_weights(Checkpoint.open(saved).network())["embeddings.tokens.weight"],
        network(1).embeddings.tokens.weight,
    )
    assert not (saved / "left over").exists()
    assert [path.name for path in saved.parent.iterdir()] == ["saved"]


def test_what_is_no_checkpoint_is_not_replaced(tokenizer: Tokenizer, tmp_path: Path) -> None:
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "one").write_text("dear", encoding="utf-8")
    with pytest.raises(CheckpointError, match=r"must not exist, be empty or have a checkpoint\.toml to"):
        save_checkpoint(tmp_path / "letters", network(), tokenizer, described())
    with pytest.raises(CheckpointError, match=r"cannot write .*new: (Not a directory|File exists)"):
        save_checkpoint(tmp_path / "letters" / "one" / "new", network(), tokenizer, described())
    assert tree(tmp_path) == {"letters/one": b"dear"}
