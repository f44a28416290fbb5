"""`pcfgnat prepare`: parallel text to a tokenizer and memory-mapped ids."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pcfgnat.cli.files import notice
from pcfgnat.cli.options import Commands, new_command

if TYPE_CHECKING:
    from pcfgnat.text import TextPair

DESCRIPTION = """\
Turn parallel text into a joint subword vocabulary and files of ids that are mapped into memory.

A PAIR is a prefix (with --source en --target de, data/train stands for data/train.en and data/train.de, or
the same with .gz), or two files with a comma between them. Of the training text, pairs that are empty, too
long or too different in length are dropped; what was dropped and why is counted and printed. Equal text and
settings give equal bytes, in memory that does not grow with the text.
"""
EXAMPLE = """\
example:
  pcfgnat prepare --train data/europarl data/news --valid data/dev --test data/test \\
      --source en --target de --vocabulary-size 16000 --output prepared/en-de
"""
LEARN = ("vocabulary_size", "character_coverage", "byte_fallback", "normalization", "sample_size", "seed")
CLEAN = ("max_length", "max_ratio", "drop_identical", "drop_duplicates")


def add_command(commands: Commands) -> None:
    """Describe the command's options."""
    parser = new_command(commands, "prepare", "make training data from parallel text", DESCRIPTION, run)
    parser.epilog = EXAMPLE
    parser.add_argument("--train", nargs="+", required=True, metavar="PAIR", help="one or several corpora")
    parser.add_argument("--valid", metavar="PAIR", help="text to select models by")
    parser.add_argument("--test", metavar="PAIR", help="text to score models on")
    parser.add_argument(
        "--source", default="", metavar="LANG", help="language and suffix of the source, e.g. en"
    )
    parser.add_argument(
        "--target", default="", metavar="LANG", help="language and suffix of the target, e.g. de"
    )
    parser.add_argument("--output", type=Path, required=True, metavar="DIR", help="a new directory")
    parser.add_argument(
        "--shortlist",
        action="store_true",
        help="also learn the words that a source makes likely, so that `export --shortlist` need not",
    )
    _add_tokenizer_options(parser)
    _add_cleaning_options(parser)


def _add_tokenizer_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("vocabulary")
    group.add_argument("--vocabulary-size", type=int, metavar="N", help="subwords to learn (default: 8000)")
    group.add_argument(
        "--character-coverage",
        type=float,
        metavar="SHARE",
        help="rarer characters are unknown (default: 0.99999)",
    )
    group.add_argument("--byte-fallback", action="store_true", help="spell unknown characters in bytes")
    rules = ("identity", "nfkc", "nfkc_cf", "nmt_nfkc", "nmt_nfkc_cf")
    group.add_argument("--normalization", choices=rules, help="sentencepiece's rule (default: identity)")
    group.add_argument(
        "--sample-size", type=int, metavar="N", help="sentences to learn from (default: 1000000)"
    )
    group.add_argument("--seed", type=int, metavar="N", help="of the choice of these sentences (default: 1)")
    group.add_argument(
        "--tokenizer",
        type=Path,
        metavar="PATH",
        help="a sentencepiece model, or a directory with a tokenizer: a model, or prepared data",
    )
    group.add_argument(
        "--subword-vocabulary", type=Path, metavar="FILE",
        help="the text is split with subword-nmt (`@@`) already, and this lists its tokens",
    )  # fmt: skip
    group.add_argument(
        "--subword-codes", type=Path, metavar="FILE",
        help="the codes that subword-nmt split the text with: the model will carry them and take raw text",
    )  # fmt: skip
    group.add_argument(
        "--moses", choices=("aggressive", "standard"),
        help="Moses' scripts tokenised the text before that, with -a (aggressive) or without",
    )  # fmt: skip


def _add_cleaning_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("cleaning of the training text")
    group.add_argument(
        "--max-length",
        type=int,
        metavar="N",
        help="longest sentence in tokens, both ends counted (default: 256)",
    )
    group.add_argument(
        "--max-ratio", type=float, metavar="R", help="greatest length of one side over the other (default: 4)"
    )
    group.add_argument(
        "--drop-identical", action="store_true", help="drop pairs whose source is their target"
    )
    group.add_argument("--drop-duplicates", action="store_true", help="drop repeated pairs")


def run(options: argparse.Namespace) -> None:
    """Prepare, and print the counts."""
    from pcfgnat.config import from_dict
    from pcfgnat.text import CleaningSettings, LearnSettings, PrepareSettings, prepare
    from pcfgnat.text.resplit import codes_warnings
    from pcfgnat.text.unknown import unknown_warnings

    settings = PrepareSettings(
        output=options.output,
        train=tuple(_pair(name, options) for name in options.train),
        valid=None if options.valid is None else _pair(options.valid, options),
        test=None if options.test is None else _pair(options.test, options),
        source_language=options.source,
        target_language=options.target,
        tokenizer=options.tokenizer,
        subword_vocabulary=options.subword_vocabulary,
        subword_codes=options.subword_codes,
        moses=options.moses,
        shortlist=options.shortlist,
        learn=from_dict(LearnSettings, _given(options, LEARN)),
        cleaning=from_dict(CleaningSettings, _given(options, CLEAN)),
    )
    for warning in codes_warnings(settings):
        notice(f"warning: {warning}")
    report = prepare(settings)
    for warning in unknown_warnings(report):
        notice(f"warning: {warning}")
    print(report)
    print(f"written to {options.output}")


def _pair(name: str, options: argparse.Namespace) -> "TextPair":
    from pcfgnat.text import TextPair

    source, comma, target = name.partition(",")
    if comma:
        return TextPair(Path(source), Path(target))
    if not options.source or not options.target:
        raise ValueError(f"{name!r} must be FILE,FILE, or a prefix with --source and --target as suffixes")
    return TextPair.from_prefix(name, options.source, options.target)


def _given(options: argparse.Namespace, names: Sequence[str]) -> dict[str, Any]:
    """Return the settings that the user gave; the rest keep the defaults of their class."""
    return {name: value for name in names if (value := getattr(options, name)) is not None}
