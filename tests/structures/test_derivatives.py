"""Derivatives of any order, and torch.func, through every backend and structure."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck
from torch.testing import assert_close

from pcfgnat.structures import (
    CTC,
    DAG,
    RHPCFG,
    Padded,
    RuleScores,
    SequenceDistribution,
    SupportTree,
    backend,
)
from tests.support.grammars import random_scores
from tests.support.lattices import random_tokens, random_transitions

SIZES = torch.tensor([4, 3])
TARGET = Padded.from_lists([[0, 2, 1], [1, 2]])
LONGER = Padded.from_lists([[0, 2, 1, 1, 2], [1, 2, 2]])  # long enough for a prefix tree of depth 2

Leaves = tuple[Tensor, ...]
Case = tuple[Callable[..., SequenceDistribution], Leaves, Padded]


def pcfg(depth: int) -> tuple[Callable[..., RHPCFG], Leaves, Padded]:
    scores = random_scores(SupportTree(4, depth), SIZES.tolist(), vocabulary=3)
    leaves = (scores.chain, scores.prefix, scores.emit) if depth > 1 else (scores.chain, scores.emit)

    def build(chain: Tensor, *others: Tensor) -> RHPCFG:
        prefix = others[0] if depth > 1 else scores.prefix
        return RHPCFG(RuleScores(chain, prefix, others[-1]), SIZES)

    return build, leaves, LONGER if depth > 1 else TARGET


def dag() -> tuple[Callable[..., DAG], Leaves, Padded]:
    leaves = random_transitions(SIZES.tolist()), random_tokens(2, 4, 3)
    return lambda transitions, emit: DAG(transitions, emit, SIZES), leaves, TARGET


def ctc() -> tuple[Callable[..., CTC], Leaves, Padded]:
    return lambda log_probs: CTC(log_probs, SIZES, blank=0), (random_tokens(2, 4, 3),), TARGET


CASES: dict[str, Callable[[], Case]] = {
    "pcfg-1": lambda: pcfg(1),
    "pcfg-2": lambda: pcfg(2),
    "dag": dag,
    "ctc": ctc,
}


@pytest.fixture(params=list(CASES))
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]()


def finite(leaves: Leaves) -> Leaves:
    """Leaves that finite differences can be taken of."""
    return tuple(leaf.clamp(min=-5.0).requires_grad_() for leaf in leaves)


def test_second_derivatives_are_checked_numerically(either_backend: str, case: Case) -> None:
    build, leaves, target = case

    def log_prob(*given: Tensor) -> Tensor:
        return build(*given).log_prob(target)

    assert gradgradcheck(log_prob, finite(leaves), fast_mode=True)


def test_a_gradient_penalty_is_the_same_by_every_backend(case: Case) -> None:
    build, leaves, target = case
    found = []
    for name in ("reference", "numba"):
        with backend(name):
            given = tuple(leaf.clone().requires_grad_() for leaf in leaves)
            value = build(*given).log_prob(target).sum()
            first = torch.autograd.grad(value, given, create_graph=True)
            penalty = sum((part**2).sum() for part in first)
            assert isinstance(penalty, Tensor)
            found.append(torch.autograd.grad(penalty, given))
    for plain, fast in zip(*found, strict=True):
        assert_close(fast, plain)
        assert bool(plain.abs().max() > 1e-3)  # were it dropped, all would be 0


def test_marginals_are_differentiable(either_backend: str, case: Case) -> None:
    build, leaves, target = case

    def marginals(*given: Tensor) -> Tensor:
        return build(*given).posterior(target).marginals()

    assert gradcheck(marginals, finite(leaves), fast_mode=True)
    with torch.no_grad():
        plain = marginals(*leaves)
    assert not plain.requires_grad
    assert_close(marginals(*(leaf.clone().requires_grad_() for leaf in leaves)), plain)


def test_torch_func_grad_and_hessian(either_backend: str) -> None:
    build, leaves, target = pcfg(1)

    def loss(chain: Tensor, emit: Tensor) -> Tensor:
        return build(chain, emit).log_prob(target).sum()

    given = tuple(leaf.clone().requires_grad_() for leaf in leaves)
    expected = torch.autograd.grad(loss(*given), given)
    for found, wanted in zip(torch.func.grad(loss, (0, 1))(*leaves), expected, strict=True):
        assert_close(found, wanted)
    emit = leaves[1].clamp(min=-5.0)
    hessian = torch.func.jacrev(torch.func.jacrev(lambda some: loss(leaves[0], some)))(emit)
    functional = torch.autograd.functional.hessian  # by autograd alone
    assert_close(hessian, functional(lambda some: loss(leaves[0], some), emit))  # type: ignore[no-untyped-call]


def test_vmap_folds_into_the_batch(either_backend: str, case: Case) -> None:
    build, leaves, target = case
    many = torch.stack([leaves[-1], leaves[-1].flip(0), leaves[-1] - 1.0], 1)  # vmap's axis in the middle

    def log_prob(last: Tensor) -> Tensor:
        return build(*leaves[:-1], last).log_prob(target)

    found = torch.func.vmap(log_prob, in_dims=1)(many)
    assert_close(found, torch.stack([log_prob(some) for some in many.unbind(1)]))


def test_torch_func_of_marginals(either_backend: str, case: Case) -> None:
    build, leaves, target = case

    def marginals(last: Tensor) -> Tensor:
        return build(*leaves[:-1], last).posterior(target).marginals()

    many = torch.stack([leaves[-1], leaves[-1] - 1.0, leaves[-1].flip(0)])
    assert_close(torch.func.vmap(marginals)(many), torch.stack([marginals(some) for some in many]))
    with torch.no_grad():
        assert_close(torch.func.vmap(marginals)(many[:1])[0], marginals(many[0]))
    last = leaves[-1].clamp(min=-5.0)
    found = torch.func.grad(lambda given: (marginals(given) ** 2).sum())(last)
    given = last.clone().requires_grad_()
    (expected,) = torch.autograd.grad((marginals(given) ** 2).sum(), given)
    assert_close(found, expected)
    assert bool(expected.abs().max() > 1e-3)
