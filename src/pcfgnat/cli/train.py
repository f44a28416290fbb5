"""`pcfgnat train`: a config to checkpoints."""

import argparse
from pathlib import Path

from pcfgnat.cli.files import notice
from pcfgnat.cli.options import Commands, new_command

DESCRIPTION = """\
Train a model as a TOML file says. Every setting may be overruled by key=value. With several GPUs or machines:

  torchrun --nproc-per-node 8 -m pcfgnat train CONFIG.toml
"""


def add_command(commands: Commands) -> None:
    """Describe the command's options."""
    parser = new_command(commands, "train", "train a model", DESCRIPTION, run)
    parser.add_argument("config", type=Path, metavar="CONFIG.toml")
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="settings instead of the config's")


def run(options: argparse.Namespace) -> None:
    """Train, and say where the result is."""
    from pcfgnat.storage.toml import load_config
    from pcfgnat.training import TrainConfig, train

    result = train(load_config(TrainConfig, options.config, options.overrides))
    if result.rank:
        return
    bleu = "" if result.bleu is None else f", BLEU {result.bleu:.2f} on the validation set"
    print(f"step {result.step}: {result.reason}{bleu}")
    if result.interrupted:
        notice("the same command goes on from here")
        raise KeyboardInterrupt  # which is what it was; the exit code says so
    print(f"the model is in {result.final}")
