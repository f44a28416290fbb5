"""Where the tags of a source belong in its translation: opposite to the same tokens of the lattice.

Nodes are numbered in the order of the words that they emit, and each stands opposite to a source token. Words
that both sides share are opposite to each other. Places are in order, so tags stay in order too.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

import numpy as np
from jaxtyping import Float

from pcfgnat.text.surfaces import UNSPACED, Surfaces
from pcfgnat.translator.markup import Mark
from pcfgnat.translator.translation import Candidate

NUMBER, LETTERS = (
    r"\d+(?:[.,:]\d+)*",
    r"[^\W\d]+(?:['\u2019-][^\W\d]+)*",
)  # apart: a note's number is not its word's
ATOM = re.compile(rf"{UNSPACED.pattern}|\w+?(?={UNSPACED.pattern})|{NUMBER}|{LETTERS}|[^\w\s]")


@dataclass(frozen=True)
class Opposites:
    """Characters of a translation, and of its source, that stand opposite to each other; both increase."""

    target: Float[np.ndarray, "n"]
    source: Float[np.ndarray, "n"]

    @classmethod
    def same(cls, text: str) -> "Opposites":
        """Return those of a text and itself."""
        ends = np.array([0.0, float(len(text))])
        return cls(ends, ends)

    def source_of(self, places: Float[np.ndarray, "k"]) -> Float[np.ndarray, "k"]:
        """Return what is opposite to places in the translation."""
        return np.asarray(np.interp(places, self.target, self.source))


def opposites(source: str, ids: Sequence[int], candidate: Candidate, surfaces: Surfaces) -> Opposites:
    """Read them off the tree of a translation; without a tree both sides are spread evenly."""
    text, tree = candidate.text, candidate.tree
    points = list[tuple[float, float]]()
    if tree is not None and len(tree) > 2:
        here = _middles(tree.tokens, surfaces, len(text))
        there = _middles(ids, surfaces, len(source))
        opposite = [node * len(ids) // tree.support.num_nodes for node in tree.nodes]
        points = [(here[i], there[min(k, len(ids) - 1)]) for i, k in enumerate(opposite)]
    shared = _shared(text, source)
    kept = [point for point in points if all(_in_order(point, own) for own in shared)]
    ends = [(0.0, 0.0), *sorted([*kept, *shared]), (float(len(text)), float(len(source)))]
    return Opposites(np.array([own for own, _ in ends]), np.array([other for _, other in ends]))


def placed(source: str, translation: str, marks: Sequence[Mark], opposite: Opposites) -> str:
    """Return a translation as HTML, with the marks of its source in their order."""
    atoms = [(match.start(), match.end()) for match in ATOM.finditer(translation)]
    bounds = _bounds(source, translation, atoms, marks, opposite)
    html, position = "", 0
    for mark, bound in zip(marks, bounds, strict=True):
        place = max(position, character_of(source, translation, atoms, mark, bound))
        html += escape(translation[position:place], quote=False) + mark.html
        position = place
    return html + escape(translation[position:], quote=False)


def _bounds(
    source: str,
    translation: str,
    atoms: Sequence[tuple[int, int]],
    marks: Sequence[Mark],
    opposite: Opposites,
) -> list[int]:
    """Return how many words of the translation stand before each mark."""
    middles = opposite.source_of(np.array([(start + stop) / 2 for start, stop in atoms]))
    tails = [_tail(text) for text in (source, translation)]
    inner = sum(start < tails[1] for start, _ in atoms)  # those before the full stop
    bounds = []
    for mark in marks:
        if mark.place >= len(source.rstrip()):  # with the full stop, wherever that stands in the lattice
            bounds.append(len(atoms))
            continue
        bound = int((middles < mark.place).sum())
        bounds.append(min(bound, inner) if mark.place <= tails[0] else max(bound, inner))
    places = [0, *(mark.place for mark in marks), len(source)]
    needed = [bool(re.search(r"\w", source[a:b])) for a, b in pairwise(places)]
    return _with_room(bounds, needed, len(atoms))


def _with_room(bounds: Sequence[int], needed: Sequence[bool], most: int) -> list[int]:
    """Move bounds so that tags with a word between them keep one, if there are words enough."""
    room = list(bounds)
    if sum(needed) > most:
        return room
    for i in range(len(room)):
        room[i] = max(room[i], (room[i - 1] if i else 0) + needed[i])
    after = most
    for i in reversed(range(len(room))):
        room[i] = after = min(room[i], after - needed[i + 1])
    return room


def character_of(
    source: str, translation: str, atoms: Sequence[tuple[int, int]], mark: Mark, bound: int
) -> int:
    """Return the character before which a mark goes, joined to the same side as in the source."""
    before, after = source[: mark.place][-1:], source[mark.place : mark.place + 1]
    is_left = mark.kind == "close" if before.strip() and after.strip() else bool(before.strip())
    if mark.place == 0 or not atoms:
        return 0
    if is_left or bound == len(atoms):
        return atoms[bound - 1][1] if bound else 0
    return atoms[bound][0]


def _middles(ids: Sequence[int], surfaces: Surfaces, length: int) -> list[float]:
    """Return the middle of each token in a text of so many characters."""
    texts = [surfaces.texts[token] for token in ids]
    joined = "".join(texts)
    leading = len(joined) - len(joined.lstrip())
    scale = length / max(1, len(joined.strip()))
    stops = np.cumsum([len(text) for text in texts])
    starts = stops - [len(text.lstrip()) for text in texts]
    middles = ((starts + stops) / 2 - leading) * scale
    return [float(own) for own in np.clip(middles, 0, length)]


def _shared(text: str, source: str) -> list[tuple[float, float]]:
    """Return the middles of words that both have once, as far as they come in the same order."""
    here, there = _once(text), _once(source)
    points = list[tuple[float, float]]()
    for word in here:
        if word in there and (not points or there[word] > points[-1][1]):
            points.append((here[word], there[word]))
    return points


def _once(text: str) -> dict[str, float]:
    """Return the words that a text has once, in order, and their middles."""
    found = [(match[0], (match.start() + match.end()) / 2) for match in re.finditer(r"\w+", text)]
    times = Counter(word for word, _ in found)
    return {word: middle for word, middle in found if times[word] == 1}


def _in_order(first: tuple[float, float], second: tuple[float, float]) -> bool:
    return (first[0] - second[0]) * (first[1] - second[1]) > 0


def _tail(text: str) -> int:
    """Return where the marks at the end of a sentence begin."""
    return next((i + 1 for i in reversed(range(len(text))) if text[i].isalnum()), 0)
