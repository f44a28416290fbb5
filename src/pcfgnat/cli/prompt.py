"""Lines that a person types."""

import importlib
import sys
from collections.abc import Iterator
from contextlib import suppress

from pcfgnat.cli.files import notice
from pcfgnat.progress import is_quiet

PROMPT = "> "


def typed_lines(welcome: str) -> Iterator[str]:
    """Yield what is typed into a terminal until Ctrl-D, with a prompt unless it is to be quiet."""
    with suppress(ImportError):
        importlib.import_module("readline")  # arrow keys and a history, where Python has it
    notice(f"{welcome}; one sentence per line, Ctrl-D ends")
    while True:
        try:
            yield _typed()
        except EOFError:
            if not is_quiet():
                print(file=sys.stderr)
            return
        except UnicodeDecodeError as error:
            notice(f"a line must be UTF-8, got a wrong byte at {error.start + 1}")


def _typed() -> str:
    """Return a line; the prompt goes to stderr if stdout is not the terminal."""
    prompt = "" if is_quiet() else PROMPT
    if sys.stdout.isatty():
        return input(prompt)
    print(prompt, end="", file=sys.stderr, flush=True)
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.removesuffix("\n")
