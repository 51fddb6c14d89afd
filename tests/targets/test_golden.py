"""The CUDA of every example and form as a whole, kept in `golden/`: changes of the generator are reviewed as
differences.

`pytest tests/targets/test_golden.py --update-golden` rewrites the files.
"""

import re
from collections.abc import Callable

import pytest

from tests.kernels.programs import DIVIDED, EXAMPLES, FORMS, INDEPENDENT, program
from twill.targets.hopper import source

NOTHING = {
    "a term of zero": r"\+ 0\b(?!\.)|\b0 \+|\b0 \* ",
    "a factor of zero": r"\* 0\b(?!\.)",
    "a condition that is always true": r"\(0\) != 0|if \(true\)|i - \d+ >= 0|>= 0\) \{",
    "a trailing blank": r"[ \t]$",
    "a barrier without a name": r"named_barrier_\w+\(\d",
    "a value without a name": r"\bv\d+\b",
}


@pytest.mark.parametrize("kernel", [*EXAMPLES, *DIVIDED, *FORMS, *INDEPENDENT])
def test_the_cuda_of_a_kernel(kernel: str, golden: Callable[[str, str], None]) -> None:
    golden(f"{kernel}.cu", source(program(kernel)))


@pytest.mark.parametrize("complaint", NOTHING)
@pytest.mark.parametrize("kernel", EXAMPLES)
def test_nothing_is_printed_that_says_nothing(kernel: str, complaint: str) -> None:
    lines = [line for line in source(program(kernel)).splitlines() if not line.lstrip().startswith("//")]
    assert [line.strip() for line in lines if re.search(NOTHING[complaint], line)] == []


@pytest.mark.parametrize("kernel", EXAMPLES)
def test_no_store_is_waited_for_before_the_first(kernel: str) -> None:
    """The first use of `tma_wait_read` in straight-line code comes after a store."""
    text = source(program(kernel))
    for role in text.split("// ---- group")[1:]:
        store, wait = (role.find(word) for word in ("tma_store(", "tma_wait_read"))
        assert wait < 0 or 0 <= store < wait or "tma_add(" in role or "for (int32_t tile" in role
