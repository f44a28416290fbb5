"""A byte that is altered or a file that is cut, anywhere: found with a clear error, or of no consequence."""

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pcfgnat.checkpoints.checkpoint import Checkpoint
from pcfgnat.checkpoints.weights import own_weights
from pcfgnat.text import Prepared
from pcfgnat.training import train
from pcfgnat.training.record.state import StateStore
from tests.fuzz.targets import saved
from tests.text.bilingual import tree
from tests.training.conftest import prepared
from tests.training.small_runs import figures, small_run

Damage = Callable[[bytes, random.Random], bytes]


def flipped(content: bytes, chance: random.Random) -> bytes:
    changed = bytearray(content)
    changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def cut(content: bytes, chance: random.Random) -> bytes:
    return content[: chance.randrange(len(content))]


def read_checkpoint(directory: Path) -> object:
    checkpoint = Checkpoint.open(directory)
    weights = own_weights(checkpoint.network())
    return (
        checkpoint.metadata,
        checkpoint.tokenizer.sha256,
        {name: w.tolist() for name, w in weights.items()},
    )


def read_prepared(directory: Path) -> object:
    data = Prepared.open(directory)
    data.verify()
    pairs = [[side.tolist() for pair in data.corpus(split) for side in pair] for split in data.report.splits]
    return data.report, data.tokenizer.sha256, pairs, data.raw("valid")


def read_state(directory: Path) -> object:
    found = StateStore(directory).load(lambda text: None)
    assert found is not None
    state, tensors = found
    return state, {name: tensor.tolist() for name, tensor in tensors.items()}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a checkpoint, prepared data, and a run of one save."""
    place = tmp_path_factory.mktemp("damage")
    saved(place / "checkpoint")
    data = prepared(place)
    tiny = ("network.transformer.width=4", "network.transformer.ffn=4")
    train(small_run(data, place / "run", "steps=1", *tiny))
    for older in sorted((place / "run" / "state").iterdir())[:-1]:
        shutil.rmtree(older)
    return place


@pytest.mark.parametrize("damage", [flipped, cut])
@pytest.mark.parametrize(
    ("name", "read"),
    [("checkpoint", read_checkpoint), ("data", read_prepared), ("run/state", read_state)],
)
def test_every_file(run: Path, name: str, read: Callable[[Path], object], damage: Damage) -> None:
    directory = run / name
    files, whole = tree(directory), read(directory)

    @settings(max_examples=25, suppress_health_check=list(HealthCheck))
    @given(st.sampled_from(sorted(files)), st.integers(0, 2**32))
    def spoil(file: str, seed: int) -> None:
        path = directory / file
        path.write_bytes(damage(files[file], random.Random(seed)))
        try:
            found = read(directory)
        except ValueError:
            found = whole  # it was found
        finally:
            path.write_bytes(files[file])
            for left in directory.glob(".*"):  # a damaged save is put aside
                left.rename(left.with_name(left.name.removeprefix(".").removesuffix(".damaged")))
        assert found == whole, f"{file} was damaged, and read as something else"

    spoil()


@pytest.mark.parametrize("file", ["state.toml", "state.safetensors"])
@pytest.mark.parametrize("save", [0, 1])
def test_training_goes_on_if_either_save_is_damaged(
    tmp_path: Path, run: Path, capsys: pytest.CaptureFixture[str], save: int, file: str
) -> None:
    changes = ("steps=2", "validation.every=1")
    train(small_run(run / "data", tmp_path / "run", *changes))
    expected = figures(tmp_path / "run" / "log.csv")
    newest = sorted((tmp_path / "run" / "state").iterdir(), reverse=True)
    path = newest[save] / file
    path.write_bytes(flipped(path.read_bytes(), random.Random(5)))
    shutil.rmtree(tmp_path / "run" / "final")
    capsys.readouterr()
    train(small_run(run / "data", tmp_path / "run", *changes))
    assert figures(tmp_path / "run" / "log.csv") == expected
    told = f"{path} is damaged: its sha256 must be" in capsys.readouterr().err
    assert told == (save == 0)  # nobody needs the older one


def test_damaged_data_is_not_learnt_from(tmp_path: Path, run: Path) -> None:
    shutil.copytree(run / "data", tmp_path / "data")
    ids = tmp_path / "data" / "train" / "target.ids"
    ids.write_bytes(flipped(ids.read_bytes(), random.Random(1)))
    with pytest.raises(ValueError, match=r"target.ids is damaged: its sha256 must be"):
        train(small_run(tmp_path / "data", tmp_path / "run"))
    assert not (tmp_path / "run").exists()
