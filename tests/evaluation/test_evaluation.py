import json

import pytest
import sacrebleu

from pcfgnat.evaluation import Measures, Report, SweepPoint, SystemReport, compare, render
from pcfgnat.report import NOTHING

REFERENCES = [
    f"The {animal} sleeps in the garden, number {i}." for i, animal in enumerate(["cat", "dog", "bird"] * 20)
]
GOOD = [line.replace("garden", "green garden") if i % 4 == 0 else line for i, line in enumerate(REFERENCES)]
BAD = [line.replace("sleeps", "slept").replace("garden", "yard") for line in REFERENCES]


def test_scores_are_sacrebleu_s() -> None:
    scores = Measures().score(GOOD, REFERENCES)
    assert scores.bleu == pytest.approx(sacrebleu.corpus_bleu(GOOD, [REFERENCES]).score)
    assert scores.chrf == pytest.approx(sacrebleu.corpus_chrf(GOOD, [REFERENCES]).score)
    assert scores.sentences == 60
    assert "tok:13a" in scores.bleu_signature
    assert "nc:6" in scores.chrf_signature
    assert scores.length_ratio == pytest.approx((9 * 60 + 60 + 15) / (9 * 60 + 60))
    assert Measures().bleu(GOOD, REFERENCES) == (scores.bleu, scores.length_ratio)
    perfect = Measures().score(REFERENCES, REFERENCES)
    assert [perfect.bleu, perfect.chrf] == pytest.approx([100, 100])
    assert (perfect.repeated_words, perfect.missing_words) == (0, 0)


def test_tokenised_text_has_a_score_of_its_own() -> None:
    assert Measures().score(GOOD, REFERENCES).tokenised_bleu is None
    marked = Measures(tokenised=True).score(["a , b ."], ["a , b ."])
    assert marked.tokenised_bleu == pytest.approx(100)
    assert "tok:none" in str(marked.tokenised_bleu_signature)
    shown = render(Report("marked", (SystemReport("a", marked),)))
    assert "tok. BLEU" in shown
    assert "tok:none" in shown


def test_systems_are_compared_with_the_first() -> None:
    systems = {"good": GOOD, "same": GOOD, "bad": BAD}
    found = compare(systems, REFERENCES, Measures())
    assert found == compare(systems, REFERENCES, Measures())
    assert list(found) == ["good", "same", "bad"]
    assert (found["good"].bleu_p, found["good"].chrf_p) == (None, None)
    assert found["same"].bleu_p == 1
    assert found["bad"].bleu_p is not None
    assert found["bad"].bleu_p < 0.01
    assert found["good"].bleu_interval > 0


def test_bad_input_is_named() -> None:
    with pytest.raises(ValueError, match="translations must have 60 lines, one per reference, got 59"):
        Measures().score(GOOD[1:], REFERENCES)
    with pytest.raises(ValueError, match="bad must have 60 lines"):
        compare({"good": GOOD, "bad": BAD[:-1]}, REFERENCES, Measures())
    with pytest.raises(ValueError, match="there must be at least one reference, got none"):
        Measures().score([], [])


def test_the_report_is_aligned() -> None:
    measures = Measures()
    against = compare({"a": GOOD, "another": BAD}, REFERENCES, measures)
    points = (SweepPoint(0.8, 10.0, 0.9), SweepPoint(1.0, 12.0, 1.0))
    report = Report(
        "test set",
        (
            SystemReport("a", measures.score(GOOD, REFERENCES), "viterbi", 1.0, 123.4, against["a"], points),
            SystemReport("another", measures.score(BAD, REFERENCES), significance=against["another"]),
        ),
        sweep_on="valid",
    )
    text = render(report)
    header, first, second = text.split("\n\n")[1].splitlines()
    assert header.split() == [
        "system",
        "strategy",
        "β",
        "BLEU",
        "±",
        "p",
        "chrF",
        "p",
        "length",
        "repeated",
        "missing",
        "sent./s",
    ]
    assert first.startswith("a        viterbi   1.00")
    assert second.startswith(f"another  {NOTHING}         ")
    assert second.index("*") == header.index("p ")
    assert len(first) == len(header)
    assert "  1  12.00   1.000  best" in text.splitlines()
    assert "a, β varied on valid" in text
    assert measures.score(GOOD, REFERENCES).bleu_signature in text
    data = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert data["systems"][0]["scores"]["bleu"] == measures.score(GOOD, REFERENCES).bleu
    assert data["systems"][0]["sweep"][1] == {"length_penalty": 1.0, "bleu": 12.0, "length_ratio": 1.0}
