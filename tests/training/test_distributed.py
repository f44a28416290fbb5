"""Several processes that train together do what one would do alone."""

import math
from pathlib import Path

import pytest
import torch

from pcfgnat.checkpoints.checkpoint import Checkpoint
from pcfgnat.nn import emission
from pcfgnat.objectives.randomness import noise
from pcfgnat.training import train
from pcfgnat.training.processes.workers import ALONE
from tests.training.processes import files, train_together
from tests.training.small_runs import figures, hidden, rows, settings, small_run

pytestmark = pytest.mark.timeout(900)  # processes need a while where others work, too

QUIET = ("network.transformer.dropout=0.0", "steps=4", "validation.every=2")
# Tokens are counted, fewer sentences than processes; sentences are counted, batches that must be cut.
SAME = {
    "tokens": ("network.name=autoregressive", "batches.sentences=1"),
    "sentences": (
        *("network.name=pcfg", "batches.sentences=4", "batches.accumulate=3", "ema.decay=0.9"),
        *("objective.glancing.first=0.5", "objective.glancing.last=0.1"),
    ),
}
# Dropout, and nothing that knows where the run will end.
NOISY = (
    *("network.transformer.dropout=0.3", "optimiser.schedule=constant"),
    *("validation.every=2", "log_every=2"),
)


@pytest.fixture(scope="module")
def place(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of one and two processes; names begin with their number."""
    place = tmp_path_factory.mktemp("together")
    saved, emission.NEGLIGIBLE = emission.NEGLIGIBLE, 0.0
    for name, changes in SAME.items():
        train(small_run(data, place / f"1-{name}", *QUIET, *changes))
    emission.NEGLIGIBLE = saved
    two = [settings(data, place / f"2-{name}", *QUIET, *changes) for name, changes in SAME.items()]
    two += [
        settings(data, place / "2-fsdp", *QUIET, *SAME["sentences"], "distributed.exchange=fsdp"),
        settings(data, place / "whole", *NOISY, "steps=6"),
        settings(data, place / "pieces", *NOISY, "steps=4"),
        settings(data, place / "pieces", *NOISY, "steps=6"),
        settings(data, place / "sick", "steps=3", "validation.every=3", f"seed={2**63 - 1}"),
    ]
    train_together(2, two)
    return place


@pytest.mark.slow  # each process imports torch
def test_four_processes(data: Path, tmp_path: Path) -> None:
    changes = ("network.name=autoregressive", "batches.sentences=3")
    train(small_run(data, tmp_path / "1-tokens", *QUIET, *changes))
    train_together(4, [settings(data, tmp_path / "4-tokens", *QUIET, *changes)])
    assert_same_losses(tmp_path, "4-tokens")


@pytest.mark.parametrize("other", ["2-tokens", "2-sentences", "2-fsdp"])
def test_losses_do_not_depend_on_the_number_of_processes(place: Path, other: str) -> None:
    assert_same_losses(place, other)


def assert_same_losses(place: Path, other: str) -> None:
    """Compare with the run of one process."""
    name = "sentences" if other == "2-fsdp" else other[2:]
    alone, together = (rows(place / run / "log.csv") for run in (f"1-{name}", other))
    assert len(alone) == len(together) == 4
    for one, many in zip(alone, together, strict=True):
        for column in ("loss", "grad_norm", "nll"):
            assert float(many[column]) == pytest.approx(float(one[column]), rel=2e-4), column
        assert (many["epoch"], many["rate"], many["skipped"]) == (one["epoch"], one["rate"], one["skipped"])
        assert name == "tokens" or float(many["revealed"]) > 0.05  # what is shown was drawn
    scores = [[row["bleu"] for row in rows(place / run / "valid.csv")] for run in (f"1-{name}", other)]
    assert scores[0] == scores[1]


@pytest.mark.parametrize("other", ["2-sentences", "2-fsdp"])
def test_what_is_written_is_the_same_too(place: Path, other: str) -> None:
    assert files(place / other) == files(place / "1-sentences")
    assert not hidden(place / other)
    final, expected = (Checkpoint.open(place / run / "final").weights() for run in (other, "1-sentences"))
    assert final.keys() == expected.keys()
    for name, weight in final.items():
        # From gradients that are 0 but for rounding, as those of keys' biases, Adam makes steps of full size.
        assert float((weight - expected[name]).abs().mean()) < 1e-3, name


def test_a_run_of_several_goes_on_alone(data: Path, place: Path) -> None:
    """Also one whose weights were spread over processes."""
    for run in ("2-sentences", "2-fsdp"):
        changes = (*QUIET, *SAME["sentences"], "steps=5")
        assert train(small_run(data, place / run, *changes)).step == 5
        assert len(rows(place / run / "log.csv")) == 5


def test_several_go_on_exactly(place: Path) -> None:
    """With dropout: each process draws again what it drew."""
    for log in ("log.csv", "valid.csv"):
        assert figures(place / "pieces" / log) == figures(place / "whole" / log)


def test_a_bad_gradient_of_one_process_skips_the_step_of_all(place: Path) -> None:
    log = rows(place / "sick" / "log.csv")
    assert [row["bad_steps"] for row in log] == ["0", "1", "0"]
    assert math.isnan(float(log[1]["loss"]))
    weights = Checkpoint.open(place / "sick" / "final").weights()
    assert all(bool(weight.isfinite().all()) for weight in weights.values())
    assert [path.name for path in (place / "sick" / "faults").iterdir()] == ["step-2.txt"]


def test_glancing_draws_the_same_for_a_sentence_in_any_batch() -> None:
    seeds = torch.tensor([7, 2**40 + 7, -3, 8])
    drawn = noise(seeds, 4000)
    assert torch.equal(noise(seeds[2:3], 30), drawn[2:3, :30])
    assert 0 <= float(drawn.min()) < 1e-3
    assert 1 - 1e-3 < float(drawn.max()) < 1
    assert len(set(drawn.flatten().tolist())) == drawn.numel()
    spread = torch.corrcoef(drawn) - torch.eye(4)
    assert float(spread.abs().max()) < 0.06
    assert float((drawn.mean(1) - 0.5).abs().max()) < 0.02


def test_a_process_alone_needs_no_other() -> None:
    assert ALONE.main
    assert ALONE.gathered({"a": 1}) == [{"a": 1}]
    assert (ALONE.of_main(2.5), ALONE.any(True), ALONE.any(False)) == (2.5, True, False)
    before = torch.get_rng_state()
    ALONE.seed(1, 2)
    assert torch.equal(torch.get_rng_state(), before)
