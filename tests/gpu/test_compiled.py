"""The kernels compiled for GPUs that are not here: machine code exists and fits."""

import re

import pytest

pytest.importorskip("triton", reason="triton is not available for this platform")

from benchmarks.gpu_kernels import (
    ARCHITECTURES,
    CTC_TILES,
    DOCUMENT,
    SHARED_LIMIT,
    TILES,
    Variant,
    compiled,
    resource_table,
    resources,
    variants,
    with_tables,
)

from benchmarks import gpu_roofline
from pcfgnat.structures.ctc.triton.operators import launch_sizes
from pcfgnat.structures.rhpcfg.triton.launch import tiles

KERNELS = ("inside_kernel", "outside_kernel", "best_kernel", "trace_kernel")
CTC_KERNELS = ("ctc_forward_kernel", "ctc_backward_kernel", "ctc_best_kernel")


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("kernel", KERNELS + CTC_KERNELS)
def test_kernels_compile_without_spills(kernel: str, architecture: int) -> None:
    usual = ((32, 32), (), CTC_TILES[0])
    variant = next(one for one in variants() if one.kernel == kernel and one.tile in usual)
    found = resources(variant, architecture)
    assert found.code_bytes > 0
    assert found.registers <= 255
    assert found.spilled_bytes == 0
    assert found.shared_bytes <= SHARED_LIMIT[architecture]


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_all_variants_compile_without_spills(architecture: int) -> None:
    assert all(resources(variant, architecture).spilled_bytes == 0 for variant in variants())


@pytest.mark.parametrize(
    "variant", [Variant("outside_kernel", "fp32", (32, 32)), Variant("ctc_backward_kernel", "fp32", (512,))]
)
def test_tables_are_read_coherently_and_behind_barriers(variant: Variant) -> None:
    """A load through the read-only cache would miss what another thread has just stored."""
    ptx = compiled(variant, 80).asm["ptx"]
    assert "ld.global.nc" not in ptx
    assert len(re.findall(r"bar\.sync", ptx)) >= 2


def test_tiles_are_those_that_were_compiled() -> None:
    used = {(sizes["TILE_C"], sizes["TILE_N"]) for sizes in map(tiles, range(1, 300))}
    assert used == set(TILES)
    assert set(CTC_TILES) <= {(launch_sizes(states)["TILE"],) for states in range(1, 3000)}
    assert launch_sizes(3000)["TILE"] == CTC_TILES[-1][0]


def written(name: str) -> str:
    text = DOCUMENT.read_text(encoding="utf-8")
    return text.partition(f"<!-- {name} -->\n")[2].partition(f"\n<!-- end of {name} -->")[0]


def test_calculated_tables_are_up_to_date() -> None:
    """The roofline moves with tiles and states, the calls with the operations of plain torch."""
    batch = gpu_roofline.Batch()
    assert written("roofline") == gpu_roofline.table(batch)
    assert written("launches") == gpu_roofline.launch_table(batch)


@pytest.mark.slow
def test_the_table_of_resources_is_up_to_date() -> None:
    assert written("resources") == resource_table()


def test_a_document_without_the_part_is_refused() -> None:
    assert with_tables("a\n<!-- x -->\nold\n<!-- end of x -->\nb", {"x": "new"}) == (
        "a\n<!-- x -->\nnew\n<!-- end of x -->\nb"
    )
    with pytest.raises(ValueError, match="the document must have a part named y"):
        with_tables("", {"y": ""})
