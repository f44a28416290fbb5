"""Cross-entropy of networks that write token by token."""

from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

from pcfgnat.networks import AutoregressiveNetwork, Batch
from pcfgnat.nn import TransformerConfig
from pcfgnat.objectives import CrossEntropy, Loss
from pcfgnat.structures import Padded
from tests.support.sentences import BOS, EOS, VOCABULARY, batch_of, one, sentences, with_garbage
from tests.support.zoo import DEEPER, autoregressive

VARIANTS = [
    DEEPER,
    replace(DEEPER, layers_encoder=12, layers_decoder=1),
    replace(DEEPER, pre_norm=False, activation="relu", share_embeddings=False),
]
SMOOTHED = CrossEntropy(0.1)


def loss_of(network: AutoregressiveNetwork, batch: Batch, objective: CrossEntropy = SMOOTHED) -> Loss:
    return objective.loss(network, batch, 0.0)


def test_is_what_its_formula_says() -> None:
    network, batch = autoregressive(), batch_of((5, 4), (3, 6))
    total = nll = 0.0
    for index, target in enumerate(batch.target.to_lists()):
        for i in range(1, len(target)):
            log_probs = next_token(network, one(batch, index).source, target[:i])
            nll -= float(log_probs[target[i]])
            total -= 0.9 * float(log_probs[target[i]]) + 0.1 * float(log_probs.mean())
    loss = loss_of(network, batch)
    assert loss.value.item() == pytest.approx(total / 8)
    assert loss.metrics["nll"] == pytest.approx(nll / 8)
    assert (loss.sentences, loss.tokens, loss.skipped) == (2, 8, 0)
    assert loss_of(network, batch, CrossEntropy(0.0)).value.item() == pytest.approx(nll / 8)
    assert CrossEntropy.weight == "tokens"


def next_token(network: AutoregressiveNetwork, source: Padded, prefix: list[int]) -> torch.Tensor:
    """Log-probabilities after a prefix, from what all its continuations cost."""
    continued = Padded.from_lists([[*prefix, token] for token in range(VOCABULARY)])
    sources = Padded(source.ids.expand(VOCABULARY, -1), source.lengths.expand(VOCABULARY))
    with torch.no_grad():
        costs = network.log_prob(Batch(sources, continued))
        if len(prefix) > 1:
            costs = costs - network.log_prob(Batch(source, Padded.from_lists([prefix])))
    assert float(costs.exp().sum()) == pytest.approx(1)
    return costs


@pytest.mark.parametrize("config", VARIANTS)
def test_padding_and_batching_change_nothing(config: TransformerConfig) -> None:
    network, batch = autoregressive(config), batch_of((7, 3), (2, 8), (5, 2), (7, 6))
    loss = loss_of(network, batch)
    garbage = Batch(with_garbage(batch.source), with_garbage(batch.target))
    assert_close(loss_of(network, garbage).value, loss.value)
    alone = [loss_of(network, one(batch, index)) for index in range(4)]
    together = sum(single.value.item() * single.tokens for single in alone) / loss.tokens
    assert loss.value.item() == pytest.approx(together, abs=1e-10)
    assert loss.tokens == sum(single.tokens for single in alone)


@pytest.mark.parametrize("config", VARIANTS)
def test_every_weight_gets_a_gradient(config: TransformerConfig) -> None:
    network = autoregressive(config).train()
    loss_of(network, batch_of((5, 4), (3, 6))).value.backward()  # type: ignore[no-untyped-call]
    for name, weight in network.named_parameters():
        assert weight.grad is not None, name
        assert bool(weight.grad.isfinite().all()), name
        assert bool(weight.grad.abs().max() > 0), name


def test_targets_without_tokens_to_predict_are_left_out() -> None:
    network = autoregressive()
    source, target = sentences(4, 4, 4), sentences(5, seed=1)
    batch = Batch(Padded.from_lists(source), Padded.from_lists([target[0], [BOS], []]))
    loss, alone = loss_of(network, batch), loss_of(network, one(batch, 0))
    assert (loss.sentences, loss.tokens, loss.skipped) == (1, 4, 2)
    assert_close(loss.value, alone.value)
    nothing = loss_of(network, Batch(Padded.from_lists(source[:1]), Padded.from_lists([[BOS]])))
    assert (nothing.sentences, nothing.tokens, nothing.skipped, nothing.metrics) == (0, 0, 1, {"nll": 0.0})
    nothing.value.backward()  # type: ignore[no-untyped-call]
    assert nothing.value.item() == 0


def test_bad_input_is_named() -> None:
    network, source = autoregressive(), Padded.from_lists(sentences(4))
    with pytest.raises(ValueError, match="a sentence must have at most 40 positions, got 41"):
        loss_of(network, Batch(source, Padded.from_lists(sentences(42))))
    with pytest.raises(ValueError, match="ids must be in 0 … 11, got -1 … 3"):
        loss_of(network, Batch(source, Padded.from_lists([[BOS, -1, EOS]])))


@pytest.mark.parametrize("smoothing", [1.0, -0.1])
def test_smoothing_is_a_share(smoothing: float) -> None:
    message = f"label_smoothing must be at least 0 and less than 1, got {smoothing}"
    with pytest.raises(ValueError, match=message):
        CrossEntropy(smoothing)
