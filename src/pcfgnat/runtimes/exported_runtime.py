"""What all exported models share, whatever runs them: metadata, the shortlist, what they can read."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int64

from pcfgnat.checkpoints.metadata import CheckpointError
from pcfgnat.runtimes.base import Sources
from pcfgnat.runtimes.exported import Exported
from pcfgnat.runtimes.machine import available_cores
from pcfgnat.text.shortlist import SHORTLIST, Shortlist


@dataclass(frozen=True)
class ExportedOptions:
    """How to run.

    threads: None stands for one for each core
    exact:   whether to look at the whole vocabulary, even if there is a shortlist; None: unless the shortlist
             is known to cost next to nothing
    """

    threads: int | None = None
    exact: bool | None = None


class ExportedRuntime:
    """An exported model that is ready to run."""

    def __init__(self, exported: Exported, options: ExportedOptions) -> None:
        self.exported, self.metadata = exported, exported.metadata
        self.threads = options.threads or available_cores()
        self.shortlist = _shortlist(exported, options.exact)

    @property
    def max_source_length(self) -> int:
        """The longest source that can be read, bos and eos included."""
        return self.metadata.shape.max_source_length

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
