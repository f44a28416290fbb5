"""Two faults that BLEU hardly shows: words that are repeated, and words that are missing."""

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise

Words = Callable[[str], Sequence[str]]


def repeated_words(translations: Sequence[str], references: Sequence[str], words: Words) -> float:
    """Return the words that equal their predecessor, in % of all, above the same figure of the references.

    In percentage points; negative where the references repeat more.
    """
    ours, theirs = (_repeated([words(line) for line in lines]) for lines in (translations, references))
    return 100 * (ours - theirs)


def missing_words(translations: Sequence[str], references: Sequence[str], words: Words) -> float:
    """Return the words of the references that their translations lack, in % of all.

    A word that occurs twice in a reference and once in its translation is missing once.
    """
    pairs = [(Counter(words(a)), Counter(words(b))) for a, b in zip(translations, references, strict=True)]
    missing = sum((reference - translation).total() for translation, reference in pairs)
    return 100 * missing / max(sum(reference.total() for _, reference in pairs), 1)


def _repeated(sentences: Sequence[Sequence[str]]) -> float:
    repeated = sum(before == after for sentence in sentences for before, after in pairwise(sentence))
    return repeated / max(sum(map(len, sentences)), 1)
