"""Where the values of tensors can be looked at: on another device the program would wait for it."""

from torch import Tensor


def at_hand(tensor: Tensor) -> bool:
    """Whether reading values of a tensor costs nothing.

    To be called as `waiting.at_hand`: tests deny it, to see on the CPU what other devices compute.
    """
    return tensor.device.type == "cpu"
