"""The mean of several checkpoints, and what has none."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from pcfgnat.checkpoints.averaging import average_checkpoints
from pcfgnat.checkpoints.checkpoint import Checkpoint, describe, save_checkpoint
from pcfgnat.checkpoints.metadata import CheckpointError, DecodingDefaults, Metadata
from pcfgnat.checkpoints.weights import own_weights
from pcfgnat.networks import AutoregressiveConfig, AutoregressiveNetwork
from pcfgnat.nn import TransformerConfig
from pcfgnat.text import SubwordTokenizer

CONFIG = AutoregressiveConfig(TransformerConfig(1, 1, width=8, ffn=16, heads=2, max_positions=64))
DECODING = DecodingDefaults("beam:size=3", length_penalty=1.2)
TOKENIZER = SubwordTokenizer("".join(f"word{i}\n" for i in range(196)).encode())


def network(seed: int = 0) -> AutoregressiveNetwork:
    torch.manual_seed(seed)
    return AutoregressiveNetwork(CONFIG, 200).eval()


def described(config: AutoregressiveConfig = CONFIG) -> Metadata:
    return describe("autoregressive", config, 200, DECODING)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    save_checkpoint(tmp_path / "saved", network(), TOKENIZER, described())
    return tmp_path / "saved"


def test_an_average(saved: Path, tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "other", network(1), TOKENIZER, described())
    average_checkpoints([saved, tmp_path / "other"], tmp_path / "mean")
    mean = Checkpoint.open(tmp_path / "mean")
    assert mean.metadata.training == {"average_of": 2}
    for name, weight in own_weights(mean.network()).items():
        expected = (own_weights(network(0))[name].double() + own_weights(network(1))[name].double()) / 2
        assert torch.equal(weight, expected.float())


def test_different_networks_have_no_average(saved: Path, tmp_path: Path) -> None:
    other = SubwordTokenizer("".join(f"w{i}\n" for i in range(196)).encode())
    save_checkpoint(tmp_path / "words", network(), other, described())
    relu = replace(CONFIG, transformer=replace(CONFIG.transformer, activation="relu"))
    save_checkpoint(tmp_path / "relu", network(), TOKENIZER, described(relu))
    differing = {
        "words": f"tokenizer ('{TOKENIZER.sha256}' and '{other.sha256}')",
        "relu": "network.transformer.activation ('gelu' and 'relu')",
    }
    for name, what in differing.items():
        with pytest.raises(CheckpointError) as caught:
            average_checkpoints([saved, tmp_path / name], tmp_path / "mean")
        places = f"{saved} and {tmp_path / name}"
        expected = f"checkpoints to average must be of one network, but {places} differ in {what}"
        assert str(caught.value) == expected
    with pytest.raises(CheckpointError, match="at least one checkpoint must be given to average, got none"):
        average_checkpoints([], tmp_path / "mean")
    assert not (tmp_path / "mean").exists()


def test_settings_that_matter_in_training_only_may_differ(saved: Path, tmp_path: Path) -> None:
    wet = replace(CONFIG, transformer=replace(CONFIG.transformer, dropout=0.3, attention_dropout=0.2))
    save_checkpoint(tmp_path / "wet", network(), TOKENIZER, described(wet))
    average_checkpoints([saved, tmp_path / "wet"], tmp_path / "mean", torch.float16, length_penalty=0.7)
    mean = Checkpoint.open(tmp_path / "mean")
    assert mean.metadata.network == Checkpoint.open(saved).metadata.network
    assert mean.metadata.decoding == replace(DECODING, length_penalty=0.7)
    assert {weight.dtype for weight in mean.weights().values()} == {torch.float16}
