"""Token by token over arrays, whichever runtime has the decoder: what was read, what is expected next."""

from abc import ABC, abstractmethod

import numpy as np
from jaxtyping import Bool, Float32, Int64

from pcfgnat.runtimes.base import NextTokens, Reading
from pcfgnat.runtimes.output import Best, OutputLayer
from pcfgnat.text.special import SPECIAL_TOKENS

BANNED = [token for token in SPECIAL_TOKENS.ids if token != SPECIAL_TOKENS.eos]
FIRST_CAPACITY = 64  # tokens of a sentence that the memory has room for at first
ROOM = 16  # it has room for a multiple of so many, which kernels read together


class ArrayStepper(ABC):
    """Keys and values of all tokens read so far, by sentence and token.

    What lies beyond a sentence's own is rubbish, though finite.
    """

    def __init__(
        self,
        output: OutputLayer,
        limit: int,
        past: Float32[np.ndarray, "B T K"],
        types: list[Int64[np.ndarray, "_"]] | None,
    ) -> None:
        self._output, self._limit, self._past, self._types = output, limit, past, types
        self._used = self._position = 0

    @abstractmethod
    def _decoded(
        self,
        tokens: Int64[np.ndarray, "B Q"],
        positions: Int64[np.ndarray, "B Q"],
        visible: Bool[np.ndarray, "B Q T"],
        ends: Int64[np.ndarray, "B"],
    ) -> Float32[np.ndarray, "B Q D"]:
        """Run the decoder, and keep keys and values of the tokens behind `ends[b]` earlier ones.

        `visible` has columns for the first `self._used` tokens and then for the new ones.
        """

    def step(
        self, tokens: Int64[np.ndarray, "B Q"], visible: Bool[np.ndarray, "B Q S"] | None, width: int | None
    ) -> NextTokens:
        """Read one more token of each hypothesis, and return the `width` best next ones, all if None."""
        batch, count = tokens.shape
        if visible is None:
            visible = np.ones((batch, count, self._used + count), dtype=bool)
        ends = np.full(batch, self._used, dtype=np.int64)
        states = self._decoded(tokens, np.full(tokens.shape, self._position), visible, ends)
        self._used, self._position = self._used + count, self._position + 1
        if width == 1:
            plain = self._best(states)
            best, log_probs, end = with_end(plain)
            shape = (*tokens.shape, 1)
            return NextTokens(log_probs.reshape(shape), best.reshape(shape), end.reshape(tokens.shape))
        rows = self._log_probs(states)
        rows[:, :, BANNED] = -np.inf
        wanted = min(width or rows.shape[2], rows.shape[2])
        following = np.argsort(-rows, axis=2, kind="stable")[:, :, :wanted]
        end = rows[:, :, SPECIAL_TOKENS.eos].copy()
        return NextTokens(np.take_along_axis(rows, following, 2), following, end)

    def read(
        self,
        tokens: Int64[np.ndarray, "B Q"],
        following: Int64[np.ndarray, "B Q"],
        kept: Int64[np.ndarray, "B"],
    ) -> Reading:
        """Read Q consecutive tokens of each sentence, behind the first `kept[b]` that it has read."""
        count = tokens.shape[1]
        self._used = int(kept.max())
        positions = np.minimum(kept[:, None] + np.arange(count), self._limit - 1)  # of padding
        before = np.arange(self._used) < kept[:, None]
        visible = np.concatenate(
            [
                np.broadcast_to(before[:, None], (len(tokens), count, self._used)),
                np.broadcast_to(np.tri(count, dtype=bool), (len(tokens), count, count)),
            ],
            axis=2,
        )
        states = self._decoded(tokens, positions, visible, kept)
        plain = self._best(states)
        best, log_probs, end = with_end(plain)
        layer, rows, given = self._output, states.reshape(-1, states.shape[2]), following.ravel()
        normaliser = (rows * layer.weights(plain.token)).sum(1) - plain.score
        asked = (rows * layer.weights(given)).sum(1) - normaliser
        # where the output layer has answered, its own rounding counts
        asked = np.where(given == plain.token, plain.score, np.where(given == SPECIAL_TOKENS.eos, end, asked))
        return Reading(*(array.reshape(tokens.shape) for array in (best, log_probs, asked, end)))

    def select(self, rows: Int64[np.ndarray, "R"]) -> None:
        """Keep these sentences only."""
        self._past = self._past[rows]
        if self._types is not None:
            self._types = [self._types[row] for row in rows.tolist()]

    def _make_room(self, needed: int) -> None:
        if needed > self._past.shape[1]:
            wanted = max((needed + ROOM - 1) // ROOM * ROOM, 2 * self._past.shape[1])
            more = wanted - self._past.shape[1]
            self._past = np.pad(self._past, ((0, 0), (0, more), (0, 0)))

    def _best(self, states: Float32[np.ndarray, "B Q D"]) -> Best:
        """Return the best plain token behind every state, row by row."""
        layer = self._output
        if self._types is None:
            return layer.best(states.reshape(-1, states.shape[2]), None)
        parts = [layer.best(rows, types) for rows, types in zip(states, self._types, strict=True)]
        columns = zip(*((part.score, part.token, part.special) for part in parts), strict=True)
        return Best(*map(np.concatenate, columns))

    def _log_probs(self, states: Float32[np.ndarray, "B Q D"]) -> Float32[np.ndarray, "B Q V"]:
        layer = self._output
        if self._types is None:
            rows = layer.log_probs(states.reshape(-1, states.shape[2]), None)
            return rows.reshape(*states.shape[:2], -1)
        pairs = zip(states, self._types, strict=True)
        return np.stack([layer.log_probs(rows, types) for rows, types in pairs])


def with_end(
    plain: Best,
) -> tuple[Int64[np.ndarray, "R"], Float32[np.ndarray, "R"], Float32[np.ndarray, "R"]]:
    """Return the best token, plain or the end, its log-probability, and that of the end."""
    end = plain.special[:, SPECIAL_TOKENS.eos]
    ends = end > plain.score
    return np.where(ends, SPECIAL_TOKENS.eos, plain.token), np.where(ends, end, plain.score), end
