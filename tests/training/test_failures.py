"""What cannot go well ends with one line that says why, and leaves nothing behind."""

import faulthandler
import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pcfgnat.checkpoints.metadata import CheckpointError
from pcfgnat.config import ConfigError, from_dict
from pcfgnat.objectives import ObjectiveError
from pcfgnat.storage.toml import dump_toml, load_config
from pcfgnat.text import TextError
from pcfgnat.training import TrainConfig, TrainingError, hardware, train
from tests.training.conftest import prepared
from tests.training.small_runs import hidden, settings, small_run, started

SMALL_FILES = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, ({0}, {0}))
"""


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("setps=3", "unknown key 'setps'; did you mean steps"),
        ("optimiser.lr=1", r"unknown key 'optimiser.lr'; valid keys: rate, betas"),
        ("validation.decoding.beam=1", r"unknown key 'validation.decoding.beam'; valid keys: str"),
        ("batches.accumulate=0", r"batches.accumulate must be at least 1, got 0"),
        ("batches.sentences=0", r"batches.sentences must be at least 1, got 0"),
        ("optimiser.rate=0", r"optimiser.rate must be more than 0, got 0"),
        (
            "optimiser.schedule=cosine",
            "optimiser.schedule must be one of 'linear', 'inverse_sqrt', 'constant'",
        ),
        ("optimiser.betas=[0.9, 1.0]", r"betas must be at least 0 and less than 1, got \(0.9, 1.0\)"),
        ("ema.decay=1.0", r"ema.decay must be between 0 and 1, got 1.0"),
        ("validation.every_minutes=1", "validation.every and every_minutes must not be given together"),
        ("validation.patience=0", "patience must be at least 1, got 0"),
        ("time_budget=-1", "time_budget must be more than 0, got -1"),
        ("precision=float16", "precision must be one of 'float32', 'bfloat16', got 'float16'"),
        ("network.name=rnn", "network.name must be one of autoregressive, .*, got 'rnn'"),
        (
            "network.transformer.widht=1",
            r"unknown key 'network.transformer.widht'; did you mean network.transformer.width",
        ),
        ("objective.name=elbow", "objective.name must be one of likelihood, cross_entropy, .*, got 'elbow'"),
        ("objective.name=cross_entropy", "trains autoregressive networks, got SlotsNetwork"),
        (
            "objective.glancing.frist=1",
            r"unknown key 'objective.glancing.frist'; did you mean objective.glancing.first",
        ),
        ("objective.glancing.first=2", r"objective.glancing.first must be in 0 … 1, got 2"),
        ("network.glancing.first=1", r"unknown key 'network.glancing'; "),
        (
            "validation.decoding.strategy=beam",
            "validation.decoding.strategy: the strategy must be one of greedy, sample, .* for .*, got 'beam'",
        ),
        (
            "validation.decoding.strategy='greedy:size=2'",
            r"validation.decoding.strategy: unknown key 'greedy.size'; valid keys: length_weight, lengths",
        ),
        ("distributed.exchange=mpi", "distributed.exchange must be one of 'ddp', 'fsdp', got 'mpi'"),
        ("network.transformer.max_positions=10", "sources must have at most 10 tokens for this network"),
        ("data=nowhere", "nowhere must be a prepared directory, but it has no report.toml"),
        ("warm_start=nowhere", "nowhere must be a checkpoint, but it has no checkpoint.toml"),
    ],
)
def test_bad_settings(data: Path, tmp_path: Path, change: str, message: str) -> None:
    plain = settings(data, tmp_path / "run", "validation.decoding.strategy=greedy")
    path = tmp_path / "config.toml"
    path.write_text(dump_toml(plain), encoding="utf-8")
    errors = (ConfigError, TrainingError, TextError, CheckpointError, ObjectiveError)
    with pytest.raises(errors, match=message) as caught:
        train(load_config(TrainConfig, path, [change]))
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_a_run_must_have_an_end(data: Path, tmp_path: Path) -> None:
    plain = {name: value for name, value in settings(data, tmp_path).items() if name != "steps"}
    with pytest.raises(ConfigError, match=r"^steps, epochs or time_budget must be given, got none"):
        from_dict(TrainConfig, plain)


def test_batches_that_nothing_fits_into_leave_no_directory(data: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="tokens must be at least"):
        train(small_run(data, tmp_path / "run", "batches.tokens=3"))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            "optimiser.rate=0.5",
            "cannot resume .*begun: optimiser.rate changed from 0.01 to 0.5; use another output to start",
        ),
        ("seed=7", "seed changed from 1 to 7"),
        ("network.transformer.width=32", "network.transformer.width changed from 16 to 32"),
        ("network.name=ctc", "network.name changed from 'slots' to 'ctc'"),
        ("objective.length_weight=0.2", "objective.length_weight changed from 0.1 to 0.2"),
        ("objective.glancing.first=0.5", "objective.glancing.first changed from 0.0 to 0.5"),
        ("ema.decay=0.5", "ema.decay changed from 'unset' to 0.5"),
    ],
)
def test_a_run_cannot_go_on_with_other_settings(
    data: Path, tmp_path_factory: pytest.TempPathFactory, change: str, message: str
) -> None:
    output = tmp_path_factory.getbasetemp() / "begun"  # the same for all changes
    train(small_run(data, output, "steps=1"))
    with pytest.raises(TrainingError, match=message):
        train(small_run(data, output, "steps=2", change))


def test_a_run_cannot_go_on_with_other_data(data: Path, tmp_path: Path) -> None:
    train(small_run(data, tmp_path / "run", "steps=1"))
    other = prepared(tmp_path, seed=5)
    with pytest.raises(TrainingError, match="is not the data that it was started with"):
        train(small_run(other, tmp_path / "run", "steps=2"))


def test_other_tokenizers_are_no_warm_start(data: Path, tmp_path: Path) -> None:
    train(small_run(data, tmp_path / "run", "steps=1"))
    other = prepared(tmp_path, seed=5)
    with pytest.raises(TrainingError, match="warm_start must have the tokenizer of the data"):
        train(small_run(other, tmp_path / "new", f"warm_start={tmp_path / 'run' / 'final'}"))
    assert not (tmp_path / "new").exists()


def test_nobody_elses_directory_is_touched(data: Path, tmp_path: Path) -> None:
    (tmp_path / "letters").write_text("dear", encoding="utf-8")
    with pytest.raises(TrainingError, match=r"must be new, empty or a training run, but has no config.toml"):
        train(small_run(data, tmp_path))
    with pytest.raises(TrainingError, match="output must be a directory, got the file"):
        train(small_run(data, tmp_path / "letters"))
    with pytest.raises(TrainingError, match=r"cannot read or write .*run: Not a directory"):
        train(small_run(data, tmp_path / "letters" / "run"))
    assert [path.name for path in tmp_path.iterdir()] == ["letters"]


def test_two_processes_cannot_share_a_run(data: Path, tmp_path: Path) -> None:
    train(small_run(data, tmp_path / "run", "steps=1"))
    with (tmp_path / "run" / ".lock").open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(TrainingError, match="another process is training in"):
            train(small_run(data, tmp_path / "run", "steps=2"))


def test_a_disk_that_is_full(data: Path, tmp_path: Path) -> None:
    """Files of more than 60 kB cannot be written: logs can, saves cannot."""
    output = tmp_path / "run"
    plain = settings(data, output, "validation.every=12")
    child = started(tmp_path / "child", plain, SMALL_FILES.format(60_000))
    said = child.communicate()[1].splitlines()
    assert child.returncode == 1
    assert said[-1].startswith(f"error: cannot write {output / 'best' / 'step-12'}")
    assert said[-1].endswith("File too large")
    assert not hidden(output)
    assert not (output / "best").exists()
    assert train(small_run(data, output, "validation.every=12")).step == 12


@pytest.mark.parametrize(("number", "shown"), [(signal.SIGILL, "signal SIGILL"), (None, "exit code 1")])
def test_bfloat16_that_kills(monkeypatch: pytest.MonkeyPatch, number: int | None, shown: str) -> None:
    def die() -> None:
        faulthandler.disable()  # it would be loud
        os._exit(1) if number is None else os.kill(os.getpid(), number)

    monkeypatch.setattr(hardware, "_multiply_and_exit", die)  # few machines do it by themselves
    with pytest.raises(TrainingError, match=f"bfloat16 does not work on this CPU: .* ended with {shown}"):
        hardware.probe_bfloat16()


def test_the_cache_of_products_by_shape_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(hardware.CACHED_PRODUCTS, "7")
    hardware.bound_memory()
    assert os.environ[hardware.CACHED_PRODUCTS] == "7"  # the user's own choice
    monkeypatch.delenv(hardware.CACHED_PRODUCTS)
    hardware.bound_memory()
    assert os.environ[hardware.CACHED_PRODUCTS] == "64"


MANY_SHAPES = """
import sys, torch
from pathlib import Path
from pcfgnat.training.hardware import bound_memory
if sys.argv[1] == "bounded":
    bound_memory()
torch.set_num_threads(1)
layer = torch.nn.Linear(384, 1536)
for rows in range(200, 2600, 16):
    with torch.autocast("cpu", torch.bfloat16):
        layer(torch.ones(rows, 384)).float().sum().backward()
print(int(Path("/proc/self/statm").read_text().split()[1]) * 4 // 1024)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_many_shapes_in_bfloat16_take_little_memory() -> None:
    grown = {
        kind: int(subprocess.check_output([sys.executable, "-c", MANY_SHAPES, kind], text=True))
        for kind in ("bounded", "unbounded")
    }
    if grown["unbounded"] < 700:
        pytest.skip(f"this processor compiles no large products: {grown['unbounded']} MB")
    assert grown["bounded"] < 0.8 * grown["unbounded"], grown


def test_gradients_that_are_never_finite_end_the_run(data: Path, tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match=r"20 steps in a row, up to .*: lower optimiser.rate"):
        train(small_run(data, tmp_path / "run", "steps=100", "optimiser.rate=1e38", "validation.every=100"))
