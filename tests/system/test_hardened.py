"""A hardened container: another user, a package that cannot be written to, no home."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import pcfgnat

NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs", "--"]
PACKAGES = Path(np.__file__).parents[1]
INTERPRETERS = (sys.executable, f"/usr/bin/python{sys.version_info[0]}.{sys.version_info[1]}")


def usable_interpreter() -> str | None:
    """Return a Python that another user can run with the packages of this one."""
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        return None
    bare = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(PACKAGES)}
    for interpreter in INTERPRETERS:
        command = [*NOBODY, interpreter, "-c", "import numba, onnxruntime, sentencepiece"]
        try:
            done = subprocess.run(command, capture_output=True, check=False, env=bare, cwd="/")
        except OSError:
            continue
        if done.returncode == 0:
            return interpreter
    return None


PYTHON = usable_interpreter()
pytestmark = pytest.mark.skipif(
    PYTHON is None, reason="needs root, setpriv and a Python that other users can run"
)


@pytest.fixture(scope="module")
def installed() -> Iterator[Path]:
    """A copy of the package that all may read, outside of directories that belong to one user."""
    place = Path(tempfile.gettempdir()) / f"pcfgnat-hardened-{os.getpid()}"
    shutil.copytree(Path(pcfgnat.__file__).parent, place / "pcfgnat", ignore=shutil.ignore_patterns("*.nb?"))
    _set_modes(place)
    yield place
    shutil.rmtree(place)


def _set_modes(place: Path) -> None:
    for path in [place, *place.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)


def environment(place: Path) -> dict[str, str]:
    return {
        "PATH": "/usr/bin:/bin",
        "PYTHONPATH": f"{place}:{PACKAGES}",
        "HOME": "/nonexistent",
        "OMP_NUM_THREADS": "1",
    }


def as_nobody(place: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [*NOBODY, str(PYTHON), "-m", "pcfgnat", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env=environment(place), cwd="/"
    )


def contents(place: Path) -> list[Path]:
    return sorted(place.rglob("*"))


def test_translate_runs_and_writes_nothing(installed: Path) -> None:
    before = contents(installed)
    done = as_nobody(installed, "translate", "Hello.")
    assert (done.returncode, done.stdout, done.stderr) == (0, "Hallo.\n", "")
    assert contents(installed) == before
    assert not Path("/nonexistent").exists()


@pytest.mark.slow
def test_warm_up_names_what_is_missing(installed: Path) -> None:
    done = as_nobody(installed, "warm-up")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "is writable: set NUMBA_CACHE_DIR to one" in done.stderr


@pytest.mark.slow
def test_kernels_that_were_compiled_ahead_are_used(installed: Path) -> None:
    ahead = installed.parent / f"{installed.name}-ahead"
    shutil.copytree(installed, ahead)
    try:
        for path in contents(ahead):
            if path.is_dir():
                path.chmod(0o755)
        command = [sys.executable, "-m", "pcfgnat", "warm-up"]
        subprocess.run(command, check=True, capture_output=True, env=environment(ahead), cwd="/")
        _set_modes(ahead)
        program = (
            "from pcfgnat.translator import Translator\n"
            "Translator.load()('Hello.')\n"
            "from pcfgnat.grammar.kernels import viterbi\n"
            "from numba.core.dispatcher import Dispatcher\n"
            "used = [item.stats for item in vars(viterbi).values() if isinstance(item, Dispatcher)]\n"
            "print(sum(len(s.cache_hits) for s in used), sum(len(s.cache_misses) for s in used))\n"
        )
        done = subprocess.run(
            [*NOBODY, str(PYTHON), "-c", program],
            capture_output=True,
            text=True,
            check=True,
            env=environment(ahead),
            cwd="/",
        )
        found, compiled = map(int, done.stdout.split())
        assert found > 0
        assert compiled == 0
    finally:
        shutil.rmtree(ahead)


@pytest.mark.slow  # compiles more kernels than `translate` does, before it answers
def test_serve_runs(installed: Path) -> None:
    command = [*NOBODY, str(PYTHON), "-m", "pcfgnat", "serve", "--port", "0"]
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, env=environment(installed), cwd="/"
    ) as process:
        assert process.stderr is not None
        try:
            address = re.search(r"http://\S+", process.stderr.readline())
            assert address is not None
            body = json.dumps({"text": "Hello.", "trees": False}).encode()
            request = urllib.request.Request(
                f"{address[0]}/translate", body, {"Content-Type": "application/json"}
            )
            with urllib.request.urlopen(request, timeout=120) as answer:
                assert json.load(answer)["translations"][0]["text"] == "Hallo."
        finally:
            process.terminate()
