"""Whole runs, from prepared text to the final checkpoint."""

from pathlib import Path

import pytest
import torch

from pcfgnat.checkpoints.checkpoint import Checkpoint
from pcfgnat.decoding import Request, parse_strategy
from pcfgnat.networks import NETWORKS
from pcfgnat.runtimes.torch import torch_runtime
from pcfgnat.storage.toml import load_config
from pcfgnat.training import TrainConfig, train
from tests.text.bilingual import tree
from tests.training.small_runs import figures, hidden, rows, small_run

ALL = ("curves=true", "tensorboard=true")


@pytest.fixture(scope="module")
def done(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that is finished."""
    output = tmp_path_factory.mktemp("runs") / "done"
    result = train(small_run(data, output, *ALL))
    assert (result.final, result.step, result.interrupted) == (output / "final", 12, False)
    assert result.reason == "12 steps"
    return output


def test_a_run_leaves_all_that_it_promises(done: Path) -> None:
    assert {path.name for path in done.iterdir()} == {
        *("config.toml", "log.csv", "valid.csv", "curves.png", ".lock"),
        *("state", "best", "final", "tensorboard"),
    }
    assert not hidden(done)
    assert {path.name for path in (done / "best").iterdir()} == {"step-5", "step-10", "step-12"}
    assert [int(row["step"]) for row in rows(done / "log.csv")] == list(range(1, 13))
    assert [int(row["step"]) for row in rows(done / "valid.csv")] == [5, 10, 12]
    assert (done / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert list((done / "tensorboard").iterdir())
    assert not [path for path in done.rglob("*") if path.suffix in (".pt", ".pth", ".pkl")]


def test_the_final_checkpoint_translates_and_says_what_it_is(done: Path, data: Path) -> None:
    checkpoint = Checkpoint.open(done / "final")
    metadata = checkpoint.metadata
    assert (metadata.network_name, metadata.decoding.strategy) == ("slots", "greedy")
    assert (metadata.languages.source, metadata.languages.target) == ("de", "zh")
    assert (metadata.training["steps"], metadata.training["settings"]["seed"]) == (12, 1)
    assert metadata.training["objective"]["name"] == "likelihood"
    assert not {"objective", "network"} & metadata.training["settings"].keys()
    runtime = torch_runtime(checkpoint.network())
    strategy = parse_strategy(metadata.decoding.strategy, runtime)
    source = checkpoint.tokenizer.encode("Der Bär läuft heute.")
    assert strategy.decode(runtime, [source], Request())[0][0].ids[0] == 2
    card = (done / "final" / "README.md").read_text(encoding="utf-8")
    for expected in ("de → zh", "steps: 12", "valid bleu", "pcfgnat translate --model", "Translator.load"):
        assert expected in card


def test_the_stored_settings_are_complete_and_build_the_same_run(done: Path, data: Path) -> None:
    stored = load_config(TrainConfig, done / "config.toml")
    assert stored == small_run(data, done, *ALL).resolved()
    assert stored.network["transformer"]["dropout"] == 0.1
    assert stored.objective["glancing"] == {"first": 0.0, "last": 0.0, "force_emit": False}


def test_a_finished_run_is_left_as_it_is(done: Path, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = tree(done)
    result = train(small_run(data, done, *ALL))
    assert "finished already" in capsys.readouterr().err
    assert (result.final, result.interrupted) == (done / "final", False)
    assert tree(done) == before


def test_the_same_settings_give_the_same_run_and_another_seed_another(
    done: Path, data: Path, tmp_path: Path
) -> None:
    train(small_run(data, tmp_path / "again"))
    assert figures(tmp_path / "again" / "log.csv") == figures(done / "log.csv")
    train(small_run(data, tmp_path / "other", "seed=2", "steps=2"))
    assert figures(tmp_path / "other" / "log.csv")[0] != figures(done / "log.csv")[0]


def test_validation_does_not_change_what_is_learnt(done: Path, data: Path, tmp_path: Path) -> None:
    changes = ("validation.every=3", "validation.decoding.strategy=sample")
    train(small_run(data, tmp_path / "run", *changes))
    assert figures(tmp_path / "run" / "log.csv") == figures(done / "log.csv")


def test_it_learns(data: Path, tmp_path: Path) -> None:
    train(small_run(data, tmp_path / "run", "steps=80", "log_every=10", "validation.every=80"))
    losses = [float(row["loss"]) for row in rows(tmp_path / "run" / "log.csv")]
    assert losses[-1] < losses[0] - 1


def test_a_finished_run_goes_on_if_its_limit_is_raised(data: Path, tmp_path: Path) -> None:
    changes = ("optimiser.schedule=constant", "validation.every=4")
    train(small_run(data, tmp_path / "two", *changes, "steps=4"))
    train(small_run(data, tmp_path / "two", *changes, "steps=8"))
    train(small_run(data, tmp_path / "one", *changes, "steps=8"))
    assert figures(tmp_path / "two" / "log.csv") == figures(tmp_path / "one" / "log.csv")
    assert Checkpoint.open(tmp_path / "two" / "final").metadata.training["steps"] == 8


def test_epochs_end_a_run_and_are_validated_each(data: Path, tmp_path: Path) -> None:
    config = small_run(data, tmp_path / "run", "batches.sentences=50", "batches.accumulate=2", "epochs=2")
    object.__setattr__(config, "steps", None)
    object.__setattr__(config.validation, "every", None)
    result = train(config)
    assert (result.step, result.epochs, result.reason) == (4, 2.0, "2 epochs")
    assert [float(row["epoch"]) for row in rows(tmp_path / "run" / "valid.csv")] == [1.0, 2.0]
    assert [float(row["epoch"]) for row in rows(tmp_path / "run" / "log.csv")] == [0.6667, 1.0, 1.6667, 2.0]


def test_a_time_budget_ends_a_run(data: Path, tmp_path: Path) -> None:
    result = train(small_run(data, tmp_path / "run", "steps=1000000", "time_budget=0.005"))
    assert result.reason == "time budget of 0.005 minutes"
    assert result.seconds >= 0.3
    rates = [float(row["rate"]) for row in rows(tmp_path / "run" / "log.csv")]
    assert rates[-1] < max(rates)


def test_a_run_ends_when_bleu_gets_no_better(data: Path, tmp_path: Path) -> None:
    changes = ("optimiser.rate=1e-12", "validation.every=1", "validation.patience=2", "validation.keep=2")
    result = train(small_run(data, tmp_path / "run", *changes))
    assert (result.step, result.reason) == (3, "no better BLEU in 2 validations")
    kept = {path.name for path in (tmp_path / "run" / "best").iterdir()}
    assert kept == {"step-2", "step-3"}  # of equals the later ones


def test_the_final_checkpoint_is_never_worse_than_the_best(done: Path) -> None:
    best = max(float(row["bleu"]) for row in rows(done / "valid.csv"))
    assert Checkpoint.open(done / "final").metadata.training["valid_bleu"] >= round(best, 2)


def test_a_mean_that_is_as_good_is_the_final_checkpoint(data: Path, tmp_path: Path) -> None:
    changes = ("optimiser.rate=1e-12", "validation.every=2", "steps=4")
    train(small_run(data, tmp_path / "run", *changes))
    final = Checkpoint.open(tmp_path / "run" / "final")
    assert final.metadata.training["weights"] == "mean of steps 4, 2, the best by BLEU"
    kept = [Checkpoint.open(tmp_path / "run" / "best" / name).weights() for name in ("step-2", "step-4")]
    for name, weight in final.weights().items():
        torch.testing.assert_close(weight, (kept[0][name] + kept[1][name]) / 2)


def test_with_a_running_mean_that_is_what_is_kept(data: Path, tmp_path: Path) -> None:
    plain, mean = tmp_path / "plain", tmp_path / "mean"
    train(small_run(data, plain, "steps=5"))
    train(small_run(data, mean, "steps=5", "ema.decay=0.9"))
    assert figures(plain / "log.csv") == figures(mean / "log.csv")
    one, other = (Checkpoint.open(run / "final").weights() for run in (plain, mean))
    assert not torch.equal(one["embeddings.tokens.weight"], other["embeddings.tokens.weight"])


def test_a_warm_start_takes_what_fits(
    done: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changes = (f"warm_start={done / 'final'}", "steps=1", "optimiser.rate=1e-12")
    train(small_run(data, tmp_path / "same", *changes))
    cold = float(figures(done / "log.csv")[0]["loss"])
    assert float(figures(tmp_path / "same" / "log.csv")[0]["loss"]) < cold - 0.1
    assert "warm start: " in capsys.readouterr().err
    train(small_run(data, tmp_path / "deeper", *changes, "network.transformer.layers_encoder=2"))
    said = capsys.readouterr().err
    assert "weights are from" in said
    assert "unchanged" not in said  # both layers are from the only one that there was
    train(small_run(data, tmp_path / "grammar", *changes, "network.name=pcfg"))
    assert "; unchanged: embeddings.target_positions.weight, rules.links." in capsys.readouterr().err


@pytest.mark.parametrize("name", list(NETWORKS))
def test_every_network_can_be_trained(data: Path, tmp_path: Path, name: str) -> None:
    config = small_run(data, tmp_path / "run", f"network.name={name}", "steps=2", "batches.accumulate=2")
    assert train(config).step == 2
    assert Checkpoint.open(tmp_path / "run" / "final").metadata.network_name == name


def test_glancing_is_a_setting_of_the_objective(data: Path, tmp_path: Path) -> None:
    shown = ("network.name=ctc", "steps=2", "objective.glancing.first=0.5", "objective.glancing.last=0.5")
    train(small_run(data, tmp_path / "run", *shown))
    assert all(0 < float(row["revealed"]) < 1 for row in rows(tmp_path / "run" / "log.csv"))
    facts = Checkpoint.open(tmp_path / "run" / "final").metadata
    assert facts.training["objective"]["glancing"]["first"] == 0.5
    assert "glancing" not in facts.network


def test_validation_can_decode_as_it_is_told(data: Path, tmp_path: Path) -> None:
    asked = ("validation.decoding.strategy='greedy:lengths=3'", "validation.decoding.length_penalty=0.5")
    train(small_run(data, tmp_path / "run", "steps=2", *asked))
    decoding = Checkpoint.open(tmp_path / "run" / "final").metadata.decoding
    assert (decoding.strategy, decoding.length_penalty) == ("greedy:lengths=3", 0.5)
