"""What all one-pass models share: a decoder that fills a canvas at once, and a distribution over its nodes.

Loss, glancing and decoding are written here once. A model says how long its canvas is and which distribution
its states define.
"""

from abc import abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import ClassVar

import torch
from jaxtyping import Bool, Float, Int
from numpy import ndarray
from torch import Tensor, nn

from pcfgnat.grammar.lattice import LatticeScores
from pcfgnat.networks.base import SPECIAL_TOKENS, Batch, Loss, Model, inference
from pcfgnat.networks.glancing import GlancingConfig, Revealed, noise, reveal
from pcfgnat.nn import (
    Decoder,
    Embeddings,
    Encoder,
    TransformerConfig,
    best_types,
    token_log_probs,
    token_log_probs_within,
)
from pcfgnat.structures import Hypothesis, Padded, Search, SequenceDistribution, SpecialTokens
from pcfgnat.structures.distribution import check_lengths, check_target

NEG_INF = float("-inf")


@dataclass(frozen=True)
class ParallelConfig:
    """What all one-pass models can be told.

    copy_input: add to each node's input a projection of the encoder state that it stands opposite to. Not in
                the paper; learning begins much faster with it
    """

    transformer: TransformerConfig = field(default_factory=TransformerConfig)
    glancing: GlancingConfig = field(default_factory=GlancingConfig)
    copy_input: bool = False


@dataclass(frozen=True)
class Memory:
    """An encoded batch."""

    states: Float[Tensor, "B N D"]
    mask: Bool[Tensor, "B N"]
    lengths: Int[Tensor, "B"]


@dataclass(frozen=True)
class Canvas:
    """The decoder's states: sentence b fills the first `lengths[b]` of m nodes."""

    states: Float[Tensor, "B m D"]
    mask: Bool[Tensor, "B m"]
    lengths: Int[Tensor, "B"]
    source_lengths: Int[Tensor, "B"]


class ParallelModel(Model):
    """Encoder, decoder without causal mask over a canvas of nodes, and a distribution over sentences.

    first_node: the node that emits bos
    unemitted:  how many tokens of a sentence no node emits
    """

    loss_weight = "sentences"
    first_node: ClassVar[int] = 0
    unemitted: ClassVar[int] = 0

    def __init__(self, config: ParallelConfig, vocabulary: int, longest_canvas: int) -> None:
        super().__init__()
        transformer = config.transformer
        self.glancing = config.glancing
        self.embeddings = Embeddings(vocabulary, transformer, longest_canvas)
        self.encoder = Encoder(transformer)
        self.decoder = Decoder(transformer, causal=False)
        width = transformer.width
        self.copy: nn.Linear | None = nn.Linear(width, width) if config.copy_input else None

    @abstractmethod
    def canvas_lengths(self, memory: Memory, target: Padded | None) -> Int[Tensor, "B"]:
        """How many nodes each sentence gets; the target is known in training only."""

    @abstractmethod
    def distribution(self, canvas: Canvas, emit: Float[Tensor, "B m K"]) -> SequenceDistribution:
        """Return p(Y|X); `emit` holds log-probabilities of K tokens, not always of the whole vocabulary."""

    def emitted(self, target: Padded) -> Padded:
        """Return what the nodes have to emit of a target: all of it."""
        return target

    def restricted(
        self, canvas: Canvas, emit: Float[Tensor, "B m V"], special: SpecialTokens
    ) -> Float[Tensor, "B m V"]:
        """Let only bos come first, only eos last, and no special token between them."""
        closed = emit.index_fill(2, torch.tensor(special.ids, device=emit.device), NEG_INF)
        sentence = torch.arange(len(emit), device=emit.device)
        first = torch.full_like(canvas.lengths, self.first_node)
        for node, token in ((first, special.bos), (canvas.lengths - 1, special.eos)):
            closed[sentence, node] = NEG_INF
            closed[sentence, node, token] = emit[sentence, node, token]
        return closed

    def completed(self, hypothesis: Hypothesis) -> Hypothesis:
        """Turn what nodes emitted into a sentence with bos and eos."""
        return hypothesis

    def extra_types(self) -> tuple[int, ...]:
        """Return tokens that are needed besides those of the target; they come first in `emit`."""
        return ()

    def lattice(self, distribution: SequenceDistribution, top: int) -> LatticeScores:
        """Return one sentence's rules and best tokens as plain arrays, where nodes are joined by rules."""
        raise ValueError("a lattice needs a model whose nodes are joined by rules, pcfg or dag, not this one")

    def extra_loss(self, memory: Memory, target: Padded) -> Float[Tensor, "B"] | None:
        """Return what is added to the loss of each sentence."""
        return None

    @property
    def max_source_length(self) -> int:
        """As many as the encoder has positions for."""
        return self.embeddings.source_positions.limit

    def loss(self, batch: Batch, progress: float) -> Loss:
        """Return `-log P(Y|X) / n`, mean over sentences; those that no structure derives are left out."""
        memory = self._encode(batch.source)
        check_target(batch.target, len(memory.lengths), self.embeddings.tokens.vocabulary)
        lengths = self.canvas_lengths(memory, batch.target)
        target = _with_columns(self.emitted(batch.target))
        revealed: Revealed | None = None
        metrics: dict[str, float] = {}
        if self.training and self.glancing.enabled:
            emitted = Batch(batch.source, target, batch.seeds)
            revealed, metrics = self._glance(memory, lengths, emitted, progress)
        canvas = self._decode(memory, lengths, revealed)
        emit, local = self._emissions(canvas, target)
        if revealed is not None and self.glancing.force_emit:
            emit = self._forced(emit, local, revealed)
        log_prob = self.distribution(canvas, emit).log_prob(local)
        return self._mean(log_prob, batch, self.extra_loss(memory, batch.target), metrics)

    def translate(self, source: Padded, search: Search) -> list[list[Hypothesis]]:
        """Return translations, as many of the best as `search.results` says where the strategy finds several.

        `sample` draws `beam_size` translations by torch's own generator, from what has no special token
        inside. A translation has at most `max_length` tokens, or twice as many as the source, where the
        structure can be told so.
        """
        search = self._prepared(search, source)
        if not len(source.lengths):
            return []
        with inference(self):
            if search.strategy == "sample":
                distribution = self._full_distribution(source, search.special_tokens)
                drawn = [distribution.sample() for _ in range(search.beam_size)]
                found = [list(sentence) for sentence in zip(*drawn, strict=True)]
            else:
                found = self._full_distribution(source).n_best(search)
            return [[self.completed(hypothesis) for hypothesis in sentence] for sentence in found]

    def sweep(
        self, source: Padded, search: Search, length_penalties: Sequence[float]
    ) -> list[list[Hypothesis]]:
        """Return the best translation of each sentence under each length penalty, from one decoding."""
        search = self._prepared(search, source)
        if not len(source.lengths):
            return []
        with inference(self):
            found = self._full_distribution(source).modes(search, length_penalties)
            return [[self.completed(hypothesis) for hypothesis in sentence] for sentence in found]

    def translation_distribution(self, source: Padded) -> SequenceDistribution:
        """Return p(Y|X) over the whole vocabulary, without gradient."""
        with inference(self):
            return self._full_distribution(source)

    def target_distribution(self, batch: Batch) -> tuple[SequenceDistribution, Padded]:
        """Return p(Y|X) over the targets' own tokens, and the targets in terms of them, without gradient.

        Each sentence has a vocabulary of its own, so that B · m · n numbers are held, and never B · m · V.
        """
        with inference(self):
            memory = self._encode(batch.source)
            check_target(batch.target, len(memory.lengths), self.embeddings.tokens.vocabulary)
            canvas = self._decode(memory, self.canvas_lengths(memory, batch.target), None)
            emit, local = self._emissions(canvas, _with_columns(self.emitted(batch.target)))
            return self.distribution(canvas, emit), local

    def lattice_scores(self, source: Sequence[int], top: int) -> LatticeScores:
        """Return what is known before decoding of one source, `bos … eos`: see `HasLattice`."""
        batch, device = Padded.from_lists([list(source)]), self.embeddings.tokens.weight.device
        on_device = Padded(batch.ids.to(device), batch.lengths.to(device))
        return self.lattice(self.translation_distribution(on_device), top)

    def _prepared(self, search: Search, source: Padded) -> Search:
        search.require(*self.strategies)
        limits = search.max_length or tuple(2 * length for length in source.lengths.tolist())
        if isinstance(limits, int):
            limits = (limits,) * len(source.lengths)
        limits = tuple(max(limit - self.unemitted, 1) for limit in limits)
        special = search.special_tokens or SPECIAL_TOKENS
        return replace(search, max_length=limits, special_tokens=special)

    def _full_distribution(
        self, source: Padded, special: SpecialTokens | None = None
    ) -> SequenceDistribution:
        memory = self._encode(source)
        canvas = self._decode(memory, self.canvas_lengths(memory, None), None)
        scores = self.embeddings.tokens.scores(canvas.states.flatten(0, 1))
        wide = torch.promote_types(scores.dtype, torch.float32)
        emit = scores.log_softmax(-1, dtype=wide).view(*canvas.mask.shape, -1)
        if special is not None:
            emit = self.restricted(canvas, emit, special)
        return self.distribution(canvas, emit)

    def _encode(self, source: Padded) -> Memory:
        check_target(source, len(source.lengths), self.embeddings.tokens.vocabulary)
        check_lengths(source.lengths, len(source.lengths), 1, source.ids.shape[1], "lengths of the source")
        width = int(source.lengths.max()) if len(source.lengths) else 0
        source = Padded(source.ids[:, :width], source.lengths)
        mask = source.mask
        return Memory(self.encoder(self.embeddings.source(source.ids, mask), mask), mask, source.lengths)

    def _decode(self, memory: Memory, lengths: Int[Tensor, "B"], revealed: Revealed | None) -> Canvas:
        """Fill the canvas: bos at the first node, eos at the last, else blanks or what is revealed."""
        node = torch.arange(int(lengths.max()), device=lengths.device)
        mask = node < lengths.unsqueeze(1)
        ids = torch.full(mask.shape, SPECIAL_TOKENS.unk, device=lengths.device)
        ids[:, 0] = SPECIAL_TOKENS.bos
        ids = ids.masked_fill(node == lengths.unsqueeze(1) - 1, SPECIAL_TOKENS.eos)
        if revealed is not None:
            ids = torch.where(revealed.mask, revealed.token, ids)
        inputs = self.embeddings.target(ids, mask)
        if self.copy is not None:
            inputs = inputs + self.copy(_opposite(memory, lengths, node))
        states = self.decoder(inputs, mask, memory.states, memory.mask)
        return Canvas(states, mask, lengths, memory.lengths)

    def _emissions(
        self, canvas: Canvas, target: Padded, shortlist: int | None = None
    ) -> tuple[Float[Tensor, "B m K"], Padded]:
        """Return log-probabilities of the target's own tokens at all nodes, and the target in terms of them.

        No other tokens matter to P(Y|X). Equal tokens have equal ids: those of their first occurrence. With a
        shortlist, probabilities are among these tokens and so many of the first ids only.
        """
        ids = target.ids.masked_fill(~target.mask, 0)
        extra = ids.new_tensor(self.extra_types()).expand(len(ids), -1)
        types = torch.cat([extra, ids], 1)
        sentence = canvas.mask.nonzero()[:, 0]
        states, weight = canvas.states[canvas.mask], self.embeddings.tokens.weight
        if shortlist is None:
            found = token_log_probs(states, weight, types[sentence])
        else:
            frequent = torch.arange(min(shortlist, len(weight)), device=ids.device)
            vocabulary = torch.unique(torch.cat([types.flatten(), frequent]))
            found = token_log_probs_within(states, weight, types[sentence], vocabulary)
        emit = found.new_zeros(*canvas.mask.shape, types.shape[1])
        emit = emit.masked_scatter(canvas.mask.unsqueeze(2), found)
        first = (ids.unsqueeze(2) == types.unsqueeze(1)).int().argmax(2)
        return emit, Padded(first, target.lengths)

    def _glance(
        self, memory: Memory, lengths: Int[Tensor, "B"], batch: Batch, progress: float
    ) -> tuple[Revealed, dict[str, float]]:
        """Look where the model would put what it must emit by itself, and choose what to show.

        The decoder then runs again with the same numbers drawn for its dropout.
        """
        with torch.no_grad():
            target, nodes = batch.target, int(lengths.max())
            if batch.seeds is None:
                chance = torch.rand(len(lengths), nodes, device=lengths.device)
            else:
                chance = noise(batch.seeds, nodes)
            with _generator_restored(lengths.device):
                canvas = self._decode(memory, lengths, None)
            emit, local = self._emissions(canvas, target, self.glancing.shortlist)
            position = self.distribution(canvas, emit).posterior(local).argmax().position
            aligned = position >= 0
            predicted = torch.full_like(position, -1)
            predicted[aligned] = best_types(canvas.states[aligned], self.embeddings.tokens.weight)
            revealed = reveal(position, predicted, target, self.glancing.ratio(progress), chance)
            right = aligned & (predicted == revealed.token)
            tokens = max(int(aligned.sum()), 1)
            shares = {"glancing_accuracy": right, "revealed": revealed.mask}
            return revealed, {name: int(mask.sum()) / tokens for name, mask in shares.items()}

    def _forced(
        self, emit: Float[Tensor, "B m K"], local: Padded, revealed: Revealed
    ) -> Float[Tensor, "B m K"]:
        """Let nodes that were shown a token emit nothing else."""
        own = local.ids.gather(1, revealed.position).unsqueeze(2)
        other = torch.arange(emit.shape[2], device=emit.device) != own
        return emit.masked_fill(other & revealed.mask.unsqueeze(2), NEG_INF)

    def _mean(
        self,
        log_prob: Float[Tensor, "B"],
        batch: Batch,
        extra: Float[Tensor, "B"] | None,
        metrics: dict[str, float],
    ) -> Loss:
        feasible = (log_prob != NEG_INF) & (batch.target.lengths >= 2)
        sentences = int(feasible.sum())
        lengths = batch.target.lengths[feasible]
        losses = -log_prob[feasible] / lengths
        metrics = {**metrics, "nll": float(losses.detach().sum()) / max(sentences, 1)}
        if extra is not None:
            metrics["extra_loss"] = float(extra[feasible].detach().sum()) / max(sentences, 1)
            losses = losses + extra[feasible]
        value = losses.sum() / max(sentences, 1)
        return Loss(value, sentences, int(lengths.sum()), len(log_prob) - sentences, metrics)


def top_tokens(emit: Float[Tensor, "m V"], count: int) -> tuple[Int[ndarray, "m k"], Float[ndarray, "m k"]]:
    """Return the most probable tokens of each node and their log-probabilities, best first."""
    log_probs, ids = emit.topk(min(count, emit.shape[1]))
    return ids.cpu().numpy(), log_probs.cpu().numpy()


def _with_columns(target: Padded) -> Padded:
    """Give a batch of nothing but empty targets a column of padding, so that there is something to index."""
    return target if target.ids.shape[1] else Padded(target.ids.new_zeros(len(target.ids), 1), target.lengths)


def _generator_restored(device: torch.device) -> AbstractContextManager[None]:
    """A block after which torch's generator stands where it stood before."""
    return torch.random.fork_rng(devices=[device] if device.type == "cuda" else [])


def _opposite(memory: Memory, lengths: Int[Tensor, "B"], node: Int[Tensor, "m"]) -> Float[Tensor, "B m D"]:
    """Return the encoder state that each node stands opposite to, when both are spread evenly."""
    sources = memory.lengths.unsqueeze(1)
    place = (node * sources // lengths.unsqueeze(1)).clamp(max=sources - 1)
    return memory.states.gather(1, place.unsqueeze(2).expand(-1, -1, memory.states.shape[2]))
