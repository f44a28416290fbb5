"""Model directories that mean harm: pipes, devices and links that lead elsewhere are refused at once."""

import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from pcfgnat.checkpoints.checkpoint import Checkpoint
from pcfgnat.checkpoints.metadata import CheckpointError
from pcfgnat.checkpoints.stored import StoredCheckpoint
from pcfgnat.cli import main
from pcfgnat.runtimes.onnx import Exported
from pcfgnat.storage import regular
from pcfgnat.storage.files import StorageError
from pcfgnat.storage.regular import regular_file, require_regular_files
from pcfgnat.text import TextError, Tokenizer
from pcfgnat.text.shortlist import Shortlist
from pcfgnat.translator import Translator, bundled_model, describe_model


def pipe(path: Path) -> None:
    os.mkfifo(path)


def endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


def elsewhere(path: Path) -> None:
    other = path.parents[3] / "elsewhere"
    other.write_bytes(b"secret")
    path.symlink_to(other)


HARM: tuple[Callable[[Path], None], ...] = (pipe, endless, elsewhere)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return Path(shutil.copytree(bundled_model(), tmp_path / "a" / "b" / "model"))


@pytest.mark.parametrize("harm", HARM)
@pytest.mark.parametrize(
    "name",
    [
        "checkpoint.toml",
        "model.safetensors",
        "tokenizer/tokenizer.toml",
        "tokenizer/tokenizer.model",
        "README.md",
    ],
)
def test_checkpoints(model: Path, name: str, harm: Callable[[Path], None]) -> None:
    (model / name).unlink()
    harm(model / name)
    for read in (Checkpoint.open, StoredCheckpoint.open, Translator.load):
        with pytest.raises(CheckpointError, match=r"must be a|must lie inside"):
            read(model)


@pytest.mark.parametrize("harm", HARM)
@pytest.mark.parametrize(
    "name",
    [
        "exported.toml",
        "network.onnx",
        "tables/tokens.npy",
        "shortlist.safetensors",
        "tokenizer/tokenizer.model",
    ],
)
def test_exported_models(model: Path, name: str, harm: Callable[[Path], None]) -> None:
    onnx = model / "onnx"
    (onnx / name).unlink()
    harm(onnx / name)
    with pytest.raises(CheckpointError, match=r"must be a|must lie inside"):
        Exported.open(onnx)
    with pytest.raises(CheckpointError):
        describe_model(onnx)


def test_a_pipe_beside_the_files_is_found(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pipe(model / "onnx" / "weights.bin")  # a graph could name it
    assert main(["translate", "--model", str(model), "x"]) == 2
    assert "weights.bin must be a regular file, got a pipe" in capsys.readouterr().err


def test_a_directory_elsewhere_is_refused(model: Path, tmp_path: Path) -> None:
    (model / "onnx").rename(tmp_path / "onnx")
    (model / "onnx").symlink_to(tmp_path / "onnx")
    with pytest.raises(CheckpointError, match="onnx must lie inside"):
        Translator.load(model)


def test_parts_are_checked_on_their_own(model: Path) -> None:
    (model / "tokenizer" / "tokenizer.model").unlink()
    endless(model / "tokenizer" / "tokenizer.model")
    with pytest.raises(TextError, match=r"tokenizer.model must lie inside .* but links to /dev/zero"):
        Tokenizer.load(model / "tokenizer")
    (model / "onnx" / "shortlist.safetensors").unlink()
    pipe(model / "onnx" / "shortlist.safetensors")
    with pytest.raises(TextError, match="must be a regular file, got a pipe"):
        Shortlist.load(model / "onnx" / "shortlist.safetensors")


def test_links_inside_the_directory_are_followed(model: Path, tmp_path: Path) -> None:
    (model / "model.safetensors").rename(model / "weights")
    (model / "model.safetensors").symlink_to("weights")
    (tmp_path / "latest").symlink_to(model)
    assert Translator.load(tmp_path / "latest")("Hello.").text == "Hallo."
    assert regular_file(tmp_path / "latest", "model.safetensors").read_bytes()[:1]


def test_other_kinds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(StorageError, match=r"cannot read .*loop: "):
        require_regular_files(tmp_path)
    (tmp_path / "loop").unlink()
    with pytest.raises(StorageError, match="missing: No such file"):
        regular_file(tmp_path, "missing")
    (tmp_path / "inner").mkdir()
    with pytest.raises(StorageError, match="inner must be a regular file, got a directory"):
        regular_file(tmp_path, "inner")
    with socket.socket(socket.AF_UNIX) as server:
        monkeypatch.chdir(tmp_path)  # names of sockets must be short
        server.bind("talk")
    with pytest.raises(StorageError, match="talk must be a regular file, got a socket"):
        require_regular_files(tmp_path)


def test_endless_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regular, "MAX_ENTRIES", 3)
    for name in "abcd":
        (tmp_path / name).touch()
    with pytest.raises(StorageError, match="must have at most 3 files, got more"):
        require_regular_files(tmp_path)
