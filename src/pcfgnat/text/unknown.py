"""Warnings about text that a vocabulary does not cover."""

import unicodedata
from collections.abc import Iterator, Sequence

from pcfgnat.text.prepared import PrepareReport
from pcfgnat.text.special import SPECIAL_TOKENS
from pcfgnat.text.surfaces import Surfaces

MOSTLY_UNKNOWN = "mostly unknown to the model"
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


def unknown_note(texts: Sequence[str], ids: Sequence[Sequence[int]], surfaces: Surfaces) -> str | None:
    """Return what to say of texts, given with their ids, of which more than half is not in the vocabulary.

    Characters that can only be written as bytes are unknown as well.
    """
    if not surfaces.has_bytes and not any(SPECIAL_TOKENS.unk in row for row in ids):
        return None
    characters = "".join(unicodedata.normalize("NFC", "".join(text.split())) for text in texts)
    tokens = [token for row in ids for token in row[1:-1]]
    if SPECIAL_TOKENS.unk not in tokens and surfaces.characters.issuperset(characters):
        return None
    shares = {
        "characters": sum(own not in surfaces.characters for own in characters) / max(1, len(characters)),
        "tokens": tokens.count(SPECIAL_TOKENS.unk) / max(1, len(tokens)),
    }
    kind, share = max(shares.items(), key=lambda item: item[1])
    return f"{MOSTLY_UNKNOWN}: {100 * share:.0f} % of its {kind}" if share > 0.5 else None
