"""How large the numbers become that products read: what 8 bits have to cover.

A norm gives every row the same length, so the range of the numbers behind it hardly depends on the text. What
attention mixes and what feed-forward layers have inside follows from such rows. So sentences of random tokens
show all ranges, and nothing needs to be looked at while the model runs.
"""

from collections.abc import Callable, Mapping

import numpy as np
import torch
from torch import Tensor, nn

from pcfgnat.decoding import Request, parse_strategy
from pcfgnat.export.graph import Range, symmetric
from pcfgnat.networks import Network
from pcfgnat.networks.base import inference
from pcfgnat.runtimes.base import Drafts, Steps
from pcfgnat.runtimes.torch import torch_runtime
from pcfgnat.text.special import SPECIAL_TOKENS

SENTENCES, BATCH, LONGEST = 64, 16, 40
MARGIN = 1.25  # text goes a little beyond random tokens; what is beyond this too is clipped


def activation_ranges(network: Network) -> dict[str, Range]:
    """Return the ranges of what norms put out and of what output layers read, by the modules' names.

    Output layers are those of attention and of feed-forward layers. Gelu puts out hardly anything below 0, so
    that ranges of the latter are not symmetric.
    """
    seen: dict[str, Range] = {}

    def watch(name: str) -> Callable[[nn.Module, tuple[Tensor, ...], Tensor], None]:
        def look(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
            read = output if isinstance(module, nn.LayerNorm) else inputs[0]
            low, high = seen.get(name, (0.0, 0.0))
            seen[name] = min(low, float(read.min())), max(high, float(read.max()))

        return look

    watched = ((name, module) for name, module in network.named_modules() if is_watched(name, module))
    hooks = [module.register_forward_hook(watch(name)) for name, module in watched]
    runtime, sources = torch_runtime(network), _random_sources(network)
    plain = isinstance(runtime, Steps) and not isinstance(runtime, Drafts)
    strategy = parse_strategy("greedy" if plain else network.default_strategy, runtime)
    try:
        with inference(network), torch.random.fork_rng(devices=[]):
            for start in range(0, SENTENCES, BATCH):
                strategy.decode(runtime, sources[start : start + BATCH], Request(max_length=LONGEST))
    finally:
        for hook in hooks:
            hook.remove()
    return {name: _widened(own, name) for name, own in seen.items() if own != (0.0, 0.0)}


def is_watched(name: str, module: nn.Module) -> bool:
    """Whether something next to a module is turned into 8 bits: behind a norm, before an output layer."""
    return isinstance(module, nn.LayerNorm) or (isinstance(module, nn.Linear) and name.endswith(".output"))


def _widened(seen: Range, name: str) -> Range:
    low, high = MARGIN * seen[0], MARGIN * seen[1]
    return (low, high) if name.endswith("feed_forward.output") else symmetric(max(-low, high))


def named_weights(network: Network, ranges: Mapping[str, Range]) -> dict[str, np.ndarray]:
    """Return all weights by name, and the range of a module as `NAME.range`, where it is known."""
    weights = {name: tensor.float().numpy() for name, tensor in network.state_dict().items()}
    return weights | {f"{name}.range": np.array(own) for name, own in ranges.items()}


def _random_sources(network: Network) -> list[list[int]]:
    generator = np.random.default_rng(1)
    first = max(vars(SPECIAL_TOKENS).values()) + 1
    longest = min(LONGEST, network.max_source_length - 2)
    lengths = generator.integers(1, longest + 1, SENTENCES)
    return [
        [
            SPECIAL_TOKENS.bos,
            *generator.integers(first, network.vocabulary, length).tolist(),
            SPECIAL_TOKENS.eos,
        ]
        for length in lengths.tolist()
    ]
