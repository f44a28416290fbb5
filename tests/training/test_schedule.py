import pytest

from pcfgnat.training.config import OptimiserConfig
from pcfgnat.training.schedule import Limits, rate


@pytest.mark.parametrize(
    ("limits", "progress", "reason"),
    [
        (Limits(100, None, None), 0.5, None),
        (Limits(50, None, None), 1.0, "50 steps"),
        (Limits(40, None, None), 1.0, "40 steps"),
        (Limits(100, 2.5, None), 0.8, None),
        (Limits(100, 2.0, None), 1.0, "2 epochs"),
        (Limits(None, None, 900.0), 2 / 3, None),
        (Limits(100, 4.0, 600.0), 1.0, "time budget of 10 minutes"),
    ],
)
def test_a_run_is_as_far_as_its_nearest_limit(limits: Limits, progress: float, reason: str | None) -> None:
    assert limits.progress(50, 2.0, 600.0) == pytest.approx(progress)
    assert limits.reached(50, 2.0, 600.0) == reason


def test_the_rate_goes_up_and_then_as_it_should() -> None:
    def rates(schedule: str, warm_up: int = 4) -> list[float]:
        config = OptimiserConfig(rate=1.0, warm_up=warm_up, schedule=schedule)  # type: ignore[arg-type]
        return [rate(config, step, step / 16) for step in range(16)]

    assert rates("constant") == [0.25, 0.5, 0.75, *[1.0] * 13]
    assert rates("linear") == [0.25, 0.5, 0.75, *[1 - step / 16 for step in range(3, 16)]]
    assert rates("inverse_sqrt")[:4] == [0.25, 0.5, 0.75, 1.0]
    assert rates("inverse_sqrt")[15] == 0.5
    assert rates("linear", warm_up=0)[0] == 1.0
