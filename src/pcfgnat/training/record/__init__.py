"""What a training run writes: its directory, saves, logs, curves and checkpoints."""
