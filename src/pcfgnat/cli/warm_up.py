"""`pcfgnat warm-up`: compile the kernels ahead."""

import argparse
from pathlib import Path

from pcfgnat.cli.options import Commands, new_command, positive

DESCRIPTION = """\
Compile the kernels that a model needs, so that the first translation need not wait: when a container is
built, or after an update. They are kept in NUMBA_CACHE_DIR if that is set, else beside the package, else in
the user's cache directory, whichever is writable first, and are found there even if it is read-only later.
Kernels are compiled for the processor of this machine; other processors compile their own.
"""
SAMPLES = ("How are you?", "I would like a cup of tea.", "My brother has bought a new car, and I like it.")


def add_command(commands: Commands) -> None:
    """Describe the command's options."""
    parser = new_command(commands, "warm-up", "compile the kernels ahead", DESCRIPTION, run)
    parser.add_argument(
        "--model",
        type=Path,
        metavar="DIR",
        help="a checkpoint or exported model (default: the bundled one)",
    )
    parser.add_argument("--threads", type=positive, metavar="N", help="cores to use (default: all)")


def run(options: argparse.Namespace) -> None:
    """Translate with every strategy, one sentence and several, and look into a lattice where there is one."""
    from pcfgnat.decoding.constraints import Constraining, Constraints
    from pcfgnat.grammar.compiled import cache_directories, is_writable
    from pcfgnat.grammar.kernels import viterbi
    from pcfgnat.runtimes.base import Tables
    from pcfgnat.runtimes.onnx import ExportedOptions
    from pcfgnat.translator import TranslateOptions, Translator
    from pcfgnat.translator.lattice import lattice_of

    translator = Translator.load(options.model, onnx=ExportedOptions(threads=options.threads))
    for strategy in translator.strategies:
        chosen = translator.with_options(TranslateOptions(strategy=strategy))
        chosen(SAMPLES[0])
        chosen(SAMPLES)
        chosen.sweep(SAMPLES, (0.8, 1.2))
    if isinstance(translator.runtime, Tables):
        lattice_of(translator, SAMPLES[0])
    if isinstance(translator.strategy, Constraining):
        translator(SAMPLES[0], constraints=Constraints(forbid=("?",)))
    places = [place for place in cache_directories(Path(viterbi.__file__)) if is_writable(place)]
    if not places:
        raise ValueError("no directory to keep compiled kernels in is writable: set NUMBA_CACHE_DIR to one")
    print(f"compiled the kernels for {', '.join(translator.strategies)}; they are kept in {places[0]}")
