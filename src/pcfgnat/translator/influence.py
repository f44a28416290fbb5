"""Which words of a source a translation's words depend on: those without which they become improbable.

A network whose lattice has been decoded is run again with a part of the source unknown, and the tokens of the
translation are looked up at the nodes that emitted them. So words are found again wherever they went.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from pcfgnat.grammar.parse_tree import ParseTree
from pcfgnat.runtimes.base import Tables
from pcfgnat.text.surfaces import Surfaces

MAX_PARTS = 24  # of a sentence: the network is run once for each
WORD = re.compile(r"\w")


@dataclass(frozen=True)
class Influence:
    """A model that scores lattices, and what its tokens write."""

    runtime: Tables
    surfaces: Surfaces
    unknown: int

    def of_parts(
        self, source: str, bounds: Sequence[int], ids: Sequence[int], tree: ParseTree
    ) -> Float[np.ndarray, "parts tokens"] | None:
        """Return how much each part of a source adds to the log-probability of each token of a translation.

        Parts are the characters between `bounds`. Those without words have no influence, and punctuation
        stays in its place. None if texts and tokens do not fit together, or if there are too many parts.
        """
        spans = token_spans(source, ids, self.surfaces)
        if spans is None:
            return None
        parts = [self._words(source, spans, *part) for part in zip([0, *bounds], [*bounds, len(source)])]  # noqa: B905
        asked = [number for number, own in enumerate(parts) if own]
        if not 2 <= len(asked) <= MAX_PARTS:
            return None
        hidden = [set[int](), *(parts[number] for number in asked)]
        sources = [[self.unknown if i in own else token for i, token in enumerate(ids)] for own in hidden]
        scores = self._scores(sources, tree)
        if scores is None:
            return None
        found = np.zeros((len(parts), len(tree)))
        found[asked] = scores[0] - scores[1:]
        return found

    def _words(self, source: str, spans: Sequence[tuple[int, int]], start: int, stop: int) -> set[int]:
        """Return the tokens of a part that write letters or digits; the part of its middle owns a token."""
        return {
            i
            for i, (a, b) in enumerate(spans)
            if b > a and 2 * start <= a + b < 2 * stop and WORD.search(source[a:b])
        }

    def _scores(
        self, sources: Sequence[list[int]], tree: ParseTree
    ) -> Float[np.ndarray, "sources tokens"] | None:
        """Return log-probabilities of a tree's tokens; None if the tree is that of another source."""
        nodes, tokens = np.array(tree.nodes), np.array(tree.tokens)
        found = np.zeros((len(sources), len(tree)))
        for group, grammars in self.runtime.grammars(sources):
            for place, index in enumerate(group):
                if grammars.support(place).num_nodes != tree.support.num_nodes:
                    return None
                found[index] = grammars.columns(place, tokens)[nodes, np.arange(len(tokens))]
        return found


def token_spans(text: str, ids: Sequence[int], surfaces: Surfaces) -> list[tuple[int, int]] | None:
    """Return the characters that each token writes, without spaces; None if they do not make up the text."""
    texts = [surfaces.texts[token] for token in ids]
    joined = "".join(texts)
    if joined.strip() != text.strip() or surfaces.pipeline is not None:
        return None
    shift = (len(text) - len(text.lstrip())) - (len(joined) - len(joined.lstrip()))
    spans, place = [], shift
    for own in texts:
        stop = place + len(own)
        spans.append((stop - len(own.lstrip()), place + len(own.rstrip()) if own.strip() else stop))
        place = stop
    return spans
