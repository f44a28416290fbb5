"""Parallel easy-first against plain Python, over a stub and over a small network."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch

from pcfgnat.decoding import EasyFirst, Request
from pcfgnat.runtimes.base import Sources, VisibleSlots
from pcfgnat.runtimes.torch import torch_runtime
from pcfgnat.structures.emissions import TensorEmissions
from pcfgnat.text.special import SPECIAL_TOKENS
from tests.support.refinement import BOS, EOS, VOCABULARY, WORDS, StubReader, StubSlots
from tests.support.sentences import sentences
from tests.support.zoo import UNDROPPED, made

SOURCES = [[2, 5, 6, 3], [2, 4, 3], [2, 6, 6, 6, 5, 3]]
TRIED = [[5, 4, 8], [3, 4, 9], [12, 6, 7]]
# from position, and the tokens that it sees by position, to log-probabilities
Predict = Callable[[int, dict[int, int]], np.ndarray]


def stub_row(source: Sequence[int], length: int, place: int, seen: dict[int, int]) -> np.ndarray:
    """Log-probabilities of one position, which follow from source, length and the tokens that it sees."""
    pairs = [number for pair in sorted(seen.items()) for number in pair]
    scores = np.random.default_rng([*source, length, place, 99, *pairs]).normal(size=VOCABULARY)
    normalised: np.ndarray = scores - np.log(np.exp(scores).sum())
    return normalised


class VisibleReader(StubReader):
    def fill_visible(
        self, sentence: np.ndarray, canvas: np.ndarray, lengths: np.ndarray, visible: np.ndarray
    ) -> TensorEmissions:
        emit = np.zeros((*canvas.shape, VOCABULARY))
        self.filled.append([row[:length].tolist() for row, length in zip(canvas, lengths, strict=True)])
        for row, (index, length) in enumerate(zip(sentence.tolist(), lengths.tolist(), strict=True)):
            for place in range(1, length - 1):
                others = [j for j in range(1, length - 1) if visible[row, place, j]]
                seen = {j: int(canvas[row, j]) for j in others}
                emit[row, place] = stub_row(self.sources[index], length, place, seen)
        return TensorEmissions(torch.from_numpy(emit), 0, torch.from_numpy(lengths) - 1, SPECIAL_TOKENS)


class VisibleStub(StubSlots):
    def read(self, sources: Sources) -> VisibleReader:
        return self.read_visible(sources)

    def read_visible(self, sources: Sources) -> VisibleReader:
        reader = VisibleReader(sources, self.best_lengths)
        self.readers.append(reader)
        return reader


def best(row: np.ndarray) -> int:
    return max(WORDS, key=lambda word: (row[word], -word))


def in_order(predict: Predict, length: int) -> list[int]:
    """Positions by how certain they are when nothing is seen, of equal ones the first."""
    first = {place: predict(place, {}) for place in range(1, length - 1)}
    return sorted(first, key=lambda place: (-first[place][best(first[place])], place))


def sequentially(predict: Predict, length: int) -> tuple[list[int], float]:
    """One token after the other, each from all before it."""
    seen: dict[int, int] = {}
    score = 0.0
    for place in in_order(predict, length):
        row = predict(place, seen)
        seen[place] = best(row)
        score += float(row[seen[place]])
    return [BOS, *[seen[place] for place in range(1, length - 1)], EOS], score


def in_passes(predict: Predict, length: int, iterations: int) -> tuple[list[list[int]], float]:
    """All tokens at once in each pass, until none changes."""
    order = in_order(predict, length)
    tokens = {place: best(predict(place, {})) for place in order}
    scores = {place: float(predict(place, {})[tokens[place]]) for place in order}
    history = [[BOS, *[tokens[place] for place in sorted(order)], EOS]]
    for _ in range(iterations - 1):
        found = {}
        for rank, place in enumerate(order):
            row = predict(place, {other: tokens[other] for other in order[:rank]})
            found[place], scores[place] = best(row), float(row[best(row)])
        unchanged, tokens = found == tokens, found
        history.append([BOS, *[tokens[place] for place in sorted(order)], EOS])
        if unchanged:
            break
    return history, sum(scores.values())


def predict_of(source: Sequence[int], length: int) -> Predict:
    return lambda place, seen: stub_row(source, length, place, seen)


@pytest.mark.parametrize("iterations", [1, 2, 3, 6, 20])
def test_the_loop_does_what_plain_python_does(iterations: int) -> None:
    found = EasyFirst(iterations, lengths=3).decode(VisibleStub(*TRIED), SOURCES, Request(results=3))
    for source, own, lengths in zip(SOURCES, found, TRIED, strict=True):
        assert sorted(len(one.ids) for one in own) == sorted(lengths)
        for one in own:
            history, score = in_passes(predict_of(source, len(one.ids)), len(one.ids), iterations)
            assert one.passes == tuple(map(tuple, history))
            assert one.ids == one.passes[-1]
            assert one.score == pytest.approx(score, abs=1e-12)


def test_enough_passes_are_as_good_as_one_token_after_the_other() -> None:
    found = EasyFirst(20, lengths=3).decode(VisibleStub(*TRIED), SOURCES, Request(results=3))
    changed = 0
    for source, own in zip(SOURCES, found, strict=True):
        for one in own:
            words = len(one.ids) - 2
            expected, score = sequentially(predict_of(source, len(one.ids)), len(one.ids))
            assert list(one.ids) == expected
            assert one.score == pytest.approx(score, abs=1e-12)
            assert len(one.passes) <= words + 1
            changed += one.passes[0] != one.ids
    assert changed > 3  # the first pass alone would not do


def test_a_small_network_is_decoded_as_one_token_after_the_other() -> None:
    network, (source, other) = made("disco", UNDROPPED), sentences(9, 5)
    runtime = torch_runtime(network)
    assert isinstance(runtime, VisibleSlots)
    found = EasyFirst(20, lengths=1).decode(runtime, [source, other], Request())
    for sentence, (one,) in zip((source, other), found, strict=True):
        length, reader = len(one.ids), runtime.read_visible([sentence])

        def predict(place: int, seen: dict[int, int]) -> np.ndarray:
            canvas = np.full((1, length), SPECIAL_TOKENS.unk)  # noqa: B023
            canvas[0, 0], canvas[0, -1] = BOS, EOS
            visible = np.zeros((1, length, length), dtype=bool)  # noqa: B023
            for j, token in seen.items():
                canvas[0, j], visible[0, place, j] = token, True
            filled = reader.fill_visible(np.array([0]), canvas, np.array([length]), visible)  # noqa: B023
            row: np.ndarray = filled.log_probs(0, np.array([place]))[0]
            return row

        tokens: dict[int, int] = {}
        order = {place: predict(place, {}).max() for place in range(1, length - 1)}
        score = 0.0
        for place in sorted(order, key=lambda place: (-order[place], place)):
            row = predict(place, tokens)
            tokens[place] = int(row.argmax())
            score += float(row.max())
        assert list(one.ids[1:-1]) == [tokens[place] for place in range(1, length - 1)]
        assert one.score == pytest.approx(score, abs=1e-9)


def test_rows_in_which_nothing_changed_leave_the_batch() -> None:
    runtime = VisibleStub([3], [9])
    found = EasyFirst(20, lengths=1).decode(runtime, SOURCES[:2], Request())
    counts = [len(rows) for rows in runtime.readers[0].filled]
    assert counts == [2] * 2 + [1] * (len(found[1][0].passes) - 2)
    assert len(found[0][0].passes) == 2  # the second pass has found nothing new


def test_equally_certain_positions_go_from_left_to_right(monkeypatch: pytest.MonkeyPatch) -> None:
    seen_by: dict[int, list[int]] = {}

    def row(source: Sequence[int], length: int, place: int, seen: dict[int, int]) -> np.ndarray:
        seen_by[place] = sorted(seen)
        return np.full(VOCABULARY, -2.0)

    monkeypatch.setattr("tests.decoding.test_easy_first.stub_row", row)
    EasyFirst(2, lengths=1).decode(VisibleStub([6]), SOURCES[:1], Request())
    assert seen_by == {1: [], 2: [1], 3: [1, 2], 4: [1, 2, 3]}
