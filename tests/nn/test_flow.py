"""Flows: inverses, and determinants by the Jacobian of autograd, with padding and squeezing."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from pcfgnat.nn import TransformerConfig, initialise
from pcfgnat.nn.flow import (
    ActNorm,
    Chain,
    Coupling,
    Flow,
    FlowConfig,
    FlowPrior,
    Given,
    InvertibleLinear,
    squeezed,
    unsqueezed,
)

WIDTH = 4
SMALL = TransformerConfig(
    layers_encoder=1, layers_decoder=1, width=WIDTH, ffn=6, heads=2, dropout=0.0, max_positions=20
)
LENGTHS = (8, 4)
FLOWS: dict[str, Callable[[], Flow]] = {
    "actnorm": lambda: ActNorm(WIDTH),
    "contiguous linear": lambda: InvertibleLinear(WIDTH, 2, strided=False),
    "strided linear": lambda: InvertibleLinear(WIDTH, 2, strided=True),
    "halves": lambda: Coupling(SMALL, "halves", swapped=False),
    "swapped halves": lambda: Coupling(SMALL, "halves", swapped=True),
    "features": lambda: Coupling(SMALL, "features", swapped=False),
    "swapped features": lambda: Coupling(replace(SMALL, pre_norm=False), "features", swapped=True),
    "time": lambda: Coupling(SMALL, "time", swapped=False),
    "swapped time": lambda: Coupling(SMALL, "time", swapped=True),
    "chain": lambda: Chain(
        [ActNorm(WIDTH), InvertibleLinear(WIDTH, 2, True), Coupling(SMALL, "time", False)]
    ),
}


def opinionated(module: nn.Module) -> nn.Module:
    """Weights that are far from the identity."""
    torch.manual_seed(0)
    initialise(module, SMALL)
    module.double().eval()
    for weight in module.parameters():
        weight.data += 0.3 * torch.randn_like(weight)
    return module


def given(*lengths: int) -> Given:
    generator = torch.Generator().manual_seed(1)
    memory = torch.randn(len(lengths), 3, WIDTH, dtype=torch.float64, generator=generator)
    mask = torch.arange(max(lengths)) < torch.tensor(lengths).unsqueeze(1)
    memory_mask = torch.ones(len(lengths), 3, dtype=torch.bool)
    memory_mask[-1, 2:] = False
    return Given(mask, memory, memory_mask)


def alone(batch: Given, index: int, length: int, source: int) -> Given:
    chosen = slice(index, index + 1)
    return Given(
        batch.mask[chosen, :length], batch.memory[chosen, :source], batch.memory_mask[chosen, :source]
    )


def latents(*lengths: int, seed: int = 2) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    z = torch.randn(len(lengths), max(lengths), WIDTH, dtype=torch.float64, generator=generator)
    return given(*lengths).kept(z)


def jacobian_log_det(function: Callable[[Tensor], Tensor], z: Tensor) -> Tensor:
    """Of one sentence without padding, `[n, d]`."""
    jacobian = torch.autograd.functional.jacobian(function, z)  # type: ignore[no-untyped-call]
    log_det: Tensor = torch.linalg.slogdet(jacobian.reshape(z.numel(), z.numel())).logabsdet
    return log_det


@pytest.mark.parametrize("name", FLOWS)
def test_a_flow_is_undone_and_its_determinant_is_that_of_the_jacobian(name: str) -> None:
    flow, told, z = opinionated(FLOWS[name]()), given(*LENGTHS), latents(*LENGTHS)
    assert isinstance(flow, Flow)
    mapped, log_det = flow(z, told)
    assert not torch.allclose(mapped, z)
    assert_close(flow.inverse(mapped, told), z)
    assert not mapped[1, 4:].any()
    for index, (length, source) in enumerate(zip(LENGTHS, (3, 2), strict=True)):
        own = alone(told, index, length, source)
        assert_close(flow(z[index : index + 1, :length], own)[0][0], mapped[index, :length])
        expected = jacobian_log_det(lambda x: flow(x[None], own)[0][0], z[index, :length])  # noqa: B023
        assert_close(log_det[index], expected)
        back = jacobian_log_det(lambda x: flow.inverse(x[None], own)[0], mapped[index, :length])  # noqa: B023
        assert_close(log_det[index], -back)


def made_prior(*steps: int) -> FlowPrior:
    prior = opinionated(FlowPrior(FlowConfig(steps, ffn=6, heads=2), SMALL))
    assert isinstance(prior, FlowPrior)
    return prior


@pytest.mark.parametrize("steps", [(1,), (1, 1), (1, 1, 1)])
def test_the_prior_is_undone_and_its_determinant_is_that_of_the_jacobian(steps: tuple[int, ...]) -> None:
    prior, told, z = made_prior(*steps), given(*LENGTHS), latents(*LENGTHS)
    noise, log_det = prior(z, told)
    assert len(noise) == len(steps)
    assert sum(part[0].numel() for part in noise) == z[0].numel()
    assert_close(prior.inverse(noise, told), z, rtol=1e-6, atol=1e-6)
    for index, (length, source) in enumerate(zip(LENGTHS, (3, 2), strict=True)):
        own = alone(told, index, length, source)

        def flat(x: Tensor, own: Given = own) -> Tensor:
            return torch.cat([part.flatten() for part in prior(x[None], own)[0]])

        assert_close(log_det[index], jacobian_log_det(flat, z[index, :length]), rtol=1e-6, atol=1e-6)


def test_the_density_is_that_of_the_noise_and_padding_counts_in_nothing() -> None:
    prior, told, z = made_prior(1, 1), given(*LENGTHS), latents(*LENGTHS)
    found = prior.log_prob(z, told)
    for index, (length, source) in enumerate(zip(LENGTHS, (3, 2), strict=True)):
        own = alone(told, index, length, source)
        parts, log_det = prior(z[index : index + 1, :length], own)
        normal = torch.distributions.Normal(torch.zeros((), dtype=torch.float64), 1.0)
        densities = [normal.log_prob(part).sum() for part in parts]  # type: ignore[no-untyped-call]
        expected = torch.stack(densities).sum() + log_det[0]
        assert_close(found[index], expected)
    rubbish = torch.where(told.mask.unsqueeze(2), z, 1e6)
    assert_close(prior.log_prob(rubbish, told), found)


def test_a_fresh_prior_keeps_what_is_standardised() -> None:
    torch.manual_seed(0)
    prior = FlowPrior(FlowConfig((2, 2), ffn=6, heads=2), SMALL)
    initialise(prior, SMALL)
    prior.begin()
    told, z = given(8, 4), latents(8, 4).float()
    told = Given(told.mask, told.memory.float(), told.memory_mask)
    noise, log_det = prior(z, told)
    assert_close(log_det, torch.zeros(2), rtol=0.0, atol=1e-4)
    squares = torch.stack([part.square().flatten(1).sum(1) for part in noise]).sum(0)
    assert_close(squares, z.square().flatten(1).sum(1), rtol=1e-4, atol=1e-4)


def test_noise_is_arranged_as_it_leaves() -> None:
    prior = made_prior(1, 1, 1)
    parts = prior.arranged(latents(8, 8))
    assert [tuple(part.shape) for part in parts] == [(2, 8, 2), (2, 4, 2), (2, 2, 4)]
    assert sorted(torch.cat([part.flatten() for part in parts]).tolist()) == sorted(
        latents(8, 8).flatten().tolist()
    )


def test_squeezing_joins_pairs_of_positions() -> None:
    z = latents(4)
    pairs, left = squeezed(z)
    assert torch.equal(pairs[0, 1], torch.cat([z[0, 2, :2], z[0, 3, :2]]))
    assert torch.equal(left, z[:, :, 2:])
    assert torch.equal(unsqueezed(pairs, left), z)


def test_bad_sizes_are_named() -> None:
    with pytest.raises(ValueError, match=r"steps must be positive numbers, one for each level, got \(4, 0\)"):
        FlowConfig((4, 0))
    with pytest.raises(ValueError, match="heads must be at least 1, got 0"):
        FlowConfig(heads=0)
    with pytest.raises(ValueError, match=r"width must be a multiple of twice flow.heads = 4, got 4"):
        FlowPrior(FlowConfig(heads=4), SMALL)
