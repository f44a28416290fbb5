"""Tensors of log-probabilities as what decoding asks for: best tokens of nodes, and rows to draw from."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float, Int, Int64
from torch import Tensor

from pcfgnat.grammar.search import SpecialTokens
from pcfgnat.grammar.tokens import best_columns
from pcfgnat.structures.distribution import best_tokens
from pcfgnat.structures.semiring import NEG_INF


@dataclass(frozen=True, eq=False)
class TensorEmissions:
    """Nodes `first … last[b]` of each sentence; without special tokens all ids are alike.

    blank: a special token that nodes between the ends may emit
    """

    emit: Float[Tensor, "B M V"]
    first: int
    last: Int[Tensor, "B"]
    special: SpecialTokens | None
    blank: int | None = None

    def everywhere(self) -> tuple[Float[np.ndarray, "B M"], Int64[np.ndarray, "B M"]]:
        """Return score and token of the best emission of every node; -inf where there is none."""
        return self._best

    def at(
        self, nodes: Sequence[Int64[np.ndarray, "_"]]
    ) -> list[tuple[Float[np.ndarray, "_"], Int64[np.ndarray, "_"]]]:
        """Return the same of some nodes of each sentence."""
        scores, tokens = self._best
        return [(scores[i, own], tokens[i, own]) for i, own in enumerate(nodes)]

    def log_probs(
        self, index: int, nodes: Int64[np.ndarray, "n"], admitted: Sequence[int] = ()
    ) -> Float[np.ndarray, "n V"]:
        """Return log-probabilities of all tokens at some nodes of a sentence; all tokens are admitted."""
        rows = as_array(self.emit[index, torch.from_numpy(nodes).to(self.emit.device)])
        if self.special is None:
            return rows
        allowed = rows.copy()
        allowed[:, [token for token in self.special.ids if token != self.blank]] = NEG_INF
        for node, token in ((self.first, self.special.bos), (int(self.last[index]), self.special.eos)):
            here = nodes == node
            allowed[here] = NEG_INF
            allowed[here, token] = rows[here, token]
        return allowed

    def top(self, index: int, count: int) -> tuple[Int64[np.ndarray, "M k"], Float[np.ndarray, "M k"]]:
        """Return the best tokens of every node and their log-probabilities, allowed or not, best first."""
        log_probs, ids = self.emit[index].topk(min(count, self.emit.shape[2]))
        return ids.cpu().numpy(), as_array(log_probs)

    def leading(self, index: int, count: int) -> Int64[np.ndarray, "M k"]:
        """Return the best tokens that every node of a sentence may emit, best first."""
        return best_columns(self.log_probs(index, np.arange(self.emit.shape[1])), count)

    def columns(self, index: int, tokens: Int64[np.ndarray, "T"]) -> Float[np.ndarray, "M T"]:
        """Return log-probabilities of some tokens at every node of a sentence, allowed or not."""
        return as_array(self.emit[index][:, torch.from_numpy(tokens).to(self.emit.device)])

    @cached_property
    def _best(self) -> tuple[Float[np.ndarray, "B M"], Int64[np.ndarray, "B M"]]:
        with torch.no_grad():
            scores, tokens = best_tokens(self.emit, self.special, self.first, self.last, self.blank)
            node = torch.arange(self.emit.shape[1], device=self.emit.device)
            scores = scores.masked_fill(node > self.last.unsqueeze(1), NEG_INF)
            best, ids = as_arrays(scores, tokens)
            return best, ids


def as_array(tensor: Tensor) -> np.ndarray:
    """Copy to numpy, which lacks some of torch's numbers of less than 32 bits."""
    return as_arrays(tensor)[0]


def as_arrays(*tensors: Tensor) -> list[np.ndarray]:
    """Copy several tensors of a device to numpy, and wait for the device once."""
    copies = [tensor.detach().to("cpu", _wide(tensor.dtype), non_blocking=True) for tensor in tensors]
    for device in {tensor.device for tensor in tensors if tensor.is_cuda}:
        torch.cuda.current_stream(device).synchronize()  # copies are under way until then
    return [copy.numpy() for copy in copies]


def _wide(dtype: torch.dtype) -> torch.dtype:
    return torch.promote_types(dtype, torch.float32) if dtype.is_floating_point else dtype
