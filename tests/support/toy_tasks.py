"""Copying and reversing random sequences: tasks that every network learns on a CPU within seconds."""

from dataclasses import dataclass

import torch

from pcfgnat.networks import Batch, Network
from pcfgnat.objectives import Objective, Step
from pcfgnat.structures import Padded
from pcfgnat.text.special import SPECIAL_TOKENS
from tests.support.decoded import translated

FIRST_WORD = max(SPECIAL_TOKENS.ids) + 1


@dataclass(frozen=True)
class ToyTask:
    """Sentences of random words, to be repeated or reversed; no two words in a row are the same."""

    reverse: bool
    words: int = 12
    shortest: int = 1
    longest: int = 8

    @property
    def vocabulary(self) -> int:
        return FIRST_WORD + self.words

    def batch(self, sentences: int, generator: torch.Generator) -> Batch:
        sources = [self._sentence(generator) for _ in range(sentences)]
        targets = [source[::-1] if self.reverse else source for source in sources]
        return Batch(Padded.from_lists(_ended(sources)), Padded.from_lists(_ended(targets)))

    def _sentence(self, generator: torch.Generator) -> list[int]:
        length = int(torch.randint(self.shortest, self.longest + 1, (), generator=generator))
        steps = torch.randint(1, self.words, (length,), generator=generator)  # never 0: no repetition
        return (FIRST_WORD + steps.cumsum(0) % self.words).tolist()


@dataclass(frozen=True)
class BothTasks(ToyTask):
    """Copying and reversing in turn; the first word says which, and stays where it is."""

    @property
    def vocabulary(self) -> int:
        return FIRST_WORD + self.words + 2

    def batch(self, sentences: int, generator: torch.Generator) -> Batch:
        sources, targets = [], []
        for number in range(sentences):
            sentence, backwards = self._sentence(generator), number % 2
            task = FIRST_WORD + self.words + backwards
            sources.append([task, *sentence])
            targets.append([task, *(sentence[::-1] if backwards else sentence)])
        return Batch(Padded.from_lists(_ended(sources)), Padded.from_lists(_ended(targets)))


COPY = ToyTask(reverse=False)
REVERSE = ToyTask(reverse=True)
SHORT_COPY = ToyTask(reverse=False, words=8, longest=5)
SHORT_REVERSE = ToyTask(reverse=True, words=8, longest=5)
BOTH = BothTasks(reverse=True, words=6, longest=4)


@dataclass(frozen=True)
class Training:
    """How long and how fast to learn: Adam, linear warm-up, linear decay."""

    steps: int
    rate: float = 2e-3
    sentences: int = 32
    warm_up: int = 50
    clip: float = 1.0

    @classmethod
    def short(cls) -> "Training":
        """What is enough for the short tasks."""
        return cls(steps=250, rate=3e-3, sentences=24, warm_up=30)

    def factor(self, step: int) -> float:
        return min((step + 1) / self.warm_up, (self.steps - step) / (self.steps - self.warm_up))


def train(network: Network, objective: Objective, task: ToyTask, training: Training, seed: int = 0) -> float:
    """Train a network on a task, and return its last loss."""
    generator = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    optimiser = torch.optim.Adam(network.parameters(), training.rate, betas=(0.9, 0.98), fused=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, training.factor)
    step = Step(network, objective).train()
    value = torch.tensor(0.0)
    for number in range(training.steps):
        value = step(task.batch(training.sentences, generator), number / training.steps).value
        optimiser.zero_grad()
        value.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), training.clip)
        optimiser.step()
        schedule.step()
    return float(value.detach())


def exact_match(network: Network, strategy: str, task: ToyTask, sentences: int = 300, seed: int = 1) -> float:
    """Share of new sentences whose best translation is exactly the target."""
    batch = task.batch(sentences, torch.Generator().manual_seed(10**6 + seed))
    results = translated(network, strategy, batch.source.to_lists())
    targets = batch.target.to_lists()
    right = [list(found[0].ids) == target for found, target in zip(results, targets, strict=True)]
    return sum(right) / sentences


def _ended(sentences: list[list[int]]) -> list[list[int]]:
    return [[SPECIAL_TOKENS.bos, *sentence, SPECIAL_TOKENS.eos] for sentence in sentences]
