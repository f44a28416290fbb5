"""Sizes of a model and of its training, chosen from the amount of text. Rules of thumb, not measurements.

The small sizes are those of this project's own runs (docs/results.md), the largest is the paper's. Less text
gets a smaller network, more dropout and more passes.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Integer

from pcfgnat.text import Prepared

NETWORK, TRANSFORMER = "network", "network.transformer"  # the tables that hold these settings
ROOM = 0.99  # share of the targets that must fit on the main chain
MOST_UPSAMPLING = 8
LEAST_POSITIONS, POSITIONS_STEP = 128, 64
VALIDATIONS = 40
FEW_OCCURRENCES = 50  # of an average vocabulary entry in the target text


@dataclass(frozen=True)
class Tier:
    """Sizes for corpora of fewer than `below` sentence pairs; encoder and decoder have `layers` each."""

    name: str
    below: float
    layers: int
    width: int
    ffn: int
    heads: int
    dropout: float
    upsampling: int
    epochs: int
    tokens: int
    accumulate: int
    rate: float
    warm_up: int


TIERS = (
    Tier(
        "very small", below=2e4, layers=3, width=192, ffn=512, heads=4, dropout=0.3, upsampling=2,
        epochs=60, tokens=1024, accumulate=1, rate=1e-3, warm_up=400,
    ),
    Tier(
        "small", below=1e5, layers=3, width=256, ffn=512, heads=4, dropout=0.2, upsampling=2,
        epochs=30, tokens=1024, accumulate=1, rate=1e-3, warm_up=400,
    ),
    Tier(
        "medium", below=1e6, layers=5, width=384, ffn=1536, heads=6, dropout=0.1, upsampling=2,
        epochs=20, tokens=2048, accumulate=2, rate=7e-4, warm_up=2000,
    ),
    Tier(
        "large", below=math.inf, layers=6, width=512, ffn=2048, heads=8, dropout=0.1, upsampling=4,
        epochs=20, tokens=4096, accumulate=8, rate=5e-4, warm_up=4000,
    ),
)  # fmt: skip


@dataclass(frozen=True)
class TextSize:
    """What the choice depends on; lengths are in tokens and count bos and eos."""

    source: Integer[np.ndarray, "n"]
    target: Integer[np.ndarray, "n"]
    vocabulary: int

    @classmethod
    def of(cls, data: Prepared) -> "TextSize":
        """Return the size of the training text."""
        corpus = data.corpus("train")
        return cls(corpus.source_lengths, corpus.target_lengths, data.tokenizer.vocabulary_size)

    @property
    def pairs(self) -> int:
        """Number of sentence pairs."""
        return len(self.source)

    def fitting(self, upsampling: int) -> float:
        """Return the share of targets for which a chain of so many nodes per source token is long enough."""
        return float(np.mean(self.target <= self.source.astype(np.int64) * upsampling))


@dataclass(frozen=True)
class Choice:
    """Some settings, by their dotted names, and why they were chosen."""

    settings: Mapping[str, Any]
    reason: str

    def __str__(self) -> str:
        return f"{' '.join(f'{key}={value}' for key, value in self.settings.items())} ({self.reason})"


def choose_sizes(text: TextSize) -> list[Choice]:
    """Return settings for a training text, each group with its reason."""
    tier = next(tier for tier in TIERS if text.pairs < tier.below)
    longest = np.maximum(text.source, text.target).astype(np.int64)
    step_tokens = max(tier.tokens, int(longest.max()))
    steps = max(1, round(tier.epochs * int(longest.sum()) / (step_tokens * tier.accumulate)))
    return [
        _network(text, tier),
        _canvas(text, tier),
        _positions(int(text.source.max())),
        Choice(
            {"batches.tokens": step_tokens, "batches.accumulate": tier.accumulate, "epochs": tier.epochs},
            f"about {steps:,} steps",
        ),
        Choice(
            {"optimiser.rate": tier.rate, "optimiser.warm_up": min(tier.warm_up, max(1, steps // 10))},
            f"a peak rate for width {tier.width}, reached within the first tenth of the run",
        ),
        Choice(
            {"validation.every": max(1, steps // VALIDATIONS)},
            f"about {min(VALIDATIONS, steps)} validations; stops early when BLEU no longer rises",
        ),
    ]


def vocabulary_advice(text: TextSize) -> str | None:
    """Return a warning if the vocabulary is too large for the text to learn each entry."""
    occurrences = int(text.target.sum()) / text.vocabulary
    if occurrences >= FEW_OCCURRENCES:
        return None
    enough = max(500, round(int(text.target.sum()) // FEW_OCCURRENCES, -2))
    if enough >= text.vocabulary:
        return None
    count = f"{occurrences:.0f} occurrences per entry"
    advice = f"consider pcfgnat prepare --vocabulary-size {enough}"
    return f"a vocabulary of {text.vocabulary:,} is large for this text, {count}; {advice}"


def _network(text: TextSize, tier: Tier) -> Choice:
    sizes = {
        "layers_encoder": tier.layers,
        "layers_decoder": tier.layers,
        "width": tier.width,
        "ffn": tier.ffn,
        "heads": tier.heads,
        "dropout": tier.dropout,
    }
    return Choice(
        {f"{TRANSFORMER}.{name}": value for name, value in sizes.items()},
        f"{text.pairs:,} sentence pairs are a {tier.name} corpus",
    )


def _canvas(text: TextSize, tier: Tier) -> Choice:
    """Choose λ: at least the tier's, and enough for nearly all targets to fit on the main chain."""
    wanted = range(tier.upsampling, MOST_UPSAMPLING + 1)
    upsampling = next((value for value in wanted if text.fitting(value) >= ROOM), MOST_UPSAMPLING)
    share = f"{100 * text.fitting(upsampling):.1f} % of the targets fit on the main chain"
    return Choice({f"{NETWORK}.upsampling": upsampling}, share)


def _positions(longest: int) -> Choice:
    positions = max(LEAST_POSITIONS, math.ceil(longest / POSITIONS_STEP) * POSITIONS_STEP)
    return Choice({f"{TRANSFORMER}.max_positions": positions}, f"the longest source has {longest} tokens")
