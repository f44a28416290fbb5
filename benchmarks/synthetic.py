"""Made-up words, their tokenizer, and sentences of exactly so many tokens: time needs no meaning."""

import random

import numpy as np

from pcfgnat.text import LearnSettings, SentencePieceTokenizer, Tokenizer
from pcfgnat.text.lexicon import LexiconSettings
from pcfgnat.text.shortlist import PLAIN, Shortlist

ONSETS = ("", *"bdfghklmnprstvwz", "sch", "st", "br", "kl", "fr")
VOWELS = (*"aeiouäöü", "ei", "au", "ie")
CODAS = ("", "", *"nrlst", "ch", "nd", "rt")
ENDS = 2  # begin and end of a sentence count as tokens
USUAL = LexiconSettings()  # what a real shortlist is learnt with


def words(count: int, seed: int = 1) -> list[str]:
    """Return different words of one to four syllables."""
    draw = random.Random(seed)
    found: dict[str, None] = {}
    while len(found) < count:
        syllables = draw.choice((1, 2, 2, 3, 3, 4))
        parts = [draw.choice(kind) for _ in range(syllables) for kind in (ONSETS, VOWELS, CODAS)]
        found["".join(parts)] = None
    return list(found)


def learn_tokenizer(vocabulary_size: int) -> SentencePieceTokenizer:
    """Learn a byte-pair encoding of made-up words, the first of which are the most frequent."""
    known = words(2 * vocabulary_size)
    frequent = known[: vocabulary_size // 2]
    lines = [
        " ".join(part[i : i + 10]) for part in (known, frequent, frequent) for i in range(0, len(part), 10)
    ]
    return SentencePieceTokenizer.learn(lines, LearnSettings(vocabulary_size=vocabulary_size))


def sentences(tokenizer: Tokenizer, length: int, count: int, seed: int = 1) -> list[str]:
    """Return sentences that the tokenizer turns into exactly `length` ids, begin and end counted."""
    if length <= ENDS:
        raise ValueError(f"length must be more than {ENDS}, for begin and end, got {length}")
    draw = random.Random(seed)
    known = words(tokenizer.vocabulary_size)
    sizes = [len(ids) - ENDS for ids in tokenizer.encode_all(known)]
    by_size: dict[int, list[str]] = {}
    for word, size in zip(known, sizes, strict=True):
        by_size.setdefault(size, []).append(word)
    return [_sentence(by_size, length - ENDS, draw) for _ in range(count)]


def _sentence(by_size: dict[int, list[str]], length: int, draw: random.Random) -> str:
    """Put words together until all tokens are used; words of one token fill the rest."""
    chosen: list[str] = []
    while length:
        sizes = [size for size in by_size if size <= length]
        if not sizes:
            raise ValueError(f"there must be words of {length} tokens or fewer, got {min(by_size)}")
        weights = [len(by_size[size]) for size in sizes]
        size = draw.choices(sizes, weights)[0]
        chosen.append(draw.choice(by_size[size]))
        length -= size
    return " ".join(chosen)


def random_shortlist(vocabulary: int, seed: int = 1) -> Shortlist:
    """Return a shortlist that holds for each type some others, drawn at random, and the first ids."""
    plain = vocabulary - PLAIN
    count = min(USUAL.best, plain)
    draw = np.random.default_rng(seed)
    rows = [PLAIN + draw.choice(plain, count, replace=False) for _ in range(plain)]
    return Shortlist(
        frequent=np.arange(PLAIN, min(PLAIN + USUAL.frequent, vocabulary), dtype=np.uint32),
        offsets=count * np.maximum(np.arange(vocabulary + 1) - PLAIN, 0),
        candidates=np.concatenate(rows).astype(np.uint32),
    )


def shortlist_size(length: int) -> int:
    """Return how many types the shortlist of a source has at most; real ones have fewer, as they overlap."""
    return USUAL.frequent + USUAL.best * (length - ENDS)
