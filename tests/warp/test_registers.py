"""Registers that groups which load and groups which compute have of a thread block."""

from dataclasses import replace

import pytest

from tests.kernels.programs import loops, program
from twill.ir.program import Program
from twill.targets.cuda.loads.tiled_form import tiled_form
from twill.warp.thread_block import regranted
from twill.warp.validate import validate

LIMITS = loops("fa_fwd_subtiled")[1][0].machine.limits


def own(made: Program) -> list[int]:
    return [group.registers for group in made.groups]


@pytest.mark.parametrize(
    ("scheduled", "more", "granted"),
    [
        ({1: 240, 2: 200}, 8, [32, 240, 232]),
        ({1: 240, 2: 200}, 24, [48, 240, 216]),
        ({1: 240, 2: 240}, 16, [40, 232, 232]),
        ({1: 200, 2: 240}, 48, [72, 192, 240]),
    ],
)
def test_groups_lose_what_their_schedule_does_not_need(
    scheduled: dict[int, int], more: int, granted: list[int]
) -> None:
    before = program("fa_fwd_subtiled")
    assert own(before) == [24, 240, 240]
    made = regranted(before, LIMITS, scheduled, more)
    assert made
    assert own(made) == granted
    validate(made, LIMITS)
    back = regranted(made, LIMITS, {1: granted[1], 2: granted[2]}, -8)
    assert back
    assert own(back)[0] == granted[0] - 8
    assert sum(own(back)) == sum(granted)


def test_no_group_gets_too_few_registers_or_more_than_there_are() -> None:
    before = program("fa_fwd_subtiled")
    assert regranted(before, LIMITS, {}, -8) is None
    assert regranted(before, LIMITS, {}, 0) is None
    even = replace(before, launch=replace(before.launch, even=True))
    assert regranted(even, LIMITS, {}, 8) is None
    computing = tuple(group for group in before.groups if not group.only_moves)
    assert regranted(replace(before, groups=computing), LIMITS, {}, 8) is None


def test_groups_that_compute_have_what_copies_take_where_tma_loads() -> None:
    before = program("weighted")
    form = tiled_form(before)
    assert form
    made, (loading,) = form.program, (group for group in form.program.groups if group.only_moves)
    assert before.launch.for_copies > 0
    assert (loading.warps, loading.registers) == (1, LIMITS.narrow_registers)
    gained = [after - own for after, own in zip(own(made), own(before), strict=True) if after > own]
    assert gained
    computing = [group for group in made.groups if not group.only_moves]
    taken = sum(32 * group.warps * group.registers for group in computing) + 128 * loading.registers
    assert taken <= made.launch.threads * made.launch.entry_registers
    fewer = regranted(before, LIMITS, {}, -before.launch.for_copies)
    assert fewer is None or fewer.launch.for_copies == 0
