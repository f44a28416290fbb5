"""The Transformer that translates token by token: teacher and yardstick of the one-pass models."""

from dataclasses import dataclass, field

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from pcfgnat.networks.base import SPECIAL_TOKENS, Batch, Loss, Model, inference
from pcfgnat.nn import (
    BeamSearch,
    Decoder,
    Embeddings,
    Encoder,
    Ends,
    Finished,
    Sampling,
    Stepper,
    Strategy,
    TransformerConfig,
    decode,
    initialise,
)
from pcfgnat.structures import Hypothesis, Padded, Search
from pcfgnat.structures.distribution import check_lengths, check_target


@dataclass(frozen=True)
class AutoregressiveConfig:
    """Any depths: 6-6 is the paper's, 12-1 the fast one of Kasai et al. (2021)."""

    transformer: TransformerConfig = field(default_factory=TransformerConfig)
    label_smoothing: float = 0.1

    def __post_init__(self) -> None:
        if not 0 <= self.label_smoothing < 1:
            raise ValueError(
                f"label_smoothing must be at least 0 and less than 1, got {self.label_smoothing}"
            )


class Autoregressive(Model):
    """p(Y|X) = Π p(y_i | y_1 … y_{i-1}, X), by an encoder and a causal decoder."""

    loss_weight = "tokens"
    strategies = ("beam", "greedy", "sample")

    def __init__(self, config: AutoregressiveConfig, vocabulary: int) -> None:
        super().__init__()
        self.config = config
        self.embeddings = Embeddings(vocabulary, config.transformer)
        self.encoder = Encoder(config.transformer)
        self.decoder = Decoder(config.transformer, causal=True)
        initialise(self, config.transformer)

    @property
    def max_source_length(self) -> int:
        """As many as the encoder has positions for."""
        return self.embeddings.source_positions.limit

    def loss(self, batch: Batch, progress: float) -> Loss:
        """Return label-smoothed cross-entropy, summed over all tokens after bos and divided by their number.

        With ε = `label_smoothing` a token y costs `-(1 - ε) log p(y) - ε / V · Σ_v log p(v)`. The metric
        `nll` is the same mean without smoothing. A target of fewer than 2 tokens is left out.
        """
        inputs, nll, smoothing = self._token_losses(batch)
        tokens, epsilon = len(nll), self.config.label_smoothing
        value = ((1 - epsilon) * nll.sum() + epsilon * smoothing.sum()) / max(tokens, 1)
        sentences = int((inputs.lengths > 0).sum())
        metrics = {"nll": float(nll.detach().mean())} if tokens else {}
        return Loss(value, sentences, tokens, len(inputs.lengths) - sentences, metrics)

    def log_prob(self, batch: Batch) -> Float[Tensor, "B"]:
        """log P(Y|X) of each target, given its bos; 0 for targets of fewer than 2 tokens."""
        inputs, nll, _ = self._token_losses(batch)
        return -nll.new_zeros(inputs.ids.shape).masked_scatter(inputs.mask, nll).sum(1)

    def translate(self, source: Padded, search: Search) -> list[list[Hypothesis]]:
        """Decode by one of three strategies.

        - `greedy`: the most probable token in each step
        - `beam`: the `beam_size` best hypotheses in each step, see `BeamSearch`; up to `beam_size` results
        - `sample`: `beam_size` independent draws by torch's own generator, in the order drawn; see `sample`

        `score` is log P(Y|X); results are ranked by `score / L^length_penalty`, where L counts bos and eos.
        A sentence has at most `max_length` tokens, or 2·Lx + 10, and never more than the decoder can read.
        """
        search.require("greedy", "beam", "sample")
        if search.strategy == "sample":
            return self.sample(source, search)
        size = search.beam_size if search.strategy == "beam" else 1
        return self._decode(source, search, BeamSearch(size, search.length_penalty))

    def sample(
        self, source: Padded, search: Search, generator: torch.Generator | None = None
    ) -> list[list[Hypothesis]]:
        """Draw `beam_size` translations of each sentence, in the order drawn; scores as in `translate`."""
        size = search.beam_size
        drawn = self._decode(source, search, Sampling(generator), copies=size)
        return [[hypothesis for (hypothesis,) in drawn[i : i + size]] for i in range(0, len(drawn), size)]

    def _token_losses(self, batch: Batch) -> tuple[Padded, Float[Tensor, "T"], Float[Tensor, "T"]]:
        """Return what the decoder read and, for each token it had to predict, both parts of the loss."""
        target = self._checked(batch.target)
        inputs = Padded(target.ids[:, :-1], (target.lengths - 1).clamp(min=0))
        mask = inputs.mask
        memory, memory_mask = self._encode(batch.source)
        states = self.decoder(self.embeddings.target(inputs.ids, mask), mask, memory, memory_mask)
        log_probs = _log_softmax(self.embeddings.tokens.scores(states[mask]))
        nll = -log_probs.gather(1, target.ids[:, 1:][mask].unsqueeze(1)).squeeze(1)
        return inputs, nll, -log_probs.mean(1)

    def _encode(self, source: Padded) -> tuple[Float[Tensor, "B N D"], Bool[Tensor, "B N"]]:
        source = self._checked(source)
        check_lengths(source.lengths, len(source.lengths), 1, source.ids.shape[1], "lengths of the source")
        mask = source.mask
        return self.encoder(self.embeddings.source(source.ids, mask), mask), mask

    def _decode(
        self, source: Padded, search: Search, strategy: Strategy, copies: int = 1
    ) -> list[list[Hypothesis]]:
        """Decode `copies` of each sentence, side by side."""
        special = search.special_tokens or SPECIAL_TOKENS
        ends = Ends(special.bos, special.eos, tuple({*special.ids} - {special.eos}))
        limits = [limit for limit in self._limits(source, search) for _ in range(copies)]
        if not limits:
            return []
        with inference(self), torch.inference_mode():
            stepper = _Stepper(self, *self._encode(source))
            if copies > 1:
                sentences = torch.arange(len(source.lengths), device=stepper.device)
                stepper.select(sentences.repeat_interleave(copies))
            return [
                [_hypothesis(end) for end in finished] for finished in decode(stepper, limits, strategy, ends)
            ]

    def _checked(self, sentences: Padded) -> Padded:
        """Complain about unknown ids, and leave out columns that no sentence reaches into."""
        check_target(sentences, len(sentences.lengths), self.embeddings.tokens.vocabulary)
        width = int(sentences.lengths.max()) if len(sentences.lengths) else 0
        return Padded(sentences.ids[:, :width], sentences.lengths)

    def _limits(self, source: Padded, search: Search) -> list[int]:
        """Return the greatest length of each translation, bos and eos included; eos is never read."""
        readable = self.embeddings.target_positions.limit + 1
        if search.max_length is None:
            return [min(2 * length + 10, readable) for length in source.lengths.tolist()]
        limits = search.limits([readable] * len(source.lengths))
        if min(limits, default=2) < 2:
            raise ValueError(f"max_length must be at least 2, for bos and eos, got {search.max_length}")
        return limits


class _Stepper(Stepper):
    """The decoder with its memory of one batch."""

    def __init__(
        self, model: Autoregressive, memory: Float[Tensor, "B N D"], mask: Bool[Tensor, "B N"]
    ) -> None:
        self.device = memory.device
        self._embeddings, self._decoder = model.embeddings, model.decoder
        self._cache = model.decoder.start(memory, mask)
        self._position = 0

    def step(
        self, tokens: Int[Tensor, "B Q"], visible: Bool[Tensor, "B Q S"] | None
    ) -> Float[Tensor, "B Q V"]:
        """Read one more token of each hypothesis, and return log-probabilities of the next ones."""
        embedded = self._embeddings.target_step(tokens, self._position)
        states = self._decoder.step(embedded, visible, self._cache)
        self._position += 1
        return _log_softmax(self._embeddings.tokens.scores(states.flatten(0, 1))).view(*tokens.shape, -1)

    def select(self, rows: Int[Tensor, "R"]) -> None:
        """Forget all sentences but these."""
        self._cache.select(rows)


def _hypothesis(end: Finished) -> Hypothesis:
    return Hypothesis(end.ids, end.score, tuple(range(len(end.ids))))


def _log_softmax(scores: Float[Tensor, "R V"]) -> Float[Tensor, "R V"]:
    """Log-probabilities, in float32 at least."""
    return scores.log_softmax(-1, dtype=torch.promote_types(scores.dtype, torch.float32))
