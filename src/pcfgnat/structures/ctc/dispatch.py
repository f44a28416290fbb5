"""The one place that chooses an implementation of the CTC recursion, as for grammars.

`torch.nn.functional.ctc_loss` is none of them:

- its gradient contains `exp(log_probs)`, which only a log-softmax over the same tokens cancels, while here
  tokens are the target's own;
- where a log-probability is -inf, as of tokens that are ruled out, its gradient is NaN;
- slots that emit a token and those that emit its repetition share one gradient, so that there are no
  posteriors of positions;
- it copies the lengths to the host, and so waits for the device;
- its gradient cannot be differentiated.

Whether a batch is free of the first three could only be known by reading its values.
"""

from types import ModuleType

from jaxtyping import Float, Int
from torch import Tensor

from pcfgnat.structures.backend import chosen_backend
from pcfgnat.structures.ctc import reference
from pcfgnat.structures.ctc.reference import Weights
from pcfgnat.structures.semiring import LogSemiring, Semiring


def total(semiring: Semiring, weights: Weights) -> Float[Tensor, "K B"]:
    """Total weight of all alignments of every target."""
    kernels = _kernels(weights)
    if type(semiring) is LogSemiring and kernels is not None:
        return kernels.log_partition(weights).unsqueeze(0)  # type: ignore[no-any-return]
    return reference.total(semiring, weights)


def best(weights: Weights) -> tuple[Int[Tensor, "B T"], Float[Tensor, "B"]] | None:
    """Return position by slot and score of every target's best alignment; None where no kernel applies."""
    kernels = _kernels(weights)
    return kernels.best(weights) if kernels is not None else None


def _kernels(weights: Weights) -> ModuleType | None:
    """Import the kernels when they are first needed: it takes a moment, and they may not be installed."""
    name = chosen_backend(weights.tokens, weights.blanks)
    if name == "numba":
        from pcfgnat.structures.ctc import numba

        return numba
    if name == "triton":
        from pcfgnat.structures.ctc.triton import functions

        return functions
    return None
