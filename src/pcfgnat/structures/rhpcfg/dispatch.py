"""The one place that chooses an implementation of the grammar's dynamic programs.

A kernel for another device plugs in here: it offers the functions of `numba.py` and is chosen by its device.
"""

from types import ModuleType

from jaxtyping import Float, Int
from torch import Tensor

from pcfgnat.grammar.decoding import LengthTable
from pcfgnat.grammar.support_tree import SupportTree
from pcfgnat.structures.backend import chosen_backend
from pcfgnat.structures.rhpcfg import reference
from pcfgnat.structures.rhpcfg.reference import Weights
from pcfgnat.structures.semiring import LogSemiring, Semiring


def total(semiring: Semiring, weights: Weights) -> Float[Tensor, "K B"]:
    """Total weight of all derivations of every target."""
    kernels = _kernels(weights.tokens, weights.chain, weights.prefix)
    if type(semiring) is LogSemiring and kernels is not None:
        return kernels.log_partition(weights).unsqueeze(0)  # type: ignore[no-any-return]
    return reference.total(semiring, weights)


def best(weights: Weights) -> tuple[Int[Tensor, "B m"], Float[Tensor, "B"]] | None:
    """Return position by symbol and score of every target's best derivation; None where no kernel applies."""
    kernels = _kernels(weights.tokens, weights.chain, weights.prefix)
    return kernels.best(weights) if kernels is not None else None


def best_by_length(
    tree: SupportTree,
    tokens: Float[Tensor, "B m"],
    chain: Float[Tensor, "B C d C"],
    prefix: Float[Tensor, "B C R"],
    chain_lengths: Int[Tensor, "B"],
    max_length: int,
) -> LengthTable:
    """Viterbi over (symbol, length) (paper, section 3.4), all lengths in one pass."""
    chosen = _kernels(tokens, chain, prefix) or reference
    table: LengthTable = chosen.best_by_length(tree, tokens, chain, prefix, chain_lengths, max_length)
    return table


def _kernels(*tensors: Tensor) -> ModuleType | None:
    """Import the kernels when they are first needed: it takes a moment, and they may not be installed."""
    name = chosen_backend(*(tensor for tensor in tensors if tensor.numel()))
    if name == "numba":
        from pcfgnat.structures.rhpcfg import numba

        return numba
    if name == "triton":
        from pcfgnat.structures.rhpcfg.triton import functions

        return functions
    return None
