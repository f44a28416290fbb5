"""A model that drafts and one that verifies, from directories to translations."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from pcfgnat.checkpoints.checkpoint import describe, save_checkpoint
from pcfgnat.checkpoints.metadata import CheckpointError, DecodingDefaults
from pcfgnat.cli import main
from pcfgnat.networks import AutoregressiveConfig, AutoregressiveNetwork
from pcfgnat.text import SubwordTokenizer
from pcfgnat.translator import TranslateOptions, Translator, job_record
from tests.runtimes.models import SMALL, save_model

TEXTS = ["w1 w2 w3", "w4", "", "w5 w6 w7 w8 w9 w10", "w2 w1", "w11 w3 " * 20]
GREEDY = TranslateOptions(strategy="greedy")


def save_reader(directory: Path, types: int = 40, seed: int = 0) -> Path:
    tokenizer = SubwordTokenizer("\n".join(f"w{i}" for i in range(types)).encode())
    torch.manual_seed(seed)
    config = AutoregressiveConfig(replace(SMALL, max_positions=30))
    network = AutoregressiveNetwork(config, tokenizer.vocabulary_size)
    with torch.no_grad():
        for weight in network.parameters():
            weight.mul_(1.7)
    metadata = describe("autoregressive", config, tokenizer.vocabulary_size, DecodingDefaults("beam:size=5"))
    save_checkpoint(directory, network, tokenizer, metadata)
    return directory


@pytest.fixture(scope="module")
def drafter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_model(tmp_path_factory.mktemp("drafter") / "model", "depth 1")


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_reader(tmp_path_factory.mktemp("reader") / "model")


def test_texts_are_translated_as_by_the_reader_alone(drafter: Path, reader: Path) -> None:
    pair = Translator.load(drafter, verifier=reader)
    assert pair.strategy.name == "verify"
    assert pair.strategies[0] == "verify"
    assert set(pair.strategies) >= {"verify", "rescore", "viterbi", "mbr", "beam", "greedy", "sample"}
    alone = Translator.load(reader, options=GREEDY)
    found, short = pair(TEXTS), TEXTS[:-1]  # the last is split at other places
    assert [one.text for one in found[:-1]] == [one.text for one in alone(short)]
    assert [one.text for one in pair.with_options(GREEDY)(short)] == [one.text for one in alone(short)]
    assert len(found[-1].parts) > 1
    for one in found[:2]:
        assert one.verification is not None
        rounds = one.to_dict()["verification"]
        assert rounds["rounds"] == len(rounds["drafts"]) >= 1
        assert rounds["accepted"] == sum(draft["accepted"] for draft in rounds["drafts"])
        assert all(draft["pieces"][-1] == "</s>" for draft in rounds["drafts"])
        assert json.loads(json.dumps(one.to_dict())) == one.to_dict()


def test_candidates_are_rescored(drafter: Path, reader: Path) -> None:
    options = TranslateOptions(strategy="rescore:size=6,weight=0.5", results=3)
    found = Translator.load(drafter, options=options, verifier=reader)("w1 w2 w3")
    assert len(found.alternatives) == 2
    assert found.tree is not None
    assert found.verification is None


def test_a_job_depends_on_the_verifier(drafter: Path, reader: Path, tmp_path: Path) -> None:
    other = save_reader(tmp_path / "other", seed=1)
    jobs = [job_record(Translator.load(drafter, verifier=place), drafter, 1024) for place in (reader, other)]
    changed = {name for name in jobs[0] if jobs[0][name] != jobs[1][name]}
    assert changed == {"verifier"}
    assert len(jobs[0]["verifier"]) == 64
    assert {"verifier_runtime", "verifier_precision", "verifier_exact", "verifier_network"} <= set(jobs[0])
    assert not {name for name in Translator.load(drafter).job() if "verifier" in name}


def test_pairs_that_do_not_fit_are_named(drafter: Path, reader: Path, tmp_path: Path) -> None:
    with pytest.raises(
        CheckpointError, match="the verifier must have the model's tokenizer: its sha256 must"
    ):
        Translator.load(drafter, verifier=save_reader(tmp_path / "other", types=41))
    with pytest.raises(CheckpointError, match="the verifier must be an autoregressive network, got pcfg"):
        Translator.load(drafter, verifier=drafter)
    message = "the model that drafts must be a pcfg, dag or flowseq network, got autoregressive"
    with pytest.raises(CheckpointError, match=message):
        Translator.load(reader, verifier=reader)
    with pytest.raises(ValueError, match=r"the strategy must be one of .*mbr for this model, got 'verify'"):
        Translator.load(drafter, options=TranslateOptions(strategy="verify"))


def test_the_command(drafter: Path, reader: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pair = ["--model", str(drafter), "--verifier", str(reader), "--threads", "1"]
    assert main(["translate", "w1 w2 w3", *pair, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["text"] == Translator.load(reader, options=GREEDY)("w1 w2 w3").text
    assert data["verification"]["rounds"] >= 1
    text, output = tmp_path / "text", tmp_path / "output"
    text.write_text("w1 w2\nw3\n", encoding="utf-8")
    files = ["--input", str(text), "--output", str(output)]
    assert main(["translate", *files, *pair, "--decode", "verify:tolerance=0.5"]) == 0
    assert len(output.read_text(encoding="utf-8").splitlines()) == 2


def test_a_verifier_chooses_among_what_latents_propose(reader: Path, tmp_path: Path) -> None:
    latents = save_model(tmp_path / "flowseq", "flowseq")
    pair = Translator.load(latents, verifier=reader)
    assert pair.strategy.name == "rescore"
    assert set(pair.strategies) == {"greedy", "sample", "importance", "beam", "rescore"}
    wanted = TranslateOptions(strategy="rescore:samples=8,temperature=2.0", results=4)
    found = Translator.load(latents, verifier=reader, options=wanted)(TEXTS[:4])
    assert max(len(one.candidates) for one in found) > 1
    for one in found:
        assert len({candidate.text for candidate in one.candidates}) == len(one.candidates)
    jobs = [
        Translator.load(latents, verifier=reader, options=TranslateOptions(seed=seed)).job()
        for seed in (1, 2)
    ]
    assert jobs[0] != jobs[1]  # what is proposed is drawn
