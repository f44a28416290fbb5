"""A trained model under study, and its way through a text."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from tqdm import tqdm

from pcfgnat.analysis.corpus import IdPair
from pcfgnat.checkpoints.checkpoint import Checkpoint
from pcfgnat.networks import Batch, ParallelModel
from pcfgnat.structures import Padded, Search
from pcfgnat.text import BatchSettings, Tokenizer, cut

SIZE = BatchSettings(tokens=2048, sentences=64, shuffle=False)


class AnalysisError(ValueError):
    """A question that makes no sense for a model or a text."""


@dataclass(frozen=True)
class Subject:
    """A model with its tokenizer; `kind` is its name among all models, `search` how it translates."""

    name: str
    kind: str
    model: ParallelModel
    tokenizer: Tokenizer
    search: Search
    target_language: str = ""

    @classmethod
    def load(cls, name: str, directory: Path, device: torch.device | str = "cpu") -> "Subject":
        """Read a checkpoint; complain if its model has no structure to look at."""
        checkpoint = Checkpoint.open(directory)
        facts = checkpoint.description
        model = checkpoint.model(device=device)
        if not isinstance(model, ParallelModel):
            raise AnalysisError(
                f"{name} must be a one-pass model, whose sentences have a hidden structure, got {facts.model}"
            )
        search = facts.search.search()
        return cls(name, facts.model, model, checkpoint.tokenizer, search, facts.languages.target)

    def require(self, *kinds: str, reason: str) -> None:
        """Complain unless the model is one of these."""
        if self.kind not in kinds:
            raise AnalysisError(f"{self.name} must be one of {', '.join(kinds)}, got {self.kind}: {reason}")


class Walk:
    """All pairs of a text in batches of similar length, with progress on stderr; keeps who was left out."""

    def __init__(self, subject: Subject, pairs: Sequence[IdPair]) -> None:
        self.subject = subject
        self.left_out: dict[int, str] = {}
        self._pairs = pairs
        limit = subject.model.max_source_length
        for index, (source, _) in enumerate(pairs):
            if len(source) > limit:
                self.leave_out(index, f"{len(source)} source tokens, but the model reads at most {limit}")

    def leave_out(self, index: int, reason: str) -> None:
        """Note that a pair cannot be looked at."""
        self.left_out[index] = reason

    def __iter__(self) -> Iterator[tuple[list[int], Batch]]:
        order = [index for index in range(len(self._pairs)) if index not in self.left_out]
        order.sort(key=lambda index: self._longest(index))
        lengths = [self._longest(index) for index in order]
        with tqdm(total=len(order), desc=self.subject.name, unit=" pairs", disable=None, leave=False) as bar:
            for start, stop in cut(lengths, SIZE):
                indices = order[start:stop]
                source, target = (self.padded([self._pairs[i][side] for i in indices]) for side in (0, 1))
                yield indices, Batch(source, target)
                bar.update(len(indices))

    def padded(self, sentences: Sequence[Sequence[int]]) -> Padded:
        """Put sentences into tensors where the model is."""
        device = next(self.subject.model.parameters()).device
        plain = Padded.from_lists(sentences)
        return Padded(plain.ids.to(device), plain.lengths.to(device))

    def _longest(self, index: int) -> int:
        return max(map(len, self._pairs[index]))


def left_out_rows(left_out: dict[int, str]) -> list[dict[str, int | str]]:
    """Name the pairs that were left out by their line, counted from 1."""
    return [{"line": index + 1, "reason": reason} for index, reason in sorted(left_out.items())]
