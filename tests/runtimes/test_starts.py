"""What is kept of the decoder's start: by length, as far as the rows reach."""

from collections.abc import Mapping

import numpy as np
import pytest

from pcfgnat.runtimes.onnx.starts import Starts


class Recorder:
    """Stands for onnxruntime: counts the runs; what it gives out says what it was given."""

    def __init__(self) -> None:
        self.lengths: list[int] = []

    def __call__(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        canvas, mask = inputs["canvas"], inputs["canvas_mask"]
        assert mask.shape == (1, len(canvas))
        assert mask.all()
        self.lengths.append(len(canvas))
        return {"started": canvas + 1, "query": canvas * 2}


def canvas(length: int) -> np.ndarray:
    return np.full((length, 3), length, dtype=np.float32)


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


def test_sentences_are_padded_to_the_longest(recorder: Recorder) -> None:
    found = Starts(recorder, canvas).of(np.array([2, 4, 2]))
    padded = np.zeros((2, 3))
    expected = [canvas(2) + 1, padded, canvas(4) + 1, canvas(2) + 1, padded]
    np.testing.assert_array_equal(found["canvas"], np.concatenate(expected))
    expected = [canvas(2) * 2, padded, canvas(4) * 2, canvas(2) * 2, padded]
    np.testing.assert_array_equal(found["query"], np.concatenate(expected))
    assert recorder.lengths == [2, 4]


def test_lengths_used_last_are_kept(recorder: Recorder) -> None:
    starts = Starts(recorder, canvas, rows=10)
    for length in (4, 6, 4, 3, 4, 6):  # 4 and 6 fit together; 3 drives out 6, which is older than 4
        found = starts.of(np.array([length]))
        np.testing.assert_array_equal(found["canvas"], canvas(length) + 1)
    assert recorder.lengths == [4, 6, 3, 6]


def test_a_length_beyond_the_rows_is_kept_alone(recorder: Recorder) -> None:
    starts = Starts(recorder, canvas, rows=10)
    for length in (5, 50, 50, 5):
        starts.of(np.array([length]))
    assert recorder.lengths == [5, 50, 5]
