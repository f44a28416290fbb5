"""Device, threads and number format of the matrix products."""

import os
import signal
import warnings
from contextlib import AbstractContextManager

import torch

from pcfgnat.training.config import TrainConfig, TrainingError
from pcfgnat.training.processes.workers import local_rank

# oneDNN keeps compiled products of the last 1,024 shapes. In bfloat16 each takes megabytes, and batches of
# many lengths have many shapes. Compiling takes no longer than a product, so few are enough.
CACHED_PRODUCTS = "ONEDNN_PRIMITIVE_CACHE_CAPACITY"


def prepared_device(config: TrainConfig) -> torch.device:
    """Set the number of threads and return the device, after a look whether it can do what is asked for."""
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    cuda = torch.cuda.is_available()
    if config.device == "cuda" and not cuda:
        raise TrainingError("device = cuda, but CUDA is not available")
    device = torch.device("cpu")
    if cuda and config.device != "cpu":
        device = torch.device("cuda", local_rank())
        torch.cuda.set_device(device)
    if config.precision == "bfloat16" and device.type == "cpu":
        bound_memory()
        probe_bfloat16()
    return device


def autocast(config: TrainConfig, device: torch.device) -> AbstractContextManager[object]:
    """In this block matrix products are computed as the settings say."""
    return torch.autocast(device.type, torch.bfloat16, enabled=config.precision == "bfloat16")


def bound_memory() -> None:
    """Limit oneDNN's cache by shape, unless the environment does; it is read with the first product."""
    os.environ.setdefault(CACHED_PRODUCTS, "64")


def probe_bfloat16() -> None:
    """Multiply bfloat16 matrices in a child process: some virtual machines kill whoever tries.

    The child is a fork, so that it has the same environment and libraries in the same state.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads: the child starts none
        child = os.fork()
    if child == 0:
        _multiply_and_exit()
    _, status = os.waitpid(child, 0)
    if code := os.waitstatus_to_exitcode(status):
        end = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        raise TrainingError(
            f"bfloat16 does not work on this CPU: a matrix product in a child process ended with {end}; use "
            'precision = "float32", or try ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 in the environment'
        )


def _multiply_and_exit() -> None:
    code = 1
    try:
        torch.set_num_threads(1)
        left, right = torch.ones(64, 256), torch.ones(256, 256)
        product = left.bfloat16() @ right.bfloat16()
        code = 0 if bool((product.float() == left @ right).all()) else 2
    finally:
        os._exit(code)
