"""Contenders brought to life: each becomes a function from texts to texts."""

import json
import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from pcfgnat.benchmark.contender import Contender

MOST_SENTENCES = 1 << 10  # in a batch; the translator itself cuts those with too many tokens
LENGTH_PENALTY = 1.0  # for CTranslate2 models, which do not say how they want to be decoded
USUAL_POSITIONS = 256  # of those that others have converted


class Runner(ABC):
    """Something that can be timed."""

    @property
    @abstractmethod
    def description(self) -> str:
        """What runs: the runtime, its precision, and whether a shortlist is used."""

    @abstractmethod
    def run(self, texts: Sequence[str], length: int) -> list[str]:
        """Translate texts as one batch; `length` is that of every source in tokens, 0 if they differ."""


class OurRunner(Runner):
    """A checkpoint in torch, or exported: both translate by the same `Translator`."""

    def __init__(self, contender: Contender, threads: int) -> None:
        from pcfgnat.runtimes.onnx import ExportedOptions
        from pcfgnat.translator import TranslateOptions, Translator
        from pcfgnat.translator.loading import RuntimeName

        if contender.runtime == "torch":
            import torch

            torch.set_num_threads(threads)
        strategy = f"beam:size={contender.beam}" if contender.decode == "beam" else contender.decode
        options = TranslateOptions(strategy=strategy, batch=MOST_SENTENCES)
        onnx = ExportedOptions(
            threads, exact=None if contender.shortlist is None else not contender.shortlist
        )
        loaded = Translator.load(
            contender.directory, options=options, runtime=cast(RuntimeName, contender.runtime), onnx=onnx
        )
        self._translator = loaded.for_corpus_text()
        self._request = self._translator.request
        self._forced = contender.forced

    @property
    def description(self) -> str:
        """What was loaded, as the model itself says."""
        job = self._translator.job()
        shortlist = "" if job["exact"] == "True" else ", shortlist"
        return f"{job['runtime']} {job['precision']}{shortlist}, {job['strategy']}"

    def run(self, texts: Sequence[str], length: int) -> list[str]:
        """Translate; a forced translation ends at the source's length, begin and end counted in both."""
        if self._forced:
            self._translator.request = replace(self._request, max_length=length)
        return [str(translation) for translation in self._translator(texts)]


class CTranslate2Runner(Runner):
    """A CTranslate2 model with our tokenizer around it."""

    def __init__(self, contender: Contender, threads: int) -> None:
        sys.modules.setdefault("torch", None)  # type: ignore[arg-type] # it would load torch if there is one
        import ctranslate2

        from pcfgnat.text import Tokenizer

        self._translator = ctranslate2.Translator(str(contender.directory), intra_threads=threads)
        self._tokenizer = Tokenizer.load(contender.directory / "tokenizer")
        pieces = self._tokenizer.pieces(range(self._tokenizer.vocabulary_size))
        self._ids = {piece: token for token, piece in enumerate(pieces)}
        config = json.loads((contender.directory / "config.json").read_text(encoding="utf-8"))
        self._positions: int = config.get("max_positions", USUAL_POSITIONS)
        self._beam = 1 if contender.decode == "greedy" else contender.beam
        self._shortlist, self._forced = bool(contender.shortlist), contender.forced

    @property
    def description(self) -> str:
        """What CTranslate2 computes with, as it says."""
        shortlist = ", shortlist" if self._shortlist else ""
        search = "greedy" if self._beam == 1 else f"beam:size={self._beam}"
        return f"ctranslate2 {self._translator.compute_type}{shortlist}, {search}"

    def run(self, texts: Sequence[str], length: int) -> list[str]:
        """Translate; the limit counts tokens after the first one, as many as the decoder takes steps."""
        sources = [self._tokenizer.pieces(ids) for ids in self._tokenizer.encode_all(texts)]
        longest = max(map(len, sources))
        results = self._translator.translate_batch(
            sources,
            beam_size=self._beam,
            length_penalty=LENGTH_PENALTY,
            max_decoding_length=length - 1 if self._forced else min(2 * longest + 9, self._positions),
            max_input_length=self._positions,
            use_vmap=self._shortlist,
        )
        return [self._tokenizer.decode(map(self._ids.__getitem__, found.hypotheses[0])) for found in results]


def load_runner(contender: Contender, threads: int) -> Runner:
    """Load what a contender needs, for so many threads."""
    if contender.runtime == "ctranslate2":
        return CTranslate2Runner(contender, threads)
    return OurRunner(contender, threads)
