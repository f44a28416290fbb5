"""Whatever goes wrong: one clear error, and nothing half-written."""

import errno
import gzip
import os
import subprocess
import sys
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest

from pcfgnat.storage.files import StorageError
from pcfgnat.text.cleaning import CleaningSettings, Encoder
from pcfgnat.text.duplicates import DuplicateFinder
from pcfgnat.text.lines import TextPair
from pcfgnat.text.prepare import PrepareSettings, prepare
from pcfgnat.text.prepared import Prepared
from pcfgnat.text.tokenizer import LearnSettings
from tests.text.bilingual import sentences, tree, write_pair

START = """
import os, resource, sys, time
from pathlib import Path
from pcfgnat.text.cleaning import Encoder
from pcfgnat.storage.files import StorageError
from pcfgnat.text.lines import TextPair
from pcfgnat.text.prepare import PrepareSettings, prepare
from pcfgnat.text.tokenizer import LearnSettings
place = Path(sys.argv[1])
train = TextPair.from_prefix(place / "train", "de", "zh")
settings = PrepareSettings(place / "out", (train,), learn=LearnSettings(300, sample_size=1000))
"""


@pytest.fixture
def settings(tmp_path: Path) -> PrepareSettings:
    train, valid = (write_pair(tmp_path, name, sentences(300)) for name in ("train", "valid"))
    return PrepareSettings(tmp_path / "out", (train,), valid=valid, learn=LearnSettings(300))


def started(place: Path, script: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", START + script, str(place)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def failure(settings: PrepareSettings) -> str:
    """The message of the error, after a look that nothing has changed on disk."""
    place = settings.output.parent
    before = tree(place)
    with pytest.raises(StorageError) as caught:
        prepare(settings)
    assert tree(place) == before
    assert not settings.output.exists()
    assert not [path for path in place.iterdir() if path.name.endswith(".partial")]
    return str(caught.value)


@pytest.mark.parametrize("split", ["train", "valid"])
def test_broken_text(settings: PrepareSettings, split: str) -> None:
    pair = settings.train[0] if split == "train" else settings.valid
    assert pair is not None
    whole = pair.source.read_bytes()
    pair.source.write_bytes(whole + b"more\n")
    both = f"{pair.source} and {pair.target}"
    assert failure(settings) == f"{both} must have the same number of lines, got 301 and 300"
    pair.source.write_bytes(whole.replace("ü".encode(), b"\xfc"))
    assert failure(settings).startswith(f"{pair.source} line 1 must be UTF-8, got byte 0xfc at position ")
    pair.source.write_bytes(b"")
    assert failure(settings) == f"{pair.source} must have at least one line, got an empty file"
    pair.source.unlink()
    assert failure(settings) == f"cannot read {pair.source}: No such file or directory"


def test_text_that_breaks_late(settings: PrepareSettings) -> None:
    packed = settings.output.parent / "late.gz"
    packed.write_bytes(gzip.compress(settings.train[0].source.read_bytes())[:-8])
    late = replace(settings, train=(*settings.train, TextPair(packed, settings.train[0].target)))
    message = failure(late)
    assert message.startswith(f"cannot read {packed} after line ")
    assert message.endswith(": Compressed file ended before the end-of-stream marker was reached")


def test_nothing_left_to_train_on(settings: PrepareSettings) -> None:
    strict = replace(settings, cleaning=CleaningSettings(max_length=3))
    assert failure(strict) == "at least one pair must be left to train on, got none of 300 (too_long 300)"


def test_impossible_vocabulary(settings: PrepareSettings) -> None:
    big = replace(settings, learn=LearnSettings(vocabulary_size=50_000))
    assert failure(big).startswith("vocabulary_size must be at most ")


def test_broken_tokenizer(settings: PrepareSettings) -> None:
    path = settings.output.parent / "broken.model"
    path.write_bytes(b"rubbish")
    assert failure(replace(settings, tokenizer=path)) == f"{path} is not a sentencepiece model, or is damaged"


def full(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize(
    "place",
    [
        "pathlib.Path.mkdir",
        "pathlib.Path.write_bytes",
        "pcfgnat.text.corpus.CorpusWriter.add",
        "pcfgnat.text.corpus.sealed_toml",
        "pcfgnat.text.duplicates.DuplicateFinder.add",
        "pcfgnat.text.tokenizer.Tokenizer.save",
        "os.fsync",
        "pathlib.Path.rename",
    ],
)
def test_full_disk(settings: PrepareSettings, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    monkeypatch.setattr(place, full)
    cleaning = CleaningSettings(drop_duplicates=True)
    message = failure(replace(settings, cleaning=cleaning))
    assert message == f"cannot write {settings.output}: No space left on device"


def test_unwritable_place(settings: PrepareSettings, tmp_path: Path) -> None:
    path = tmp_path / "train.de" / "out"
    with pytest.raises(StorageError) as caught:
        prepare(replace(settings, output=path))
    assert str(caught.value) == f"cannot write {path}: Not a directory"


def test_interrupt(settings: PrepareSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Encoder, "encode", interrupt)
    before = tree(settings.output.parent)
    with pytest.raises(KeyboardInterrupt):
        prepare(settings)
    assert tree(settings.output.parent) == before


def test_files_that_may_not_grow(settings: PrepareSettings, tmp_path: Path) -> None:
    before = sorted(tree(tmp_path))
    script = """
resource.setrlimit(resource.RLIMIT_FSIZE, (9000, 9000))
try:
    prepare(settings)
except StorageError as error:
    print(error)
"""
    shown, errors = started(tmp_path, script).communicate(timeout=60)
    assert (shown, errors) == (f"cannot write {settings.output}: File too large\n", "")
    assert sorted(tree(tmp_path)) == before


def test_kill(settings: PrepareSettings, tmp_path: Path) -> None:
    script = """
def slow(self, chunk):
    print("encoding", flush=True)
    time.sleep(60)
Encoder.encode = slow
prepare(settings)
"""
    with started(tmp_path, script) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "encoding\n"
        process.kill()
    assert not settings.output.exists()
    prepare(settings)
    Prepared.open(settings.output).verify()
    assert not [path for path in tmp_path.iterdir() if path.name.endswith(".partial")]


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak of memory is read from /proc")
def test_memory_does_not_grow_with_the_text(tmp_path: Path) -> None:
    script = """
prepare(settings)
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""
    pairs = sentences(2000)
    peaks = []
    for repeats in (5, 30):
        place = tmp_path / str(repeats)
        place.mkdir()
        write_pair(place, "train", pairs * repeats, packed=True)
        shown, errors = started(place, script).communicate(timeout=120)
        assert not errors
        peaks.append(int(shown))
    assert peaks[1] - peaks[0] < 6000  # kilobytes; the ids alone of 50,000 more pairs take 40,000 as lists


def test_memory_of_finding_duplicates(tmp_path: Path) -> None:
    with DuplicateFinder(tmp_path, memory=1 << 20) as finder:
        for start in range(0, 60_000, 1000):
            finder.add([(str(number), "") for number in range(start, start + 1000)])
        tracemalloc.start()
        found = finder.found()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert not found.any()
    assert peak < 1 << 21
