"""From a directory to a translator, and what a job that may be resumed depends on."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pcfgnat.checkpoints.checkpoint import Checkpoint
from pcfgnat.checkpoints.metadata import CheckpointError, DecodingDefaults
from pcfgnat.decoding import Beam
from pcfgnat.export.onnx import ExportSettings, export_onnx, record_shortlist
from pcfgnat.networks import AutoregressiveConfig, AutoregressiveNetwork
from pcfgnat.nn import TransformerConfig
from pcfgnat.runtimes.base import Steps, Tables
from pcfgnat.runtimes.onnx import ExportedOptions, OnnxRuntime, ShortlistFacts
from pcfgnat.runtimes.torch import TorchRuntime, torch_runtime
from pcfgnat.text import SubwordTokenizer
from pcfgnat.text.shortlist import Shortlist
from pcfgnat.translator import TranslateOptions, Translator, bundled_model, describe_model, model_directory
from pcfgnat.translator.loading import BUNDLED
from tests.runtimes.models import save_model

FEW = Shortlist(np.array([7], np.uint32), np.zeros(45, np.int64), np.zeros(0, np.uint32))


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A grammar, with the same model exported inside, in 8 bits and with a shortlist that is good enough."""
    place = save_model(tmp_path / "model", "depth 1")
    export_onnx(place, place / "onnx", ExportSettings(int8=True, shortlist=FEW))
    record_shortlist(place / "onnx", ShortlistFacts(bleu_lost=0.0, sentences=9, tokens=1.0))
    return place


def test_the_bundled_model_or_a_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert bundled_model() == model_directory(None) == BUNDLED
    assert Translator.load()("Hello.").text
    with pytest.raises(CheckpointError, match=r"must be a checkpoint, but it has no checkpoint\.toml"):
        Translator.load(tmp_path)
    monkeypatch.setattr("pcfgnat.translator.loading.BUNDLED", tmp_path / "none")
    with pytest.raises(CheckpointError, match="name a model: this package has no bundled one in"):
        Translator.load()


def test_a_run_directory_is_a_model(checkpoint: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    (run / "best").mkdir(parents=True)
    with pytest.raises(CheckpointError, match=r"run must be a checkpoint, but it has no checkpoint\.toml"):
        Translator.load(run)
    shutil.copytree(checkpoint, run / "final")
    assert model_directory(run) == run / "final"
    assert describe_model(run) == describe_model(checkpoint)
    assert Translator.load(run).job() == Translator.load(checkpoint).job()
    one, other = (Translator.load(place, runtime="torch")("w1 w2") for place in (run, checkpoint))
    assert one == other
    (checkpoint / "final").mkdir()  # a checkpoint stays one, whatever lies in it
    assert model_directory(checkpoint) == checkpoint
    assert model_directory(checkpoint / "onnx") == checkpoint / "onnx"


def test_an_unfinished_run_is_named_as_such(tmp_path: Path) -> None:
    (tmp_path / "config.toml").touch()
    (tmp_path / "state").mkdir()
    with pytest.raises(
        CheckpointError, match="is a training run without a final model: rerun `pcfgnat train`"
    ):
        Translator.load(tmp_path)


def test_a_job_is_all_that_a_translation_depends_on(checkpoint: Path) -> None:
    opened = Checkpoint.open(checkpoint)
    common = {
        "model": opened.metadata.weights_sha256,
        "tokenizer": opened.tokenizer.sha256,
        "strategy": "viterbi",
        "length_penalty": "1.0",
        "results": "1",
    }
    job = Translator.load(checkpoint).job()
    assert job == {**common, "runtime": "onnx", "precision": "int8", "exact": "False"}
    exact = Translator.load(checkpoint, onnx=ExportedOptions(exact=True)).job()
    assert exact == {**job, "exact": "True"}
    assert Translator.load(checkpoint / "onnx").job() == job
    torch = Translator.load(checkpoint, runtime="torch")
    assert torch.job() == {**common, "runtime": "torch", "precision": "float32", "exact": "True"}
    asked = TranslateOptions(strategy="greedy", length_penalty=0.5, results=3, seed=8)
    changed = {"strategy": "greedy", "length_penalty": "0.5", "results": "3"}
    assert torch.with_options(asked).job() == {**torch.job(), **changed}  # the seed changes nothing
    drawn = torch.with_options(replace(asked, strategy="sample")).job()
    assert drawn == {**torch.job(), **changed, "strategy": "sample", "seed": "8"}


def test_settings_of_a_strategy_are_part_of_a_job(tmp_path: Path) -> None:
    for name, strategies in (
        ("slots", {"greedy": "greedy:lengths=1", "greedy:lengths=4": "greedy:lengths=4"}),
        ("ctc", {"beam": "beam:size=10", "beam:size=3": "beam:size=3"}),
    ):
        place = save_model(tmp_path / name, name)
        for asked, recorded in strategies.items():
            options = TranslateOptions(strategy=asked)
            assert Translator.load(place, options=options).job()["strategy"] == recorded


def autoregressive(results: int) -> Translator:
    tokenizer = SubwordTokenizer(b"one\ntwo\nthree")
    config = AutoregressiveConfig(TransformerConfig(1, 1, width=8, ffn=8, heads=2, max_positions=8))
    runtime = torch_runtime(AutoregressiveNetwork(config, tokenizer.vocabulary_size))
    return Translator(runtime, tokenizer, DecodingDefaults("beam:size=2"), TranslateOptions(results=results))


def test_a_beam_is_wide_enough_for_all_results() -> None:
    assert autoregressive(1).strategy == Beam(2)
    assert autoregressive(4).strategy == Beam(4)
    assert len(autoregressive(4)("one two").candidates) == 4


def test_only_what_was_loaded_can_be_resumed() -> None:
    with pytest.raises(ValueError, match="only a translator of a model that was loaded can be resumed"):
        autoregressive(1).job()


def test_runtimes_offer_what_networks_have(checkpoint: Path) -> None:
    onnx, torch = Translator.load(checkpoint).runtime, Translator.load(checkpoint, runtime="torch").runtime
    assert isinstance(onnx, OnnxRuntime)
    assert isinstance(torch, TorchRuntime)
    assert isinstance(onnx, Tables)
    assert isinstance(torch, Tables)
    assert isinstance(autoregressive(1).runtime, Steps)
    assert not isinstance(autoregressive(1).runtime, Tables)
