"""Checkpoints of older formats are read, and translate as they did when they were written."""

import json
from pathlib import Path

import pytest
import torch

from pcfgnat.checkpoints.averaging import averaged
from pcfgnat.checkpoints.checkpoint import Checkpoint
from pcfgnat.checkpoints.formats import lifted, load_metadata
from pcfgnat.checkpoints.metadata import DecodingDefaults
from pcfgnat.config import ConfigError
from pcfgnat.decoding import Request, parse_strategy
from pcfgnat.runtimes.torch import torch_runtime
from pcfgnat.storage.toml import load_toml

FORMAT_1 = Path(__file__).parent / "format1"
EXPECTED = json.loads((FORMAT_1 / "translations.json").read_text(encoding="utf-8"))
NETWORKS = {"vanilla": "slots"}


@pytest.mark.parametrize("name", EXPECTED["translations"])
def test_format_1_translates_as_it_did(name: str) -> None:
    checkpoint = Checkpoint.open(FORMAT_1 / name)
    decoding = checkpoint.metadata.decoding
    runtime = torch_runtime(checkpoint.network())
    request = Request(length_penalty=decoding.length_penalty)
    found = parse_strategy(decoding.strategy, runtime).decode(runtime, EXPECTED["sources"], request)
    assert [list(hypotheses[0].ids) for hypotheses in found] == EXPECTED["translations"][name]


@pytest.mark.parametrize("name", EXPECTED["translations"])
def test_settings_of_the_objective_leave_the_architecture(name: str) -> None:
    metadata = Checkpoint.open(FORMAT_1 / name).metadata
    assert metadata.format == 2
    assert metadata.network_name == NETWORKS.get(name, name)
    assert not {"glancing", "label_smoothing", "length_weight"} & metadata.network.keys()
    objective = metadata.training["objective"]
    assert objective["name"] == ("cross_entropy" if name == "autoregressive" else "likelihood")
    assert metadata.training["steps"] == 7


def test_facts_are_kept() -> None:
    autoregressive = Checkpoint.open(FORMAT_1 / "autoregressive").metadata
    assert autoregressive.decoding == DecodingDefaults("beam:size=4", 1.2)
    assert autoregressive.training["objective"] == {"name": "cross_entropy", "label_smoothing": 0.2}
    pcfg = Checkpoint.open(FORMAT_1 / "pcfg").metadata
    assert pcfg.decoding == DecodingDefaults("viterbi", 1.2)
    assert pcfg.training["objective"]["glancing"]["shortlist"] == 5
    assert pcfg.languages.target == "de"


def test_equal_networks_can_be_averaged_whatever_they_were_trained_with(tmp_path: Path) -> None:
    original = FORMAT_1 / "pcfg"
    other = tmp_path / "other"
    other.mkdir()
    for path in original.rglob("*"):
        if path.is_file():
            copy = other / path.relative_to(original)
            copy.parent.mkdir(exist_ok=True)
            copy.write_bytes(path.read_bytes())
    text = (other / "checkpoint.toml").read_text(encoding="utf-8")
    changed = text.split("\n", 1)[1].replace("first = 0.4", "first = 0.1")  # without its seal
    assert changed != text.split("\n", 1)[1]
    (other / "checkpoint.toml").write_text(changed, encoding="utf-8")
    mean, weights = averaged([original, other]), Checkpoint.open(original).weights()
    assert all(torch.equal(mean[name], weight) for name, weight in weights.items())


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("model", 3, "model must be a string, got 3"),
        ("config", [], "config must be a table, got []"),
        (
            "search",
            {"strategy": 1},
            "search must have strategy, length_penalty and beam_size, got strategy 1",
        ),
        ("surprise", 1, "unknown key 'surprise'; format 1 has format, version, model"),
    ],
)
def test_bad_metadata_of_format_1_is_named(key: str, value: object, message: str) -> None:
    data = load_toml(FORMAT_1 / "ctc" / "checkpoint.toml")
    with pytest.raises(ConfigError) as caught:
        lifted({**data, key: value})
    assert message in str(caught.value)


def test_an_unknown_format_is_named(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.toml"
    path.write_text("format = 9\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="format must be 1 or 2, which this version reads, got 9"):
        load_metadata(path)
