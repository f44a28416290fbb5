"""A grid of settings over one training config: train every cell, judge it under every decoding, compare."""

from pcfgnat.ablation.grid import Cell, Grid, read_axes, read_grid
from pcfgnat.ablation.judge import Judge
from pcfgnat.ablation.outcome import Outcome, ablation_report
from pcfgnat.ablation.runner import ablate

__all__ = ["Cell", "Grid", "Judge", "Outcome", "ablate", "ablation_report", "read_axes", "read_grid"]
