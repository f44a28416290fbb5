"""Words, tags and places on hand-made trees."""

import io
import json
import os
import pickle
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcfgnat.analysis import syntax, syntax_report
from pcfgnat.analysis.syntax import CHAIN, PREFIX, UNFINISHED, count_places
from pcfgnat.analysis.tagger import PlainUnpickler, english_tagger
from pcfgnat.analysis.words import WORD, Words, words_of
from pcfgnat.structures import ParseTree, SupportTree
from tests.analysis.subjects import png_size, subject, texts

TAGS = {"You": "PRP", "are": "VBP", "gonna": "VBG", "need": "VB", "bothers": "NNS", ".": "."}


def lookup(words: Sequence[str]) -> list[str]:
    return [TAGS[word] for word in words]


def test_pieces_find_their_words() -> None:
    found = words_of(
        ["▁You", "▁don", "'", "t", "▁need", "▁bo", "thers", ",", "▁", "x", "-y", "."], "sentencepiece"
    )
    assert found.words == ("You", "do", "n't", "need", "bothers", ",", "x-y", ".")
    assert found.word_of == (0, 2, 2, 2, 3, 4, 4, 5, 6, 6, 6, 7)
    unfinished = [i for i, flag in enumerate(found.unfinished) if flag]
    assert unfinished == [1, 2, 5, 8, 9]


def test_marked_pieces_find_their_words() -> None:
    found = words_of(["bo@@", "th@@", "ers", ",", "boat@@"], "subwords")
    assert found == Words(("bothers", ",", "boat"), (0, 0, 0, 1, 2), (True, True, False, False, True))


@pytest.mark.parametrize("pieces", [[], ["▁"], ["▁", "<unk>"], ["<0xE2>", "<0x80>", "▁a"]])
def test_pieces_without_text_have_words_too(pieces: list[str]) -> None:
    found = words_of(pieces, "sentencepiece")
    assert len(found.word_of) == len(found.unfinished) == len(pieces)
    assert all(0 <= word < len(found.words) for word in found.word_of)
    assert all(found.words)


@given(st.text("abnt'\u2019.,:/-$5 ü中\t"))
def test_words_are_all_of_a_text(text: str) -> None:
    assert "".join(WORD.findall(text)) == re.sub(r"\s", "", text)


@given(st.lists(st.text("ab'nt.,▁ü", min_size=1), max_size=8))
def test_the_last_piece_ends_its_word(pieces: list[str]) -> None:
    found = words_of(pieces, "sentencepiece")
    visible = [i for i, piece in enumerate(pieces) if piece.strip("▁")]
    assert list(found.word_of) == sorted(found.word_of)
    if visible:
        assert not found.unfinished[visible[-1]]
        assert found.word_of[visible[-1]] == len(found.words) - 1


def test_places_by_hand() -> None:
    # main chain <s> You need thers </s>; are (gonna) before need, bo before thers, then the period
    support = SupportTree(6, 2)
    nodes = (1, 5, 7, 8, 9, 10, 13, 17, 21)
    tree = ParseTree(support, nodes, tuple(range(9)))
    pieces = ["▁You", "▁are", "▁gonna", "▁need", "▁bo", "thers", "."]
    places = count_places([(tree, words_of(pieces, "sentencepiece"))], lookup)
    chain, prefix = places[CHAIN], places[PREFIX]
    assert chain.tags == Counter({"PRP": 1, "VB": 1, "NNS": 1, ".": 1})
    assert prefix.tags == Counter({"VBP": 1, "VBG": 1, "NNS": 1})
    assert (chain.tokens, prefix.tokens) == (4, 3)
    assert (chain.unfinished, prefix.unfinished) == (0, 1)
    assert prefix.share("NNS") == pytest.approx(1 / 3)
    assert prefix.share(UNFINISHED) == pytest.approx(1 / 3)
    assert chain.share("JJ") == 0.0
    assert count_places([], lookup)[PREFIX].share("NNS") is None


def test_the_tagger_tags() -> None:
    words = ["She", "does", "n't", "really", "like", "bigger", "boats", ",", "Paris", "."]
    assert english_tagger()(words) == ["PRP", "VBZ", "RB", "RB", "VB", "JJR", "NNS", ",", "NNP", "."]
    assert english_tagger()([]) == []


def test_only_plain_data_is_unpickled() -> None:
    class Evil:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return os.system, ("true",)

    with pytest.raises(pickle.UnpicklingError, match="only plain data is read, got"):
        PlainUnpickler(io.BytesIO(pickle.dumps(Evil()))).load()
    assert PlainUnpickler(io.BytesIO(pickle.dumps({"a": {1}}, protocol=2))).load() == {"a": {1}}


@pytest.mark.parametrize("trees", ["translation", "reference"])
def test_all_tokens_of_all_trees_are_counted(trees: str, tmp_path: Path) -> None:
    studied = subject("pcfg", seed=9)  # one that puts something into prefix trees
    corpus = texts(("runs the", "the boat runs very"), ("very", "bo@@ thers runs ,"), ("boat", "the"))
    said: list[str] = []
    if trees == "translation":
        result = syntax(studied, corpus, said.append)  # as in the paper
        found = studied.translated([source for source, _ in corpus.encoded(studied.tokenizer)])
        sentences = [list(hypothesis.ids[1:-1]) for hypothesis in found]
    else:
        result = syntax(studied, corpus, said.append, "reference")
        sentences = [target[1:-1] for _, target in corpus.encoded(studied.tokenizer)]
    chain, prefix = result.places[CHAIN], result.places[PREFIX]
    assert result.trees == trees
    assert chain.tokens + prefix.tokens == sum(map(len, sentences))
    unfinished = sum(piece == "bo@@" for ids in sentences for piece in studied.tokenizer.pieces(ids))
    assert chain.unfinished + prefix.unfinished == unfinished
    assert not said
    report = syntax_report(corpus, [result])
    paths = report.write(tmp_path)
    data = json.loads(paths[1].read_text())
    assert "textblob-aptagger" in data["tagger"]
    assert "textblob-aptagger" in report.text
    for place in data["models"][0]["places"].values():
        tags = [share for name, share in place["shares"].items() if name != UNFINISHED]
        assert sum(tags) == pytest.approx(1.0)
    assert png_size(paths[2])[0] > 1000


def test_other_languages_get_a_warning_and_other_models_an_error() -> None:
    said: list[str] = []
    syntax(subject("pcfg", language="de"), texts(("", "boat")), said.append)
    assert said == ["pcfg translates into 'de', but the tags are those of English words"]
    with pytest.raises(ValueError, match="dag must be one of pcfg, got dag: others have no prefix trees"):
        syntax(subject("dag"), texts(("", "boat")), said.append)
