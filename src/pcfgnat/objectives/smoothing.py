"""Label smoothing without the log-probabilities of the whole vocabulary."""

from jaxtyping import Float, Int
from torch import Tensor

from pcfgnat.nn import token_log_probs


def check_smoothing(label_smoothing: float) -> None:
    """Raise an error unless this is a probability that leaves some to the label."""
    if not 0 <= label_smoothing < 1:
        raise ValueError(f"label_smoothing must be at least 0 and less than 1, got {label_smoothing}")


def smoothed_nll(
    states: Float[Tensor, "T D"], weight: Float[Tensor, "V D"], label: Int[Tensor, "T"], smoothing: float
) -> tuple[Float[Tensor, "T"], Float[Tensor, "T"]]:
    """Return the smoothed cost of each label, and its plain negative log-probability.

    `-(1 - ε) log p(y) - ε / V · Σ_v log p(v) = -log p(y) + ε s · (w_y - w̄)`, of state s and output rows w.
    """
    nll = -token_log_probs(states, weight, label.unsqueeze(1)).squeeze(1)
    if smoothing == 0.0:
        return nll, nll
    preferred = (states * (weight[label] - weight.mean(0))).sum(1)
    return nll + smoothing * preferred.to(nll.dtype), nll
