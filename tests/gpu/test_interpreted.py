"""The kernels' comparison with the reference, in a separate process that interprets them on the CPU."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton", reason="triton is not available for this platform")
COMPARISONS = {"test_kernels.py": 16, "test_ctc_kernels.py": 15, "test_steps.py": 9}  # tests in each


@pytest.mark.timeout(900)  # under a minute of one core's time, but cores may be shared
@pytest.mark.parametrize(
    "name",
    ["test_kernels.py", "test_ctc_kernels.py", pytest.param("test_steps.py", marks=pytest.mark.slow)],
)
def test_interpreted_kernels_agree_with_the_reference(name: str) -> None:
    environment = os.environ | {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    environment.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")  # autocast dies where AMX is half there
    comparison = str(Path(__file__).with_name(name))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", comparison]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    passed = done.stdout.splitlines()[0].split()[0]
    assert passed == "." * len(passed)
    assert len(passed) >= COMPARISONS[name]
