"""What the dispatcher asks of a backend, by the operators: log P and best alignments."""

from jaxtyping import Float, Int
from torch import Tensor

from pcfgnat.structures.ctc.reference import Weights
from pcfgnat.structures.ctc.triton import operators


def log_partition(weights: Weights) -> Float[Tensor, "B"]:
    """Return log P of every target in float32 at least, with the posteriors as its gradient."""
    return operators.log_partition(*_tensors(weights))


def best(weights: Weights) -> tuple[Int[Tensor, "B T"], Float[Tensor, "B"]]:
    """Return the best alignment of every target: the position that each slot emits, and its score."""
    position, score = operators.ctc_best(*(tensor.detach() for tensor in _tensors(weights)))
    return position, score


def _tensors(weights: Weights) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    return weights.tokens, weights.blanks, weights.repeated, weights.num_slots, weights.lengths
