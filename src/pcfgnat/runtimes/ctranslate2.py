"""Autoregressive networks in CTranslate2, which searches by itself; needs no torch."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pcfgnat.checkpoints.metadata import CheckpointError
from pcfgnat.grammar.search import Hypothesis
from pcfgnat.runtimes.base import Sources
from pcfgnat.text import Tokenizer
from pcfgnat.text.special import SPECIAL_TOKENS

CONFIG = "config.json"
AT_ONCE = 32  # sentences that one of its workers translates together


class CTranslate2Runtime:
    """A converted network; `threads` sentences are worked on at a time, each by one thread."""

    def __init__(self, directory: Path, tokenizer: Tokenizer, threads: int) -> None:
        import ctranslate2

        try:
            config = json.loads((directory / CONFIG).read_text(encoding="utf-8"))
            self._positions = int(config["max_positions"])
            self._engine: Any = ctranslate2.Translator(str(directory), inter_threads=threads, intra_threads=1)
        except (OSError, RuntimeError, ValueError, KeyError) as error:
            detail = f"{type(error).__name__}: {error}"
            raise CheckpointError(f"{directory} must be a model of CTranslate2: {detail}") from error
        self._pieces = tokenizer.pieces(range(tokenizer.vocabulary_size))
        self._ids = {piece: token for token, piece in enumerate(self._pieces)}

    @property
    def max_source_length(self) -> int:
        """The longest source that can be read, bos and eos included."""
        return self._positions

    @property
    def max_target_length(self) -> int:
        """The longest sentence that can be written; its last token is never read."""
        return self._positions + 1

    def search(
        self, sources: Sources, limits: Sequence[int], size: int, length_penalty: float
    ) -> list[list[Hypothesis]]:
        """Return what a beam of this size finds of each source, in at most so many tokens.

        Sources of one limit are translated together, so that none depends on the others.
        """
        groups: dict[int, list[int]] = {}
        for index, limit in enumerate(limits):
            groups.setdefault(limit, []).append(index)
        pending = {
            limit: self._engine.translate_batch(
                [[self._pieces[token] for token in sources[index]] for index in indices],
                asynchronous=True,
                max_batch_size=AT_ONCE,
                beam_size=size,
                num_hypotheses=size,
                length_penalty=length_penalty,
                return_scores=True,
                disable_unk=True,
                suppress_sequences=[[self._pieces[SPECIAL_TOKENS.pad]], [self._pieces[SPECIAL_TOKENS.bos]]],
                min_decoding_length=0,
                max_decoding_length=max(limit - 2, 1),  # it ends there without eos
                max_input_length=self._positions,
            )
            for limit, indices in groups.items()
        }
        found: dict[int, list[Hypothesis]] = {}
        for limit, indices in groups.items():
            for index, waiting in zip(indices, pending[limit], strict=True):
                found[index] = self._hypotheses(waiting.result(), limit, length_penalty)
        return [found[index] for index in range(len(sources))]

    def _hypotheses(self, result: Any, limit: int, length_penalty: float) -> list[Hypothesis]:
        return [
            self._hypothesis(pieces, score, limit, length_penalty)
            for pieces, score in zip(result.hypotheses, result.scores, strict=True)
        ]

    def _hypothesis(
        self, pieces: Sequence[str], score: float, limit: int, length_penalty: float
    ) -> Hypothesis:
        """Return ids between bos and eos; the score is a log-probability again, not divided by a length."""
        inner = [self._ids[piece] for piece in pieces[: limit - 2]]
        ids = (SPECIAL_TOKENS.bos, *inner, SPECIAL_TOKENS.eos)
        total = score * (len(pieces) + 1) ** length_penalty  # its lengths count eos
        return Hypothesis(ids, total, tuple(range(len(ids))))
