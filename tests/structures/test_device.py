"""Which backend runs where, and that nothing waits for a device: on the meta device it would fail."""

import sys
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from pcfgnat.structures import DAG, RHPCFG, Padded, RuleScores, SupportTree, backend
from pcfgnat.structures.backend import chosen_backend, obstacle
from pcfgnat.structures.emissions import as_arrays
from pcfgnat.structures.ngrams import ngram_score
from tests.support.transfers import META, no_transfers


def sizes() -> Tensor:
    return torch.zeros(3, dtype=torch.int64, device=META)


def target() -> Padded:
    return Padded(torch.zeros(3, 7, dtype=torch.int64, device=META), sizes())


def grammar(depth: int) -> tuple[RHPCFG, list[Tensor]]:
    scores = RuleScores.zeros(SupportTree(9, depth), 3, 11, device=META)
    leaves = [part.requires_grad_() for part in (scores.chain, scores.prefix, scores.emit)]
    return RHPCFG(RuleScores(*leaves), sizes()), leaves


def graph() -> tuple[DAG, list[Tensor]]:
    transitions, emit = (torch.zeros(3, 9, n, device=META).requires_grad_() for n in (9, 11))
    return DAG(transitions, emit, sizes()), [transitions, emit]


@pytest.mark.parametrize("build", [lambda: grammar(0), lambda: grammar(1), lambda: grammar(2), graph])
@pytest.mark.parametrize("name", ["auto", "reference"])
def test_sums_gradients_and_best_trees_never_wait_for_the_device(
    name: str, build: Callable[[], tuple[RHPCFG | DAG, list[Tensor]]]
) -> None:
    """`.item()`, `.cpu()`, `bool(tensor)` and `nonzero()` all raise on the meta device."""
    with backend(name):
        distribution, leaves = build()
        posterior = distribution.posterior(target())
        loss = posterior.log_partition.sum() + posterior.entropy().sum()
        loss.backward()  # type: ignore[no-untyped-call]
        best = posterior.argmax()
    assert all(leaf.grad is not None and leaf.grad.shape == leaf.shape for leaf in leaves if leaf.numel())
    assert best.position.shape == (
        3,
        distribution.scores.emit.shape[1] if isinstance(distribution, RHPCFG) else 9,
    )


@pytest.mark.parametrize("build", [lambda: grammar(0), lambda: grammar(1), lambda: grammar(2), graph])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_expected_ngrams_never_wait_for_the_device(
    n: int, build: Callable[[], tuple[RHPCFG | DAG, list[Tensor]]]
) -> None:
    distribution, leaves = build()
    wanted = target()
    with no_transfers():
        found = ngram_score(distribution, wanted, n)
        (found.score.sum() + distribution.expected_ngrams(wanted, n).sum()).backward()  # type: ignore[no-untyped-call]
    assert found.score.shape == found.expected_length.shape == (3,)
    assert all(leaf.grad is not None and leaf.grad.shape == leaf.shape for leaf in leaves if leaf.numel())


def test_arrays_keep_values_and_have_numbers_that_numpy_knows() -> None:
    given = (
        torch.tensor([0.5, -1.25]),
        torch.tensor([1, 2]),
        torch.tensor([True]),
        torch.tensor([2.0]).half(),
    )
    short = torch.tensor([0.75], dtype=torch.bfloat16, requires_grad=True)
    found = as_arrays(*given, short)
    assert [array.tolist() for array in found] == [[0.5, -1.25], [1, 2], [True], [2.0], [0.75]]
    assert [str(array.dtype) for array in found] == ["float32", "int64", "bool", "float32", "float32"]


def test_the_meta_device_catches_a_wait() -> None:
    for wait in (Tensor.item, Tensor.cpu, bool):
        with pytest.raises((RuntimeError, NotImplementedError)):
            wait(torch.zeros(1, device=META).sum())


def test_the_backend_is_chosen_by_device_and_dtype() -> None:
    here, half, there = torch.zeros(1), torch.zeros(1, dtype=torch.bfloat16), torch.zeros(1, device=META)
    assert chosen_backend(here) == "numba"
    assert chosen_backend(half) == "reference"
    assert chosen_backend(there) == "triton"
    with backend("reference"):
        assert chosen_backend(here) == chosen_backend(there) == "reference"


def test_a_backend_says_why_it_does_not_apply(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    assert obstacle("triton", torch.zeros(1, device=META)) is None
    assert obstacle("triton", torch.zeros(1)) == "needs a CUDA device, got cpu"
    integers = torch.zeros(1, dtype=torch.int64, device=META)
    assert obstacle("triton", integers) == "needs float16, bfloat16, float32 or float64, got torch.int64"
    assert obstacle("numba", torch.zeros(1, device=META)) == (
        "needs numba and float32 or float64 on the CPU, got torch.float32 on meta"
    )
    monkeypatch.setattr(sys.modules["pcfgnat.structures.backend"], "_has_triton", False)
    assert (
        obstacle("triton", torch.zeros(1, device=META)) == "needs the package triton, which is not installed"
    )
    small = RHPCFG(RuleScores.zeros(SupportTree(3, 0), 1, 2), torch.tensor([3]))
    with (
        backend("triton"),
        pytest.raises(RuntimeError, match="the triton backend needs a CUDA device, got cpu"),
    ):
        small.log_prob(Padded.from_lists([[0, 1]]))
