"""What stands before the application: bodies that come too slowly or not at all."""

import asyncio
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from pcfgnat.server import guard
from pcfgnat.server.guard import Guard
from pcfgnat.server.metrics import Metrics

SCOPE = {
    "type": "http",
    "method": "POST",
    "path": "/translate",
    "headers": [(b"content-length", b"20")],
}
PART = {"type": "http.request", "body": b"{", "more_body": True}


async def never_called(scope: Scope, receive: Receive, send: Send) -> None:
    raise AssertionError("the application got a request without a body")


def guarded(metrics: Metrics, *messages: Message) -> list[Message]:
    """Send these messages and then nothing; return the answer."""
    pending, sent = list(messages), []

    async def receive() -> Message:
        if not pending:
            await asyncio.Event().wait()
        return pending.pop(0)

    async def send(message: Message) -> None:
        sent.append(message)

    asyncio.run(Guard(never_called, metrics, frozenset(["/translate"]))(dict(SCOPE), receive, send))
    return sent


def test_a_body_that_comes_too_slowly_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "BODY_SECONDS", 0.05)
    start, body = guarded(Metrics(), PART)
    assert start["status"] == 408
    headers: dict[bytes, Any] = dict(start["headers"])
    assert headers[b"connection"] == b"close"
    assert headers[b"x-content-type-options"] == b"nosniff"
    assert b"within 0.05 seconds" in body["body"]


def test_a_client_that_leaves_in_the_middle_is_counted() -> None:
    metrics = Metrics()
    assert guarded(metrics, PART, {"type": "http.disconnect"}) == []
    assert "pcfgnat_clients_gone_total 1.0" in metrics.text()
