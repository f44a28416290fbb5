"""Warnings about text that a vocabulary does not cover."""

from collections.abc import Iterator

from pcfgnat.text.prepared import PrepareReport

MANY_UNKNOWN = 0.005  # one token in 200: about every eighth sentence of 25 tokens has one


def unknown_warnings(report: PrepareReport) -> Iterator[str]:
    """Yield a line for each side of each split that has many unknown tokens, with advice."""
    remedy = (
        "use the vocabulary that the text was split with"
        if report.settings.get("subword_vocabulary")
        else "use a tokenizer of such text"
        if report.settings.get("tokenizer")
        else "raise --character-coverage or use --byte-fallback"
    )
    for name, split in report.splits.items():
        for label, side in (("source", split.source), ("target", split.target)):
            tokens = side.tokens - 2 * split.kept  # without bos and eos
            if tokens and side.unknown / tokens > MANY_UNKNOWN:
                share = f"{100 * side.unknown / tokens:.1f} % of the {label} tokens of {name} are unknown"
                yield f"{share} ({side.unknown} of {tokens}) and will be lost: {remedy}"
