"""Which layers a network takes from one of another depth, and what it leaves alone."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from pcfgnat.checkpoints.checkpoint import describe, save_checkpoint
from pcfgnat.checkpoints.metadata import DecodingDefaults
from pcfgnat.checkpoints.weights import own_weights
from pcfgnat.networks import (
    AutoregressiveConfig,
    AutoregressiveNetwork,
    CTCConfig,
    CTCNetwork,
    FlowSeqConfig,
    FlowSeqNetwork,
    HybridConfig,
    HybridNetwork,
    Network,
    PCFGConfig,
    PCFGNetwork,
)
from pcfgnat.nn import TransformerConfig
from pcfgnat.nn.flow import FlowConfig
from pcfgnat.text import SubwordTokenizer
from pcfgnat.training import TrainingError
from pcfgnat.training.warm_start import origins, warm_start

TOKENIZER = SubwordTokenizer(b"one\ntwo\nthree\nfour")
WIDEN = "{}coder.layers.{}.feed_forward.widen.weight"
LAYER = re.compile(r"(encoder|decoder)\.layers\.(\d+)\.(.+)")


def transformer(encoder: int, decoder: int, width: int = 8) -> TransformerConfig:
    return TransformerConfig(encoder, decoder, width=width, ffn=12, heads=2, max_positions=10)


def teacher(encoder: int, decoder: int) -> AutoregressiveNetwork:
    torch.manual_seed(1)
    config = AutoregressiveConfig(transformer(encoder, decoder))
    return AutoregressiveNetwork(config, TOKENIZER.vocabulary_size)


def student(encoder: int, decoder: int, width: int = 8) -> CTCNetwork:
    torch.manual_seed(2)
    return CTCNetwork(CTCConfig(transformer(encoder, decoder, width)), TOKENIZER.vocabulary_size)


@pytest.fixture
def deep(tmp_path: Path) -> Path:
    """A checkpoint of three layers on both sides."""
    network = teacher(3, 3)
    metadata = describe("autoregressive", network.config, network.vocabulary, DecodingDefaults("beam"))
    save_checkpoint(tmp_path / "deep", network, TOKENIZER, metadata)
    return tmp_path / "deep"


@pytest.mark.parametrize(
    ("given", "own", "encoder", "decoder"),
    [
        ((3, 3), (5, 1), [0, 0, 1, 2, 2], [1]),
        ((3, 3), (3, 3), [0, 1, 2], [0, 1, 2]),
        ((6, 1), (3, 3), [1, 3, 5], [0, 0, 0]),
        ((1, 6), (2, 4), [0, 0], [0, 2, 3, 5]),
    ],
)
def test_layers_are_spread_evenly(
    given: tuple[int, int], own: tuple[int, int], encoder: list[int], decoder: list[int]
) -> None:
    found = origins(own_weights(student(*own)), own_weights(teacher(*given)))
    for stack, expected in (("encoder", encoder), ("decoder", decoder)):
        layers: dict[int, set[int]] = {}
        for name, origin in found.items():
            here, there = LAYER.fullmatch(name), LAYER.fullmatch(origin)
            if here is not None and here[1] == stack:
                assert there is not None
                assert (there[1], there[3]) == (here[1], here[3])  # the same part of a layer
                layers.setdefault(int(here[2]), set()).add(int(there[2]))
        assert layers == {layer: {origin} for layer, origin in enumerate(expected)}
    outside = {name: origin for name, origin in found.items() if LAYER.fullmatch(name) is None}
    assert outside
    assert all(name == origin for name, origin in outside.items())


def test_a_stack_that_the_other_lacks_keeps_its_names() -> None:
    own = own_weights(student(2, 2))
    given = {name: tensor for name, tensor in own.items() if not name.startswith("decoder.")}
    assert origins(own, given) == {name: name for name in own}


def test_every_weight_is_its_origins(deep: Path) -> None:
    network, said = student(5, 1), list[str]()
    before = {name: weight.clone() for name, weight in own_weights(network).items()}
    count = warm_start(network, deep, TOKENIZER, said.append)
    own, given = own_weights(network), own_weights(teacher(3, 3))
    left = {"embeddings.target_positions.weight"}  # a canvas is longer than a sentence
    assert count == len(own) - len(left)
    for name, origin in origins(own, given).items():
        assert torch.equal(own[name], before[name] if name in left else given[origin]), name
    assert said == [
        f"warm start: {count} of {len(own)} weights are from {deep}; "
        "unchanged: embeddings.target_positions.weight"
    ]


def test_what_has_another_shape_is_left_alone_and_named(deep: Path) -> None:
    network, said = student(1, 1, width=16), list[str]()
    before = {name: weight.clone() for name, weight in own_weights(network).items()}
    count = warm_start(network, deep, TOKENIZER, said.append)
    changed = {name for name, weight in own_weights(network).items() if not torch.equal(weight, before[name])}
    named = set(said[0].split("; unchanged: ")[1].split(", "))
    assert not changed & named
    assert len(named) == len(before) - count
    assert {name for name in before if name.endswith("widen.weight")} <= named


def test_of_very_many_weights_the_parts_are_named(deep: Path) -> None:
    config = FlowSeqConfig(transformer(1, 1), 1, 0.0, FlowConfig((1, 1), ffn=16, heads=2))
    network, said = FlowSeqNetwork(config, TOKENIZER.vocabulary_size), list[str]()
    count = warm_start(network, deep, TOKENIZER, said.append)
    named = said[0].split("; unchanged: ")[1].split(", ")
    prior = sum(name.startswith("prior.") for name in own_weights(network))
    assert f"{prior} of prior" in named
    assert sum(int(part.split(" of ")[0]) for part in named) == len(own_weights(network)) - count


def test_weights_of_which_none_fits_are_refused(deep: Path) -> None:
    config = replace(transformer(1, 1, width=16), ffn=20)
    network = CTCNetwork(CTCConfig(config), TOKENIZER.vocabulary_size)
    expected = (
        r"must have weights of the network's names and shapes, got none of \d+ in .*, a network of kind"
    )
    with pytest.raises(TrainingError, match=expected):
        warm_start(network, deep, TOKENIZER, print)


def test_another_tokenizer_is_refused(deep: Path) -> None:
    other = SubwordTokenizer(b"one\ntwo\nthree\nfive")
    with pytest.raises(TrainingError, match="warm_start must have the tokenizer of the data"):
        warm_start(student(1, 1), deep, other, print)


def hybrid() -> HybridNetwork:
    torch.manual_seed(3)
    config = HybridConfig(transformer(4, 1), copy_input=True, upsampling=2, layers_reader=2)
    return HybridNetwork(config, TOKENIZER.vocabulary_size)


def grammar() -> PCFGNetwork:
    torch.manual_seed(4)
    return PCFGNetwork(PCFGConfig(transformer(4, 2), True, upsampling=2), TOKENIZER.vocabulary_size)


def saved(place: Path, name: str, network: Network) -> Path:
    metadata = describe(name, network.config, network.vocabulary, DecodingDefaults(network.default_strategy))
    save_checkpoint(place / name, network, TOKENIZER, metadata)
    return place / name


def test_a_hybrid_takes_both_heads_from_a_teacher(deep: Path) -> None:
    network, said = hybrid(), list[str]()
    warm_start(network, deep, TOKENIZER, said.append)
    own, given = own_weights(network), own_weights(teacher(3, 3))
    assert torch.equal(own[WIDEN.format("en", 3)], given[WIDEN.format("en", 2)])
    for layer, origin in ((0, 0), (1, 2)):
        assert torch.equal(own["reader." + WIDEN.format("de", layer)], given[WIDEN.format("de", origin)])
    assert torch.equal(own["drafter." + WIDEN.format("de", 0)], given[WIDEN.format("de", 1)])
    positions = "embeddings.target_positions.weight"
    assert torch.equal(own[f"reader.{positions}"], given[positions])
    left = set(said[0].split("; unchanged: ")[1].split(", "))
    assert left == {positions, *(name for name in own if ".rules." in name or ".copy." in name)}


def test_a_hybrid_takes_its_lattice_from_a_grammar(tmp_path: Path) -> None:
    network, origin, said = hybrid(), grammar(), list[str]()
    warm_start(network, saved(tmp_path, "pcfg", origin), TOKENIZER, said.append)
    own, given = own_weights(network), own_weights(origin)
    for name, tensor in own.items():
        bare = name.removeprefix("drafter.")
        if not name.startswith("reader.") and "decoder" not in name:
            assert torch.equal(tensor, given[bare]), name
    assert torch.equal(own["drafter." + WIDEN.format("de", 0)], given[WIDEN.format("de", 1)])
    assert torch.equal(own["reader." + WIDEN.format("de", 1)], given[WIDEN.format("de", 1)])
    assert said[0].endswith("; unchanged: reader.embeddings.target_positions.weight")  # a canvas is longer


def test_a_head_of_a_hybrid_is_taken_by_a_network_of_its_kind(tmp_path: Path) -> None:
    origin = hybrid()
    place, given = saved(tmp_path, "hybrid", origin), own_weights(origin)
    for network, head in ((grammar(), "drafter"), (teacher(4, 2), "reader")):
        said = list[str]()
        count = warm_start(network, place, TOKENIZER, said.append)
        own = own_weights(network)
        assert count == len(own), said
        for layer in range(2):
            source = given[f"{head}." + WIDEN.format("de", layer if head == "reader" else 0)]
            assert torch.equal(own[WIDEN.format("de", layer)], source)
