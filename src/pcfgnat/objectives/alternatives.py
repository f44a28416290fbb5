"""What sentences cost, and what a source costs whose several targets are alternatives."""

from dataclasses import dataclass, field

import torch
from jaxtyping import Float, Int
from torch import Tensor


@dataclass(frozen=True)
class Charge:
    """What each sentence costs, and further figures of each to report, by name."""

    costs: Float[Tensor, "B"]
    figures: dict[str, Float[Tensor, "B"]] = field(default_factory=dict)


def summed(
    charge: Charge,
    lengths: Int[Tensor, "B"],
    extra: Float[Tensor, "B"] | None,
    groups: Int[Tensor, "B"],
    num_sources: int | None,
) -> tuple[Charge, Int[Tensor, "G"], Float[Tensor, "G"] | None]:
    """Return the same of sources instead of pairs, where pair b is one of source `groups[b]`.

    The cost of a pair must be `-log P(Y|X)` by its length. A source costs `-log Σ_r P(Y_r|X)`, divided by the
    mean length of its possible targets; +inf if there is none. Figures and `extra` are means over these.
    """
    sources = int(groups.max()) + 1 if num_sources is None else num_sources
    possible = (charge.costs != torch.inf) & (lengths >= 2)

    def total(values: Float[Tensor, "B"]) -> Float[Tensor, "G"]:
        return values.new_zeros(sources).index_add(0, groups, torch.where(possible, values, 0.0))

    count = total(torch.ones_like(charge.costs))
    mean_length = total(lengths.to(charge.costs)) / count.clamp(min=1)
    log_probs = torch.where(possible, -charge.costs * lengths, 0.0)
    lowest = log_probs.detach().new_full((sources,), -torch.inf)
    known = torch.where(possible, log_probs.detach(), -torch.inf)
    highest = lowest.scatter_reduce(0, groups, known, "amax")
    highest = torch.where(count > 0, highest, 0.0)
    mass = total((log_probs - highest[groups]).exp())
    together = torch.where(count > 0, mass, 1.0).log() + highest
    costs = torch.where(count > 0, -together / mean_length.clamp(min=1), torch.inf)
    means = {name: total(values) / count.clamp(min=1) for name, values in charge.figures.items()}
    length_costs = None if extra is None else total(extra) / count.clamp(min=1)
    return Charge(costs, means), mean_length.round().to(lengths.dtype), length_costs
