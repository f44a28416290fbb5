import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from pcfgnat.benchmark.regions import CALLS, REGIONS, Stopwatch, Watched
from pcfgnat.benchmark.training import (
    generated,
    measure_training,
    paper_size_configs,
    report_training,
)
from pcfgnat.text import Prepared
from pcfgnat.training.config import BatchConfig
from tests.benchmark.test_results import MACHINE
from tests.benchmark.tiny import TINY
from tests.cli.conftest import World


def test_time_counts_for_the_innermost_region_but_for_what_is_counted_whole() -> None:
    watch = Stopwatch()
    with watch.running(), watch.region("glancing pass"):
        with watch.region("decoder"):
            pass
        with watch.region("dynamic program"), watch.region("encoder"):
            pass
    assert {name for name, seconds in watch.seconds.items() if seconds > 0} == {
        "rest",
        "glancing pass",
        "dynamic program",
    }


def test_calls_are_as_before_when_nobody_watches() -> None:
    before = [vars(owner).get(name) for owner, name, _ in CALLS]
    with Watched():
        assert [vars(owner).get(name) for owner, name, _ in CALLS] != before
    assert [vars(owner).get(name) for owner, name, _ in CALLS] == before


def test_every_model_is_measured_and_every_part_of_the_grammar_found(tmp_path: Path) -> None:
    everyone = paper_size_configs(TINY)
    assert list(everyone) == ["pcfg", "dag", "ctc", "ar", "ar12-1"]
    configs = {name: replace(everyone[name], batches=BatchConfig(tokens=60)) for name in ("pcfg", "ar")}
    found = measure_training(configs, None, TINY.vocabulary, rounds=2)
    assert [steps.name for steps in found] == ["pcfg", "ar"]
    for steps in found:
        assert [len(column) for column in (steps.seconds, steps.tokens, steps.regions)] == [2, 2, 2]
        assert sum(steps.share(region) for region in REGIONS) == pytest.approx(1.0, abs=0.05)
        assert min(steps.tokens) >= 60
        assert steps.tokens_per_second > 0
    assert all(found[0].share(region) > 0 for region in REGIONS)
    assert found[1].share("dynamic program") == found[1].share("glancing pass") == 0
    printed = report_training(found, MACHINE, tmp_path)
    assert "dynamic program" in printed
    data = json.loads((tmp_path / "training.json").read_text(encoding="utf-8"))
    assert set(data["training"][0]["shares"]) == set(REGIONS)
    assert (tmp_path / "training.md").read_text(encoding="utf-8").count("| pcfg |") == 1
    assert (tmp_path / "training.png").stat().st_size > 1000


def test_prepared_text_will_do_as_well(world: World) -> None:
    config = replace(paper_size_configs(TINY)["pcfg"], batches=BatchConfig(sentences=4, accumulate=2))
    model = {**config.model, "transformer": {**config.model["transformer"], "max_positions": 100}}
    (steps,) = measure_training(
        {"x": replace(config, model=model)}, Prepared.open(world.prepared), 0, rounds=1
    )
    assert steps.tokens[0] > 8


def test_generated_batches_are_repeatable() -> None:
    first, second = (generated(50, 100, seed=3) for _ in range(2))
    assert torch.equal(first.target.ids, second.target.ids)
    assert 100 <= int(first.target.lengths.sum()) < 140
