"""How many slots a channel needs at least."""

from dataclasses import replace

import pytest

from tests.kernels.programs import loops
from twill.warp.channels import _slots_live  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize(("longer", "slots"), [(0, 2), (1, 1), (-1, 2)])
def test_a_slot_is_not_released_when_its_reader_waits_for_the_next(longer: int, slots: int) -> None:
    """A load and the MMA that reads it start together: the slot is free again after as long as the MMA holds
    it, and the group waits for the next tile before it releases this one."""
    (one,) = loops("gemm")[1]
    value = next(value for value in one.problem.values if value.src.startswith("load"))
    (hold,) = {use.hold for use in value.uses}
    together = replace(one.solution, interval=hold + longer, start=(0,) * len(one.solution.start))
    assert _slots_live(replace(one, solution=together), value.src) == slots
