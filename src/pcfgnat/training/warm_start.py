"""Start with the weights of another network, of whatever kind and depth."""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

from pcfgnat.checkpoints.checkpoint import Checkpoint
from pcfgnat.checkpoints.weights import own_weights
from pcfgnat.networks import AutoregressiveNetwork, Network
from pcfgnat.text import Tokenizer
from pcfgnat.training.config import TrainingError

LAYER = re.compile(
    r"(?P<stack>(?:(?:drafter|reader)\.)?(?:encoder|decoder)\.layers\.)(?P<index>\d+)(?P<rest>\..+)"
)
PART = re.compile(r"(?:drafter|reader)\.")  # of a hybrid network
MOST_NAMED = 50  # weights; of more, parts of the network are named


def warm_start(network: Network, directory: Path, tokenizer: Tokenizer, say: Callable[[str], None]) -> int:
    """Copy and count the weights whose name and shape agree, and report which of the network's do not.

    If none does, that is an error.

    Stacks of other depths are spread evenly: layer i of n takes layer ⌊(i + ½) · m / n⌋ of m. Either head of
    a hybrid network begins as another network, or another network as one of its heads.
    """
    checkpoint = Checkpoint.open(directory)
    if checkpoint.tokenizer.sha256 != tokenizer.sha256:
        found = f"{checkpoint.tokenizer.sha256} of {directory}"
        raise TrainingError(
            f"warm_start must have the tokenizer of the data, {tokenizer.sha256}, got {found}"
        )
    weights, own = checkpoint.weights(), own_weights(network)
    head = "reader" if isinstance(network, AutoregressiveNetwork) else "drafter"
    origin = origins(own, weights, head)
    fitting = [
        name
        for name, tensor in own.items()
        if origin[name] in weights and weights[origin[name]].shape == tensor.shape
    ]
    if not fitting:
        kind = checkpoint.metadata.network_name
        raise TrainingError(
            f"warm_start must have weights of the network's names and shapes, got none of {len(own)} in "
            f"{directory}, a network of kind {kind}"
        )
    with torch.no_grad():
        for name in fitting:
            own[name].copy_(weights[origin[name]])
    left = [name for name in own if name not in fitting]
    missed = f"; unchanged: {', '.join(_named(left))}" if left else ""
    say(f"warm start: {len(fitting)} of {len(own)} weights are from {directory}{missed}")
    return len(fitting)


def _named(names: Sequence[str]) -> list[str]:
    """Return the names, or, of very many, the parts of the network that they belong to."""
    if len(names) <= MOST_NAMED:
        return list(names)
    parts = Counter(name.partition(".")[0] for name in names)
    return [f"{count} of {part}" for part, count in parts.items()]


def origins(own: Mapping[str, Tensor], given: Mapping[str, Tensor], head: str = "drafter") -> dict[str, str]:
    """Return the name of the weight that each of the network's own is to be taken from.

    `head` is the part to look at, if the weights are those of a hybrid network and the own are not.
    """
    depths, given_depths = _depths(own), _depths(given)
    found = {}
    for name in own:
        match = LAYER.fullmatch(name)
        if match is None:
            found[name] = next((other for other in _also_called(name, head) if other in given), name)
            continue
        stack = next((other for other in _also_called(match["stack"], head) if other in given_depths), None)
        if stack is None:
            found[name] = name
            continue
        layer = (2 * int(match["index"]) + 1) * given_depths[stack] // (2 * depths[match["stack"]])
        found[name] = f"{stack}{layer}{match['rest']}"
    return found


def _also_called(name: str, head: str) -> tuple[str, ...]:
    """Return what a weight or stack may be called in another network, the best first."""
    bare = PART.sub("", name, count=1)
    return (f"{head}.{name}", name) if bare == name else (name, bare)


def _depths(weights: Mapping[str, Tensor]) -> dict[str, int]:
    """Return the number of layers of each stack."""
    depths: dict[str, int] = {}
    for name in weights:
        if (match := LAYER.fullmatch(name)) is not None:
            depths[match["stack"]] = max(depths.get(match["stack"], 0), int(match["index"]) + 1)
    return depths
