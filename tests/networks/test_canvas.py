"""What holds for every one-pass network, whatever it is trained by and decoded with."""

import pytest
import torch
from torch.testing import assert_close

from pcfgnat.networks import NETWORKS, Batch, CanvasIds, inference
from pcfgnat.networks.emissions import target_distribution, translation_distribution
from pcfgnat.structures import Padded
from tests.support.sentences import BOS, EOS, VOCABULARY, batch_of, one, sentences, source_of, with_garbage
from tests.support.zoo import CANVAS, SMALL, made

every_network = pytest.mark.parametrize("name", list(CANVAS))

# all can be derived, and all are shorter than their source by one
DERIVABLE = ((5, 4), (3, 2), (7, 6), (4, 3))


@pytest.mark.parametrize(
    ("name", "strategy"),
    [("pcfg", "viterbi"), ("dag", "joint-viterbi"), ("ctc", "greedy"), ("slots", "greedy")],
)
def test_are_known_by_name(name: str, strategy: str) -> None:
    build, config = NETWORKS[name]
    network = build(config(SMALL), VOCABULARY)
    assert type(network) is type(made(name))
    assert network.default_strategy == strategy
    assert (network.max_source_length, network.vocabulary) == (40, VOCABULARY)


@every_network
def test_the_target_s_own_tokens_are_enough(name: str) -> None:
    network, batch = made(name), batch_of(*DERIVABLE)
    whole = translation_distribution(network, batch.source).log_prob(network.emitted(batch.target))
    own, local = target_distribution(network, batch)
    assert bool(whole.isfinite().all())
    assert_close(own.log_prob(local), whole)
    assert not own.log_prob(local).requires_grad


@every_network
@pytest.mark.parametrize("copy_input", [False, True])
def test_padding_and_batching_change_nothing(name: str, copy_input: bool) -> None:
    network, batch = made(name, copy_input=copy_input), batch_of((7, 3), (2, 4), (5, 2), (7, 6))

    def log_prob(batch: Batch) -> torch.Tensor:
        distribution, local = target_distribution(network, batch)
        return distribution.log_prob(local)

    found = log_prob(batch)
    assert_close(log_prob(Batch(with_garbage(batch.source), with_garbage(batch.target))), found)
    assert_close(torch.cat([log_prob(one(batch, index)) for index in range(4)]), found)


@every_network
def test_padding_of_sources_changes_no_translation(name: str) -> None:
    network, source = made(name, copy_input=True), source_of(7, 2, 5)
    target = network.emitted(Padded.from_lists(sentences(6, 2, 4, seed=1)))
    clean = translation_distribution(network, source).log_prob(target)
    padded = translation_distribution(network, with_garbage(source)).log_prob(target)
    assert_close(padded, clean)


@every_network
def test_copies_of_the_source_are_a_switch(name: str) -> None:
    plain, copying, batch = made(name), made(name, copy_input=True), batch_of(*DERIVABLE)

    def log_prob(network_name: str) -> torch.Tensor:
        distribution, local = target_distribution({"plain": plain, "copying": copying}[network_name], batch)
        return distribution.log_prob(local)

    missing, unexpected = copying.load_state_dict(plain.state_dict(), strict=False)
    assert (missing, unexpected) == (["copy.weight", "copy.bias"], [])
    assert copying.copy is not None
    assert not torch.allclose(log_prob("copying"), log_prob("plain"))
    for weight in copying.copy.parameters():
        weight.data.zero_()
    assert_close(log_prob("copying"), log_prob("plain"))


def test_an_empty_canvas_has_bos_and_eos_at_its_ends() -> None:
    canvas = CanvasIds.blank(torch.tensor([5, 2, 3]))
    assert canvas.ids[0].tolist() == [BOS, 1, 1, 1, EOS]
    assert canvas.ids[1, :2].tolist() == [BOS, EOS]
    assert canvas.ids[2, :3].tolist() == [BOS, 1, EOS]
    assert canvas.mask.sum(1).tolist() == [5, 2, 3]


@every_network
def test_what_a_canvas_shows_is_what_the_decoder_reads(name: str) -> None:
    network, source = made(name), source_of(5)
    with inference(network):
        memory = network.encode(source)
        blank = CanvasIds.blank(network.canvas_lengths(memory, None))
        assert torch.equal(network.fill(memory, blank).states, network.fill(memory, blank).states)
        shown = CanvasIds(blank.ids.clone(), blank.lengths)
        shown.ids[0, 2] = 7
        assert not torch.equal(network.fill(memory, shown).states, network.fill(memory, blank).states)


def test_inference_leaves_training_as_it_was() -> None:
    network = made("pcfg").train()
    with inference(network):
        assert not network.training
        assert not torch.is_grad_enabled()
    assert network.training
    assert network.decoder.training
    with pytest.raises(ZeroDivisionError), inference(network):
        raise ZeroDivisionError
    assert network.training
    with inference(network.eval()):
        pass
    assert not network.training


@every_network
def test_bad_input_is_named(name: str) -> None:
    network, source = made(name), source_of(4)
    with pytest.raises(ValueError, match="a sentence must have at most 40 positions, got 41"):
        network.encode(source_of(41))
    assert len(network.encode(source_of(40)).lengths) == 1
    with pytest.raises(ValueError, match=r"lengths of the source must be in 1 … 4, got \[4, 0\]"):
        network.encode(Padded.from_lists([*source.to_lists(), []]))
    with pytest.raises(ValueError, match="ids must be in 0 … 11, got 2 … 12"):
        network.encode(Padded.from_lists([[BOS, 12, EOS]]))
    with pytest.raises(ValueError, match="ids must be in 0 … 11, got -1 … 3"):
        target_distribution(network, Batch(source, Padded.from_lists([[BOS, -1, EOS]])))
