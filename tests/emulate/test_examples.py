"""What nvcc makes of the generated CUDA computes what the TTGIR says, and does nothing that PTX forbids."""

import shutil

import pytest

from tests.kernels.builds import OTHERS, build, numbers
from tests.kernels.programs import BLACKWELL_EXAMPLES, BLACKWELL_FORMS, EXAMPLES
from twill.emulate.build import Request, run, wrong

pytestmark = pytest.mark.skipif(not shutil.which("nvcc"), reason="needs nvcc")
GIVEN = {
    "gathered": {"M": 100, "N": 120, "K": 200},
    "gathered_rows": {"M": 100},
    "turned": {"M": 60, "N": 62, "K": 40, "stride": 8000},
    "turned_32": {"M": 30, "N": 62, "K": 40, "stride": 8000},
    "unaligned": {"M": 100, "N": 128, "K": 128, "pitch": 130},
    "wrapped": {"M": 100, "N": 121, "K": 201, "a_stride": 203, "b_stride": 125},
    "wrapped_bytes": {"M": 100, "N": 121, "K": 201, "a_stride": 203, "b_stride": 125},
    "wrapped_e4m3": {"M": 112, "N": 112, "K": 208, "a_stride": 224, "b_stride": 128},
    "wrapped_e4m3.sm100": {"M": 112, "N": 112, "K": 208, "a_stride": 224, "b_stride": 128},
    "wrapped_integer": {"M": 112, "N": 48, "K": 208, "a_stride": 224, "b_stride": 64},
    "packed_rows": {"M": 16, "N": 128, "K": 192},
    "packed_halves": {"M": 16, "N": 128, "K": 256},
    "nibbled": {"M": 64, "N": 64, "K": 192},
    "nibbled_e4m3": {"M": 64, "N": 64, "K": 192},
    "packed_columns": {"M": 16, "N": 128, "K": 192},
    "searched": {"groups": 5},
    "grouped": {"groups": 3, "N": 192, "K": 200},
    "kindred": {"heads": 1},
    "flattened": {"M": 256, "N": 384},
    "flattened.sm100": {"M": 256, "N": 384},
    "alternating": {"M": 256},
    "highest_bytes": {"M": 100, "N": 120},
    "strips": {"taps": 2},
    "marching": {"steps": 9, "N": 64, "K": 144},
    "allotted": {"N": 64, "K": 96},
    "promoted": {"N": 64, "K": 592},
    "edged": {"N": 64, "K": 208},
    "pacing": {"M": 64, "N": 64, "K": 576},
    "circling": {"M": 128, "N": 208},
    "streams": {"M": 16, "row": 80},
    "leftover": {"M": 64, "N": 64, "K": 192, "done": 0},
    "accrued": {"M": 192, "K": 192},
    "accrued.sm100": {"M": 192, "K": 192},
}
GRIDS = {"circling": (2, 1, 1)}
"""Of kernels whose first program does not do all that others do."""
RESULTS = {"fa_fwd": {"o", "lse"}, "fa_bwd": {"dq", "dk", "dv"}, "gemm_reduction": {"c", "sums"}}


@pytest.mark.parametrize("kernel", [*EXAMPLES, *(f"{kernel}.sm100" for kernel in BLACKWELL_EXAMPLES)])
def test_generated_code_computes_what_its_ttgir_computes(kernel: str) -> None:
    compared = run(build(kernel), Request(numbers(kernel)))
    assert all(one.good for one in compared), compared
    wanted = next((names for start, names in RESULTS.items() if kernel.startswith(start)), {"c"})
    assert {
        one.argument for one in compared if one.values > 1000 or (one.values > 100 and one.argument == "lse")
    } >= wanted - {"sums"}


APART = ("gemm_persistent", "fa_fwd", "fa_bwd")


@pytest.mark.parametrize("kernel", [*APART, *(f"{kernel}.sm100" for kernel in APART)])
def test_lanes_of_a_warp_may_run_apart(kernel: str) -> None:
    """The fewer of those that diverged run ahead (seed 1), and all else in an order of its own."""
    compared = run(build(kernel), Request(numbers(kernel), schedule=1))
    assert wrong(build(kernel), compared) is None, compared


@pytest.mark.parametrize("kernel", [*OTHERS, *(f"{kernel}.sm100" for kernel in BLACKWELL_FORMS)])
def test_code_in_other_forms(kernel: str) -> None:
    """Element types, swizzles, layouts, masks, atomics, loads by pointers, carried values: a tile of each."""
    compared = run(build(kernel), Request(GIVEN.get(kernel, {}), GRIDS.get(kernel, (1, 1, 1))))
    assert wrong(build(kernel), compared) is None, compared
    assert any(one.values > 100 for one in compared)


@pytest.mark.parametrize("kernel", ["gemm", "gemm.sm100"])
@pytest.mark.parametrize(("empty", "stored"), [("K", 128 * 256), ("M", 0), ("N", 0)])
def test_a_matrix_without_elements(kernel: str, empty: str, stored: int) -> None:
    """The driver encodes no tensor map with an extent of 0. Nothing is loaded for K = 0, and 0 stored; nothing
    is stored to no rows or columns."""
    compared = run(build(kernel), Request({"M": 128, "N": 256, "K": 128, empty: 0}))
    assert all(one.good for one in compared), compared
    assert sum(one.values for one in compared) == stored


def test_a_persistent_block_computes_tile_after_tile() -> None:
    """Slots and phases go on from tile to tile, and a tile's staging is free again before the next one is
    written."""
    compared = run(build("gemm_persistent"), Request({"M": 256, "N": 512, "K": 200}))
    assert [one.good for one in compared if one.changed] == [True]
    assert any(one.values > 100_000 for one in compared)


@pytest.mark.parametrize("schedule", [1, 2, 3])
def test_the_order_of_asynchronous_operations_changes_nothing(schedule: int) -> None:
    compared = run(build("gemm"), Request(numbers("gemm"), integers=True, schedule=schedule))
    assert [one.error for one in compared if one.changed] == [0.0]
