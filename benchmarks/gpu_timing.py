"""Time the kernels on a GPU, beside the plain loop: `python -m benchmarks.gpu_timing`.

With `--check` only report whether there is a GPU. Prints a Markdown table to paste into an issue.
"""

import argparse
import sys
from collections.abc import Callable, Iterator

import torch

from pcfgnat.structures import CTC, RHPCFG, Padded, RuleScores, SupportTree, backend

SIZES = ((64, 113, 28), (290, 113, 28), (64, 401, 100))  # sentences, main-chain nodes, target tokens
CTC_SIZES = ((64, 56, 28), (290, 56, 28), (64, 200, 100))  # sentences, slots, target tokens
VOCABULARY = 64  # tokens are gathered before: what is timed does not depend on it


def grammars(sentences: int, nodes: int, depth: int) -> RHPCFG:
    """Return random grammars on the GPU."""
    generator = torch.Generator("cuda").manual_seed(0)
    scores = RuleScores.random(SupportTree(nodes, depth), sentences, VOCABULARY, generator)
    leaves = (part.requires_grad_() for part in (scores.chain, scores.prefix, scores.emit))
    return RHPCFG(RuleScores(*leaves), torch.full((sentences,), nodes, device="cuda"))


def canvases(sentences: int, slots: int) -> CTC:
    """Return random slots on the GPU."""
    scores = torch.randn(sentences, slots, VOCABULARY, device="cuda").log_softmax(-1).requires_grad_()
    return CTC(scores, torch.full((sentences,), slots, device="cuda"), blank=0)


def targets(sentences: int, tokens: int) -> Padded:
    """Return random targets without blanks on the GPU."""
    ids = torch.randint(1, VOCABULARY, (sentences, tokens), device="cuda")
    return Padded(ids, torch.full((sentences,), tokens, device="cuda"))


def problems() -> Iterator[tuple[str, tuple[int, int, int], RHPCFG | CTC]]:
    """Yield what is timed: name, size, distributions."""
    for depth in (0, 1, 2):
        for size in SIZES:
            yield f"grammar, l = {depth}", size, grammars(*size[:2], depth)
    for size in CTC_SIZES:
        yield "CTC", size, canvases(*size[:2])


def actions(distribution: RHPCFG | CTC, target: Padded) -> dict[str, Callable[[], object]]:
    """Return what a training step does."""

    def backward() -> None:
        distribution.log_prob(target).sum().backward()  # type: ignore[no-untyped-call]

    def forward() -> object:
        with torch.no_grad():
            return distribution.log_prob(target)

    best = distribution.posterior(target).argmax
    return {"log P": forward, "log P and gradient": backward, "best structure": best}


def rows() -> Iterator[tuple[str, ...]]:
    """Yield structure, size, action, milliseconds by Triton and by the reference."""
    from triton.testing import do_bench

    for structure, size, distribution in problems():
        for name, action in actions(distribution, targets(size[0], size[2])).items():
            times = []
            for chosen in ("triton", "reference"):
                with backend(chosen):
                    times.append(do_bench(action))
            yield structure, " x ".join(map(str, size)), name, *(f"{time:.2f}" for time in times)


def main() -> None:
    """Print the table, or why there is none."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="only report whether there is a GPU")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("CUDA is not available; `python -m pytest tests/gpu` interprets the kernels on the CPU")
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    if options.check:
        return
    print("| structure | sentences x nodes x tokens | what | Triton (ms) | plain loop (ms) |")
    print("|---|---|---|---|---|")
    for row in rows():
        print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
