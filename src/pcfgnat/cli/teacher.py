"""What runs the teacher of `pcfgnat distill`."""

import argparse
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pcfgnat.cli.files import notice
from pcfgnat.cli.options import load_translator

if TYPE_CHECKING:
    from pcfgnat.translator import Translator

AUTOREGRESSIVE = "autoregressive"
SEARCHES = ("beam", "greedy")  # what CTranslate2 is asked for
NOT_INSTALLED = "it is not installed (pip install 'pcfgnat[distill]')"
ANY_NUMBER = 1 << 30  # of tokens in a batch: it cuts its batches itself


def add_runtime_options(parser: argparse.ArgumentParser) -> None:
    """Add what is said about the program that runs the teacher."""
    group = parser.add_argument_group("runtime")
    group.add_argument(
        "--runtime",
        choices=("auto", "ctranslate2", "torch", "onnx"),
        default="auto",
        help="what runs the teacher (default: that of the job to resume, else CTranslate2 where possible)",
    )
    group.add_argument(
        "--precision",
        choices=("float32", "int8"),
        default="float32",
        help="of weights in CTranslate2; int8 is faster, and some translations differ (default: float32)",
    )


def load_teacher(options: argparse.Namespace) -> "Translator":
    """Load the teacher in CTranslate2, or as other commands do, saying why."""
    from pcfgnat.translator import model_directory, recorded_runtime

    place, runtime = model_directory(options.model), options.runtime
    started_without = runtime == "auto" and recorded_runtime(options.output) not in (None, "ctranslate2")
    if runtime in ("torch", "onnx"):
        obstacle: str | None = f"the runtime is {runtime}"
    else:
        obstacle = "the job was started without" if started_without else _obstacle(options, place)
    if obstacle is None:
        return _in_ctranslate2(options, place)
    if runtime == "ctranslate2":
        raise ValueError(f"cannot run {place} in CTranslate2: {obstacle}")
    if options.precision == "int8":
        raise ValueError(f"--precision int8 needs CTranslate2, but {obstacle}")
    if obstacle == NOT_INSTALLED:
        notice(f"translating with torch, which is slower than CTranslate2: {obstacle}")
    return load_translator(options, options.model, runtime=runtime)


def _obstacle(options: argparse.Namespace, place: Path) -> str | None:
    """Return why CTranslate2 cannot be used, if it cannot."""
    from pcfgnat.translator import describe_model

    if (name := _network_name(place)) != AUTOREGRESSIVE:
        return f"it runs autoregressive networks only, got {name}"
    strategy = (options.decode or describe_model(place).decoding.strategy).partition(":")[0]
    if strategy not in SEARCHES:
        return f"its strategies are {' and '.join(SEARCHES)}, got {strategy}"
    if options.device != "cpu":
        return f"it is used on cpu only, got --device {options.device}"
    if find_spec("ctranslate2") is None:
        return NOT_INSTALLED
    return None


def _network_name(place: Path) -> str:
    from pcfgnat.translator import describe_model

    return describe_model(place).network_name


def _in_ctranslate2(options: argparse.Namespace, place: Path) -> "Translator":
    from pcfgnat.export.ctranslate2 import converted
    from pcfgnat.runtimes.machine import available_cores
    from pcfgnat.translator import TranslateOptions, Translator, load_converted

    precision: Literal["float32", "int8"] = options.precision
    threads = options.threads or available_cores()
    loaded = load_converted(place, converted(place, precision), precision, threads)
    wanted = TranslateOptions(
        strategy=options.decode,
        length_penalty=options.length_penalty,
        seed=options.seed,
        batch=options.batch or options.chunk,  # all lines between two saves: it puts them together itself
        batch_tokens=ANY_NUMBER,
    )
    return Translator(loaded.runtime, loaded.tokenizer, loaded.defaults, wanted, loaded)
