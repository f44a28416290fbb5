"""Drafts that are verified in one call of a kernel."""

import numpy as np
from jaxtyping import Float32, Int64

from pcfgnat.grammar.decoding import Grammars
from pcfgnat.grammar.drafts import LEAST_LOG_PROB
from pcfgnat.grammar.free_lattice import FreeLattice, length_powers
from pcfgnat.grammar.search import ReadDraft, Round, Verified
from pcfgnat.runtimes.base import Limits, Verifying
from pcfgnat.runtimes.native.emissions import NativeEmissions
from pcfgnat.runtimes.native.kernels.verifying import verify_drafts
from pcfgnat.runtimes.native.steps import TokenReader

AT_ONCE = 5  # tokens of a draft that are read before they are judged: most drafts are not right to the end


def verified_draft(
    reader: TokenReader,
    memory: Float32[np.ndarray, "source_rows K"],
    source: Int64[np.ndarray, "1 2"],
    grammars: Grammars,
    place: int,
    limits: Limits,
    how: Verifying,
) -> Verified:
    """Return what a reader writes of drafts of one sentence's grammar, which the kernels have scored."""
    emissions = grammars.emissions
    if not isinstance(emissions, NativeEmissions):
        raise TypeError(f"emissions must be those of the kernels, got {type(emissions).__name__}")
    drafted, model, nodes = emissions.drafted, emissions.output.model, emissions.nodes(place)
    length = max(limits.draft, limits.verified)
    tokens, drafts = np.empty(length + 1, np.int64), np.empty((length, length), np.int64)
    sizes, accepted, givens = np.empty((3, length), np.int64)
    wholes, trees = np.empty((2, length))
    powers = length_powers(limits.draft, how.length_penalty)
    given, score, tree_score, rounds = verify_drafts(
        reader.operations, model, reader.model, memory, source, *nodes, *FreeLattice.of(grammars, place),
        drafted.score[place], drafted.token[place], emissions.chosen(place), limits.draft, limits.verified,
        powers, LEAST_LOG_PROB, how.slack, length if how.whole else AT_ONCE, tokens, drafts, sizes, accepted,
        givens, wholes, trees,
    )  # fmt: skip
    own = zip(drafts[:rounds].tolist(), sizes.tolist(), accepted.tolist(), strict=False)
    read = zip(givens[:rounds].tolist(), wholes[:rounds].tolist(), trees[:rounds].tolist(), strict=True)
    return Verified(
        tuple(tokens[:given].tolist()),
        score,
        tree_score,
        tuple([Round(tuple(draft[:size]), count) for draft, size, count in own]),
        tuple([ReadDraft(*one) for one in read]) if how.whole else (),
    )
