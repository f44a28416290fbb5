"""Multi-head attention, with keys and values that can be kept from step to step."""

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from pcfgnat.nn import waiting
from pcfgnat.nn.config import TransformerConfig
from pcfgnat.nn.dropout import dropout

HALF = (torch.bfloat16, torch.float16)


class SelfAttention(nn.Module):
    """Attention of a sequence to itself; queries, keys and values come from one product."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.dropout = config.attention_dropout
        self.project = nn.Linear(config.width, 3 * config.width)
        self.output = nn.Linear(config.width, config.width)

    def forward(
        self,
        x: Float[Tensor, "B Q D"],
        bias: Float[Tensor, "#B 1 #Q S"] | None,
        past: "KeyValueCache | None" = None,
    ) -> Float[Tensor, "B Q D"]:
        """Attend to `x`, or to everything in `past` after `x` has joined it."""
        split = _split_heads(self.project(x), 3, self.heads)  # B Q 3 H E
        query, keys_values = split[:, :, 0], split[:, :, 1:]
        if past is not None:
            keys_values = past.append(keys_values)
        mixed = attend(query, keys_values, bias, self.dropout if self.training else 0.0)
        update: Tensor = self.output(mixed)
        return update


class CrossAttention(nn.Module):
    """Attention of a sequence to another, whose keys and values are computed apart, once."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.dropout = config.attention_dropout
        self.query = nn.Linear(config.width, config.width)
        self.project = nn.Linear(config.width, 2 * config.width)
        self.output = nn.Linear(config.width, config.width)

    def keys_values(self, memory: Float[Tensor, "B N D"]) -> Float[Tensor, "B N 2 H E"]:
        """Return what `forward` attends to."""
        return _split_heads(self.project(memory), 2, self.heads)

    def forward(
        self,
        x: Float[Tensor, "B Q D"],
        keys_values: Float[Tensor, "B N 2 H E"],
        bias: Float[Tensor, "B 1 #Q N"] | None,
    ) -> Float[Tensor, "B Q D"]:
        """Attend to the other sequence, such as the encoder's states."""
        query = _split_heads(self.query(x), 1, self.heads)[:, :, 0]
        mixed = attend(query, keys_values, bias, self.dropout if self.training else 0.0)
        update: Tensor = self.output(mixed)
        return update


class KeyValueCache:
    """Keys and values of all earlier steps, in a buffer that doubles when it is full."""

    def __init__(self, capacity: int = 64) -> None:
        self.capacity = capacity  # at first
        self.used = 0
        self._buffer: Tensor | None = None  # B C 2 H E
        self._ends: Tensor | None = None  # B

    def append(self, new: Float[Tensor, "B Q 2 H E"]) -> Float[Tensor, "B S 2 H E"]:
        """Add keys and values, and return all that there are.

        Behind a `rewind`, sentences have different lengths: what lies beyond them is rubbish, though finite.
        """
        ends, self._ends = self._ends, None
        end = (self.used if ends is None else int(ends.max())) + new.shape[1]
        buffer = self._with_room(new, end)
        if ends is None:
            buffer[:, self.used : end] = new
        else:
            sentence = torch.arange(len(new), device=new.device).unsqueeze(1)
            buffer[sentence, ends.unsqueeze(1) + torch.arange(new.shape[1], device=new.device)] = new
        self._buffer, self.used = buffer, end
        return buffer[:, :end]

    def rewind(self, lengths: Int[Tensor, "B"]) -> None:
        """Forget all but the first `lengths[b]` of each sentence; what is appended next follows these."""
        self._ends = lengths

    def select(self, rows: Int[Tensor, "R"]) -> None:
        """Keep these sentences only."""
        if self._buffer is not None:
            self._buffer = self._buffer[:, : self.used].index_select(0, rows)

    def _with_room(self, new: Float[Tensor, "B Q 2 H E"], end: int) -> Float[Tensor, "B C 2 H E"]:
        old = self._buffer
        if old is not None and end <= old.shape[1]:
            return old
        buffer = new.new_zeros(new.shape[0], max(self.capacity, 2 * self.used, end), *new.shape[2:])
        if old is not None:
            buffer[:, : self.used] = old[:, : self.used]
        return buffer


def attend(
    query: Float[Tensor, "B Q H E"],
    keys_values: Float[Tensor, "B S 2 H E"],
    bias: Float[Tensor, "#B 1 #Q S"] | None,
    share_dropped: float = 0.0,
) -> Float[Tensor, "B Q D"]:
    """Average the values by softmax(query · key / √E + bias), head by head, and join the heads."""
    q = query.transpose(1, 2)  # B H Q E
    k, v = keys_values.permute(2, 0, 3, 1, 4).unbind(0)  # B H S E
    half_backward = q.dtype in HALF and torch.is_grad_enabled()  # fused, it is very slow on the CPU
    if q.device.type == "cpu" and (share_dropped > 0 or half_backward):
        mixed = _attend_in_two_products(q, k, v, bias, share_dropped)
    else:
        bias = None if bias is None else bias.to(q.dtype)
        mixed = functional.scaled_dot_product_attention(q, k, v, bias, share_dropped)
    return mixed.transpose(1, 2).flatten(2)


def _attend_in_two_products(
    q: Float[Tensor, "B H Q E"],
    k: Float[Tensor, "B H S E"],
    v: Float[Tensor, "B H S E"],
    bias: Float[Tensor, "#B 1 #Q S"] | None,
    share_dropped: float,
) -> Float[Tensor, "B H Q E"]:
    scores = (q * q.shape[-1] ** -0.5) @ k.transpose(2, 3)
    if bias is not None:
        scores = scores + bias
    weights = scores.softmax(-1, dtype=torch.promote_types(scores.dtype, torch.float32)).to(v.dtype)
    return dropout(weights, share_dropped) @ v


def bias_of(mask: Bool[Tensor, "*any"], like: Float[Tensor, "..."]) -> Float[Tensor, "*any"]:
    """0 where the mask is true and -inf elsewhere, to be added to attention scores."""
    return torch.zeros(mask.shape, dtype=like.dtype, device=like.device).masked_fill_(~mask, -math.inf)


def key_bias(mask: Bool[Tensor, "B N"] | None, like: Float[Tensor, "..."]) -> Float[Tensor, "B 1 1 N"] | None:
    """Bias that hides padded positions; None if it is known that nothing is padded."""
    if mask is None or (waiting.at_hand(mask) and bool(mask.all())):
        return None
    return bias_of(mask, like)[:, None, None]


def causal_bias(length: int, like: Float[Tensor, "..."]) -> Float[Tensor, "1 1 N N"]:
    """Bias that hides from each position all later ones."""
    return bias_of(torch.ones(length, length, dtype=torch.bool, device=like.device).tril(), like)[None, None]


def _split_heads(x: Float[Tensor, "B N W"], parts: int, heads: int) -> Float[Tensor, "B N {parts} {heads} E"]:
    """Cut projections that lie side by side into `parts`, and each into heads."""
    return x.view(x.shape[0], x.shape[1], parts, heads, x.shape[2] // (parts * heads))
