"""Axes, cells, and the table of what came of them."""

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest

from pcfgnat.ablation import Grid, Outcome, ablation_report, read_axes, read_grid
from pcfgnat.ablation.outcome import to_csv
from pcfgnat.config import ConfigError
from pcfgnat.storage.toml import dump_toml
from tests.analysis.subjects import png_size
from tests.training.small_runs import settings

GRAMMAR = ("network.name=pcfg", "network.upsampling=4", "objective.glancing.first=0.5")


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "config.toml"
    path.write_text(dump_toml(settings(tmp_path / "data", tmp_path / "unused", *GRAMMAR)))
    return str(path)


def test_cells_are_all_combinations(config: str, tmp_path: Path) -> None:
    axes = read_axes(["lambda=1,2", "l=0,1", "glancing=on,off", "decode=viterbi,greedy", "steps=7"])
    grid = Grid(config, tmp_path / "out", axes)
    assert grid.varied == ["lambda", "l", "glancing", "decode"]
    cells = grid.cells()
    assert len(cells) == 8
    last = cells[-1]
    assert last.name == "lambda-2_l-1_glancing-off_steps-7"
    assert last.values == {"lambda": 2, "l": 1, "glancing": "off", "steps": 7}
    assert last.config.output == tmp_path / "out" / last.name
    assert last.config.steps == 7
    network, glancing = last.config.network, last.config.objective["glancing"]
    assert (network["upsampling"], network["prefix_depth"]) == (2, 1)
    assert (glancing["first"], glancing["last"]) == (0.0, 0.0)
    assert cells[-2].config.objective["glancing"]["first"] == 0.5
    assert grid.decodings() == [{"decode": "viterbi"}, {"decode": "greedy"}]
    assert len({cell.fingerprint for cell in cells}) == 8
    moved = Grid(config, tmp_path / "elsewhere", axes).cells()
    assert [cell.fingerprint for cell in moved] == [cell.fingerprint for cell in cells]


def test_depths_are_named_together(config: str, tmp_path: Path) -> None:
    cells = Grid(config, tmp_path, read_axes(["layers=3-3,5-1", "lambda=1"])).cells()
    assert [cell.name for cell in cells] == ["layers-3-3_lambda-1", "layers-5-1_lambda-1"]
    depths = cells[1].config.network["transformer"]
    assert (depths["layers_encoder"], depths["layers_decoder"]) == (5, 1)


def test_without_axes_there_is_one_cell(config: str, tmp_path: Path) -> None:
    grid = Grid(config, tmp_path / "out")
    (cell,) = grid.cells()
    assert (cell.name, grid.decodings()) == ("run", [{}])


def test_a_file_may_have_the_grid(config: str, tmp_path: Path) -> None:
    path = tmp_path / "grid.toml"
    rows = [
        f'config = "{config}"',
        'output = "runs/x"',
        "[grid]",
        "lambda = [1, 2]",
        '"optimiser.rate" = [1e-3]',
    ]
    path.write_text("\n".join(rows))
    grid = read_grid(str(path), ["lambda=3", "decode=greedy"], None)
    assert grid == Grid(
        config, Path("runs/x"), {"lambda": (3,), "optimiser.rate": (1e-3,), "decode": ("greedy",)}
    )
    assert read_grid(str(path), [], tmp_path / "y").output == tmp_path / "y"
    path.write_text("\n".join([*rows[:3], "lambda = []"]))
    with pytest.raises(ConfigError, match=r"grid\.lambda must have at least one value"):
        read_grid(str(path), [], None)
    with pytest.raises(ConfigError, match="must have an --output"):
        read_grid(config, [], None)


@pytest.mark.parametrize(
    ("axis", "message"),
    [
        ("lambda", "an axis must look like key=value,value, got 'lambda'"),
        ("lambda=0,1", r"cell lambda-0: network\.upsampling must be at least 1"),
        ("nonsense=1,2", "cell nonsense-1: unknown key 'nonsense'"),
        ("layers=51", "layers must look like 5-1, for encoder and decoder, got 51"),
        ("glancing=maybe", "glancing must be on .* or off, got 'maybe'"),
        ("data=a/x,b/x", "cells must have different names, got data-x, data-x"),
    ],
)
def test_what_cannot_be_used_is_said_at_once(config: str, tmp_path: Path, axis: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Grid(config, tmp_path, read_axes([axis])).cells()


def outcomes(grid: Grid) -> list[Outcome]:
    found = []
    for cell in grid.cells():
        for number, decoding in enumerate(grid.decodings()):
            bleu = 20.0 + cell.config.network["upsampling"] + number
            done = Outcome(
                cell.name, {**cell.values, **decoding}, cell.fingerprint, "data test", "done",
                bleu=bleu, chrf=40.0, length_ratio=0.98765, repeated_words=0.5, missing_words=12.34,
                sentences_per_second=10.0 / (1 + number),
                valid_bleu=21.0, steps=100, hours=0.5, signatures={"BLEU": "tok:13a"},
            )  # fmt: skip
            found.append(done)
    return [*found[:-1], replace(found[-1], bleu=None, steps=None).failed("out of\nluck")]


def test_table_csv_and_picture(config: str, tmp_path: Path) -> None:
    grid = Grid(config, tmp_path / "out", read_axes(["lambda=1,2", "decode=viterbi,greedy", "steps=7"]))
    found = outcomes(grid)
    report = ablation_report(grid, found)
    lines = report.text.splitlines()
    assert lines[2] == "judged on data test; all with steps=7"
    assert [cell.strip() for cell in lines[6].split("|")[1:-1]] == [
        "1", "viterbi", "21.00", "40.00", "0.988", "0.50", "12.3", "10.0", "21.00", "100", "0.500", "done",
    ]  # fmt: skip
    assert "- failed: λ = 2, decode = greedy: out of luck" in lines
    rows = list(csv.DictReader(to_csv(grid, found).splitlines()))
    assert [row["bleu"] for row in rows] == ["21.0", "22.0", "22.0", ""]
    assert rows[-1]["error"] == "out of luck"
    assert rows[0]["steps"] == "100"
    paths = report.write(tmp_path)
    assert json.loads(paths[1].read_text())["axes"]["lambda"] == [1, 2]
    assert png_size(paths[2])[0] > 1000


def test_names_are_drawn_as_bars_and_nothing_as_nothing(config: str, tmp_path: Path) -> None:
    grid = Grid(config, tmp_path, read_axes(["glancing=on,off"]))
    assert ablation_report(grid, outcomes(grid)).picture().startswith(b"\x89PNG")
    assert ablation_report(grid, []).picture().startswith(b"\x89PNG")
    assert not outcomes(grid)[0].answers(outcomes(grid)[1])
    assert outcomes(grid)[0].answers(outcomes(grid)[0])
    assert not outcomes(grid)[1].answers(outcomes(grid)[1])  # it failed: try again
