"""Prefix beam search: sentences scored by the sum of their alignments, slot by slot."""

import math
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from pcfgnat.structures.semiring import NEG_INF

Prefix = tuple[int, ...]
# log-probability of all alignments of a prefix that end in a blank, and of those that end on its last token
Ends = tuple[float, float]


@dataclass(frozen=True)
class BeamSearch:
    """How to search: ids that are never emitted, the longest prefix, and how many prefixes survive a slot."""

    blank: int
    banned: frozenset[int]
    beam_size: int
    max_length: int | None

    def best(self, log_probs: Float[Tensor, "T V"]) -> tuple[Prefix, float]:
        """Return the best sentence that the beam finds, and the log-probability of its alignments found."""
        # No extension of a prefix by a less likely token survives: beam_size others score more, not counting
        # the repeat of its last token, but counting the prefix itself where the blank is among the likely.
        count = min(self.beam_size + len(self.banned | {self.blank}), log_probs.shape[1])
        rows = log_probs.to(torch.promote_types(log_probs.dtype, torch.float32)).cpu()
        likely = rows.topk(count, dim=1).indices.tolist()
        beam: dict[Prefix, Ends] = {(): (0.0, NEG_INF)}
        for slot, tokens in zip(rows.numpy(), likely, strict=True):
            last_tokens = {prefix[-1] for prefix in beam if prefix}
            candidates = {*tokens, *last_tokens} - self.banned - {self.blank}
            beam = self._prune(self._extend(beam, slot, sorted(candidates)))
        best = next(iter(beam))
        return best, _log_add(*beam[best])

    def _extend(self, beam: dict[Prefix, Ends], slot: np.ndarray, tokens: list[int]) -> dict[Prefix, Ends]:
        """Let every prefix emit a blank, its last token again, or a new token in this slot."""
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
