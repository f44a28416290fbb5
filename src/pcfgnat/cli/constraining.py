"""Options about what translations must have and must not have."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from pcfgnat.cli.options import positive

if TYPE_CHECKING:
    from pcfgnat.decoding.constraints import Constraints


def add_constraint_options(parser: argparse.ArgumentParser) -> None:
    """Add the group of options."""
    group = parser.add_argument_group(
        "constraints", "the best translation that keeps all of them; what cannot be kept is reported"
    )
    group.add_argument(
        "--glossary",
        type=Path,
        metavar="FILE",
        help="source phrase, tab, target phrase per line: required where the source has them",
    )
    group.add_argument(
        "--require", action="append", default=[], metavar="PHRASE", help="must appear; repeatable"
    )
    group.add_argument(
        "--forbid", action="append", default=[], metavar="PHRASE", help="must not appear; repeatable"
    )
    group.add_argument("--prefix", default="", metavar="TEXT", help="how every translation must begin")
    group.add_argument(
        "--max-characters", type=positive, metavar="N", help="how long every translation may be"
    )
    group.add_argument(
        "--keep",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="numbers, addresses, tags, emoji and unknown characters of the source survive (default: yes)",
    )
    group.add_argument(
        "--strict", action="store_true", help="stop with an error where a constraint cannot be kept"
    )


def constraints_of(options: argparse.Namespace) -> "Constraints":
    """Return what the options ask for; the glossary is read now."""
    from pcfgnat.decoding.constraints import Constraints
    from pcfgnat.text.glossary import read_glossary

    return Constraints(
        require=tuple(options.require),
        forbid=tuple(options.forbid),
        prefix=options.prefix,
        glossary=() if options.glossary is None else read_glossary(options.glossary),
        max_characters=options.max_characters,
        strict=options.strict,
    )
