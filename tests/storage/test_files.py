import os
from pathlib import Path

import pytest

from pcfgnat.storage.files import StorageError, atomic_directory
from tests.text.bilingual import tree


def write(path: Path, error: BaseException) -> None:
    with atomic_directory(path) as directory:
        (directory / "x").write_text("x")
        raise error


def fill_disk(path: Path) -> None:
    with atomic_directory(path) as directory:
        (directory / "x").symlink_to("/dev/full")
        (directory / "x").write_text("x")


def test_it_is_there_whole(tmp_path: Path) -> None:
    with atomic_directory(tmp_path / "a" / "out") as directory:
        (directory / "inner").mkdir()
        (directory / "inner" / "x").write_text("x")
        assert not (tmp_path / "a" / "out").exists()
    assert tree(tmp_path) == {"a/out/inner/x": b"x"}
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["out"]


@pytest.mark.parametrize("error", [ValueError("x"), KeyboardInterrupt(), StorageError("y")])
def test_an_error_leaves_nothing(tmp_path: Path, error: BaseException) -> None:
    with pytest.raises(type(error)):
        write(tmp_path / "a" / "b" / "out", error)
    assert list(tmp_path.iterdir()) == []


def test_disk_errors_are_named(tmp_path: Path) -> None:
    path = tmp_path / "out"
    with pytest.raises(StorageError) as caught:
        fill_disk(path)
    assert str(caught.value) == f"cannot write {path}: No space left on device"
    assert list(tmp_path.iterdir()) == []


def test_unwritable_places_are_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    path = tmp_path / "file" / "out"
    with pytest.raises(StorageError) as caught, atomic_directory(path):
        pass
    assert str(caught.value) == f"cannot write {path}: Not a directory"


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    for path in (tmp_path / "file", tmp_path / "full" / "file"):
        path.parent.mkdir(exist_ok=True)
        path.write_text("x")
    for path in (tmp_path / "file", tmp_path / "full"):
        with pytest.raises(StorageError) as caught, atomic_directory(path):
            pass
        assert str(caught.value) == f"{path} must not exist or be an empty directory"
    (tmp_path / "empty").mkdir()
    with atomic_directory(tmp_path / "empty") as directory:
        (directory / "x").touch()
    assert sorted(tree(tmp_path)) == ["empty/x", "file", "full/file"]


def test_only_one_writes(tmp_path: Path) -> None:
    path = tmp_path / "out"
    with atomic_directory(path) as directory:
        (directory / "x").touch()
        with pytest.raises(StorageError) as caught, atomic_directory(path):
            pass
        assert str(caught.value) == f"another process is writing {path}"
    assert os.listdir(path) == ["x"]


def test_what_a_killed_process_left_is_removed(tmp_path: Path) -> None:
    left = tmp_path / ".out.partial"
    (left / "train").mkdir(parents=True)
    (left / "train" / "source.ids").write_text("x")
    (left / "y").touch()
    with atomic_directory(tmp_path / "out") as directory:
        (directory / "x").touch()
    assert list(tree(tmp_path)) == ["out/x"]
