"""Channels that share slots: how many slots suffice, which channels share, and that a wrong
order is found."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernels.programs import loops, program
from twill.simulate.compare import compare, scalars
from twill.simulate.explore import explore, same
from twill.simulate.protocol import HazardError
from twill.targets.hopper import TARGET
from twill.warp.lower import lower
from twill.warp.shared_slots import Use, slots_needed
from twill.warp.slot_counts import SharedMemoryError

ITERATIONS = 12
"""More than any drawn tile is needed for."""


def _overlaps(uses: list[tuple[int, int]], slots: int) -> bool:
    """Whether two tiles are in one slot at the same time, where tile n is in slot n % slots."""
    of_slot = ([use for n, use in enumerate(uses) if n % slots == slot] for slot in range(slots))
    return any(end > begin for one in of_slot for (_, end), (begin, _) in pairwise(one))


def _oracle(order: list[Use], interval: int | None) -> int:
    """The fewest slots from which on no two tiles overlap, by placing all tiles of many iterations."""
    times = [(use.begin, use.end) for use in order]
    if interval is not None:
        times = [(b + i * interval, e + i * interval) for i in range(ITERATIONS) for b, e in times]
    enough = len(times)
    while enough > 1 and not _overlaps(times, enough - 1):
        enough -= 1
    return enough


@st.composite
def _uses(draw: st.DrawFn) -> tuple[list[Use], int | None]:
    begins = sorted(draw(st.lists(st.integers(0, 20), min_size=1, max_size=6)))
    uses = [Use(begin, begin + draw(st.integers(0, 60))) for begin in begins]
    interval = draw(st.one_of(st.none(), st.integers(21, 40)))
    return uses, interval


@given(_uses())
def test_slots_suffice_and_none_is_left_over(case: tuple[list[Use], int | None]) -> None:
    assert slots_needed(*case) == _oracle(*case)


def test_iterations_that_overlap_their_fills_have_no_order() -> None:
    assert slots_needed([Use(0, 1), Use(10, 11)], 10) is None
    assert slots_needed([Use(0, 1), Use(10, 11)], None) == 1
    assert slots_needed([Use(5, 6), Use(0, 1)], 20) is None


@pytest.mark.parametrize(("kernel", "trips"), [("unrolled", 1), ("strided", 3)])
def test_more_tiles_than_fit_together_share_slots(kernel: str, trips: int) -> None:
    made = program(kernel)
    owner, *others = (channel for channel in made.channels if channel.sharers)
    assert len(owner.sharers) == 10
    assert owner.stride * len(owner.sharers) > made.shared.limit
    assert {(one.slot_owner, one.offset, one.depth) for one in others} == {
        (owner.id, owner.offset, owner.depth)
    }
    assert 1 < owner.depth < len(owner.sharers)
    assert explore(made, same(trips)).complete


def test_values_of_tiles_in_shared_slots_are_right() -> None:
    made = program("strided")
    numbers = {**scalars(made.function, {}), "M": 64, "N": 64, "K": 2560}
    place = {"pid.x": 0, "pid.y": 0, "pid.z": 0, "grid.x": 1, "grid.y": 1, "grid.z": 1}
    found = compare(made, numbers, place, 0)
    assert any(one.changed for one in found)
    assert all(one.good for one in found)


def test_tiles_numbered_out_of_order_are_found() -> None:
    made = program("strided")
    channels = tuple(replace(one, sharers=one.sharers[::-1]) for one in made.channels)
    with pytest.raises(HazardError, match="tile"):
        explore(replace(made, channels=channels), same(2))


def test_slots_are_their_own_where_they_fit() -> None:
    assert not any(channel.sharers for channel in program("gemm_reduction").channels)


def test_what_does_not_fit_in_shared_slots_either_is_refused() -> None:
    module, (one,) = loops("strided")
    problem = replace(one.problem, limits=replace(one.problem.limits, shared=60 * 1024))
    with pytest.raises(SharedMemoryError):
        lower(module, [replace(one, problem=problem)], TARGET)
