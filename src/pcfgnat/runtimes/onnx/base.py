"""What all exported models share: sessions, tables, the output layer and the shortlist."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
from jaxtyping import Int64

from pcfgnat.checkpoints.metadata import CheckpointError
from pcfgnat.runtimes.base import Sources
from pcfgnat.runtimes.onnx.exported import EXACT, SELECTED, Exported
from pcfgnat.runtimes.onnx.inputs import Embedded
from pcfgnat.runtimes.onnx.output import OutputLayer
from pcfgnat.runtimes.onnx.sessions import Session, available_cores, open_session
from pcfgnat.text.shortlist import SHORTLIST, Shortlist

OUTPUTS = ("best", "place", "mass", "special")


@dataclass(frozen=True)
class OnnxOptions:
    """How to run.

    threads: None stands for one for each core
    exact:   whether to look at the whole vocabulary, even if there is a shortlist; None: unless the shortlist
             is known to cost next to nothing
    """

    threads: int | None = None
    exact: bool | None = None


class OnnxRuntime:
    """An exported model on onnxruntime."""

    def __init__(self, exported: Exported, options: OnnxOptions) -> None:
        self.exported, self.metadata = exported, exported.metadata
        self.threads = options.threads or available_cores()
        self.embedded = Embedded(exported)
        self.output = OutputLayer(
            self.embedded.tokens,
            self.embedded.scales,
            cache(partial(self.session, EXACT, OUTPUTS)),
            cache(partial(self.session, SELECTED, OUTPUTS)),
        )
        self.shortlist = _shortlist(exported, options.exact)

    @property
    def max_source_length(self) -> int:
        """The longest source that can be read, bos and eos included."""
        return self.metadata.shape.max_source_length

    def session(self, name: str, required: Sequence[str]) -> Session:
        """Load one of the model's graphs."""
        return open_session(self.exported.path(name), self.threads, required)

    def token_choices(self, sources: Sources) -> list[Int64[np.ndarray, "_"]] | None:
        """Return the shortlist of each source, if one is used."""
        return None if self.shortlist is None else [self.shortlist.types(source) for source in sources]

    def check(self, sources: Sources) -> None:
        """Raise an error for sources that the model cannot read."""
        vocabulary, longest = self.metadata.vocabulary, self.max_source_length
        for source in sources:
            if not 1 <= len(source) <= longest:
                raise ValueError(f"a source must have 1 … {longest} tokens, got {len(source)}")
            if not (min(source) >= 0 and max(source) < vocabulary):
                raise ValueError(f"ids must be in 0 … {vocabulary - 1}, got {min(source)} … {max(source)}")


def _shortlist(exported: Exported, exact: bool | None) -> Shortlist | None:
    facts = exported.metadata.shortlist
    exists = SHORTLIST in exported.metadata.files
    if exact is False and not exists:
        raise CheckpointError(f"{exported.directory} has no shortlist: export it with one")
    if exact or not exists or (exact is None and not (facts is not None and facts.by_default)):
        return None
    shortlist = Shortlist.load(exported.directory / SHORTLIST)
    if shortlist.vocabulary != exported.metadata.vocabulary:
        raise CheckpointError(
            f"{exported.directory / SHORTLIST} must be for {exported.metadata.vocabulary} tokens, "
            f"got {shortlist.vocabulary}"
        )
    return shortlist
