"""Begin with the weights of another model."""

from collections.abc import Callable
from pathlib import Path

import torch

from pcfgnat.checkpoints.checkpoint import Checkpoint, own_weights
from pcfgnat.networks import Model
from pcfgnat.text import Tokenizer
from pcfgnat.training.config import TrainingError


def warm_start(model: Model, directory: Path, tokenizer: Tokenizer, say: Callable[[str], None]) -> int:
    """Copy and count the weights whose name and shape agree, and say which of the model's are left."""
    checkpoint = Checkpoint.open(directory)
    if checkpoint.tokenizer.sha256 != tokenizer.sha256:
        found = f"{checkpoint.tokenizer.sha256} of {directory}"
        raise TrainingError(
            f"warm_start must have the tokenizer of the data, {tokenizer.sha256}, got {found}"
        )
    weights, own = checkpoint.weights(), own_weights(model)
    fitting = [
        name for name, tensor in own.items() if name in weights and weights[name].shape == tensor.shape
    ]
    with torch.no_grad():
        for name in fitting:
            own[name].copy_(weights[name])
    left = [name for name in own if name not in fitting]
    missed = f"; as they were: {', '.join(left)}" if left else ""
    say(f"warm start: {len(fitting)} of {len(own)} weights are from {directory}{missed}")
    return len(fitting)
