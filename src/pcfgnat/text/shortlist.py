"""Which target types a source makes likely, to keep the output layer small; `lexicon.py` learns it."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import safetensors
from jaxtyping import Bool, Int64, UInt32
from safetensors.numpy import save as to_safetensors

from pcfgnat.storage.files import StorageError
from pcfgnat.storage.regular import regular_file
from pcfgnat.text.lines import TextError
from pcfgnat.text.tokenizer import SPECIAL_PIECES, Tokenizer

SHORTLIST = "shortlist.safetensors"  # its file, with prepared data and exported models
PLAIN = len(SPECIAL_PIECES)  # ids from here on are words and their pieces


@dataclass(frozen=True)
class Shortlist:
    """Candidates of every source type, one after the other, and the types that are always looked at.

    offsets: where the candidates of each source type begin, and where the last ones end
    """

    frequent: UInt32[np.ndarray, "n"]
    offsets: Int64[np.ndarray, "types_and_one"]
    candidates: UInt32[np.ndarray, "all"]

    def __post_init__(self) -> None:
        vocabulary = len(self.offsets) - 1
        ids = np.concatenate([self.frequent, self.candidates])
        rising = bool((np.diff(self.offsets) >= 0).all()) and self.offsets[:1] == [0]
        if not rising or self.offsets[-1] != len(self.candidates):
            raise TextError("a shortlist's offsets must rise from 0 to the number of its candidates")
        if len(ids) and ids.max() >= vocabulary:
            raise TextError(f"a shortlist's ids must be less than {vocabulary}, got {ids.max()}")

    @property
    def vocabulary(self) -> int:
        """Number of source types, which are the target's too."""
        return len(self.offsets) - 1

    def types(self, source: Sequence[int]) -> Int64[np.ndarray, "K"]:
        """Return the types to look at, in rising order: likely ones, frequent ones and the source's own."""
        wanted, own, bounds = self._frequent.copy(), list(set(source)), self._bounds
        wanted[own] = True
        wanted[np.concatenate([self._indices[bounds[t] : bounds[t + 1]] for t in own])] = True
        wanted[:PLAIN] = False
        return wanted.nonzero()[0]

    @cached_property
    def counts(self) -> Int64[np.ndarray, "types"]:
        """How many types each source type adds at most, itself among them."""
        found: np.ndarray = np.diff(self.offsets) + 1
        return found

    @cached_property
    def _indices(self) -> Int64[np.ndarray, "all"]:
        return self.candidates.astype(np.int64)  # what numpy looks up by without converting

    @cached_property
    def _bounds(self) -> list[int]:
        bounds: list[int] = self.offsets.tolist()
        return bounds

    @cached_property
    def _frequent(self) -> Bool[np.ndarray, "types"]:
        found = np.zeros(self.vocabulary, dtype=bool)
        found[self.frequent] = True
        return found

    def save(self, path: Path) -> None:
        """Write one file."""
        arrays = {"frequent": self.frequent, "offsets": self.offsets, "candidates": self.candidates}
        path.write_bytes(to_safetensors(arrays))

    @classmethod
    def load(cls, path: Path) -> "Shortlist":
        """Read what `save` wrote."""
        try:
            with safetensors.safe_open(regular_file(path.parent, path.name), framework="numpy") as file:
                return cls(*(file.get_tensor(name) for name in ("frequent", "offsets", "candidates")))
        except StorageError as error:
            raise TextError(str(error)) from error
        except (safetensors.SafetensorError, OSError) as error:
            raise TextError(f"{path} is not a shortlist, or is damaged: {error}") from error

    def to_vmap(self, tokenizer: Tokenizer) -> str:
        """Write it as CTranslate2's vocabulary map: source piece, tab, target pieces; no source: always."""
        pieces = tokenizer.pieces(range(self.vocabulary))
        always = [*range(PLAIN), *self.frequent.tolist()]
        lines = ["\t" + " ".join(pieces[token] for token in always)]
        for token in range(PLAIN, self.vocabulary):
            own = {token, *self.candidates[self.offsets[token] : self.offsets[token + 1]].tolist()}
            lines.append(f"{pieces[token]}\t" + " ".join(pieces[target] for target in sorted(own)))
        return "\n".join(lines) + "\n"
