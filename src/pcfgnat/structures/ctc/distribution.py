"""The distribution over sentences that a canvas of slots defines once repeats are collapsed."""

from dataclasses import dataclass
from itertools import pairwise

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from pcfgnat.grammar.collapse import beamed, collapsed
from pcfgnat.grammar.prefix_beam import PrefixBeam
from pcfgnat.grammar.search import Hypothesis, Search
from pcfgnat.structures.arguments import check_scores, check_tensor
from pcfgnat.structures.ctc import dispatch
from pcfgnat.structures.ctc.reference import Weights
from pcfgnat.structures.distribution import (
    Alignment,
    Padded,
    Posterior,
    SequenceDistribution,
    best_allowed,
    check_lengths,
    check_padded,
    gather_tokens,
)
from pcfgnat.structures.emissions import as_array
from pcfgnat.structures.profiling import DYNAMIC_PROGRAM, profiled
from pcfgnat.structures.semiring import NEG_INF, Semiring


@dataclass(frozen=True, eq=False)
class CTC(SequenceDistribution):
    """p(Y|X) = Σ over what the slots may emit such that dropping repeats, then blanks, leaves Y.

    Sentence b uses the first `num_slots[b]` slots, and `log_probs[b, t, v]` is the log-probability of token v
    in slot t; what lies beyond is never looked at. `blank` is the id that stands for nothing, so no sentence
    contains it; the empty sentence is possible. Nodes are slots: in hypotheses the first of each token's run.
    """

    log_probs: Float[Tensor, "B T V"]
    num_slots: Int[Tensor, "B"]
    blank: int

    def __post_init__(self) -> None:
        check_scores({"log_probs": self.log_probs})
        check_tensor("num_slots", self.num_slots)
        if self.log_probs.dim() != 3:
            raise ValueError(f"log_probs must have shape (B, T, V), got {tuple(self.log_probs.shape)}")
        batch, slots, vocabulary = self.log_probs.shape
        if self.num_slots.device != self.log_probs.device:
            raise ValueError(
                f"num_slots must be on {self.log_probs.device} like log_probs, got {self.num_slots.device}"
            )
        check_lengths(self.num_slots, batch, low=1, high=slots, name="num_slots")
        if not 0 <= self.blank < vocabulary:
            raise ValueError(f"blank must be in 0 … {vocabulary - 1}, got {self.blank}")

    def __repr__(self) -> str:
        batch, slots, vocabulary = self.log_probs.shape
        size = f"{batch} canvases of up to {slots} slots, vocabulary={vocabulary}, blank={self.blank}"
        return f"CTC({size}, {self.log_probs.dtype}, {self.log_probs.device})"

    @property
    def inside(self) -> Bool[Tensor, "B T"]:
        """True at the slots that belong to a sentence."""
        slot = torch.arange(self.log_probs.shape[1], device=self.log_probs.device)
        return slot < self.num_slots.unsqueeze(1)

    @profiled(DYNAMIC_PROGRAM)
    def posterior(self, target: Padded) -> "CTCPosterior":
        """p(alignment | X, Y)."""
        return CTCPosterior(self, target)

    def infeasible(self, target: Padded) -> dict[int, str]:
        """Return the targets that have probability 0, by index, and the reason."""
        sentences = target.to_lists()
        reasons = {}
        for index in (~self.posterior(target).feasible).nonzero().flatten().tolist():
            ids, slots = sentences[index], int(self.num_slots[index])
            repeats = sum(left == right for left, right in pairwise(ids))
            if self.blank in ids:
                reasons[index] = f"it contains the blank {self.blank}"
            elif len(ids) + repeats > slots:
                needed = f"{len(ids)} tokens with {repeats} repeats need {len(ids) + repeats} slots"
                reasons[index] = f"{needed}, but there are {slots}"
            else:
                reasons[index] = "every alignment uses a token of probability 0"
        return reasons

    def mode(self, search: Search) -> list[Hypothesis]:
        """Decode; special tokens are never emitted, as the canvas carries plain words.

        - `greedy` and `viterbi`: the best token of each slot, collapsed. Slots are independent of each other,
          so the slot-wise best is the best alignment, and the two are one. `max_length` is not respected: a
          limit would tie the slots together.
        - `beam`: the sentence whose alignments together are most probable, as far as `beam_size` prefixes
          show, of at most `max_length` tokens. Its score, the sum of the alignments found, is at most
          `log_prob`.

        All sentences fill the same slots, so their scores are comparable and the length penalty is not used.
        """
        search.require("greedy", "viterbi", "beam")
        special = frozenset(search.special_tokens.ids if search.special_tokens else ()) - {self.blank}
        with torch.no_grad():
            if search.strategy == "beam":
                limits = search.limits(self.num_slots.tolist())
                return self._beam([PrefixBeam(self.blank, special, search.beam_size, n) for n in limits])
            scores, tokens = best_allowed(self.log_probs, sorted(special))
            return self._collapsed(scores, tokens)

    def sample(self, generator: torch.Generator | None = None) -> list[Hypothesis]:
        """Draw a token in each slot, and collapse them; the score is that of the drawn alignment."""
        with torch.no_grad():
            chances = self.log_probs.double().exp().masked_fill(~self.inside.unsqueeze(2), 1.0)
            tokens = torch.multinomial(chances.flatten(0, 1), 1, generator=generator)
            tokens = tokens.view(self.log_probs.shape[:2])
            return self._collapsed(self.log_probs.gather(2, tokens.unsqueeze(2)).squeeze(2), tokens)

    def _collapsed(self, scores: Float[Tensor, "B T"], tokens: Int[Tensor, "B T"]) -> list[Hypothesis]:
        rows = zip(scores.tolist(), tokens.tolist(), self.num_slots.tolist(), strict=True)
        return [collapsed(score[:slots], ids[:slots], self.blank) for score, ids, slots in rows]

    def _beam(self, searches: list[PrefixBeam]) -> list[Hypothesis]:
        log_probs = as_array(self.log_probs)
        sentences = zip(searches, log_probs, self.num_slots.tolist(), strict=True)
        return [beamed(search, rows[:slots]) for search, rows, slots in sentences]


class CTCPosterior(Posterior):
    """p(alignment | X, Y): which slots emit which position, the others a blank.

    Several slots may emit one position; a slot that emits a blank counts as unused.
    """

    def __init__(self, distribution: CTC, target: Padded) -> None:
        check_padded(target)
        first_blank = Padded(
            torch.constant_pad_nd(target.ids, (1, 0), value=distribution.blank), target.lengths + 1
        )
        weights = gather_tokens(
            distribution.log_probs, first_blank
        )  # one gather, so one scatter of gradients
        never = (target.ids == distribution.blank).unsqueeze(1)
        super().__init__(weights[:, :, 1:].masked_fill(never, NEG_INF), weights[:, :, 0])
        self.distribution = distribution
        self.target = target

    def _total(self, semiring: Semiring, weights: tuple[Tensor, ...]) -> Tensor:
        return dispatch.total(semiring, self._problem(weights))

    def _problem(self, weights: tuple[Tensor, ...]) -> Weights:
        tokens, blanks = weights
        ids, num_slots = self.target.ids, self.distribution.num_slots
        repeated = torch.zeros_like(ids, dtype=torch.bool)
        repeated[:, 1:] = ids[:, 1:] == ids[:, :-1]
        return Weights(tokens, blanks, repeated, num_slots, self.target.lengths.to(num_slots))

    def __repr__(self) -> str:
        return f"CTCPosterior({self.distribution!r}, {self.target!r})"

    @profiled(DYNAMIC_PROGRAM)
    def argmax(self) -> Alignment:
        """Return the best alignment of each target, as the position that each slot emits (-1: a blank)."""
        found = dispatch.best(self._problem(self._weights))
        return Alignment(*found) if found else super().argmax()
