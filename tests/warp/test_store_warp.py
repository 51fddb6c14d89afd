"""Stores of a loop in a warp of their own: who fills, who stores, and when the store stays where it was."""

from dataclasses import replace

import pytest

from tests.kernels.programs import changed, loops, program
from twill.ir.operands import Slot
from twill.ir.program import WarpProgram
from twill.ir.schedule import Group
from twill.ir.statements import (
    ConsumerRelease,
    ConsumerWait,
    Pipelined,
    ProducerStore,
    Statement,
    StoreTile,
    StoreWait,
    walk,
)
from twill.simulate.actions import unfold
from twill.simulate.explore import explore, same
from twill.simulate.local import check
from twill.simulate.protocol import HazardError
from twill.targets.hopper import TARGET, source
from twill.warp.lower import lower
from twill.warp.plan import Options
from twill.warp.store_warp import store_group


def _steady(group: WarpProgram) -> list[Statement]:
    (loop,) = (one for one in walk(group.body) if isinstance(one, Pipelined))
    return list(loop.steady)


def test_the_store_warp_waits_stores_and_releases() -> None:
    made = program("fa_bwd")
    (warp,) = (group for group in made.groups if any(isinstance(s, StoreTile) for s in _steady(group)))
    assert (warp.warps, warp.first_warp) == (1, 9)
    wait, store, read, release = _steady(warp)
    assert isinstance(wait, ConsumerWait)
    assert isinstance(store, StoreTile)
    assert isinstance(read, StoreWait)
    assert isinstance(release, ConsumerRelease)
    assert not store.staged
    assert any(isinstance(one.location, Slot) and one.location.channel == wait.channel for one in store.reads)
    assert read.buffer == store.buffer


def test_the_group_that_computes_fills_the_slot_when_the_schedule_stores() -> None:
    made = program("fa_bwd")
    channel = made.channel("warp_group_dot_12")
    steady = _steady(next(group for group in made.groups if group.id == channel.producer))
    (fill,) = (s for s in steady if isinstance(s, ProducerStore) and s.channel == channel.id)
    assert fill.at.cycle == loops("fa_bwd")[1][0].start("reduce.dq_desc")
    assert not any(isinstance(s, StoreTile | StoreWait) for s in steady)


def test_without_a_free_warp_the_group_stores_itself() -> None:
    loading = [Group(number, 1, 24) for number in range(4)]
    assert store_group([*loading, Group(4, 8, 232)], 24) is None
    assert store_group([Group(0, 8, 232)], 24) is None
    assert store_group([*loading[:3], Group(4, 8, 232)], 24) == Group(5, 1, 24)


def test_loads_keep_two_slots() -> None:
    """Where the whole tile would leave a load a single slot, it is stored from staging, in parts."""
    module, (one,) = loops("fa_bwd")
    limits = replace(one.problem.limits, shared=one.problem.limits.shared - 48 * 1024)
    made = lower(module, [replace(one, problem=replace(one.problem, limits=limits))], TARGET)
    assert len(made.groups) == len(one.solution.groups)
    assert all(s.staged for group in made.groups for s in walk(group.body) if isinstance(s, StoreTile))


def test_slots_given_by_hand_do_not_forbid_it() -> None:
    made = changed("fa_bwd", Options(depths={"x": 1, "g": 1}))
    assert any(not s.staged for group in made.groups for s in walk(group.body) if isinstance(s, StoreTile))


def test_a_release_before_the_store_has_read_is_found() -> None:
    """The rules of a group hold for slots that stores read."""
    made = program("fa_bwd")
    (warp,) = (group for group in made.groups if any(isinstance(s, StoreTile) for s in _steady(group)))
    actions = list(unfold(warp.body, lambda loop: 3))
    check(made, warp.id, actions)
    with pytest.raises(HazardError, match="while a store reads"):
        check(made, warp.id, (a for a in actions if not isinstance(a.statement, StoreWait)))


SHARERS = ("warp_group_dot_16", "warp_group_dot_20")
"""The two tiles of dQ of an iteration."""


def test_two_tiles_leave_through_one_shared_slot() -> None:
    made = program("fa_bwd_subtiled")
    first, second = map(made.channel, SHARERS)
    assert first.sharers == second.sharers == SHARERS
    assert (first.depth, first.offset) == (second.depth, second.offset) == (1, first.offset)
    assert [first.fill(n) for n in range(2)] == [0, 2]
    assert [second.fill(n) for n in range(2)] == [1, 3]
    assert first.slot_owner == second.slot_owner == SHARERS[0]
    assert not any(s.staged for group in made.groups for s in _steady(group) if isinstance(s, StoreTile))
    text = source(made)
    assert "Channel<1, 32768, Filling::threads, 1, 2, 1> channel_warp_group_dot_20" in text
    assert text.count(f"{SHARERS[0]}.init(") == 1
    assert f"{SHARERS[1]}.init(" not in text


def test_a_turn_out_of_order_is_found() -> None:
    """The second tile, filled as if it were the first one."""
    made = program("fa_bwd_subtiled")
    swapped = SHARERS[::-1]
    channels = tuple(replace(one, sharers=swapped) if one.sharers else one for one in made.channels)
    with pytest.raises(HazardError):
        explore(replace(made, channels=channels), same(2))


def test_slots_that_loads_need_are_not_given_away() -> None:
    """Where a slot would be free for less time than a load takes, the group stores by itself."""
    module, (one,) = loops("fa_bwd_subtiled")
    slow = replace(one.machine, loads=replace(one.machine.loads, arrival=5000))
    made = lower(module, [replace(one, machine=slow)], TARGET)
    assert all(s.staged for group in made.groups for s in walk(group.body) if isinstance(s, StoreTile))
