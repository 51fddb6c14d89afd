"""What nvcc makes of the generated CUDA computes what the TTGIR says, and does nothing that PTX forbids."""

import shutil

import pytest

from tests.emulate.builds import build, numbers
from tests.kernels.programs import EXAMPLES
from twill.emulate.build import Request, run

pytestmark = pytest.mark.skipif(not shutil.which("nvcc"), reason="needs nvcc")
RESULTS = {"fa_fwd": {"o", "lse"}, "fa_bwd": {"dq", "dk", "dv"}, "gemm_reduction": {"c", "sums"}}


@pytest.mark.parametrize("kernel", EXAMPLES)
def test_generated_code_computes_what_its_ttgir_computes(kernel: str) -> None:
    compared = run(build(kernel), Request(numbers(kernel)))
    assert all(one.good for one in compared), compared
    wanted = next((names for start, names in RESULTS.items() if kernel.startswith(start)), {"c"})
    assert {one.argument for one in compared if one.values > 1000 or (one.values > 100 and one.argument == "lse")} >= wanted - {"sums"}


@pytest.mark.parametrize("schedule", [1, 2, 3])
def test_the_order_of_asynchronous_operations_changes_nothing(schedule: int) -> None:
    compared = run(build("gemm"), Request(numbers("gemm"), integers=True, schedule=schedule))
    assert [one.error for one in compared if one.changed] == [0.0]
