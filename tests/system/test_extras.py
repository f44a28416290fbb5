"""Commands without torch and without the other extras: they work, or name what to install in one line."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

import pytest

from pcfgnat.cli.extras import EXTRAS, missing_extra
from pcfgnat.translator import bundled_model

PROJECT = Path(__file__).parents[2] / "pyproject.toml"
HIDDEN = (
    "import sys\n"
    "names = sys.argv.pop(1).split(',')\n"
    "sys.modules.update(dict.fromkeys(names))\n"  # as if they were not installed
    "from pcfgnat.cli import main\n"
    "code = main()\n"
    "assert not any(sys.modules.get(name) for name in names)\n"
    "sys.exit(code)\n"
)


def without(modules: str, *arguments: object) -> "subprocess.CompletedProcess[str]":
    """Run a command in a process that cannot import some modules."""
    command = [sys.executable, "-c", HIDDEN, modules, *map(str, arguments)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def brought_by(extra: str, extras: dict[str, Sequence[str]]) -> set[str]:
    """Names of the modules of an extra, those of the extras that it includes among them."""
    found: set[str] = set()
    for requirement in extras[extra]:
        name, included = re.match(r"([\w-]+)(?:\[([\w,]+)\])?", requirement).groups()  # type: ignore[union-attr]
        if name == "pcfgnat":
            found |= {module for other in included.split(",") for module in brought_by(other, extras)}
        else:
            found.add(name.replace("-", "_"))
    return found


def test_the_table_is_that_of_the_project() -> None:
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    indirectly = {"pydantic", "starlette"}  # come with fastapi
    for extra, modules in EXTRAS.items():
        assert set(modules) - indirectly <= brought_by(extra, extras), extra
    assert not any(line.startswith("torch") for line in project["dependencies"])
    for light in ("onnx", "serve", "evaluate", "draw"):
        assert "torch" not in brought_by(light, extras)
    assert brought_by("engine", extras) == brought_by("onnx", extras)


def test_a_module_of_no_extra_is_not_explained() -> None:
    assert missing_extra("train", ModuleNotFoundError("No module named 'x'", name="x")) is None
    assert missing_extra("train", ModuleNotFoundError("broken")) is None


def test_the_bundled_model_needs_no_torch(tmp_path: Path) -> None:
    done = without("torch,onnx", "translate", "Hello.", "--tree")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Hallo.\n")
    done = without("torch", "draw", "Hello.", "--output", tmp_path / "tree.svg")
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "tree.svg").read_text(encoding="utf-8").startswith("<svg")
    done = without("torch", "info", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    facts = json.loads(done.stdout)
    assert (facts["parameters"], facts["longest source"]) == (7_808_260, 128)
    assert facts["strategies"] == ["viterbi", "joint-viterbi", "lookahead", "greedy", "sample", "mbr"]


def test_the_bundled_model_is_evaluated_without_torch(tmp_path: Path) -> None:
    for name in ("source", "reference"):
        (tmp_path / name).write_text("Hello.\n" if name == "source" else "Hallo.\n", encoding="utf-8")
    done = without(
        "torch", "evaluate", "--source", tmp_path / "source", "--reference", tmp_path / "reference"
    )
    assert done.returncode == 0, done.stderr
    assert "embedded" in done.stdout


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """The bundled model without what was exported from it."""
    ignored = shutil.ignore_patterns("onnx")
    return Path(shutil.copytree(bundled_model(), tmp_path / "checkpoint", ignore=ignored))


def test_a_checkpoint_is_described_without_torch(checkpoint: Path) -> None:
    done = without("torch", "info", checkpoint, "--json")
    facts = json.loads(done.stdout)
    assert facts["note"] == "torch is not installed: checksums were compared, but the network was not built"
    assert (facts["network"], facts["languages"]) == ("pcfg", {"source": "en", "target": "de"})
    assert "strategies" not in facts


def test_a_damaged_checkpoint_is_found_without_torch(checkpoint: Path) -> None:
    weights = checkpoint / "model.safetensors"
    content = weights.read_bytes()
    weights.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    done = without("torch", "info", checkpoint)
    assert done.returncode == 2
    assert "model.safetensors is damaged: its sha256 must be" in done.stderr


@pytest.mark.parametrize(
    ("hidden", "arguments", "message"),
    [
        ("torch", "train nothing.toml", "`pcfgnat train` needs torch: pip install 'pcfgnat[train]'"),
        ("torch", "average a --output b", "`pcfgnat average` needs torch: pip install 'pcfgnat[train]'"),
        ("torch", "export a", "`pcfgnat export` needs torch: pip install 'pcfgnat[export]'"),
        ("torch", "analyse structure", "`pcfgnat analyse` needs torch: pip install 'pcfgnat[analysis]'"),
        ("torch", "ablate a --output b", "`pcfgnat ablate` needs torch: pip install 'pcfgnat[train]'"),
        ("torch", "translate --device cuda x", "needs torch: pip install 'pcfgnat[train]'"),
        ("torch", "translate --model /nope x", "/nope must be a checkpoint, but it has no checkpoint.toml"),
        ("torch", "serve --model x=/nope", "/nope must be a checkpoint, but it has no checkpoint.toml"),
        ("onnxruntime", "translate --runtime onnx x", "which needs onnxruntime: pip install 'pcfgnat[onnx]'"),
        (
            "sacrebleu",
            f"evaluate --source {__file__} --reference {__file__}",
            "needs sacrebleu: pip install 'pcfgnat[evaluate]'",
        ),
        ("uvicorn", "serve", "`pcfgnat serve` needs uvicorn: pip install 'pcfgnat[serve]'"),
        ("fastapi", "serve", "`pcfgnat serve` needs fastapi: pip install 'pcfgnat[serve]'"),
        ("matplotlib", "draw x --format png", "a PNG needs matplotlib: pip install 'pcfgnat[draw]'"),
    ],
)
def test_what_is_missing_is_named_in_one_line(hidden: str, arguments: str, message: str) -> None:
    done = without(hidden, *arguments.split())
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.startswith("pcfgnat: error: ")
    assert done.stderr.count("\n") == 1


def test_a_checkpoint_without_an_exported_model_needs_torch(checkpoint: Path) -> None:
    done = without("torch", "translate", "--model", checkpoint, "x")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "`pcfgnat translate` needs torch: pip install 'pcfgnat[train]'" in done.stderr
