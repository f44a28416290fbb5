"""What is to be drawn: trees with their captions, from the data of translations."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pcfgnat.draw.data import number_of
from pcfgnat.draw.html import score_text
from pcfgnat.draw.text import safe
from pcfgnat.draw.tree import tree_scene

EXPECTED = "an object with a tree, as `pcfgnat translate --json` prints it"


@dataclass(frozen=True)
class Item:
    """A tree or a lattice to draw; `caption` may have lines of context above its own."""

    caption: str
    data: Mapping[str, Any]


def lattice_item(source: str, text: str, lattice: Mapping[str, Any]) -> Item:
    """Return a lattice under its source and the best translation in it."""
    return Item(f"{safe(source)}\n{safe(text)}", lattice)


def translation_items(translation: Mapping[str, Any], results: int) -> list[Item]:
    """Return the best candidates of a translation, or those of each part of a long one."""
    parts = _objects(translation, "parts")
    if parts:
        return [item for part in parts for item in translation_items(part, results)]
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


def json_items(lines: Iterable[str], name: str, results: int) -> Iterator[tuple[int, list[Item]]]:
    """Yield the number of each line that is not blank and its trees; errors name the file and the line."""
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            items = translation_items(_parsed(line), results)
            for item in items:
                tree_scene(item.data)  # raises an error if it is not a tree
        except ValueError as error:
            raise ValueError(f"{name} line {number}: {error}") from error
        yield number, items


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


def _objects(data: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    found = data.get(name, [])
    if not isinstance(found, list) or not all(isinstance(item, dict) for item in found):
        raise ValueError(f"{name!r} must be a list of objects, got {found!r:.60}")
    return found
