"""The mean of several checkpoints of one network, whatever they were trained with."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from pcfgnat.checkpoints.checkpoint import Checkpoint, save_checkpoint
from pcfgnat.checkpoints.metadata import CheckpointError, differing_keys

# settings of a network that matter in training only
OF_TRAINING_ONLY = {f"network.transformer.{name}" for name in ("dropout", "attention_dropout", "bert_init")}


def average_checkpoints(
    sources: Sequence[Path],
    output: Path,
    dtype: torch.dtype | None = None,
    length_penalty: float | None = None,
) -> None:
    """Write the mean of the weights of several checkpoints of one network; all else is the first's.

    `dtype` is that of numbers on the disk and `length_penalty` the result's default; the first's own if not
    given.
    """
    mean = averaged(sources)
    first = Checkpoint.open(sources[0])
    known, decoding = first.metadata.training, first.metadata.decoding
    facts = known if len(sources) == 1 else {**known, "average_of": len(sources)}
    if length_penalty is not None:
        decoding = replace(decoding, length_penalty=length_penalty)
    metadata = replace(first.metadata, training=facts, decoding=decoding)
    save_checkpoint(output, mean, first.tokenizer, metadata, dtype)


def averaged(sources: Sequence[Path]) -> dict[str, Tensor]:
    """Return the mean of the weights of several checkpoints of one network, stored as the first one's are."""
    if not sources:
        raise CheckpointError("at least one checkpoint must be given to average, got none")
    first = Checkpoint.open(sources[0])
    kept = first.weights()
    total = {name: tensor.double() for name, tensor in kept.items()}
    for source in sources[1:]:
        other = Checkpoint.open(source)
        _check_alike(first, other)
        weights = other.weights()
        if {n: t.shape for n, t in weights.items()} != {n: t.shape for n, t in kept.items()}:
            places = f"{first.directory} and {other.directory} differ"
            raise CheckpointError(f"checkpoints to average must have the same weights, but {places}")
        for name, tensor in weights.items():
            total[name] += tensor.double()
    return {name: (tensor / len(sources)).to(kept[name].dtype) for name, tensor in total.items()}


def _check_alike(first: Checkpoint, other: Checkpoint) -> None:
    """Raise an error that names what differs, and nothing else."""
    compared = [{"network": c.metadata.network, "tokenizer": c.tokenizer.sha256} for c in (first, other)]
    differing = {key: pair for key, pair in differing_keys(*compared).items() if key not in OF_TRAINING_ONLY}
    if differing:
        listed = ", ".join(f"{key} ({a!r} and {b!r})" for key, (a, b) in differing.items())
        places = f"{first.directory} and {other.directory}"
        raise CheckpointError(
            f"checkpoints to average must be of one network, but {places} differ in {listed}"
        )
