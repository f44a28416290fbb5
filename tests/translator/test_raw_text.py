"""Raw text through models of split text: what looks at words and characters still finds them."""

from pathlib import Path

import pytest

from pcfgnat.checkpoints.metadata import DecodingDefaults
from pcfgnat.decoding.constraints import Constraints
from pcfgnat.evaluation import EvaluationSet, measures_for
from pcfgnat.evaluation.judging import judge_model
from pcfgnat.text import SubwordTokenizer, Tokenizer
from pcfgnat.text.pipeline import MosesSettings, RawSteps
from pcfgnat.translator import TranslateOptions, Translator, distill, pair_files
from tests.text.bilingual import write_lines
from tests.text.split_corpus import GERMAN, split_corpus, tokenised
from tests.translator.echo import Echo

CORPUS = split_corpus()
STEPS = RawSteps(CORPUS.codes, MosesSettings("de", "de"))
LINE = 'Der alte Mann sagte: "Wir verkaufen wohl-bekannte Häuser."'


def echo(tokenizer: Tokenizer, options: TranslateOptions | None = None, longest: int = 80) -> Translator:
    runtime = Echo(longest, tokenizer.vocabulary_size)
    return Translator(runtime, tokenizer, DecodingDefaults("viterbi"), options)


RAW = SubwordTokenizer(CORPUS.vocabulary, steps=STEPS).for_raw_text()


def test_raw_text_in_and_out() -> None:
    found = echo(RAW)(LINE)
    assert found.text == LINE
    assert "@-@" in found.pieces
    corpus = echo(RAW).for_corpus_text()
    assert corpus(CORPUS.german[1]).text == tokenised(GERMAN[1], "de")
    assert corpus.for_corpus_text() is corpus
    assert (corpus.options, corpus.defaults) == (echo(RAW).options, echo(RAW).defaults)
    assert echo(RAW).sweep([LINE], [1.0]) == [[LINE]]


def test_long_text_is_cut_between_words() -> None:
    found = echo(RAW, longest=24)(f"{GERMAN[3]} {GERMAN[1]}")
    assert len(found.parts) > 2
    assert "".join(found.text.split()) == "".join(f"{GERMAN[3]}{GERMAN[1]}".split())


def test_constraints_are_raw_text_too() -> None:
    for phrase in ("wohl-bekannte", '"Wir', "Häuser.", "Mann sagte:"):
        found = echo(RAW)(LINE, constraints=Constraints(require=(phrase,)))
        assert (found.text, found.unmet) == (LINE, ())
        pieces = [found.pieces[place] for place in found.forced]
        written = RAW.decode(RAW.for_corpus_text().encode(" ".join(pieces)))
        assert written.replace(" ", "") == phrase.replace(" ", "")
        without = echo(RAW)(LINE, constraints=Constraints(forbid=(phrase,)))
        assert phrase not in without.text


def test_what_moses_cannot_write_is_kept() -> None:
    line = "Siehe www.example.org/a-b?c=d heute um 12:30!"
    assert echo(RAW)(line).text != line
    kept = echo(RAW, TranslateOptions(keep=True))(line)
    assert all(item in kept.text for item in ("www.example.org/a-b?c=d", "12:30"))
    assert kept.text.count("www.") == kept.text.count("12:30") == 1
    plain = echo(RAW, TranslateOptions(keep=True))(LINE)
    assert plain.text == LINE


def test_words_are_without_escapes() -> None:
    found = echo(RAW, TranslateOptions(confidence=True))(LINE)
    words = [word.text for word in found.words]
    assert words == ["Der", "alte", "Mann", "sagte", "Wir", "verkaufen", "wohl", "bekannte", "Häuser"]
    joined = ["".join(found.pieces[w.start : w.stop]).replace("@@", "") for w in found.words]
    assert joined == words


def test_tags_stay_at_their_words() -> None:
    html = echo(RAW, TranslateOptions(format="html"))
    line = 'Der <b>alte</b> Mann sagte: "Wir verkaufen <i>wohl-bekannte</i> Häuser."'
    assert html(f"<p>{line}</p>").text == f"<p>{line}</p>"


def test_distilled_text_stays_split(tmp_path: Path) -> None:
    with pair_files(tmp_path / "out", ("en", "de"), {}) as output:
        list(distill(echo(RAW), CORPUS.german, output))
    assert (tmp_path / "out.de").read_text().splitlines() == CORPUS.german


def test_scores_compare_equal_kinds_of_text(tmp_path: Path) -> None:
    split, plain = write_lines(tmp_path / "bpe", CORPUS.german), [tokenised(own, "de") for own in GERMAN]
    tokens, raw = write_lines(tmp_path / "tok", plain), write_lines(tmp_path / "raw", GERMAN)
    measures = measures_for("de", True)
    judged = judge_model("echo", echo(RAW), EvaluationSet.files(split, tokens), measures)
    assert judged.lines == plain
    assert judged.report.scores.bleu == pytest.approx(100)
    judged = judge_model("echo", echo(RAW), EvaluationSet.files(raw, raw, raw=True), measures_for("de"))
    assert judged.lines == [RAW.decode(RAW.encode(line)) for line in GERMAN]
    assert judged.lines[3] == GERMAN[3]
    message = r"^raw text needs models that carry subword codes, got one of split text without$"
    with pytest.raises(ValueError, match=message):
        EvaluationSet.files(raw, raw, raw=True).reader(echo(SubwordTokenizer(CORPUS.vocabulary)))
