"""Networks of latents as torch runs them, behind what decoding asks for."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int, Int64
from torch import Tensor

from pcfgnat.networks import FlowSeqNetwork, Memory, inference
from pcfgnat.runtimes.base import Sources
from pcfgnat.structures import Padded
from pcfgnat.structures.distribution import best_allowed
from pcfgnat.structures.emissions import as_array
from pcfgnat.text.special import SPECIAL_TOKENS


class TorchLatents:
    """A network of latents."""

    def __init__(self, network: FlowSeqNetwork) -> None:
        self._network = network

    @property
    def max_source_length(self) -> int:
        """The longest source that can be read, bos and eos included."""
        return self._network.max_source_length

    @property
    def max_latents(self) -> int:
        """The greatest number of positions."""
        longest: int = self._network.config.longest
        return longest

    def read_latents(self, sources: Sources) -> "TorchLatentsReader":
        """Encode sources."""
        with inference(self._network):
            return TorchLatentsReader(self._network, self._network.encode(self._network.padded(sources)))


@dataclass(frozen=True)
class TorchLatentsReader:
    """Sources that have been encoded."""

    network: FlowSeqNetwork
    memory: Memory

    @property
    def multiple(self) -> int:
        """Numbers of positions must be multiples of this."""
        multiple: int = self.network.config.flow.multiple
        return multiple

    @property
    def width(self) -> int:
        """Size of a latent vector."""
        width: int = self.network.config.transformer.width
        return width

    def length_log_probs(self) -> Float[np.ndarray, "B L"]:
        """Return log-probabilities of the classes of lengths."""
        with inference(self.network):
            return as_array(self.network.length_scores(self.memory).log_softmax(-1))

    def write(
        self,
        sentence: Int64[np.ndarray, "R"],
        lengths: Int64[np.ndarray, "R"],
        noise: Float[np.ndarray, "R n d"],
    ) -> tuple[Float[np.ndarray, "R n"], Int64[np.ndarray, "R n"]]:
        """Return the best token of each position, a word or eos."""
        network, (memory, sizes) = self.network, self._rows(sentence, lengths)
        given = torch.from_numpy(noise).to(memory.states)
        banned = [token for token in SPECIAL_TOKENS.ids if token != SPECIAL_TOKENS.eos]
        with inference(network):
            z, mask = network.latents(memory, sizes, given)
            log_probs = network.token_log_probs(network.written(memory, z, mask))
            scores, tokens = best_allowed(log_probs, banned)
            return as_array(scores), tokens.cpu().numpy()

    def log_weights(
        self,
        sentence: Int64[np.ndarray, "R"],
        lengths: Int64[np.ndarray, "R"],
        tokens: Int64[np.ndarray, "R n"],
        noise: Float[np.ndarray, "R n d"],
    ) -> Float[np.ndarray, "R"]:
        """Return the logarithm of an estimate of each row's probability, given its number of positions."""
        network, (memory, sizes) = self.network, self._rows(sentence, lengths)
        filled = Padded(torch.from_numpy(tokens).to(network.device), sizes)
        with inference(network):
            return as_array(network.log_weights(memory, filled, torch.from_numpy(noise).to(memory.states)))

    def _rows(
        self, sentence: Int64[np.ndarray, "R"], lengths: Int64[np.ndarray, "R"]
    ) -> tuple[Memory, Int[Tensor, "R"]]:
        """Return what the rows' sentences were encoded to, and how many positions each row has."""
        rows, sizes = (torch.from_numpy(array).to(self.network.device) for array in (sentence, lengths))
        return Memory(self.memory.states[rows], self.memory.mask[rows], self.memory.lengths[rows]), sizes
