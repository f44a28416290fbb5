"""`pcfgnat export`: models for other run times."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from pcfgnat.cli.files import notice
from pcfgnat.cli.options import Commands, new_command, positive
from pcfgnat.progress import activity

if TYPE_CHECKING:
    from pcfgnat.text.shortlist import Shortlist

DESCRIPTION = """\
Write a model as a directory that translates without torch, on onnxruntime and compiled kernels:
`translate`, `evaluate` and `Translator.load` take it like a checkpoint. Written to the directory
`onnx` inside the checkpoint, it is used instead of the checkpoint itself wherever onnxruntime is installed.

With --shortlist, the output layer looks only at target words that the source makes likely. They are learnt
from the training data, unless `prepare --shortlist` has done so, and their cost in BLEU is measured on the
validation data: they are used by default if it is at most 0.1.
"""
EXAMPLE = """\
examples:
  pcfgnat export runs/final --int8                             (to runs/final/onnx)
  pcfgnat export runs/final --int8 --shortlist data --output fast
  pcfgnat export teacher --ctranslate2 --int8 --output teacher.ct2
"""


def add_command(commands: Commands) -> None:
    """Describe the command's options."""
    parser = new_command(commands, "export", "write a model that runs without torch", DESCRIPTION, run)
    parser.epilog = EXAMPLE
    parser.add_argument("checkpoint", type=Path, metavar="CHECKPOINT")
    parser.add_argument(
        "--output", type=Path, metavar="DIR", help="directory to write (default: CHECKPOINT/onnx)"
    )
    parser.add_argument(
        "--int8",
        action="store_true",
        help="8-bit weights: a quarter of the size, twice as fast, nearly as good",
    )
    parser.add_argument(
        "--ctranslate2", action="store_true", help="an autoregressive model, for CTranslate2 instead"
    )
    group = parser.add_argument_group("shortlist")
    group.add_argument(
        "--shortlist", type=Path, metavar="DATA", help="prepared data with a shortlist, or to learn one from"
    )
    group.add_argument(
        "--best", type=positive, metavar="N", help="translations of each source token (default: 60)"
    )
    group.add_argument(
        "--frequent", type=positive, metavar="N", help="tokens that are always in it (default: 400)"
    )
    group.add_argument(
        "--check",
        type=positive,
        default=1000,
        metavar="N",
        help="sentences to measure its loss on (default: 1000)",
    )


def run(options: argparse.Namespace) -> None:
    """Export, and print the cost."""
    output = options.output or options.checkpoint / "onnx"
    if options.ctranslate2:
        _to_ctranslate2(options)
        return
    from pcfgnat.export.onnx import ExportSettings, export_onnx

    shortlist = _learnt_shortlist(options)
    with activity(f"exporting {options.checkpoint}"):
        export_onnx(options.checkpoint, output, ExportSettings(options.int8, shortlist))
    if shortlist is not None:
        _measure(output, options)
    print(f"exported to {output}")


def _to_ctranslate2(options: argparse.Namespace) -> None:
    """Export to CTranslate2; the shortlist becomes its vocabulary map, which `use_vmap` follows."""
    from pcfgnat.export.ctranslate2 import convert
    from pcfgnat.text import Prepared

    if options.output is None:
        raise ValueError("--ctranslate2 needs --output")
    shortlist = _learnt_shortlist(options)
    vmap = None if shortlist is None else shortlist.to_vmap(Prepared.open(options.shortlist).tokenizer)
    convert(options.checkpoint, options.output, "int8" if options.int8 else "float32", vmap)
    print(f"exported to {options.output}")


def _learnt_shortlist(options: argparse.Namespace) -> "Shortlist | None":
    from pcfgnat.text import Prepared
    from pcfgnat.text.lexicon import LexiconSettings, learn_shortlist

    if options.shortlist is None:
        return None
    prepared = Prepared.open(options.shortlist)
    if not (options.best or options.frequent) and (learnt := prepared.shortlist()) is not None:
        return learnt
    defaults = LexiconSettings()
    settings = LexiconSettings(options.best or defaults.best, options.frequent or defaults.frequent)
    notice("learning the shortlist")
    return learn_shortlist(prepared.corpus("train"), settings)


def _measure(output: Path, options: argparse.Namespace) -> None:
    """Translate validation data with and without the shortlist, and record the difference."""
    from pcfgnat.evaluation import measures_for
    from pcfgnat.evaluation.judging import on_stderr
    from pcfgnat.export.onnx import record_shortlist
    from pcfgnat.runtimes.onnx import ExportedOptions, ShortlistFacts
    from pcfgnat.text import Prepared
    from pcfgnat.text.shortlist import SHORTLIST, Shortlist
    from pcfgnat.translator import Translator, describe_model

    notice(f"measuring its loss on {options.check} sentences")
    prepared = Prepared.open(options.shortlist)
    sources, targets = (side[: options.check] for side in prepared.raw("valid"))
    tokenizer = prepared.tokenizer
    measures = measures_for(describe_model(output).languages.target, tokenizer.kind == "subwords")
    references = [tokenizer.plain(target) for target in targets]
    bleu = {}
    for exact in (True, False):
        translator = Translator.load(output, onnx=ExportedOptions(exact=exact)).for_corpus_text()
        label = "exact" if exact else "with the shortlist"
        found = [result.text for result in translator.stream(on_stderr(sources, label))]
        bleu[exact], _ = measures.bleu(found, references)
    shortlist = Shortlist.load(output / SHORTLIST)
    sizes = [len(shortlist.types(ids)) for ids in tokenizer.encode_all(sources)]
    lost = bleu[True] - bleu[False]
    facts = ShortlistFacts(round(lost, 3), len(sources), round(sum(sizes) / len(sizes), 1))
    record_shortlist(output, facts)
    use = "used by default" if facts.by_default else "not used unless asked for"
    notice(
        f"the shortlist keeps {facts.tokens:.0f} tokens and costs {lost:.2f} BLEU of {bleu[True]:.2f}: {use}"
    )
