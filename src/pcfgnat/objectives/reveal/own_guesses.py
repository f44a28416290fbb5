"""What a network itself would write on a canvas, to be learnt from as decoding will meet it."""

import torch
from jaxtyping import Int
from torch import Tensor

from pcfgnat.networks import CanvasIds, CanvasNetwork, Memory
from pcfgnat.nn import best_types, waiting
from pcfgnat.objectives.randomness import generator_restored
from pcfgnat.text.special import SPECIAL_TOKENS

FIRST_WORD = max(SPECIAL_TOKENS.ids) + 1  # special tokens are never written inside a sentence


def own_guesses(network: CanvasNetwork, memory: Memory, canvas: CanvasIds) -> Int[Tensor, "B m"]:
    """Return the best token of each node, without gradient; the canvas's own beyond a sentence.

    What dropout draws here is drawn again by the next pass.
    """
    with torch.no_grad():
        with generator_restored(canvas.ids.device):
            filled = network.fill(memory, canvas)
        weight = network.embeddings.tokens.weight[FIRST_WORD:]
        best = best_types(waiting.picked(filled.mask, filled.states), weight)
        return torch.where(filled.mask, FIRST_WORD + waiting.placed(filled.mask, best), canvas.ids)
