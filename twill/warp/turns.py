"""Channels that fill the same slots in turn.

Takes the channels of a loop that groups fill for a group that stores; gives those of one kind the same
slots, where fewer suffice than each would have by itself: as in the schedule, a tile has left when the next
one of another channel comes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from twill.ir.problem import Time
from twill.warp.channels import ChannelPlan, kind
from twill.warp.dataflow import STORES, Code
from twill.warp.tasks import Scheduled, Task


@dataclass(frozen=True, slots=True, eq=False)
class _Turn:
    """A channel with when its slot is filled and read in the schedule, machine cycles of an iteration."""

    channel: ChannelPlan
    begin: Time
    """Of the operation whose result fills the slot."""
    read: Time
    end: Time
    """When the tile has left."""


def in_turn(
    code: Code, scheduled: Scheduled, tasks: Sequence[Task], channels: tuple[ChannelPlan, ...]
) -> tuple[ChannelPlan, ...]:
    """The channels, those of one kind from which a group stores with the slots of the first of them."""
    turns = [turn for one in channels if (turn := _turn(code, scheduled, tasks, one)) is not None]
    found = {channel.id: channel for channel in channels}
    for alike in _alike(turns):
        order = sorted(alike, key=lambda turn: turn.begin)
        slots = _slots(order, scheduled.solution.interval)
        ids = tuple(turn.channel.id for turn in order)
        if slots is not None and slots < len(order):
            found |= {turn.channel.id: replace(turn.channel, depth=slots, turns=ids) for turn in order}
    return tuple(found.values())


def _turn(code: Code, scheduled: Scheduled, tasks: Sequence[Task], channel: ChannelPlan) -> _Turn | None:
    """None for a channel that is not of this loop alone, or from which anything but one store reads."""
    if channel.filled_by != "threads" or channel.once or len(channel.sources) > 1:
        return None
    writers = [task for task in tasks if channel.holds_one_of(task.writes)]
    readers = [task for task in tasks for leaf in task.leaves if channel.holds(leaf.source) is not None]
    stored = [task for task in readers if task.group != channel.producer]
    if len(writers) != 1 or len(stored) != 1 or channel.consumers != (stored[0].group,):
        return None
    (writer,), (reader,) = writers, stored
    if code.ops[reader.ops[-1]].name not in STORES:
        return None
    return _Turn(
        channel, writer.start, reader.start, reader.start + scheduled.problem.operation(reader.id).latency
    )


def _alike(turns: Sequence[_Turn]) -> list[list[_Turn]]:
    found = dict[object, list[_Turn]]()
    for turn in turns:
        found.setdefault(kind(turn.channel), []).append(turn)
    return [alike for alike in found.values() if len(alike) > 1]


def _slots(order: Sequence[_Turn], interval: Time) -> int | None:
    """How many slots suffice, so that no fill waits in the schedule; None where iterations do not fill and
    read them in one order, one after the other."""
    for times in ([turn.begin for turn in order], [turn.read for turn in order]):
        if times != sorted(times) or times[-1] >= times[0] + interval:
            return None
    count = len(order)
    for slots in range(1, count):
        before = ((n, divmod(n - slots, count)) for n in range(count))
        if all(order[turn].end + back * interval <= order[n].begin for n, (back, turn) in before):
            return slots
    return None
