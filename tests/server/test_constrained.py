"""Constraints, kept tokens and confidence in the API."""

from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.server.test_api import translate

TEXT = "The house is old."


def test_constraints(client: TestClient) -> None:
    wanted = {
        "require": ["uralt"],
        "forbid": ["alt"],
        "prefix": "Das",
        "glossary": [{"source": "house", "target": "Gebäude"}],
        "max_characters": 40,
    }
    (found,) = translate(client, text=TEXT, constraints=wanted)["translations"]
    assert found["text"].startswith("Das ")
    assert {"Gebäude", "uralt"} <= set(found["text"].strip(".").split())
    assert len(found["text"]) <= 40
    assert "".join(found["pieces"][place] for place in found["forced"]).startswith("▁Das▁Gebäude")
    (plain,) = translate(client, text=TEXT)["translations"]
    assert not {"forced", "words", "unmet"} & set(plain)


def test_explanations_are_of_the_constrained_translation(client: TestClient) -> None:
    answer = client.post("/explain", json={"text": TEXT, "constraints": {"require": ["Gebäude"]}})
    assert answer.status_code == 200, answer.text
    lattice = answer.json()["lattice"]
    assert "Gebäude" in lattice["text"]
    assert any(node["visited"] and node["word"] == "▁Gebäude" for node in lattice["nodes"])


def test_what_is_impossible(client: TestClient) -> None:
    (found,) = translate(client, text=TEXT, constraints={"require": ["Ω"]})["translations"]
    assert found["unmet"] == ["require 'Ω'"]
    answer = client.post("/translate", json={"text": TEXT, "constraints": {"require": ["Ω"], "strict": True}})
    assert answer.status_code == 422
    assert answer.json()["detail"] == f"cannot require 'Ω' in the translation of {TEXT!r}"


@pytest.mark.parametrize(
    "wrong",
    [
        {"require": [" "]},
        {"require": ["x"] * 17},
        {"forbid": ["x" * 201]},
        {"glossary": [{"source": "x"}]},
        {"max_characters": 0},
        {"prefix": " "},
        {"other": 1},
    ],
)
def test_wrong_constraints_are_refused(client: TestClient, wrong: dict[str, Any]) -> None:
    answer = client.post("/translate", json={"text": TEXT, "constraints": wrong})
    assert answer.status_code == 422
    assert "constraints" in answer.json()["detail"]


def test_awkward_tokens_are_kept_unless_told(client: TestClient) -> None:
    line = "I love pizza 🍕."
    assert "🍕" in translate(client, text=line)["translations"][0]["text"]
    assert "🍕" not in translate(client, text=line, keep=False)["translations"][0]["text"]
    libre = client.post("/translate", json={"q": line, "source": "en", "target": "de"}).json()
    assert "🍕" in libre["translatedText"]


def test_confidence(client: TestClient) -> None:
    (found,) = translate(client, text=TEXT, confidence=True)["translations"]
    assert [word["text"] for word in found["words"]] == found["text"].strip(".").split()
    assert all(0 < word["confidence"] <= 1 for word in found["words"])
