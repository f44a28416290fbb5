"""Sizes that are chosen from the amount of text."""

from typing import Any

import numpy as np
import pytest

from pcfgnat.config import from_dict, override
from pcfgnat.training import TrainConfig
from pcfgnat.training.sizing import TIERS, TextSize, choose_sizes, vocabulary_advice

BASE = {"data": "d", "output": "o", "network": {"name": "pcfg"}, "objective": {"name": "likelihood"}}


def text(pairs: int, source: int = 12, target: int = 13, vocabulary: int = 8000) -> TextSize:
    return TextSize(np.full(pairs, source, np.int32), np.full(pairs, target, np.int32), vocabulary)


def chosen(size: TextSize) -> dict[str, Any]:
    return {key: value for choice in choose_sizes(size) for key, value in choice.settings.items()}


@pytest.mark.parametrize("pairs", [1, 500, 10_000, 29_000, 200_000, 4_000_000])
def test_what_is_chosen_can_be_trained(pairs: int) -> None:
    settings = chosen(text(pairs))
    config = from_dict(TrainConfig, override(BASE, [f"{key}={value}" for key, value in settings.items()]))
    transformer = config.network["transformer"]
    assert transformer["width"] == settings["network.transformer.width"]
    assert config.epochs == settings["epochs"]
    assert config.validation.every is not None
    steps = settings["epochs"] * pairs * 13 / (settings["batches.tokens"] * settings["batches.accumulate"])
    assert config.validation.every <= max(1, steps / 39)
    assert config.optimiser.warm_up <= max(1, steps / 10)


def test_more_text_gets_a_larger_network_less_dropout_and_fewer_passes() -> None:
    sizes = [chosen(text(pairs)) for pairs in (10_000, 29_000, 200_000, 4_000_000)]
    for name, sign in (
        ("network.transformer.width", 1),
        ("network.transformer.layers_encoder", 1),
        ("network.transformer.dropout", -1),
        ("epochs", -1),
        ("optimiser.rate", -1),
        ("batches.tokens", 1),
    ):
        values = [sign * size[name] for size in sizes]
        assert values == sorted(values), name
    assert [tier.below for tier in TIERS] == sorted(tier.below for tier in TIERS)
    assert (sizes[-1]["network.transformer.width"], sizes[-1]["network.upsampling"]) == (
        512,
        4,
    )  # the paper's


@pytest.mark.parametrize(("target", "upsampling"), [(6, 2), (24, 2), (25, 3), (60, 5), (400, 8)])
def test_the_canvas_has_room_for_the_targets(target: int, upsampling: int) -> None:
    size = text(1000, source=12, target=target)
    assert chosen(size)["network.upsampling"] == upsampling
    assert size.fitting(upsampling) == (1.0 if target <= 96 else 0.0)


def test_a_hundredth_of_the_targets_may_be_longer() -> None:
    target = np.full(1000, 20, np.int32)
    target[:10] = 40
    size = TextSize(np.full(1000, 12, np.int32), target, 8000)
    assert chosen(size)["network.upsampling"] == 2
    target[10] = 40
    assert chosen(size)["network.upsampling"] == 4


def test_positions_and_batches_fit_the_longest_sentence() -> None:
    assert chosen(text(100, source=40))["network.transformer.max_positions"] == 128
    assert chosen(text(100, source=129))["network.transformer.max_positions"] == 192
    long = text(100, source=12, target=3000)
    assert chosen(long)["batches.tokens"] == 3000


def test_every_choice_has_a_reason() -> None:
    lines = [str(choice) for choice in choose_sizes(text(29_000))]
    assert lines[0].endswith("network.transformer.dropout=0.2 (29,000 sentence pairs are a small corpus)")
    assert lines[1] == "network.upsampling=2 (100.0 % of the targets fit on the main chain)"
    assert all(line.endswith(")") for line in lines)


def test_a_vocabulary_that_is_too_large_is_said() -> None:
    assert vocabulary_advice(text(29_000, target=15)) is None
    assert vocabulary_advice(text(5000, target=20, vocabulary=16_000)) == (
        "a vocabulary of 16,000 is large for this text, 6 occurrences per entry; "
        "consider pcfgnat prepare --vocabulary-size 2000"
    )
    assert vocabulary_advice(text(10, vocabulary=400)) is None
