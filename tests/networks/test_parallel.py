"""What holds for every one-pass model."""

import math
from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

from pcfgnat.networks import NETWORKS, SPECIAL_TOKENS, Batch, CanvasNetwork
from pcfgnat.objectives import Glancing
from pcfgnat.networks.canvas import Memory, _opposite
from pcfgnat.structures import Hypothesis, Padded, Search, SpecialTokens, backend
from tests.networks.parallel_models import BUILDERS, BY_LENGTH, SEARCHES, SMALL, STRATEGIES, UNDROPPED, made
from tests.networks.sentences import (
    BOS,
    EOS,
    VOCABULARY,
    batch_of,
    ids,
    one,
    scores,
    sentences,
    with_garbage,
)

every_model = pytest.mark.parametrize("name", list(BUILDERS))
every_strategy = pytest.mark.parametrize(("name", "strategy"), STRATEGIES)
every_search = pytest.mark.parametrize(("name", "strategy"), SEARCHES)
by_length = pytest.mark.parametrize(("name", "strategy"), BY_LENGTH)

# all can be derived, and all are shorter than their source by one
DERIVABLE = ((5, 4), (3, 2), (7, 6), (4, 3))


def log_prob(model: CanvasNetwork, source: Padded, target: Padded) -> list[float]:
    """log P(Y|X) from the distribution over the whole vocabulary."""
    found: list[float] = model.translation_distribution(source).log_prob(model.emitted(target)).tolist()
    return found


def source_of(*lengths: int) -> Padded:
    return Padded.from_lists(sentences(*lengths))


@pytest.mark.parametrize("name", ["pcfg", "dag", "ctc", "vanilla"])
def test_are_known_by_name(name: str) -> None:
    build, config = NETWORKS[name]
    model = build(config(SMALL), VOCABULARY)
    assert type(model) is type(made(name))
    assert model.default_search.strategy == model.strategies[0]
    assert model.strategies[-1] == "sample"
    assert (model.loss_weight, model.max_source_length) == ("sentences", 40)


@every_model
def test_loss_is_minus_log_prob_by_length(name: str) -> None:
    model, batch = made(name), batch_of(*DERIVABLE)
    log_probs = log_prob(model, batch.source, batch.target)
    expected = [-value / length for value, (_, length) in zip(log_probs, DERIVABLE, strict=True)]
    loss = model.loss(batch, 0.0)
    assert loss.metrics["nll"] == pytest.approx(sum(expected) / 4, abs=1e-10)
    assert loss.value.item() == pytest.approx(loss.metrics["nll"] + loss.metrics.get("extra_loss", 0.0))
    assert (loss.sentences, loss.tokens, loss.skipped) == (4, 15, 0)


@every_model
@pytest.mark.parametrize("copy_input", [False, True])
def test_padding_and_batching_change_nothing(name: str, copy_input: bool) -> None:
    model, batch = made(name, copy_input=copy_input), batch_of((7, 3), (2, 4), (5, 2), (7, 6))
    loss = model.loss(batch, 0.0)
    garbage = Batch(with_garbage(batch.source), with_garbage(batch.target))
    assert_close(model.loss(garbage, 0.0).value, loss.value)
    alone = [model.loss(one(batch, index), 0.0) for index in range(4)]
    together = sum(single.value.item() for single in alone) / 4
    assert loss.value.item() == pytest.approx(together, abs=1e-10)
    assert loss.tokens == sum(single.tokens for single in alone)
    assert loss.skipped == 0


@every_model
def test_padding_changes_nothing_in_single_precision(name: str) -> None:
    model, batch = made(name).float(), batch_of((7, 3), (2, 4), (5, 2), (7, 6))
    garbage = Batch(with_garbage(batch.source), with_garbage(batch.target))
    alone = [model.loss(one(batch, index), 0.0).value.item() for index in range(4)]
    assert model.loss(garbage, 0.0).value.item() == pytest.approx(sum(alone) / 4, abs=1e-4)


@every_model
@pytest.mark.parametrize("force_emit", [False, True])
def test_every_weight_gets_a_gradient(name: str, force_emit: bool) -> None:
    glancing = replace(made(name).glancing, force_emit=force_emit)
    model = made(name, glancing=glancing, copy_input=True).train()
    model.loss(batch_of(*DERIVABLE), 0.0).value.backward()  # type: ignore[no-untyped-call]
    for key, weight in model.named_parameters():
        assert weight.grad is not None, key
        assert bool(weight.grad.isfinite().all()), key
        assert bool(weight.grad.abs().max() > 0), key


@every_model
@pytest.mark.parametrize("training", [False, True])
def test_what_cannot_be_derived_is_left_out(name: str, training: bool) -> None:
    little = Glancing(0.05, 0.05)  # of so few tokens nothing is shown, so nothing is random
    model = made(name, UNDROPPED, little).train(training)
    impossible = [[BOS], []] if name == "vanilla" else [[BOS], [], sentences(38)[0]]
    possible = sentences(5, seed=1)[0]
    targets = Padded.from_lists([possible, *impossible])
    source = source_of(*[4] * len(targets.lengths))
    batch = Batch(source, targets)
    loss, alone = model.loss(batch, 0.0), model.loss(one(batch, 0), 0.0)
    assert (loss.sentences, loss.tokens, loss.skipped) == (1, 5, len(impossible))
    assert_close(loss.value, alone.value)
    gradients = [torch.autograd.grad(found.value, list(model.parameters())) for found in (loss, alone)]
    for left, right in zip(*gradients, strict=True):
        assert_close(left, right, rtol=1e-6, atol=1e-9)


@every_model
@pytest.mark.parametrize("target", [[], [BOS]])
@pytest.mark.parametrize("training", [False, True])
def test_nothing_to_learn_from_is_a_loss_of_nothing(name: str, target: list[int], training: bool) -> None:
    model = made(name).train(training)
    loss = model.loss(Batch(source_of(4, 3), Padded.from_lists([target, target])), 0.0)
    assert (loss.value.item(), loss.sentences, loss.tokens, loss.skipped) == (0.0, 0, 0, 2)
    loss.value.backward()  # type: ignore[no-untyped-call]
    for weight in model.parameters():
        assert weight.grad is None or not bool(weight.grad.any())


@every_model
def test_what_is_not_a_number_is_not_left_out(name: str) -> None:
    model, batch = made(name), batch_of(*DERIVABLE)
    model.embeddings.target_positions.weight.data[2] = math.nan
    loss = model.loss(batch, 0.0)
    assert math.isnan(loss.value.item())
    assert loss.sentences > 0


@every_search
def test_decoding_in_a_batch_gives_what_decoding_alone_gives(name: str, strategy: str) -> None:
    model, search = made(name, copy_input=True), Search(strategy, beam_size=3)
    source = source_of(7, 2, 5, 9, 3, 4, 2)
    together = model.translate(source, search)
    alone = [model.translate(Padded.from_lists([row]), search)[0] for row in source.to_lists()]
    assert ids(together) == ids(alone)
    assert [found[0].nodes for found in together] == [found[0].nodes for found in alone]
    assert scores(together) == pytest.approx(scores(alone), abs=1e-9)
    assert ids(model.translate(with_garbage(source), search)) == ids(together)


@every_strategy
def test_translations_are_sentences(name: str, strategy: str) -> None:
    model, source = made(name), source_of(7, 2, 5, 9)
    for found in model.translate(source, Search(strategy, beam_size=3)):
        for hypothesis in found:
            assert (hypothesis.ids[0], hypothesis.ids[-1]) == (BOS, EOS)
            assert not set(hypothesis.ids[1:-1]) & set(SPECIAL_TOKENS.ids)
            assert len(hypothesis.nodes) == len(hypothesis.ids)
            if hypothesis.tree is not None:
                assert hypothesis.tree.tokens == hypothesis.ids
                assert hypothesis.score == pytest.approx(hypothesis.tree.log_prob, abs=1e-12)


@every_strategy
def test_scores_are_those_of_one_structure_at_most_all(name: str, strategy: str) -> None:
    model, source = made(name), source_of(7, 2, 5, 9)
    results = model.translate(source, Search(strategy, beam_size=1))
    found = Padded.from_lists([sentence[0].ids for sentence in results])
    totals = log_prob(model, source, found)
    posterior = model.translation_distribution(source).posterior(model.emitted(found))
    best = posterior.argmax().score.tolist()
    for score, total, highest in zip(scores(results), totals, best, strict=True):
        assert -math.inf < score <= total + 1e-9
        if strategy in ("viterbi", "joint-viterbi") and (name, strategy) != ("dag", "viterbi"):
            assert score == pytest.approx(highest, abs=1e-9)
        elif strategy != "beam":
            assert score <= highest + 1e-9
        if name == "vanilla":
            assert score == pytest.approx(total, abs=1e-9)


@by_length
def test_lengths_are_limited(name: str, strategy: str) -> None:
    model, source = made(name), source_of(7, 2, 5)
    longest = Search(strategy, length_penalty=50.0)  # score / L^β: nothing counts but the length

    def lengths(search: Search) -> list[int]:
        return [len(found[0].ids) for found in model.translate(source, search)]

    assert lengths(longest) == [14, 4, 10]
    assert lengths(replace(longest, max_length=3)) == [3, 3, 3]
    assert lengths(replace(longest, max_length=(3, 5, 18))) == [3, 5, min(18, 15 if name == "dag" else 18)]
    with pytest.raises(ValueError, match="max_length must have one limit for each of 3 sentences, got 2"):
        lengths(replace(longest, max_length=(3, 5)))
    with pytest.raises(ValueError, match="sentence 0 has no derivation of at most 1 tokens"):
        lengths(replace(longest, max_length=1))


@by_length
def test_several_results_are_the_best_of_several_lengths(name: str, strategy: str) -> None:
    model, source = made(name), source_of(7, 2, 5)
    search = Search(strategy, results=4, length_penalty=0.7)
    results = model.translate(source, search)
    assert [len(found) for found in results] == [4, 3, 4]  # four tokens at most: lengths 2, 3 and 4
    for found in results:
        values = [hypothesis.normalised_score(0.7) for hypothesis in found]
        assert values == sorted(values, reverse=True)
        assert len({len(hypothesis.ids) for hypothesis in found}) == len(found)
    assert [found[:1] for found in results] == model.translate(source, replace(search, results=1))


@every_search
def test_a_sweep_translates_under_each_penalty(name: str, strategy: str) -> None:
    model, source, penalties = made(name), source_of(7, 2, 5), [0.0, 1.0, 1.5, 50.0]
    search = Search(strategy, beam_size=2)
    swept = model.sweep(source, search, penalties)
    for index, penalty in enumerate(penalties):
        expected = model.translate(source, replace(search, length_penalty=penalty))
        assert [[sentence[index]] for sentence in swept] == expected
    if (name, strategy) in BY_LENGTH:
        assert any(len(set(sentence)) > 1 for sentence in swept)


@every_search
def test_without_kernels_translations_are_the_same(name: str, strategy: str) -> None:
    model, source, search = made(name), source_of(5, 2), Search(strategy, beam_size=2)
    native = model.translate(source, search)
    with backend("reference"):
        assert ids(model.translate(source, search)) == ids(native)


@every_model
def test_samples_are_drawn_by_torch_s_generator(name: str) -> None:
    model, source = made(name), source_of(7, 5)

    def draw(seed: int) -> list[list[Hypothesis]]:
        torch.manual_seed(seed)
        return model.translate(source, Search("sample", beam_size=20))

    assert [len(found) for found in draw(0)] == [20, 20]
    assert draw(0) == draw(0)
    assert draw(0) != draw(1)
    assert len({hypothesis for found in draw(0) for hypothesis in found}) > 2


@pytest.mark.parametrize("name", ["pcfg", "dag", "vanilla"])
def test_special_tokens_may_be_others(name: str) -> None:
    model, special = made(name), SpecialTokens(bos=8, eos=9, pad=10, unk=11)
    for strategy in model.strategies:
        for (hypothesis,) in model.translate(
            source_of(7, 5), Search(strategy, special_tokens=special, beam_size=1)
        ):
            assert (hypothesis.ids[0], hypothesis.ids[-1]) == (8, 9)
            assert not set(hypothesis.ids[1:-1]) & set(special.ids)


@every_model
def test_translating_leaves_training_as_it_was(name: str) -> None:
    model, source = made(name).train(), source_of(7, 5)
    first = model.translate(source, model.default_search)
    assert model.training
    assert model.decoder.training
    assert model.translate(source, model.default_search) == first
    assert model.eval().translate(source, model.default_search) == first
    assert not model.training


@every_model
def test_nothing_gives_nothing(name: str) -> None:
    model = made(name)
    assert model.translate(Padded.from_lists([]), model.default_search) == []
    assert model.sweep(Padded.from_lists([]), model.default_search, [1.0]) == []


@every_model
def test_copies_of_the_source_are_a_switch(name: str) -> None:
    plain, copying, batch = made(name), made(name, copy_input=True), batch_of(*DERIVABLE)
    missing, unexpected = copying.load_state_dict(plain.state_dict(), strict=False)
    assert (missing, unexpected) == (["copy.weight", "copy.bias"], [])
    assert copying.copy is not None
    assert copying.loss(batch, 0.0).value.item() != pytest.approx(plain.loss(batch, 0.0).value.item())
    for weight in copying.copy.parameters():
        weight.data.zero_()
    assert_close(copying.loss(batch, 0.0).value, plain.loss(batch, 0.0).value)


def test_nodes_are_spread_evenly_over_the_source() -> None:
    sizes, lengths = torch.tensor([3, 2, 116]), torch.tensor([14, 6, 698])
    states = torch.arange(116.0).expand(3, 116).unsqueeze(2)
    memory = Memory(states, torch.ones(3, 116, dtype=torch.bool), sizes)
    found = _opposite(memory, lengths, torch.arange(698)).squeeze(2).long().tolist()
    for row, size, length in zip(found, sizes.tolist(), lengths.tolist(), strict=True):
        assert row[:length] == [node * size // length for node in range(length)]
        assert set(row[length:]) <= {size - 1}  # padding, but never beyond the sentence


@every_model
def test_bad_input_is_named(name: str) -> None:
    model, source = made(name), source_of(4)
    search = model.default_search
    with pytest.raises(ValueError, match="a sentence must have at most 40 positions, got 41"):
        model.translate(source_of(41), search)
    assert len(model.translate(source_of(40), search)) == 1
    with pytest.raises(ValueError, match=r"lengths of the source must be in 1 … 4, got \[4, 0\]"):
        model.translate(Padded.from_lists([*source.to_lists(), []]), search)
    with pytest.raises(ValueError, match="ids must be in 0 … 11, got 2 … 12"):
        model.translate(Padded.from_lists([[BOS, 12, EOS]]), search)
    with pytest.raises(ValueError, match="ids must be in 0 … 11, got -1 … 3"):
        model.loss(Batch(source, Padded.from_lists([[BOS, -1, EOS]])), 0.0)
    known = ", ".join(model.strategies)
    with pytest.raises(ValueError, match=f"strategy must be one of {known}, got 'no such'"):
        model.translate(source, Search("no such"))
    with pytest.raises(ValueError, match=f"strategy must be one of {known}, got 'no such'"):
        model.sweep(source, Search("no such"), [1.0])
