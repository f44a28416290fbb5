"""`pcfgnat serve`: translation over HTTP, and a page."""

import argparse
import ipaddress
import re
import socket
from collections.abc import Iterable, Sequence
from pathlib import Path

from pcfgnat.cli.files import notice
from pcfgnat.cli.options import Commands, add_machine_options, new_command, positive, use_machine

DESCRIPTION = """\
Translate for other programs and for people: an API (its documentation is at /docs), and a page that shows
translations and their trees. Requests that come at the same time are translated together. SIGTERM and Ctrl-C
let the server finish what it has accepted.
"""
EXAMPLE = """\
examples:
  pcfgnat serve
  pcfgnat serve --model small=runs/small/final --model teacher=runs/teacher/final --port 8080
  curl -s localhost:8000/translate --json '{"text": "How are you?", "trees": false}'
"""
EMBEDDED_NAME = "en-de"


def add_command(commands: Commands) -> None:
    """Describe the command's options."""
    parser = new_command(commands, "serve", "translate over HTTP, with a page", DESCRIPTION, run)
    parser.epilog = EXAMPLE
    parser.add_argument(
        "--model",
        action="append",
        default=[],
        metavar="NAME=DIR",
        help="a checkpoint and its name in requests; the first is the default (the one that comes along)",
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (127.0.0.1)")
    parser.add_argument("--port", type=int, default=8000, help="port to listen on, 0 for any (8000)")
    group = parser.add_argument_group("load")
    group.add_argument("--queue", type=positive, metavar="N", help="texts that may wait for a model (512)")
    group.add_argument(
        "--wait", type=float, metavar="MS", help="milliseconds that a text waits for others to join it (5)"
    )
    group.add_argument("--timeout", type=float, metavar="S", help="seconds until a request is given up (30)")
    add_machine_options(parser, batch=64)


def run(options: argparse.Namespace) -> None:
    """Serve until a signal comes."""
    import uvicorn

    from pcfgnat.runtimes.onnx import EngineOptions
    from pcfgnat.server import Limits, ServedModel, create_app

    import uvicorn

    from pcfgnat.runtimes.onnx import OnnxOptions
    from pcfgnat.server import Limits, ServedModel, create_app

    defaults = Limits()
    limits = Limits(
        batch=options.batch or defaults.batch,
        wait=defaults.wait if options.wait is None else options.wait / 1000,
        queue=options.queue or defaults.queue,
        timeout=defaults.timeout if options.timeout is None else options.timeout,
    )
    places = named_models(options.model)
    with _listening(options.host, options.port) as listener:
        onnx = OnnxOptions(threads=options.threads)
        device = _device(options, places.values())
        models = {name: ServedModel.load(name, place, device, onnx) for name, place in places.items()}
        host, port = listener.getsockname()[:2]
        notice(f"serving {', '.join(models)} on http://{f'[{host}]' if ':' in host else host}:{port}")
        if not ipaddress.ip_address(host).is_loopback:
            notice("everybody who reaches this address can use it: there are no accounts and there is no TLS")
        config = uvicorn.Config(
            create_app(models, limits),
            log_level="warning",
            access_log=False,
            server_header=False,
            ws="none",
            timeout_graceful_shutdown=int(limits.timeout) + 5,
        )
        uvicorn.Server(config).run(sockets=[listener])


def named_models(entries: Sequence[str]) -> dict[str, Path | None]:
    """Read `name=dir` entries; without any there is the model that comes along."""
    places: dict[str, Path | None] = {}
    for entry in entries:
        name, equals, place = entry.partition("=")
        if not equals or not place or not re.fullmatch(r"[\w.→-]{1,100}", name):
            raise ValueError(
                f"--model must be NAME=DIR, the name of letters, digits, '.', '_' and '-', got {entry!r}"
            )
        if name in places:
            raise ValueError(f"every --model must have a name of its own, got {name!r} twice")
        places[name] = Path(place)
    return places or {EMBEDDED_NAME: None}


def _device(options: argparse.Namespace, places: Iterable[Path | None]) -> object:
    """Set torch up if any model needs it."""
    from pcfgnat.translator import exported_for, model_directory

    if all(exported_for(model_directory(place), options.device) for place in places):
        return options.device
    return use_machine(options)


def _listening(host: str, port: int) -> socket.socket:
    """Take the port before models are loaded, so that one in use is found at once."""
    if not 0 <= port <= 65535:
        raise ValueError(f"--port must be between 0 and 65535, got {port}")
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except socket.gaierror as error:
        raise ValueError(f"--host must be an address of this machine, got {host!r}") from error
    return socket.create_server(address[:2], family=family, backlog=2048)
