"""Losses that leap and gradients that are not finite: skipped, counted, kept for a look, not for ever."""

import hashlib
import math
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save

from pcfgnat.checkpoints.checkpoint import Checkpoint
from pcfgnat.config import from_dict
from pcfgnat.networks import Batch
from pcfgnat.storage.toml import load_toml, sealed_toml
from pcfgnat.text import Prepared
from pcfgnat.training import TrainingError, train
from pcfgnat.training.config import FaultsConfig
from pcfgnat.training.faults import Faults
from pcfgnat.training.learner import Learner, StepResult
from pcfgnat.training.record.state import RunState
from pcfgnat.training.signals import StopSignals
from tests.text.bilingual import tree
from tests.training.small_runs import figures, rows, small_run

LONG = ("steps=14", "validation.every=7")
STEP = Learner.step


def glitching(learner: Learner, batches: Sequence[Batch], *figures: float) -> StepResult:
    """For some batches, and always the same, a weight is wrong for a moment."""
    weight = learner.network.embeddings.tokens.weight
    before = weight.detach().clone()
    glitch = int(batches[0].source.ids.sum()) % 4 == 0
    with torch.no_grad():
        weight.mul_(100.0 if glitch else 1.0)
    result = STEP(learner, batches, *figures)  # type: ignore[arg-type]
    if glitch:
        with torch.no_grad():
            weight.copy_(before)
    return result


@pytest.fixture
def glitches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pcfgnat.training.faults.ENOUGH", 3)
    monkeypatch.setattr(Learner, "step", glitching)


def faulty(loss: float, limit: float = math.inf) -> StepResult:
    return StepResult(loss, loss, 1.0, 10, 0, "spike" if loss > limit else None)


def test_a_spike_is_measured_by_the_median_of_good_steps(tmp_path: Path, data: Path) -> None:
    said: list[str] = []
    faults, state = Faults(FaultsConfig(3.0, 4), tmp_path / "faults", said.append), RunState()
    prepared = Prepared.open(data)

    def note(loss: float) -> None:
        state.step += 1
        faults.note(
            state, faulty(loss, faults.limit(state)), [0, 1], prepared.corpus("train"), prepared.tokenizer
        )

    for loss in (50.0, *[4.0] * 18):
        note(loss)
    assert faults.limit(state) == math.inf  # too early to say
    note(4.0)
    assert faults.limit(state) == 12.0
    for loss in (11.9, 12.1, 400.0, 5.0):
        note(loss)
    assert (state.bad_steps, state.bad_in_a_row, state.interval.bad) == (2, 0, 2)
    assert faults.limit(state) == 12.0
    for _ in range(120):
        note(0.01)
    assert faults.limit(state) == 3.0  # a median of at least 1
    assert len(state.recent_losses) == 100
    for _ in range(3):
        note(3.5)
    with pytest.raises(
        TrainingError, match=r"4 steps in a row, up to 148, were skipped, .* raise faults.spike_"
    ):
        note(3.5)
    assert len(said) == 6
    assert said[0].startswith(
        "step 22 was skipped: a loss of 12.1 per target token, more than 12; its sentences"
    )


def test_what_is_kept_is_bounded(tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pcfgnat.training.faults.MOST_CHARACTERS", 10)
    prepared = Prepared.open(data)
    corpus = prepared.corpus("train")
    faults, state = Faults(FaultsConfig(3.0, 100), tmp_path / "faults", print), RunState()
    for step in range(1, 31):
        state.step = step
        faults.note(state, faulty(9.0, 1.0), range(110), corpus, prepared.tokenizer)
    assert {path.name for path in (tmp_path / "faults").iterdir()} == {f"step-{n}.txt" for n in range(1, 21)}
    first, *pairs, last = (tmp_path / "faults" / "step-3.txt").read_text().splitlines()
    assert first.startswith("step 3 was skipped")
    assert len(pairs) == 100
    source, target = (prepared.tokenizer.decode(ids)[:10] for ids in corpus[41])
    assert pairs[41] == f"41\t{source}\t{target}"
    assert last == "and 10 pairs more"


def test_a_spike_is_skipped_and_training_goes_on(
    data: Path, tmp_path: Path, glitches: None, capsys: pytest.CaptureFixture[str]
) -> None:
    train(small_run(data, tmp_path / "run", *LONG))
    found = rows(tmp_path / "run" / "log.csv")
    bad = [row["step"] for row in found if row["bad_steps"] == "1"]
    assert 0 < len(bad) < 9
    assert [row["step"] for row in found if row["loss"] == "nan"] == bad
    kept = tmp_path / "run" / "faults" / f"step-{bad[0]}.txt"
    said, *pairs = kept.read_text().splitlines()
    prepared = Prepared.open(data)
    for pair in pairs:
        index, source, target = pair.split("\t")
        assert [source, target] == [
            prepared.tokenizer.decode(ids) for ids in prepared.corpus("train")[int(index)]
        ]
    assert len(pairs) == 8
    assert f"{said}; its sentences are in {kept}" in capsys.readouterr().err


def test_faults_and_interruptions_together(
    data: Path, tmp_path: Path, glitches: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    train(small_run(data, tmp_path / "whole", *LONG))
    asked = 0

    def now_and_then(signals: StopSignals) -> bool:
        nonlocal asked
        asked += 1
        return asked % 5 == 0

    monkeypatch.setattr(StopSignals, "stopped", now_and_then)
    while train(small_run(data, tmp_path / "pieces", *LONG)).interrupted:
        pass
    runs = (tmp_path / "pieces", tmp_path / "whole")
    assert figures(runs[0] / "log.csv") == figures(runs[1] / "log.csv")
    assert tree(runs[0] / "faults") == tree(runs[1] / "faults") != {}
    weights = [Checkpoint.open(run / "final").metadata.weights_sha256 for run in runs]
    assert weights[0] == weights[1]


def corrupted(output: Path, factor: float) -> None:
    """Multiply a weight of the newest save, as a bad memory chip would; the checksums are right."""
    newest = max((output / "state").iterdir(), key=lambda path: path.name)
    tensors = load_file(newest / "state.safetensors")
    tensors["model:embeddings.tokens.weight"] *= factor
    content = save(tensors)
    (newest / "state.safetensors").write_bytes(content)
    facts = load_toml(newest / "state.toml")
    facts["sha256"] = hashlib.sha256(content).hexdigest()
    (newest / "state.toml").write_text(sealed_toml(facts), encoding="utf-8")


@pytest.mark.parametrize(
    ("factor", "advice"),
    [
        (math.nan, "3 steps in a row, up to 9, .* not finite: lower optimiser.rate or optimiser.clip"),
        (1e4, "3 steps in a row, up to 9, .* per target token, more than .*: lower optimiser.rate or length"),
    ],
)
def test_a_corrupted_weight_ends_the_run_with_advice(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, factor: float, advice: str
) -> None:
    monkeypatch.setattr("pcfgnat.training.faults.ENOUGH", 3)
    changes = ("optimiser.schedule=constant", "validation.every=6", "faults.max_bad_steps=3")
    output = tmp_path / "run"
    train(small_run(data, output, *changes, "steps=6"))
    corrupted(output, factor)
    with pytest.raises(TrainingError, match=advice) as caught:
        train(small_run(data, output, *changes, "steps=60"))
    assert str(caught.value).endswith(f"see {output / 'faults'}")
    assert [row["bad_steps"] for row in rows(output / "log.csv")[6:]] == ["1"] * 2
    assert len(list((output / "faults").iterdir())) == 3


def test_a_gradient_that_is_not_finite_once(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The third step's gradient has a NaN; the weights before and after that step are the same."""
    seen: list[tuple[str | None, bool]] = []

    def sick(learner: Learner, *arguments: object) -> StepResult:
        parameter = next(learner.network.parameters())
        handle = parameter.register_hook(lambda g: g * (math.nan if len(seen) == 2 else 1))  # type: ignore[no-untyped-call]
        before = parameter.detach().clone()
        result = STEP(learner, *arguments)  # type: ignore[arg-type]
        handle.remove()
        seen.append((result.fault, torch.equal(before, parameter)))
        return result

    monkeypatch.setattr(Learner, "step", sick)
    train(small_run(data, tmp_path / "run", "steps=5"))
    assert seen == [("not finite", True) if n == 2 else (None, False) for n in range(5)]
    assert [row["bad_steps"] for row in rows(tmp_path / "run" / "log.csv")] == ["0", "0", "1", "0", "0"]
    assert (tmp_path / "run" / "faults" / "step-3.txt").exists()


def test_settings_out_of_range() -> None:
    for plain, message in (
        ({"spike_factor": 1.0}, "spike_factor must be more than 1, got 1.0"),
        ({"spike_factor": math.nan}, "spike_factor must be more than 1, got nan"),
        ({"max_bad_steps": 0}, "max_bad_steps must be at least 1, got 0"),
    ):
        with pytest.raises(ValueError, match=message):
            from_dict(FaultsConfig, plain)
