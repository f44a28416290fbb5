"""Normalising flows over the positions of a sentence, given its source (FlowSeq, Ma et al. 2019).

Latents `[B, n, d]` are 0 at padded positions, and stay so; lengths are multiples of what time is halved to.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, cast

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional

from pcfgnat.nn.attention import key_bias
from pcfgnat.nn.config import TransformerConfig
from pcfgnat.nn.embeddings import sinusoids
from pcfgnat.nn.transformer import DecoderLayer, last_norm

Halves = Literal["halves", "features", "time"]
OPEN = 2.0  # scales are the sigmoid of a score plus this, divided by what they begin with
LOG_OPEN = -math.log1p(math.exp(-OPEN))


@dataclass(frozen=True)
class FlowConfig:
    """Size of the prior.

    steps: steps of each level; between levels half of the features leave and pairs of positions are joined
    ffn:   size of the feed-forward layers inside the couplings
    heads: blocks of features that an invertible linear map treats alike
    """

    steps: tuple[int, ...] = (4, 4, 2)
    ffn: int = 1024
    heads: int = 8

    def __post_init__(self) -> None:
        if not self.steps or min(self.steps) < 1:
            raise ValueError(f"steps must be positive numbers, one for each level, got {self.steps}")
        for name in ("ffn", "heads"):
            if (value := getattr(self, name)) < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")

    @property
    def multiple(self) -> int:
        """Lengths must be multiples of this."""
        return 1 << (len(self.steps) - 1)


@dataclass(frozen=True)
class Given:
    """What flows are told: which positions exist, and the encoded source."""

    mask: Bool[Tensor, "B n"]
    memory: Float[Tensor, "B N D"]
    memory_mask: Bool[Tensor, "B N"]

    def halved(self) -> "Given":
        """Return the same for pairs of positions."""
        return replace(self, mask=self.mask[:, ::2])

    def kept(self, z: Float[Tensor, "B n d"]) -> Float[Tensor, "B n d"]:
        """Return latents without what stands at padded positions."""
        return z.masked_fill(~self.mask.unsqueeze(2), 0.0)


class Flow(nn.Module, ABC):
    """An invertible map of latents."""

    @abstractmethod
    def forward(
        self, z: Float[Tensor, "B n d"], given: Given
    ) -> tuple[Float[Tensor, "B n d"], Float[Tensor, "B"]]:
        """Map towards noise, and return the logarithm of the Jacobian's determinant too."""

    @abstractmethod
    def inverse(self, z: Float[Tensor, "B n d"], given: Given) -> Float[Tensor, "B n d"]:
        """Map back."""


class ActNorm(Flow):
    """A scale and an offset for each feature."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.log_scale = nn.Parameter(torch.zeros(width))
        self.offset = nn.Parameter(torch.zeros(width))

    def forward(
        self, z: Float[Tensor, "B n d"], given: Given
    ) -> tuple[Float[Tensor, "B n d"], Float[Tensor, "B"]]:
        """Scale and shift."""
        return given.kept(z * self.log_scale.exp() + self.offset), given.mask.sum(1) * self.log_scale.sum()

    def inverse(self, z: Float[Tensor, "B n d"], given: Given) -> Float[Tensor, "B n d"]:
        """Map back."""
        return given.kept((z - self.offset) * (-self.log_scale).exp())


class InvertibleLinear(Flow):
    """One matrix for every block of features; blocks are contiguous, or strided."""

    def __init__(self, width: int, heads: int, strided: bool) -> None:
        super().__init__()
        self.heads, self.strided = heads, strided
        self.weight = nn.Parameter(torch.empty(width // heads, width // heads))
        nn.init.orthogonal_(self.weight)

    def forward(
        self, z: Float[Tensor, "B n d"], given: Given
    ) -> tuple[Float[Tensor, "B n d"], Float[Tensor, "B"]]:
        """Multiply every block."""
        log_det = torch.linalg.slogdet(self.weight).logabsdet
        return self._multiplied(z, self.weight), given.mask.sum(1) * self.heads * log_det

    def inverse(self, z: Float[Tensor, "B n d"], given: Given) -> Float[Tensor, "B n d"]:
        """Map back."""
        return self._multiplied(z, torch.linalg.inv(self.weight))

    def _multiplied(self, z: Float[Tensor, "B n d"], matrix: Float[Tensor, "e e"]) -> Float[Tensor, "B n d"]:
        batch, positions, width = z.shape
        if self.strided:
            return (matrix @ z.reshape(batch, positions, width // self.heads, self.heads)).flatten(2)
        return (z.reshape(batch, positions, self.heads, width // self.heads) @ matrix.t()).flatten(2)


class Coupling(Flow):
    """One half of the latents stays; from it follow scale and offset of the other.

    Scales begin at 1 and offsets at 0, so that what is standardised stays so: no statistics of a first batch
    are needed, and runs begin alike in all processes.
    """

    def __init__(self, config: TransformerConfig, over: Halves, swapped: bool) -> None:
        super().__init__()
        self.over, self.swapped = over, swapped
        width = config.width if over == "time" else config.width // 2
        self.widen = nn.Linear(width, config.width)
        self.layer = DecoderLayer(config)
        self.norm = last_norm(config)
        self.output = nn.Linear(config.width, 2 * width)

    def forward(
        self, z: Float[Tensor, "B n d"], given: Given
    ) -> tuple[Float[Tensor, "B n d"], Float[Tensor, "B"]]:
        """Scale and shift one half."""
        kept, changed = self._halves(z)
        offset, log_scale = self._affine(kept, given)
        changed = changed * log_scale.exp() + offset
        return self._joined(kept, changed), log_scale.flatten(1).sum(1)

    def inverse(self, z: Float[Tensor, "B n d"], given: Given) -> Float[Tensor, "B n d"]:
        """Map back."""
        kept, changed = self._halves(z)
        offset, log_scale = self._affine(kept, given)
        return self._joined(kept, (changed - offset) * (-log_scale).exp())

    def _affine(
        self, kept: Float[Tensor, "B k w"], given: Given
    ) -> tuple[Float[Tensor, "B k w"], Float[Tensor, "B k w"]]:
        """Return offset and logarithm of the scale; both are 0 at padded positions."""
        own = given.halved() if self.over == "time" else given
        inputs: Tensor = self.widen(kept)
        inputs = inputs + sinusoids(inputs.shape[1], inputs.shape[2], inputs.device).to(inputs)
        memory = self.layer.cross_attention.keys_values(given.memory)
        states = self.layer(
            inputs, key_bias(own.mask, inputs), memory, key_bias(given.memory_mask, given.memory)
        )
        offset, score = self.output(self.norm(states)).chunk(2, -1)
        log_scale = functional.logsigmoid(score + OPEN) - LOG_OPEN
        return own.kept(offset), own.kept(log_scale)

    def _halves(self, z: Float[Tensor, "B n d"]) -> tuple[Tensor, Tensor]:
        if self.over == "halves":
            first, second = z.chunk(2, 2)
        elif self.over == "features":
            first, second = z[:, :, 0::2], z[:, :, 1::2]
        else:
            first, second = z[:, 0::2], z[:, 1::2]
        return (second, first) if self.swapped else (first, second)

    def _joined(self, kept: Tensor, changed: Tensor) -> Float[Tensor, "B n d"]:
        first, second = (changed, kept) if self.swapped else (kept, changed)
        if self.over == "halves":
            return torch.cat([first, second], 2)
        if self.over == "features":
            return torch.stack([first, second], 3).flatten(2)
        return torch.stack([first, second], 2).flatten(1, 2)


class Chain(Flow):
    """One flow after the other."""

    def __init__(self, flows: Iterable[Flow]) -> None:
        super().__init__()
        self.flows = nn.ModuleList(flows)

    def forward(
        self, z: Float[Tensor, "B n d"], given: Given
    ) -> tuple[Float[Tensor, "B n d"], Float[Tensor, "B"]]:
        """Apply all."""
        total = z.new_zeros(len(z))
        for flow in self.flows:
            z, log_det = flow(z, given)
            total = total + log_det
        return z, total

    def inverse(self, z: Float[Tensor, "B n d"], given: Given) -> Float[Tensor, "B n d"]:
        """Map back."""
        for flow in reversed(cast(Sequence[Flow], self.flows)):
            z = flow.inverse(z, given)
        return z


class FlowPrior(nn.Module):
    """p(z|X): a chain for each level; half of a level's features are noise, the others go on in pairs."""

    def __init__(self, config: FlowConfig, transformer: TransformerConfig) -> None:
        super().__init__()
        width = transformer.width
        if width % (2 * config.heads):
            raise ValueError(f"width must be a multiple of twice flow.heads = {config.heads}, got {width}")
        inside = replace(transformer, ffn=config.ffn)
        last = len(config.steps) - 1
        self.levels = nn.ModuleList(
            Chain(_level(inside, config.heads, steps, level == last))
            for level, steps in enumerate(config.steps)
        )

    def begin(self) -> None:
        """Let all couplings be the identity."""
        for module in self.modules():
            if isinstance(module, Coupling):
                nn.init.zeros_(module.output.weight)
                nn.init.zeros_(module.output.bias)

    def forward(
        self, z: Float[Tensor, "B n d"], given: Given
    ) -> tuple[list[Float[Tensor, "B _ _"]], Float[Tensor, "B"]]:
        """Map latents to noise, which leaves level by level; return the log-determinant too."""
        noise, total = list[Tensor](), z.new_zeros(len(z))
        for level in self.levels:
            z, log_det = level(z, given)
            total = total + log_det
            if level is not self.levels[-1]:
                z, left = squeezed(z)
                noise.append(left)
                given = given.halved()
        return [*noise, z], total

    def inverse(self, noise: Sequence[Float[Tensor, "B _ _"]], given: Given) -> Float[Tensor, "B n d"]:
        """Map noise to latents."""
        levels = [given]
        for _ in noise[1:]:
            levels.append(levels[-1].halved())
        z = noise[-1]
        for index in reversed(range(len(noise))):
            if index < len(noise) - 1:
                z = unsqueezed(z, noise[index])
            z = cast(Flow, self.levels[index]).inverse(z, levels[index])
        return z

    def log_prob(self, z: Float[Tensor, "B n d"], given: Given) -> Float[Tensor, "B"]:
        """Return log p(z|X)."""
        noise, log_det = self(given.kept(z), given)
        squares = torch.stack([part.square().flatten(1).sum(1) for part in noise]).sum(0)
        count = given.mask.sum(1) * z.shape[2]
        log_prob: Tensor = log_det - squares / 2 - count * math.log(2 * math.pi) / 2
        return log_prob

    def arranged(self, noise: Float[Tensor, "B n d"]) -> list[Float[Tensor, "B _ _"]]:
        """Return independent numbers as they leave the levels."""
        parts = list[Tensor]()
        for _ in self.levels[1:]:
            noise, left = squeezed(noise)
            parts.append(left)
        return [*parts, noise]


def squeezed(z: Float[Tensor, "B n d"]) -> tuple[Float[Tensor, "B n//2 d"], Float[Tensor, "B n d//2"]]:
    """Return the first half of the features, pairs of positions joined, and the second half."""
    first, second = z.chunk(2, 2)
    return first.reshape(len(z), z.shape[1] // 2, z.shape[2]), second


def unsqueezed(z: Float[Tensor, "B k d"], second: Float[Tensor, "B n h"]) -> Float[Tensor, "B n d"]:
    """Undo it."""
    return torch.cat([z.reshape(second.shape), second], 2)


def _level(config: TransformerConfig, heads: int, steps: int, last: bool) -> list[Flow]:
    flows: list[Flow] = [ActNorm(config.width), *_couplings(config, "halves")]
    for _ in range(steps):
        for strided in (False, True):
            flows += [ActNorm(config.width), InvertibleLinear(config.width, heads, strided)]
            flows += [*_couplings(config, "halves"), ActNorm(config.width), *_couplings(config, "features")]
            if not last:
                flows += [ActNorm(config.width), *_couplings(config, "time")]
    return flows if last else [*flows, Coupling(config, "halves", swapped=False)]


def _couplings(config: TransformerConfig, over: Halves) -> list[Flow]:
    return [Coupling(config, over, swapped) for swapped in (False, True)]
