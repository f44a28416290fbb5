"""`pcfgnat ablate`: what each setting is worth."""

import argparse
from pathlib import Path

from pcfgnat.cli.files import notice
from pcfgnat.cli.options import Commands, new_command, positive, use_machine

DESCRIPTION = """\
Train a model for every combination of some settings, judge each under every decoding strategy, and compare.

An axis is a setting of the recipe with its values, such as optimiser.rate=1e-3,5e-4. Short names:

  lambda=1,2           λ, main-chain nodes (or vertices, or slots) for each source token
  l=0,1,2              depth of the prefix trees
  layers=3-3,5-1       encoder and decoder layers
  glancing=on,off      that of the recipe, or none
  data=DIR,DIR         what to train on, such as raw and distilled text
  decode=…, length_penalty=…   ways to decode: these need no further training

A setting with one value applies to all cells. Rerun an interrupted command to resume; finished cells are not
repeated. A cell that fails is recorded, and the others continue.
"""
EXAMPLE = """\
examples:
  pcfgnat ablate pcfg data=DIR lambda=1,2 l=0,1,2 decode=viterbi,greedy --output runs/ablation
  pcfgnat ablate pcfg data=DIR layers=3-3,5-1 lambda=1,2 --int8 --threads 1 --output runs/depths
  pcfgnat ablate grid.toml

grid.toml:
  config = "pcfg"
  output = "runs/ablation"

  [grid]
  data = ["DIR"]
  lambda = [1, 2]
  "optimiser.rate" = [1e-3, 5e-4]
"""


def add_command(commands: Commands) -> None:
    """Describe the command's options."""
    parser = new_command(commands, "ablate", "train and compare a grid of settings", DESCRIPTION, run)
    parser.epilog = EXAMPLE
    parser.add_argument("config", metavar="RECIPE|GRID.toml", help="what to vary (pcfgnat train --list)")
    parser.add_argument("axes", nargs="*", metavar="key=v1,v2", help="settings and their values")
    parser.set_defaults(late_assignments="axes")
    parser.add_argument(
        "--output",
        type=Path,
        metavar="DIR",
        help="where the runs and the results go (default: output of the grid)",
    )
    parser.add_argument(
        "--test", type=Path, metavar="DIR",
        help="prepared data whose test part all cells are judged on (default: the data of each cell)",
    )  # fmt: skip
    parser.add_argument(
        "--int8", action="store_true",
        help="export each model in 8 bits, with the shortlist of its data, judge that, and time all in "
        "turns: milliseconds for a sentence, alone and in batches of 32",
    )  # fmt: skip
    parser.add_argument("--limit", type=positive, metavar="N", help="only its first N sentences")
    group = parser.add_argument_group("machine, for decoding; training uses the settings of the recipe")
    group.add_argument("--device", default="cpu", help="cpu, cuda, cuda:1, mps … (default: cpu)")
    group.add_argument(
        "--threads", type=positive, metavar="N", help="cores to use (default: what torch chooses)"
    )


def run(options: argparse.Namespace) -> None:
    """Train, judge, and print the table."""
    from pcfgnat.ablation import Judge, ablate, ablation_report, read_grid

    device = use_machine(options)
    grid = read_grid(options.config, options.axes, options.output)
    judge = Judge(options.test, options.limit, str(device), options.threads, options.int8)
    outcomes = ablate(grid, judge, notice)
    print(ablation_report(grid, outcomes).text)
    notice(f"written to {grid.output}: ablation.md, .csv, .json and .png")
    if not any(outcome.status == "done" for outcome in outcomes):
        raise ValueError("no run finished; see the table")
