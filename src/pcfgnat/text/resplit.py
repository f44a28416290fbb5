"""Whether subword-nmt's codes are those that a text was split with."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from pcfgnat.text.lines import read_lines
from pcfgnat.text.prepare import PrepareSettings
from pcfgnat.text.tokenizer import SubwordTokenizer, Tokenizer

LINES = 1000  # of each side
MOST_DIFFERENT = 0.05  # of them; text that was split with dropout differs in far more


def codes_warnings(settings: PrepareSettings) -> Iterator[str]:
    """Yield a line for each side of the training text that the codes split otherwise."""
    vocabulary, codes = settings.subword_vocabulary, settings.subword_codes
    if vocabulary is None or codes is None:
        return
    corpus = SubwordTokenizer.from_file(vocabulary, codes)
    raw = corpus.for_raw_text()  # Moses' part is left out: its tokens are not changed again
    for path in (settings.train[0].source, settings.train[0].target):
        lines = list(_known(path, corpus))
        again = raw.encode_all([corpus.plain(line) for line in lines])
        different = sum(a != b for a, b in zip(again, corpus.encode_all(lines), strict=True))
        if different > MOST_DIFFERENT * len(lines):
            found = f"{codes} splits {different} of {len(lines)} lines of {path} otherwise"
            yield f"{found}: use the codes that the text was split with"


def _known(path: Path, corpus: Tokenizer) -> Iterator[str]:
    """Yield the first lines without unknown subwords."""
    for line in islice(read_lines(path), LINES):
        if corpus.unk not in corpus.encode(line):
            yield " ".join(line.split())
