"""Prefix beam search: sentences scored by the sum of their alignments, slot by slot. No torch."""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

NEG_INF = float("-inf")

Prefix = tuple[int, ...]
# log-probability of all alignments of a prefix that end in a blank, and of those that end on its last token
Ends = tuple[float, float]


@dataclass(frozen=True)
class PrefixBeam:
    """How to search: ids that are never emitted, the longest prefix, and how many prefixes survive a slot."""

    blank: int
    banned: frozenset[int]
    beam_size: int
    max_length: int | None

    def best(self, log_probs: Float[np.ndarray, "T V"]) -> tuple[Prefix, float]:
        """Return the best sentence that the beam finds, and the log-probability of its alignments found."""
        # No extension of a prefix by a less likely token survives: beam_size others score more, not counting
        # the repeat of its last token, but counting the prefix itself where the blank is among the likely.
        count = min(self.beam_size + len(self.banned | {self.blank}), log_probs.shape[1])
        likely = np.argpartition(-log_probs, count - 1, axis=1)[:, :count].tolist()
        beam: dict[Prefix, Ends] = {(): (0.0, NEG_INF)}
        for slot, tokens in zip(log_probs, likely, strict=True):
            last_tokens = {prefix[-1] for prefix in beam if prefix}
            candidates = {*tokens, *last_tokens} - self.banned - {self.blank}
            beam = self._prune(self._extend(beam, slot, sorted(candidates)))
        best = next(iter(beam))
        return best, _log_add(*beam[best])

    def _extend(self, beam: dict[Prefix, Ends], slot: np.ndarray, tokens: list[int]) -> dict[Prefix, Ends]:
        """Extend every prefix in this slot by a blank, its last token again, or a new token."""
        extended: dict[Prefix, Ends] = {}

        def add(prefix: Prefix, in_blank: float, on_token: float) -> None:
            if (known := extended.get(prefix)) is not None:
                in_blank, on_token = _log_add(known[0], in_blank), _log_add(known[1], on_token)
            extended[prefix] = (in_blank, on_token)

        weights = [(token, float(slot[token])) for token in tokens]
        for prefix, (in_blank, on_token) in beam.items():
            both = _log_add(in_blank, on_token)
            repeat = on_token + float(slot[prefix[-1]]) if prefix else NEG_INF
            add(prefix, both + float(slot[self.blank]), repeat)
            if self.max_length is not None and len(prefix) >= self.max_length:
                continue
            for token, weight in weights:
                # behind the same token only a blank keeps the two apart
                origin = in_blank if prefix and prefix[-1] == token else both
                add((*prefix, token), NEG_INF, origin + weight)
        return extended

    def _prune(self, beam: dict[Prefix, Ends]) -> dict[Prefix, Ends]:
        ranked = sorted(beam, key=lambda prefix: (-_log_add(*beam[prefix]), prefix))
        return {prefix: beam[prefix] for prefix in ranked[: self.beam_size]}


def _log_add(a: float, b: float) -> float:
    """log(exp(a) + exp(b))."""
    low, high = (a, b) if a < b else (b, a)
    return high if low == NEG_INF else high + math.log1p(math.exp(low - high))


def aligned(log_probs: Float[np.ndarray, "T V"], ids: Prefix, blank: int) -> tuple[int, ...]:
    """Return the slot at which each token's run begins in the best alignment of a sentence."""
    labels = [blank] + [label for token in ids for label in (token, blank)]  # blanks around every token
    weights = log_probs[:, labels].astype(np.float64)
    skips = [i >= 2 and label not in (blank, labels[i - 2]) for i, label in enumerate(labels)]
    score = np.full(len(labels), NEG_INF)
    score[: min(2, len(labels))] = weights[0, : min(2, len(labels))]
    came = np.zeros(weights.shape, dtype=np.int64)  # how many labels back the best way comes from
    for slot in range(1, len(weights)):
        ways = np.full((3, len(labels)), NEG_INF)
        for step in range(min(3, len(labels))):
            ways[step, step:] = score[: len(labels) - step]
        ways[2] = np.where(skips, ways[2], NEG_INF)
        came[slot] = ways.argmax(0)
        score = ways.max(0) + weights[slot]
    label = len(labels) - 1 if len(labels) == 1 or score[-1] >= score[-2] else len(labels) - 2
    first = [-1] * len(ids)
    for slot in range(len(weights) - 1, -1, -1):
        if label % 2:
            first[label // 2] = slot
        label -= int(came[slot, label])
    return tuple(first)
