"""Write docs/api.md, the reference of the library of structures, from signatures and docstrings.

    python -m tools.api_reference

Sources are read, not imported: what is written there is what the page says.
"""

import ast
import textwrap
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCUMENT = ROOT / "docs" / "api.md"
SOURCE = ROOT / "src"
# in the order of the page: where things are, and which of them
CHAPTERS = (
    ("Grammars", "structures/rhpcfg/distribution.py", ("RHPCFG", "RHPCFGPosterior")),
    ("Scores of grammars", "structures/rhpcfg/scores.py", ("RuleScores", "RuleMarginals")),
    ("Support trees", "grammar/support_tree.py", ("SupportTree", "PrefixRule")),
    ("Graphs", "structures/dag.py", ("DAG", "DAGPosterior")),
    ("What grammars and graphs share", "structures/by_length.py", ("ByLength",)),
    ("CTC", "structures/ctc/distribution.py", ("CTC", "CTCPosterior")),
    ("Independent positions", "structures/independent.py", ("Independent", "IndependentPosterior")),
    (
        "What all structures share",
        "structures/distribution.py",
        ("Padded", "Alignment", "SequenceDistribution", "Posterior", "TreePosterior", "gather_tokens"),
    ),
    (
        "Semirings",
        "structures/semiring.py",
        (
            "Semiring",
            "LogSemiring",
            "MaxSemiring",
            "SampleSemiring",
            "KBestSemiring",
            "CountSemiring",
            "EntropySemiring",
        ),
    ),
    ("Backends", "structures/backend.py", ("backend", "chosen_backend", "obstacle")),
)
HEADER = """\
# Reference of the library

Generated from the docstrings by `python -m tools.api_reference`; do not edit. Letters in shapes: B sentences,
N target tokens, V vocabulary, m symbols or nodes, C main-chain nodes, d = 2^l left children, R rules of a
prefix tree, K components of a semiring. See docs/gpu.md for which backend runs where.

```python
from pcfgnat.structures import RHPCFG, Padded, RuleScores, SupportTree
```
"""

Definition = ast.ClassDef | ast.FunctionDef


def page() -> str:
    """Return the whole page."""
    chapters = [_chapter(title, SOURCE / "pcfgnat" / path, names) for title, path, names in CHAPTERS]
    return "\n".join([HEADER, *chapters])


def _chapter(title: str, file: Path, names: tuple[str, ...]) -> str:
    module = ".".join(file.relative_to(SOURCE).with_suffix("").parts)
    tree = ast.parse(file.read_text(encoding="utf-8"))
    defined = {node.name: node for node in tree.body if isinstance(node, Definition)}
    missing = [name for name in names if name not in defined]
    if missing:
        raise ValueError(f"{module} must define {', '.join(missing)}")
    parts = [f"## {title}\n", f"`{module}`\n"]
    for name in names:
        parts += _described(defined[name])
    return "\n".join(parts)


def _described(node: Definition) -> Iterator[str]:
    if isinstance(node, ast.FunctionDef):
        yield f"### `{_signature(node)}`\n"
        yield _text(node)
        return
    bases = ", ".join(ast.unparse(base) for base in node.bases)
    yield f"### `{node.name}`{f' ({bases})' if bases else ''}\n"
    yield _text(node)
    fields = [ast.unparse(item) for item in node.body if isinstance(item, ast.AnnAssign)]
    made = [item for item in node.body if isinstance(item, ast.FunctionDef) and item.name == "__init__"]
    code = [*fields, *(f"{node.name}{_signature(item).removeprefix('__init__')}" for item in made)]
    if code:
        yield "\n".join(["```python", *(line.removesuffix(" -> None") for line in code), "```\n"])
    for item in node.body:
        if isinstance(item, ast.FunctionDef) and _is_public(item):
            yield f"- **`{_signature(item)}`**{_kind(item)}  \n{_indented(item)}"
    yield ""


def _is_public(node: ast.FunctionDef) -> bool:
    """Whether it is for callers, and says something that its base class does not."""
    return not node.name.startswith("_") and ast.get_docstring(node) is not None


def _kind(node: ast.FunctionDef) -> str:
    names = [ast.unparse(decorator) for decorator in node.decorator_list]
    words = {"property": "property", "classmethod": "class method", "abstractmethod": "abstract"}
    known = [words[name] for name in names if name in words]
    return f" ({', '.join(known)})" if known else ""


def _signature(node: ast.FunctionDef) -> str:
    if any(ast.unparse(decorator) == "property" for decorator in node.decorator_list):
        return f"{node.name}: {_annotation(node.returns)}"
    arguments = ast.unparse(node.args)
    for receiver in ("self", "cls"):
        arguments = arguments.removeprefix(receiver).removeprefix(", ")
    return f"{node.name}({arguments}) -> {_annotation(node.returns)}"


def _annotation(node: ast.expr | None) -> str:
    return ast.unparse(node) if node is not None else "None"


def _text(node: Definition) -> str:
    return f"{ast.get_docstring(node) or ''}\n"


def _indented(node: ast.FunctionDef) -> str:
    return textwrap.indent(ast.get_docstring(node) or "", "  ")


if __name__ == "__main__":
    DOCUMENT.write_text(page(), encoding="utf-8")
