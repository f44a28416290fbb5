"""`pcfgnat train`: a recipe to checkpoints."""

import argparse

from pcfgnat.cli.completion import complete_recipe, complete_setting, completed_by
from pcfgnat.cli.files import detail, notice
from pcfgnat.cli.options import Commands, new_command

DESCRIPTION = """\
Train a model by a recipe: the name of one that the package carries (--list), or the path of a TOML file.
Every setting can be overridden by key=value and unset by key=none. An interrupted run is resumed by the same
command, even after kill -9.
"""
EXAMPLE = """\
examples:
  pcfgnat train starter data=prepared/en-de output=runs/first
  pcfgnat train pcfg data=prepared/en-de output=runs/pcfg warm_start=runs/teacher/final optimiser.rate=5e-4
  pcfgnat train pcfg --print > my.toml          (all settings, with a comment on each)
  torchrun --nproc-per-node 8 -m pcfgnat train paper/pcfg_en_de data=… output=…
"""


def add_command(commands: Commands) -> None:
    """Describe the command's options."""
    parser = new_command(commands, "train", "train a model", DESCRIPTION, run)
    parser.epilog = EXAMPLE
    recipe = parser.add_argument(
        "recipe", nargs="?", metavar="RECIPE", help="a recipe's name, or a TOML file"
    )
    overrides = parser.add_argument(
        "overrides", nargs="*", metavar="key=value", help="settings instead of the recipe's"
    )
    completed_by(recipe, complete_recipe)
    completed_by(overrides, complete_setting)
    parser.set_defaults(late_assignments="overrides")
    actions = parser.add_mutually_exclusive_group()
    actions.add_argument("--list", action="store_true", help="list the recipes, and do nothing else")
    actions.add_argument(
        "--print", action="store_true", help="print all settings as TOML with comments, and do nothing else"
    )


def run(options: argparse.Namespace) -> None:
    """Train, and print where the result is."""
    if options.list:
        print(_listed())
        return
    if options.recipe is None:
        raise ValueError("RECIPE is missing; pcfgnat train --list shows those that the package carries")
    from pcfgnat.training.recipe import plan_run, print_run

    if options.print:
        print(print_run(options.recipe, options.overrides), end="")
        return
    from pcfgnat.config import to_dict
    from pcfgnat.storage.toml import dump_toml
    from pcfgnat.training import train

    planned = plan_run(options.recipe, options.overrides)
    for note in planned.notes:
        notice(note)
    detail(f"settings:\n{dump_toml(to_dict(planned.config))}")
    result = train(planned.config)
    if result.rank:
        return
    bleu = "" if result.bleu is None else f", BLEU {result.bleu:.2f} on the validation set"
    print(f"step {result.step}: {result.reason}{bleu}")
    if result.interrupted:
        notice("run the same command again to resume")
        raise KeyboardInterrupt  # which is what it was; the exit code says so
    print(f"the model is in {result.final}")


def _listed() -> str:
    from pcfgnat.recipes import recipe_names, summary

    names = recipe_names()
    width = max(map(len, names))
    return "\n".join(f"{name:<{width}}  {summary(name)}" for name in names)
