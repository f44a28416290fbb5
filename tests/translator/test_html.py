"""HTML keeps its tags, in order and in place, and no text of it is lost, however malformed."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from html import unescape

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pcfgnat.checkpoints.metadata import DecodingDefaults
from pcfgnat.grammar.decoding import Grammars
from pcfgnat.runtimes.base import Sources
from pcfgnat.text import LearnSettings, SentencePieceTokenizer
from pcfgnat.translator import TranslateOptions, Translator
from pcfgnat.translator.markup import Mark, Passage, passages_of
from pcfgnat.translator.nesting import elements_of
from pcfgnat.translator.placing import Opposites, placed
from tests.translator.echo import Echo

HTML = TranslateOptions(format="html", split=True)
PIECES = [
    "one", "two.", " ", "\n", "three, ", "<b>", "</b>", "<p>", "</p>", "<br/>", "<i class='one > two'>",
    "</i>", "&amp;", "&lt;", "&nbsp;", "&", "<", ">", "<!-- four -->", "<!--", "</", "</>",
    "<script>five<b></script>",
    "<style>", "</style>", "<code>six</code>", "<!DOCTYPE html>", "<?one?>", "<![CDATA[two]]>", "<a", '="',
    "&#33;", "&#", "<span translate=no>", "</span>",
]  # fmt: skip


@cache
def echo(longest: int) -> Translator:
    """A model that repeats its source, whatever characters that has."""
    sentences = [
        *PIECES,
        "abcdefghijklmnopqrstuvwxyz ABCDEFGHIJKLMNOPQRSTUVWXYZ 0123456789 <>&;#!?/=-.,'\"[]",
    ] * 5
    tokenizer = SentencePieceTokenizer.learn(sentences, LearnSettings(vocabulary_size=120))
    runtime = Echo(longest, tokenizer.vocabulary_size)
    return Translator(runtime, tokenizer, DecodingDefaults("viterbi"), HTML)


@pytest.fixture(scope="module")
def bundled() -> Translator:
    return Translator.load(options=HTML)


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (
            "<p>My <b>brother</b> has bought a new car.</p>",
            "<p>Mein <b>Bruder</b> hat ein neues Auto gekauft.</p>",
        ),
        (
            "<b>I have never been to Paris.</b> <i>Hello.</i>",
            "<b>Ich war noch nie in Paris.</b> <i>Hallo.</i>",
        ),
        (
            "<b>I have never been to <i>Paris.</i></b> Hello.",
            "<b>Ich war noch nie in <i>Paris.</i></b> Hallo.",
        ),
        (
            "Hello. I have never been to <i>Paris.</i> Hello.",
            "Hallo. Ich war noch nie in <i>Paris.</i> Hallo.",
        ),
        (
            "Hello. I have never been to <i>Paris</i>. Hello.",
            "Hallo. Ich war noch nie in <i>Paris</i>. Hallo.",
        ),
        ("<h1>\n  Hello.\n</h1>", "<h1>\n  Hallo.\n</h1>"),
        ("<p>Hello.</p><script>Hello.</script>", "<p>Hallo.</p><script>Hello.</script>"),
        ('<a title="Hello." href="?a=1&b">Hello.</a>', '<a title="Hello." href="?a=1&b">Hallo.</a>'),
        ("Hello.<br>Hello.", "Hallo.<br>Hallo."),
        ("<i>Hello.</i> <b>Hello.</b>", "<i>Hallo.</i> <b>Hallo.</b>"),
        ("<style>p { a: b }</style><!-- Hello. -->", "<style>p { a: b }</style><!-- Hello. -->"),
        ("<b translate='no'>Hello.</b>", "<b translate='no'>Hello.</b>"),
        ("<p>12 &copy; 3</p>", "<p>12 &copy; 3</p>"),
        ("", ""),
    ],
)
def test_documents(bundled: Translator, document: str, expected: str) -> None:
    found = bundled(document)
    assert (found.source, found.text) == (document, expected)


class Mirror(Echo):
    """Writes the words of its source from the last to the first."""

    def grammars(self, sources: Sources) -> Iterator[tuple[Sequence[int], Grammars]]:
        """Yield all sources at once."""
        return super().grammars([[own[0], *reversed(own[1:-1]), own[-1]] for own in sources])


@cache
def mirror() -> Translator:
    """A model of words of one letter, each a token."""
    words = "abcdefgh"
    sentences = [" ".join(words[i:] + words[:i]) for i in range(8)] * 20
    tokenizer = SentencePieceTokenizer.learn(sentences, LearnSettings(vocabulary_size=21))
    assert tokenizer.pieces(tokenizer.encode("b a"))[1:-1] == ["▁b", "▁a"]
    return Translator(Mirror(50, 21), tokenizer, DecodingDefaults("viterbi"), HTML)


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ("a <b>b</b> c d", "d c <b>b</b> a"),
        ("a <b>b</b> c <i>d</i> e", "e <i>d</i> c <b>b</b> a"),
        ("a <b>b <i>c</i></b> d", "d <b><i>c</i> b</b> a"),
        ("a <b>b c</b> d", "d <b>c b</b> a"),
        ("a <img src=x>b c", "<img src=x>c b a"),  # before the part that follows it
        ("a <i></i> <b>b</b> c", "c <b>b</b> a<i></i>"),
        ("a <b>b</b> <!-- x --> c", "<!-- x -->c <b>b</b> a"),
        ("a <b>b <i>c</b></i> d", "d <b>c <i>b</b></i> a"),  # not nested: in their order
    ],
)
def test_tags_follow_their_words(document: str, expected: str) -> None:
    assert mirror()(document).text == expected


def test_tags_follow_words_of_a_trained_model(bundled: Translator) -> None:
    found = bundled("I have <b>bought</b> a <i>new</i> car.").text
    assert re.search(r"<i>neue\w*</i> .* <b>gekauft</b>", found), found


def test_tags_follow_their_words_in_every_alternative(bundled: Translator) -> None:
    several = bundled.with_options(TranslateOptions(format="html", results=2))
    for candidate in several("My brother has <b>bought</b> a new car.").candidates:
        assert "<b>gekauft</b>" in candidate.text


def test_many_tags_cost_no_more_runs_of_the_network() -> None:
    few, many = "one <b>two</b> " * 4, "one <b>two</b> " * 40
    for document, runs in ((few, 2), (many, 1)):
        translator = echo(200)
        translator.runtime.batches.clear()  # type: ignore[attr-defined]
        assert _squeezed(translator(document).text) == _squeezed(document)
        assert len(translator.runtime.batches) == runs  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("html", "found"),
    [
        (["<b>", "</b>"], [("b", (1, 2), False, False)]),
        (["</b>"], [("b", (0, 1), True, False)]),
        (["<b>"], [("b", (1, 2), False, True)]),
        (["<i>", "</i>", "</b>"], [("b", (0, 3), True, False)]),
        (["<img src='</b>'>", "<b>", "</b>"], [("img", (1, 1), False, False), ("b", (2, 3), False, False)]),
        (["<b>", "<i>", "</b>", "</i>"], None),
    ],
)
def test_elements(html: list[str], found: list[tuple[str, tuple[int, int], bool, bool]] | None) -> None:
    marks = [Mark("close" if tag.startswith("</") else "open", tag, 0) for tag in html]
    elements = elements_of(marks)
    if elements is None:
        assert found is None
    else:
        assert [(own.name, own.parts, own.begun, own.open_ended) for own in elements] == found


def test_a_name_keeps_its_tags_where_the_order_of_words_changes(bundled: Translator) -> None:
    found = bundled("Yesterday I met <b>Tom</b>.").text
    assert found.startswith("Gestern")
    assert "<b>Tom</b>" in found
    assert not found.endswith("</b>.")  # the verb is behind the name


def test_alternatives_are_documents_too(bundled: Translator) -> None:
    several = TranslateOptions(format="html", results=3)
    found = bundled.with_options(several)("<p>The <b>house</b> is old.</p>")
    assert len({candidate.text for candidate in found.candidates}) == 3
    for candidate in found.candidates:
        assert re.fullmatch(r"<p>.*<b>\w.*\w</b>.*</p>", candidate.text)
    assert [part.source for part in found.parts] == ["The house is old."]


def test_what_depends_on_the_format(bundled: Translator) -> None:
    assert bundled.units == bundled.with_options(TranslateOptions(split=True)).units
    loaded = bundled.job()
    assert loaded["format"] == "html"


def test_long_sentences_are_cut_and_keep_their_tags() -> None:
    document = "<p>" + "one <b>two</b> three , " * 9 + "</p>"
    found = echo(16)(document)
    assert found.text == document
    assert found.notes[0].startswith("split into")


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=12))
def test_nothing_is_lost_however_malformed(pieces: list[str]) -> None:
    document = "".join(pieces)
    found = echo(100)(document).text
    assert Counter(_squeezed(found)) == Counter(_squeezed(document))  # tags are moved out of words


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.sampled_from([" one ", " two. ", "<b>", "</b>", "<p>", "<br>", "<!-- x -->"]), max_size=10)
)
def test_what_comes_back_unchanged_has_its_tags_unchanged(pieces: list[str]) -> None:
    document = "".join(pieces)
    assert _squeezed(echo(100)(document).text) == _squeezed(document)


@settings(max_examples=150, deadline=None)
@given(st.text(alphabet="<>/!-ab &;#x'\"=\n", max_size=30))
def test_passages_make_up_the_document(document: str) -> None:
    for part in passages_of(document):
        if isinstance(part, Passage):
            assert part.text == part.text.strip(" ")
            assert all(0 < mark.place <= len(part.text) for mark in part.marks)
    assert _joined(document) == _squeezed(document)


def _joined(document: str) -> str:
    """Return what a document shows if every passage is translated into itself."""
    found = passages_of(document)
    return _squeezed("".join(part if isinstance(part, str) else _written(part) for part in found))


def _written(passage: Passage) -> str:
    return placed(passage.text, passage.text, passage.marks, Opposites.same(passage.text))


def _squeezed(html: str) -> str:
    return re.sub(r"\s", "", unescape(html))


def test_passages() -> None:
    found = passages_of("<p> <b>Hi</b> <i>you</i>\n all.<br>A &lt; B</p>")
    marks = (Mark("close", "</b>", 2), Mark("open", "<i>", 3), Mark("close", "</i>", 6))
    assert [part for part in found if part] == [
        "<p>", " <b>", Passage("Hi you all.", marks), "<br>", Passage("A < B"), "</p>",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("source", "translation", "expected"),
    [
        ("x y", "p q", "<i>p</i> q"),
        ("x y", "p", "<i></i>p"),  # one word is not enough for both
        ("x y", "", "<i></i>"),
        ("x y z z z z z z", "p q", "<i>p</i> q"),
    ],
)
def test_tags_get_a_word_where_there_are_enough(source: str, translation: str, expected: str) -> None:
    marks = [Mark("open", "<i>", 0), Mark("close", "</i>", 1)]
    ends = Opposites.same(source)
    even = Opposites(ends.target * len(translation) / len(source), ends.source)
    assert placed(source, translation, marks, even) == expected


@pytest.mark.parametrize("hostile", ["<", "<b>", "&", "<!--", "</", "<a ", "<code>", "&#"])
def test_hostile_documents_end(hostile: str) -> None:
    document = hostile * (10_000 if ">" not in hostile else 1000)
    assert _joined(document) == _squeezed(document)
