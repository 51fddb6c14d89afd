"""What a group does in an interval of the steady state, and when.

Takes the tasks of a loop and its channels; gives `Event`s in the order of the schedule: operations, parts of
MMAs, fills and releases of slots.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from twill.ir.loop import NvidiaMma, Tensor, Value
from twill.ir.problem import Time
from twill.ir.statements import SLICES
from twill.warp.channels import LOADED, ChannelPlan
from twill.warp.dataflow import MMAS, STORES, Code, captured
from twill.warp.kernel import Group
from twill.warp.tasks import Task, root


@dataclass(frozen=True, slots=True)
class Event:
    """What stands at one point of the schedule; `rank` orders what happens at the same time."""

    time: Time
    rank: int
    index: int
    task: Task | None = None
    span: tuple[int, int] | None = None
    """Of K, for a part of an MMA."""
    channel: ChannelPlan | None = None
    """Of which a slot is released (no task) or filled (task)."""
    computes: bool = True
    """False for a channel's fill with what is computed already, or loaded by TMA."""
    slices: tuple[int, int] = (0, SLICES)
    """Of a tile, for a part of an operation on it."""
    by_rows: bool = False
    """As in `Compute`."""
    late: bool = False
    """After what else happens at its time."""
    due: Time | None = None
    """When its result is needed, if it stands in the order of such times."""
    acquires: bool = False
    """The group waits for a slot of the channel, which a later event reads."""


def ordered(group: Group, events: Iterable[Event]) -> list[Event]:
    """By time in the interval; of what happens at once, MMAs first, then older iterations, then the order of
    the text. An MMA that waits for a slot which an older iteration releases at its time comes after that."""
    events = list(events)
    freed = {
        event.channel.id: group.when(event.time)
        for event in events
        if event.channel is not None and event.task is None and not event.acquires
    }
    busy = {
        (group.when(event.time)[1], name)
        for event in events
        if event.task and event.span is None
        for name in _uses(group, event.task)
    }

    def key(event: Event) -> tuple[int, int, int, int, int, int]:
        stage, cycle = group.when(event.time if event.due is None else event.due)
        issued = (
            event.span is not None
            and event.task is not None
            and not any((cycle, name) in busy for name in _uses(group, event.task))
            and not _awaits(group, event.task, (stage, cycle), freed)
        )
        return (
            cycle,
            2 * event.late - issued,
            -stage,
            event.rank,
            event.index,
            event.span[0] if event.span else event.slices[0],
        )

    return sorted(events, key=key)


def _awaits(group: Group, task: Task, at: tuple[int, Time], freed: Mapping[str, tuple[int, Time]]) -> bool:
    """Whether a task reads a slot that is filled again only after its group has released it at the same
    time."""
    read = [found[0] for leaf in task.leaves if leaf.distance is not None and (found := group.channel(leaf))]
    times = [(freed[channel.id], channel.depth) for channel in read if channel.id in freed]
    return any(cycle == at[1] and stage - at[0] >= depth for (stage, cycle), depth in times)


def _uses(group: Group, task: Task) -> set[str]:
    """The variables that a task reads or writes."""
    written = task.writes or group.code.ops[task.ops[-1]].results
    return {group.names[value.id] for value in (*written, *(leaf.source for leaf in task.leaves))}


def events(group: Group) -> list[Event]:
    """Everything that the group does but releases, in the order of the steady state."""
    found = [
        event
        for index, task in enumerate(group.tasks)
        if task.group == group.id
        for event in _events(group, index, task)
    ]
    found += _acquiring(group)
    return ordered(group, found)


def _acquiring(group: Group) -> Iterable[Event]:
    channels = (channel for channel in group.kernel.channels if channel.id in group.acquired)
    for index, channel in enumerate(channels):
        yield Event(group.acquired[channel.id], -1, index, channel=channel, acquires=True)


def _events(group: Group, index: int, task: Task) -> Iterable[Event]:
    channels = filled(group, task)
    if task.ahead:
        return
    if channels and fills_for_itself(group, channels[0]):
        moving = _moving(group, task)
        if moving is not None and _read_in_time(group).intersection(value.id for value in moving.writes):
            yield Event(task.start, 1, index, moving)
        return
    if channels and channels[0].filled_by in LOADED:
        together = [other for other in group.tasks if channels[0] in filled(group, other)]
        if task == together[0]:
            first, index = _filled_together(group, together)
            due = _due(group, together, first) if _loads_by_tma(group) else None
            yield Event(first, 0, index, task, channel=channels[0], computes=False, due=due)
            for other in together:
                if (moving := _moving(group, other)) is not None:
                    yield Event(first, 1, index, moving)
        return
    if is_mma(group.code, task):
        yield from (Event(time, 0, index, task, span) for time, span in _spans(group, task))
    elif len(channels) == 1 and stores_at_once(group, task):
        yield Event(task.start, 0, index, task, channel=channels[0])
        return
    else:
        yield Event(task.start, 0, index, task)
    for channel in channels:
        yield Event(_filling_time(group, task, channel), 1, index, task, channel=channel, computes=False)


def _filled_together(group: Group, loads: Sequence[Task]) -> tuple[Time, int]:
    """When loads into one slot are issued, and as which task of the text: with the first of them, but behind
    what their addresses follow from in the same iteration, such as an index that the group loads."""
    read = {leaf.source.id for load in loads for leaf in load.leaves if leaf.distance == 0}
    made = [
        (task.start, place)
        for place, task in enumerate(group.tasks)
        if task.group == group.id and any(value.id in read for value in task.writes)
    ]
    first = max([min(load.start for load in loads), *(start for start, _ in made)])
    behind = max((place for start, place in made if start == first), default=-1)
    return first, min(place for place, task in enumerate(group.tasks) if task in loads and place > behind)


def _loads_by_tma(group: Group) -> bool:
    """Whether the group does nothing else: between MMAs, the order of the schedule is what is known not to
    wait in a circle."""
    own = [task for task in group.tasks if task.group == group.id]
    by_tma = all(channel.filled_by == "tma" for task in own for channel in filled(group, task))
    return by_tma and not any(is_mma(group.code, task) for task in own)


def _due(group: Group, tasks: Sequence[Task], start: Time) -> Time | None:
    """When the first reader of what is loaded at `start` begins, in the interval of the schedule; None where
    the group reads it itself. In this order a warp loads by TMA: a schedule has each load run ahead by
    itself, but a warp that waits for a slot issues nothing else, so that a tile that is due late and whose
    slot is free late would hold up all that is due before it."""
    scheduled, interval = group.scheduled, group.scheduled.solution.interval
    ids = {task.id for task in tasks}
    reading = [edge for edge in scheduled.problem.edges if edge.src in ids and edge.kind != "war"]
    if not reading or any(scheduled.group(edge.dst) == group.id for edge in reading):
        return None
    last = start - group.when(start)[1] + interval - 1
    first = min(scheduled.start(edge.dst) + edge.distance * interval for edge in reading)
    return max(start, min(first, last))


def _read_in_time(group: Group) -> set[int]:
    """What is read in the iteration in which it is due: all that loads of later iterations do not read alone
    (`warp.run_ahead`), and what the loop results in."""
    others = (
        task for task in group.tasks if not any(fills_for_itself(group, c) for c in filled(group, task))
    )
    results = {one.yielded.id for one in group.scheduled.loop.carried if group.code.users.get(one.result.id)}
    return {leaf.source.id for task in others for leaf in task.leaves} | results


def _moving(group: Group, task: Task) -> Task | None:
    """What a load leaves to the next iteration besides its tile: offsets that it moves; None for nothing."""
    kept = {carry.yielded.id for carry in group.scheduled.loop.carried}
    writes = tuple(value for value in task.writes if value.id in kept)
    if not writes:
        return None
    return replace(cut(group.code, task, writes), writes=writes)


def cut(code: Code, task: Task, wanted: Iterable[Value]) -> Task:
    """What of a task some of the values that it makes follow from."""
    needed, ops = {value.id for value in wanted}, list[int]()
    for op in (code.ops[index] for index in reversed(task.ops)):
        if any(value.id in needed for value in op.results):
            ops.append(op.index)
            needed |= {value.id for value in captured(op)}
    leaves = tuple(leaf for leaf in task.leaves if leaf.value.id in needed)
    return replace(task, ops=tuple(reversed(ops)), leaves=leaves)


def loads(group: Group, channel: ChannelPlan) -> Iterable[tuple[int, Task, int]]:
    """The loads that fill a channel: tensor, task, and the operation that loads."""
    for task in group.tasks:
        for op in (group.code.ops[index] for index in task.ops):
            tensor = channel.holds(op.result) if group.code.loads(op) else None
            if tensor is not None:
                yield tensor, cut(group.code, task, op.results) if task.writes else task, op.index


def fills_for_itself(group: Group, channel: ChannelPlan) -> bool:
    """Whether loads to a channel follow its releases by the same group (`warp.multistage`). A group that does
    more than that loads where its schedule says: other groups wait for what it does in between."""
    return group.kernel.multistage and channel.filled_by in LOADED and not channel.once


def _filling_time(group: Group, task: Task, channel: ChannelPlan) -> Time:
    """When a task's result is written to a slot: when it is there, or, for a store by another group, when the
    schedule stores it, if its registers are kept until then. The next instance takes these registers."""
    done = task.start + group.scheduled.problem.operation(task.id).latency
    stored = [other.start for other in group.tasks if stores_from(group, other, channel)]
    again = task.start + group.scheduled.solution.interval
    return min(max([done, *(time for time in stored if time < again)]), again)


def stores_from(group: Group, task: Task, channel: ChannelPlan) -> bool:
    """Whether a task stores a tile from a slot of the channel."""
    stores = bool(task.ops) and group.code.ops[task.ops[-1]].name in STORES
    return (
        stores
        and task.group != channel.producer
        and any(channel.holds(leaf.source) is not None for leaf in task.leaves)
    )


def is_mma(code: Code, task: Task) -> bool:
    return bool(task.ops) and code.ops[task.ops[-1]].name in MMAS


def filled(group: Group, task: Task) -> tuple[ChannelPlan, ...]:
    """The channels in which a task's results go to other groups: of an operation with several results (a
    branch, a reduction of pairs) each has its own."""
    made = (value.id for index in task.node.ops for value in group.code.ops[index].results)
    holding = {channel for value in made for channel in group.kernel.holding.get(value, ())}
    return tuple(
        channel
        for channel in group.kernel.channels
        if channel in holding and not channel.once and channel.producer == task.group
    )


def stores_at_once(group: Group, task: Task) -> bool:
    """Only the readers of its channel use its result: it need not be kept in registers."""
    values = {value.id for value in task.writes}
    kept = {carry.yielded.id for carry in group.scheduled.loop.carried}
    readers = [leaf for other in group.own for leaf in other.leaves if leaf.source.id in values]
    return (
        not is_mma(group.code, task)
        and not values & kept
        and all(group.channel(leaf) is not None for leaf in readers)
    )


def depth_of(group: Group, task: Task) -> tuple[int, int]:
    """K of an MMA, and of one instruction of it."""
    (_, _, k) = task.node.work[-1].mnk or (0, 0, 16)
    result = root(group.code, task.node).result.type
    step = (
        result.encoding.instr_shape[2]
        if isinstance(result, Tensor) and isinstance(result.encoding, NvidiaMma)
        else 16
    )
    return k, step


def _spans(group: Group, task: Task) -> list[tuple[Time, tuple[int, int]]]:
    """The parts of an MMA with their times: cut where another operation of the group waits for an earlier MMA
    meanwhile."""
    k, step = depth_of(group, task)
    if group.kernel.by_mbarrier:
        return [(task.start, (0, k))]
    problem = group.scheduled.problem
    operation, unit = problem.operation(task.id), problem.unit(problem.operation(task.id))
    taken = max((r.cycles for r in operation.reservations if r.unit == unit), default=0)
    steps, ahead = k // step, taken - operation.issue
    cuts = [(task.start, 0)]
    for offset in (
        _waiting(group, task, taken)
        if group.kernel.settings.split and not group.flat and steps > 1 and taken
        else ()
    ):
        issued = -int(-(offset + ahead) * steps // taken)
        if cuts[-1][1] < issued < steps:
            cuts.append((task.start + max(offset, issued * taken // steps - ahead), issued))
    ends = [*(cut for _, cut in cuts[1:]), steps]
    return [(time, (cut * step, end * step)) for (time, cut), end in zip(cuts, ends, strict=True)]


def _waiting(group: Group, task: Task, taken: Time) -> list[Time]:
    """How long after an MMA starts others of the group start that are the first to wait for another MMA,
    while it is under way."""
    interval = group.scheduled.solution.interval
    offsets = {
        (other.start - task.start) % interval for mma, other in first_readers(group).items() if mma != task.id
    }
    return sorted(offset for offset in offsets if 0 < offset < taken)


def first_readers(group: Group) -> Mapping[str, Task]:
    """The operation of a group that is the first to wait for each of its MMAs, by MMA; a store that another
    group executes waits when the group fills its slot."""
    interval, found = group.scheduled.solution.interval, dict[str, Task]()
    filling = [channel for channel in group.kernel.channels if channel.producer == group.id]
    handed = (task for task in group.tasks if any(stores_from(group, task, one) for one in filling))
    tasks = {task.id: task for task in (*group.own, *handed) if not is_mma(group.code, task)}
    for mma in (task for task in group.own if is_mma(group.code, task)):
        edges = [
            edge
            for edge in group.scheduled.problem.edges
            if edge.src == mma.id and edge.blocking and edge.dst in tasks
        ]
        for edge in sorted(edges, key=lambda edge: tasks[edge.dst].start + edge.distance * interval)[:1]:
            found[mma.id] = tasks[edge.dst]
    return found


def releases(group: Group) -> list[Event]:
    """When the group needs a slot of each channel of the loop no more."""
    holds = {(use.op, value.src): use.hold for value in group.scheduled.problem.values for use in value.uses}
    sources = {
        value.id: task
        for task in group.tasks
        for index in task.node.ops
        for value in group.code.ops[index].results
    }
    found: dict[str, Event] = {}
    for index, task in enumerate(group.tasks):
        if group.kernel.by_mbarrier and is_mma(group.code, task):
            continue
        for leaf in task.leaves if task.group == group.id else ():
            location = group.channel(leaf)
            if location is None or leaf.distance is None:
                continue
            end = task.start + max(
                holds.get((task.id, sources[leaf.source.id].id), 0),
                group.scheduled.problem.operation(task.id).issue,
            )
            if location[0].id not in found or found[location[0].id].time < end:
                found[location[0].id] = Event(end, 2, index, channel=location[0])
    return [found[channel] for channel in sorted(found)]
