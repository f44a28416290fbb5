"""The API: what it answers, and how it refuses."""

import json
import math
import time
import xml.etree.ElementTree as ElementTree
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient

from pcfgnat.server import ServedModel, create_app
from pcfgnat.server.limits import BODY_BYTES, TEXT_CHARACTERS, TEXTS
from pcfgnat.server.models import Task
from pcfgnat.translator import TranslateOptions
from tests.server.served import IMAGE, SCRIPT, Echo, echo

JSON = {"content-type": "application/json"}


def translate(client: TestClient, **wanted: Any) -> dict[str, Any]:
    answer = client.post("/translate", json=wanted)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_one_text(client: TestClient, embedded: ServedModel) -> None:
    found = translate(client, text="The weather is nice today.")
    expected = embedded.translator("The weather is nice today.")
    assert found["translations"] == [json.loads(json.dumps(expected.to_dict()))]
    assert (found["model"], found["strategy"], found["length_penalty"]) == (
        "en-de",
        embedded.facts.strategy,
        embedded.facts.length_penalty,
    )
    assert found["timing"]["batch_texts"] == 1
    assert found["timing"]["total_ms"] >= found["timing"]["model_ms"] > 0


def test_many_texts_with_options(client: TestClient, embedded: ServedModel) -> None:
    texts = ["How are you?", "", "Where is the train station?"]
    found = translate(client, text=texts, strategy="lookahead", length_penalty=0.5, model="en-de")
    options = TranslateOptions(strategy="lookahead", length_penalty=0.5)
    expected = embedded.translator.with_options(options)(texts)
    assert [entry["text"] for entry in found["translations"]] == [entry.text for entry in expected]
    assert [entry["source"] for entry in found["translations"]] == texts
    assert (found["strategy"], found["length_penalty"]) == ("lookahead", 0.5)


def test_a_text_that_is_too_long_for_the_model_comes_in_parts(client: TestClient) -> None:
    (found,) = translate(client, model="echo", text="one two " * 10)["translations"]
    assert found["text"] == ("one two " * 10).strip()
    assert len(found["parts"]) > 1
    assert found["notes"][0].startswith("split into")
    assert all("tree" in part for part in found["parts"])


def test_trees_can_be_left_out(client: TestClient) -> None:
    texts = ["one", "one two " * 10]
    found = translate(client, model="echo", text=texts, trees=False)
    assert '"tree"' not in json.dumps(found)
    assert [entry["text"] for entry in found["translations"]] == [text.strip() for text in texts]
    (drawn,) = translate(client, model="echo", text="one", trees=False, draw=["svg"])["translations"]
    assert {"svg", "tree"} <= set(drawn)


def test_drawings(client: TestClient) -> None:
    wanted: dict[str, Any] = {"text": "The weather is nice.", "draw": ["svg", "latex"]}
    (found,) = translate(client, **wanted, width=300)["translations"]
    picture = ElementTree.fromstring(found["svg"])
    nodes = [node.get("data-node") for node in picture.iter() if node.get("data-node")]
    assert sorted(nodes, key=int) == [str(node["node"]) for node in found["tree"]["nodes"]]  # type: ignore[arg-type]
    assert r"\begin{forest}" in found["latex"]
    wide = translate(client, **wanted, width=3000)["translations"][0]["svg"]
    assert float(ElementTree.fromstring(wide).get("height", 0)) < float(picture.get("height", 0))


def test_words_in_pictures_are_escaped(client: TestClient) -> None:
    text = f"{IMAGE} {SCRIPT} ]]> &amp;"
    (found,) = translate(client, model="echo", text=text, draw=["svg"])["translations"]
    picture = ElementTree.fromstring(found["svg"])
    tags = {node.tag.split("}")[1] for node in picture.iter()}
    assert not tags & {"script", "img"}
    assert SCRIPT in "".join(picture.itertext())


def test_explanations(client: TestClient) -> None:
    wanted = {"text": "The weather is nice today.", "strategy": "lookahead"}
    answer = client.post("/explain", json={**wanted, "top": 3})
    assert answer.status_code == 200, answer.text
    lattice = answer.json()["lattice"]
    (found,) = translate(client, **wanted)["translations"]
    visited = {node["node"]: node for node in lattice["nodes"] if node["visited"]}
    assert list(visited) == [node["node"] for node in found["tree"]["nodes"]]
    for node in found["tree"]["nodes"]:
        chances = {chance["token"]: chance["probability"] for chance in visited[node["node"]]["tokens"]}
        assert len(chances) == 3
        if node["token"] in chances:
            assert chances[node["token"]] == pytest.approx(math.exp(node["token_log_prob"]), rel=1e-3)
        assert node["right"] is None or sum(rule["chosen"] for rule in visited[node["node"]]["rules"]) == 1


@pytest.mark.parametrize(
    "wanted", [{"text": ""}, {"text": "one two " * 10, "model": "echo"}, {"text": "a", "top": 0}]
)
def test_what_cannot_be_explained_is_said(client: TestClient, wanted: dict[str, Any]) -> None:
    answer = client.post("/explain", json=wanted)
    assert answer.status_code == 422
    assert len(answer.json()["detail"]) > 5


def test_what_runs_on_the_engine_is_explained_too() -> None:
    served = ServedModel.load("en-de", None)
    options = TranslateOptions(strategy="viterbi")
    (translation,) = served.work(Task(options), ["How are you?"])
    (lattice,) = served.work(Task(options, explain=2), ["How are you?"])
    assert translation["text"]
    assert lattice["nodes"][0]["tokens"][0]["probability"] > 0.9  # the beginning of the sentence


def test_nbest(client: TestClient, embedded: ServedModel) -> None:
    (found,) = translate(client, text="How are you?", strategy="sample", results=3)["translations"]
    assert len(found["alternatives"]) == 2


def test_models(client: TestClient) -> None:
    found = client.get("/models").json()
    first, second = found["models"]
    assert (first["name"], first["kind"], first["source"], first["target"]) == ("en-de", "pcfg", "en", "de")
    assert first["strategy"] == "viterbi:no_repeat=true"
    assert "viterbi" in first["strategies"]
    assert first["penalised_strategies"] == ["viterbi", "joint-viterbi", "mbr"]
    assert "tatoeba.org" in first["card"]["licence"]
    assert first["card"]["limits"].startswith("Short everyday sentences")
    assert second["name"] == "echo"
    assert second["card"] == {"licence": "", "data": "", "limits": ""}
    assert found["limits"]["text_characters"] == TEXT_CHARACTERS


def test_health(client: TestClient) -> None:
    assert client.get("/healthz").json()["status"] == "ok"


def test_metrics_are_what_prometheus_reads(client: TestClient) -> None:
    translate(client, model="echo", text="one")
    client.get("/no/such/page")
    client.get("/another")
    answer = client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    families = {family.name: family for family in text_string_to_metric_families(answer.text)}
    counted = {
        (sample.labels["path"], sample.labels["status"]): sample.value
        for sample in families["pcfgnat_requests"].samples
        if sample.name.endswith("_total")
    }
    assert counted["/translate", "200"] >= 1
    assert counted["other", "404"] >= 2  # addresses from outside become no labels
    assert {sample.labels["model"] for sample in families["pcfgnat_waiting_texts"].samples} == {
        "en-de",
        "echo",
    }
    assert "pcfgnat_batch_texts" in families


@pytest.mark.parametrize("path", ["/", "/docs", "/app.js", "/style.css", "/translate", "/nowhere"])
def test_every_answer_protects_the_browser(client: TestClient, path: str) -> None:
    headers = client.get(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert "access-control-allow-origin" not in headers


@pytest.mark.parametrize("path", ["/", "/docs"])
def test_pages_take_nothing_from_other_hosts(client: TestClient, path: str) -> None:
    page = client.get(path)
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "http:" not in page.text
    assert "https:" not in page.text
    assert "//" not in page.text
    assert "<style" not in page.text
    for name in ("app.js", "docs.js", "style.css", "favicon.svg"):
        assert client.get(f"/{name}").status_code == 200


BAD = {
    "no JSON": (b"text=Hello", 400),
    "nothing": (b"", 422),
    "cut off": (b'{"text": "a', 400),
    "broken UTF-8": (b'{"text": "\xff\xfe"}', 400),
    "half a pair": (b'{"text": "\\ud800"}', 422),
    "half a pair as a name": (b'{"text": "a", "\\ud800": 1}', 422),
    "deep": (b'{"text": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", 400),
    "deep but legal": (b'{"text": ' + b"[" * 500 + b"]" * 500 + b"}", 422),
    "a list": (b'["Hello"]', 422),
    "a number": (b'{"text": 5}', 422),
    "null": (b'{"text": null}', 422),
    "a number among texts": (b'{"text": ["a", 5]}', 422),
    "no text": (b"{}", 422),
    "no texts": (b'{"text": []}', 422),
    "too many texts": (json.dumps({"text": ["a"] * (TEXTS + 1)}).encode(), 422),
    "a long text": (json.dumps({"text": "a" * (TEXT_CHARACTERS + 1)}).encode(), 422),
    "an unknown name": (b'{"text": "a", "colour": "red"}', 422),
    "NaN": (b'{"text": "a", "length_penalty": NaN}', 422),
    "infinity": (b'{"text": "a", "length_penalty": Infinity}', 422),
    "overflow": (b'{"text": "a", "length_penalty": 1e999}', 422),
    "a huge number": (b'{"text": "a", "results": 1' + b"0" * 5000 + b"}", 400),
    "much length_penalty": (b'{"text": "a", "length_penalty": 1000}', 422),
    "no results": (b'{"text": "a", "results": 0}', 422),
    "much results": (b'{"text": "a", "results": 1000000}', 422),
    "yes as a word": (b'{"text": "a", "trees": "yes"}', 422),
    "an unknown strategy": (b'{"text": "a", "strategy": "guess"}', 422),
    "a strategy of others": (b'{"text": "a", "strategy": "beam", "model": "echo"}', 422),
    "an unknown model": (b'{"text": "a", "model": "nemo"}', 422),
    "a path as a model": (b'{"text": "a", "model": "../../../etc"}', 422),
    "an unknown picture": (b'{"text": "a", "draw": ["exe"]}', 422),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_bodies_are_refused_in_plain_words(client: TestClient, name: str) -> None:
    body, status = BAD[name]
    answer = client.post("/translate", content=body, headers=JSON)
    assert answer.status_code == status, answer.text
    assert list(answer.json()) == ["detail", "error"]
    assert 5 < len(answer.json()["detail"]) < 400


def test_a_refusal_names_what_is_allowed(client: TestClient) -> None:
    answer = client.post("/translate", json={"text": "a", "model": "nemo"})
    assert answer.json()["detail"] == "model must be one of en-de, echo, got 'nemo'"
    answer = client.post("/translate", json={"text": "a" * 3000})
    assert answer.json()["detail"] == "text.one: String should have at most 2000 characters"


def test_a_form_from_another_site_is_refused(client: TestClient) -> None:
    answer = client.post("/translate", content=b'{"text": "one"}', headers={"content-type": "text/plain"})
    assert answer.status_code == 422


@pytest.mark.parametrize("announced", [True, False])
def test_a_huge_body_is_refused(client: TestClient, announced: bool) -> None:
    body = b'{"text": "' + b"a" * BODY_BYTES + b'"}'
    content = body if announced else iter([body[:1000], body[1000:]])
    assert client.post("/translate", content=content, headers=JSON).status_code == 413


@pytest.mark.parametrize(
    "text", ["\x00\x01\x1b[31m\x7f", "\r\n\t", "\u202e\u200b\ufeff", "𝔘𐍈🏳️‍🌈", "ﷺ" * 300, "▁", "@@ x@@"]
)
@pytest.mark.parametrize("model", ["en-de", "echo"])
def test_strange_texts_are_translated(client: TestClient, text: str, model: str) -> None:
    (found,) = translate(client, text=text, model=model, draw=["svg", "latex"])["translations"]
    assert found["source"] == text
    if "svg" in found:
        ElementTree.fromstring(found["svg"])


@pytest.mark.parametrize("length_penalty", [-2, 0, 5])
@pytest.mark.parametrize("strategy", ["viterbi", "greedy", "lookahead"])
def test_extreme_settings(client: TestClient, length_penalty: float, strategy: str) -> None:
    (found,) = translate(
        client, text="I like tea.", length_penalty=length_penalty, strategy=strategy, results=8
    )["translations"]
    assert found["text"]


def test_wrong_methods_and_places(client: TestClient) -> None:
    assert client.get("/translate").status_code == 405
    assert client.get("/translate").headers["allow"] == "POST"
    assert client.get("/../../etc/passwd").status_code == 404
    assert client.get("/page/index.html").status_code == 404
    assert client.get("/%2e%2e/app.py").status_code == 404


def test_a_failure_of_the_model_is_told_without_details(client: TestClient) -> None:
    answer = client.post("/translate", json={"text": "poison", "model": "echo"})
    assert answer.status_code == 500
    detail = "the server made a mistake; its log says more"
    assert answer.json() == {"detail": detail, "error": detail}
    assert translate(client, text="one", model="echo")["translations"][0]["text"] == "one"


def test_a_slow_model_is_given_up(gated: tuple[TestClient, Echo]) -> None:
    client, model = gated
    model.gate.clear()
    answer = client.post("/translate", json={"text": "one"})
    assert answer.status_code == 503
    assert int(answer.headers["retry-after"]) >= 1
    model.gate.set()
    assert translate(client, text="two")["translations"][0]["text"] == "two"


def test_who_finds_the_queue_full_shall_come_again(gated: tuple[TestClient, Echo]) -> None:
    client, model = gated
    model.gate.clear()
    with ThreadPoolExecutor(8) as threads:
        asked = [threads.submit(client.post, "/translate", json={"text": "one"}) for _ in range(8)]
        answers = [task.result() for task in asked]
    assert {answer.status_code for answer in answers} == {429, 503}  # none left, or none in time
    assert all(int(answer.headers["retry-after"]) >= 1 for answer in answers)


def test_a_server_needs_a_model() -> None:
    with pytest.raises(ValueError, match="at least one model"):
        create_app({})


def test_requests_with_and_without_the_models_own_settings_go_together() -> None:
    model, served = echo()
    app = create_app({"echo": served})
    with TestClient(app) as client, ThreadPoolExecutor(3) as threads:
        model.gate.clear()
        before = model.calls
        first = threads.submit(translate, client, text="one")
        while model.calls == before:
            time.sleep(0.01)
        said = [threads.submit(translate, client, text="two", **own) for own in ({}, {"strategy": "viterbi"})]
        while 'pcfgnat_waiting_texts{model="echo"} 2' not in client.get("/metrics").text:
            pass
        model.gate.set()
        assert [task.result()["timing"]["batch_texts"] for task in said] == [2, 2]
        assert first.result()["timing"]["batch_texts"] == 1
