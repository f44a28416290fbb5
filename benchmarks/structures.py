"""The grammar's kernels against the plain-torch reference: `make bench`.

Refuses to time a kernel whose tests fail. One thread unless said otherwise.
"""

import argparse
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from benchmarks.measure import interleave, peak_extra_bytes, shown, write_json
from pcfgnat.report.statistics import Timing
from pcfgnat.structures import RHPCFG, Padded, RuleScores, Search, SupportTree, backend
from pcfgnat.structures.rhpcfg.reference import legal_chain_rules

TESTS = ["tests/structures/test_rhpcfg.py", "tests/structures/test_numba.py"]
VOCABULARY = 64  # small: the output layer is not what is measured here
# name, batch, source and target length, depth, runs
TRAINING_CASES = [
    ("log_prob + gradients, B=32, n=16, l=1", 32, 16, 1, 15),
    ("log_prob + gradients, B=8, n=128, l=1", 8, 128, 1, 3),
    ("log_prob + gradients, B=32, n=16, l=2", 32, 16, 2, 11),
]
RATIO = 4  # λ


def random_grammar(
    batch: int, source_length: int, depth: int, dtype: torch.dtype, scale: float = 1.0
) -> RHPCFG:
    """A batch of normalised random grammars for sources of one length."""
    tree = SupportTree(RATIO * source_length + 1, depth)
    generator = torch.Generator().manual_seed(0)
    lengths = torch.full((batch,), tree.chain_length)
    legal = legal_chain_rules(tree, lengths)

    def normal(*shape: int) -> torch.Tensor:
        return scale * torch.randn(*shape, generator=generator)

    chain = normal(*legal.shape).masked_fill(~legal, -1e30).flatten(2).log_softmax(-1).view(legal.shape)
    rules = tree.prefix_rules()
    prefix = torch.zeros(batch, tree.chain_length, len(rules))
    for parent in {rule.parent for rule in rules}:
        numbers = [number for number, rule in enumerate(rules) if rule.parent == parent]
        prefix[..., numbers] = normal(batch, tree.chain_length, len(numbers)).log_softmax(-1)
    emit = normal(batch, tree.num_nodes, VOCABULARY).log_softmax(-1)
    scores = [chain.masked_fill(~legal, float("-inf")), prefix, emit]
    return RHPCFG(RuleScores(*(score.to(dtype) for score in scores)), lengths)


def random_target(batch: int, length: int) -> Padded:
    ids = torch.randint(VOCABULARY, (batch, length), generator=torch.Generator().manual_seed(1))
    return Padded(ids, torch.full((batch,), length))


def gradients(grammar: RHPCFG, target: Padded, name: str) -> tuple[torch.Tensor, ...]:
    """log_prob and the gradients of all scores."""
    given = (grammar.scores.chain, grammar.scores.prefix, grammar.scores.emit)
    leaves = [score.detach().requires_grad_() for score in given]
    with backend(name):
        log_prob = RHPCFG(RuleScores(*leaves), grammar.chain_lengths).log_prob(target)
        return log_prob.detach(), *torch.autograd.grad(log_prob.sum(), leaves, materialize_grads=True)


def training_speed() -> dict[str, Any]:
    results = {}
    for name, batch, length, depth, runs in TRAINING_CASES:
        grammar, target = random_grammar(batch, length, depth, torch.float32), random_target(batch, length)
        times = interleave(
            {kind: _call(gradients, grammar, target, kind) for kind in ("numba", "reference")}, runs=runs
        )
        results[name] = _report(name, times)
    return results


def decoding_speed() -> dict[str, Any]:
    name = "viterbi over all lengths, B=1, 25 source tokens, l=1"
    grammar = random_grammar(1, 25, 1, torch.float32)

    def decode(kind: str) -> object:
        with backend(kind):
            return grammar.mode(Search("viterbi", max_length=50))

    times = interleave({kind: _call(decode, kind) for kind in ("numba", "reference")}, runs=25)
    return {name: _report(name, times)}


def thread_speed() -> dict[str, Any]:
    name = "numba log_prob + gradients, B=8, n=128, l=1, two threads against one"
    grammar, target = random_grammar(8, 128, 1, torch.float32), random_target(8, 128)

    def prepare(threads: int) -> object:
        torch.set_num_threads(threads)
        return gradients(grammar, target, "numba")  # torch starts its threads at the first use

    call = _call(gradients, grammar, target, "numba")
    before = {"numba": _call(prepare, 2), "reference": _call(prepare, 1)}
    times = interleave({"numba": call, "reference": call}, runs=15, before=before)
    torch.set_num_threads(1)
    return {name: _report(name, times)}


def memory() -> dict[str, Any]:
    """Peak memory above the inputs, over the size of the inputs, for log_prob and all gradients."""
    results = {}
    for name, batch, length, depth, _ in TRAINING_CASES:
        gradients(random_grammar(1, 4, depth, torch.float32), random_target(1, 4), "numba")  # compiles
        grammar, target = random_grammar(batch, length, depth, torch.float32), random_target(batch, length)
        given = (grammar.scores.chain, grammar.scores.prefix, grammar.scores.emit)
        size = sum(score.numel() * score.element_size() for score in given)
        extra = peak_extra_bytes(_call(gradients, grammar, target, "numba"))
        share = None if extra is None else extra / size
        results[name] = {"input_bytes": size, "peak_extra_bytes": extra, "ratio": share}
        if share is not None:
            print(f"{name}: peak extra memory {share:.2f}x the inputs ({size / 1e6:.1f} MB)")
    return results


def accuracy() -> dict[str, Any]:
    """Float32 against float64 on the same scores, very peaked, long."""
    grammar, target = random_grammar(2, 128, 1, torch.float32, scale=20.0), random_target(2, 256)
    given = (grammar.scores.chain, grammar.scores.prefix, grammar.scores.emit)
    exact = RHPCFG(RuleScores(*(score.double() for score in given)), grammar.chain_lengths)
    single, double = gradients(grammar, target, "numba"), gradients(exact, target, "numba")
    relative = float(((single[0] - double[0]) / double[0]).abs().max())
    worst = max(float((a - b).abs().max()) for a, b in zip(single[1:], double[1:], strict=True) if a.numel())
    print(f"float32 against float64, scale 20, n = 256: value {relative:.1e} relative, gradients {worst:.1e}")
    return {"value_relative": relative, "gradient_absolute": worst}


def _call(function: Callable[..., object], *arguments: object) -> Callable[[], object]:
    return lambda: function(*arguments)


def _report(name: str, times: dict[str, Timing]) -> dict[str, Any]:
    ratio = times["reference"].median / times["numba"].median
    print(f"{name}: {shown(times['numba'])} against {shown(times['reference'])}: {ratio:.1f}x", flush=True)
    return {**times, "ratio": ratio}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--json", type=Path, default=Path("runs/bench/structures.json"), help="where the figures go"
    )
    arguments = parser.parse_args()
    tested = subprocess.run([sys.executable, "-m", "pytest", "-q", *TESTS], check=False)
    if tested.returncode != 0:
        sys.exit("the kernels' tests fail: nothing was timed")
    torch.set_num_threads(1)
    results = {"memory": memory(), "accuracy": accuracy(), "decoding": decoding_speed()}
    write_json(arguments.json, {**results, "training": training_speed(), "threads": thread_speed()})


if __name__ == "__main__":
    main()
