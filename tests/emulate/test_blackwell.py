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


@pytest.mark.parametrize("kernel", ORDERS)
@pytest.mark.parametrize("schedule", [1, 2])
def test_the_order_of_asynchronous_operations_changes_nothing(kernel: str, schedule: int) -> None:
    compared = run(build(kernel), Request(numbers(kernel), schedule=schedule))
    assert wrong(build(kernel), compared) is None, compared
