"""`pcfgnat serve`: translation over HTTP, and a page."""

import argparse
import ipaddress
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from pcfgnat.cli.files import notice
from pcfgnat.cli.options import Commands, add_machine_options, new_command, positive, use_machine

if TYPE_CHECKING:
    from pcfgnat.server import Limits
    from pcfgnat.server.access import Access

DESCRIPTION = """\
Translate for other programs and for people: an API (its documentation is at /docs), and a page that shows
translations and their trees. Concurrent requests are translated together. On SIGTERM and Ctrl-C the
server finishes the requests that it has accepted.
"""
EXAMPLE = """\
examples:
  pcfgnat serve
  pcfgnat serve --model runs/small/final --model teacher=runs/teacher/final --bundled --port 8080
  pcfgnat serve --host 0.0.0.0 --api-key-file key.txt --workers 2 --log-level info --log-format json
  curl -s localhost:8000/translate --json '{"text": "How are you?", "trees": false}'
"""
KEY_VARIABLE = "PCFGNAT_API_KEY"
MAX_KEY_BYTES = 4096


def add_command(commands: Commands) -> None:
    """Describe the command's options."""
    parser = new_command(commands, "serve", "translate over HTTP, with a page", DESCRIPTION, run)
    parser.epilog = EXAMPLE
    parser.add_argument(
        "--model",
        action="append",
        default=[],
        metavar="[NAME=]DIR",
        help="a checkpoint or an exported model, and its name in requests (default: that of the directory); "
        "the first is the default model (default: the bundled one)",
    )
    parser.add_argument(
        "--verifier",
        action="append",
        default=[],
        metavar="[NAME=]DIR",
        help="an autoregressive model that verifies the drafts of model NAME (default: of the first)",
    )
    parser.add_argument("--bundled", action="store_true", help="serve the bundled model beside others")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1)")
    parser.add_argument("--port", type=int, default=8000, help="port to listen on, 0 for any (default: 8000)")
    _add_load_options(parser)
    _add_access_options(parser)
    group = parser.add_argument_group("log")
    group.add_argument(
        "--log-level",
        choices=("critical", "error", "warning", "info", "debug"),
        default="warning",
        help="info logs every request with its id (default: warning)",
    )
    group.add_argument("--log-format", choices=("text", "json"), default="text", help="(default: text)")
    add_machine_options(parser, batch=64)


def _add_load_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("load")
    group.add_argument(
        "--workers", type=positive, default=1, metavar="N", help="processes that share the port (default: 1)"
    )
    group.add_argument(
        "--queue", type=positive, metavar="N", help="texts that may wait for a model (default: 512)"
    )
    group.add_argument(
        "--wait",
        type=float,
        metavar="MS",
        help="milliseconds that a text waits for others to join it (default: 5)",
    )
    group.add_argument(
        "--timeout", type=float, metavar="S", help="seconds until a request fails (default: 30)"
    )


def _add_access_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("access")
    group.add_argument(
        "--api-key-file",
        type=Path,
        metavar="FILE",
        help=f"a file with the key that clients must send (default: the variable {KEY_VARIABLE}, if set)",
    )
    group.add_argument(
        "--allow-host",
        action="append",
        default=[],
        metavar="NAME",
        help="host name to answer to (default: local ones on a local address, else any)",
    )
    group.add_argument(
        "--cors",
        action="append",
        default=[],
        metavar="ORIGIN",
        help="origin whose pages may use the server, such as https://example.org; * for all",
    )


def run(options: argparse.Namespace) -> None:
    """Serve until a signal comes."""
    from pcfgnat.server.models import named_models, named_verifiers
    from pcfgnat.server.process import ServeSettings, listen, serve
    from pcfgnat.translator import describe_model, model_directory

    places = named_models(options.model, options.bundled)
    verifiers = named_verifiers(options.verifier, places)
    for place in (*places.values(), *verifiers.values()):
        describe_model(model_directory(place))  # what is missing is found before anything is started
    limits = _limits(options)
    with listen(options.host, options.port) as listener:
        host, port = listener.getsockname()[:2]
        access = _access(options, host)
        settings = ServeSettings(
            places,
            str(_device(options, [*places.values(), *verifiers.values()])),
            _threads(options),
            limits,
            access,
            options.log_level,
            options.log_format,
            verifiers,
        )
        notice(f"serving {', '.join(places)} on http://{f'[{host}]' if ':' in host else host}:{port}")
        if not (ipaddress.ip_address(host).is_loopback or access.key):
            notice("everybody who reaches this address can use it: no key (--api-key-file), no TLS")
        serve(settings, listener, options.workers)


def _limits(options: argparse.Namespace) -> "Limits":
    from pcfgnat.server import Limits

    defaults = Limits()
    return Limits(
        batch=options.batch or defaults.batch,
        wait=defaults.wait if options.wait is None else options.wait / 1000,
        queue=options.queue or defaults.queue,
        timeout=defaults.timeout if options.timeout is None else options.timeout,
    )


def _access(options: argparse.Namespace, address: str) -> "Access":
    """Read who may use the server; the key comes from a file or a variable, as others see command lines."""
    from pcfgnat.server.access import Access, local_hosts

    key = os.environ.get(KEY_VARIABLE, "")
    if options.api_key_file is not None:
        with options.api_key_file.open("rb") as file:
            key = file.read(MAX_KEY_BYTES).decode("ascii", errors="replace").strip()
        if not key:
            raise ValueError(f"--api-key-file must hold a key, but {options.api_key_file} is empty")
    hosts = frozenset(name.lower() for name in options.allow_host)
    local = local_hosts(address)
    return Access(local | hosts if local else hosts, frozenset(options.cors), key)


def _threads(options: argparse.Namespace) -> int | None:
    """Share the cores among the workers unless `--threads` is given."""
    from pcfgnat.runtimes.machine import available_cores

    threads: int | None = options.threads
    if threads is not None or options.workers == 1:
        return threads
    return max(1, available_cores() // int(options.workers))


def _device(options: argparse.Namespace, places: Iterable[Path | None]) -> object:
    """Set torch up if any model needs it."""
    from pcfgnat.translator import exported_for, model_directory

    if all(exported_for(model_directory(place), options.device) for place in places):
        return options.device
    return use_machine(options)
