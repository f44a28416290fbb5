import math

import pytest

from pcfgnat.report.statistics import Ratio, Timing, mean, quantile, ratio, standard_error


def test_means_and_quantiles() -> None:
    values = [0.1, 0.4, 0.7, 0.8]
    assert mean(values) == pytest.approx(0.5)
    assert standard_error(values) == pytest.approx(math.sqrt(0.3 / 3 / 4))
    assert quantile(values, 0.5) == pytest.approx(0.55)
    assert (quantile(values, 0.0), quantile(values, 1.0), quantile([7.0], 0.95)) == (0.1, 0.8, 7.0)
    assert (mean([]), standard_error([1.0]), ratio(1, 0), ratio(1, 4)) == (None, None, None, 0.25)
    with pytest.raises(ValueError, match="at least one value, got none"):
        quantile([], 0.5)


def test_timing_is_of_all_calls() -> None:
    found = Timing.of([4.0, 1.0, 2.0, 3.0, 100.0])
    assert (found.median, found.low, found.high, found.calls) == (3.0, 2.0, 4.0, 5)
    assert found.p95 == pytest.approx(80.8)


def test_a_ratio_is_of_medians_and_its_spread_of_rounds() -> None:
    found = Ratio.of([[8.0, 8.0], [16.0], [30.0]], [[2.0, 2.0], [4.0], []])
    assert found.value == 12.0 / 2.0
    assert (found.low, found.high) == (4.0, 4.0)  # the disturbance of the second round hit both
    assert Ratio.of([[3.0], []], [[], [1.0]]) == Ratio(3.0, 3.0, 3.0)
