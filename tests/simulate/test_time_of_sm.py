"""How long an SM takes that several thread blocks share."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from tests.kernels.programs import loops, program
from twill.simulate.predict import busy, from_l2, intervals, of_sm, overlapped, predict, time_of_sm


@pytest.mark.parametrize("blocks", [2, 3, 4, 6, 8])
def test_blocks_wait_for_a_unit_as_in_a_queue(blocks: int) -> None:
    """Those whose time without waiting is `blocks` times that of the unit (mean value analysis)."""
    queued = time = 0.0
    for number in range(1, blocks + 1):
        time = 1 + queued
        queued = number * time / (blocks - 1 + time)
    assert overlapped(100, 100) == pytest.approx(100 * (blocks - 1 + time) / blocks, rel=0.05)


def test_the_longer_one_where_they_are_far_apart() -> None:
    assert overlapped(100, 10) == pytest.approx(overlapped(10, 100)) == pytest.approx(100, rel=0.001)
    assert overlapped(0, 0) == 0


@pytest.mark.parametrize("blocks", [1, 2, 8, 64])
def test_more_blocks_come_closer_to_the_busiest_unit(blocks: int) -> None:
    made, (_, scheduled) = program("matmul_32"), loops("matmul_32")
    several = replace(made, launch=replace(made.launch, blocks=blocks))
    more = replace(made, launch=replace(made.launch, blocks=2 * blocks))
    before, after = (time_of_sm(one, scheduled, {}) for one in (several, more))
    assert before > after > sum(map(busy, scheduled))
    assert before > of_sm(several, scheduled)
    assert time_of_sm(several, scheduled, {}, intervals(several, scheduled)) == before


def test_each_loop_counts_its_own_iterations(monkeypatch: pytest.MonkeyPatch) -> None:
    made, (_, scheduled) = program("settled"), loops("settled")
    first, second = (one.loop.op.index for one in scheduled)

    def block_time(program: object, loops: object, trips: Mapping[int, int]) -> float:
        assert trips == {first: 2, second: 5}
        return 0.0

    monkeypatch.setattr("twill.simulate.predict.block_time", block_time)
    found = time_of_sm(made, scheduled, {first: 2, second: 5})
    assert found == pytest.approx(2 * busy(scheduled[0]) + 5 * busy(scheduled[1]))


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


def test_loops_in_both_parts_of_a_branch_are_simulated() -> None:
    made, (_, scheduled) = program("forking"), loops("forking")
    found = predict(made, scheduled)
    for one in scheduled:
        assert found.loops[one.loop.path].marker, one.loop.path
        assert any(event.loop == one.loop.op.index for event in found.events)
    assert {event.loop for event in found.run.events} < {event.loop for event in found.events}
