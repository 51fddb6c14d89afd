"""What nvcc makes of the CUDA generated for sm_100a computes what the TTGIR says for few iterations and ragged
ends too, in whatever order asynchronous operations complete."""

import shutil

import numpy as np
import pytest

from tests.emulate.compiled import few
from tests.kernels.builds import build, numbers
from tests.kernels.double_precision import PLAIN, SCALED, errors, scaled_error, scaled_sizes
from tests.kernels.programs import BLACKWELL, BRAIN, PADDED, PASSED, program
from twill.emulate.build import Request, execute, prepared, run, wrong

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


@pytest.mark.parametrize(
    ("kernel", "sizes"), [(name, sizes) for name in SCALED for sizes in scaled_sizes(name)]
)
def test_block_scaled_dots_in_double_precision(kernel: str, sizes: tuple[int, int, int]) -> None:
    """Whole tiles and ragged ones in all three dimensions."""
    found, most = scaled_error(kernel, *sizes)
    assert found < most


FEW = (*BRAIN, "matmul_e4m3_pairs.sm100")
"""Kernels that are executed every time."""


@pytest.mark.parametrize("kernel", few(len(FEW), [*FEW, *(one for one in PLAIN if one not in FEW)]))
def test_kernels_in_double_precision(kernel: str) -> None:
    """Several tiles, with asynchronous operations in another order."""
    for name, (found, most) in errors(kernel, 1).items():
        assert found < most, name


@pytest.mark.parametrize("kernel", ORDERS)
@pytest.mark.parametrize("schedule", [1, 2])
def test_the_order_of_asynchronous_operations_changes_nothing(kernel: str, schedule: int) -> None:
    compared = run(build(kernel), Request(numbers(kernel), schedule=schedule))
    assert wrong(build(kernel), compared) is None, compared
