"""What is kept of a run: checkpoints of the best models, and the final one."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from pcfgnat.checkpoints.checkpoint import (
    Card,
    Description,
    Languages,
    SearchDefaults,
    describe,
    save_checkpoint,
)
from pcfgnat.config import to_dict
from pcfgnat.networks import Model
from pcfgnat.text import Prepared
from pcfgnat.training.config import TrainConfig, TrainingError
from pcfgnat.training.record.state import RunState
from pcfgnat.training.validation import Scores, Validator

NOT_SETTINGS = ("data", "output", "model", "card", "warm_start")


class Keeper:
    """Validates models and writes checkpoints with all that is known about them."""

    def __init__(self, config: TrainConfig, data: Prepared, model: Model) -> None:
        self.config = config
        self.data = data
        chosen = config.validation.search or SearchDefaults.of(model.default_search)
        if chosen.strategy not in model.strategies:
            names = ", ".join(model.strategies)
            raise TrainingError(f"validation.search.strategy must be one of {names}, got {chosen.strategy!r}")
        self.search = chosen.search()
        self._description = _described(config, data, chosen)
        self.validator = Validator(data, config.validation, self._description.languages.target, config.seed)

    def save(self, directory: Path, model: Model, state: RunState, scores: Scores, note: str = "") -> None:
        """Write a checkpoint of a model that was validated."""
        description = replace(self._description, training=self._facts(state, scores, note))
        save_checkpoint(directory, model, self.data.tokenizer, description)

    def _facts(self, state: RunState, scores: Scores, note: str) -> dict[str, Any]:
        settings = {name: value for name, value in to_dict(self.config).items() if name not in NOT_SETTINGS}
        return {
            "data": f"{self.data.directory.name}, {self.data.report.train.kept} pairs",
            "steps": state.step,
            "epochs": round(state.epochs, 3),
            "target_tokens": state.tokens,
            "hours": round(state.seconds / 3600, 3),
            "valid_bleu": round(scores.bleu, 2),
            "valid_length_ratio": round(scores.length_ratio, 4),
            "valid_sentences": scores.sentences,
            **({"weights": note} if note else {}),
            "torch": torch.__version__,
            "settings": settings,
        }


def _described(config: TrainConfig, data: Prepared, search: SearchDefaults) -> Description:
    card, prepared = config.card, data.report.settings
    languages = Languages(
        card.source_language or str(prepared.get("source_language", "")),
        card.target_language or str(prepared.get("target_language", "")),
    )
    own = Card(card.title, card.licence, card.data, card.limits)
    vocabulary = data.tokenizer.vocabulary_size
    description = describe(config.model_name, config.model_config(), vocabulary, search)
    return replace(description, languages=languages, card=own)
