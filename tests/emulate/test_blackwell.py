"""What nvcc makes of the CUDA generated for sm_100a computes what the TTGIR says for few iterations and ragged
ends too, in whatever order asynchronous operations complete."""

import shutil

import pytest

from tests.emulate.builds import build, numbers
from tests.kernels.programs import BLACKWELL, program
from twill.emulate.build import Request, run, wrong

pytestmark = pytest.mark.skipif(not shutil.which("nvcc"), reason="needs nvcc")
ORDERS = [kernel for kernel in BLACKWELL if kernel.startswith(("gemm_persistent", "fa_fwd."))]
"""Kernels whose asynchronous operations are executed in other orders too."""


@pytest.mark.parametrize("kernel", BLACKWELL)
@pytest.mark.parametrize("size", [48, 256])
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


@pytest.mark.parametrize("kernel", ORDERS)
@pytest.mark.parametrize("schedule", [1, 2])
def test_the_order_of_asynchronous_operations_changes_nothing(kernel: str, schedule: int) -> None:
    compared = run(build(kernel), Request(numbers(kernel), schedule=schedule))
    assert wrong(build(kernel), compared) is None, compared
