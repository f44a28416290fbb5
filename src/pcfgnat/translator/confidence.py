"""How sure a model is of each word of a translation: the share of all its translations that have the word."""

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from pcfgnat.grammar.class_automaton import ClassAutomaton
from pcfgnat.runtimes.base import Sources, Tables
from pcfgnat.text.automata import contains
from pcfgnat.text.surfaces import UNSPACED, Surfaces, is_word_character

if TYPE_CHECKING:
    from pcfgnat.grammar.decoding import Grammars

JOINERS = re.compile(r"['\u2019-]")


@dataclass(frozen=True)
class Word:
    """A word of a translation.

    confidence: probability that a translation has it, over all that the model gives weight to; of a word that
                comes again, that it comes so often
    start,stop: its pieces, the end excluded
    """

    text: str
    confidence: float
    start: int
    stop: int

    def moved(self, pieces: int) -> "Word":
        """Return the word so many pieces further on."""
        return replace(self, start=self.start + pieces, stop=self.stop + pieces)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)


def word_confidences(
    runtime: Tables, sources: Sources, translations: Sequence[Sequence[int]], surfaces: Surfaces
) -> list[tuple[Word, ...]]:
    """Return the words of each translation, given as ids with bos and eos; the network is run once more."""
    found: dict[int, tuple[Word, ...]] = {}
    for group, grammars in runtime.grammars(sources):
        for place, index in enumerate(group):
            found[index] = _of_sentence(grammars, place, translations[index], surfaces)
    return [found[index] for index in range(len(sources))]


def _of_sentence(
    grammars: "Grammars", index: int, ids: Sequence[int], surfaces: Surfaces
) -> tuple[Word, ...]:
    from pcfgnat.grammar.acceptance import log_acceptance  # numba takes a moment
    from pcfgnat.grammar.continuations import SentenceRules

    rules = SentenceRules(grammars.chain[index], grammars.prefix[index], int(grammars.chain_lengths[index]))
    spans = list(words_of(ids, surfaces))
    admitted = sorted(set(ids[1:-1]))  # what was forced need not be in a shortlist
    chances = np.exp(grammars.symbol_log_probs(index, admitted).astype(np.float64))
    everything = log_acceptance(rules, chances, _automaton("", 0, surfaces))
    times: Counter[str] = Counter()
    words = []
    for text, start, stop in spans:
        times[text] += 1
        weight = log_acceptance(rules, chances, _automaton(text, times[text], surfaces))
        words.append(Word(text, min(1.0, math.exp(weight - everything)), start, stop))
    return tuple(words)


@lru_cache(maxsize=4096)
def _automaton(word: str, times: int, surfaces: Surfaces) -> ClassAutomaton:
    return contains([word] * times, surfaces)


def words_of(ids: Sequence[int], surfaces: Surfaces) -> Iterator[tuple[str, int, int]]:
    """Yield the words of a sentence, and which of its tokens behind bos they stand in.

    A word goes on through letters, digits, and a hyphen or apostrophe between them. In scripts without spaces
    each token is a word.
    """
    letters = surfaces.letters(ids[1:-1])
    word: list[tuple[str, int]] = []
    for number, (character, place) in enumerate(letters):
        after = letters[number + 1][0] if number + 1 < len(letters) else " "
        is_unspaced = UNSPACED.match(character) is not None
        joins = bool(word) and JOINERS.match(character) is not None and is_word_character(after)
        breaks = is_unspaced and word and word[-1][1] != place
        if word and (breaks or not (is_word_character(character) or joins or is_unspaced)):
            yield _word(word)
            word = []
        if word or is_word_character(character) or is_unspaced:
            word.append((character, place))
    if word:
        yield _word(word)


def _word(letters: Sequence[tuple[str, int]]) -> tuple[str, int, int]:
    return "".join(character for character, _ in letters), letters[0][1], letters[-1][1] + 1
