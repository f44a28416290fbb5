import itertools
from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

from pcfgnat.networks import NETWORKS, SPECIAL_TOKENS, AutoregressiveNetwork, AutoregressiveConfig, Batch
from pcfgnat.nn import TransformerConfig
from pcfgnat.structures import Hypothesis, Padded, Search, SpecialTokens
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
from tests.networks.toy_tasks import COPY, REVERSE, ToyTask, Training, exact_match, train

SMALL = TransformerConfig(
    layers_encoder=2, layers_decoder=2, width=16, ffn=24, heads=2, dropout=0.1, max_positions=40
)
VARIANTS = [
    SMALL,
    replace(SMALL, layers_encoder=12, layers_decoder=1),
    replace(SMALL, pre_norm=False, activation="relu", share_embeddings=False),
]


def made(config: TransformerConfig = SMALL, vocabulary: int = VOCABULARY, seed: int = 0) -> AutoregressiveNetwork:
    """A model of random weights, large enough to have opinions."""
    torch.manual_seed(seed)
    model = AutoregressiveNetwork(AutoregressiveConfig(config), vocabulary).double().eval()
    for weight in model.parameters():
        weight.data *= 1.5
    return model


def test_is_known_by_name() -> None:
    build, config = NETWORKS["autoregressive"]
    assert isinstance(build(config(SMALL), VOCABULARY), AutoregressiveNetwork)


def test_loss_is_what_its_formula_says() -> None:
    model, batch = made(), batch_of((5, 4), (3, 6))
    total = nll = 0.0
    for index, target in enumerate(batch.target.to_lists()):
        for i in range(1, len(target)):
            log_probs = next_token(model, one(batch, index).source, target[:i])
            nll -= float(log_probs[target[i]])
            total -= 0.9 * float(log_probs[target[i]]) + 0.1 * float(log_probs.mean())
    loss = model.loss(batch, 0.0)
    assert loss.value.item() == pytest.approx(total / 8)
    assert loss.metrics["nll"] == pytest.approx(nll / 8)
    assert (loss.sentences, loss.tokens, loss.skipped) == (2, 8, 0)
    plain = AutoregressiveNetwork(AutoregressiveConfig(SMALL, label_smoothing=0.0), VOCABULARY).double().eval()
    plain.load_state_dict(model.state_dict())
    assert plain.loss(batch, 0.0).value.item() == pytest.approx(nll / 8)


def next_token(model: AutoregressiveNetwork, source: Padded, prefix: list[int]) -> torch.Tensor:
    """Log-probabilities after a prefix, from what all its continuations cost."""
    continued = Padded.from_lists([[*prefix, token] for token in range(VOCABULARY)])
    sources = Padded(source.ids.expand(VOCABULARY, -1), source.lengths.expand(VOCABULARY))
    with torch.no_grad():
        costs = model.log_prob(Batch(sources, continued))
        if len(prefix) > 1:
            costs = costs - model.log_prob(Batch(source, Padded.from_lists([prefix])))
    assert float(costs.exp().sum()) == pytest.approx(1)
    return costs


@pytest.mark.parametrize("config", VARIANTS)
def test_padding_and_batching_change_nothing(config: TransformerConfig) -> None:
    model, batch = made(config), batch_of((7, 3), (2, 8), (5, 2), (7, 6))
    loss, log_probs = model.loss(batch, 0.0), model.log_prob(batch)
    garbage = Batch(with_garbage(batch.source), with_garbage(batch.target))
    assert_close(model.loss(garbage, 0.0).value, loss.value)
    alone = [model.loss(one(batch, index), 0.0) for index in range(4)]
    together = sum(single.value.item() * single.tokens for single in alone) / loss.tokens
    assert loss.value.item() == pytest.approx(together, abs=1e-10)
    assert_close(torch.cat([model.log_prob(one(batch, index)) for index in range(4)]), log_probs)
    assert loss.tokens == sum(single.tokens for single in alone)


def test_padding_changes_nothing_in_single_precision() -> None:
    model, batch = made().float(), batch_of((7, 3), (2, 8), (5, 2), (7, 6))
    garbage = Batch(with_garbage(batch.source), with_garbage(batch.target))
    assert_close(model.log_prob(garbage), model.log_prob(batch), rtol=0, atol=1e-5)
    single = torch.cat([model.log_prob(one(batch, index)) for index in range(4)])
    assert_close(single, model.log_prob(batch), rtol=0, atol=1e-5)


@pytest.mark.parametrize("config", VARIANTS)
def test_every_weight_gets_a_gradient(config: TransformerConfig) -> None:
    model = made(config).train()
    model.loss(batch_of((5, 4), (3, 6)), 0.0).value.backward()  # type: ignore[no-untyped-call]
    for name, weight in model.named_parameters():
        assert weight.grad is not None, name
        assert bool(weight.grad.isfinite().all()), name
        assert bool(weight.grad.abs().max() > 0), name


def test_targets_without_tokens_to_predict_are_left_out() -> None:
    model = made()
    source, target = sentences(4, 4, 4), sentences(5, 2, 2, seed=1)
    batch = Batch(Padded.from_lists(source), Padded.from_lists([target[0], [BOS], []]))
    loss, alone = model.loss(batch, 0.0), model.loss(one(batch, 0), 0.0)
    assert (loss.sentences, loss.tokens, loss.skipped) == (1, 4, 2)
    assert_close(loss.value, alone.value)
    nothing = model.loss(Batch(Padded.from_lists(source[:1]), Padded.from_lists([[BOS]])), 0.0)
    assert (nothing.sentences, nothing.tokens, nothing.skipped, nothing.metrics) == (0, 0, 1, {})
    nothing.value.backward()  # type: ignore[no-untyped-call]
    assert nothing.value.item() == 0


@pytest.mark.parametrize("config", VARIANTS)
@pytest.mark.parametrize("strategy", ["greedy", "beam"])
def test_decoding_in_a_batch_gives_what_decoding_alone_gives(
    config: TransformerConfig, strategy: str
) -> None:
    model, search = made(config), Search(strategy, beam_size=4)
    source = Padded.from_lists(sentences(7, 2, 5, 9, 3, 4, 6, 2))
    together = model.translate(source, search)
    alone = [model.translate(Padded.from_lists([row]), search)[0] for row in source.to_lists()]
    assert ids(together) == ids(alone)
    assert scores(together) == pytest.approx(scores(alone), abs=1e-10)
    assert ids(model.translate(with_garbage(source), search)) == ids(together)


@pytest.mark.parametrize("search", [Search("greedy"), Search("beam"), Search("sample", beam_size=3)])
def test_scores_are_the_model_s_own(search: Search) -> None:
    model, source = made(), sentences(7, 2, 5, 9)
    for row, found in zip(source, model.translate(Padded.from_lists(source), search), strict=True):
        batch = Batch(Padded.from_lists([row] * len(found)), Padded.from_lists([h.ids for h in found]))
        assert_close(model.log_prob(batch).tolist(), [h.score for h in found], rtol=0, atol=1e-10)
        for hypothesis in found:
            assert (hypothesis.ids[0], hypothesis.ids[-1]) == (BOS, EOS)
            assert not set(hypothesis.ids[1:-1]) & set(SPECIAL_TOKENS.ids)
            assert 2 <= len(hypothesis.ids) <= 2 * len(row) + 10
            assert hypothesis.nodes == tuple(range(len(hypothesis.ids)))


@pytest.mark.parametrize("length_penalty", [-0.5, 0.0, 0.6, 1.0, 2.0])
def test_a_beam_that_holds_everything_finds_the_best(length_penalty: float) -> None:
    vocabulary, limit = 7, 6
    bodies = [b for n in range(limit - 1) for b in itertools.product(range(4, vocabulary), repeat=n)]
    targets = [[BOS, *body, EOS] for body in bodies]
    search = Search("beam", limit, length_penalty, beam_size=len(targets))
    for seed in range(3):
        model = made(vocabulary=vocabulary, seed=seed)
        row = sentences(5, vocabulary=vocabulary, seed=seed)[0]
        batch = Batch(Padded.from_lists([row] * len(targets)), Padded.from_lists(targets))
        log_probs = model.log_prob(batch).tolist()
        ranks = [score / len(t) ** length_penalty for score, t in zip(log_probs, targets, strict=True)]
        best = max(range(len(targets)), key=ranks.__getitem__)
        ((found, *_),) = model.translate(Padded.from_lists([row]), search)
        assert list(found.ids) == targets[best]
        assert found.score == pytest.approx(log_probs[best], abs=1e-10)


def test_lengths_are_limited() -> None:
    model, source = made(), Padded.from_lists(sentences(7, 5))
    model.embeddings.tokens.weight.data[EOS] = -10  # sentences go on and on
    for limit in (2, 3, 9):
        for found in model.translate(source, Search("beam", limit)):
            assert {len(hypothesis.ids) for hypothesis in found} <= {*range(2, limit + 1)}
    with pytest.raises(ValueError, match="max_length must be at least 2, for bos and eos, got 1"):
        model.translate(source, Search("greedy", 1))
    short = made(replace(SMALL, max_positions=7))
    for found in short.translate(source, Search("beam", 100)):
        assert max(len(hypothesis.ids) for hypothesis in found) <= 8


def test_samples_are_drawn_by_the_generator() -> None:
    model, source, search = made(), Padded.from_lists(sentences(7, 5)), Search("sample", beam_size=4)

    def draw(seed: int) -> list[list[Hypothesis]]:
        return model.sample(source, search, torch.Generator().manual_seed(seed))

    assert [len(found) for found in draw(0)] == [4, 4]
    assert draw(0) == draw(0)
    assert draw(0) != draw(1)
    assert len({hypothesis.ids for hypothesis in draw(0)[0]}) > 1
    torch.manual_seed(5)
    first = model.translate(source, search)
    torch.manual_seed(5)
    assert model.translate(source, search) == first


def test_translating_leaves_training_as_it_was() -> None:
    model, source = made().train(), Padded.from_lists(sentences(7, 5))
    first = model.translate(source, Search("beam"))
    assert model.training
    assert model.decoder.training
    assert model.translate(source, Search("beam")) == first
    assert model.eval().translate(source, Search("beam")) == first
    assert not model.training


def test_special_tokens_may_be_others() -> None:
    model, source = made(), Padded.from_lists(sentences(7, 5))
    special = SpecialTokens(bos=8, eos=9, pad=10, unk=11)
    for found in model.translate(source, Search("beam", 10, special_tokens=special)):
        for hypothesis in found:
            assert (hypothesis.ids[0], hypothesis.ids[-1]) == (8, 9)
            assert not set(hypothesis.ids[1:-1]) & set(special.ids)


def test_nothing_gives_nothing() -> None:
    assert made().translate(Padded.from_lists([]), Search("beam")) == []


def test_bad_input_is_named() -> None:
    model, source = made(), Padded.from_lists(sentences(4))
    with pytest.raises(ValueError, match="a sentence must have at most 40 positions, got 41"):
        model.translate(Padded.from_lists(sentences(41)), Search("greedy"))
    with pytest.raises(ValueError, match="a sentence must have at most 40 positions, got 41"):
        model.loss(Batch(source, Padded.from_lists(sentences(42))), 0.0)
    with pytest.raises(ValueError, match=r"lengths of the source must be in 1 … 4, got \[4, 0\]"):
        model.translate(Padded.from_lists([*source.to_lists(), []]), Search("greedy"))
    with pytest.raises(ValueError, match="ids must be in 0 … 11, got 2 … 12"):
        model.translate(Padded.from_lists([[BOS, 12, EOS]]), Search("greedy"))
    with pytest.raises(ValueError, match="ids must be in 0 … 11, got -1 … 3"):
        model.loss(Batch(source, Padded.from_lists([[BOS, -1, EOS]])), 0.0)
    with pytest.raises(ValueError, match="strategy must be one of greedy, beam, sample, got 'viterbi'"):
        model.translate(source, Search("viterbi"))
    with pytest.raises(ValueError, match=r"there must be as many targets as sources \(1\), got 2"):
        Batch(source, Padded.from_lists(sentences(4, 4)))
    with pytest.raises(ValueError, match=r"label_smoothing must be at least 0 and less than 1, got 1\.0"):
        AutoregressiveConfig(label_smoothing=1.0)


@pytest.mark.parametrize("task", [COPY, REVERSE])
def test_learns(task: ToyTask) -> None:
    torch.manual_seed(0)
    config = replace(SMALL, width=64, ffn=128, heads=4, dropout=0.0)
    model = AutoregressiveNetwork(AutoregressiveConfig(config), task.vocabulary)
    train(model, task, Training(steps=350, rate=3e-3))
    assert exact_match(model, task, Search("greedy")) >= 0.99
    assert exact_match(model, task, Search("beam")) >= 0.99
