"""What a large training costs: the numbers of docs/scaling.md, from counted operations and bytes.

    python -m benchmarks.scaling

Counts what one training step of the paper's WMT14 model does for single sentences of a few lengths, fits a
parabola to that, and computes the rest. Needs no GPU and measures no time.
"""

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from pcfgnat.networks import NETWORKS, Batch, Network
from pcfgnat.nn import emission
from pcfgnat.objectives import Step
from pcfgnat.structures import Padded, backend
from pcfgnat.training.recipe import resolve_recipe

RECIPE = "paper/pcfg_en_de"
VOCABULARY = 32768
LENGTHS = (8, 16, 32)  # tokens of source and target


@dataclass(frozen=True)
class Assumptions:
    """What cannot be counted here."""

    step_tokens: int = 65536  # pairs × longest side, as the batches are cut
    steps: int = 300_000
    pairs: int = 4_500_000
    mean_length: float = 28.0  # subwords of a sentence, bos and eos included
    spread: float = 0.6  # standard deviation of the length over its mean
    peak: float = 312e12  # FLOP/s of an A100 in bfloat16
    efficiency: float = 0.35
    bandwidth: float = 2.0e12  # bytes/s of its memory
    launch: float = 6e-6  # seconds until a kernel is started

    @property
    def token_length(self) -> float:
        """Mean length of the sentence that a token stands in: long ones have more tokens."""
        return self.mean_length * (1 + self.spread**2)


@dataclass(frozen=True)
class Count:
    """A step for one sentence: arithmetic, calls (each would be a GPU kernel), bytes kept to go back."""

    length: int
    flops: int
    calls: int
    kept: int
    kept_by_grammar: int


def counted(step: Step, length: int) -> Count:
    """Count a sentence of so many tokens; the grammar runs as it would on a GPU, in plain torch."""
    torch.manual_seed(length)
    ids = torch.cat([torch.tensor([2]), torch.randint(4, VOCABULARY, (length - 2,)), torch.tensor([3])])
    sentence = Padded(ids.unsqueeze(0), torch.tensor([length]))
    batch = Batch(sentence, sentence)
    step.train()
    counter = FlopCounter()
    with sdpa_kernel(SDPBackend.MATH), counter, backend("reference"), kept_bytes(step.network) as kept:
        step(batch, progress=0.0).value.backward()
    step.zero_grad(set_to_none=True)
    with sdpa_kernel(SDPBackend.MATH), backend("numba"), kept_bytes(step.network) as compact:
        step(batch, progress=0.0)
    return Count(length, counter.total, counter.calls, kept[0], kept[0] - compact[0])


class FlopCounter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Adds up the matrix products inside; torch's own counter fails where gradients are switched off."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.total = self.calls = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        self.calls += not func.is_view
        packet = func._overloadpacket
        packet = torch.ops.aten.addmm if packet is torch.ops.aten.addmm_ else packet
        if packet in flop_registry:
            known = {name: value for name, value in (kwargs or {}).items() if name != "out"}
            self.total += flop_registry[packet](*args, **known, out_val=out)
        return out


@contextmanager
def kept_bytes(network: Network) -> Iterator[list[int]]:
    """Add up the memory that autograd keeps, every piece of it once; parameters do not count."""
    total, seen = [0], {parameter.untyped_storage().data_ptr() for parameter in network.parameters()}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in seen:
            seen.add(storage.data_ptr())
            alive.append(tensor)
            total[0] += storage.nbytes()
        return tensor

    alive: list[Tensor] = []  # or another tensor could get the same address
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        yield total


def fitted(counts: Sequence[Count], field: str) -> tuple[float, float]:
    """Return a and b of `a · L + b · L²`."""
    lengths = np.array([count.length for count in counts], float)
    values = np.array([getattr(count, field) for count in counts], float)
    (a, b), *_ = np.linalg.lstsq(np.stack([lengths, lengths**2], 1), values, rcond=None)
    return float(a), float(b)


def report(network: Network, counts: Sequence[Count], given: Assumptions) -> Iterator[str]:
    """Say everything."""
    parameters = sum(p.numel() for p in network.parameters())
    for count in counts:
        yield (
            f"{count.length} tokens: {count.flops / 1e9:.1f} GFLOP, {count.calls} calls, "
            f"{count.kept / 1e6:.1f} MB kept"
        )
    a, b = fitted(counts, "flops")
    length = given.token_length
    per_token = a + b * length
    step = per_token * given.step_tokens
    yield f"FLOP of a sentence of L tokens: {a / 1e9:.3f}e9 L + {b / 1e6:.3f}e6 L^2"
    yield f"a token, in sentences of {length:.0f}: {per_token / 1e9:.2f} GFLOP"
    yield f"a step: {step / 1e15:.2f} PFLOP"
    yield from costs(step, given)
    calls = np.polyfit([count.length for count in counts], [count.calls for count in counts], 1)
    for longest in (64, 128):
        number = np.polyval(calls, longest)
        yield (
            f"calls of a batch whose longest sentence has {longest} tokens: {number:.0f}, "
            f"{1e3 * number * given.launch:.0f} ms if each takes {1e6 * given.launch:.0f} µs to start"
        )
    yield from memory(counts, parameters, given)
    yield from communication(step, parameters, given)


def costs(step: float, given: Assumptions) -> Iterator[str]:
    """Time on 8 GPUs."""
    rate = given.peak * given.efficiency
    seconds = step / (8 * rate)
    total = seconds * given.steps
    epochs = given.steps * given.step_tokens / (given.pairs * given.mean_length)
    yield (
        f"8 GPUs at {given.efficiency:.0%} of {given.peak / 1e12:.0f} TFLOP/s: {seconds:.3f} s a step, "
        f"{given.step_tokens / seconds:.0f} tokens/s"
    )
    yield (
        f"{given.steps} steps, {epochs:.0f} epochs: {step * given.steps:.2e} FLOP, {total / 86400:.1f} days, "
        f"{8 * total / 3600:.0f} GPU hours"
    )


def memory(counts: Sequence[Count], parameters: int, given: Assumptions) -> Iterator[str]:
    """Where it goes, on each of 8 GPUs."""
    tokens, length = given.step_tokens / 8, given.token_length
    yield f"parameters: {parameters / 1e6:.1f} million"
    for name, each in (("weights", 4), ("gradients", 4), ("Adam", 8), ("EMA", 4)):
        yield f"  {name}: {each} P = {each * parameters / 1e9:.2f} GB"
    for name, field in (("all", "kept"), ("of these by the grammar", "kept_by_grammar")):
        a, b = fitted(counts, field)
        for at in (length, 2 * length, 4 * length):
            total = tokens * (a + b * at)
            yield f"  kept for the backward pass, {name}, sentences of {at:.0f}: {total / 1e9:.1f} GB"
    nodes, chain, sentences = 8 * length + 2, 4 * length + 1, tokens / length
    rules = sentences * chain * 2 * chain * 4
    emissions = sentences * nodes * length * 4
    vocabulary = sentences * nodes * VOCABULARY * 4
    yield f"  one table of rule scores, B C d C: {rules / 1e9:.3f} GB; of 8 heads {8 * rules / 1e9:.2f} GB"
    yield f"  emissions, B m n: {emissions / 1e9:.3f} GB; with the whole vocabulary {vocabulary / 1e9:.0f} GB"
    traffic = sentences * length * chain * 2 * chain * 4
    yield (
        f"  rule scores read once for every target position: {traffic / 1e9:.1f} GB, "
        f"{1e3 * traffic / given.bandwidth:.1f} ms"
    )


def communication(step: float, parameters: int, given: Assumptions) -> Iterator[str]:
    """What goes over the network; a ring moves each byte out of and into each process nearly twice."""
    rate = given.peak * given.efficiency
    for gpus, tokens in ((8, given.step_tokens), (100, given.step_tokens), (100, 8 * given.step_tokens)):
        volume = 2 * (gpus - 1) / gpus * 4 * parameters
        seconds = step * tokens / given.step_tokens / (gpus * rate)
        yield (
            f"{gpus} GPUs, {tokens} tokens a step: {tokens / gpus:.0f} tokens each, "
            f"{1e3 * seconds:.0f} ms of work, {volume / 1e6:.0f} MB in and out, "
            f"{8 * volume / seconds / 1e9:.0f} Gbit/s take as long as the work"
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lengths", type=int, nargs="+", default=LENGTHS, help="of the sentences counted")
    parser.add_argument("--efficiency", type=float, default=Assumptions.efficiency)
    parser.add_argument("--mean-length", type=float, default=Assumptions.mean_length)
    options = parser.parse_args()
    emission.NEGLIGIBLE = 0.0  # the gradient of every node, also of those that a trained model leaves out
    config = resolve_recipe(RECIPE, ("data=none", "output=none")).config
    torch.manual_seed(1)
    network = NETWORKS[config.network_name][0](config.network_config(), VOCABULARY)
    step = Step(network, config.objective_value())
    given = replace(Assumptions(), efficiency=options.efficiency, mean_length=options.mean_length)
    counts = [counted(step, length) for length in options.lengths]
    for line in report(network, counts, given):
        print(line)


if __name__ == "__main__":
    main()
