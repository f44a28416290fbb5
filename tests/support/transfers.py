"""What would make a program wait for its device, seen on the meta device, where values do not exist."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

META = torch.device("meta")


@contextmanager
def no_transfers() -> Iterator[None]:
    """Raise where numbers go to the device or come from it; reading values raises by itself on meta.

    Copies from memory that is not pinned wait too: `torch.tensor(…, device=…)`, lists as indices.
    """
    with _NoLists(), _NoCopies():  # type: ignore[no-untyped-call]
        yield


class _NoLists(TorchFunctionMode):
    """Python's numbers that become tensors; the dispatcher is not told of these."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **kwargs or {})
        made = func in (torch.tensor, torch.as_tensor, Tensor.new_tensor)
        indexed = func in (Tensor.__getitem__, Tensor.__setitem__) and any(
            isinstance(part, list) for part in (args[1] if isinstance(args[1], tuple) else (args[1],))
        )
        if (made and result.device == META) or (indexed and args[0].device == META):
            raise RuntimeError(f"{func} copies numbers of the host to the device")
        return result


class _NoCopies(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Tensors of the host that meet those of the device, or become such."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        there = any(tensor.device == META for tensor in given)
        if there and any(tensor.device != META and tensor.dim() for tensor in given):
            raise RuntimeError(f"{func} mixes tensors of the device with others")
        result = func(*args, **kwargs or {})
        made = {leaf.device == META for leaf in tree_leaves(result) if isinstance(leaf, Tensor)}
        if given and made and made != {there}:
            raise RuntimeError(f"{func} copies between host and device")
        return result
