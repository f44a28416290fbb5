"""The texts of a vocabulary as a tree of characters, so that what texts begin alike is computed once."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int64


@dataclass(frozen=True, eq=False)
class Level:
    """The nodes of one depth: texts of so many characters with which a token's text begins.

    parents:    the node of the level before, without the last character
    characters: the last character, as its place in `TextTrie.characters`
    tokens:     tokens whose text ends here
    ends:       the node of each of these
    """

    parents: Int64[np.ndarray, "n"]
    characters: Int64[np.ndarray, "n"]
    tokens: Int64[np.ndarray, "t"]
    ends: Int64[np.ndarray, "t"]


@dataclass(frozen=True, eq=False)
class TextTrie:
    """All texts, level by level; tokens without a text are in no level."""

    characters: tuple[str, ...]
    levels: tuple[Level, ...]
    tokens: int

    @classmethod
    def of(cls, texts: Sequence[str]) -> "TextTrie":
        """Build the tree."""
        characters = tuple(sorted(set("".join(texts))))
        places = {character: place for place, character in enumerate(characters)}
        open_texts = [(token, 0) for token, text in enumerate(texts) if text]  # with their node
        levels = []
        for depth in range(max(map(len, texts), default=0)):
            nodes: dict[tuple[int, int], int] = {}
            own = [(t, nodes.setdefault((n, places[texts[t][depth]]), len(nodes))) for t, n in open_texts]
            done = [(token, node) for token, node in own if len(texts[token]) == depth + 1]
            open_texts = [(token, node) for token, node in own if len(texts[token]) > depth + 1]
            levels.append(Level(*_columns(list(nodes)), *_columns(done)))
        return cls(characters, tuple(levels), len(texts))

    def fold(
        self, start: int, symbols: Int64[np.ndarray, "c"], step: Callable[[int, int], int]
    ) -> Int64[np.ndarray, "V"]:
        """Return what each token's characters make of `start`, one after the other.

        Characters are read as `symbols`. `step` takes what was made so far and a symbol, each pair once per
        level: so the fewer symbols and results there are, the less it takes.
        """
        found, made = np.full(self.tokens, start, dtype=np.int64), np.array([start], dtype=np.int64)
        width = int(symbols.max(initial=0)) + 1
        for level in self.levels:
            read = made[level.parents] * width + symbols[level.characters]
            keys, places = np.unique(read, return_inverse=True)
            results = [step(*divmod(key, width)) for key in keys.tolist()]
            made = np.array(results, dtype=np.int64)[places.reshape(-1)]
            found[level.tokens] = made[level.ends]
        return found


def _columns(pairs: Sequence[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    rows = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return rows[:, 0].copy(), rows[:, 1].copy()
