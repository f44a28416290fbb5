"""What is kept by length: made once, until the rows are used up by lengths used later."""

from pcfgnat.runtimes.onnx.kept import Kept


def test_values_are_made_once_as_far_as_rows_reach() -> None:
    made: list[int] = []

    def make(length: int) -> str:
        made.append(length)
        return str(length)

    kept = Kept(make, rows=20, size=lambda length: 2 * length)
    assert [kept.of(length) for length in (4, 6, 4, 3, 4, 6)] == ["4", "6", "4", "3", "4", "6"]
    assert made == [4, 6, 3, 6]  # 4 and 6 take all rows; 3 drives out 6, which is older than 4
    assert kept.of(50) == "50"  # kept alone
    assert kept.of(50) == "50"
    assert made == [4, 6, 3, 6, 50]
