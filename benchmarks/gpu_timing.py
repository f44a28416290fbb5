"""Time the grammar's kernels on a GPU, beside the plain loop: `python -m benchmarks.gpu_timing`.

With `--check` only report whether there is a GPU. Prints a Markdown table to paste into an issue.
"""

import argparse
import sys
from collections.abc import Callable, Iterator

import torch

from pcfgnat.structures import RHPCFG, Padded, RuleScores, SupportTree, backend

SIZES = ((64, 113, 28), (290, 113, 28), (64, 401, 100))  # sentences, main-chain nodes, target tokens
VOCABULARY = 64  # tokens are gathered before: what is timed does not depend on it


def problem(sentences: int, nodes: int, tokens: int, depth: int) -> tuple[RHPCFG, Padded]:
    """Return random grammars on the GPU and a target for each."""
    generator = torch.Generator("cuda").manual_seed(0)
    scores = RuleScores.random(SupportTree(nodes, depth), sentences, VOCABULARY, generator)
    leaves = (part.requires_grad_() for part in (scores.chain, scores.prefix, scores.emit))
    lengths = torch.full((sentences,), nodes, device="cuda")
    ids = torch.randint(VOCABULARY, (sentences, tokens), device="cuda", generator=generator)
    return RHPCFG(RuleScores(*leaves), lengths), Padded(ids, torch.full((sentences,), tokens, device="cuda"))


def actions(grammar: RHPCFG, target: Padded) -> dict[str, Callable[[], object]]:
    """Return what a training step does."""

    def backward() -> None:
        grammar.log_prob(target).sum().backward()  # type: ignore[no-untyped-call]

    def forward() -> object:
        with torch.no_grad():
            return grammar.log_prob(target)

    return {"log P": forward, "log P and gradient": backward, "best tree": grammar.posterior(target).argmax}


def rows() -> Iterator[tuple[str, ...]]:
    """Yield size, action, milliseconds by Triton and by the reference."""
    from triton.testing import do_bench

    for depth in (0, 1, 2):
        for size in SIZES:
            for name, action in actions(*problem(*size, depth)).items():
                times = []
                for chosen in ("triton", "reference"):
                    with backend(chosen):
                        times.append(do_bench(action))
                yield str(depth), " x ".join(map(str, size)), name, *(f"{time:.2f}" for time in times)


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
    print("| l | sentences x nodes x tokens | what | Triton (ms) | plain loop (ms) |\n|---|---|---|---|---|")
    for row in rows():
        print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
