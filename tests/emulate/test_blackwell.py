"""What nvcc makes of the CUDA generated for sm_100a computes what the TTGIR says for few iterations and ragged
ends too, in whatever order asynchronous operations complete."""

import shutil
from collections.abc import Mapping

import numpy as np
import pytest

from tests.kernels.builds import build, numbers
from tests.kernels.programs import BLACKWELL, BLOCK_SCALED, BY_ROW, PADDED, PASSED, program
from twill.emulate.build import Request, execute, prepared, run, wrong
from twill.emulate.memory.clocks import Array
from twill.emulate.numeric.formats import table

pytestmark = pytest.mark.skipif(not shutil.which("nvcc"), reason="needs nvcc")
ORDERS = [*(kernel for kernel in BLACKWELL if kernel.startswith(("gemm_persistent", "fa_fwd."))), *PASSED]
"""Kernels whose asynchronous operations are executed in other orders too."""


@pytest.mark.parametrize(
    ("kernel", "size"),
    [
        (one, size)
        for one in (*BLACKWELL, *PASSED)
        for size in (128 if one.startswith(PADDED) else 64 if "fp4" in one else 48, 256)
    ],  # rows of 16 bytes, of 128 elements where TMA pads them
)
def test_few_iterations_and_ragged_ends(kernel: str, size: int) -> None:
    """One that is not whole; fewer than stages."""
    names = {arg.name.lstrip("%") for arg in program(kernel).function.args}
    loops = names & {"K", "length"} or names & {"N"}
    given = {name: size if name in loops else numbers(kernel)[name] for name in names & set(numbers(kernel))}
    compared = run(build(kernel), Request(given))
    assert wrong(build(kernel), compared) is None, compared


@pytest.mark.parametrize("kernel", ["continued.sm100", "continued_scaled.sm100"])
@pytest.mark.parametrize(
    ("split", "size", "schedule"), [(0, 256, 0), (64, 64, 0), (256, 192, 0), (64, 512, 1), (144, 400, 3)]
)
def test_two_loops_with_one_accumulator(kernel: str, split: int, size: int, schedule: int) -> None:
    """Either may have no iteration, or an end that is not whole."""
    given = {**numbers(kernel), "K": size, "split": split}
    compared = run(build(kernel), Request(given, schedule=schedule))
    assert wrong(build(kernel), compared) is None, compared


@pytest.mark.parametrize(
    ("length", "blocks", "schedule"), [(200, 2, 0), (640, 2, 0), (700, 3, 1), (1024, 4, 0), (900, 4, 2)]
)
def test_causal_attention_continues_its_accumulators(length: int, blocks: int, schedule: int) -> None:
    """The first program has the most blocks before the diagonal; the second loop has none with 200 keys."""
    kernel = "fa_fwd_causal.sm100"
    given = {**numbers(kernel), "length": length}
    request = Request(given, grid=(blocks, 1, 1), programs=((0, 0, 0),), schedule=schedule)
    compared = run(build(kernel), request)
    assert wrong(build(kernel), compared) is None, compared


@pytest.mark.parametrize("kernel", ["fa_fwd.sm100", "fa_fwd_passed.sm100", "fa_fwd_subtiled.sm100"])
@pytest.mark.parametrize("sizes", [(1, 0, 0, 0), (1, 2, 4, 8), (1, 1, 3, 1)], ids=["never", "always", "once"])
def test_accumulators_are_scaled_where_maxima_grow(kernel: str, sizes: tuple[int, ...]) -> None:
    """Keys of four blocks, so many times as large: a warp leaves its accumulator where no maximum grows. One
    query in five is zero, and its maximum never grows."""
    made, (rows, width) = build(kernel), (256 if "subtiled" in kernel else 128, 128)
    start = prepared(made, Request(numbers(kernel)))
    raw = start.raw()
    q, k, v = (raw[name].reshape(-1, width) for name in "qkv")
    q[::5] = 0
    k *= np.repeat(np.array(sizes, np.float16), 128)[:, None]
    scores = q[:rows].astype(np.float64) @ k.astype(np.float64).T * numbers(kernel)["scale"]
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    expected = weights / weights.sum(axis=1, keepdims=True) @ v.astype(np.float64)
    execute(made, start.numbers, Request({}), raw)
    assert np.linalg.norm(raw["o"].reshape(-1, width)[:rows] - expected) < 1e-3 * np.linalg.norm(expected)


FORMATS = {
    "matmul_mxfp8": ("e4m3", "e5m2", 32),
    "matmul_mxfp4": ("e2m1",) * 2 + (32,),
    "matmul_nvfp4": ("e2m1",) * 2 + (16,),
    "matmul_mxfp8_mxfp4": ("e4m3", "e2m1", 32),
    "matmul_mxfp4_mxfp8": ("e2m1", "e4m3", 32),
    "matmul_mxfp8_loaded": ("e4m3", "e4m3", 32),
    "matmul_mxfp8_outer": ("e4m3", "e4m3", 32),
    "matmul_mxfp4_mxfp8_copied": ("e2m1", "e4m3", 32),
    "matmul_mxfp8_mxfp4_across": ("e4m3", "e2m1", 32),
}
OUTER = ("matmul_mxfp8_outer a", "matmul_mxfp8_outer b", "matmul_mxfp8_mxfp4_across b")
"""Operands that are contiguous along their rows in global memory, not along K."""
PITCH = 48
"""Scale factors from row to row, where a kernel loads them row by row."""


@pytest.mark.parametrize("kernel", BLOCK_SCALED)
@pytest.mark.parametrize(("m", "n", "k", "grid"), [(128, 256, 1024, (1, 2)), (208, 320, 352, (2, 3))])
def test_block_scaled_dots_in_double_precision(
    kernel: str, m: int, n: int, k: int, grid: tuple[int, int]
) -> None:
    """Whole tiles and ragged ones in all three dimensions; the operands are decoded here, from their bytes. Those
    with 4-bit floats beside 8-bit ones have whole tiles along K."""
    made, (left, right, vector) = build(f"{kernel}.sm100"), FORMATS[kernel]
    k = -(-k // 128) * 128 if kernel.startswith(PADDED) else k
    given = {"M": m, "N": n, "K": k} | ({"pitch": PITCH} if kernel in BY_ROW else {})
    start = prepared(made, Request(given, (*grid, 1)))
    raw = start.raw()
    execute(made, start.numbers, Request({}, (*grid, 1)), raw)
    a, b = (
        rows_of(raw[name].view(np.uint8), kind, count, k, along_k=f"{kernel} {name}" not in OUTER)
        * (
            scales_by_row(raw, name, count, k)
            if kernel in BY_ROW
            else scales_of(raw[f"{name}_scales"].view(np.uint8), count, k, vector)
        )
        for name, kind, count in (("a", left, m), ("b", right, n))
    )
    found, expected = raw["c"][: m * n].reshape(m, n), a @ b.T
    assert np.linalg.norm(found - expected) < 1e-5 * np.linalg.norm(expected)


def rows_of(raw: Array, kind: str, rows: int, k: int, *, along_k: bool = True) -> Array:
    """The values of an operand, which lie one after the other along K, or along its rows."""
    length = k // 2 if kind == "e2m1" else k
    octets = raw[: rows * length].reshape((rows, length) if along_k else (length, rows))
    octets = octets if along_k else octets.T
    if kind != "e2m1":
        return table(kind)[octets].astype(np.float64)
    return table(kind)[np.stack([octets & 15, octets >> 4], -1).reshape(rows, k)].astype(np.float64)


def scales_of(raw: Array, rows: int, k: int, vector: int) -> Array:
    """A factor for each value of an operand, from blocks of 32 x 4 x 4 bytes."""
    down, across = -(-rows // 128), -(-k // (4 * vector))
    blocks = raw[: down * across * 512].reshape(down, across, 32, 4, 4).transpose(0, 3, 2, 1, 4)
    values = table("ue8m0" if vector == 32 else "e4m3")[blocks.reshape(128 * down, 4 * across)]
    return np.repeat(values.astype(np.float64), vector, axis=1)[:rows, :k]


def scales_by_row(raw: Mapping[str, Array], name: str, rows: int, k: int) -> Array:
    """A factor for each value of an operand: of a from rows of bytes, of b computed."""
    count = -(-k // 32)
    if name == "b":
        codes = 127 + (np.arange(rows)[:, None] + np.arange(count)) % 2
    else:
        codes = np.stack(
            [raw["a_scales"].view(np.uint8)[at * PITCH : at * PITCH + count] for at in range(rows)]
        )
    return np.repeat(table("ue8m0")[codes].astype(np.float64), 32, axis=1)[:, :k]


@pytest.mark.parametrize("kernel", ORDERS)
@pytest.mark.parametrize("schedule", [1, 2])
def test_the_order_of_asynchronous_operations_changes_nothing(kernel: str, schedule: int) -> None:
    compared = run(build(kernel), Request(numbers(kernel), schedule=schedule))
    assert wrong(build(kernel), compared) is None, compared
