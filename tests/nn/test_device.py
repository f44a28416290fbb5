"""Layers around the grammar never wait for a device: on the meta device they would fail."""

import torch
from torch.autograd import gradcheck, gradgradcheck

from pcfgnat.networks.pcfg import RuleNetwork
from pcfgnat.nn import LinkConfig
from pcfgnat.nn.emission import token_log_probs

META = torch.device("meta")


def test_tokens_and_rules_are_scored_without_a_wait() -> None:
    with META:
        states = torch.zeros(3, 18, 16, requires_grad=True)
        rules = RuleNetwork(LinkConfig(heads=2), width=16, positions=40, prefix_depth=2)
        chain, prefix = rules(states, torch.zeros(3, dtype=torch.int64))
        weight = torch.zeros(50, 16, requires_grad=True)
        types = torch.zeros(54, 7, dtype=torch.int64)
        tokens = token_log_probs(states.flatten(0, 1), weight, types)
        (chain.sum() + prefix.sum() + tokens.sum()).backward()
    assert (chain.shape, prefix.shape, tokens.shape) == ((3, 5, 4, 5), (3, 5, 2), (54, 7))
    assert states.grad is not None
    assert weight.grad is not None


def test_second_derivatives_of_token_scores() -> None:
    generator = torch.Generator().manual_seed(0)
    states, weight = (
        torch.randn(rows, 3, dtype=torch.float64, generator=generator).requires_grad_() for rows in (4, 6)
    )
    types = torch.randint(6, (4, 2), generator=generator)
    assert gradcheck(
        lambda s, w: token_log_probs(s, w, types), (states, weight), atol=1e-2
    )  # leaves rows out
    assert gradgradcheck(lambda s, w: token_log_probs(s, w, types), (states, weight))
