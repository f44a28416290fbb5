"""The one place that chooses an implementation of the CTC recursion: kernels on the CPU, else plain torch.

There is no kernel for GPUs, and `torch.nn.functional.ctc_loss` does not take its place:

- its gradient contains `exp(log_probs)`, which only a log-softmax over the same tokens cancels, while here
  tokens are the target's own;
- where a log-probability is -inf, as of tokens that are ruled out, its gradient is NaN;
- slots that emit a token and those that emit its repetition share one gradient, so that there are no
  posteriors of positions;
- it copies the lengths to the host, and so waits for the device.

The reference has none of this. It takes about ten calls per slot, whatever the batch.
"""

from jaxtyping import Float, Int
from torch import Tensor

from pcfgnat.structures.backend import use_numba
from pcfgnat.structures.ctc import numba, reference
from pcfgnat.structures.ctc.reference import Weights
from pcfgnat.structures.semiring import LogSemiring, Semiring


def total(semiring: Semiring, weights: Weights) -> Float[Tensor, "K B"]:
    """Total weight of all alignments of every target."""
    if type(semiring) is LogSemiring and use_numba(weights.tokens, weights.blanks):
        return numba.log_partition(weights).unsqueeze(0)
    return reference.total(semiring, weights)


def best(weights: Weights) -> tuple[Int[Tensor, "B T"], Float[Tensor, "B"]] | None:
    """Return position by slot and score of every target's best alignment; None where no kernel applies."""
    return numba.best(weights) if use_numba(weights.tokens, weights.blanks) else None
