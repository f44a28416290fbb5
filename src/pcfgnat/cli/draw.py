"""`pcfgnat draw`: translations as pictures of their trees."""

import argparse
import json
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pcfgnat.cli.files import notice, read_lines, writing
from pcfgnat.cli.options import (
    Commands,
    add_decoding_options,
    add_former_name,
    add_machine_options,
    load_translator,
    new_command,
    positive,
)

if TYPE_CHECKING:
    from pcfgnat.draw import Scene

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
EXPECTED = "an object with a tree, as `pcfgnat translate --json` prints it"


@dataclass(frozen=True)
class Item:
    """A tree or a lattice to draw; `caption` may have lines of context above its own."""

    caption: str
    data: Mapping[str, Any]


def add_command(commands: Commands) -> None:
    """Describe the command's options."""
    parser = new_command(commands, "draw", "draw parse trees", DESCRIPTION, run)
    parser.epilog = EXAMPLE
    parser.add_argument("texts", nargs="*", metavar="TEXT", help="what to translate and draw")
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


def run(options: argparse.Namespace) -> None:
    """Draw everything."""
    form = _format(options)
    if bool(options.texts) == (options.json is not None):
        raise ValueError(f"either texts or --json must be given, got {'both' if options.texts else 'none'}")
    if options.lattice and (options.json is not None or options.results > 1):
        raise ValueError("--lattice needs texts, and goes without --json and --results")
    if options.lattice:
        items = _lattices(options)
    elif options.json is not None:
        items = _from_json(options.json, options.results)
    else:
        items = _translated(options)
    drawn = _drawn(list(items), form, options)
    with writing(options.output) as file:
        file.flush()
        file.buffer.write(drawn)


def _format(options: argparse.Namespace) -> str:
    if options.format is not None:
        return str(options.format)
    if options.output is None:
        return "terminal"
    if options.output.suffix not in SUFFIXES:
        raise ValueError(
            f"--output must end in {', '.join(SUFFIXES)}, or --format be given, got {options.output.name!r}"
        )
    return SUFFIXES[options.output.suffix]


def _translated(options: argparse.Namespace) -> Iterator[Item]:
    translator = load_translator(options, options.model, results=options.results)
    for number, translation in enumerate(translator(options.texts), start=1):
        for note in translation.notes:
            notice(f"text {number}: {note}")
        if not translation.pieces:
            notice(f"text {number} has no translation to draw")
        elif not translation.trees:
            raise ValueError("the model must be one that builds trees, pcfg or dag; this one builds none")
        else:
            yield from _items(translation.to_dict(), options.results)


def _lattices(options: argparse.Namespace) -> Iterator[Item]:
    from pcfgnat.draw import safe
    from pcfgnat.translator.lattice import lattice_of

    translator = load_translator(options, options.model)
    for text in options.texts:
        lattice = lattice_of(translator, text)
        yield Item(f"{safe(lattice.source)}\n{safe(lattice.text)}", lattice.to_dict())


def _from_json(path: Path, results: int) -> Iterator[Item]:
    """Read translations, or trees alone; errors name the line."""
    from pcfgnat.draw import tree_scene

    name = "stdin" if str(path) == "-" else str(path)
    for number, line in enumerate(read_lines(None if name == "stdin" else path), start=1):
        if not line.strip():
            continue
        try:
            items = _items(_parsed(line), results)
            for item in items:
                tree_scene(item.data)  # raises an error if it is not a tree
        except ValueError as error:
            raise ValueError(f"{name} line {number}: {error}") from error
        if not items:
            notice(f"{name} line {number} has no translation to draw")
        yield from items


def _parsed(line: str) -> Mapping[str, Any]:
    try:
        data = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"expected {EXPECTED}, got no JSON: {error}") from error
    except RecursionError as error:
        raise ValueError(f"expected {EXPECTED}, got JSON nested too deeply") from error
    if not isinstance(data, dict):
        raise ValueError(f"expected {EXPECTED}, got {type(data).__name__}")
    return {"text": "", "tree": data} if "nodes" in data else data


def _items(translation: Mapping[str, Any], results: int) -> list[Item]:
    """Take the best candidates of a translation, or those of each part of a long one."""
    from pcfgnat.draw import number_of, safe, score_text

    parts = _objects(translation, "parts")
    if parts:
        return [item for part in parts for item in _items(part, results)]
    candidates = [translation, *_objects(translation, "alternatives")][:results]
    items = []
    for rank, candidate in enumerate(candidates, start=1):
        if not candidate.get("pieces", True):
            continue  # the translation of nothing
        if "tree" not in candidate:
            raise ValueError(f"expected {EXPECTED}, got {', '.join(candidate) or 'nothing'}")
        if not isinstance(candidate["tree"], dict):
            raise ValueError(f"a tree must be an object, got {type(candidate['tree']).__name__}")
        caption = f"{rank}. " if results > 1 else ""
        caption += safe(str(candidate.get("text", "")))
        if "score" in candidate:
            caption += f" ({score_text(number_of(candidate, 'score', 'a translation'))})"
        source = safe(str(translation.get("source", ""))) if rank == 1 else ""
        items.append(Item(f"{source}\n{caption}" if source else caption, candidate["tree"]))
    return items


def _objects(data: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    found = data.get(name, [])
    if not isinstance(found, list) or not all(isinstance(item, dict) for item in found):
        raise ValueError(f"{name!r} must be a list of objects, got {found!r:.60}")
    return found


def _drawn(items: Sequence[Item], form: str, options: argparse.Namespace) -> bytes:
    from pcfgnat.draw import PAGE, scene_dot, scene_svg

    if not items:
        raise ValueError("there must be something to draw, got no tree")
    if form == "terminal":
        return _in_terminal(items, options).encode()
    if form == "latex":
        return _in_latex(items, options).encode()
    page = PAGE if options.width is None else options.width
    scenes = [_scene(item, page, options.lattice) for item in items]
    if form == "dot":
        return "\n".join(map(scene_dot, scenes)).encode()
    picture = _stacked(scenes)
    return scene_svg(picture, options.theme).encode() if form == "svg" else _figure(picture, form, options)


def _figure(picture: "Scene", form: str, options: argparse.Namespace) -> bytes:
    from pcfgnat.draw import missing_characters, scene_pdf, scene_png

    missing = missing_characters(picture)
    if missing:
        notice(
            f"no font of this machine has {missing[:20]!r}: the {form.upper()} shows boxes there; "
            "an SVG needs none here"
        )
    return scene_pdf(picture, options.theme) if form == "pdf" else scene_png(picture, options.theme)


def _in_latex(items: Sequence[Item], options: argparse.Namespace) -> str:
    from pcfgnat.draw import TEXT_PAGE, latex_document, lattice_latex, tree_latex

    page = TEXT_PAGE if options.width is None else options.width
    environment = lattice_latex if options.lattice else tree_latex
    return latex_document([(item.caption, environment(item.data, page)) for item in items], page)


def _scene(item: Item, page: int, lattice: bool) -> "Scene":
    from pcfgnat.draw import lattice_scene, tree_scene

    return (lattice_scene if lattice else tree_scene)(item.data, item.caption, page)


def _stacked(scenes: Sequence["Scene"]) -> "Scene":
    from pcfgnat.draw import legend, stacked

    there = {box.role for scene in scenes for box in scene.boxes}
    names = {"chain": "main chain", "prefix": "prefix tree", "unvisited": "not used"}
    return stacked([*scenes, legend([(role, name) for role, name in names.items() if role in there])])


def _in_terminal(items: Sequence[Item], options: argparse.Namespace) -> str:
    from pcfgnat.draw import MIN_WIDTH, draw_lattice_terminal, draw_terminal

    width = options.width or max(shutil.get_terminal_size((100, 24)).columns, MIN_WIDTH)
    colour = options.output is None and sys.stdout.isatty()
    draw = draw_lattice_terminal if options.lattice else draw_terminal
    return "\n\n".join(f"{item.caption}\n\n{draw(item.data, width, colour)}" for item in items) + "\n"
