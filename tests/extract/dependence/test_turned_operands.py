"""Left operands of MMAs that are turned, or counted otherwise, in registers."""

import pytest

from twill.inputs import Inputs, cases
from twill.targets import EXACT_LAYOUTS


@pytest.mark.parametrize("kernel", ["recounted", "reflected"])
def test_the_group_that_makes_one_issues_its_mma(kernel: str) -> None:
    """Another group would read it in shared memory, where no matrix descriptor says its order."""
    path = f"tests/kernels/ttgir/{kernel}.sm90.ttgir"
    (case,) = cases(Inputs(path, arch="sm90", exact_layouts=EXACT_LAYOUTS))
    assert {"convert", "dot"} in [{name.partition(".")[0] for name in one} for one in case.problem.together]
