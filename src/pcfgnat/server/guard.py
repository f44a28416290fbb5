"""What stands around every request: who may send it, limits on its body, headers, counting and the log."""

import asyncio
import json
import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pcfgnat.server.access import Access
from pcfgnat.server.libretranslate import form_as_json
from pcfgnat.server.limits import BODY_BYTES, BODY_SECONDS
from pcfgnat.server.logs import REQUESTS, request_id
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

    def __init__(
        self, app: ASGIApp, metrics: Metrics, paths: frozenset[str], access: Access | None = None
    ) -> None:
        self._app, self._metrics, self._paths = app, metrics, paths
        self._access = access or Access()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path = scope["path"] if scope["path"] in self._paths else "other"
        own_id = request_id(_header(scope, b"x-request-id"))
        scope.setdefault("state", {})["request_id"] = own_id
        start = time.perf_counter()

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                named = (b"x-request-id", own_id.encode())
                message["headers"] = [*message.get("headers", []), *HEADERS, named]
                seconds = time.perf_counter() - start
                self._metrics.answered(path, message["status"], seconds)
                _log(scope, path, message["status"], seconds)
            await send(message)

        if (refused := self._access.refusal(scope)) is not None:
            await _refuse(send_guarded, *refused)
            return
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
        if (fields := form_as_json(_header(scope, b"content-type"), body)) is not None:
            scope, body = _with_json(scope, fields), fields
        await self._app(scope, _replayed(body, receive), send_guarded)


def _log(scope: Scope, path: str, status: int, seconds: float) -> None:
    """Write a line about a request: no text of it, and of its path only those that exist."""
    fields = {
        "request_id": scope["state"]["request_id"],
        "method": scope["method"],
        "path": path,
        "status": status,
        "milliseconds": round(1000 * seconds, 1),
        "client": (scope.get("client") or ("unknown",))[0],
    }
    REQUESTS.info("answered", extra=fields)


def _header(scope: Scope, name: bytes) -> bytes:
    return next((value for key, value in scope["headers"] if key == name), b"")


def _with_json(scope: Scope, body: bytes) -> Scope:
    """Return the scope of a request whose form was made JSON."""
    kept = [entry for entry in scope["headers"] if entry[0] not in (b"content-type", b"content-length")]
    length = (b"content-length", str(len(body)).encode())
    return {**scope, "headers": [*kept, (b"content-type", b"application/json"), length]}


async def _body(scope: Scope, receive: Receive) -> bytes | None:
    """Read a body, unless it is too long."""
    announced = _header(scope, b"content-length") or b"0"
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
    """Return a receiver that yields the body once more, then what follows it."""
    pending = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_again() -> Message:
        return pending.pop() if pending else await receive()

    return receive_again


async def _refuse(send: Send, status: int, detail: str) -> None:
    """Answer without reading on; what is left of the body is not waited for."""
    body = json.dumps({"detail": detail, "error": detail}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
