"""What the GPU kernels need, found without a GPU: registers, spills and shared memory.

`python -m benchmarks.gpu_kernels` writes the tables of docs/gpu.md anew. Kernels are compiled for a named
architecture by Triton; registers and spills are those that ptxas reports when it translates the result.
"""

import re
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import gpu_roofline

DOCUMENT = Path(__file__).parents[1] / "docs" / "gpu.md"
ARCHITECTURES = (80, 90, 100)
TILES = ((64, 16), (32, 32), (16, 64))  # nodes × positions; the last for any longer target
CTC_TILES = ((64,), (128,), (512,))  # states; the last for any longer target
SHARED_LIMIT = {80: 163 * 1024, 90: 227 * 1024, 100: 227 * 1024}  # bytes per program


@dataclass(frozen=True)
class Variant:
    """A kernel for scores of a dtype and a tile."""

    kernel: str
    scores: str
    tile: tuple[int, ...]


@dataclass(frozen=True)
class Resources:
    """What a program of a kernel takes."""

    registers: int
    spilled_bytes: int
    shared_bytes: int
    code_bytes: int


def variants() -> Iterator[Variant]:
    """Yield the kernels that training and decoding use."""
    for kernel in ("inside_kernel", "outside_kernel", "best_kernel"):
        for tile in TILES:
            yield Variant(kernel, "fp32", tile)
        yield Variant(kernel, "bf16", (32, 32))
    yield Variant("trace_kernel", "fp32", ())
    for kernel in ("ctc_forward_kernel", "ctc_backward_kernel", "ctc_best_kernel"):
        for states in CTC_TILES:
            yield Variant(kernel, "fp32", states)
        if kernel != "ctc_backward_kernel":  # which reads no scores
            yield Variant(kernel, "bf16", CTC_TILES[0])


def compiled(variant: Variant, architecture: int) -> Any:
    """Compile a kernel for an architecture, no GPU needed."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    kernel, warps = _kernel(variant)
    names = kernel.arg_names
    sizes = [name for name in names if name.startswith("TILE")]
    constants = {(names.index(name),): size for name, size in zip(sizes, variant.tile, strict=True)}
    signature = {name: _type(name, variant) for name in names}
    source = ASTSource(fn=kernel, signature=signature, constexprs=constants)
    options = {"num_warps": warps, "num_stages": 1}
    return triton.compile(source, target=GPUTarget("cuda", architecture, 32), options=options)


def _kernel(variant: Variant) -> tuple[Any, int]:
    """Return a kernel and its warps."""
    from pcfgnat.structures.ctc.triton import kernels as ctc_kernels
    from pcfgnat.structures.ctc.triton.operators import launch_sizes
    from pcfgnat.structures.rhpcfg.triton import kernels, launch

    if variant.kernel.startswith("ctc"):
        return getattr(ctc_kernels, variant.kernel), launch_sizes(variant.tile[0])["num_warps"]
    return getattr(kernels, variant.kernel), launch.WARPS if variant.tile else 1


def _type(argument: str, variant: Variant) -> str:
    if argument.startswith("TILE"):
        return "constexpr"
    if argument in ("nodes", "width", "block", "num_states", "max_slots"):
        return "i32"
    special = {"states": "*i32", "back": "*i32", "repeated": "*i1", "position": "*i64"}
    scores = dict.fromkeys(("chain", "tokens", "blanks"), f"*{variant.scores}")
    sizes = dict.fromkeys(("stops", "lengths", "starts", "num_slots"), "*i64")
    return (special | scores | sizes).get(argument, "*fp32")


def resources(variant: Variant, architecture: int) -> Resources:
    """Return what ptxas says about a compiled kernel."""
    found = compiled(variant, architecture)
    log = _assembled(found.asm["ptx"], architecture)
    registers = re.search(r"Used (\d+) registers", log)
    spilled = re.search(r"(\d+) bytes spill stores", log)
    if registers is None or spilled is None:
        raise RuntimeError(f"ptxas must report registers and spills, got {log!r}")
    return Resources(int(registers[1]), int(spilled[1]), found.metadata.shared, len(found.asm["cubin"]))


def _assembled(ptx: str, architecture: int) -> str:
    """Return the report of the assembler that Triton brings along."""
    import triton

    name = "ptxas-blackwell" if architecture >= 100 else "ptxas"
    assembler = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / name
    target = re.search(r"\.target (\w+)", ptx)
    assert target is not None
    with tempfile.TemporaryDirectory() as directory:
        source = Path(directory) / "kernel.ptx"
        source.write_text(ptx, encoding="utf-8")
        output = Path(directory) / "kernel.cubin"
        command = [str(assembler), "-v", f"--gpu-name={target[1]}", str(source), "-o", str(output)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout + done.stderr


def resource_table() -> str:
    """Return all variants on all architectures as Markdown."""
    lines = ["| kernel | scores | tile | " + " | ".join(f"sm_{one}" for one in ARCHITECTURES) + " |"]
    lines.append("|---|---|---|" + "---|" * len(ARCHITECTURES))
    for variant in variants():
        tile = " x ".join(map(str, variant.tile)) or "none"
        cells = (_cell(resources(variant, architecture)) for architecture in ARCHITECTURES)
        lines.append(f"| `{variant.kernel}` | {variant.scores} | {tile} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(found: Resources) -> str:
    return f"{found.registers} / {found.spilled_bytes} / {found.shared_bytes}"


def tables() -> dict[str, str]:
    """Return the generated parts of the document by name."""
    batch = gpu_roofline.Batch()
    return {
        "resources": resource_table(),
        "roofline": gpu_roofline.table(batch),
        "launches": gpu_roofline.launch_table(batch),
    }


def with_tables(text: str, parts: dict[str, str]) -> str:
    """Return a document with its parts between `<!-- name -->` and `<!-- end of name -->` replaced."""
    for name, content in parts.items():
        first, last = f"<!-- {name} -->\n", f"\n<!-- end of {name} -->"
        before, found, rest = text.partition(first)
        if not found or last not in rest:
            raise ValueError(f"the document must have a part named {name}")
        text = before + first + content + last + rest.partition(last)[2]
    return text


if __name__ == "__main__":
    DOCUMENT.write_text(with_tables(DOCUMENT.read_text(encoding="utf-8"), tables()), encoding="utf-8")
