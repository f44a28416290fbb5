"""Random sentences for networks, and what can be done to a batch of them without changing any result."""

import torch

from pcfgnat.grammar.search import Hypothesis
from pcfgnat.networks import Batch
from pcfgnat.structures import Padded
from pcfgnat.text.special import SPECIAL_TOKENS

VOCABULARY = 12
BOS, EOS = SPECIAL_TOKENS.bos, SPECIAL_TOKENS.eos


def sentences(*lengths: int, vocabulary: int = VOCABULARY, seed: int = 0) -> list[list[int]]:
    generator = torch.Generator().manual_seed(seed)
    return [
        [BOS, *torch.randint(4, vocabulary, (length - 2,), generator=generator).tolist(), EOS]
        for length in lengths
    ]


def source_of(*lengths: int) -> Padded:
    return Padded.from_lists(sentences(*lengths))


def batch_of(*lengths: tuple[int, int]) -> Batch:
    sources, targets = zip(*lengths, strict=True)
    return Batch(source_of(*sources), Padded.from_lists(sentences(*targets, seed=1)))


def with_garbage(clean: Padded, columns: int = 3) -> Padded:
    """The same sentences, wider, with nonsense as padding."""
    ids = torch.full((clean.ids.shape[0], clean.ids.shape[1] + columns), 10**9)
    ids[:, : clean.ids.shape[1]] = clean.ids.masked_fill(~clean.mask, -7)
    return Padded(ids, clean.lengths)


def one(batch: Batch, index: int) -> Batch:
    source, target = batch.source.to_lists()[index], batch.target.to_lists()[index]
    seeds = None if batch.seeds is None else batch.seeds[index : index + 1]
    return Batch(Padded.from_lists([source]), Padded.from_lists([target]), seeds)


def scores(results: list[list[Hypothesis]]) -> list[float]:
    return [hypothesis.score for found in results for hypothesis in found]


def ids(results: list[list[Hypothesis]]) -> list[list[tuple[int, ...]]]:
    return [[hypothesis.ids for hypothesis in found] for found in results]
