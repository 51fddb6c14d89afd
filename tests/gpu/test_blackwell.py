# pyright: basic, reportMissingImports=false
"""Generated kernels on a Blackwell GPU: values on all kinds of shapes."""

import pytest

from tests.gpu.kernels import lineup
from tests.gpu.test_values import LENGTHS, SIZES
from tests.kernels.programs import BLACKWELL_EXAMPLES
from twill.bench.run import values

pytestmark = pytest.mark.gpu("sm_100")

CASES = [
    (name, size) for name in BLACKWELL_EXAMPLES for size in (LENGTHS if name.startswith("fa") else SIZES)
]


@pytest.mark.parametrize(("name", "shape"), CASES)
def test_values_are_right(name: str, shape: dict[str, int]) -> None:
    field = lineup(name, "sm100")
    case = field.case(shape)
    for _ in range(3):
        assert values(field, case)
