"""Constraints from text to text, with the bundled model in both runtimes."""

import pytest

from pcfgnat.decoding import DecodingError
from pcfgnat.decoding.constraints import Constraints
from pcfgnat.runtimes.onnx import ExportedOptions
from pcfgnat.text.glossary import Term
from pcfgnat.translator import TranslateOptions, Translator
from pcfgnat.translator.demands import UnsatisfiedError, piece_constraints

SENTENCES = [
    "The house is very old.",
    "My brother has bought a new car.",
    "Where is the train station?",
    "I would like a cup of tea, please.",
    "She plays the piano every evening.",
    "They went to the cinema yesterday.",
]
TERMS = ["Gebäude", "Wagen", "Bahnhof", "Becher", "Klavier", "gestern"]
LONG = " ".join([SENTENCES[0], SENTENCES[1], SENTENCES[2]] * 8)


@pytest.fixture(scope="module", params=["torch", "onnx", "shortlist"])
def bundled(request: pytest.FixtureRequest) -> Translator:
    """The bundled model in torch, exported, and exported with its shortlist."""
    onnx = ExportedOptions(threads=1, exact=request.param != "shortlist")
    return Translator.load(runtime="torch" if request.param == "torch" else "onnx", onnx=onnx)


def words(text: str) -> list[str]:
    return [word.strip(".,?!„“") for word in text.split()]


def test_terms_are_always_there(bundled: Translator) -> None:
    for number, sentence in enumerate(SENTENCES):
        one, other = TERMS[number], TERMS[number - 1]
        found = bundled(sentence, constraints=Constraints(require=(one, other), forbid=("die", "nicht")))
        assert found.unmet == ()
        assert {one, other} <= set(words(found.text))
        assert not {"die", "nicht"} & set(words(found.text))
        forced = "".join(found.pieces[place] for place in found.forced).replace("▁", " ").split()
        assert set(forced) == {one, other}


def test_beginnings_and_lengths(bundled: Translator) -> None:
    free = bundled(SENTENCES)
    for sentence, own in zip(SENTENCES, free, strict=True):
        bound = Constraints(prefix="Wir ha", max_characters=len(own.text))
        found = bundled(sentence, constraints=bound)
        assert found.text.startswith("Wir ha")
        assert len(found.text) <= len(own.text)
        assert found.unmet == ()


def test_terms_apply_where_the_source_has_them(bundled: Translator) -> None:
    glossary = (Term("house", "Bude"), Term("car", "Karre"))
    options = TranslateOptions(constraints=Constraints(glossary=glossary))
    found = bundled.with_options(options)(SENTENCES)
    assert ["Bude" in words(one.text) for one in found] == [True] + [False] * 5
    assert ["Karre" in words(one.text) for one in found] == [False, True] + [False] * 4
    plain = bundled(SENTENCES)
    assert [one.forced for one in found[2:]] == [()] * 4
    assert bundled.loaded is not None
    if bundled.loaded.precision != "int8":  # whose batches matter
        assert [one.text for one in found[2:]] == [one.text for one in plain[2:]]


def test_a_long_text_has_what_was_asked_for(bundled: Translator) -> None:
    bound = Constraints(require=("Wagen", "Gebäude"), prefix="Jenes ", forbid=("Auto",), max_characters=500)
    found = bundled(LONG, constraints=bound)
    assert len(found.parts) > 1
    assert found.unmet == ()
    assert found.text.startswith("Jenes ")
    assert {"Wagen", "Gebäude"} <= set(words(found.text))
    assert "Auto" not in words(found.text)
    assert len(found.text) <= 500
    forced = "".join(found.pieces[place] for place in found.forced).replace("▁", " ").split()
    assert sorted(forced) == ["Gebäude", "Jenes", "Wagen"]


def test_what_is_impossible_is_reported_or_an_error(bundled: Translator) -> None:
    bound = Constraints(require=("Ωmega", "Gebäude"))
    found = bundled(SENTENCES[0], constraints=bound)
    assert found.unmet == ("require 'Ωmega'",)
    assert found.notes == ("cannot require 'Ωmega'",)
    assert "Gebäude" in words(found.text)
    assert found.to_dict()["unmet"] == ["require 'Ωmega'"]
    strict = Constraints(require=bound.require, strict=True)
    with pytest.raises(UnsatisfiedError, match="cannot require 'Ωmega' in the translation of 'The house"):
        bundled(SENTENCES[0], constraints=strict)


def test_other_strategies_refuse(bundled: Translator) -> None:
    options = TranslateOptions(strategy="greedy", constraints=Constraints(require=("x",)))
    with pytest.raises(DecodingError, match="constraints need viterbi or joint-viterbi"):
        bundled.with_options(options)("Hello.")


def test_a_job_depends_on_constraints(bundled: Translator) -> None:
    def job(**wanted: tuple[str, ...]) -> dict[str, str]:
        constraints = Constraints(**wanted)  # type: ignore[arg-type]
        return bundled.with_options(TranslateOptions(constraints=constraints)).job()

    assert "constraints" not in job()
    assert job(require=("a",))["constraints"] == job(require=("a",))["constraints"]
    assert len({job(**{name: ("a",)})["constraints"] for name in ("require", "forbid")}) == 2


def test_words_have_confidence_where_there_are_rules(bundled: Translator) -> None:
    sure = bundled.with_options(TranslateOptions(confidence=True))
    found = sure(SENTENCES[0])
    assert [word.text for word in found.words] == words(found.text)
    assert all(0 < word.confidence <= 1 for word in found.words)
    assert found.to_dict()["words"][0] == found.words[0].to_dict()
    forced = sure(SENTENCES[0], constraints=Constraints(require=("Gebäude",)))
    (own,) = [word for word in forced.words if word.text == "Gebäude"]
    assert own.confidence < min(word.confidence for word in found.words)
    long = sure(LONG)
    joined = "".join(long.pieces).replace("▁", " ")
    assert [word.text for word in long.words] == words(joined)
    last = long.words[-1]
    assert "".join(long.pieces[last.start : last.stop]).strip("▁.?") == last.text


def test_pieces_of_a_text_share_what_is_asked() -> None:
    whole = Constraints(("a", "b"), ("c",), "p", (Term("x", "y"),), 102)
    costs = {"a": [3.0, 1.0, 2.0], "b": [float("inf"), float("inf"), 5.0]}
    first, second, third = piece_constraints(whole, ["1" * 10, "2" * 20, "3" * 20], costs.__getitem__)
    assert [one.require for one in (first, second, third)] == [(), ("a",), ("b",)]
    assert [one.prefix for one in (first, second, third)] == ["p", "", ""]
    assert [one.max_characters for one in (first, second, third)] == [20, 40, 40]
    assert {one.forbid for one in (first, second, third)} == {("c",)}
    assert piece_constraints(whole, ["1"], costs.__getitem__) == [whole]
