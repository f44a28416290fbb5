"""Autoregressive networks as torch runs them, behind what decoding asks for."""

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from pcfgnat.networks import AutoregressiveNetwork, Memory, inference
from pcfgnat.runtimes.base import NextTokens, Reading, Sources
from pcfgnat.text.special import SPECIAL_TOKENS

CHUNK_ROWS = 1024  # states whose tokens are scored together


class TorchSteps:
    """A network that writes token by token."""

    def __init__(self, network: AutoregressiveNetwork) -> None:
        self.network = network

    @property
    def max_source_length(self) -> int:
        """The longest source that can be read, bos and eos included."""
        return self.network.max_source_length

    @property
    def max_target_length(self) -> int:
        """The longest sentence that can be written; its last token is never read."""
        return self.network.embeddings.target_positions.limit + 1

    def start(self, sources: Sources) -> "TorchStepper":
        """Encode sources."""
        with inference(self.network), torch.inference_mode():
            return TorchStepper(self.network, self.network.encode(self.network.padded(sources)))


class TorchStepper:
    """A decoder with its memory of one batch."""

    def __init__(self, network: AutoregressiveNetwork, memory: Memory) -> None:
        self._network = network
        self._cache = network.decoder.start(memory.states, memory.mask)
        self._position = 0
        ends = SPECIAL_TOKENS.eos
        banned = [token for token in SPECIAL_TOKENS.ids if token != ends]
        self._banned = torch.tensor(banned, device=network.device)

    def step(
        self, tokens: Int64[np.ndarray, "B Q"], visible: Bool[np.ndarray, "B Q S"] | None, width: int | None
    ) -> NextTokens:
        """Read one more token of each hypothesis, and return the `width` best next ones, all if None."""
        network = self._network
        with inference(network), torch.inference_mode():
            read = torch.from_numpy(tokens).to(network.device)
            seen = None if visible is None else torch.from_numpy(visible).to(network.device)
            embedded = network.embeddings.target_step(read, self._position)
            states = network.decoder.step(embedded, seen, self._cache)
            self._position += 1
            log_probs = network.token_log_probs(states.flatten(0, 1)).view(*tokens.shape, -1)
            log_probs.index_fill_(2, self._banned, -torch.inf)
            vocabulary = log_probs.shape[2]
            best, following = log_probs.topk(min(width or vocabulary, vocabulary), dim=2)
            end = log_probs[:, :, SPECIAL_TOKENS.eos]
            return NextTokens(best.cpu().numpy(), following.cpu().numpy(), end.cpu().numpy())

    def read(
        self,
        tokens: Int64[np.ndarray, "B Q"],
        following: Int64[np.ndarray, "B Q"],
        kept: Int64[np.ndarray, "B"],
    ) -> Reading:
        """Read Q consecutive tokens of each sentence, behind the first `kept[b]` that it has read."""
        network = self._network
        with inference(network), torch.inference_mode():
            ids, given, ends = (
                torch.from_numpy(array).to(network.device) for array in (tokens, following, kept)
            )
            place = ends.unsqueeze(1) + torch.arange(ids.shape[1], device=ids.device)  # B Q
            known = torch.arange(int(ends.max()) + ids.shape[1], device=ids.device)
            positions = place.clamp(max=network.embeddings.target_positions.limit - 1)  # of padding
            self._cache.rewind(ends)
            embedded = network.embeddings.target_at(ids, positions)
            states = network.decoder.step(embedded, known <= place.unsqueeze(2), self._cache)
            chunks = (torch.split(rows, CHUNK_ROWS) for rows in (states.flatten(0, 1), given.flatten()))
            parts = [self._read(*chunk) for chunk in zip(*chunks, strict=True)]
            found = (torch.cat(part).view(tokens.shape).cpu().numpy() for part in zip(*parts, strict=True))
            return Reading(*found)

    def _read(self, states: Float[Tensor, "R D"], given: Int64[Tensor, "R"]) -> tuple[Tensor, ...]:
        """Return what a `Reading` holds, of some rows."""
        log_probs = self._network.token_log_probs(states).index_fill(1, self._banned, -torch.inf)
        best, following = log_probs.topk(1, dim=1)
        asked = log_probs.gather(1, given.unsqueeze(1)).squeeze(1)
        return following[:, 0], best[:, 0], asked, log_probs[:, SPECIAL_TOKENS.eos]

    def select(self, rows: Int64[np.ndarray, "R"]) -> None:
        """Keep these sentences only."""
        with torch.inference_mode():
            self._cache.select(torch.from_numpy(rows).to(self._network.device))
