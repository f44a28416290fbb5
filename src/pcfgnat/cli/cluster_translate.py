"""`pcfgnat cluster-translate`: a corpus to its translation, on many machines."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from pcfgnat.cli.files import notice
from pcfgnat.cli.options import Commands, add_decoding_options, add_machine_options, new_command, positive
from pcfgnat.progress import progress_bar

if TYPE_CHECKING:
    from pcfgnat.cluster import ClusterJob

DESCRIPTION = """\
Translate a corpus with a pool of workers on a Ray cluster, or let a teacher write training targets for it.

The input is cut into shards; each is translated by one worker and appears whole in OUTPUT.shards, once,
whatever fails on the way; rerun the command to complete the rest. In the end all shards are joined in
OUTPUT, in order, line for line. Model, input and output must have the same paths on all machines.
Needs the extra `ray`.
"""
EXAMPLE = """\
examples:
  pcfgnat cluster-translate --model runs/teacher/final --input train.en --output distilled.de --workers 2
  pcfgnat cluster-translate … --address auto --workers 64 --device cuda     on a running cluster
"""


def add_command(commands: Commands) -> None:
    """Describe the command's options."""
    parser = new_command(
        commands, "cluster-translate", "translate a corpus on many machines", DESCRIPTION, run
    )
    parser.epilog = EXAMPLE
    parser.add_argument("--model", type=Path, metavar="DIR", help="checkpoint (default: the bundled model)")
    parser.add_argument("--input", type=Path, required=True, metavar="FILE", help="text, not packed")
    parser.add_argument("--output", type=Path, required=True, metavar="FILE")
    parser.add_argument(
        "--pieces", action="store_true", help="write subwords, as text that is split has them"
    )
    group = parser.add_argument_group("cluster")
    group.add_argument(
        "--workers", type=positive, default=1, metavar="N", help="number of models that run (default: 1)"
    )
    group.add_argument(
        "--address", metavar="HOST:PORT", help="of a Ray cluster, or auto (default: start one)"
    )
    group.add_argument(
        "--shard-lines", type=positive, default=1000, metavar="N", help="lines of a shard (default: 1000)"
    )
    add_decoding_options(parser)
    add_machine_options(parser)


def run(options: argparse.Namespace) -> None:
    """Translate what is missing, and merge."""
    from pcfgnat.cluster import translate_shards
    from pcfgnat.storage.shards import ShardedFile

    job, size = _job(options), options.shard_lines
    output = ShardedFile.begun(options.input, options.output, job.record(size), size)
    lines, missing = output.manifest.lines, sum(shard.lines for shard in output.missing())
    if missing < lines:
        notice(f"resuming after {lines - missing} lines")
    with progress_bar("", "lines", lines, lines - missing) as bar:
        for done in translate_shards(job, output, options.workers, options.address):
            bar.update(done)
    output.merge()
    print(f"{lines} lines in {options.output}; {output.directory} may be removed")


def _job(options: argparse.Namespace) -> "ClusterJob":
    from pcfgnat.cluster import ClusterJob
    from pcfgnat.translator import TranslateOptions, model_directory

    if options.verifier is not None:
        raise ValueError("--verifier is not available on a cluster")
    defaults = TranslateOptions()
    return ClusterJob(
        model=model_directory(options.model).absolute(),
        source=options.input.absolute(),
        options=TranslateOptions(
            strategy=options.decode,
            length_penalty=options.length_penalty,
            seed=options.seed,
            batch=options.batch or defaults.batch,
        ),
        device=options.device,
        threads=options.threads or 1,
        exact=True if options.exact else None,
        pieces=options.pieces,
    )
