"""`pcfgnat average`: several checkpoints to one."""

import argparse
from pathlib import Path

from pcfgnat.cli.options import Commands, new_command

DESCRIPTION = """\
Average the weights of several checkpoints of one training: usually better than the best of them.
With --half the result takes half the space, with almost no loss; this also works with a single checkpoint.
"""


def add_command(commands: Commands) -> None:
    """Describe the command's options."""
    parser = new_command(commands, "average", "average checkpoints", DESCRIPTION, run)
    parser.add_argument("checkpoints", nargs="+", type=Path, metavar="CHECKPOINT")
    parser.add_argument("--output", type=Path, required=True, metavar="DIR", help="the new checkpoint")
    parser.add_argument("--half", action="store_true", help="store the weights in half precision")
    parser.add_argument(
        "--length-penalty",
        type=float,
        metavar="B",
        help="default of the result, such as `evaluate --tune-on` finds",
    )


def run(options: argparse.Namespace) -> None:
    """Average, and print where the result is."""
    import torch

    from pcfgnat.checkpoints.averaging import average_checkpoints

    dtype = torch.float16 if options.half else None
    average_checkpoints(options.checkpoints, options.output, dtype, options.length_penalty)
    print(f"average of {len(options.checkpoints)} checkpoints written to {options.output}")
