"""Mixed distributions against a loop over rows."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from pcfgnat.nn import LinkConfig, Links

WIDTH, POSITIONS = 8, 10
CONFIGS = [
    LinkConfig(heads=2),
    LinkConfig(heads=4, positions=False),
    LinkConfig(heads=2, gate=False),
    LinkConfig(heads=2, scale=False),
    LinkConfig(heads=1),
    LinkConfig(heads=1, positions=False, gate=False, scale=False),
]


def made(config: LinkConfig, roles: int = 2) -> Links:
    torch.manual_seed(0)
    return Links(config, WIDTH, POSITIONS, roles).double()


def problem(links: Links, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Scores [2, H, 5, 7], what is legal (in one row nothing, in one a single entry), features of parents."""
    generator = torch.Generator().manual_seed(seed)
    scores = 3 * torch.randn(2, links.heads, 5, 7, generator=generator, dtype=torch.float64)
    legal = torch.rand(2, 5, 7, generator=generator) < 0.6
    legal[:, 2], legal[0, 4], legal[1, 3] = False, False, True
    legal[0, 4, 6] = True
    states = torch.randn(2, 5, WIDTH, generator=generator, dtype=torch.float64)
    return scores.requires_grad_(), legal, links.features(states).detach().requires_grad_()


def brute_force(links: Links, scores: Tensor, legal: Tensor, parents: Tensor) -> list[list[list[float]]]:
    """log Σ_h gate_h softmax_h over what is legal, number by number."""
    batch, heads, rows, columns = scores.shape
    found = [[[-math.inf] * columns for _ in range(rows)] for _ in range(batch)]
    for b in range(batch):
        for row in range(rows):
            gate = [1 / heads] * heads
            if links.gate is not None:
                votes = [math.exp(vote) for vote in links.gate(parents[b, row]).tolist()]
                gate = [vote / sum(votes) for vote in votes]
            allowed = [column for column in range(columns) if legal[b, row, column]]
            chances = dict.fromkeys(allowed, 0.0)
            for head in range(heads):
                weights = {c: math.exp(float(scores[b, head, row, c]) * links.factor) for c in allowed}
                for column in allowed:
                    chances[column] += gate[head] * weights[column] / sum(weights.values())
            for column, chance in chances.items():
                found[b][row][column] = math.log(chance)
    return found


@pytest.mark.parametrize("config", CONFIGS)
def test_mixed_equals_a_loop_over_rows(config: LinkConfig) -> None:
    links = made(config)
    scores, legal, parents = problem(links)
    with torch.no_grad():
        found = links.mixed(scores, legal, parents)
        assert_close(found, torch.tensor(brute_force(links, scores, legal, parents), dtype=torch.float64))
    assert_close(found.exp().sum(-1), legal.any(-1).double())
    shared = links.mixed(scores, legal[:1], parents)  # one mask for the whole batch
    assert_close(shared, links.mixed(scores, legal[:1].expand(2, -1, -1), parents))


@pytest.mark.parametrize("config", CONFIGS)
def test_nothing_legal_has_neither_probability_nor_gradient(config: LinkConfig) -> None:
    links = made(config)
    scores, legal, parents = problem(links)
    found = links.mixed(scores, legal, parents)
    assert bool((found[:, 2] == -math.inf).all())
    share = torch.rand(found.shape, dtype=torch.float64).masked_fill(~legal, 0.0)  # what a DP sends back
    inputs = [scores, parents, *(() if links.gate is None else links.gate.parameters())]
    gradients = torch.autograd.grad(found, inputs, share, materialize_grads=True)
    assert all(bool(gradient.isfinite().all()) for gradient in gradients)
    assert not bool(gradients[0].masked_select(~legal.unsqueeze(1)).any())
    assert bool(gradients[0].masked_select(legal.unsqueeze(1)).any())
    assert not bool(gradients[1][:, 2].any())
    assert bool(gradients[1][:, 1].any()) == (links.gate is not None)


def test_gradcheck() -> None:
    links = made(LinkConfig(heads=2))
    scores, legal, parents = problem(links)
    assert torch.autograd.gradcheck(
        lambda s, p: links.mixed(s, legal, p).masked_select(legal), (scores, parents)
    )


def test_peaked_scores_stay_exact() -> None:
    links = made(LinkConfig(heads=2, gate=False, scale=False)).float()
    scores = torch.tensor([[[[0.0, -300.0]], [[0.0, -200.0]]]])
    legal = torch.ones(1, 1, 2, dtype=torch.bool)
    found = links.mixed(scores, legal, torch.zeros(1, 1, 2 * WIDTH))
    assert_close(found, torch.tensor([[[0.0, -200 - math.log(2)]]]))


def test_switches_do_what_they_say() -> None:
    full = LinkConfig(heads=2)
    states = torch.randn(2, 5, WIDTH, dtype=torch.float64)
    with_positions, without = made(full), made(replace(full, positions=False))
    assert with_positions.positions is not None
    assert without.positions is None
    features = with_positions.features(states)
    assert_close(features[:, :, :WIDTH], states)
    assert_close(features[1, :, WIDTH:], with_positions.positions.weight[:5])
    assert torch.equal(without.features(states), states)
    assert made(replace(full, gate=False)).gate is None
    assert made(replace(full, heads=1)).gate is None  # there is nothing to choose from
    assert with_positions.factor == pytest.approx(1 / math.sqrt(WIDTH / 2))
    assert made(replace(full, scale=False)).factor == 1.0


def test_vectors_are_projections_cut_into_heads() -> None:
    links = made(LinkConfig(heads=2), roles=3)
    features = links.features(torch.randn(2, 5, WIDTH, dtype=torch.float64))
    for role in range(3):
        vectors = links.vectors(role, features)
        assert vectors.shape == (2, 2, 5, WIDTH // 2)
        whole = features @ links.project[role].weight.t()  # type: ignore[operator]
        assert_close(vectors[:, 0], whole[:, :, : WIDTH // 2])
        assert_close(vectors[:, 1], whole[:, :, WIDTH // 2 :])
    assert not torch.equal(links.vectors(0, features), links.vectors(1, features))


def test_bad_sizes_are_named() -> None:
    with pytest.raises(ValueError, match="heads must be at least 1, got 0"):
        LinkConfig(heads=0)
    with pytest.raises(ValueError, match="heads must divide the width 8, got 3"):
        Links(LinkConfig(heads=3), WIDTH, POSITIONS, 2)
    with pytest.raises(ValueError, match="a sentence must have at most 10 positions, got 11"):
        made(LinkConfig(heads=2)).features(torch.zeros(1, 11, WIDTH, dtype=torch.float64))
