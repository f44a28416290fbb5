"""How large the numbers behind each norm become: what 8 bits have to cover.

A norm gives every row the same length, so the range of its numbers hardly depends on the text: sentences of
random tokens show it, and nothing needs to be looked at while the model runs.
"""

from collections.abc import Callable, Mapping

import numpy as np
import torch
from torch import Tensor, nn

from pcfgnat.decoding import Request, parse_strategy
from pcfgnat.networks import Network
from pcfgnat.networks.base import inference
from pcfgnat.runtimes.base import Drafts, Steps
from pcfgnat.runtimes.torch import torch_runtime
from pcfgnat.text.special import SPECIAL_TOKENS

SENTENCES, BATCH, LONGEST = 64, 16, 40
MARGIN = 1.25  # text goes a little beyond random tokens; what is beyond this too is clipped


def norm_ranges(network: Network) -> dict[str, float]:
    """Return a bound on the size of each norm's outputs, by its name among the network's modules."""
    largest: dict[str, float] = {}

    def watch(name: str) -> Callable[[nn.Module, tuple[Tensor, ...], Tensor], None]:
        def look(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
            largest[name] = max(largest.get(name, 0.0), float(output.abs().max()))

        return look

    norms = ((name, module) for name, module in network.named_modules() if isinstance(module, nn.LayerNorm))
    hooks = [module.register_forward_hook(watch(name)) for name, module in norms]
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
    return {name: MARGIN * size for name, size in largest.items()}


def named_weights(network: Network, ranges: Mapping[str, float]) -> dict[str, np.ndarray]:
    """Return all weights by name, and the range of a norm as `NAME.range`, where it is known."""
    weights = {name: tensor.float().numpy() for name, tensor in network.state_dict().items()}
    return weights | {f"{norm}.range": np.array(bound) for norm, bound in ranges.items()}


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
