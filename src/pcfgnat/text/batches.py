"""Which pairs go together: batches of bounded size and similar length, in a random but repeatable order."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int, Int64, Integer

from pcfgnat.text.corpus import ParallelCorpus


@dataclass(frozen=True)
class BatchSettings:
    """How large a batch may be, and how random.

    `tokens` bounds pairs × longest sentence of either side, padding included; `sentences` bounds pairs. The
    pairs of an epoch are shuffled, then sorted by length within windows of about `window` batches: small ones
    are more random, large ones need less padding. Without `shuffle` all are sorted, and all epochs are equal.
    """

    tokens: int | None = None
    sentences: int | None = None
    window: int = 256
    shuffle: bool = True
    seed: int = 1

    def __post_init__(self) -> None:
        if self.tokens is None and self.sentences is None:
            raise ValueError("tokens or sentences must be given, got neither")
        for name, value in (("tokens", self.tokens), ("sentences", self.sentences), ("window", self.window)):
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")


class Batches:
    """The batches of an epoch: lists of indices into the corpus."""

    def __init__(self, order: Int[np.ndarray, "n"], bounds: Sequence[tuple[int, int]]) -> None:
        self._order = order
        self._bounds = bounds

    def __len__(self) -> int:
        return len(self._bounds)

    def __getitem__(self, index: int) -> list[int]:
        start, stop = self._bounds[index]
        indices: list[int] = self._order[start:stop].tolist()
        return indices

    def __iter__(self) -> Iterator[list[int]]:
        return self.resume_at(0)

    def resume_at(self, batch: int) -> Iterator[list[int]]:
        """Resume at batch number `batch`, as if those before it had been taken."""
        if not 0 <= batch <= len(self):
            raise ValueError(f"batch must be in 0 … {len(self)}, got {batch}")
        return (self[index] for index in range(batch, len(self)))

    def padding(self, corpus: ParallelCorpus) -> float:
        """Return the share of padding among all positions of both sides."""
        filled = padded = 0
        for lengths in (corpus.source_lengths, corpus.target_lengths):
            for start, stop in self._bounds:
                inside = lengths[self._order[start:stop]]
                filled += int(inside.sum())
                padded += int(inside.max()) * inside.size
        return 1 - filled / padded if padded else 0.0


def batches(
    corpus: ParallelCorpus,
    settings: BatchSettings,
    epoch: int = 0,
    among: Int64[np.ndarray, "k"] | None = None,
    target_lengths: Integer[np.ndarray, "n"] | None = None,
) -> Batches:
    """Plan an epoch: the same for the same seed and epoch, whoever asks.

    Only pairs `among` these take part, if given; `target_lengths` may stand in for those of the corpus.
    """
    source = corpus.source_lengths
    target = corpus.target_lengths if target_lengths is None else target_lengths
    if among is not None:
        source, target = source[among], target[among]
    count, longest = len(source), np.maximum(source, target)
    _check_fit(longest, settings)
    random = np.random.default_rng((settings.seed, epoch))
    order = random.permutation(count) if settings.shuffle else np.arange(count)
    window = np.arange(count) // (_window(longest, settings) if settings.shuffle else count + 1)
    order = order[_sorted_in_windows(longest[order], (source - target)[order], window)]
    bounds = cut(longest[order].tolist(), settings)
    sequence = random.permutation(len(bounds)) if settings.shuffle else np.arange(len(bounds))
    return Batches(order if among is None else among[order], [bounds[index] for index in sequence])


def share(taken: Sequence[list[int]], rank: int, world: int) -> list[list[int]]:
    """Return what one of `world` processes takes of a step's batches, of which the others take the rest.

    Each takes the same number of lists, some of which may be empty. Batches stay whole if their number allows
    it, else all are cut into equally many pieces, short and long sentences in each alike.
    """
    if not 0 <= rank < world:
        raise ValueError(f"rank must be in 0 … {world - 1}, got {rank}")
    pieces = world // math.gcd(len(taken), world)
    return [batch[piece::pieces] for batch in taken for piece in range(pieces)][rank::world]


def padded(
    sequences: Sequence[Integer[np.ndarray, "_"]], pad: int = 0
) -> tuple[Int64[np.ndarray, "B N"], Int64[np.ndarray, "B"]]:
    """Put sequences into one array, filled up with `pad`, and give their lengths."""
    lengths = np.array([len(sequence) for sequence in sequences], np.int64)
    ids = np.full((len(sequences), int(lengths.max(initial=0))), pad, np.int64)
    for row, sequence in zip(ids, sequences, strict=True):
        row[: len(sequence)] = sequence
    return ids, lengths


def _check_fit(longest: Integer[np.ndarray, "n"], settings: BatchSettings) -> None:
    if settings.tokens is not None and longest.size and longest.max() > settings.tokens:
        count, worst = int((longest > settings.tokens).sum()), int(longest.max())
        found = f"{settings.tokens}, which {count} pairs do not fit into"
        raise ValueError(f"tokens must be at least {worst}, the length of the longest sentence, got {found}")


def _window(longest: Integer[np.ndarray, "n"], settings: BatchSettings) -> int:
    """Number of pairs in a window."""
    by_sentences = settings.sentences or float("inf")
    by_tokens = (
        settings.tokens / max(float(longest.mean()), 1) if settings.tokens and longest.size else float("inf")
    )
    return int(min(settings.window * min(by_sentences, by_tokens), longest.size)) + 1


def _sorted_in_windows(
    longest: Integer[np.ndarray, "n"], difference: Integer[np.ndarray, "n"], window: Integer[np.ndarray, "n"]
) -> Integer[np.ndarray, "n"]:
    """Order by the longer side; among equals by how much shorter the other one is.

    Both go up and down in turn, so that neighbours are alike across windows, and across lengths.
    """
    down = 1 - 2 * (window % 2)
    inner_down = 1 - 2 * (longest % 2)
    order: Integer[np.ndarray, "n"] = np.lexsort((difference * inner_down, longest * down, window))
    return order


def cut(lengths: Sequence[int], settings: BatchSettings) -> list[tuple[int, int]]:
    """Cut a row of sentences into batches, each as large as may be."""
    most_tokens = float("inf") if settings.tokens is None else settings.tokens
    most_sentences = float("inf") if settings.sentences is None else settings.sentences
    starts, longest = [0], 0
    for index, length in enumerate(lengths):
        longest = max(longest, length)
        count = index - starts[-1] + 1
        if count > most_sentences or count * longest > most_tokens:
            starts.append(index)
            longest = length
    return list(zip(starts, [*starts[1:], len(lengths)], strict=True)) if lengths else []
