"""The comparison of the kernels needs a GPU or Triton's interpreter, which a process has from its start."""

import os

import torch

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
COMPARISONS = ["test_kernels.py", "test_ctc_kernels.py", "test_steps.py"]
collect_ignore = [] if INTERPRETED or torch.cuda.is_available() else COMPARISONS
