"""The cheapest monotone alignment against all of them."""

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from pcfgnat.structures import backend
from pcfgnat.structures.aligned import best_alignment
from tests.support.aligned import cheapest_path, paths

SIZES = [(1, 1), (3, 3), (4, 3), (2, 4), (4, 1), (1, 4), (3, 0)]  # slots, tokens


def scores(slots: int, tokens: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    found = torch.randn(slots, tokens + 1, generator=generator, dtype=torch.float64).log_softmax(1) * 2
    return found[:, 1:], found[:, 0]


def aligned(of_tokens: Tensor, of_blanks: Tensor, penalty: float) -> tuple[Tensor, Tensor]:
    slots, tokens = of_tokens.shape
    found = best_alignment(
        of_tokens[None], of_blanks[None], torch.tensor([slots]), torch.tensor([tokens]), penalty
    )
    return found.tokens[0], found.blanks[0]


@pytest.mark.parametrize(("tokens", "slots", "count"), [(3, 3, 63), (4, 4, 321)])
def test_all_paths_are_enumerated(tokens: int, slots: int, count: int) -> None:
    assert sum(1 for _ in paths(tokens, slots)) == count


either_backend = pytest.mark.parametrize("name", ["numba", "reference"])


@either_backend
@pytest.mark.parametrize("penalty", [1.0, 1.5, 5.0])
@pytest.mark.parametrize(("slots", "tokens"), SIZES)
@pytest.mark.parametrize("seed", range(3))
def test_is_the_best_path_in_value_and_gradient(
    slots: int, tokens: int, penalty: float, seed: int, name: str
) -> None:
    leaves = [part.clone().requires_grad_() for part in scores(slots, tokens, seed)]
    exact = cheapest_path(leaves[0], leaves[1], penalty)
    gradients = torch.autograd.grad(exact, leaves, materialize_grads=True)
    of_tokens, of_blanks = scores(slots, tokens, seed)
    with backend(name):
        path = aligned(of_tokens, of_blanks, penalty)
    assert_close(-(path[0] * of_tokens).sum() - (path[1] * of_blanks).sum(), exact.detach())
    assert_close(path, (-gradients[0], -gradients[1]))


@either_backend
def test_batches_are_ragged_and_padding_is_never_looked_at(name: str) -> None:
    of_tokens, of_blanks = torch.full((len(SIZES), 6, 5), torch.nan), torch.full((len(SIZES), 6), torch.nan)
    of_tokens, of_blanks = of_tokens.double(), of_blanks.double()
    for index, (slots, tokens) in enumerate(SIZES):
        own = scores(slots, tokens, seed=index)
        of_tokens[index, :slots, :tokens], of_blanks[index, :slots] = own
    counts, lengths = (torch.tensor(column) for column in zip(*SIZES, strict=True))
    with backend(name):
        together = best_alignment(of_tokens, of_blanks, counts, lengths, 2.0)
    for index, (m, n) in enumerate(SIZES):
        path = aligned(of_tokens[index, :m, :n], of_blanks[index, :m], 2.0)
        assert_close(together.tokens[index, :m, :n], path[0])
        assert_close(together.blanks[index, :m], path[1])
    assert_close(together.tokens.sum((1, 2)) > 0, lengths > 0)
    assert not bool(together.tokens.isnan().any() | together.blanks.isnan().any())


@pytest.mark.parametrize(("slots", "tokens"), [(12, 9), (9, 12), (20, 20)])
def test_the_kernel_finds_the_paths_of_the_reference(slots: int, tokens: int) -> None:
    rows = [scores(slots, tokens, seed) for seed in range(4)]
    of_tokens, of_blanks = (torch.stack(parts).float() for parts in zip(*rows, strict=True))
    counts, lengths = torch.tensor([slots] * 3 + [1]), torch.tensor([tokens] * 3 + [tokens - 2])
    found = []
    for name in ("numba", "reference"):
        with backend(name):
            found.append(best_alignment(of_tokens, of_blanks, counts, lengths, 1.5))
    assert_close(found[0].tokens, found[1].tokens)
    assert_close(found[0].blanks, found[1].blanks)
    assert found[0].tokens.dtype == torch.float32


@either_backend
def test_what_is_impossible_is_avoided(name: str) -> None:
    of_tokens = torch.tensor([[-torch.inf, -1.0], [-1.0, -torch.inf], [-torch.inf, -1.0]])
    of_blanks = torch.tensor([-0.5, -torch.inf, -9.0])
    with backend(name):
        path = aligned(of_tokens, of_blanks, 2.0)
    assert path[0].tolist() == [[0, 0], [1, 0], [0, 1]]
    assert path[1].tolist() == [1, 0, 0]


@either_backend
def test_of_equal_paths_the_one_that_emits_is_taken(name: str) -> None:
    with backend(name):
        path = aligned(torch.full((2, 2), -1.0), torch.full((2,), -1.0), 1.0)
    assert path[0].tolist() == [[1, 0], [0, 1]]
    assert path[1].tolist() == [0, 0]
