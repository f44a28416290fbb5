"""What functions with kernels share: derivatives of any order, and vmap by folding its axis into a batch."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor


def without_autocast(device: torch.device) -> AbstractContextManager[object]:
    """A block whose products keep the precision of their factors, on devices that know another (not meta)."""
    known = torch.amp.is_autocast_available(device.type)
    return torch.autocast(device.type, enabled=False) if known else nullcontext()


def is_transformed(tensor: Tensor) -> bool:
    """Whether a transform of torch.func is at work on a tensor, which then has no numbers of its own."""
    wrapped: bool = torch._C._functorch.is_functorch_wrapped_tensor(tensor)
    return wrapped


def differentiable_gradients(
    function: Callable[..., Tensor], inputs: tuple[Tensor, ...], grad: Tensor
) -> tuple[Tensor, ...]:
    """Return the gradients of a plain torch function as part of the graph, to be differentiated again.

    A kernel's gradient would enter the graph as a constant, and whatever depends on its derivative would
    silently contribute nothing.
    """

    def of_all(*given: Tensor) -> Tensor:
        """Depend on every input: torch.func cannot nest where one has no gradient at all."""
        return function(*given) + sum(one.flatten()[:0].sum() for one in given)

    found: tuple[Tensor, ...] = torch.func.vjp(of_all, *inputs)[1](grad)
    return found


def fold_into_batch(
    apply: Callable[..., Any], size: int, in_dims: tuple[int | None, ...], arguments: tuple[Any, ...]
) -> tuple[Any, Any]:
    """Run a function of batches `[B, ...]` under vmap: its axis of `size` becomes part of the batch.

    Returns what the `vmap` of an `autograd.Function` returns: outputs and the axes of vmap in them.
    """

    def folded(value: Any, dim: int | None) -> Any:
        if not isinstance(value, Tensor):
            return value
        whole = value.expand(size, *value.shape) if dim is None else value.movedim(dim, 0)
        return whole.flatten(0, 1)

    def unfolded(value: Tensor) -> Tensor:
        return value.reshape(size, len(value) // size, *value.shape[1:])

    outputs = apply(*(folded(value, dim) for value, dim in zip(arguments, in_dims, strict=True)))
    if isinstance(outputs, Tensor):
        return unfolded(outputs), 0
    return tuple(unfolded(output) for output in outputs), (0,) * len(outputs)
