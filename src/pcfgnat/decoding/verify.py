"""Drafts of a lattice, read by an autoregressive model: its own greedy translation in a few passes."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Int64

from pcfgnat.decoding.base import DecodingError, Request, Strategy
from pcfgnat.decoding.stepwise import FIRST, LAST, length_limits
from pcfgnat.decoding.structured import LimitedGroup, limited_grammars
from pcfgnat.grammar.search import Hypothesis, ReadDraft, Round, Verified
from pcfgnat.runtimes.base import (
    Drafts,
    DraftsReader,
    DraftsVerifier,
    Limits,
    Reading,
    Sources,
    Stepper,
    Verifying,
    offers,
)
from pcfgnat.text.special import SPECIAL_TOKENS

if TYPE_CHECKING:
    from pcfgnat.grammar.drafts import Draft


class Verification:
    """A translation in progress: its lattice with what is verified, its log-probability, and its rounds.

    size: number of tokens of the current draft, eos included
    """

    def __init__(self, index: int, limit: int, draft: "Draft") -> None:
        self.index, self.limit, self.draft = index, limit, draft
        self.score, self.size, self.done, self._tree_score = 0.0, 1, False, -math.inf
        self._rounds: list[Round] = []
        self._read: list[ReadDraft] = []

    def propose(self) -> int:
        """Take the lattice's best continuation as far as the limit allows; return its number of tokens."""
        draft = self.draft
        proposed = draft.propose()
        self.size = max(min(proposed, self.limit - draft.given), 1)
        self._tree_score = draft.score if self.size == proposed else -math.inf  # else it was cut
        draft.tokens[draft.given + self.size - 1] = LAST
        return self.size

    def texts(self) -> tuple[Int64[np.ndarray, "W"], Int64[np.ndarray, "W"]]:
        """Return the tokens that are to be read, and those that follow them: the draft."""
        tokens, given = self.draft.tokens, self.draft.given
        return tokens[given - 1 : given - 1 + self.size], tokens[given : given + self.size]

    def judge(self, reading: Reading, following: Int64[np.ndarray, "B W"], row: int, slack: float) -> None:
        """Accept the draft up to the first token that is worse than the best one by more than `slack`."""
        read = (reading.best, reading.best_log_probs, reading.given_log_probs, reading.end)
        words, given = tuple(following[row, : self.size].tolist()), self.draft.given
        accepted, token, score, whole = self.draft.judge(read, following, row, self.size, slack)
        self._read.append(ReadDraft(given, self.score + whole, self._tree_score))
        self.score += score
        self._rounds.append(Round(words, accepted))
        self.done = token == LAST or not self.score > -math.inf

    def result(self) -> Verified:
        """Return the whole sentence."""
        ids = tuple(self.draft.tokens[: self.draft.given].tolist())
        rounds, read = tuple(self._rounds), tuple(self._read)
        return Verified(ids, self.score, self.draft.finish() if self.done else -math.inf, rounds, read)


@dataclass(frozen=True)
class Verify(Strategy):
    """The autoregressive model's greedy translation, exactly, from drafts of the grammar or graph.

    The best continuation of what is verified is read in one pass. It is accepted up to the first token that
    the reader would not have chosen, whose own token takes that place; the lattice then continues from there.

    tolerance: a drafted token is kept if the reader gives it at least so many times its best one's
               probability; at 1 the translation does not depend on the drafts
    """

    tolerance: float = 1.0

    name = "verify"
    protocol = Drafts
    uses_penalty = True  # drafts follow from it, and with a tolerance what is kept of them

    def __post_init__(self) -> None:
        if not 0 < self.tolerance <= 1:
            raise DecodingError(f"tolerance must be above 0 and at most 1, got {self.tolerance}")

    def decode(self, runtime: Drafts, sources: Sources, request: Request) -> list[list[Hypothesis]]:
        """Return the one translation of each sentence, with its rounds."""
        if not sources:
            return []
        reader, limits = runtime.read_drafts(sources), reading_limits(runtime, sources, request)
        groups = limited_grammars(reader.grammars(), sources, replace(request, max_length=limits))
        how = Verifying(request.length_penalty, -math.log(self.tolerance))
        return [[hypothesis(found)] for found in verified(reader, groups, limits, how)]


def hypothesis(found: Verified) -> Hypothesis:
    """Return what was verified with its rounds."""
    return Hypothesis(found.ids, found.score, tuple(range(len(found.ids))), rounds=found.rounds)


def reading_limits(runtime: Drafts, sources: Sources, request: Request) -> tuple[int, ...]:
    """Return the greatest length of what the reader may verify of each sentence."""
    return tuple(length_limits(runtime.max_target_length, sources, request))


def verified(
    reader: DraftsReader, groups: Iterable[LimitedGroup], limits: Sequence[int], how: Verifying
) -> list[Verified]:
    """Draft and read until all sentences have ended; return them in order."""
    if offers(reader, DraftsVerifier):
        found = {
            index: reader.verify(index, grammars, place, Limits(longest[place], limits[index]), how)
            for group, grammars, longest in groups
            for place, index in enumerate(group)
        }
        results = [found[index] for index in range(len(found))]
    else:
        results = _in_rounds(_started(groups, limits, how.length_penalty), reader.start(), how.slack)
    for index, result in enumerate(results):
        if not result.score > -math.inf:
            raise ValueError(f"sentence {index} has no hypothesis whose probability is a number above 0")
    return results


def _started(
    groups: Iterable[LimitedGroup], limits: Sequence[int], length_penalty: float
) -> list[Verification]:
    """Return all sentences, in order, before the first round."""
    from pcfgnat.grammar.drafts import DraftSettings, start_drafts  # numba takes a moment

    settings, found = DraftSettings(length_penalty, SPECIAL_TOKENS), dict[int, Verification]()
    for group, grammars, longest in groups:
        drafts = start_drafts(grammars, longest, [limits[index] for index in group], settings)
        for index, draft in zip(group, drafts, strict=True):
            found[index] = Verification(index, limits[index], draft)
    return [found[index] for index in range(len(found))]


def _in_rounds(sentences: list[Verification], stepper: Stepper, slack: float) -> list[Verified]:
    """Draft and read, all sentences at a time."""
    rows = sentences
    while rows:
        tokens, following = _texts(rows)
        kept = np.array([row.draft.given - 1 for row in rows], dtype=np.int64)
        reading = stepper.read(tokens, following, kept)
        for number, row in enumerate(rows):
            row.judge(reading, following, number, slack)
        going = [number for number, row in enumerate(rows) if not row.done]
        if going and len(going) < len(rows):
            stepper.select(np.array(going, dtype=np.int64))
        rows = [rows[number] for number in going]
    return [sentence.result() for sentence in sentences]


def _texts(rows: Sequence[Verification]) -> tuple[Int64[np.ndarray, "B W"], Int64[np.ndarray, "B W"]]:
    """Return what is to be read of each sentence, and what follows it: its next draft."""
    width = max([row.propose() for row in rows])
    if len(rows) == 1:
        tokens, following = rows[0].texts()
        return tokens[None], following[None]
    shape = (len(rows), width)
    tokens, following = np.full(shape, FIRST, dtype=np.int64), np.full(shape, LAST, dtype=np.int64)
    for row, *own in zip(rows, tokens, following, strict=True):
        for line, part in zip(own, row.texts(), strict=True):
            line[: row.size] = part
    return tokens, following
