"""Waits for slots, and reads of vectors from them, ahead of waits for MMAs.

Takes the draft of a program; gives it with these reads as tasks of their own. A group whose MMAs are complete
at the back edge begins an interval with waits: for the slots of the MMAs that it issues first, and for a
vector that the operation behind them reads. The tensor core idles meanwhile. So all of them come before the
last wait for MMAs of the interval before, if the schedule's registers and the slots of the channels allow
that. The group's other vectors are then read just before the waits for MMAs behind which they are needed.

Backward attention on an H200, million SM cycles (reports/h200.md): 28.2 with none of this, 27.5 with all. In
an earlier run, edited by hand, 26.9, and 28.3 where the first vector is read behind the issue of an MMA:
operands then keep the banks of shared memory busy. With the other vectors alone 28.8, 28.7 without. Two tiles
one behind the other (fa_bwd_subtiled): 26.96 with it, 27.71 without.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from twill.ir.graph import Node
from twill.ir.loop import Tensor, Value
from twill.ir.problem import Operation, Time
from twill.ir.statements import Compute, ConsumerWait, MmaIssue, ProducerStore, StoreTile
from twill.ops.table import role
from twill.warp.channels import LOADED, ChannelPlan
from twill.warp.events import Event, events, fills_for_itself, is_mma
from twill.warp.kernel import Group
from twill.warp.pipelined_loops import LoopDraft, interval_of
from twill.warp.plan import Draft
from twill.warp.steps import Step
from twill.warp.tasks import Leaf, Task


@dataclass(frozen=True, slots=True, eq=False)
class _Interval:
    """One interval of a group before anything is moved."""

    group: Group
    events: Sequence[Event]
    steps: Sequence[Step]
    owner: Sequence[int]
    """By step: its event."""
    waits: Mapping[int, int]
    """By step: how many MMAs may stay in flight before it."""
    order: Sequence[tuple[int, str]]
    """Group and channel of each load, in the order of an interval of its group."""

    @property
    def length(self) -> Time:
        return self.group.scheduled.solution.interval

    def before(self, time: Time) -> Time:
        """The end of the interval before that in which something is done."""
        return time - self.group.when(time)[1] - 1


@dataclass(frozen=True, slots=True)
class _Read:
    """A vector that is read from its slot in a statement of its own."""

    leaf: Leaf
    time: Time


def read_early(draft: Draft) -> Draft:
    """The draft with waits and reads where they hold up no MMA."""
    if draft.plan.tiles is not None:
        return draft
    return replace(draft, loops=tuple(_loop(groups) for groups in draft.loops))


def _loop(groups: tuple[LoopDraft, ...]) -> tuple[LoopDraft, ...]:
    first = groups[0].group
    alone = any(fills_for_itself(first, channel) for channel in first.kernel.channels)
    if first.kernel.by_mbarrier or first.hand_offs or alone or _entangled(first.kernel.channels):
        return groups
    order = tuple(
        (draft.group.id, event.channel.id)
        for draft in groups
        for event in events(draft.group)
        if event.channel is not None and event.channel.producer == draft.group.id
    )
    return tuple(replace(draft, group=_early(draft.group, order)) for draft in groups)


def _entangled(channels: Sequence[ChannelPlan]) -> bool:
    """Whether a group that loads, or reads what is loaded, waits for tiles of another one too."""
    loaded = [channel for channel in channels if channel.filled_by in LOADED and not channel.once]
    groups = {group for channel in loaded for group in (channel.producer, *channel.consumers)}
    passed = (channel for channel in channels if channel.filled_by not in LOADED and not channel.once)
    return any(
        group in groups for channel in passed for group in channel.consumers if group != channel.producer
    )


def _early(group: Group, order: Sequence[tuple[int, str]]) -> Group:
    if not any(is_mma(group.code, task) for task in group.own):
        return group
    one = _Interval(group, *interval_of(group), order)
    head = dict(_head(one))
    reads = dict(_vectors(one)) if head else dict[int, _Read]()
    if not any(_before_interval(one, read) for read in reads.values()):
        return group
    acquired = {channel: time for channel, time in head.items() if not _read_by(group, channel, reads)}
    return replace(_reading(group, reads), shift=group.shift - one.length, acquired=acquired)


def _before_interval(one: _Interval, read: _Read) -> bool:
    """Whether a vector is read in the interval before that of its reader."""
    reader = min(task.start for task in one.group.own if read.leaf in task.leaves)
    return one.group.when(read.time)[0] < one.group.when(reader)[0]


def _read_by(group: Group, channel: str, reads: Mapping[int, _Read]) -> bool:
    """Whether a read of its own waits for a slot of the channel."""
    found = (group.channel(read.leaf) for read in reads.values())
    return any(location is not None and location[0].id == channel for location in found)


# --- waits for slots ----------------------------------------------------------------------------------------


def _head(one: _Interval) -> tuple[tuple[str, Time], ...]:
    """The channels whose slots an interval waits for before its first wait for MMAs, with the time before the
    interval at which it may; () where MMAs are in flight across the back edge, or a load would come too
    late."""
    issues = [i for i, step in enumerate(one.steps) if isinstance(step.statement, MmaIssue)]
    if (
        not one.waits
        or min(one.waits) < issues[0]
        or max(one.waits) < issues[-1]
        or one.waits[max(one.waits)]
    ):
        return ()
    found = tuple(
        (step.statement.channel, one.before(one.events[one.owner[i]].time))
        for i, step in enumerate(one.steps[: min(one.waits) + 1])
        if isinstance(step.statement, ConsumerWait)
    )
    return found if found and all(_filled(one, *waited) for waited in found) else ()


def _filled(one: _Interval, name: str, time: Time) -> bool:
    """Whether a slot is full at `time` without a slot that the group releases later: those of all that is
    loaded before it are released early enough for loads to arrive."""
    group, loads = one.group, _loads(one.group)
    arrival = int(group.scheduled.machine.loads.arrival / group.scale)
    if name not in loads:
        return False
    for channel in group.kernel.channels:
        if channel.id not in loads or group.id not in channel.consumers:
            continue
        released = [event.time for event in one.events if event.task is None and event.channel is channel]
        if channel.sharers or not released:
            return False
        ahead = loads[name] // one.length - loads[channel.id] // one.length - _behind(one, channel.id, name)
        if channel.depth <= (max(released) + arrival - time) // one.length + ahead:
            return False
    return True


def _behind(one: _Interval, name: str, other: str) -> bool:
    """Whether one warp loads both, and the first behind the second in an interval: the load of the second
    waits for none of the first of its own iteration."""
    places = {channel: (group, place) for place, (group, channel) in enumerate(one.order)}
    if name not in places or other not in places:
        return False
    (group, place), (first, before) = places[name], places[other]
    return group == first and place > before


def _loads(group: Group) -> Mapping[str, Time]:
    """When the slots of the loop's loaded channels are filled, by channel."""
    return {
        channel.id: task.start
        for task in group.tasks
        if task.group != group.id
        for channel in group.kernel.channels
        if channel.filled_by in LOADED
        and channel.producer == task.group
        and not channel.once
        and any(channel.holds(value) is not None for value in _results(group, task))
    }


def _results(group: Group, task: Task) -> Iterator[Value]:
    return (value for index in task.ops for value in group.code.ops[index].results)


# --- reads of vectors ---------------------------------------------------------------------------------------


def _vectors(one: _Interval) -> Iterator[tuple[int, _Read]]:
    """The vectors that operations read behind waits for MMAs, by value, each with the time to read it."""
    for position in sorted(one.waits):
        event = one.events[one.owner[position]] if position < len(one.steps) else None
        if event is None or event.task is None or event.span or event.slices[0] or event.channel:
            continue
        time = _reading_time(one, position)
        for leaf in event.task.leaves:
            if _readable(one.group, event.task, leaf) and _fits(one, leaf, time):
                yield leaf.source.id, _Read(leaf, time)


def _reading_time(one: _Interval, position: int) -> Time:
    """When to read what the operation at a step needs behind its wait: before MMAs that are issued with
    nothing between them and the wait, so beside those before them; before the wait for these, if there is
    one."""
    issued, work = one.events[one.owner[position]], Compute | ProducerStore | StoreTile
    for i in reversed(range(position)):
        statement = one.steps[i].statement
        if isinstance(statement, work):
            return issued.time - 1
        if isinstance(statement, MmaIssue):
            issued = one.events[one.owner[i]]
        if one.waits.get(i) == 0:
            return one.events[one.owner[i]].time - 1
    return one.before(issued.time)


def _readable(group: Group, task: Task, leaf: Leaf) -> bool:
    """A vector that is loaded anew in every iteration, and whose only reader takes it as it is laid out."""
    location = group.channel(leaf)
    users = (
        op for op in (group.code.ops[i] for i in task.ops) for value in op.operands if value is leaf.value
    )
    return (
        location is not None
        and location[0].filled_by in LOADED
        and not location[0].sharers
        and leaf.distance == 0
        and leaf.value.id == leaf.source.id
        and isinstance(leaf.value.type, Tensor)
        and len(leaf.value.type.shape) == 1
        and not any(role(op) == "layout" for op in users)
        and sum(other.source.id == leaf.source.id for task in group.own for other in task.leaves) == 1
    )


def _fits(one: _Interval, leaf: Leaf, time: Time) -> bool:
    """Whether a vector can be kept from `time` on in the registers that the group has for the schedule."""
    scheduled = one.group.scheduled
    made = {i: task.id for task in one.group.tasks for i in task.node.ops}
    source = made[leaf.source.producer] if leaf.source.producer is not None else ""
    vector = sum(value.registers for value in scheduled.problem.values if value.src == source)
    until = min(task.start for task in one.group.own if leaf in task.leaves)
    ranges = tuple(_ranges(one))
    most = max((_held(ranges, begin, one.length) for begin, _, _ in ranges), default=0)
    begins = {time, *(time + (begin - time) % one.length for begin, _, _ in ranges)}
    return all(_held(ranges, at, one.length) + vector <= most for at in begins if at < until)


def _ranges(one: _Interval) -> Iterator[tuple[Time, Time, int]]:
    """When the group begins and ends to hold each value of the schedule, and in how many registers."""
    scheduled, group = one.group.scheduled, one.group.id
    for value in scheduled.problem.values:
        uses = [use for use in value.uses if scheduled.group(use.op) == group]
        own = scheduled.group(value.src) == group
        ends = [scheduled.start(use.op) + use.distance * one.length + use.hold for use in uses]
        begins = [scheduled.start(use.op) + use.distance * one.length for use in uses]
        if value.registers and (own or uses):
            begin = scheduled.start(value.src) if own else min(begins)
            end = begin + one.length if value.resident else max([begin, *ends])
            yield begin, end, value.registers


def _held(ranges: Sequence[tuple[Time, Time, int]], time: Time, interval: Time) -> int:
    """Registers in all intervals of length `interval` at `time`."""
    return sum(n * ((time - begin) // interval - (time - end) // interval) for begin, end, n in ranges)


def _reading(group: Group, reads: Mapping[int, _Read]) -> Group:
    """The group with a task for each read."""
    found, scheduled = [_task(group, read) for read in reads.values()], group.scheduled
    problem, solution = scheduled.problem, scheduled.solution
    added = tuple(Operation(task.id, task.node.op) for task in found)
    problem = replace(problem, operations=(*problem.operations, *added))
    solution = replace(
        solution,
        start=(*solution.start, *(task.start for task in found)),
        group=(*solution.group, *(task.group for task in found)),
    )
    return replace(
        group,
        tasks=(*(_from_registers(group, task, reads) for task in group.tasks), *found),
        scheduled=replace(scheduled, problem=problem, solution=solution),
    )


def _task(group: Group, read: _Read) -> Task:
    value = read.leaf.source
    assert value.producer is not None
    node = Node(
        f"read.{group.names[value.id]}",
        "shared_load",
        group.code.ops[value.producer].name,
        (),
        ops=(value.producer,),
    )
    return Task(node, group.id, read.time, (), (read.leaf,), (value,))


def _from_registers(group: Group, task: Task, reads: Mapping[int, _Read]) -> Task:
    """A task of the group with the tiles that are read before it in registers."""
    if task.group != group.id:
        return task
    leaves = (replace(leaf, in_registers=leaf.source.id in reads) for leaf in task.leaves)
    return replace(task, leaves=tuple(leaves))
