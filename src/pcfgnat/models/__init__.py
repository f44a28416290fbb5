"""Translation models by name: a class, built from its config and the vocabulary's size, and that config."""

from collections.abc import Callable
from typing import Any

from pcfgnat.models.autoregressive import Autoregressive, AutoregressiveConfig
from pcfgnat.models.base import SPECIAL_TOKENS, Batch, Loss, Model

MODELS: dict[str, tuple[Callable[[Any, int], Model], type[Any]]] = {
    "autoregressive": (Autoregressive, AutoregressiveConfig),
}

__all__ = ["MODELS", "SPECIAL_TOKENS", "Autoregressive", "AutoregressiveConfig", "Batch", "Loss", "Model"]
