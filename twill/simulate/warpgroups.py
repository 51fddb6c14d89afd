"""A program as its warpgroups run it, where those of a group are independent.

Takes a program; gives one in which each warpgroup of an independent group is a group of its own, with the
channels that it fills. What every simulator executes.
"""

from collections.abc import Mapping
from dataclasses import replace

from twill.ir.channels import Channel
from twill.ir.program import Program, Warpgroup, WarpProgram
from twill.ir.schedule import WARPGROUP
from twill.ir.statements import Advance, ProducerStore, Statement, Statements, with_inner


def by_warpgroup(program: Program) -> Program:
    """The program itself where no group is independent."""
    if not any(group.independent for group in program.groups):
        return program
    members = _members(program)
    groups = tuple(one for group in program.groups for one in _divided(program, group, members))
    channels = tuple(_between(program, one, members) for one in program.channels)
    return replace(program, groups=groups, channels=channels)


def _members(program: Program) -> Mapping[int, tuple[int, ...]]:
    """The ids of the warpgroups of each independent group: its own first."""
    free, found = 1 + max(group.id for group in program.groups), dict[int, tuple[int, ...]]()
    for group in program.groups:
        if group.independent:
            more = group.warps // WARPGROUP - 1
            found[group.id] = (group.id, *range(free, free + more))
            free += more
    return found


def _divided(
    program: Program, group: WarpProgram, members: Mapping[int, tuple[int, ...]]
) -> tuple[WarpProgram, ...]:
    ids = members.get(group.id)
    if ids is None:
        return (group,)
    return tuple(
        replace(
            group,
            id=one,
            warps=WARPGROUP,
            first_warp=group.first_warp + i * WARPGROUP,
            body=_own(program, group, group.body, i),
            independent=False,
            of=Warpgroup(group.id, i, len(ids)),
        )
        for i, one in enumerate(ids)
    )


def _own(program: Program, group: WarpProgram, body: Statements, index: int) -> Statements:
    """The body, with the channels that warpgroup `index` fills."""
    return tuple(_renamed(program, group, one, index) for one in body)


def _renamed(program: Program, group: WarpProgram, one: Statement, index: int) -> Statement:
    if isinstance(one, ProducerStore | Advance):
        channel = next((channel for channel in program.channels if channel.id == one.channel), None)
        if channel is not None and channel.producer == group.id:
            return replace(one, channel=filled_by(channel, index))
    return with_inner(one, lambda inside: _own(program, group, inside, index))


def filled_by(channel: Channel, warpgroup: int) -> str:
    """The channel that a warpgroup fills where a statement of its group names that of the first one."""
    return channel.sharers[channel.sharers.index(channel.id) + warpgroup]


def _between(program: Program, channel: Channel, members: Mapping[int, tuple[int, ...]]) -> Channel:
    """The channel with the warpgroups that fill it and read it."""
    consumers = tuple(sorted(one for group in channel.consumers for one in members.get(group, (group,))))
    own = members.get(channel.producer)
    if own is None or not channel.sharers:
        return replace(channel, consumers=consumers)
    producer = own[channel.sharers.index(channel.id) % len(own)]
    return replace(channel, producer=producer, consumers=consumers)
