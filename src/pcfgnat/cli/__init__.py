"""The command `pcfgnat`. Each command has a file here; torch is imported only when one that needs it runs."""

import argparse
import io
import os
import sys
import time
import traceback
from collections.abc import Sequence

from pcfgnat import __version__
from pcfgnat.cli import (
    ablate,
    analyse,
    average,
    benchmark,
    cluster_translate,
    completion,
    distill,
    doctor,
    draw,
    evaluate,
    export,
    info,
    prepare,
    serve,
    train,
    translate,
    warm_up,
)
from pcfgnat.cli.completion import answer_shell
from pcfgnat.cli.extras import missing_extra
from pcfgnat.cli.files import detail
from pcfgnat.cli.options import add_verbosity
from pcfgnat.progress import VERBOSITY, Verbosity

DESCRIPTION = """\
Parallel translation with right-heavy probabilistic context-free grammars.

  echo "Hello." | pcfgnat translate        translate with the bundled model
  pcfgnat prepare … && pcfgnat train …     train your own model
  pcfgnat COMMAND --help                   describe a command and its options
"""
COMMANDS = (
    prepare,
    train,
    translate,
    draw,
    serve,
    evaluate,
    analyse,
    ablate,
    distill,
    cluster_translate,
    average,
    export,
    benchmark,
    info,
    warm_up,
    completion,
    doctor,
)
USAGE_ERROR, RUNTIME_ERROR, INTERRUPTED, BROKEN_PIPE = 2, 1, 130, 141


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code: 2 if the user can mend it, 1 if the machine failed."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")
    token = VERBOSITY.set(Verbosity.NORMAL)
    start, command = time.monotonic(), ""
    try:
        options = _parsed(arguments)
        command = options.command
        VERBOSITY.set(options.verbosity)
        options.run(options)
        sys.stdout.flush()
        detail(f"took {time.monotonic() - start:.1f} s")
        return 0
    except KeyboardInterrupt:
        return _ended(INTERRUPTED)
    except BrokenPipeError:
        return _ended(BROKEN_PIPE)
    except ModuleNotFoundError as error:
        message = missing_extra(command, error)
        if message is None or os.environ.get("PCFGNAT_TRACEBACK"):
            raise
        return _failed(USAGE_ERROR, message)
    except (ValueError, OSError) as error:
        if os.environ.get("PCFGNAT_TRACEBACK"):
            raise
        if VERBOSITY.get() is Verbosity.VERBOSE:
            traceback.print_exc()
        return _failed(USAGE_ERROR if isinstance(error, ValueError) else RUNTIME_ERROR, _message(error))
    finally:
        VERBOSITY.reset(token)


def _failed(code: int, message: str) -> int:
    _ended(code)
    print(f"pcfgnat: error: {message}", file=sys.stderr)
    return code


def _ended(code: int) -> int:
    """Flush stdout; if that fails, keep Python from reporting it again at exit."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code


def _parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line; key=value may also stand after options, which argparse does not accept."""
    parser = _parser()
    answer_shell(parser)
    options, rest = parser.parse_known_args(arguments)
    late = [text for text in rest if "=" in text and not text.startswith("-")]
    if rest and (late != rest or "late_assignments" not in options):
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    if rest:
        getattr(options, options.late_assignments).extend(rest)
    return options


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="pcfgnat", description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--version", action="version", version=f"pcfgnat {__version__}")
    add_verbosity(parser, Verbosity.NORMAL)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for module in COMMANDS:
        module.add_command(commands)
    return parser


def _message(error: Exception) -> str:
    """Return an error as one line of text."""
    if isinstance(error, OSError) and error.strerror:
        place = f"{error.filename}: " if error.filename is not None else ""
        return f"{place}{error.strerror}"
    return " ".join(str(error).split()) or type(error).__name__
