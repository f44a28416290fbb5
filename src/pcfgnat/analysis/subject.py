"""A trained model under study, and its way through a text."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from pcfgnat.checkpoints.checkpoint import Checkpoint
from pcfgnat.decoding import Request, Strategy, parse_strategy
from pcfgnat.evaluation.evaluation_set import IdPair
from pcfgnat.grammar.search import Hypothesis
from pcfgnat.networks import Batch, CanvasNetwork, HybridNetwork
from pcfgnat.progress import progress_bar
from pcfgnat.runtimes.torch import torch_runtime
from pcfgnat.structures import Padded
from pcfgnat.text import BatchSettings, Tokenizer, cut

SIZE = BatchSettings(tokens=2048, sentences=64, shuffle=False)


class AnalysisError(ValueError):
    """A question that makes no sense for a model or a text."""


@dataclass(frozen=True)
class Subject:
    """A network with its tokenizer; `kind` is its name among all networks."""

    name: str
    kind: str
    network: CanvasNetwork
    tokenizer: Tokenizer
    strategy: Strategy
    request: Request
    target_language: str = ""

    @classmethod
    def load(cls, name: str, directory: Path, device: torch.device | str = "cpu") -> "Subject":
        """Read a checkpoint; raise an error if its network has no structure to look at."""
        checkpoint = Checkpoint.open(directory)
        metadata = checkpoint.metadata
        kind, network = metadata.network_name, checkpoint.network(device=device)
        decoding = metadata.decoding.strategy
        if isinstance(network, HybridNetwork):  # what has a structure is its lattice
            kind, network = network.config.drafter, network.drafter
            decoding = network.default_strategy
        if not isinstance(network, CanvasNetwork):
            raise AnalysisError(
                f"{name} must be a one-pass model, whose sentences have a hidden structure, got {kind}"
            )
        strategy = parse_strategy(decoding, torch_runtime(network))
        request = Request(length_penalty=metadata.decoding.length_penalty)
        tokenizer, language = checkpoint.tokenizer, metadata.languages.target
        return cls(name, kind, network, tokenizer, strategy, request, language)

    def translated(self, sources: Sequence[Sequence[int]]) -> list[Hypothesis]:
        """Return the best translation of each sentence, by the model's own default."""
        found = self.strategy.decode(torch_runtime(self.network), sources, self.request)
        return [hypotheses[0] for hypotheses in found]

    def require(self, *kinds: str, reason: str) -> None:
        """Raise an error unless the network is one of these."""
        if self.kind not in kinds:
            raise AnalysisError(f"{self.name} must be one of {', '.join(kinds)}, got {self.kind}: {reason}")


class Walk:
    """All pairs of a text in batches of similar length, with progress on stderr; keeps who was left out."""

    def __init__(self, subject: Subject, pairs: Sequence[IdPair]) -> None:
        self.subject = subject
        self.left_out: dict[int, str] = {}
        self._pairs = pairs
        limit = subject.network.max_source_length
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
        with progress_bar(self.subject.name, "pairs", len(order)) as bar:
            for start, stop in cut(lengths, SIZE):
                indices = order[start:stop]
                source, target = (self.padded([self._pairs[i][side] for i in indices]) for side in (0, 1))
                yield indices, Batch(source, target)
                bar.update(len(indices))

    def padded(self, sentences: Sequence[Sequence[int]]) -> Padded:
        """Put sentences into tensors where the model is."""
        return self.subject.network.padded(sentences)

    def _longest(self, index: int) -> int:
        return max(map(len, self._pairs[index]))


def left_out_rows(left_out: dict[int, str]) -> list[dict[str, int | str]]:
    """Name the pairs that were left out by their line, counted from 1."""
    return [{"line": index + 1, "reason": reason} for index, reason in sorted(left_out.items())]


def left_out_text(name: str, left_out: Sequence[dict[str, Any]], shown: int = 3) -> str:
    """Return which pairs were left out and why; the JSON file has them all."""
    if not left_out:
        return f"{name}: no pair left out."
    some = "; ".join(f"line {row['line']}: {row['reason']}" for row in left_out[:shown])
    more = " …" if len(left_out) > shown else ""
    return f"{name}: {len(left_out)} left out ({some}{more})."
