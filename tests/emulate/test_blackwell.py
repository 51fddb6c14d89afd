"""What nvcc makes of the CUDA generated for sm_100a computes what the TTGIR says for few iterations and ragged
ends too, in whatever order asynchronous operations complete."""

import shutil

import pytest

from tests.emulate.builds import build, numbers
from tests.kernels.programs import BLACKWELL
from twill.emulate.build import Request, run

pytestmark = pytest.mark.skipif(not shutil.which("nvcc"), reason="needs nvcc")
ORDERS = [kernel for kernel in BLACKWELL if kernel.startswith(("gemm_persistent", "fa_fwd."))]
"""Kernels whose asynchronous operations are executed in other orders too."""


@pytest.mark.parametrize("kernel", BLACKWELL)
@pytest.mark.parametrize("size", [40, 256])
def test_few_iterations_and_ragged_ends(kernel: str, size: int) -> None:
    """One that is not whole; fewer than stages."""
    given = {name: size if name in ("K", "length") else value for name, value in numbers(kernel).items()}
    compared = run(build(kernel), Request(given))
    assert all(one.good for one in compared), compared


@pytest.mark.parametrize("kernel", ORDERS)
@pytest.mark.parametrize("schedule", [1, 2])
def test_the_order_of_asynchronous_operations_changes_nothing(kernel: str, schedule: int) -> None:
    compared = run(build(kernel), Request(numbers(kernel), schedule=schedule))
    assert all(one.good for one in compared), compared
