"""Schedules that keep the rules and that no search would prefer: their programs are right too."""

import pytest

from tests.kernels.programs import RANDOM, cuda, program
from twill.simulate.check import check


@pytest.mark.parametrize("kernel", RANDOM)
def test_a_program_is_right(kernel: str) -> None:
    assert check(program(kernel)).runs
    assert cuda(kernel)
