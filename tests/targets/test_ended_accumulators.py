"""Accumulators whose values end before the next tile."""

from dataclasses import replace

import pytest

from tests.kernels.programs import cuda, program
from twill.ir.statements import Pipelined, walk
from twill.targets.cuda.mmas.ended_accumulators import zeros_save_registers


@pytest.mark.parametrize(("registers", "zeros"), [(224, True), (256, False)])
def test_zeros_end_accumulators_where_a_thread_has_too_few_registers(registers: int, zeros: bool) -> None:
    """128 accumulators, 64 words of a tile that is added, 64 of the sum."""
    made = program("amending")
    (group,) = (replace(one, registers=registers) for one in made.groups if not one.only_moves)
    (loop,) = (one for one in walk(group.body) if isinstance(one, Pipelined))
    assert zeros_save_registers(made, group, loop) == zeros


@pytest.mark.parametrize("kernel", ["amended", "nested", "epilogue"])
def test_loops_alone_and_of_few_accumulators_begin_as_they_are(kernel: str) -> None:
    made = program(kernel)
    loops = [(group, one) for group in made.groups for one in walk(group.body) if isinstance(one, Pipelined)]
    assert loops
    assert not any(zeros_save_registers(made, group, one) for group, one in loops)


def test_zeros_come_before_the_first_wait() -> None:
    text = cuda("amending")
    assert text.index("= 0.0f;") < text.index("consumer_wait")
    assert "n == 0" not in text
