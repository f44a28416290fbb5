"""Drafts from a lattice: the best continuation of what another model has verified, as often as it is asked.

The network runs once. A further verified token costs `C²/2 · d` steps, a further draft `C · X · N`, both in
one call of a kernel. `forced_prefix.py` does the same step by step, and under automata.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int64

from pcfgnat.grammar.decoding import Grammars
from pcfgnat.grammar.free_lattice import FreeLattice, length_powers
from pcfgnat.grammar.kernels.drafts import continue_draft, finish_draft, judge_draft
from pcfgnat.grammar.search import SpecialTokens

# What the drafter thinks impossible may be verified all the same, and must not end all drafts.
LEAST_LOG_PROB = -30.0

BestTokens = tuple[Float[np.ndarray, "M"], Int64[np.ndarray, "M"]]
Read = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]  # the fields of a `Reading`
Judged = tuple[int, int, float, float]


@dataclass(frozen=True)
class DraftSettings:
    """What all drafts share: lengths are compared by `score / L^β`."""

    length_penalty: float
    special: SpecialTokens


class Draft:
    """One sentence's lattice, what has been verified of it, and the best continuation of that.

    tokens: those that have been verified, bos from the start, and behind them a draft
    given:  how many of them have been verified
    score:  of the best tree of what is verified and the draft; -inf if there is none
    """

    def __init__(
        self,
        grammars: Grammars,
        index: int,
        best: BestTokens,
        lengths: tuple[int, int],
        settings: DraftSettings,
    ) -> None:
        """Find the best continuations; `lengths` are the greatest of a draft and of what is verified."""
        scores, ids = best
        special, (longest, limit) = settings.special, lengths
        self._special, self._limit = special, limit
        self.tokens, self.given = np.empty(max(longest, limit) + 1, dtype=np.int64), 1
        self.tokens[0] = special.bos
        self._emissions, self._index, self._known = grammars.emissions, index, 0
        self._columns: np.ndarray = scores.reshape(-1, 1)  # the root emits bos, and nothing else does
        lattice = FreeLattice.of(grammars, index)
        self._lattice, self._continuations = lattice, (ids, lattice.continuations(scores, longest))
        self._powers, self.score = length_powers(longest, settings.length_penalty), -np.inf
        self._settings = (special.bos, special.eos, LEAST_LOG_PROB, lattice.front())

    def propose(self) -> int:
        """Write the best continuation by `score / L^β` behind what is verified; return its number of tokens.

        eos is the last of them; 0: no continuation is known.
        """
        tokens, known, given = self.tokens, self._known, self.given
        self._look()
        self._known = given
        problem = (*self._lattice, *self._continuations)
        found = continue_draft(*problem, self._columns, tokens, known, given, *self._settings, self._powers)
        size, self.score = found
        return int(size)

    def finish(self) -> float:
        """Return the score of the best tree of what is verified, which ends with eos."""
        self._look()
        return float(
            finish_draft(*self._lattice, self._columns, self.tokens, self._known, self.given, *self._settings)
        )

    def _look(self) -> None:
        """Look up what nodes think of the tokens that have been verified since the last draft."""
        if self.given > 1:
            self._columns = self._emissions.columns(self._index, self.tokens[self._known : self.given])

    def judge(self, read: Read, draft: Int64[np.ndarray, "B W"], row: int, size: int, slack: float) -> Judged:
        """Verify what is accepted of the draft in this row, and one more token unless that is all of it.

        A token is accepted unless it is worse than the best one by more than `slack`; the last token that the
        limit allows is eos. Returns how many tokens were accepted, the last that was verified, and the
        log-probabilities of what was and of the whole draft.
        """
        room, eos = self._limit - self.given, self._special.eos
        accepted, token, score, whole = judge_draft(*read, draft, row, size, room, eos, slack)
        self.given += min(accepted, size - 1)
        self.verify([token])
        return accepted, token, score, whole

    def verify(self, tokens: Sequence[int]) -> None:
        """Add tokens to what is verified."""
        self.tokens[self.given : self.given + len(tokens)] = tokens
        self.given += len(tokens)


def start_drafts(
    grammars: Grammars, longest: Sequence[int], limits: Sequence[int], settings: DraftSettings
) -> list[Draft]:
    """Return drafts of at most `longest` tokens of all sentences of a batch; only bos has been verified.

    `limits` are the greatest numbers of tokens that will be verified.
    """
    best, lengths = zip(*grammars.emissions.everywhere(), strict=True), zip(longest, limits, strict=True)
    rows = enumerate(zip(best, lengths, strict=True))
    return [Draft(grammars, index, own, both, settings) for index, (own, both) in rows]
