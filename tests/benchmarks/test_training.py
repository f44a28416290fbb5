import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from benchmarks.regions import BACKWARD, OPTIMISER, PROGRAM, REGIONS, REST, seconds_by_region
from benchmarks.training import (
    generated,
    measure_training,
    paper_size_configs,
    training_report,
)

from pcfgnat.structures.profiling import DECODER, DYNAMIC_PROGRAM, ENCODER, GLANCING, OUTPUT_LAYER
from pcfgnat.text import Prepared
from pcfgnat.training.config import BatchConfig
from tests.benchmark.test_results import MACHINE
from tests.benchmarks.tiny import TINY
from tests.cli.conftest import World


def event(name: str, own: float, *children: SimpleNamespace, root: bool = False) -> SimpleNamespace:
    parent = None if root else "some"
    return SimpleNamespace(
        name=name, self_cpu_time_total=1e6 * own, cpu_parent=parent, cpu_children=list(children)
    )


def test_time_counts_for_the_innermost_region_but_for_what_is_counted_whole() -> None:
    events = [
        event(
            GLANCING,
            1.0,
            event(DECODER, 2.0, event("aten::mm", 3.0)),
            event(DYNAMIC_PROGRAM, 4.0, event(ENCODER, 5.0)),
            root=True,
        ),
        event(DECODER, 6.0, event(OUTPUT_LAYER, 7.0), root=True),
        event("autograd::engine::evaluate_function: X", 8.0, event(DYNAMIC_PROGRAM, 9.0), root=True),
        event("Optimizer.step#AdamW.step", 10.0, root=True),
        event("aten::add", 11.0, root=True),
    ]
    found = seconds_by_region(events, whole=70.0)
    assert found == {
        "encoder": 0.0,
        "glancing pass": 1.0 + 2.0 + 3.0,
        "decoder": 6.0,
        "output layer": 7.0,
        "rule scores": 0.0,
        PROGRAM: 4.0 + 5.0 + 9.0,
        BACKWARD: 8.0,
        OPTIMISER: 10.0,
        REST: 11.0 + 4.0,
    }


@pytest.mark.slow
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
    assert all(found[0].share(region) > 0 for region in (PROGRAM, BACKWARD, OPTIMISER, REST))
    assert found[1].share(PROGRAM) == found[1].share("glancing pass") == 0
    report = training_report(found, MACHINE)
    report.write(tmp_path)
    assert PROGRAM in report.text
    data = json.loads((tmp_path / "training.json").read_text(encoding="utf-8"))
    assert set(data["training"][0]["shares"]) == set(REGIONS)
    assert (tmp_path / "training.md").read_text(encoding="utf-8").count("| pcfg ") == 1
    assert (tmp_path / "training.png").stat().st_size > 1000


def test_prepared_text_will_do_as_well(world: World) -> None:
    config = replace(paper_size_configs(TINY)["pcfg"], batches=BatchConfig(sentences=4, accumulate=2))
    network = {**config.network, "transformer": {**config.network["transformer"], "max_positions": 100}}
    (steps,) = measure_training(
        {"x": replace(config, network=network)}, Prepared.open(world.prepared), 0, rounds=1
    )
    assert steps.tokens[0] > 8


def test_generated_batches_are_repeatable() -> None:
    first, second = (generated(50, 100, seed=3) for _ in range(2))
    assert torch.equal(first.target.ids, second.target.ids)
    assert 100 <= int(first.target.lengths.sum()) < 140
