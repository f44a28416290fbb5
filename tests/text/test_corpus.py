import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcfgnat.text.corpus import CorpusWriter, ParallelCorpus, write_corpus
from pcfgnat.text.lines import TextError
from tests.text.bilingual import tree

PAIRS = [([2, 5, 3], [2, 6, 7, 3]), ([2, 3], [2, 9, 3])]


def written(
    directory: Path, pairs: list[tuple[list[int], list[int]]], vocabulary_size: int = 10
) -> ParallelCorpus:
    with write_corpus(directory, vocabulary_size) as writer:
        writer.add(pairs)
    return ParallelCorpus(directory)


@st.composite
def corpora(draw: st.DrawFn) -> tuple[int, list[list[tuple[list[int], list[int]]]]]:
    size = draw(st.sampled_from([5, 1 << 16, (1 << 16) + 1, 1 << 32]))
    ids = st.lists(st.integers(0, size - 1), max_size=6)
    return size, draw(st.lists(st.lists(st.tuples(ids, ids), max_size=4), max_size=4))


@given(corpora())
def test_pairs_come_back(drawn: tuple[int, list[list[tuple[list[int], list[int]]]]]) -> None:
    size, parts = drawn
    pairs = [pair for part in parts for pair in part]
    with tempfile.TemporaryDirectory() as place:
        with CorpusWriter(Path(place, "corpus"), size) as writer:
            for part in parts:
                writer.add(part)
        corpus = ParallelCorpus(Path(place, "corpus"))
        assert [(source.tolist(), target.tolist()) for source, target in corpus] == pairs
        assert corpus.source_lengths.tolist() == [len(source) for source, _ in pairs]
        assert corpus.target_lengths.tolist() == [len(target) for _, target in pairs]
        assert (len(corpus), corpus.vocabulary_size) == (len(pairs), size)
        corpus.verify()


def test_files(tmp_path: Path) -> None:
    corpus = written(tmp_path / "x", PAIRS)
    files = tree(tmp_path / "x")
    assert list(files) == ["corpus.toml", "source.ids", "source.offsets", "target.ids", "target.offsets"]
    assert np.frombuffer(files["source.ids"], "<u2").tolist() == [2, 5, 3, 2, 3]
    assert np.frombuffer(files["target.offsets"], "<u8").tolist() == [0, 4, 7]
    assert corpus.description.target.longest == 4
    assert corpus[-1][1].tolist() == [2, 9, 3]
    for index in (2, -3):
        with pytest.raises(IndexError, match=rf"^index must be in -2 … 1, got {index}$"):
            corpus[index]
    with pytest.raises(ValueError, match="read-only"):
        corpus[0][0][0] = 1


def test_ids_out_of_range_leave_nothing(tmp_path: Path) -> None:
    for wrong in (-1, 10):
        message = rf"^ids must be in 0 … 9, got {min(wrong, 2)} … {max(wrong, 3)}$"
        with pytest.raises(ValueError, match=message):
            written(tmp_path / "x", [([2, wrong, 3], [2, 3])])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["source.ids", "target.ids", "source.offsets", "target.offsets"])
def test_truncated_files_are_named(tmp_path: Path, name: str) -> None:
    written(tmp_path / "x", PAIRS)
    path = tmp_path / "x" / name
    content = path.read_bytes()
    path.write_bytes(content[:-1])
    with pytest.raises(TextError) as caught:
        ParallelCorpus(tmp_path / "x")
    size = len(content)
    assert str(caught.value) == f"{path} is damaged: it must have {size} bytes, got {size - 1}"
    path.unlink()
    with pytest.raises(TextError) as caught:
        ParallelCorpus(tmp_path / "x")
    assert str(caught.value) == f"cannot read {path}: No such file or directory"


@pytest.mark.parametrize("name", ["source.ids", "target.ids", "source.offsets", "target.offsets"])
def test_altered_files_are_named(tmp_path: Path, name: str) -> None:
    written(tmp_path / "x", PAIRS)
    path = tmp_path / "x" / name
    content = bytearray(path.read_bytes())
    content[8] ^= 1
    path.write_bytes(content)
    corpus = ParallelCorpus(tmp_path / "x")
    with pytest.raises(TextError) as caught:
        corpus.verify()
    assert str(caught.value).startswith(f"{path} is damaged: its sha256 must be ")


def test_offsets_must_span_the_ids(tmp_path: Path) -> None:
    written(tmp_path / "x", PAIRS)
    path = tmp_path / "x" / "source.offsets"
    path.write_bytes(np.array([0, 3, 6], "<u8").tobytes())
    with pytest.raises(TextError) as caught:
        ParallelCorpus(tmp_path / "x")
    assert str(caught.value) == f"{path} is damaged: it must span 0 … 5, got 0 … 6"
