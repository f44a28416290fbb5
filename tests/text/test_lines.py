import gzip
from pathlib import Path

import pytest

from pcfgnat.text import lines
from pcfgnat.text.lines import PairReader, TextError, TextPair
from tests.text.bilingual import write_pair


def read(source: Path, target: Path) -> list[tuple[str, str]]:
    return [pair for chunk in PairReader(TextPair(source, target)) for pair in chunk]


def files(directory: Path, source: bytes, target: bytes) -> tuple[Path, Path]:
    (directory / "a.de").write_bytes(source)
    (directory / "a.zh").write_bytes(target)
    return directory / "a.de", directory / "a.zh"


def test_lines_end_at_newlines_only(tmp_path: Path) -> None:
    source = "\ufeffeins\r\n\nzw\u2028ei\x0b\x85\x1c\n drei ".encode()
    assert read(*files(tmp_path, source, b"a\nb\nc\nd\n")) == [
        ("eins", "a"),
        ("", "b"),
        ("zw\u2028ei\x0b\x85\x1c", "c"),
        (" drei ", "d"),
    ]


def test_chunks_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "CHUNK_PAIRS", 3)
    monkeypatch.setattr(lines, "CHUNK_CHARACTERS", 10)
    pair = write_pair(tmp_path, "a", [("x", "y")] * 5 + [("x" * 9, "y"), ("x", "y")])
    reader = PairReader(pair)
    assert [len(chunk) for chunk in reader] == [3, 3, 1]
    assert reader.position == sum(path.stat().st_size for path in reader.paths)


def test_gzip_gives_the_same(tmp_path: Path) -> None:
    pairs = [("grün", "绿"), ("blau", "蓝")]
    plain, packed = write_pair(tmp_path, "a", pairs), write_pair(tmp_path, "b", pairs, packed=True)
    assert packed.source.name == "b.de.gz"
    readers = PairReader(plain), PairReader(packed)
    assert [list(reader) for reader in readers] == [[pairs], [pairs]]
    assert readers[0].sha256 == readers[1].sha256
    assert readers[1].position == sum(path.stat().st_size for path in readers[1].paths)


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        (b"a\nb\n", b"a\n", "{de} and {zh} must have the same number of lines, got 2 and 1"),
        (b"a\n", b"a\nb\nc", "{de} and {zh} must have the same number of lines, got 1 and 3"),
        (b"", b"", "{de} must have at least one line, got an empty file"),
        (b"a\n", b"", "{zh} must have at least one line, got an empty file"),
        (b"a\nb\xfcb\n", b"a\nb\n", "{de} line 2 must be UTF-8, got byte 0xfc at position 2"),
        ("ä\n".encode("utf-16"), b"a\n", "{de} line 1 must be UTF-8, got byte 0xff at position 1"),
        (b"a\n", b"\xed\xa0\x80\n", "{zh} line 1 must be UTF-8, got byte 0xed at position 1"),
        (b"a\n" + b"x" * (1 << 20) + b"\n", b"a\nb\n", "{de} line 2 must be at most 1048576 bytes, got more"),
    ],
)
def test_broken_text_is_named(tmp_path: Path, source: bytes, target: bytes, message: str) -> None:
    de, zh = files(tmp_path, source, target)
    with pytest.raises(TextError) as caught:
        read(de, zh)
    assert str(caught.value) == message.format(de=de, zh=zh)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            gzip.compress(b"a\nb\n", mtime=0)[:-9],
            "Compressed file ended before the end-of-stream marker was reached",
        ),
        (b"plain text\n", "Not a gzipped file (b'pl')"),
        (
            gzip.compress(b"a\n", mtime=0)[:10] + b"\xff" * 20,
            "Error -3 while decompressing data: invalid block type",
        ),
    ],
)
def test_broken_gzip_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(content)
    with pytest.raises(TextError) as caught:
        read(path, path)
    assert str(caught.value).startswith(f"cannot read {path} after line ")
    assert str(caught.value).endswith(message)


def test_unreadable_files_are_named(tmp_path: Path) -> None:
    for path, reason in ((tmp_path / "none", "No such file or directory"), (tmp_path, "Is a directory")):
        with pytest.raises(TextError) as caught:
            read(path, path)
        assert str(caught.value) == f"cannot read {path}: {reason}"
