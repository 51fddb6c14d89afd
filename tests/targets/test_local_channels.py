"""Channels that a group fills and reads by itself: one group barrier for each tile, where slots suffice."""

from dataclasses import replace

import pytest

from tests.kernels.programs import changed, program
from twill.ir.program import Program, WarpProgram
from twill.ir.statements import ConsumerRelease, ConsumerWait, Pipelined, Statement
from twill.targets.cuda.shared.local_channels import reused_behind_a_wait
from twill.targets.hopper import source
from twill.warp.plan import Options

NAME = "convert_layout_11"
"""The score gradients of attention backward, which the MMA of dQ reads from shared memory."""


def _used(made: Program) -> WarpProgram:
    return next(group for group in made.groups if group.id == made.channel(NAME).producer)


def _with_steady(group: WarpProgram, steady: list[Statement]) -> WarpProgram:
    body = tuple(
        replace(one, steady=tuple(steady)) if isinstance(one, Pipelined) else one for one in group.body
    )
    return replace(group, body=body)


def _steady(group: WarpProgram) -> list[Statement]:
    return list(next(one for one in group.body if isinstance(one, Pipelined)).steady)


@pytest.mark.parametrize(("slots", "barriers"), [(2, 1), (1, 2)])
def test_a_second_slot_spares_a_barrier(slots: int, barriers: int) -> None:
    text = source(changed("fa_bwd", Options(depths={NAME: slots, "g": 2})))
    start = text.index("thread.rematerialize();")
    loop = text[start : text.index("// cycle 2381", start)]
    assert loop.count("named_barrier_sync(group_1_barrier") == barriers
    assert f"{NAME}.producer_" not in text
    assert f"{NAME}.init" not in text


def test_slots_are_released_before_the_next_wait() -> None:
    made = program("fa_bwd")
    assert made.channel(NAME).local
    assert made.channel(NAME).depth == 2
    assert reused_behind_a_wait(_used(made), made.channels, made.channel(NAME))


def test_a_release_behind_the_next_wait_needs_a_barrier() -> None:
    """Released one iteration later, behind the wait for the next tile."""
    made = program("fa_bwd")
    group, channel = _used(made), made.channel(NAME)
    steady = _steady(group)
    release = next(one for one in steady if isinstance(one, ConsumerRelease) and one.channel == NAME)
    wait = next(one for one in steady if isinstance(one, ConsumerWait) and one.channel == NAME)
    steady.remove(release)
    iteration = replace(release.at.iteration, offset=release.at.iteration.offset + 1)
    late = replace(release, at=replace(release.at, iteration=iteration))
    steady.insert(steady.index(wait) + 1, late)
    assert not reused_behind_a_wait(_with_steady(group, steady), made.channels, channel)
    assert not reused_behind_a_wait(group, [replace(channel, depth=1)], replace(channel, depth=1))


def test_the_wait_of_another_local_channel_spares_the_barrier_of_a_single_slot() -> None:
    """Each of two channels with one slot is filled behind the wait of the other one."""
    made = program("fa_bwd_subtiled")
    local = [one for one in made.channels if one.local]
    assert [one.depth for one in local] == [1, 1]
    group = next(group for group in made.groups if group.id == local[0].producer)
    for one in local:
        assert reused_behind_a_wait(group, made.channels, one)
        assert not reused_behind_a_wait(group, [one], one)


def test_a_tile_outside_of_pipelined_loops_keeps_its_barrier() -> None:
    made = program("queries")
    one = next(one for one in made.channels if one.local)
    group = next(group for group in made.groups if group.id == one.producer)
    assert not reused_behind_a_wait(group, made.channels, one)


def test_channels_between_groups_keep_their_barriers() -> None:
    made = program("fa_bwd")
    assert not made.channel("x").local
    assert "channel_x.init(" in source(made)
