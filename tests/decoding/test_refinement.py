"""The refinement loop against plain Python, over a stub whose predictions depend on the whole canvas."""

import re

import numpy as np
import pytest

from pcfgnat.decoding import DecodingError, MaskPredict, Request, UpdateAll, parse_strategy
from pcfgnat.decoding.masked import RefinedSlots
from pcfgnat.decoding.refinement import MASK, Draft, MaskLeastCertain, least, refine
from pcfgnat.decoding.slots import SlotGreedy
from tests.support.refinement import BOS, EOS, WORDS, StubSlots, plainly_refined

SOURCES = [[2, 5, 6, 3], [2, 4, 3], [2, 6, 6, 6, 5, 3]]
TRIED = [[5, 4, 8], [3, 4, 9], [12, 6, 7]]
either = pytest.mark.parametrize("kind", [MaskPredict, UpdateAll])


@either
@pytest.mark.parametrize("iterations", [1, 2, 3, 4, 10])
@pytest.mark.parametrize("levels", [0, 1], ids=["all different", "many equal"])
def test_the_loop_does_what_plain_python_does(kind: type[RefinedSlots], iterations: int, levels: int) -> None:
    runtime = StubSlots(*TRIED, levels=levels)
    found = kind(iterations, lengths=3).decode(runtime, SOURCES, Request(results=3))
    for source, own, lengths in zip(SOURCES, found, TRIED, strict=True):
        assert sorted(len(one.ids) for one in own) == sorted(lengths)
        for one in own:
            plain = plainly_refined(source, len(one.ids), iterations, kind is UpdateAll, levels)
            assert one.ids == tuple(plain.ids)
            assert one.score == pytest.approx(plain.score, abs=1e-12)
            assert one.nodes == tuple(range(len(one.ids)))
            own_passes = 1 if len(one.ids) == 3 else iterations  # one word: every pass would be the first
            assert one.passes == tuple(map(tuple, plain.passes[:own_passes]))
            assert plain.passes[own_passes - 1] == plain.passes[-1]


@pytest.mark.parametrize(
    ("words", "counts"),
    [(5, [5, 4, 4, 3, 3, 2, 2, 1, 1, 1]), (20, [20, 18, 16, 14, 12, 10, 8, 6, 4, 2]), (1, [1])],
)
@either
def test_so_many_tokens_are_masked_in_each_pass(
    kind: type[RefinedSlots], words: int, counts: list[int]
) -> None:
    runtime = StubSlots([words + 2])
    kind(10, lengths=1).decode(runtime, [[2, 4, 5, 3]], Request())
    filled = [rows[0] for rows in runtime.readers[0].filled]
    assert [row.count(MASK) for row in filled] == counts
    assert {(row[0], row[-1]) for row in filled} == {(BOS, EOS)}


@either
def test_one_pass_is_the_best_token_of_each_slot(kind: type[RefinedSlots]) -> None:
    once = kind(iterations=1, lengths=1).decode(StubSlots(*TRIED), SOURCES, Request())
    greedy = SlotGreedy().decode(StubSlots(*TRIED), SOURCES, Request())
    assert [own[0].ids for own in once] == [own[0].ids for own in greedy]
    assert [own[0].score for own in once] == pytest.approx([own[0].score for own in greedy], abs=1e-12)
    assert [own[0].passes for own in once] == [(own[0].ids,) for own in greedy]


@either
@pytest.mark.parametrize("penalty", [-2.0, 0.0, 1.0, 3.0])
def test_lengths_are_ranked_by_score_and_length(kind: type[RefinedSlots], penalty: float) -> None:
    request = Request(results=2, length_penalty=penalty)
    found = kind(4, lengths=3).decode(StubSlots(*TRIED), SOURCES, request)
    for source, own, lengths in zip(SOURCES, found, TRIED, strict=True):

        def value(length: int, source: list[int] = source) -> float:
            return plainly_refined(source, length, 4, kind is UpdateAll).score / float(length**penalty)

        ranked = sorted(lengths, key=value, reverse=True)
        assert [len(one.ids) for one in own] == ranked[:2]


@either
def test_a_sweep_refines_once(kind: type[RefinedSlots]) -> None:
    runtime, penalties, strategy = StubSlots(*TRIED), [-20.0, 0.0, 1.0, 20.0], kind(4, lengths=3)
    swept = strategy.sweep(runtime, SOURCES, Request(results=3), penalties)
    assert len(runtime.readers) == 1
    assert len(runtime.readers[0].filled) == 4
    for index, penalty in enumerate(penalties):
        expected = strategy.decode(runtime, SOURCES, Request(length_penalty=penalty))
        assert [[own[index]] for own in swept] == expected
    assert len({own[0].ids for own in swept} | {own[-1].ids for own in swept}) > len(SOURCES)


@either
def test_sentences_are_refined_as_if_alone(kind: type[RefinedSlots]) -> None:
    strategy = kind(5, lengths=3)
    together = strategy.decode(StubSlots(*TRIED), SOURCES, Request(results=3))
    alone = [
        strategy.decode(StubSlots(lengths), [source], Request(results=3))[0]
        for source, lengths in zip(SOURCES, TRIED, strict=True)
    ]
    assert together == alone


@either
def test_rows_that_are_done_leave_the_batch(kind: type[RefinedSlots]) -> None:
    runtime = StubSlots([2], [3], [7])
    found = kind(4, lengths=1).decode(runtime, SOURCES, Request())
    lengths = [[len(row) for row in rows] for rows in runtime.readers[0].filled]
    assert lengths == [[3, 7], [7], [7], [7]]  # an empty sentence needs no pass, a single word one
    assert [len(own[0].passes) for own in found] == [0, 1, 4]
    assert (found[0][0].ids, found[0][0].score) == ((BOS, EOS), 0.0)


@either
def test_no_special_token_stands_inside(kind: type[RefinedSlots]) -> None:
    found = kind(6, lengths=3).decode(StubSlots(*TRIED), SOURCES, Request(results=3))
    for one in (one for own in found for one in own):
        for ids in (one.ids, *one.passes):
            assert (ids[0], ids[-1]) == (BOS, EOS)
            assert set(ids[1:-1]) <= set(WORDS)


def test_nothing_is_found_of_no_sources() -> None:
    assert MaskPredict().decode(StubSlots(), [], Request()) == []


@either
@pytest.mark.parametrize("setting", ["iterations", "lengths"])
@pytest.mark.parametrize("value", [0, -3])
def test_settings_are_checked_in_one_line(kind: type[RefinedSlots], setting: str, value: int) -> None:
    expected = "at least 1" if setting == "iterations" else "in 1 … 256"
    message = f"{kind.name}.{setting} must be {expected}, got {value}"
    with pytest.raises(DecodingError, match=f"^{re.escape(message)}$"):
        parse_strategy(f"{kind.name}:{setting}={value}", StubSlots())


def test_equal_scores_go_by_position() -> None:
    scores = np.array([[0.0, -1.0, -1.0, -2.0, -1.0], [np.inf, -np.inf, -np.inf, 0.0, -np.inf]])
    among = np.array([[True] * 5, [True, False, True, True, False]])
    marked = least(scores, among, np.array([3, 2]))
    assert marked.tolist() == [[False, True, True, True, False], [False, False, True, True, False]]
    assert least(scores, among, np.array([0, 9])).tolist() == [[False] * 5, among[1].tolist()]


def test_what_lies_beyond_a_row_counts_for_nothing() -> None:
    """Rubbish in fixed positions and in padding is neither read as a prediction nor ever replaced."""
    canvas = np.array([[7, 0, 0, 0, 8], [7, 0, 8, 77, 78]])
    inner = np.array([[False, True, True, True, False], [False, True, False, False, False]])
    asked = []

    def run(
        rows: np.ndarray, canvas: np.ndarray, visible: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        asked.append((rows.tolist(), canvas.shape))
        return np.zeros(canvas.shape) - np.arange(canvas.shape[1]), np.full(canvas.shape, 5)

    found = refine(canvas, np.array([5, 3]), inner, run, MaskLeastCertain(3))
    assert found.tokens.tolist() == [[7, 5, 5, 5, 8], [7, 5, 8, 77, 78]]
    assert found.passes.tolist() == [3, 1]
    assert asked == [([0, 1], (2, 5)), ([0], (1, 5)), ([0], (1, 5))]


def test_a_draft_remembers_what_the_first_pass_found() -> None:
    canvas, inner = np.array([[2, 0, 0, 3]]), np.array([[False, True, True, False]])
    draft = Draft.start(canvas, inner)
    assert draft.canvas.tolist() == [[2, MASK, MASK, 3]]
    one = draft.after(inner, np.array([[-9.0, -1.0, -2.0, -9.0]]), np.array([[1, 5, 6, 1]]))
    assert (one.passed, one.changed.tolist(), one.first.tolist()) == (1, [True], [[0.0, -1.0, -2.0, 0.0]])
    two = one.after(inner, np.array([[-9.0, -3.0, -4.0, -9.0]]), np.array([[1, 5, 6, 1]]))
    assert (two.changed.tolist(), two.first.tolist()) == ([False], one.first.tolist())
    assert (two.tokens.tolist(), two.scores.tolist()) == ([[2, 5, 6, 3]], [[0.0, -3.0, -4.0, 0.0]])
