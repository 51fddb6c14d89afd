"""Lean programs: fewer registers for more instructions, with the same values."""

import re
from dataclasses import replace

import pytest

from tests.kernels.programs import loops, program
from twill.emulate.check import check
from twill.targets import target

FORMS = {
    "fa_fwd_causal": r"Mask<64> scores0_\w+;",
    "pointers": r"advanced\(from_, kept_\w+at\d\[0\] \+ i_ \* kept_\w+at\d\[1\]\)",
}
"""What lean programs have, by kernel."""


@pytest.mark.parametrize("kernel", sorted(FORMS))
def test_masks_are_bits_and_offsets_follow_from_two_numbers(kernel: str) -> None:
    plain = program(kernel)
    lean = replace(plain, lean=True)
    cuda = target("sm90").source(lean)
    assert re.search(FORMS[kernel], cuda)
    assert not re.search(FORMS[kernel], target("sm90").source(plain))
    assert check(lean, loops(kernel)[1], cuda, lambda what: None).values
