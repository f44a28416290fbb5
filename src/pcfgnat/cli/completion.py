"""`pcfgnat completion`: completion of commands, options, recipes and settings in a shell."""

import argparse
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pcfgnat.cli.options import Commands, new_command

DESCRIPTION = """\
Print a script that makes a shell complete commands, options, recipes and settings.

  bash   eval "$(pcfgnat completion bash)"      in ~/.bashrc
  zsh    eval "$(pcfgnat completion zsh)"       in ~/.zshrc, after compinit
  fish   pcfgnat completion fish | source       in ~/.config/fish/config.fish
"""
USUAL = ("data", "output", "warm_start", "threads", "time_budget", "device", "precision")
SHELLS = ("bash", "zsh", "fish")
ASKED = "_ARGCOMPLETE"  # in the environment when a shell asks what may follow


def add_command(commands: Commands) -> None:
    """Describe the command's options."""
    parser = new_command(commands, "completion", "print a script for completion in a shell", DESCRIPTION, run)
    parser.add_argument("shell", choices=SHELLS)


def run(options: argparse.Namespace) -> None:
    """Print the script."""
    from argcomplete.shell_integration import shellcode

    print(shellcode(["pcfgnat"], shell=options.shell))


def answer_shell(parser: argparse.ArgumentParser) -> None:
    """Print what may follow, and end, if a shell asks for that."""
    if ASKED in os.environ:
        import argcomplete

        argcomplete.autocomplete(parser)


def completed_by(argument: argparse.Action, completer: Callable[..., list[str]]) -> None:
    """Register a function that returns the values of an argument to argcomplete."""
    argument.completer = completer  # type: ignore[attr-defined]


def complete_recipe(prefix: str, **_: Any) -> list[str]:
    """Return the recipes that begin so, and files by argcomplete's own rules."""
    from argcomplete.completers import FilesCompleter

    from pcfgnat.recipes import recipe_names

    files = list(FilesCompleter(("toml",))(prefix))
    return [*(name for name in recipe_names() if name.startswith(prefix)), *files]


def complete_setting(prefix: str, parsed_args: argparse.Namespace, **_: Any) -> list[str]:
    """Return the settings that begin so, of those that the recipe has or most runs need."""
    from argcomplete.completers import FilesCompleter

    from pcfgnat.config import ConfigError
    from pcfgnat.recipes import recipe_path
    from pcfgnat.storage.toml import load_toml

    if parsed_args.recipe is None:
        return []
    key, equals, value = prefix.partition("=")
    if equals:
        return [f"{key}={file}" for file in FilesCompleter()(value)]
    try:
        recipe = load_toml(recipe_path(parsed_args.recipe))
    except ConfigError:  # the command will say so, not its completion
        recipe = {}
    names = [*USUAL, *_keys(recipe)]
    return [f"{name}=" for name in dict.fromkeys(names) if name.startswith(prefix)]


def _keys(data: Mapping[str, Any], where: str = "") -> Iterator[str]:
    for name, value in data.items():
        if isinstance(value, Mapping):
            yield from _keys(value, f"{where}{name}.")
        else:
            yield f"{where}{name}"


def complete_strategies(prefix: str, **_: object) -> list[str]:
    """Return the strategies that begin so; which of them a model has is not known before it is loaded."""
    from pcfgnat.decoding import STRATEGIES

    names = dict.fromkeys(strategy.name for strategy in STRATEGIES)
    return [name for name in names if name.startswith(prefix)]
