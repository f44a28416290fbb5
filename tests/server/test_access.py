"""Who may use a server: DNS rebinding, pages of other origins, CORS, keys, request ids and the log."""

import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from pcfgnat.server import Access, ServedModel, create_app
from pcfgnat.server.access import LOCAL_HOSTS, local_hosts
from pcfgnat.server.logs import JsonFormatter, TextFormatter, configure_logging
from pcfgnat.server.models import Task

KEY = "a-key-of-twenty-chars"
BODY = {"text": "Hello.", "trees": False}
MODEL = ServedModel.load("en-de", None)


class Failing(ServedModel):
    """Fails at one text."""

    def work(self, task: Task, texts: list[str]) -> list[dict[str, Any]]:
        if "poison" in texts:
            raise RuntimeError("poisoned")
        return super().work(task, texts)


def client(access: Access, base_url: str = "http://localhost:8000") -> TestClient:
    return TestClient(create_app({"en-de": MODEL}, access=access), base_url=base_url)


@pytest.fixture(scope="module")
def local() -> Iterator[TestClient]:
    """A server on a local address, as `pcfgnat serve` starts it."""
    with client(Access(hosts=local_hosts("127.0.0.1"))) as found:
        yield found


def status(client: TestClient, **headers: str) -> int:
    return client.post("/translate", json=BODY, headers=headers).status_code


@pytest.mark.parametrize("host", ["localhost", "LocalHost:8000", "127.0.0.1:1", "[::1]:8000", "[::1]"])
def test_local_names_are_answered(local: TestClient, host: str) -> None:
    assert status(local, Host=host) == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8000",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "",
        "localhost@x",
        "[::2]",
        "192.168.0.1",
        "localhost, evil.example",
        "localhost:8000:1",
    ],
)
def test_dns_rebinding_is_refused(local: TestClient, host: str) -> None:
    answer = local.post("/translate", json=BODY, headers={"Host": host})
    assert answer.status_code == 421
    assert "does not answer to that host name" in answer.json()["detail"]
    assert local.get("/", headers={"Host": host}).status_code == 421  # a page under that name is not served


def test_other_names_can_be_allowed() -> None:
    with client(Access(hosts=LOCAL_HOSTS | {"mt.example"})) as found:
        assert status(found, Host="mt.example") == 200
        assert status(found, Host="evil.example") == 421


def test_an_address_for_others_has_any_name() -> None:
    assert local_hosts("0.0.0.0") == local_hosts("192.168.0.7") == frozenset()
    assert local_hosts("127.0.0.1") == local_hosts("::1") == LOCAL_HOSTS


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://localhost:9999", "http://127.0.0.1:8000", "file://"]
)
@pytest.mark.parametrize(
    "kind", ["application/json", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"]
)
def test_pages_of_other_origins_cannot_post(local: TestClient, origin: str, kind: str) -> None:
    headers = {"Origin": origin, "Content-Type": kind}
    answer = local.post("/translate", content=json.dumps(BODY), headers=headers)
    assert answer.status_code == 403
    assert "access-control-allow-origin" not in answer.headers
    assert "translations" not in answer.text


def test_two_origins_are_refused(local: TestClient) -> None:
    headers = [("Origin", "http://localhost:8000"), ("Origin", "https://evil.example")]
    assert local.post("/translate", json=BODY, headers=headers).status_code == 403


def test_its_own_page_can_post(local: TestClient) -> None:
    assert status(local, Origin="http://localhost:8000") == 200
    assert status(local, Origin="https://localhost:8000") == 200  # behind a proxy with TLS


def test_cors_is_off_unless_it_is_asked_for(local: TestClient) -> None:
    asked = {"Origin": "https://a.example", "Access-Control-Request-Method": "POST"}
    answer = local.options("/translate", headers=asked)
    assert answer.status_code == 405
    assert "access-control-allow-origin" not in answer.headers


def test_cors() -> None:
    with client(Access(origins=frozenset({"https://a.example"}))) as found:
        asked = {
            "Origin": "https://a.example",
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "content-type",
        }
        answer = found.options("/translate", headers=asked)
        assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (
            200,
            "https://a.example",
        )
        answer = found.post("/translate", json=BODY, headers={"Origin": "https://a.example"})
        assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (
            200,
            "https://a.example",
        )
        assert status(found, Origin="https://b.example") == 403
        denied = found.options("/translate", headers={**asked, "Origin": "https://b.example"})
        assert "access-control-allow-origin" not in denied.headers
    with client(Access(origins=frozenset({"*"}))) as found:
        assert status(found, Origin="https://b.example") == 200


@pytest.mark.parametrize(
    "origin", ["a.example", "https://a.example/", "ftp://a.example", "https://a.example/x"]
)
def test_origins_must_be_origins(origin: str) -> None:
    with pytest.raises(ValueError, match="an origin must look like"):
        Access(origins=frozenset({origin}))


def test_a_key() -> None:
    with client(Access(key=KEY)) as found:
        for headers in (
            {},
            {"Authorization": "Bearer wrong"},
            {"X-API-Key": KEY + "x"},
            {"Authorization": KEY},
        ):
            answer = found.post("/translate", json=BODY, headers=headers)
            assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
        assert status(found, Authorization=f"Bearer {KEY}") == 200
        assert status(found, **{"X-API-Key": KEY}) == 200
        assert found.post("/explain", json={"text": "one"}).status_code == 401
        assert found.get("/metrics").status_code == 401
        for open_path in ("/", "/healthz", "/health", "/models", "/languages", "/docs"):
            assert found.get(open_path).status_code == 200


@pytest.mark.parametrize("key", ["short", "ä" * 20])
def test_keys_must_be_long_and_plain(key: str) -> None:
    with pytest.raises(ValueError, match="at least 16 ASCII characters"):
        Access(key=key)


def test_requests_have_ids(local: TestClient, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="pcfgnat.requests"):
        answer = local.post("/translate", json=BODY, headers={"X-Request-ID": "from-proxy.1"})
        assert answer.headers["x-request-id"] == "from-proxy.1"
        other = local.get("/nowhere%0A", headers={"X-Request-ID": "no spaces please"})
        assert len(other.headers["x-request-id"]) == 32
    first, second = (json.loads(JsonFormatter().format(record)) for record in caplog.records)
    assert (first["request_id"], first["path"], first["status"]) == ("from-proxy.1", "/translate", 200)
    assert (second["request_id"], second["path"]) == (other.headers["x-request-id"], "other")
    assert first["milliseconds"] >= 0
    assert "Hello" not in str(first)  # texts are not logged


def test_a_failure_is_logged_with_its_id(caplog: pytest.LogCaptureFixture) -> None:
    app = create_app({"en-de": Failing(MODEL.translator, MODEL.facts)})
    with TestClient(app, raise_server_exceptions=False) as found:
        answer = found.post("/translate", json={"text": "poison"}, headers={"X-Request-ID": "abc"})
    assert answer.status_code == 500
    record = next(record for record in caplog.records if record.levelno == logging.ERROR)
    logged = json.loads(JsonFormatter().format(record))
    assert logged["request_id"] == "abc"
    assert "RuntimeError: poisoned" in logged["traceback"]
    assert "request_id=abc" in TextFormatter().format(record)


def test_events_take_one_line() -> None:
    record = logging.LogRecord("x", logging.INFO, "", 0, "two\nlines", (), None)
    assert JsonFormatter().format(record).count("\n") == 0


def test_levels_are_checked() -> None:
    with pytest.raises(ValueError, match="the log level must be one of critical"):
        configure_logging("loud", "text")
