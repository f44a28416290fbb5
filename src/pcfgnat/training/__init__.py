"""From prepared text to checkpoints: the loop, its settings, what it writes, and how it resumes."""

from pcfgnat.training.config import TrainConfig, TrainingError
from pcfgnat.training.run import TrainResult, train

__all__ = ["TrainConfig", "TrainResult", "TrainingError", "train"]
