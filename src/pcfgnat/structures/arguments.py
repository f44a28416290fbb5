"""Checks of what callers pass, so that a wrong argument is named and not found out deep in a recursion."""

from typing import Any

from torch import Tensor


def check_scores(scores: dict[str, Any]) -> None:
    """Raise unless all are floating-point tensors."""
    for name, value in scores.items():
        check_tensor(name, value)
        if not value.is_floating_point():
            raise TypeError(f"{name} must be a floating-point tensor, got {value.dtype}")


def check_alike(scores: dict[str, Tensor]) -> None:
    """Raise unless all tensors have the dtype of the first and are on its device.

    An empty tensor may have any dtype: it holds no number that could be of the wrong one.
    """
    (first, model), *others = scores.items()
    for name, value in others:
        if value.device != model.device:
            raise ValueError(f"{name} must be on {model.device} like {first}, got {value.device}")
        if value.dtype != model.dtype and value.numel():
            raise TypeError(f"{name} must be {model.dtype} like {first}, got {value.dtype}")


def check_tensor(name: str, value: Any, hint: str = "") -> None:
    """Raise unless the value is a tensor."""
    if not isinstance(value, Tensor):
        raise TypeError(f"{name} must be a tensor, got {kind_of(value)}{hint}")


def kind_of(value: Any) -> str:
    """Return the type's name as users know it: `list`, `numpy.ndarray`."""
    kind = type(value)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
