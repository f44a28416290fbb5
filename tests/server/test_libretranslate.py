"""LibreTranslate's clients work: one from PyPI, forms and JSON, languages and problems."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from libretranslatepy import LibreTranslateAPI
from starlette.testclient import TestClient

from pcfgnat.server import Access, ServedModel, create_app
from tests.server.served import running

KEY = "a-key-of-twenty-chars"


BUNDLED = ServedModel.load("en-de", None)
UNKNOWN = replace(BUNDLED, facts=BUNDLED.facts.model_copy(update={"name": "x", "source": "", "target": ""}))
MODELS = {"x": UNKNOWN, "en-de": BUNDLED}  # the first one has no languages


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with running(create_app(MODELS, access=Access(key=KEY))) as found:
        yield found


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    with TestClient(create_app(MODELS)) as found:
        yield found


def test_a_client_from_pypi(address: str) -> None:
    api = LibreTranslateAPI(address, api_key=KEY)
    assert api.translate("Hello.", "en", "de") == "Hallo."
    assert api.translate("Hello.\n\nHello.", "en", "de") == "Hallo.\n\nHallo."
    assert api.languages() == [
        {"code": "en", "name": "English", "targets": ["de"]},
        {"code": "de", "name": "German", "targets": []},
    ]


def test_a_client_without_the_key(address: str) -> None:
    with pytest.raises(OSError, match="401"):
        LibreTranslateAPI(address).translate("Hello.", "en", "de")


def test_json_and_lists(client: TestClient) -> None:
    wanted = {"q": "Hello.", "source": "en", "target": "de", "format": "text", "api_key": ""}
    assert client.post("/translate", json=wanted).json() == {"translatedText": "Hallo."}
    many = client.post("/translate", json={**wanted, "q": ["Hello.", "", "Hello.\nHello."]}).json()
    assert many == {"translatedText": ["Hallo.", "", "Hallo.\nHallo."]}
    assert client.post("/translate", json={**wanted, "q": " \n "}).json() == {"translatedText": "\n"}


def test_forms(client: TestClient) -> None:
    form = {"q": "Hello.", "source": "auto", "target": "de", "format": "text"}
    assert client.post("/translate", data=form).json() == {"translatedText": "Hallo."}
    several = client.post("/translate", data={**form, "q": ["Hello.", "Hello."]}).json()
    assert several == {"translatedText": ["Hallo.", "Hallo."]}


def test_html(client: TestClient) -> None:
    wanted = {"q": "<p>Hello.</p>\n<b>Hello.</b> &lt;", "source": "en", "target": "de", "format": "html"}
    found = client.post("/translate", json=wanted).json()["translatedText"]
    assert found.startswith("<p>Hallo.</p>\n<b>Hallo.</b>")
    assert "<" not in found.split("</b>")[1]
    many = client.post("/translate", json={**wanted, "q": ["<i>Hello.</i>", "", "<br>"]}).json()
    assert many == {"translatedText": ["<i>Hallo.</i>", "", "<br>"]}
    own = {"text": "<i>Hello.</i>", "model": "en-de"}
    html = client.post("/translate", json={**own, "format": "html", "keep": False}).json()
    assert html["translations"][0]["text"] == "<i>Hallo.</i>"
    assert html["translations"][0]["parts"][0]["source"] == "Hello."


def test_alternatives(client: TestClient) -> None:
    wanted = {"q": "My brother has bought a new car.", "source": "en", "target": "de", "alternatives": 2}
    found = client.post("/translate", json=wanted).json()
    assert len(found["alternatives"]) == 2
    own = client.post(
        "/translate", json={"text": "My brother has bought a new car.", "model": "en-de", "results": 3}
    ).json()
    best = own["translations"][0]
    assert found["translatedText"] == best["text"]
    assert found["alternatives"] == [other["text"] for other in best["alternatives"]]
    lists = client.post("/translate", json={**wanted, "q": ["My brother has bought a new car."]}).json()
    assert lists["alternatives"] == [found["alternatives"]]


@pytest.mark.parametrize(
    ("change", "status", "message"),
    [
        ({"target": "fr"}, 400, "the languages must be one of en → de, got en → fr"),
        ({"source": "de"}, 400, "got de → de"),
        ({"format": "rtf"}, 422, "format: Input should be 'text' or 'html'"),
        ({"q": 3}, 422, "q"),
        ({"q": "x" * 2001}, 422, "q"),
        ({"target": None}, 422, "target"),
    ],
)
def test_problems(client: TestClient, change: dict[str, object], status: int, message: str) -> None:
    wanted = {"q": "Hello.", "source": "en", "target": "de", **change}
    answer = client.post("/translate", json=wanted)
    assert answer.status_code == status
    assert message in answer.json()["error"]
    assert answer.json()["detail"] == answer.json()["error"]


def test_health(client: TestClient) -> None:
    assert client.get("/health").json()["status"] == "ok"
    assert client.post("/detect", json={"q": "Hello."}).status_code == 404


@pytest.mark.parametrize("body", ["", "{", "not JSON", '{"q": ', "[" * 100_000])
def test_malformed_json_is_400(client: TestClient, body: str) -> None:
    answer = client.post("/translate", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == (422 if body == "" else 400)
    assert "detail" in answer.json()
