"""What controls loops beside their operations, and that predictions count it."""

from dataclasses import replace

import pytest

from tests.kernels.programs import loops, program
from twill.simulate.control import NONE, Controlling, controlling, cycles
from twill.simulate.predict import predict


@pytest.mark.parametrize(
    ("kernel", "group", "expected"),
    [
        ("gemm.sm100", 1, Controlling(waits=0, issuing=1, slots=1, updates=0)),
        ("gemm_reduction.sm100", 1, Controlling(waits=1, issuing=0, slots=1, updates=0)),
        ("fa_fwd_subtiled.sm100", 3, Controlling(waits=4, issuing=0, slots=0, updates=2)),
        ("fa_fwd_subtiled.sm100", 4, Controlling(waits=0, issuing=3, slots=1, updates=0)),
        ("panels.sm100", 1, Controlling(waits=1, issuing=2, slots=1, updates=0)),
    ],
)
def test_waits_rings_and_updates_are_those_of_the_steady_state(
    kernel: str, group: int, expected: Controlling
) -> None:
    made = program(kernel)
    assert controlling(made, made.groups[group], loops(kernel)[1][0]) == expected


def test_a_wait_of_one_warp_counts_on_an_average_of_the_group() -> None:
    control = loops("panels.sm100")[1][0].machine.control
    assert control
    alone = Controlling(waits=0, issuing=4, slots=0, updates=0)
    assert alone.instructions(control, 8) == control.loop + control.wait * 4 / 8
    every = replace(alone, waits=4, issuing=0)
    assert every.instructions(control, 8) == control.loop + control.wait * 4


def test_a_group_without_a_steady_state_controls_nothing() -> None:
    made, (one,) = program("gemm.sm100"), loops("gemm.sm100")[1]
    epilogue = made.groups[2]
    assert controlling(made, replace(epilogue, body=()), one) == NONE


def test_a_loop_is_no_faster_than_the_unit_that_controls_it() -> None:
    made, (one,) = program("gemm.sm100"), loops("gemm.sm100")[1]
    control = one.machine.control
    assert control
    slow = replace(control, wait=1000)
    scheduled = replace(one, machine=replace(one.machine, control=slow))
    least = cycles(made, scheduled, slow)
    before, after = (predict(made, (loop,)).loops[one.loop.path].interval for loop in (one, scheduled))
    assert before < least
    assert after == pytest.approx(least)
