"""What thread blocks of an SM wait for beside each other: its busiest unit, and L2."""

from dataclasses import replace

import pytest

from tests.kernels.programs import loops
from twill.simulate.predict import from_l2, overlapped


@pytest.mark.parametrize(
    ("least", "waiting", "cycles"),
    [(0.0, 0.0, 0.0), (100.0, 0.0, 100.0), (0.0, 100.0, 100.0), (100.0, 100.0, 126.0), (100.0, 50.0, 104.0)],
)
def test_a_unit_and_the_blocks_in_front_of_it_wait_for_each_other(
    least: float, waiting: float, cycles: float
) -> None:
    assert overlapped(least, waiting) == pytest.approx(cycles, abs=0.1)  # pyright: ignore
    assert overlapped(waiting, least) == overlapped(least, waiting)


def test_all_that_an_iteration_loads_comes_from_l2() -> None:
    """Tiles of 128 x 64 and 64 x 64, of 2 bytes."""
    (loop,) = loops("matmul_half")[1]
    assert from_l2(loop) == 24576 / 45
    unknown = replace(loop.machine, loads=replace(loop.machine.loads, reused=None))
    assert from_l2(replace(loop, machine=unknown)) == 0.0
