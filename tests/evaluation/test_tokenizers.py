import sys

import pytest
import sacrebleu

from pcfgnat.evaluation import Measures, ScoreError, bleu_tokenizer, measures_for

LANGUAGES = {
    "zh": "zh zho chi cmn yue chinese Mandarin zh-CN zh_TW zh-Hans ZH zhs zht cmn-Hans",
    "ja-mecab": "ja jpn ja-JP Japanese",
    "ko-mecab": "ko kor ko_KR korean",
    "13a": "de en deu zha korsisk jav x",
}


@pytest.mark.parametrize(
    ("language", "tokenizer"),
    [(language, name) for name, languages in LANGUAGES.items() for language in languages.split()],
)
def test_a_language_has_one_tokenizer(language: str, tokenizer: str) -> None:
    assert bleu_tokenizer(language) == tokenizer
    assert measures_for(language).tokenize == tokenizer


def test_an_unknown_language_gets_the_usual_tokenizer() -> None:
    assert measures_for("") == Measures("13a")
    assert measures_for("zh", tokenised=True, tokenize="char") == Measures("char", tokenised=True)
    with pytest.raises(ScoreError, match=r"tokenize must be one of 13a, zh, ja-mecab, .*, got '14a'"):
        measures_for("de", tokenize="14a")


@pytest.mark.parametrize(
    ("language", "lines"),
    [
        ("ja", ["私は学生です。", "今日はとても暑いですね。"]),
        ("ko", ["나는 학생입니다.", "오늘은 매우 덥습니다."]),
        ("zh", ["我是学生。", "今天非常热。"]),
    ],
)
def test_text_without_spaces_is_cut_into_words(language: str, lines: list[str]) -> None:
    measures = measures_for(language)
    expected = sacrebleu.corpus_bleu(lines[::-1], [lines], tokenize=measures.tokenize).score
    scores = measures.score(lines[::-1], lines)
    assert scores.bleu == pytest.approx(expected)
    assert f"tok:{measures.tokenize}" in scores.bleu_signature
    assert measures.score(lines, lines).bleu == pytest.approx(100)
    assert 0 < scores.missing_words < 100


@pytest.mark.parametrize(
    ("language", "module", "message"),
    [
        ("ja", "ipadic", r"BLEU of Japanese text needs MeCab: pip install 'pcfgnat\[japanese\]'"),
        ("ko", "mecab_ko", r"BLEU of Korean text needs MeCab: pip install 'pcfgnat\[korean\]'"),
        ("de", "sacrebleu", r"BLEU needs sacrebleu: pip install 'pcfgnat\[evaluate\]'"),
    ],
)
def test_what_is_not_installed_is_named(
    language: str, module: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ScoreError, match=message):
        measures_for(language)
