"""Who may use a server: names it answers to, pages of other origins that may ask it, and a key."""

import hmac
import ipaddress
import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.types import Scope

LOCAL_HOSTS = frozenset({"localhost", "127.0.0.1", "::1"})
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
HOST = re.compile(r"(?:\[(?P<v6>[0-9a-f:.]+)\]|(?P<name>[a-z0-9._-]+))(?::\d{1,5})?")
MIN_KEY_CHARACTERS = 16


@dataclass(frozen=True)
class Access:
    """What the operator of a server allows.

    hosts:   names in the address under which it is reached; empty: any
    origins: pages of these origins, such as https://example.org, may use it; `*`: all
    key:     what clients must know to translate; empty: nothing

    A page of another origin can send requests to a server on the same machine, and under a name that first
    leads to its own server and then to this one (DNS rebinding) it could read the answers. So a local server
    answers only to local names, and changes of origin are refused unless they are allowed.
    """

    hosts: frozenset[str] = frozenset()
    origins: frozenset[str] = frozenset()
    key: str = ""

    def __post_init__(self) -> None:
        for origin in self.origins - {"*"}:
            parts = urlsplit(origin)
            if parts.scheme not in ("http", "https") or origin != f"{parts.scheme}://{parts.netloc}":
                raise ValueError(f"an origin must look like https://example.org, or be *, got {origin!r}")
        if self.key and (len(self.key) < MIN_KEY_CHARACTERS or not self.key.isascii()):
            raise ValueError(f"a key must have at least {MIN_KEY_CHARACTERS} ASCII characters")

    def refusal(self, scope: Scope) -> tuple[int, str] | None:
        """Return status and reason if a request may not pass, whatever it asks for."""
        host = _header(scope, b"host")
        match = HOST.fullmatch(host.lower())
        name = (match["v6"] or match["name"]) if match else ""
        if self.hosts and name not in self.hosts:
            return 421, "this server does not answer to that host name; see `--allow-host`"
        origin = _header(scope, b"origin")
        if scope["method"] in SAFE_METHODS or not origin or self.allows_origin(origin):
            return None
        if urlsplit(origin).netloc.lower() == host.lower():
            return None
        return 403, "pages of other origins may not use this server; see `--cors`"

    def allows_origin(self, origin: str) -> bool:
        """Whether pages of an origin may use the server, be it its own or not."""
        return "*" in self.origins or origin in self.origins

    def knows(self, offered: str | None) -> bool:
        """Whether a key is the right one, in a time that does not depend on how much of it is right."""
        return not self.key or hmac.compare_digest((offered or "").encode(), self.key.encode())


def offered_key(scope: Scope) -> str | None:
    """Return the key in the headers of a request: `Authorization: Bearer …` or `X-API-Key: …`."""
    scheme, _, key = _header(scope, b"authorization").partition(" ")
    if scheme.lower() == "bearer":
        return key.strip()
    return _header(scope, b"x-api-key") or None


def local_hosts(address: str) -> frozenset[str]:
    """Return the names of a server that listens on an address: local ones, or any if others can reach it."""
    return LOCAL_HOSTS if ipaddress.ip_address(address).is_loopback else frozenset()


def _header(scope: Scope, name: bytes) -> str:
    """Return a header; several of one name become one that matches nothing."""
    return ", ".join(value.decode("latin-1") for key, value in scope["headers"] if key == name)
