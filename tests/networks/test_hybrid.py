"""One encoder with two heads: what they share, what they cost, and that a batch is encoded once."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from pcfgnat.analysis import Subject
from pcfgnat.checkpoints.checkpoint import Checkpoint, describe, save_checkpoint
from pcfgnat.checkpoints.metadata import DecodingDefaults
from pcfgnat.checkpoints.weights import own_weights
from pcfgnat.decoding import Request, Rescore, Verify
from pcfgnat.decoding.stepwise import GreedySteps
from pcfgnat.export.ctranslate2 import convert
from pcfgnat.networks import AutoregressiveNetwork, Batch, HybridConfig, HybridNetwork
from pcfgnat.networks.emissions import translation_distribution
from pcfgnat.objectives import Glancing, Hybrid, Likelihood, Ngrams
from pcfgnat.runtimes.paired import Paired
from pcfgnat.runtimes.torch import torch_runtime
from pcfgnat.runtimes.torch_hybrid import TorchHybrid
from pcfgnat.structures import Padded
from pcfgnat.text import SubwordTokenizer
from tests.support.sentences import batch_of, ids, one, scores, sentences, with_garbage
from tests.support.zoo import LINKS, UNDROPPED, hybrid

PAIRS = ((5, 4), (3, 2), (7, 6))
either = pytest.mark.parametrize("drafter", ["pcfg", "dag"])


@contextmanager
def encodings(network: HybridNetwork) -> Iterator[list[int]]:
    """The number of sentences of each run of the encoder."""
    found: list[int] = []
    hook = network.encoder.register_forward_hook(lambda _, __, output: found.append(len(output)))
    yield found
    hook.remove()


@either
def test_heads_share_the_encoder_and_nothing_is_stored_twice(drafter: str) -> None:
    network = hybrid(drafter)  # type: ignore[arg-type]
    assert network.drafter.encoder is network.reader.encoder is network.encoder
    stored = own_weights(network)
    assert len({tensor.data_ptr() for tensor in stored.values()}) == len(stored)
    assert sum(tensor.numel() for tensor in stored.values()) == sum(w.numel() for w in network.parameters())
    starts = {name.split(".")[0] for name in stored}
    assert starts == {"embeddings", "encoder", "drafter", "reader"}
    assert {name for name in stored if name.startswith("reader.embeddings")} == {
        "reader.embeddings.target_positions.weight"
    }


@pytest.mark.parametrize("shared", [True, False])
def test_a_checkpoint_has_both_heads(shared: bool, tmp_path: Path) -> None:
    size = replace(UNDROPPED, share_embeddings=shared)
    network, tokenizer = hybrid("dag", size).float(), SubwordTokenizer(b"a\nb\nc\nd\ne\nf\ng\nh")
    metadata = describe("hybrid", network.config, network.vocabulary, DecodingDefaults("verify"))
    save_checkpoint(tmp_path / "model", network, tokenizer, metadata)
    again = Checkpoint.open(tmp_path / "model").network()
    assert isinstance(again, HybridNetwork)
    assert again.config == network.config
    batch, objective = batch_of(*PAIRS), Hybrid()
    assert torch.equal(objective.loss(again, batch, 0.0).value, objective.loss(network, batch, 0.0).value)
    assert (again.reader.embeddings.source_tokens is None) == shared
    assert again.reader.embeddings.source_tokens is again.embeddings.source_tokens


def read_alone(network: AutoregressiveNetwork, source: list[int], target: list[int]) -> list[torch.Tensor]:
    """Log-probabilities of all tokens at each place, from one prefix at a time."""
    batches = [
        Batch(Padded.from_lists([source]), Padded.from_lists([[*target[:end], 4]]))
        for end in range(1, len(target))
    ]
    return [network.predictions(batch).log_probs[-1].detach() for batch in batches]


@either
@pytest.mark.parametrize(("weight", "smoothing"), [(1.0, 0.0), (0.3, 0.1)])
def test_the_loss_is_that_of_both_heads(drafter: str, weight: float, smoothing: float) -> None:
    network, batch = hybrid(drafter, UNDROPPED), batch_of(*PAIRS)  # type: ignore[arg-type]
    expected = plain = 0.0
    drafted = translation_distribution(network.drafter, batch.source).log_prob(batch.target).tolist()
    pairs = zip(batch.source.to_lists(), batch.target.to_lists(), drafted, strict=True)
    for source, target, log_prob in pairs:
        rows = read_alone(network.reader, source, target)
        nll = [-float(row[token]) for row, token in zip(rows, target[1:], strict=True)]
        flat = [-float(row.mean()) for row in rows]
        own = [(1 - smoothing) * y + smoothing * v for y, v in zip(nll, flat, strict=True)]
        expected += -log_prob / len(target) + weight * sum(own) / len(own)
        plain += sum(nll) / len(nll)
    loss = Hybrid(reader_weight=weight, label_smoothing=smoothing).loss(network, batch, 0.0)
    assert loss.mean == pytest.approx(expected / 3, abs=1e-9)
    assert (loss.sentences, loss.skipped) == (3, 0)
    assert loss.metrics["reader_nll"] == pytest.approx(plain / 3, abs=1e-9)
    lengths = batch.target.lengths.tolist()
    mean = sum(-log_prob / n for log_prob, n in zip(drafted, lengths, strict=True)) / 3
    assert loss.metrics["nll"] == pytest.approx(mean, abs=1e-9)


@either
@pytest.mark.parametrize("n", [None, 2])
def test_gradients_are_those_of_both_heads(drafter: str, n: int | None) -> None:
    network, batch = hybrid(drafter, UNDROPPED), batch_of((5, 4), (3, 4))  # type: ignore[arg-type]
    weight, objective = 0.3, Hybrid(reader_weight=0.3, label_smoothing=0.0, n=n)
    drafts = Likelihood() if n is None else Ngrams(n=n)

    def gradients(loss: torch.Tensor) -> dict[str, torch.Tensor]:
        network.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        weights = network.named_parameters()
        return {name: torch.zeros_like(w) if w.grad is None else w.grad.clone() for name, w in weights}

    found = gradients(objective.loss(network, batch, 0.0).value)
    first = gradients(drafts.loss(network.drafter, batch, 0.0).value)
    second = gradients(-network.reader.log_prob(batch).sum() / 6)
    for name, gradient in found.items():
        torch.testing.assert_close(gradient, first[name] + weight * second[name], atol=1e-10, rtol=1e-8)
        assert gradient.abs().max() > 0, name
    assert set(objective.loss(network, batch, 0.0).metrics) >= {
        "nll" if n is None else "ngram_loss",
        "reader_nll",
    }


def test_the_loss_does_not_depend_on_padding_or_batches() -> None:
    network, plain = hybrid(), batch_of(*PAIRS)
    objective = Hybrid(Glancing(0.5, 0.5))
    batch = Batch(plain.source, plain.target, torch.tensor([3, 1, 2]))
    padded = Batch(with_garbage(batch.source), with_garbage(batch.target), batch.seeds)
    whole = objective.loss(network, batch, 0.0).mean
    assert objective.loss(network, padded, 0.0).mean == pytest.approx(whole, abs=1e-9)
    alone = [objective.loss(network, one(batch, i), 0.0).mean for i in range(3)]
    assert sum(alone) / 3 == pytest.approx(whole, abs=1e-9)


def test_what_the_lattice_cannot_produce_is_left_out() -> None:
    network = hybrid("dag")
    batch = batch_of((3, 9), (5, 4))  # 6 vertices, 9 tokens
    loss = Hybrid().loss(network, batch, 0.0)
    assert (loss.sentences, loss.skipped) == (1, 1)
    assert loss.mean == pytest.approx(Hybrid().loss(network, one(batch, 1), 0.0).mean, abs=1e-9)
    loss.value.backward()  # type: ignore[no-untyped-call]
    assert all(w.grad is None or w.grad.isfinite().all() for w in network.parameters())


def test_a_batch_is_encoded_once() -> None:
    network, batch = hybrid(), batch_of(*PAIRS)
    with encodings(network) as runs:
        Hybrid(Glancing(0.5, 0.1)).loss(network.train(), batch, 0.0)
        assert runs == [3]
        network.eval()
        for strategy in (Verify(), Rescore(size=2)):
            runs.clear()
            strategy.decode(TorchHybrid(network), sentences(7, 2, 5, 4), Request())
            assert runs == [4]


@either
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_it_verifies_its_own_drafts(drafter: str, dtype: torch.dtype) -> None:
    """And finds what two networks would find, of which one drafts and the other reads."""
    network = hybrid(drafter).to(dtype)  # type: ignore[arg-type]
    runtime, sources = torch_runtime(network), sentences(7, 2, 5, 9, 3, 4, 2, 12)
    assert isinstance(runtime, TorchHybrid)
    apart = Paired(torch_runtime(network.drafter), torch_runtime(network.reader))  # type: ignore[arg-type]
    expected = GreedySteps().decode(runtime, sources, Request())
    found = Verify().decode(runtime, sources, Request())
    assert ids(found) == ids(expected)
    assert scores(found) == pytest.approx(scores(expected), abs=1e-3 if dtype == torch.float32 else 1e-9)
    alone = [Verify().decode(runtime, [source], Request())[0] for source in sources]
    assert ids(alone) == ids(expected)
    assert found == Verify().decode(apart, sources, Request())
    assert Rescore(4).decode(runtime, sources, Request()) == Rescore(4).decode(apart, sources, Request())
    assert any(len(one.rounds) > 1 for (one,) in found)


def test_its_lattice_is_analysed_and_its_reader_runs_in_ctranslate2(tmp_path: Path) -> None:
    network, tokenizer = hybrid("dag", UNDROPPED).float(), SubwordTokenizer(b"a\nb\nc\nd\ne\nf\ng\nh")
    metadata = describe("hybrid", network.config, network.vocabulary, DecodingDefaults("verify"))
    save_checkpoint(tmp_path / "model", network, tokenizer, metadata)
    studied = Subject.load("model", tmp_path / "model")
    assert (studied.kind, studied.strategy.name) == ("dag", "joint-viterbi")
    sources = sentences(7, 2, 5)
    assert [one.tree is not None for one in studied.translated(sources)] == [True] * 3
    reader = network.reader
    alone = describe("autoregressive", reader.config, reader.vocabulary, DecodingDefaults("beam"))
    save_checkpoint(tmp_path / "reader", reader, tokenizer, alone)
    for name in ("model", "reader"):
        convert(tmp_path / name, tmp_path / f"{name} converted")
    ours, theirs = (tmp_path / f"{name} converted" / "model.bin" for name in ("model", "reader"))
    assert ours.read_bytes() == theirs.read_bytes()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"drafter": "dag"}, "prefix_depth must be 0 if the drafter is dag, got 1"),
        ({"layers_reader": 0}, "layers_reader must be in 1 … 64, got 0"),
        ({"layers_reader": 65}, "layers_reader must be in 1 … 64, got 65"),
        ({"upsampling": 0}, "upsampling must be at least 1, got 0"),
    ],
)
def test_impossible_settings_are_named(settings: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        HybridConfig(rules=LINKS, **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"reader_weight": 0.0}, "reader_weight must be positive, got 0.0"),
        ({"label_smoothing": 1.0}, "label_smoothing must be at least 0 and less than 1, got 1.0"),
        ({"n": 4}, "n must be 1, 2 or 3, got 4"),
    ],
)
def test_impossible_objectives_are_named(settings: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Hybrid(**settings)  # type: ignore[arg-type]
