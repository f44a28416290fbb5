"""What is kept of a run: checkpoints of the best networks, and the final one."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from pcfgnat.checkpoints.checkpoint import describe, save_checkpoint
from pcfgnat.checkpoints.metadata import Card, DecodingDefaults, Languages, Metadata
from pcfgnat.config import to_dict
from pcfgnat.decoding import DecodingError, parse_strategy
from pcfgnat.networks import Network
from pcfgnat.runtimes.torch import torch_runtime
from pcfgnat.text import Prepared
from pcfgnat.training.config import TrainConfig, TrainingError
from pcfgnat.training.record.state import RunState
from pcfgnat.training.validation import Scores, Validator

NOT_SETTINGS = ("data", "output", "network", "card", "warm_start")


class Keeper:
    """Validates networks and writes checkpoints with all that is known about them."""

    def __init__(self, config: TrainConfig, data: Prepared, network: Network) -> None:
        self.config = config
        self.data = data
        self.decoding = config.validation.decoding or DecodingDefaults(network.default_strategy)
        try:
            parse_strategy(self.decoding.strategy, torch_runtime(network))
        except DecodingError as error:
            raise TrainingError(f"validation.decoding.strategy: {error}") from error
        self._metadata = _described(config, data, self.decoding)
        self.validator = Validator(data, config.validation, self._metadata.languages.target, config.seed)

    def save(
        self, directory: Path, network: Network, state: RunState, scores: Scores, note: str = ""
    ) -> None:
        """Write a checkpoint of a network that was validated."""
        metadata = replace(self._metadata, training=self._facts(state, scores, note))
        save_checkpoint(directory, network, self.data.tokenizer, metadata)

    def _facts(self, state: RunState, scores: Scores, note: str) -> dict[str, Any]:
        settings = {name: value for name, value in to_dict(self.config).items() if name not in NOT_SETTINGS}
        objective = settings.pop("objective")
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
            "objective": objective,
            "settings": settings,
        }


def _described(config: TrainConfig, data: Prepared, decoding: DecodingDefaults) -> Metadata:
    card, prepared = config.card, data.report.settings
    languages = Languages(
        card.source_language or str(prepared.get("source_language", "")),
        card.target_language or str(prepared.get("target_language", "")),
    )
    own = Card(card.title, card.licence, card.data, card.limits)
    vocabulary = data.tokenizer.vocabulary_size
    metadata = describe(config.network_name, config.network_config(), vocabulary, decoding)
    return replace(metadata, languages=languages, card=own)
