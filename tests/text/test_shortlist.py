"""Learning which target types a source makes likely."""

import random
from pathlib import Path

import numpy as np
import pytest

from pcfgnat.text import ParallelCorpus, SubwordTokenizer, TextError, write_corpus
from pcfgnat.text import lexicon as lexicon_module
from pcfgnat.text.lexicon import LexiconSettings, learn_shortlist
from pcfgnat.text.shortlist import Shortlist

WORDS = 20  # source words 4 … 23 translate into 24 … 43, in any order
ARTICLE = 44  # stands in every target, whatever the source


def pairs(count: int) -> list[tuple[list[int], list[int]]]:
    draw = random.Random(2)
    found = []
    for _ in range(count):
        words = [draw.randrange(4, 4 + WORDS) for _ in range(draw.randrange(1, 7))]
        target = [word + WORDS for word in draw.sample(words, len(words))]
        found.append(([2, *words, 3], [2, ARTICLE, *target, 3]))
    return found


@pytest.fixture
def corpus(tmp_path: Path) -> ParallelCorpus:
    with write_corpus(tmp_path / "corpus", 46) as writer:
        writer.add(pairs(400))
    return ParallelCorpus(tmp_path / "corpus")


def test_translations_are_found(corpus: ParallelCorpus) -> None:
    learnt = learn_shortlist(corpus, LexiconSettings(best=1, frequent=1))
    assert learnt.frequent.tolist() == [ARTICLE]
    for word in range(4, 4 + WORDS):
        assert learnt.types([2, word, 3]).tolist() == [word, word + WORDS, ARTICLE]
    assert learnt.types([2, 5, 9, 3]).tolist() == [5, 9, 25, 29, ARTICLE]
    assert learnt.types([2, 1, 3]).tolist() == [ARTICLE]  # special ids are never in it


def test_memory_is_bounded(corpus: ParallelCorpus, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = learn_shortlist(corpus, LexiconSettings(best=1, frequent=1))
    monkeypatch.setattr(lexicon_module, "CHUNK_PAIRS", 50)
    monkeypatch.setattr(lexicon_module, "MOST_KEYS", 400)
    in_pieces = learn_shortlist(corpus, LexiconSettings(best=1, frequent=1))
    np.testing.assert_array_equal(in_pieces.candidates, whole.candidates)
    few = learn_shortlist(corpus, LexiconSettings(best=1, frequent=1, pairs=3))
    assert len(few.candidates) < WORDS


def test_a_file_gives_it_back(corpus: ParallelCorpus, tmp_path: Path) -> None:
    learnt = learn_shortlist(corpus, LexiconSettings(best=3, frequent=2))
    learnt.save(tmp_path / "list")
    read = Shortlist.load(tmp_path / "list")
    for name in ("frequent", "offsets", "candidates"):
        np.testing.assert_array_equal(getattr(read, name), getattr(learnt, name))
    (tmp_path / "list").write_bytes((tmp_path / "list").read_bytes()[:20])
    with pytest.raises(TextError, match="is not a shortlist, or is damaged"):
        Shortlist.load(tmp_path / "list")


def test_impossible_lists_are_refused() -> None:
    ids, offsets = np.array([5], np.uint32), np.array([0, 0, 0, 0, 0, 1, 1], np.int64)
    assert Shortlist(ids, offsets, ids).vocabulary == 6
    with pytest.raises(TextError, match="ids must be less than 6, got 6"):
        Shortlist(ids + np.uint32(1), offsets, ids)
    with pytest.raises(TextError, match="offsets must rise from 0"):
        Shortlist(ids, offsets[::-1].copy(), ids)
    with pytest.raises(ValueError, match="best must be at least 1, got 0"):
        LexiconSettings(best=0)


def test_the_vocabulary_map_of_ctranslate2(corpus: ParallelCorpus) -> None:
    tokenizer = SubwordTokenizer("\n".join(f"t{i}" for i in range(4, 46)).encode())
    lines = learn_shortlist(corpus, LexiconSettings(best=1, frequent=1)).to_vmap(tokenizer).splitlines()
    assert lines[0] == "\t<pad> <unk> <s> </s> t44"
    assert lines[1] == "t4\tt4 t24"
    assert lines[-1] == "t45\tt45"
    assert len(lines) == 1 + 42
