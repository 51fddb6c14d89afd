"""Channels that share slots: each fills its part of them, in a fixed order.

Takes the channels of a loop; gives those of one kind the same slots, where fewer bytes suffice than each
would take by itself: as in the schedule, a tile is no longer needed when the next one of another channel
comes to its slot. Fills are numbered through all channels of a kind, so that the barriers of a slot order its
tiles, whichever channel they are of.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from twill.ir.loop import Value
from twill.ir.problem import Time
from twill.warp.channels import LOADED, ChannelPlan, constant_trips, kind
from twill.warp.dataflow import STORES, Code
from twill.warp.tasks import Leaf, Scheduled, Task

Which = Literal["stored", "all"]
"""Channels from which a group stores; or those that are loaded, too."""


@dataclass(frozen=True, slots=True)
class Use:
    """When a slot is in use by one channel in the schedule, machine cycles of an iteration."""

    begin: Time
    """Of the operation that fills the slot."""
    end: Time
    """When every reader has read the tile."""


@dataclass(frozen=True, slots=True, eq=False)
class _Sharer:
    channel: ChannelPlan
    use: Use


def with_shared_slots(
    code: Code,
    scheduled: Scheduled,
    tasks: Sequence[Task],
    channels: tuple[ChannelPlan, ...],
    which: Which,
) -> tuple[ChannelPlan, ...]:
    """The channels, those of one kind with the slots of the first of them where these are fewer."""
    sharers = [one for channel in channels if (one := _sharer(code, scheduled, tasks, channel, which))]
    interval = None if constant_trips(code, scheduled.loop) == 1 else scheduled.solution.interval
    found = {channel.id: channel for channel in channels}
    for alike in _alike(sharers):
        order = sorted(alike, key=lambda one: one.use.begin)
        slots = slots_needed([one.use for one in order], interval)
        if slots is not None and slots < sum(one.channel.depth for one in order):
            ids = tuple(one.channel.id for one in order)
            found |= {one.channel.id: _taking(one.channel, ids, slots) for one in order}
    return tuple(found.values())


def _taking(channel: ChannelPlan, ids: tuple[str, ...], slots: int) -> ChannelPlan:
    """The channel as one of several that share so many slots."""
    fills = channel.fills and channel.fills * len(ids)
    return replace(channel, depth=slots, spare=0, fills=fills, sharers=ids)


def _sharer(
    code: Code, scheduled: Scheduled, tasks: Sequence[Task], channel: ChannelPlan, which: Which
) -> _Sharer | None:
    """None for a channel that is not of this loop alone, or is none of these."""
    if channel.once or len(channel.sources) > 1:
        return None
    makers = [task for task in tasks if channel.holds_one_of(_results(code, task))]
    reads = [(task, leaf) for task in tasks for leaf in task.leaves if channel.holds(leaf.source) is not None]
    reads = [(task, leaf) for task, leaf in reads if task.group in channel.consumers]
    loaded = which == "all" and channel.filled_by in LOADED
    if not makers or not reads or not (loaded or _stored(code, channel, reads)):
        return None
    interval = scheduled.solution.interval
    ends = (
        task.start + (leaf.distance or 0) * interval + _held(code, scheduled, makers, task)
        for task, leaf in reads
    )
    return _Sharer(channel, Use(min(task.start for task in makers), max(ends)))


def _results(code: Code, task: Task) -> list[Value]:
    return [value for index in task.node.ops for value in code.ops[index].results]


def _stored(code: Code, channel: ChannelPlan, reads: Sequence[tuple[Task, Leaf]]) -> bool:
    """Whether a store of another group alone reads what threads have filled."""
    groups = {task.group for task, _ in reads}
    return (
        channel.filled_by == "threads"
        and len(reads) == 1
        and groups == set(channel.consumers)
        and channel.producer not in groups
        and code.ops[reads[0][0].ops[-1]].name in STORES
    )


def _held(code: Code, scheduled: Scheduled, makers: Sequence[Task], reader: Task) -> Time:
    """How long a reader needs the slot after it starts; one that stores, until the tile has left."""
    sources, operation = {task.id for task in makers}, scheduled.problem.operation(reader.id)
    holds = (
        use.hold
        for value in scheduled.problem.values
        for use in value.uses
        if value.src in sources and use.op == reader.id
    )
    stores = code.ops[reader.ops[-1]].name in STORES
    return max([operation.latency if stores else operation.issue, *holds])


def _alike(sharers: Sequence[_Sharer]) -> list[list[_Sharer]]:
    found = dict[object, list[_Sharer]]()
    for one in sharers:
        found.setdefault(kind(one.channel), []).append(one)
    return [alike for alike in found.values() if len(alike) > 1]


def slots_needed(order: Sequence[Use], interval: Time | None) -> int | None:
    """The fewest slots from which on no fill waits in the schedule, where every `interval` cycles, or once
    for None, the uses `order` fill slots one after the other; None where iterations do not fill them in one
    order."""
    begins = [use.begin for use in order]
    if begins != sorted(begins) or (interval is not None and begins[-1] >= begins[0] + interval):
        return None
    count, needed = len(order), 1
    for n, use in enumerate(order):
        for before in range(count * (1 if interval is None else 1 + _iterations(order, interval))):
            back, other = divmod(n - 1 - before, count)
            if back < 0 and interval is None:
                break
            if order[other].end + back * (interval or 0) > use.begin:
                needed = max(needed, before + 2)
    return needed


def _iterations(order: Sequence[Use], interval: Time) -> int:
    """Over how many iterations a tile is needed, at most."""
    return max(1 + int(use.end - use.begin) // int(interval) for use in order)
