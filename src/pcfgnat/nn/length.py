"""How long a translation will be: a class for each difference to the length of its source."""

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from pcfgnat.grammar.canvas import LENGTH_CLASSES, SAME_LENGTH


class LengthHead(nn.Linear):
    """Scores of target lengths from the mean state of the encoder."""

    def __init__(self, width: int) -> None:
        super().__init__(width, LENGTH_CLASSES)

    def scores(
        self, states: Float[Tensor, "B N D"], mask: Bool[Tensor, "B N"], lengths: Int[Tensor, "B"]
    ) -> Float[Tensor, "B L"]:
        """Return the score of each class, in float32, not normalised."""
        states = states.masked_fill(~mask.unsqueeze(2), 0.0)
        scores: Tensor = self(states.sum(1) / lengths.unsqueeze(1))
        return scores.float()

    @staticmethod
    def cost(
        scores: Float[Tensor, "B L"], source_lengths: Int[Tensor, "B"], target_lengths: Int[Tensor, "B"]
    ) -> Float[Tensor, "B"]:
        """Return the cross-entropy of the true lengths."""
        label = (target_lengths - source_lengths + SAME_LENGTH).clamp(0, LENGTH_CLASSES - 1)
        return functional.cross_entropy(scores, label, reduction="none")
