"""`pcfgnat draw`: translations as pictures of their trees."""

import argparse
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pcfgnat.cli.files import notice, read_lines, writing
from pcfgnat.cli.options import (
    Commands,
    add_decoding_options,
    add_former_name,
    add_machine_options,
    add_runtime_option,
    load_translator,
    new_command,
    positive,
)

if TYPE_CHECKING:
    from pcfgnat.draw import Item, Rendering

DESCRIPTION = """\
Translate, and draw the parse trees: the main chain from left to right along one line, prefix trees below it,
the stronger the more probable; in an SVG, hovering shows the numbers. Several trees are drawn below each
other.
"""
EXAMPLE = """\
examples:
  pcfgnat draw "How are you?" --output tree.svg
  pcfgnat draw "How are you?" --results 3 --output trees.png --theme dark
  pcfgnat draw "How are you?" --lattice --output lattice.pdf
  pcfgnat translate --json --input news.en | pcfgnat draw --json - --format latex
"""
SUFFIXES = {
    ".svg": "svg",
    ".png": "png",
    ".pdf": "pdf",
    ".tex": "latex",
    ".dot": "dot",
    ".gv": "dot",
    ".txt": "terminal",
}
FORMATS = ("svg", "png", "pdf", "latex", "dot", "terminal")


def add_command(commands: Commands) -> None:
    """Describe the command's options."""
    parser = new_command(commands, "draw", "draw parse trees", DESCRIPTION, run)
    parser.epilog = EXAMPLE
    parser.add_argument("texts", nargs="*", metavar="TEXT", help="text to translate and draw")
    parser.add_argument("--model", type=Path, metavar="DIR", help="a checkpoint (default: the bundled model)")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="lines of `translate --json` instead of texts; - is stdin"
    )
    parser.add_argument("--output", type=Path, metavar="FILE", help="where to write (default: stdout)")
    parser.add_argument(
        "--format", choices=FORMATS, help="(default: by the suffix of --output, else terminal)"
    )
    parser.add_argument(
        "--results",
        type=positive,
        default=1,
        metavar="N",
        help="draw the N best translations (default: 1)",
    )
    add_former_name(parser, "--nbest", "results", positive)
    parser.add_argument(
        "--lattice", action="store_true", help="draw all nodes that could have been used (pcfg and dag)"
    )
    parser.add_argument(
        "--width",
        type=positive,
        metavar="N",
        help="of the page in pixels (default: 960, LaTeX: 640), or of the terminal in columns",
    )
    parser.add_argument(
        "--theme",
        choices=("auto", "light", "dark"),
        default="auto",
        help="auto follows the reader's system (default: auto)",
    )
    add_decoding_options(parser)
    add_machine_options(parser)
    add_runtime_option(parser)


def run(options: argparse.Namespace) -> None:
    """Draw everything."""
    rendering = _rendering(options)
    if bool(options.texts) == (options.json is not None):
        raise ValueError(f"either texts or --json must be given, got {'both' if options.texts else 'none'}")
    if options.lattice and (options.json is not None or options.results > 1):
        raise ValueError("--lattice needs texts, without --json and --results")
    if options.lattice:
        items = list(_lattices(options))
    elif options.json is not None:
        items = list(_from_json(options.json, options.results))
    else:
        items = list(_translated(options))
    drawn = rendering.render(items)
    if missing := rendering.missing_characters(items):
        notice(
            f"no font of this machine has {missing[:20]!r}: the {rendering.format.upper()} shows boxes "
            "there; an SVG needs none here"
        )
    with writing(options.output) as file:
        file.flush()
        file.buffer.write(drawn)


def _rendering(options: argparse.Namespace) -> "Rendering":
    from pcfgnat.draw import MIN_WIDTH, Rendering

    form, width = options.format, options.width
    if form is None and options.output is None:
        form = "terminal"
    elif form is None and options.output.suffix in SUFFIXES:
        form = SUFFIXES[options.output.suffix]
    elif form is None:
        raise ValueError(
            f"--output must end in {', '.join(SUFFIXES)}, or --format be given, got {options.output.name!r}"
        )
    if form == "terminal" and width is None:
        width = max(shutil.get_terminal_size((100, 24)).columns, MIN_WIDTH)
    colour = options.output is None and sys.stdout.isatty()
    return Rendering(form, options.lattice, width, options.theme, colour)


def _translated(options: argparse.Namespace) -> "Iterator[Item]":
    from pcfgnat.draw import translation_items

    translator = load_translator(options, options.model, results=options.results)
    for number, translation in enumerate(translator(options.texts), start=1):
        for note in translation.notes:
            notice(f"text {number}: {note}")
        if not translation.pieces:
            notice(f"text {number} has no translation to draw")
        elif not translation.trees:
            raise ValueError("the model must be one that builds trees, pcfg or dag; this one builds none")
        else:
            yield from translation_items(translation.to_dict(), options.results)


def _lattices(options: argparse.Namespace) -> "Iterator[Item]":
    from pcfgnat.draw import lattice_item
    from pcfgnat.translator.lattice import lattice_of

    translator = load_translator(options, options.model)
    for text in options.texts:
        lattice = lattice_of(translator, text)
        yield lattice_item(lattice.source, lattice.text, lattice.to_dict())


def _from_json(path: Path, results: int) -> "Iterator[Item]":
    from pcfgnat.draw import json_items

    name = "stdin" if str(path) == "-" else str(path)
    for number, items in json_items(read_lines(None if name == "stdin" else path), name, results):
        if not items:
            notice(f"{name} line {number} has no translation to draw")
        yield from items
