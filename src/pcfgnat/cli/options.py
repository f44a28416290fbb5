"""What several commands have in common: how they are described, and options about machine and decoding."""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pcfgnat.cli.files import detail, notice
from pcfgnat.progress import Verbosity

if TYPE_CHECKING:
    import torch

    from pcfgnat.translator import Translator
    from pcfgnat.translator.loading import RuntimeName

    Commands = argparse._SubParsersAction[argparse.ArgumentParser]
else:
    Commands = argparse._SubParsersAction


def new_command(
    commands: Commands, name: str, summary: str, description: str, run: Callable[[argparse.Namespace], None]
) -> argparse.ArgumentParser:
    """Add a command that calls `run` with its options."""
    parser = commands.add_parser(
        name,
        help=summary,
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.set_defaults(run=run, command=parser.prog.split()[1])
    add_verbosity(parser, argparse.SUPPRESS)  # what was said before the command stays unless said again
    return parser


def add_verbosity(parser: argparse.ArgumentParser, default: object) -> None:
    """Add -v and -q."""
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "-v", "--verbose", dest="verbosity", action="store_const", const=Verbosity.VERBOSE, default=default,
        help="also print what is loaded, the time that it took, and where an error arose",
    )  # fmt: skip
    group.add_argument(
        "-q", "--quiet", dest="verbosity", action="store_const", const=Verbosity.QUIET, default=default,
        help="print results and errors only",
    )  # fmt: skip


def add_decoding_options(parser: argparse.ArgumentParser) -> None:
    """Add options about the search for a translation."""
    from pcfgnat.cli.completion import complete_strategies, completed_by  # which imports this module

    group = parser.add_argument_group("decoding")
    strategy = group.add_argument(
        "--decode",
        metavar="STRATEGY",
        help="as the model allows: viterbi, joint-viterbi, lookahead, mbr, greedy, sample, beam, "
        "mask-predict, update-all, easy-first, imputation, verify, rescore; settings after a colon: "
        "beam:size=8 (default: the model's)",
    )
    completed_by(strategy, complete_strategies)
    group.add_argument(
        "--length-penalty",
        type=float,
        metavar="B",
        help="rank by score / length^B: greater ones favour longer sentences (default: the model's)",
    )
    add_former_name(group, "--beta", "length_penalty", float)
    group.add_argument(
        "--exact", action="store_true", help="look at the whole vocabulary, also in models with a shortlist"
    )
    group.add_argument(
        "--verifier",
        type=Path,
        metavar="DIR",
        help="an autoregressive model with the same tokenizer, which reads the drafts of a pcfg or dag "
        "model, --decode verify (then the default) or rescore:size=8, or of a flowseq model, rescore",
    )
    group.add_argument(
        "--seed",
        type=int,
        default=1,
        metavar="N",
        help="of strategies that draw, such as sample (default: 1)",
    )


def add_former_name(
    parser: argparse._ActionsContainer, name: str, option: str, kind: Callable[[str], object]
) -> None:
    """Accept what an option was called before, without showing it."""
    parser.add_argument(name, dest=option, type=kind, default=argparse.SUPPRESS, help=argparse.SUPPRESS)


def add_machine_options(parser: argparse.ArgumentParser, batch: int = 32) -> None:
    """Add what is said about the machine."""
    group = parser.add_argument_group("machine")
    group.add_argument("--device", default="cpu", help="cpu, cuda, cuda:1, mps … (default: cpu)")
    group.add_argument("--threads", type=positive, metavar="N", help="cores to use (default: all)")
    group.add_argument("--batch", type=positive, metavar="N", help=f"sentences at a time (default: {batch})")


def add_runtime_option(parser: argparse.ArgumentParser) -> None:
    """Add what runs the model."""
    parser.add_argument(
        "--runtime",
        choices=("auto", "native", "onnx", "torch"),
        default="auto",
        help="what runs the model; native are compiled kernels, for models exported in 8 bits "
        "(default: native where possible, else onnx, else torch)",
    )


def use_machine(options: argparse.Namespace) -> "torch.device":
    """Set the number of threads, and return the device; raise an error if it is not available."""
    import torch

    if options.threads is not None:
        torch.set_num_threads(options.threads)
    try:
        device = torch.device(options.device)
    except RuntimeError as error:
        raise ValueError(f"--device must be cpu, cuda, cuda:1 or mps, got {options.device!r}") from error
    there = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if not there.get(device.type, False):
        usable = ", ".join(name for name, found in there.items() if found)
        raise ValueError(f"--device must be one that this machine has ({usable}), got {options.device!r}")
    return device


def load_translator(
    options: argparse.Namespace,
    directory: Path | None,
    results: int = 1,
    at_once: bool = False,
    runtime: "RuntimeName | None" = None,
) -> "Translator":
    """Load a model as the options ask for; `at_once` is for people who wait for the answer to each line."""
    from pcfgnat.runtimes.choice import kernels_are_compiled
    from pcfgnat.runtimes.exported_runtime import ExportedOptions
    from pcfgnat.translator import (
        TranslateOptions,
        Translator,
        describe_model,
        exported_for,
        model_directory,
    )

    place, runtime = model_directory(directory), runtime or options.runtime
    device: object = options.device
    for needed in (place, *([] if options.verifier is None else [model_directory(options.verifier)])):
        if exported_for(needed, options.device, runtime) is None:  # otherwise torch need not be installed
            describe_model(needed)  # a directory that is no model is reported before a missing torch
            device = use_machine(options)
    defaults = TranslateOptions()
    wanted = TranslateOptions(
        strategy=options.decode,
        length_penalty=options.length_penalty,
        results=results,
        seed=options.seed,
        batch=options.batch or defaults.batch,
        window=1 if at_once or options.batch == 1 else defaults.window,
    )
    onnx = ExportedOptions(threads=options.threads, exact=True if options.exact else None)
    start = time.monotonic()
    translator = Translator.load(place, device, wanted, runtime, onnx, verifier=options.verifier)
    if sys.stderr.isatty() and translator.job()["runtime"] == "native" and not kernels_are_compiled():
        notice("compiling kernels for this processor, once: the first translation may take half a minute")
    kind, strategy = type(translator.runtime).__name__, translator.strategy.name
    detail(f"loaded {place} in {time.monotonic() - start:.1f} s: {kind}, {strategy}")
    return translator


def named_paths(systems: Sequence[str]) -> dict[str, Path | None]:
    """Return the systems' paths by name; the bundled model is the only one without a path."""
    if not systems:
        return {"embedded": None}
    paths: dict[str, Path | None] = {}
    for system in systems:
        name, equals, path = system.partition("=")
        if not equals or "/" in name:
            name, path = system.rstrip("/"), system
        if not Path(path).exists():
            raise ValueError(f"a system must be a checkpoint or a file, but {path} does not exist")
        if name in paths:
            raise ValueError(f"systems must have different names, got {name!r} twice; NAME=PATH gives names")
        paths[name] = Path(path)
    return paths


def positive(text: str) -> int:
    """Read a positive integer."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a positive integer, got {text!r}")
    return int(text)
