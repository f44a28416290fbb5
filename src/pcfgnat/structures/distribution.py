"""What every one-pass model returns: a distribution over sentences, its posteriors and its decodings."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from pcfgnat.grammar.parse_tree import ParseTree
from pcfgnat.grammar.search import Hypothesis, Search, SpecialTokens
from pcfgnat.structures.arguments import check_tensor, kind_of
from pcfgnat.structures.backend import use_numba
from pcfgnat.structures.profiling import DYNAMIC_PROGRAM, profiled
from pcfgnat.structures.semiring import (
    NEG_INF,
    CountSemiring,
    EntropySemiring,
    KBestSemiring,
    LogSemiring,
    MaxSemiring,
    SampleSemiring,
    Semiring,
)
from pcfgnat.structures.transforms import fold_into_batch, is_transformed


@dataclass(frozen=True)
class Padded:
    """Token ids of a batch of sentences; what lies beyond a sentence's length is never looked at."""

    ids: Int[Tensor, "B N"]
    lengths: Int[Tensor, "B"]

    def __post_init__(self) -> None:
        check_tensor("ids", self.ids, "; Padded.from_lists takes lists")
        check_tensor("lengths", self.lengths)
        if self.ids.dim() != 2 or self.ids.dtype != torch.int64:
            raise ValueError(
                f"ids must be int64 of shape (B, N), got {self.ids.dtype} {tuple(self.ids.shape)}"
            )
        check_lengths(self.lengths, batch=self.ids.shape[0], low=0, high=self.ids.shape[1])

    def __repr__(self) -> str:
        batch, width = self.ids.shape
        return f"Padded({batch} sentences of up to {width} tokens, {self.ids.device})"

    @property
    def mask(self) -> Bool[Tensor, "B N"]:
        """True at the positions that belong to a sentence."""
        return torch.arange(self.ids.shape[1], device=self.ids.device) < self.lengths.unsqueeze(1)

    @classmethod
    def from_lists(cls, sentences: Sequence[Sequence[int]], padding: int = 0) -> "Padded":
        """Pad lists of ids to one tensor."""
        width = max((len(sentence) for sentence in sentences), default=0)
        rows = [[*sentence, *[padding] * (width - len(sentence))] for sentence in sentences]
        ids = torch.tensor(rows, dtype=torch.int64).reshape(len(sentences), width)
        return cls(ids, torch.tensor([len(sentence) for sentence in sentences], dtype=torch.int64))

    def to(self, device: torch.device) -> "Padded":
        """Move to a device; to a GPU while the program continues."""
        return Padded(moved(self.ids, device), moved(self.lengths, device))

    def to_lists(self) -> list[list[int]]:
        """Return the ids of every sentence without padding."""
        rows = zip(self.ids.tolist(), self.lengths.tolist(), strict=True)
        return [row[:length] for row, length in rows]


def moved(tensor: Tensor, device: torch.device) -> Tensor:
    """Move a tensor to a device; from the CPU to a GPU by pinned memory, without waiting for the GPU."""
    if tensor.device.type == "cpu" and device.type == "cuda":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


@dataclass(frozen=True)
class Alignment:
    """A structure of each sentence: the target position that each node emits (-1: unused), and its score.

    Where a sentence has no structure at all, every position is -1 and the score is -inf.
    """

    position: Int[Tensor, "B m"]
    score: Float[Tensor, "B"]

    def nodes(self, index: int) -> tuple[int, ...]:
        """Return the nodes that sentence `index` uses, in order of the positions that they emit."""
        position = self.position[index].tolist()
        used = [node for node, i in enumerate(position) if i >= 0]
        return tuple(sorted(used, key=lambda node: (position[node], node)))


class Posterior(ABC):
    """p(structure | X, Y): what the structures of a given target look like.

    A subclass names its log-weights, with `token_weights [B, m, N]` (node emits position) among them, and
    adds them up in any semiring. Everything else follows, because the gradient of the total marks what it is
    made of.
    """

    def __init__(self, token_weights: Float[Tensor, "B m N"], *others: Float[Tensor, "..."]) -> None:
        self._weights: tuple[Tensor, ...] = (token_weights, *others)

    @abstractmethod
    def _total(self, semiring: Semiring, weights: tuple[Tensor, ...]) -> Tensor:
        """Add up all structures: `[K, B]`."""

    @property
    def log_partition(self) -> Float[Tensor, "B"]:
        """log P(Y|X), all structures summed; differentiable, and -inf where there is none."""
        total = self._total(LogSemiring(), self._weights)[0]
        return torch.where(total == NEG_INF, NEG_INF, total)  # a sum of one term would pass a gradient on

    @property
    def feasible(self) -> Bool[Tensor, "B"]:
        """Which targets have a structure of non-zero probability."""
        with torch.no_grad():
            return self.log_partition > NEG_INF

    @profiled(DYNAMIC_PROGRAM)
    def argmax(self) -> Alignment:
        """Return the best structure of each target."""
        return self._marked(MaxSemiring())[0]

    def sample(self, generator: torch.Generator | None = None) -> Alignment:
        """Draw a structure of each target from the posterior; its score is log P(Y, structure | X)."""
        return self.samples(1, generator)[0]

    def samples(self, count: int, generator: torch.Generator | None = None) -> list[Alignment]:
        """Draw several structures of each target, independent of each other, from one inside pass."""
        return self._marked(SampleSemiring(generator), repetitions=count)

    def k_best(self, k: int) -> list[Alignment]:
        """Return the k best structures, best first; score -inf where a target has fewer."""
        return self._marked(KBestSemiring(k))

    def marginals(self) -> Float[Tensor, "B m N"]:
        """Return the probability that a node emits a position, given the target; differentiable."""
        return self._marginals()[0]

    def entropy(self) -> Float[Tensor, "B"]:
        """Return the entropy of the posterior in nats; differentiable, 0 where there is no structure."""
        return self._total(EntropySemiring(), self._weights)[1]

    def num_derivations(self) -> Float[Tensor, "B"]:
        """Count the structures of non-zero probability, in float64 (exact up to 2^53)."""
        with torch.no_grad():
            return self._total(CountSemiring(), self._weights)[0]

    def _detached(self) -> tuple[Tensor, ...]:
        return tuple(weight.detach().requires_grad_() for weight in self._weights)

    def _marginals(self) -> tuple[Tensor, ...]:
        """Return the posterior probability of each weight's part: the gradients of log P, 0 without any."""

        def total(*weights: Tensor) -> Tensor:
            return self._total(LogSemiring(), weights)[0]

        transformed = any(map(is_transformed, self._weights))
        wanted = torch.is_grad_enabled() and any(weight.requires_grad for weight in self._weights)
        with torch.enable_grad():
            if transformed or wanted:
                value, pull = torch.func.vjp(total, *self._weights)[:2]
                found = pull(torch.ones_like(value))
            else:
                weights = self._detached()
                value = total(*weights)
                found = _gradients(value, weights)
        possible = (value > NEG_INF).detach()
        return tuple(torch.where(possible.view(-1, *[1] * (part.dim() - 1)), part, 0.0) for part in found)

    def _marked(self, semiring: Semiring, repetitions: int = 1) -> list[Alignment]:
        """Read the structures that the gradient of each component marks; another draw each time."""
        with torch.enable_grad():
            weights = self._detached()
            totals = [total for total in self._total(semiring, weights) for _ in range(repetitions)]
            gradients = [_gradients(total, weights) for total in totals]
        return [
            self._alignment(marks, possible=total.detach() > NEG_INF)
            for marks, total in zip(gradients, totals, strict=True)
        ]

    def _alignment(self, marks: tuple[Tensor, ...], possible: Tensor) -> Alignment:
        """Turn 0/1 marks on all weights into positions and the score of what is marked."""
        used = (marks[0] > 0.5) & possible[:, None, None]
        one_based = torch.arange(1, used.shape[2] + 1, device=used.device)
        position = (used * one_based).sum(-1) - 1  # a node emits one position at most
        score = torch.where(possible, 0.0, NEG_INF).to(marks[0].dtype)
        for mark, weight in zip(marks, self._weights, strict=True):
            chosen = torch.where(
                (mark > 0.5) & possible.view(-1, *[1] * (mark.dim() - 1)), weight.detach(), 0.0
            )
            score = score + chosen.flatten(1).sum(1)
        return Alignment(position, score)


class TreePosterior(Posterior):
    """A posterior whose structures are parse trees."""

    def __init__(
        self, target: Padded, token_weights: Float[Tensor, "B m N"], *others: Float[Tensor, "..."]
    ) -> None:
        super().__init__(token_weights, *others)
        self.target = target

    @abstractmethod
    def _parse_tree(self, index: int, nodes: tuple[int, ...], tokens: list[int]) -> ParseTree:
        """Return the tree over these nodes and tokens of sentence `index`, with its probabilities."""

    def trees(self, alignment: Alignment) -> list[ParseTree | None]:
        """Return the parse trees of an alignment; None where a target has none."""
        return [
            self._parse_tree(index, alignment.nodes(index), tokens) if score > NEG_INF else None
            for index, (score, tokens) in enumerate(
                zip(alignment.score.tolist(), self.target.to_lists(), strict=True)
            )
        ]

    def best_tree(self) -> list[ParseTree | None]:
        """Return the best parse tree of each target; None where it has none."""
        return self.trees(self.argmax())


def _gradients(total: Tensor, weights: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Gradients of all totals; 0 where a weight takes no part, as none does if all targets are empty."""
    if not total.requires_grad:
        return tuple(torch.zeros_like(weight) for weight in weights)
    return torch.autograd.grad(total.sum(), weights, retain_graph=True, materialize_grads=True)


class SequenceDistribution(ABC):
    """p(Y|X) with the hidden structure summed out."""

    @profiled(DYNAMIC_PROGRAM)
    def log_prob(self, target: Padded) -> Float[Tensor, "B"]:
        """log P(Y|X); -inf, with gradient 0, where no structure derives the target."""
        return self.posterior(target).log_partition

    @abstractmethod
    def posterior(self, target: Padded) -> Posterior:
        """p(structure | X, Y)."""

    @abstractmethod
    def mode(self, search: Search) -> list[Hypothesis]:
        """Decode every sentence of the batch."""

    def n_best(self, search: Search) -> list[list[Hypothesis]]:
        """Decode every sentence, and return up to `search.results` hypotheses of each, best first.

        Here and wherever a strategy finds only one, that one.
        """
        return [[hypothesis] for hypothesis in self.mode(search)]

    def modes(self, search: Search, length_penalties: Sequence[float]) -> list[list[Hypothesis]]:
        """Decode every sentence once for each penalty; by-length tables answer all of them in one pass."""
        decoded = [self.mode(replace(search, length_penalty=penalty)) for penalty in length_penalties]
        return [list(sentence) for sentence in zip(*decoded, strict=True)]

    @abstractmethod
    def sample(self, generator: torch.Generator | None = None) -> list[Hypothesis]:
        """Draw a sentence, with its structure, for every element of the batch."""

    def samples(self, count: int, generator: torch.Generator | None = None) -> list[list[Hypothesis]]:
        """Draw several sentences for every element of the batch, independent of each other."""
        drawn = [self.sample(generator) for _ in range(count)]
        return [list(own) for own in zip(*drawn, strict=True)]

    @abstractmethod
    def infeasible(self, target: Padded) -> dict[int, str]:
        """Return the targets that have probability 0, by index, and the reason."""


def check_lengths(lengths: Tensor, batch: int, low: int, high: int, name: str = "lengths") -> None:
    """Raise unless `lengths` is a vector of `batch` whole numbers in `low … high`.

    Their values are looked at on the CPU only: elsewhere the program would have to wait for the device.
    """
    if lengths.shape != (batch,) or lengths.is_floating_point() or lengths.dtype == torch.bool:
        raise ValueError(
            f"{name} must be whole numbers of shape ({batch},), got {lengths.dtype} {tuple(lengths.shape)}"
        )
    if lengths.device.type != "cpu" or not batch:
        return
    if not (low <= int(lengths.min()) and int(lengths.max()) <= high):
        raise ValueError(f"{name} must be in {low} … {high}, got {lengths.tolist()}")


def check_padded(target: Any) -> None:
    """Raise unless this is a target as structures take it."""
    if not isinstance(target, Padded):
        raise TypeError(f"target must be Padded, got {kind_of(target)}; Padded.from_lists takes lists")


def check_target(target: Padded, batch: int, vocabulary: int) -> None:
    """Raise unless the target has `batch` sentences with ids in `0 … vocabulary - 1`.

    Ids are looked at on the CPU only; elsewhere `gather` itself raises, when the device gets there.
    """
    check_padded(target)
    if target.ids.shape[0] != batch:
        raise ValueError(f"target must have {batch} sentences, got {target.ids.shape[0]}")
    if target.ids.device.type != "cpu":
        return
    ids = target.ids[target.mask]
    if ids.numel() and not (int(ids.min()) >= 0 and int(ids.max()) < vocabulary):
        raise ValueError(f"ids must be in 0 … {vocabulary - 1}, got {int(ids.min())} … {int(ids.max())}")


def gather_tokens(emit: Float[Tensor, "B m V"], target: Padded) -> Float[Tensor, "B m N"]:
    """Log-probability of every target token at every node; -inf on padding."""
    check_target(target, emit.shape[0], emit.shape[2])
    return _GatherTokens.apply(emit, target.ids, target.lengths)  # type: ignore[no-any-return,no-untyped-call]


class _GatherTokens(torch.autograd.Function):
    """`gather` that visits true positions only, and so does its gradient; by kernels where they apply."""

    @staticmethod
    def forward(emit: Tensor, ids: Tensor, lengths: Tensor) -> Tensor:
        if use_numba(emit) and emit.is_contiguous():  # kernels are compiled for contiguous arrays only
            from pcfgnat.structures.kernels import pick_tokens

            tokens = emit.new_empty((*emit.shape[:2], ids.shape[1]))
            given = (emit.detach(), ids.contiguous(), lengths.long(), tokens)
            pick_tokens(*(tensor.numpy() for tensor in given))
            return tokens
        mask = Padded(ids, lengths).mask
        known = ids.masked_fill(~mask, 0)
        tokens = emit.gather(2, known.unsqueeze(1).expand(-1, emit.shape[1], -1))
        return tokens.masked_fill_(~mask.unsqueeze(1), NEG_INF)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        emit, ids, lengths = inputs
        ctx.save_for_backward(ids, lengths)
        ctx.shape = emit.shape

    @staticmethod
    @profiled(DYNAMIC_PROGRAM)
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        ids, lengths = ctx.saved_tensors
        if torch.is_grad_enabled() or not use_numba(grad):
            mask = Padded(ids, lengths).mask
            known = ids.masked_fill(~mask, 0).unsqueeze(1).expand_as(grad)
            known_grad = grad.masked_fill(~mask.unsqueeze(1), 0.0)
            return grad.new_zeros(ctx.shape).scatter_add(2, known, known_grad), None, None
        from pcfgnat.structures.kernels import scatter_tokens

        result = grad.new_zeros(ctx.shape)
        given = (grad.contiguous(), ids.contiguous(), lengths.long(), result)
        scatter_tokens(*(tensor.numpy() for tensor in given))
        return result, None, None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *arguments: Any) -> tuple[Any, Any]:
        return fold_into_batch(_GatherTokens.apply, info.batch_size, in_dims, arguments)


def best_allowed(
    emit: Float[Tensor, "B m V"], banned: Sequence[int]
) -> tuple[Float[Tensor, "B m"], Int[Tensor, "B m"]]:
    """Best token of each node that is not banned, and its log-probability."""
    score, token = emit.max(-1)
    unwanted = torch.tensor(banned, dtype=torch.int64, device=emit.device)
    clash = torch.isin(token, unwanted)
    if bool(clash.any()):  # only these rows are looked at again: emit is never copied whole
        score[clash], token[clash] = emit[clash].index_fill(1, unwanted, NEG_INF).max(-1)
    return score, token


def best_tokens(
    emit: Float[Tensor, "B m V"],
    special: SpecialTokens | None,
    first: int,
    last: Int[Tensor, "B"],
    blank: int | None = None,
) -> tuple[Float[Tensor, "B m"], Int[Tensor, "B m"]]:
    """Best token of each node and its log-probability: bos at `first`, eos at `last`, others between.

    A `blank` is a special token that may stand between them.
    """
    banned = [token for token in special.ids if token != blank] if special else ()
    score, token = best_allowed(emit, banned)
    if special is not None:
        sentence = torch.arange(emit.shape[0], device=emit.device)
        score[:, first], token[:, first] = emit[:, first, special.bos], special.bos
        score[sentence, last], token[sentence, last] = emit[sentence, last, special.eos], special.eos
    return score, token
