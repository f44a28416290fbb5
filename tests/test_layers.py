"""Imports go downwards only."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"
LAYERS = (
    {"__main__"},
    {"cli"},
    {"ablation", "benchmark", "cluster", "server"},
    {"training", "analysis"},
    {"evaluation"},
    {"translator", "export"},
    {"decoding", "objectives"},  # side by side: neither imports the other
    {"runtimes"},
    {"checkpoints"},
    {"networks"},
    {"nn", "structures", "text"},
    {"draw", "grammar", "report"},
    {"recipes", "settings"},
    {"storage"},
    {"config", "progress"},
)
FRONT_DOOR = "pcfgnat.translator.Translator"  # `from pcfgnat import Translator`, imported when asked for
SHARED_BY_NETWORKS = {"base", "canvas", "emissions", "predicted"}
MADE_OF_NETWORKS = {"hybrid"}
LIBRARY_MAY_USE = {"pcfgnat", "torch", "numpy", "numba", "triton", "jaxtyping"}


def imports(file: Path, module: str) -> Iterator[str]:
    """Full names of everything that a file imports, wherever in it; also `torch.nn` used as an attribute."""
    package = module.split(".") if file.name == "__init__.py" else module.split(".")[:-1]
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            origin = ".".join([*base, *([node.module] if node.module else [])])
            yield from (f"{origin}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Attribute) and ast.unparse(node) == "torch.nn":
            yield "torch.nn"


def modules(source: Path) -> list[tuple[Path, str]]:
    """All files of the package and the names of their modules."""
    found = []
    for file in sorted(source.glob("pcfgnat/**/*.py")):
        parts = file.relative_to(source).with_suffix("").parts
        found.append((file, ".".join(parts[:-1] if parts[-1] == "__init__" else parts)))
    return found


def violations(source: Path) -> list[str]:
    """Every import that the layers forbid, as `importer -> imported`, and every module without a layer."""
    found = []
    for file, module in modules(source):
        if module == "pcfgnat" or any(module.split(".")[1] in layer for layer in LAYERS):
            found += [f"{module} -> {name}" for name in imports(file, module) if not allowed(module, name)]
        else:
            found.append(f"{module} has no layer")
    return found


def allowed(module: str, name: str) -> bool:
    """Whether a module may import a name."""
    importer, imported = [*module.split("."), "", ""], [*name.split("."), "", ""]
    if importer[1] in ("grammar", "structures"):
        top = imported[0]
        if top == "torch" and importer[1] == "grammar":
            return False
        if top not in LIBRARY_MAY_USE | sys.stdlib_module_names or imported[:2] == ["torch", "nn"]:
            return False
    if imported[0] != "pcfgnat" or imported[1] == "__version__":
        return True
    if module == "pcfgnat" and name == FRONT_DOOR:
        return True
    if importer[1] == "networks" and imported[1] == "networks":
        return importer[2] in {"", *MADE_OF_NETWORKS} or imported[2] in SHARED_BY_NETWORKS
    if importer[1] == imported[1]:
        return True
    if importer[1] == "structures":
        return imported[1] == "grammar"
    return level(importer[1]) < level(imported[1])


def level(unit: str) -> int:
    """Position of a unit's layer, counted from the top; `pcfgnat` itself stands at the bottom."""
    return next((i for i, layer in enumerate(LAYERS) if unit in layer), len(LAYERS))


def test_imports_go_downwards_only() -> None:
    assert not violations(SOURCE)


def test_the_package_is_looked_at() -> None:
    assert {"pcfgnat", "pcfgnat.draw", "pcfgnat.structures.rhpcfg.numba"} <= {
        name for _, name in modules(SOURCE)
    }


@pytest.mark.parametrize(
    ("file", "line", "blamed"),
    [
        ("structures/dag.py", "from pcfgnat.text import tokenizer", "pcfgnat.text.tokenizer"),
        ("structures/dag.py", "import pcfgnat.config", "pcfgnat.config"),
        ("structures/dag.py", "from pcfgnat import draw", "pcfgnat.draw"),
        ("structures/dag.py", "from torch import nn", "torch.nn"),
        ("structures/dag.py", "import torch.nn.functional as F", "torch.nn.functional"),
        ("structures/dag.py", "import torch\nx = torch.nn.Linear(1, 1)", "torch.nn"),
        ("structures/dag.py", "import sentencepiece", "sentencepiece"),
        ("structures/rhpcfg/scores.py", "from ...nn import attention", "pcfgnat.nn.attention"),
        ("nn/encoder.py", "from pcfgnat.structures import RHPCFG", "pcfgnat.structures.RHPCFG"),
        ("nn/encoder.py", "def f():\n    from pcfgnat.networks import base", "pcfgnat.networks.base"),
        ("networks/pcfg.py", "from pcfgnat.networks.dag import DAT", "pcfgnat.networks.dag.DAT"),
        ("networks/base.py", "from . import pcfg", "pcfgnat.networks.pcfg"),
        ("checkpoints/open.py", "from pcfgnat.training.loop import train", "pcfgnat.training.loop.train"),
        ("translator.py", "from pcfgnat import evaluation", "pcfgnat.evaluation"),
        ("grammar/lengths.py", "import torch", "torch"),
        ("objectives/axe.py", "from pcfgnat.decoding import Beam", "pcfgnat.decoding.Beam"),
        ("decoding/verify.py", "from pcfgnat.objectives import Loss", "pcfgnat.objectives.Loss"),
        ("draw.py", "from .structures import ParseTree", "pcfgnat.structures.ParseTree"),
        ("__init__.py", "from pcfgnat.structures import RHPCFG", "pcfgnat.structures.RHPCFG"),
    ],
)
def test_bad_imports_are_found(tmp_path: Path, file: str, line: str, blamed: str) -> None:
    assert blamed in [found.split(" -> ")[1] for found in violations(written(tmp_path, file, line))]


@pytest.mark.parametrize(
    ("file", "line"),
    [
        (
            "structures/dag.py",
            "import math\nimport torch\nfrom torch import Tensor\nfrom pcfgnat.structures import x",
        ),
        ("structures/rhpcfg/scores.py", "from . import numba\nfrom pcfgnat.grammar.kernels import viterbi"),
        (
            "networks/pcfg.py",
            "from pcfgnat.networks.base import Batch\nimport pcfgnat.structures",
        ),
        ("networks/__init__.py", "from pcfgnat.networks.pcfg import PCFG\nfrom . import dag"),
        (
            "nn/encoder.py",
            "from torch import nn\nfrom pcfgnat.config import Config\nfrom pcfgnat.nn import attention",
        ),
        ("cli.py", "from pcfgnat import __version__\nfrom pcfgnat.translator import Translator\nimport rich"),
    ],
)
def test_good_imports_pass(tmp_path: Path, file: str, line: str) -> None:
    assert not violations(written(tmp_path, file, line))


def test_a_module_without_a_layer_is_found(tmp_path: Path) -> None:
    assert violations(written(tmp_path, "utils.py", "")) == ["pcfgnat.utils has no layer"]


def written(source: Path, file: str, text: str) -> Path:
    path = source / "pcfgnat" / file
    path.parent.mkdir(parents=True)
    path.write_text(text, encoding="utf-8")
    return source
