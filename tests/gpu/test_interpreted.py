"""The kernels' comparison with the reference, in a separate process that interprets them on the CPU."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton", reason="triton is not available for this platform")
COMPARISON = Path(__file__).with_name("test_kernels.py")


@pytest.mark.timeout(900)  # under a minute of one core's time, but cores may be shared
def test_interpreted_kernels_agree_with_the_reference() -> None:
    environment = os.environ | {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(COMPARISON)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    passed = done.stdout.splitlines()[0].split()[0]
    assert passed == "." * len(passed)
    assert len(passed) >= 16
