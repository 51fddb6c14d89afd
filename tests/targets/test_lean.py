"""Lean programs: fewer registers for more instructions and waits, with the same values."""

import re

import pytest

from tests.kernels.programs import loops, program
from twill.emulate.check import check
from twill.ir.program import Program
from twill.ir.statements import MmaWait, Pipelined, walk
from twill.targets import target
from twill.warp.lean import lean

FORMS = {
    "fa_fwd_causal": r"Mask<64> scores0_\w+;",
    "pointers": r"advanced\(from_, kept_\w+at\d\[0\] \+ i_ \* kept_\w+at\d\[1\]\)",
    "straight": r"thread\.rematerialize\(\);\n.*load s_s_2",
}
"""What lean programs have, by kernel."""


@pytest.mark.parametrize("kernel", sorted(FORMS))
def test_masks_are_bits_offsets_follow_from_two_numbers_and_addresses_are_computed_again(kernel: str) -> None:
    plain = program(kernel)
    found = lean(plain)
    cuda = target("sm90").source(found)
    assert re.search(FORMS[kernel], cuda)
    assert not re.search(FORMS[kernel], target("sm90").source(plain))
    assert check(found, loops(kernel)[1], cuda, lambda what: None).values


@pytest.mark.parametrize(("kernel", "more"), [("masked", 1), ("straight", 2), ("gemm", 0)])
def test_epilogues_wait_between_intervals(kernel: str, more: int) -> None:
    """For MMAs whose operands are in registers."""
    plain = program(kernel)
    found = lean(plain)
    assert _waits_in_epilogues(found) == _waits_in_epilogues(plain) + more
    assert check(found, loops(kernel)[1], target("sm90").source(found), lambda what: None).values


def _waits_in_epilogues(program: Program) -> int:
    every = (one for group in program.groups for one in walk(group.body) if isinstance(one, Pipelined))
    return sum(isinstance(one, MmaWait) for loop in every for one in loop.epilogue)
