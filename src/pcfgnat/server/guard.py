"""What stands around every request: limits on its body, headers for browsers, and counting."""

import asyncio
import json
import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pcfgnat.server.limits import BODY_BYTES, BODY_SECONDS
from pcfgnat.server.metrics import Metrics

CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = [
    (b"content-security-policy", CONTENT_POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-cache"),
]
GONE = 499  # nobody will read it; nginx counts such requests under this number too


class Guard:
    """Reads the body before the application sees the request, unless it is too long or too slow."""

    def __init__(self, app: ASGIApp, metrics: Metrics, paths: frozenset[str]) -> None:
        self._app, self._metrics, self._paths = app, metrics, paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path = scope["path"] if scope["path"] in self._paths else "other"
        start = time.perf_counter()

        async def send_guarded(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), *HEADERS]
                self._metrics.answered(path, message["status"], time.perf_counter() - start)
            await send(message)

        try:
            async with asyncio.timeout(BODY_SECONDS):
                body = await _body(scope, receive)
        except TimeoutError:
            await _refuse(send_guarded, 408, f"the body must arrive within {BODY_SECONDS:g} seconds")
            return
        except ConnectionError:
            self._metrics.gone()
            return
        if body is None:
            await _refuse(send_guarded, 413, f"the body must have at most {BODY_BYTES} bytes")
            return
        start = time.perf_counter()
        await self._app(scope, _replayed(body, receive), send_guarded)


async def _body(scope: Scope, receive: Receive) -> bytes | None:
    """Read a body, unless it is too long."""
    announced = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
    if not announced.isdigit() or int(announced) > BODY_BYTES:
        return None
    body = bytearray()
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ConnectionError("the client left before it had sent its request")
        body += message.get("body", b"")
        if len(body) > BODY_BYTES:
            return None
        more = message.get("more_body", False)
    return bytes(body)


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Give the body once more, then what comes after it."""
    pending = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_again() -> Message:
        return pending.pop() if pending else await receive()

    return receive_again


async def _refuse(send: Send, status: int, detail: str) -> None:
    """Answer without reading on; what is left of the body is not waited for."""
    body = json.dumps({"detail": detail}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
