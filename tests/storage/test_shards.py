"""Shards: cut where lines end, written once, put together in order."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pcfgnat.storage.shards import ShardedFile, write_shard
from pcfgnat.text import LineReader

JOB = {"model": "m"}


def source_of(place: Path, content: bytes) -> Path:
    path = place / "source"
    path.write_bytes(content)
    return path


def fill(output: ShardedFile, source: Path) -> None:
    for shard in output.missing():
        write_shard(output.directory, shard, [line.upper() for line in shard.read(source)])


@settings(max_examples=40)
@given(
    st.lists(st.text(st.sampled_from("aä\u2028\x85 \x0b"), max_size=4), min_size=1, max_size=12),
    st.sampled_from([b"\n", b"\r\n"]),
    st.booleans(),
    st.booleans(),
    st.integers(1, 5),
)
def test_every_line_is_there_once_and_in_order(
    tmp_path_factory: pytest.TempPathFactory,
    lines: list[str],
    end: bytes,
    ended: bool,
    marked: bool,
    shard_lines: int,
) -> None:
    place = tmp_path_factory.mktemp("shards")
    content = end.join(line.encode() for line in lines) + (end if ended or not lines[-1] else b"")
    source = source_of(place, b"\xef\xbb\xbf" * marked + content)
    with LineReader(source) as reader:
        expected = list(reader)
    output = ShardedFile.begun(source, place / "output", JOB, shard_lines)
    assert [line for shard in output.shards for line in shard.read(source)] == expected
    assert max(shard.lines for shard in output.shards) <= shard_lines
    fill(output, source)
    output.merge()
    assert (place / "output").read_text(encoding="utf-8") == "".join(f"{line.upper()}\n" for line in expected)


def test_what_is_there_is_not_done_again(tmp_path: Path) -> None:
    source = source_of(tmp_path, b"a\nb\nc\nd\ne\n")
    output = ShardedFile.begun(source, tmp_path / "output", JOB, 2)
    middle = output.missing()[1]
    for _ in range(2):  # a shard that is written twice is there once
        write_shard(output.directory, middle, ["C", "D"])
    (output.directory / f".{middle.name}.xyz.partial").write_text("half")
    again = ShardedFile.begun(source, tmp_path / "output", JOB, 2)
    assert [shard.name for shard in again.missing()] == [
        "000000000000-000000000002.txt",
        "000000000004-000000000005.txt",
    ]
    assert not list(output.directory.glob(".*"))
    with pytest.raises(FileNotFoundError):
        again.merge()
    assert not (tmp_path / "output").exists()
    fill(again, source)
    again.merge()
    assert (tmp_path / "output").read_text() == "A\nB\nC\nD\nE\n"


@pytest.mark.parametrize(
    ("content", "job", "lines", "change"),
    [
        (b"a\nb\n", {"model": "other"}, 2, "model changed from m to other"),
        (b"a\nc\n", JOB, 2, "input changed from"),
        (b"a\nb\n", JOB, 3, "shard_lines changed from 2 to 3"),
    ],
)
def test_another_job_is_refused(
    tmp_path: Path, content: bytes, job: dict[str, str], lines: int, change: str
) -> None:
    ShardedFile.begun(source_of(tmp_path, b"a\nb\n"), tmp_path / "output", JOB, 2)
    with pytest.raises(ValueError, match=f"^cannot resume: {change}.*start over$"):
        ShardedFile.begun(source_of(tmp_path, content), tmp_path / "output", job, lines)


def test_bad_input_is_told(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="must have at least one line, got none"):
        ShardedFile.begun(source_of(tmp_path, b""), tmp_path / "output", JOB, 2)
    with pytest.raises(ValueError, match=r"source line 2 must be UTF-8, got byte 0xff at position 1"):
        ShardedFile.begun(source_of(tmp_path, b"a\n\xff\n"), tmp_path / "output", JOB, 2)
    with pytest.raises(ValueError, match="must be unpacked"):
        ShardedFile.begun(tmp_path / "source.gz", tmp_path / "output", JOB, 2)
    assert not (tmp_path / "output.shards").exists()


def test_damage_is_found(tmp_path: Path) -> None:
    source = source_of(tmp_path, b"a\nb\nc\n")
    output = ShardedFile.begun(source, tmp_path / "output", JOB, 2)
    first = output.shards[0]
    with pytest.raises(ValueError, match=r"must have 2 lines, got 1"):
        write_shard(output.directory, first, ["A"])
    with pytest.raises(ValueError, match=r"or one that is several"):
        write_shard(output.directory, first, ["A", "B\nC"])
    fill(output, source)
    (output.directory / first.name).write_text("A\n")
    with pytest.raises(ValueError, match=r"is damaged: it must have 2 lines, got 1"):
        output.merge()
    source.write_bytes(b"abc\nd\n")
    with pytest.raises(ValueError, match=r"has changed"):
        first.read(source)
