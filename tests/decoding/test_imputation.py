"""Imputation against plain Python, over a stub whose slots depend on all that is committed."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise

import numpy as np
import pytest
import torch

from pcfgnat.decoding import DecodingError, Imputation, Request, parse_strategy
from pcfgnat.decoding.refinement import MASK
from pcfgnat.grammar.canvas import Framing
from pcfgnat.runtimes.base import Sources
from pcfgnat.runtimes.torch import TensorSlots
from pcfgnat.text.special import SPECIAL_TOKENS
from tests.support.decoded import translated
from tests.support.refinement import VOCABULARY, table
from tests.support.sentences import sentences
from tests.support.zoo import made

BLANK, BOS, EOS = SPECIAL_TOKENS.pad, SPECIAL_TOKENS.bos, SPECIAL_TOKENS.eos
ALLOWED = [BLANK, *range(4, VOCABULARY)]
SOURCES = [[2, 5, 6, 4, 3], [3], [2, 4, 3], [2, 6, 6, 6, 5, 7, 3]]


@dataclass
class StubReader:
    """Two slots for each token of the source; remembers the canvases that it filled."""

    sources: Sources
    levels: int
    filled: list[list[list[int]]] = field(default_factory=list)

    @property
    def canvas_lengths(self) -> np.ndarray:
        return 2 * np.array([len(source) for source in self.sources])

    def fill(self, sentence: np.ndarray, canvas: np.ndarray, lengths: np.ndarray) -> list[TensorSlots]:
        rows = [row[:length].tolist() for row, length in zip(canvas, lengths, strict=True)]
        self.filled.append(rows)
        return [
            TensorSlots(torch.from_numpy(table(self.sources[index], row, self.levels)), BLANK)
            for index, row in zip(sentence.tolist(), rows, strict=True)
        ]


class StubFrames:
    max_source_length = 100
    framing = Framing(ends=False, blank=BLANK)

    def __init__(self, levels: int = 0) -> None:
        self.levels = levels
        self.readers: list[StubReader] = []

    def read_frames(self, sources: Sources) -> StubReader:
        self.readers.append(StubReader(sources, self.levels))
        return self.readers[-1]

    def frames(self, sources: Sources) -> Iterator[tuple[Sequence[int], Sequence[TensorSlots]]]:
        raise NotImplementedError


def sentence_of(symbols: Sequence[int]) -> tuple[int, ...]:
    return (BOS, *[symbol for symbol, _ in groupby(symbols) if symbol not in (BLANK, MASK)], EOS)


@dataclass
class Plain:
    symbols: list[int]
    score: float
    canvases: list[list[int]]


def plainly_imputed(source: Sequence[int], iterations: int, blocks: bool, levels: int) -> Plain:
    """Commit slot by slot."""
    slots = 2 * len(source)
    symbols, score, canvases = [MASK] * slots, 0.0, []
    while MASK in symbols:
        canvas = list(symbols)
        if canvas[0] == MASK:
            canvas[0] = BOS
        if canvas[-1] == MASK:
            canvas[-1] = EOS
        canvases.append(canvas)
        found = table(source, canvas, levels)
        best = [max(ALLOWED, key=lambda symbol: (found[slot][symbol], -symbol)) for slot in range(slots)]
        opened = [slot for slot in range(slots) if symbols[slot] == MASK]
        ranked = sorted(opened, key=lambda slot: (-found[slot][best[slot]], slot))
        if blocks:
            chosen = [
                next(s for s in ranked if s // iterations == b) for b in {s // iterations for s in opened}
            ]
        else:
            chosen = ranked[: -(-slots // iterations)]
        for slot in chosen:
            symbols[slot] = best[slot]
            score += float(found[slot][best[slot]])
    return Plain(symbols, score, canvases)


@pytest.mark.parametrize("iterations", [1, 2, 3, 4, 8, 30])
@pytest.mark.parametrize("blocks", [False, True])
@pytest.mark.parametrize("levels", [0, 1], ids=["all different", "many equal"])
def test_the_loop_does_what_plain_python_does(iterations: int, blocks: bool, levels: int) -> None:
    runtime = StubFrames(levels)
    found = Imputation(iterations, blocks).decode(runtime, SOURCES, Request())
    plain = [plainly_imputed(source, iterations, blocks, levels) for source in SOURCES]
    for (one,), expected in zip(found, plain, strict=True):
        assert one.ids == sentence_of(expected.symbols) == one.passes[-1]
        assert one.score == pytest.approx(expected.score, abs=1e-12)
        assert len(one.passes) == len(expected.canvases) <= iterations
        assert [expected.symbols[node] for node in one.nodes[1:-1]] == list(one.ids[1:-1])
        assert (one.nodes[0], one.nodes[-1]) == (-1, -1)
    passes = runtime.readers[0].filled
    expected_passes = [
        [own.canvases[index] for own in plain if index < len(own.canvases)] for index in range(len(passes))
    ]
    assert passes == expected_passes


def opened(canvases: list[list[list[int]]]) -> list[int]:
    return [sum(symbol in (MASK, BOS, EOS) for symbol in rows[0]) for rows in canvases]


def test_so_many_slots_are_committed_in_each_pass() -> None:
    runtime, source = StubFrames(), [[2, 4, 5, 6, 3]]
    Imputation(4).decode(runtime, source, Request())
    assert opened(runtime.readers[0].filled) == [10, 7, 4, 1]
    Imputation(4, blocks=True).decode(runtime, source, Request())
    assert opened(runtime.readers[1].filled) == [10, 7, 4, 2]  # blocks of 4, 4 and 2


@pytest.mark.parametrize("blocks", [False, True])
def test_what_is_committed_is_never_revised(blocks: bool) -> None:
    runtime = StubFrames()
    Imputation(5, blocks).decode(runtime, SOURCES[:1], Request())
    canvases = [rows[0] for rows in runtime.readers[0].filled]
    for before, after in pairwise(canvases):
        kept = [(a, b) for a, b in zip(before, after, strict=True) if a not in (MASK, BOS, EOS)]
        assert all(a == b for a, b in kept)


@pytest.mark.parametrize("blocks", ["false", "true"])
def test_one_pass_is_greedy(blocks: str) -> None:
    network, sources = made("imputer", copy_input=True), sentences(7, 2, 5, 9)
    once = translated(network, f"imputation:iterations=1,blocks={blocks}", sources)
    greedy = translated(network, "greedy", sources)
    assert [own[0].ids for own in once] == [own[0].ids for own in greedy]
    assert [own[0].nodes for own in once] == [own[0].nodes for own in greedy]
    assert [own[0].score for own in once] == pytest.approx([own[0].score for own in greedy], abs=1e-12)
    several = translated(network, "imputation:iterations=6", sources)
    assert [own[0].score for own in several] != pytest.approx([own[0].score for own in greedy])


@pytest.mark.parametrize("value", [0, -1])
def test_settings_are_checked_in_one_line(value: int) -> None:
    with pytest.raises(DecodingError, match=f"imputation.iterations must be at least 1, got {value}"):
        parse_strategy(f"imputation:iterations={value}", StubFrames())


def test_other_models_do_not_have_it() -> None:
    with pytest.raises(DecodingError, match="must be one of greedy, beam, sample for this model"):
        translated(made("ctc"), "imputation", sentences(4))
