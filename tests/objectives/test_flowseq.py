"""FlowSeq: the bound from its parts, when they count, and what is left out."""

import math

import pytest
import torch
from torch.distributions import Normal
from torch.testing import assert_close

from pcfgnat.grammar.canvas import SAME_LENGTH
from pcfgnat.networks import Batch, FlowSeqConfig, FlowSeqNetwork
from pcfgnat.objectives import FlowSeq, Loss, ObjectiveError
from pcfgnat.objectives.flowseq import normal_noise
from pcfgnat.structures import Padded
from tests.support.sentences import BOS, EOS, batch_of, one, source_of, with_garbage
from tests.support.zoo import flowseq, made


def seeded(batch: Batch) -> Batch:
    return Batch(batch.source, batch.target, 7919 * torch.arange(1, len(batch.target.lengths) + 1))


def loss_of(network: FlowSeqNetwork, batch: Batch, progress: float = 1.0, smoothing: float = 0.1) -> Loss:
    return FlowSeq(smoothing, reconstruction=0.2, annealing=0.4).loss(network, batch, progress)


def by_hand(network: FlowSeqNetwork, batch: Batch, progress: float, smoothing: float) -> torch.Tensor:
    """One sentence after the other, with the densities of torch and the whole softmax."""
    weight = {0.0: 0.0, 0.4: 0.5, 1.0: 1.0}[progress]
    total = []
    for index, target in enumerate(batch.target.to_lists()):
        single = one(batch, index)
        assert single.seeds is not None
        memory = network.encode(single.source)
        ids = [*target[1:], *[EOS] * (len(target) % 2 == 0)]  # an even number
        filled = Padded.from_lists([ids])
        found = network.inferred(memory, filled)
        noise = normal_noise(single.seeds, len(ids), found.mean.shape[2]) * (progress >= 0.2)
        z = found.mean + found.log_deviation.exp() * noise
        log_q = Normal(found.mean, found.log_deviation.exp()).log_prob(z).sum()  # type: ignore[no-untyped-call]
        parts, log_det = network.prior(z, network.given(memory, filled.mask))
        standard = Normal(torch.zeros((), dtype=z.dtype), 1.0)
        densities = [standard.log_prob(part).sum() for part in parts]  # type: ignore[no-untyped-call]
        log_p = torch.stack(densities).sum() + log_det.sum()
        log_probs = network.token_log_probs(network.written(memory, z, filled.mask))[0]
        own = log_probs[torch.arange(len(ids)), torch.tensor(ids)]
        costs = -(1 - smoothing) * own - smoothing * log_probs.mean(1)
        label = len(ids) - int(memory.lengths) + SAME_LENGTH
        length = -network.length_scores(memory).log_softmax(1)[0, label]
        total.append(costs.sum() + weight * (log_q - log_p) + length)
    return torch.stack(total).mean()


@pytest.mark.parametrize("progress", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_bound_is_the_sum_of_its_parts(progress: float, smoothing: float) -> None:
    network, batch = flowseq(), seeded(batch_of((5, 4), (3, 7), (6, 3)))
    loss = loss_of(network, batch, progress, smoothing)
    expected = by_hand(network, batch, progress, smoothing)
    assert_close(loss.value, expected, rtol=1e-5, atol=1e-4)
    assert (loss.sentences, loss.tokens, loss.skipped) == (3, 14, 0)
    weights = [network.moments.weight, network.reader.query.weight, network.embeddings.tokens.weight]
    gradients = (torch.autograd.grad(value, weights) for value in (loss.value, expected))
    for left, right in zip(*gradients, strict=True):
        assert_close(left, right, rtol=1e-2, atol=1e-2)


def test_padding_and_batching_change_nothing() -> None:
    network, batch = flowseq(), seeded(batch_of((7, 3), (2, 4), (5, 2), (7, 8)))
    loss = loss_of(network, batch)
    garbage = Batch(with_garbage(batch.source), with_garbage(batch.target), batch.seeds)
    assert_close(loss_of(network, garbage).value, loss.value)
    alone = [loss_of(network, one(batch, index)) for index in range(4)]
    together = sum(single.value.item() * single.sentences for single in alone) / 3
    assert loss.value.item() == pytest.approx(together, rel=1e-6)
    assert (loss.sentences, loss.tokens, loss.skipped) == (3, 15, 1)


def test_targets_are_filled_up_with_eos() -> None:
    network = flowseq()
    filled = network.filled(Padded.from_lists([[BOS, 5, 6, 7, EOS], [BOS, 5, 6, EOS], [BOS, EOS], [BOS], []]))
    assert filled.to_lists() == [[5, 6, 7, EOS], [5, 6, EOS, EOS], *[[EOS, EOS]] * 3]


def test_lengths_that_do_not_exist_have_no_probability() -> None:
    network = flowseq()
    scores = network.length_scores(network.encode(source_of(5, 4)))
    lengths = torch.tensor([[5], [4]]) + torch.arange(256) - SAME_LENGTH
    ends = torch.tensor([index in (0, 255) for index in range(256)])
    assert torch.equal(scores.isfinite(), (lengths % 2 == 0) | ends)
    far = loss_of(network, seeded(batch_of((40, 3), (3, 160))))
    assert math.isfinite(far.value.item())


def test_every_weight_gets_a_gradient() -> None:
    network = flowseq().train()
    loss_of(network, seeded(batch_of((5, 4), (3, 7)))).value.backward()  # type: ignore[no-untyped-call]
    for key, weight in network.named_parameters():
        assert weight.grad is not None, key
        assert bool(weight.grad.isfinite().all()), key
        assert bool(weight.grad.abs().max() > 0), key


def test_noise_is_standard_normal_and_follows_from_the_seed() -> None:
    drawn = normal_noise(torch.arange(200), 8, 16)
    assert float(drawn.mean()) == pytest.approx(0.0, abs=0.02)
    assert float(drawn.std()) == pytest.approx(1.0, abs=0.02)
    assert_close(normal_noise(torch.tensor([7]), 4, 16)[0], drawn[7, :4])
    assert bool(drawn.isfinite().all())


def test_the_weight_of_the_divergence_rises() -> None:
    objective = FlowSeq(reconstruction=0.2, annealing=0.4)
    found = [objective.divergence_weight(progress) for progress in (0.0, 0.19, 0.2, 0.4, 0.6, 1.0)]
    assert found == pytest.approx([0.0, 0.0, 0.0, 0.5, 1.0, 1.0])
    assert FlowSeq(reconstruction=0.0, annealing=0.0).divergence_weight(0.0) == 1.0


def test_nothing_to_learn_from_is_a_loss_of_nothing() -> None:
    loss = loss_of(flowseq(), Batch(source_of(4, 3, 3), Padded.from_lists([[], [BOS], [BOS, EOS]])))
    assert (loss.value.item(), loss.sentences, loss.tokens, loss.skipped) == (0.0, 0, 0, 3)


def test_bad_settings_and_other_networks_are_named() -> None:
    with pytest.raises(ValueError, match=r"annealing must be in 0 … 1, got 1\.5"):
        FlowSeq(annealing=1.5)
    with pytest.raises(ValueError, match="label_smoothing must be at least 0 and less than 1, got nan"):
        FlowSeq(label_smoothing=math.nan)
    with pytest.raises(ValueError, match="layers_posterior must be at least 1, got 0"):
        FlowSeqConfig(layers_posterior=0)
    with pytest.raises(ValueError, match=r"word_dropout must be at least 0 and less than 1, got 1\.0"):
        FlowSeqConfig(word_dropout=1.0)
    with pytest.raises(ObjectiveError, match="flowseq trains networks of kind flowseq, got SlotsNetwork"):
        FlowSeq().check(made("slots"))
