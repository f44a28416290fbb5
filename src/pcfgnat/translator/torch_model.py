"""A torch model behind what a translator needs."""

from collections.abc import Sequence

from pcfgnat.networks import Model
from pcfgnat.structures import Hypothesis, Padded, Search


class TorchModel:
    """Takes lists of ids, and puts them where the model is."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._device = next(model.parameters()).device

    def translate(self, sources: Sequence[Sequence[int]], search: Search) -> list[list[Hypothesis]]:
        """Return the best translations of each sentence."""
        return self._model.translate(self._padded(sources), search)

    def sweep(
        self, sources: Sequence[Sequence[int]], search: Search, length_penalties: Sequence[float]
    ) -> list[list[Hypothesis]]:
        """Return the best translation of each sentence under each length penalty."""
        return self._model.sweep(self._padded(sources), search, length_penalties)

    def _padded(self, sources: Sequence[Sequence[int]]) -> Padded:
        padded = Padded.from_lists(sources)
        return Padded(padded.ids.to(self._device), padded.lengths.to(self._device))
