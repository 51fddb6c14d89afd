"""How many slots a channel needs at least."""

from dataclasses import replace

import pytest

from tests.kernels.programs import loops
from twill.warp.channels import (
    _slots_live,  # pyright: ignore[reportPrivateUsage]
    of_loop,
)
from twill.warp.dataflow import read
from twill.warp.tasks import tasks


@pytest.mark.parametrize(("longer", "slots"), [(0, 2), (1, 1), (-1, 2)])
def test_a_slot_is_not_released_when_its_reader_waits_for_the_next(longer: int, slots: int) -> None:
    """A load and the MMA that reads it start together: the slot is free again after as long as the MMA holds
    it, and the group waits for the next tile before it releases this one."""
    module, (one,) = loops("gemm")
    value = next(value for value in one.problem.values if value.src.startswith("load"))
    (hold,) = {use.hold for use in value.uses}
    together = replace(one.solution, interval=hold + longer, start=(0,) * len(one.solution.start))
    held = replace(one, solution=together)
    code = read(module, one.loop.function)
    load = next(task for task in tasks(code, held) if task.id == value.src)
    assert _slots_live(held, load, ()) == slots


@pytest.mark.parametrize("ahead", range(4))
def test_a_number_has_a_slot_for_each_iteration_that_it_is_loaded_ahead(ahead: int) -> None:
    """The problem counts the slots of tiles alone."""
    module, (one,) = loops("pacing")
    ids = [operation.id for operation in one.problem.operations]
    start = [at + ahead * one.solution.interval for at in one.solution.start]
    start[ids.index("load.acc_18")] = one.solution.start[ids.index("ffma.acc_21")]
    early = replace(one, solution=replace(one.solution, start=tuple(start)))
    code = read(module, one.loop.function)
    found = of_loop(code, early, tasks(code, early))
    (depth,) = (channel.depth for channel in found if channel.id == "acc_18")
    assert depth == ahead + 1
