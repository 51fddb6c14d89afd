"""Schedules that keep the rules and that no search would prefer: their programs are right too."""

from dataclasses import replace

import pytest

from tests.kernels.programs import RANDOM, cuda, program
from twill.ir.effects import drained_after
from twill.ir.operands import At, Iteration
from twill.ir.statements import ConsumerRelease, Pipelined
from twill.simulate.check import check


@pytest.mark.parametrize("kernel", RANDOM)
def test_a_program_is_right(kernel: str) -> None:
    assert check(program(kernel)).runs
    assert cuda(kernel)


def test_a_predicated_loop_is_drained_of_releases_that_come_after_its_stages() -> None:
    late = ConsumerRelease("x", At(Iteration("newest", 5), 0, 5))
    loop = Pipelined(0, "for.0", 4, 100, (), (), (), (late,), (), (), predicated=True)
    assert drained_after(loop) == 5
    assert drained_after(replace(loop, short=())) == 3
