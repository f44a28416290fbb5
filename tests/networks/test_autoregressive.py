"""The Transformer's own probabilities; its loss and its decoding are tested elsewhere."""

from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

from pcfgnat.networks import NETWORKS, AutoregressiveNetwork, Batch
from pcfgnat.nn import TransformerConfig
from pcfgnat.structures import Padded
from tests.support.sentences import BOS, EOS, VOCABULARY, batch_of, one, sentences, with_garbage
from tests.support.zoo import DEEPER, autoregressive

VARIANTS = [
    DEEPER,
    replace(DEEPER, layers_encoder=12, layers_decoder=1),
    replace(DEEPER, pre_norm=False, activation="relu", share_embeddings=False),
]
BATCH = ((7, 3), (2, 8), (5, 2), (7, 6))


def test_is_known_by_name() -> None:
    build, config = NETWORKS["autoregressive"]
    network = build(config(DEEPER), VOCABULARY)
    assert isinstance(network, AutoregressiveNetwork)
    assert (network.max_source_length, network.vocabulary) == (40, VOCABULARY)
    assert network.default_strategy == "beam"


def test_log_prob_is_that_of_all_tokens_after_bos() -> None:
    network, batch = autoregressive(), batch_of((5, 4), (3, 6))
    found = network.predictions(batch)
    assert_close(found.log_probs.exp().sum(1), torch.ones(8, dtype=torch.float64))
    assert found.label.tolist() == [token for target in batch.target.to_lists() for token in target[1:]]
    picked = [row[label] for row, label in zip(found.log_probs.tolist(), found.label.tolist(), strict=True)]
    assert network.log_prob(batch).tolist() == pytest.approx([sum(picked[:3]), sum(picked[3:])])


def test_what_comes_later_is_not_read() -> None:
    network, batch = autoregressive(), batch_of((5, 7))
    first = network.predictions(batch).log_probs
    changed = Batch(batch.source, Padded(batch.target.ids.clone(), batch.target.lengths))
    changed.target.ids[0, 4:] = 11
    later = network.predictions(changed).log_probs
    assert torch.equal(first[:4], later[:4])
    assert not torch.equal(first[4:], later[4:])


@pytest.mark.parametrize("config", VARIANTS)
def test_padding_and_batching_change_nothing(config: TransformerConfig) -> None:
    network, batch = autoregressive(config), batch_of(*BATCH)
    log_probs = network.log_prob(batch)
    garbage = Batch(with_garbage(batch.source), with_garbage(batch.target))
    assert_close(network.log_prob(garbage), log_probs)
    assert_close(torch.cat([network.log_prob(one(batch, index)) for index in range(4)]), log_probs)


def test_padding_changes_nothing_in_single_precision() -> None:
    network, batch = autoregressive().float(), batch_of(*BATCH)
    garbage = Batch(with_garbage(batch.source), with_garbage(batch.target))
    assert_close(network.log_prob(garbage), network.log_prob(batch), rtol=0, atol=1e-5)
    single = torch.cat([network.log_prob(one(batch, index)) for index in range(4)])
    assert_close(single, network.log_prob(batch), rtol=0, atol=1e-5)


def test_targets_without_tokens_to_predict_have_probability_one() -> None:
    network, target = autoregressive(), sentences(5, seed=1)[0]
    batch = Batch(Padded.from_lists(sentences(4, 4, 4)), Padded.from_lists([target, [BOS], []]))
    found = network.log_prob(batch)
    assert_close(found[:1], network.log_prob(one(batch, 0)))
    assert found[1:].tolist() == [0.0, 0.0]


def test_bad_input_is_named() -> None:
    network, source = autoregressive(), Padded.from_lists(sentences(4))
    with pytest.raises(ValueError, match="a sentence must have at most 40 positions, got 41"):
        network.log_prob(Batch(source, Padded.from_lists(sentences(42))))
    with pytest.raises(ValueError, match="ids must be in 0 … 11, got -1 … 3"):
        network.log_prob(Batch(source, Padded.from_lists([[BOS, -1, EOS]])))
    with pytest.raises(ValueError, match=r"there must be as many targets as sources \(1\), got 2"):
        Batch(source, Padded.from_lists(sentences(4, 4)))
