"""Trees as plain data, checked and made ready to be drawn."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pcfgnat.draw.text import is_special, joined_to_previous, shown

MOST = 1e300  # what lies beyond is as good as infinite
EXPECTED = "a tree must be an object with a list `nodes`, as `pcfgnat translate --json` prints it"


@dataclass(frozen=True)
class Word:
    """A token of a sentence and its node in the tree; `left` and `right` are positions in the sentence.

    text:   what is shown of `piece`, the token itself
    joined: whether it continues the word before it
    depth:  how far below the main chain it hangs
    Probabilities are None where they are not known.
    """

    position: int
    node: int
    piece: str
    text: str
    joined: bool
    special: bool
    main_chain: bool
    depth: int
    left: int | None
    right: int | None
    token_probability: float | None
    rule_probability: float | None


def read_tree(tree: Mapping[str, Any]) -> list[Word]:
    """Read what `ParseTree.to_dict` or JSON gives; raise an error for anything that cannot be drawn."""
    if not isinstance(tree, Mapping):
        raise ValueError(f"{EXPECTED}, got {type(tree).__name__}")
    rows = tree.get("nodes")
    if not isinstance(rows, Sequence) or isinstance(rows, str):
        raise ValueError(f"{EXPECTED}, got {'nothing' if rows is None else type(rows).__name__} for `nodes`")
    if not rows:
        raise ValueError("a tree must have nodes, got none")
    for position, row in enumerate(rows):
        _check_row(row, position, len(rows))
    depths = _depths(rows)
    pieces = [_piece(row) for row in rows]
    joined = joined_to_previous(pieces)
    return [
        Word(
            position=i,
            node=row["node"],
            piece=pieces[i],
            text=shown(pieces[i]),
            joined=joined[i],
            special=i in (0, len(rows) - 1) and is_special(pieces[i]),
            main_chain=row["main_chain"],
            depth=depths[i],
            left=row["left"],
            right=row["right"],
            token_probability=_probability(row, "token_log_prob"),
            rule_probability=None if row["right"] is None else _probability(row, "rule_log_prob"),
        )
        for i, row in enumerate(rows)
    ]


def _check_row(row: Any, position: int, count: int) -> None:
    place = f"entry {position} of a tree's nodes"
    if not isinstance(row, Mapping):
        raise ValueError(f"{place} must be an object, got {type(row).__name__}")
    for name, kinds in (("node", int), ("main_chain", bool), ("left", int | None), ("right", int | None)):
        if name not in row:
            raise ValueError(f"{place} must have {name!r}, got {', '.join(map(str, row)) or 'nothing'}")
        if not isinstance(row[name], kinds) or (name != "main_chain" and isinstance(row[name], bool)):
            raise ValueError(f"{name!r} in {place} must be of type {kinds}, got {row[name]!r}")
    if "word" not in row and "token" not in row:
        raise ValueError(f"{place} must have 'word' or 'token', got {', '.join(map(str, row))}")
    left, right = row["left"], row["right"]
    if (left is not None and not 0 <= left < position) or (
        right is not None and not position < right < count
    ):
        raise ValueError(
            f"the children of {place} must stand on either side of it among {count}, got {left} and {right}"
        )
    for name in ("token_log_prob", "rule_log_prob"):
        number_of(row, name, place)


def number_of(data: Mapping[str, Any], name: str, place: str) -> float | None:
    """Read a number that may be null or missing."""
    value = data.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        raise ValueError(f"{name!r} in {place} must be a number or null, got {value!r:.40}")
    return float(min(max(value, -MOST), MOST))


def _depths(rows: Sequence[Mapping[str, Any]]) -> list[int]:
    """How far below the main chain each node hangs; everything but the first must have one parent."""
    parent: dict[int, int] = {}
    for i, row in enumerate(rows):
        for child in (row["left"], row["right"]):
            if child is not None:
                if child in parent:
                    raise ValueError(
                        f"entry {child} of a tree's nodes must have one parent, got {parent[child]} and {i}"
                    )
                parent[child] = i
    depths: list[int | None] = [0 if row["main_chain"] else None for row in rows]
    for i, row in enumerate(rows):
        if (i not in parent) != (i == 0) or (row["main_chain"] and not _on_chain(rows, parent.get(i), i)):
            raise ValueError(
                f"entry {i} of a tree's nodes must hang in one tree whose main chain leads from the first "
                "entry to the right"
            )
    pending = [i for i, depth in enumerate(depths) if depth == 0]
    while pending:
        i = pending.pop()
        for child in (rows[i]["left"], rows[i]["right"]):
            if child is not None and depths[child] is None:
                depths[child] = (depths[i] or 0) + 1
                pending.append(child)
    if None in depths:
        raise ValueError(f"entry {depths.index(None)} of a tree's nodes must hang on its main chain")
    return [depth or 0 for depth in depths]


def _on_chain(rows: Sequence[Mapping[str, Any]], parent: int | None, child: int) -> bool:
    return parent is None or (rows[parent]["main_chain"] and rows[parent]["right"] == child)


def _piece(row: Mapping[str, Any]) -> str:
    word = row.get("word")
    return str(row.get("token", "")) if word is None else str(word)


def _probability(row: Mapping[str, Any], name: str) -> float | None:
    """JSON has no infinity: null is impossible."""
    if name not in row:
        return None
    value = number_of(row, name, "a node")
    return 0.0 if value is None else math.exp(min(value, 0.0))


def percent(probability: float) -> str:
    """Show a probability."""
    share = 100 * probability
    if 0 < share < 0.1:
        return "<0.1 %"
    return f"{share:.0f} %" if share >= 99.95 or share == 0 else f"{share:.1f} %"
