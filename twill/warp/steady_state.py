"""One interval of the steady state of one group: its statements in schedule order.

Takes the tasks of a loop, its channels and hand-offs; gives `Step`s. From them follow the prologue (the steps
of iterations that have begun), the steady state and the epilogue (those of iterations that have not ended),
without waits for MMAs.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from twill.ir.channels import TensorTile
from twill.ir.loop import Carried, NvidiaMma, Tensor, Value
from twill.ir.operands import ONCE, At, Iteration, OperandLocation, Read, Register, Slot, TensorMemory, Write
from twill.ir.problem import Time
from twill.ir.statements import (
    SLICES,
    Accumulate,
    BarrierArrive,
    BarrierPhase,
    BarrierWait,
    Compute,
    ConsumerRelease,
    ConsumerWait,
    InitializeCarried,
    MbarrierArrival,
    MmaIssue,
    Move,
    OrderBarrierArrive,
    OrderBarrierWait,
    ProducerLoad,
    ProducerStore,
    SlotPhase,
    StoreTile,
    StoreWait,
    TileLoad,
)
from twill.warp.alternating import Alternating
from twill.warp.channels import LOADED, ChannelPlan
from twill.warp.dataflow import DOT, MMAS, STORES, Code, invariant, zero
from twill.warp.ordering import HandOff
from twill.warp.steps import Step
from twill.warp.target import Target
from twill.warp.tasks import Leaf, Scheduled, Task, root
from twill.warp.tensor_memory import Awaited, Dependences, accesses, flagged


@dataclass(frozen=True, slots=True)
class Settings:
    """How statements are arranged; times in cycles."""

    split: bool = True
    """Issue an MMA in parts where others of its group wait meanwhile."""


@dataclass(frozen=True, slots=True, eq=False)
class Kernel:
    """What all loops and groups of a kernel share while their steps are made."""

    code: Code
    target: Target
    channels: tuple[ChannelPlan, ...]
    names: Mapping[int, str]
    """Variables, by value id."""
    buffers: Mapping[int, tuple[str, int]]
    """Staging buffer and parts, by the index of a store."""
    settings: Settings
    overlaid: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Staging buffers that lie in the slots of a channel, by its id."""
    tiles: Mapping[int, TensorTile] = field(default_factory=dict[int, TensorTile])
    """In tensor memory, by the value id of the buffer."""
    dependences: Mapping[int, Dependences] = field(default_factory=dict[int, Dependences])
    """Barriers of each loop, by its operation."""
    alternating: Alternating | None = None
    """The loop whose accumulators alternate from tile to tile."""
    scales: Mapping[int, tuple[TensorTile, ...]] = field(default_factory=dict[int, tuple[TensorTile, ...]])
    """Tiles in tensor memory to which an MMA copies its scale factors, by its operation."""

    @property
    def by_mbarrier(self) -> bool:
        """MMAs arrive on mbarriers when they are complete."""
        return self.target.completion == "mbarrier"

    def bound(self, ops: Iterable[int], iteration: Iteration) -> tuple[Read, ...]:
        """The buffers of tensor memory that some operations work on."""
        return tuple(
            Read(buffer, TensorMemory(self.tiles[buffer].id, iteration))
            for buffer in sorted(
                {a.buffer for index in ops for a in accesses(self.code, self.code.ops[index])}
            )
        )

    def stored(self, ops: Iterable[int], iteration: Iteration) -> tuple[TensorMemory, ...]:
        """Those that they write."""
        written = {a.buffer for index in ops for a in accesses(self.code, self.code.ops[index]) if a.writes}
        return tuple(TensorMemory(self.tiles[buffer].id, iteration) for buffer in sorted(written))


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """All that the steps of one group in one loop are made from."""

    kernel: Kernel
    scheduled: Scheduled
    tasks: tuple[Task, ...]
    """Of the whole loop."""
    id: int
    hand_offs: tuple[tuple[str, HandOff], ...]
    """With the ids of their ordering barriers."""
    deferred: frozenset[str] = frozenset()
    """Tasks whose reduction is deferred."""
    flat: bool = False
    """One iteration at a time: no overlap, no ordering barriers."""
    shift: Time = 0
    """Where the group's interval begins in that of the schedule."""

    @property
    def code(self) -> Code:
        return self.kernel.code

    @property
    def names(self) -> Mapping[int, str]:
        return self.kernel.names

    @property
    def own(self) -> tuple[Task, ...]:
        return tuple(task for task in self.tasks if task.group == self.id)

    @property
    def dependences(self) -> Dependences:
        return self.kernel.dependences.get(self.scheduled.loop.op.index, Dependences())

    @property
    def scale(self) -> float:
        return self.scheduled.problem.resolution.cycles_per_unit

    def when(self, time: Time) -> tuple[int, Time]:
        """Stage, and time in the group's interval."""
        return (0, time) if self.flat else divmod(time - self.shift, self.scheduled.solution.interval)

    def channel(self, leaf: Leaf) -> tuple[ChannelPlan, int] | None:
        """Where this group reads a value of another group, or one that was loaded."""
        for channel in self.kernel.channels:
            tensor = channel.holds(leaf.source)
            if tensor is not None and (channel.filled_by in LOADED or self.id in channel.consumers):
                return channel, tensor
        return None


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
    late: bool = False
    """After what else happens at its time."""


def ordered(group: Group, events: Iterable[Event]) -> list[Event]:
    """By time in the interval; of what happens at once, MMAs first, then older iterations, then the order of
    the text."""
    events = list(events)
    busy = {
        (group.when(event.time)[1], name)
        for event in events
        if event.task and event.span is None
        for name in _uses(group, event.task)
    }

    def key(event: Event) -> tuple[int, int, int, int, int, int]:
        stage, cycle = group.when(event.time)
        issued = (
            event.span is not None
            and event.task is not None
            and not any((cycle, name) in busy for name in _uses(group, event.task))
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


def _uses(group: Group, task: Task) -> set[str]:
    """The variables that a task reads or writes."""
    written = task.writes or group.code.ops[task.ops[-1]].results
    return {group.names[value.id] for value in (*written, *(leaf.source for leaf in task.leaves))}


# --- events -----------------------------------------------------------------------------------------------


def events(group: Group) -> list[Event]:
    """Everything that the group does but releases, in the order of the steady state."""
    found = [
        event
        for index, task in enumerate(group.tasks)
        if task.group == group.id
        for event in _events(group, index, task)
    ]
    return ordered(group, found)


def _events(group: Group, index: int, task: Task) -> Iterable[Event]:
    channel = filled(group, task)
    if channel is not None and channel.filled_by in LOADED:
        first = min(other.start for other in group.tasks if filled(group, other) == channel)
        if task == next(other for other in group.tasks if filled(group, other) == channel):
            yield Event(first, 0, index, task, channel=channel, computes=False)
        return
    if is_mma(group.code, task):
        yield from (Event(time, 0, index, task, span) for time, span in _spans(group, task))
    elif channel is not None and stores_at_once(group, task):
        yield Event(task.start, 0, index, task, channel=channel)
        return
    else:
        yield Event(task.start, 0, index, task)
    if channel is not None:
        yield Event(_filling_time(group, task, channel), 1, index, task, channel=channel, computes=False)


def _filling_time(group: Group, task: Task, channel: ChannelPlan) -> Time:
    """When a task's result is written to a slot: when it is there, or, for a store by another group, when the
    schedule stores it, if its registers are kept until then."""
    done = task.start + group.scheduled.problem.operation(task.id).latency
    stored = [other.start for other in group.tasks if _handed_over(group, other, channel)]
    kept = [time for time in stored if time < task.start + group.scheduled.solution.interval]
    return max([done, *kept])


def _handed_over(group: Group, task: Task, channel: ChannelPlan) -> bool:
    """Whether a task stores a tile from a slot of the channel."""
    stores = group.code.ops[task.ops[-1]].name in STORES
    return (
        stores
        and task.group != channel.producer
        and any(channel.holds(leaf.source) is not None for leaf in task.leaves)
    )


def is_mma(code: Code, task: Task) -> bool:
    return code.ops[task.ops[-1]].name in MMAS


def filled(group: Group, task: Task) -> ChannelPlan | None:
    """The channel in which a task's result goes to other groups."""
    made = {value.id for index in task.node.ops for value in group.code.ops[index].results}
    for channel in group.kernel.channels:
        if (
            not channel.once
            and channel.producer == task.group
            and any(value.id in made for use in channel.sources for value in use)
        ):
            return channel
    return None


def stores_at_once(group: Group, task: Task) -> bool:
    """Only the channel's readers use its result: it need not be kept in registers."""
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
    handed = (task for task in group.tasks if any(_handed_over(group, task, one) for one in filling))
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


# --- steps ------------------------------------------------------------------------------------------------


def steps(group: Group, sequence: Sequence[Event]) -> tuple[tuple[Step, ...], ...]:
    """The statements of each of a sequence of events, waits for MMAs excepted."""
    parts = sorted(enumerate(sequence), key=lambda part: part[1].time, reverse=True)
    firsts = {event.task.id: i for i, event in parts if event.task and event.computes}
    writers = {value.id: task for task in group.own for value in task.writes}
    interval = _Interval(group, sequence, firsts, writers)
    return tuple(tuple(_steps(interval, i)) for i in range(len(sequence)))


@dataclass(frozen=True, slots=True, eq=False)
class _Interval:
    """The events of one interval of a group."""

    group: Group
    sequence: Sequence[Event]
    firsts: Mapping[str, int]
    """By task: the position of the first event, in time, that computes it."""
    writers: Mapping[int, Task]
    """By value id: the group's task that assigns it."""


def _steps(interval: _Interval, i: int) -> Iterable[Step]:
    group, event = interval.group, interval.sequence[i]
    stage, time = group.when(event.time)
    cycle = time if group.flat else event.time % group.scheduled.solution.interval
    at = At(Iteration("newest", stage), round(cycle * group.scale), stage)
    for step in _statements(interval, i, at):
        if event.task is None:
            yield replace(step, time=time, done=time, through=time)
            continue
        operation, issued = (
            group.scheduled.problem.operation(event.task.id),
            time + event.task.start - event.time,
        )
        taken = max((r.offset + r.cycles for r in operation.reservations), default=0)
        yield replace(step, time=time, done=issued + operation.latency, through=issued + taken)


def _statements(interval: _Interval, i: int, at: At) -> Iterable[Step]:
    group, event, stage = interval.group, interval.sequence[i], at.stage
    if event.task is None:
        assert event.channel is not None
        yield from (
            Step(StoreWait(group.kernel.buffers[other.ops[-1]][0], at), stage)
            for other in group.own
            if _handed_over(group, other, event.channel)
        )
        yield Step(ConsumerRelease(event.channel.id, at), stage)
        return
    yield from _before(group, event, at)
    yield from _consumer_waits(interval, i, at)
    yield from _moves(interval, i, at)
    if event.channel is not None and event.channel.filled_by in LOADED:
        yield _load(interval, i, event.channel, at)
        return
    locations = {leaf.value.id: _location(interval, i, leaf, stage) for leaf in event.task.leaves}
    copied = _copied(group, event.task)
    if copied is not None and event.span is not None:
        source, _ = locations.pop(copied.id, (None, None))
        if not event.span[0]:
            accumulator = Register(group.names[group.code.ops[event.task.ops[-1]].result.id])
            yield Step(InitializeCarried(copied.id, source, accumulator, at), at.stage)
    yield from _awaited(group, event, at)
    yield _step(group, event, at, locations)
    yield from _arrived(group, event, at)
    yield from _after(group, event, at)


def _consumer_waits(interval: _Interval, i: int, at: At) -> Iterable[Step]:
    """Waits for the slots of which an event is the first reader in time."""
    group, sequence = interval.group, interval.sequence
    for channel in sorted(_acquired(group, sequence[i])):
        readers = [k for k, event in enumerate(sequence) if channel in _acquired(group, event)]
        if i == min(readers, key=lambda k: (sequence[k].time, k)):
            yield Step(ConsumerWait(channel, at), at.stage)


def _acquired(group: Group, event: Event) -> set[str]:
    """The channels of which an event reads a slot, except for tiles from outside of the loop."""
    if not event.computes or event.task is None:
        return set()
    return {
        location[0].id
        for leaf in event.task.leaves
        if leaf.distance is not None and (location := group.channel(leaf))
    }


def _location(
    interval: _Interval, position: int, leaf: Leaf, stage: int
) -> tuple[OperandLocation, tuple[int, int | None]]:
    """Where an event of `stage` at `position` reads a leaf, and where it comes from."""
    group = interval.group
    channel = group.channel(leaf)
    if leaf.distance is None:
        location = Slot(channel[0].id, channel[1], ONCE) if channel else Register(group.names[leaf.source.id])
        return location, (leaf.source.id, None)
    back = stage + leaf.distance
    if channel is not None:
        return Slot(channel[0].id, channel[1], Iteration("newest", back)), (leaf.source.id, back)
    writer = interval.writers[leaf.source.id]
    defined = interval.firsts[writer.id]
    made, _ = group.when(interval.sequence[defined].time)
    age = back - made - (0 if defined < position else 1)
    if age < 0:
        raise group.code.refuse(
            f"{leaf.value.name} would be read before it is computed", group.code.ops[writer.ops[-1]]
        )
    return Register(group.names[leaf.source.id], age), (leaf.source.id, back)


def _moves(interval: _Interval, position: int, at: At) -> Iterable[Step]:
    """Moves of older instances, just before the event assigns a variable that has some."""
    event = interval.sequence[position]
    assert event.task is not None
    if not event.computes or interval.firsts[event.task.id] != position:
        return
    for value in event.task.writes:
        name = interval.group.names[value.id]
        yield from (Step(Move(name, age, at), at.stage) for age in range(_oldest(interval, value), 0, -1))


def _oldest(interval: _Interval, value: Value) -> int:
    """The age of the oldest instance of a value that an event reads from a register."""
    ages, group = [0], interval.group
    for i, other in enumerate(interval.sequence):
        for leaf in _read(group, other):
            if leaf.source.id == value.id and group.channel(leaf) is None:
                location, _ = _location(interval, i, leaf, group.when(other.time)[0])
                ages += [location.age] if isinstance(location, Register) else []
    return max(ages)


def _read(group: Group, event: Event) -> tuple[Leaf, ...]:
    """What an event reads."""
    if event.channel is not None and event.channel.filled_by in LOADED and event.task is not None:
        return tuple(leaf for _, task, _ in _loads(group, event.channel) for leaf in task.leaves)
    return event.task.leaves if event.task is not None and event.computes else ()


def _step(
    group: Group,
    event: Event,
    at: At,
    locations: Mapping[int, tuple[OperandLocation, tuple[int, int | None]]],
) -> Step:
    assert event.task is not None
    task, reads = event.task, tuple(Read(value, location) for value, (location, _) in locations.items())
    sources = tuple(source for _, source in locations.values())
    last = group.code.ops[task.ops[-1]]
    if event.channel is not None:
        return _filling(group, event.channel, task, event.computes, at, reads, sources)
    if event.span is not None and group.kernel.by_mbarrier:
        return _into_tensor_memory(group, event.span, task, at, reads, sources)
    if event.span is not None:
        accumulator = Register(group.names[last.result.id])
        return Step(
            MmaIssue(task.id, task.ops, reads, accumulator, _accumulate(group, task), *event.span, at),
            at.stage,
            sources=sources,
        )
    if last.name in STORES:
        buffer, parts = group.kernel.buffers[last.index]
        staged = not any(isinstance(read.location, Slot) for read in reads)
        return Step(StoreTile(task.ops, reads, buffer, parts, at, staged=staged), at.stage, sources=sources)
    writes = tuple(Write(value.id, Register(group.names[value.id])) for value in task.writes)
    bound, stored = group.kernel.bound(task.ops, at.iteration), group.kernel.stored(task.ops, at.iteration)
    return Step(
        Compute(
            task.id,
            task.ops,
            (*reads, *bound),
            writes,
            at,
            *event.slices,
            task.id in group.deferred,
            stored,
        ),
        at.stage,
        sources=(*sources, *[(read.value, None) for read in bound]),
    )


def _filling(
    group: Group,
    channel: ChannelPlan,
    task: Task,
    computes: bool,
    at: At,
    reads: tuple[Read, ...],
    sources: tuple[tuple[int, int | None], ...],
) -> Step:
    """What fills a slot by threads: the task itself where it `computes`, else a copy of its result."""
    value = next(value for use in channel.sources for value in use if value in task.writes)
    if computes:
        bound = group.kernel.bound(task.ops, at.iteration)
        return Step(
            ProducerStore(task.id, channel.id, task.ops, (*reads, *bound), (value.id,), at),
            at.stage,
            sources=(*sources, *[(read.value, None) for read in bound]),
        )
    read = Read(value.id, Register(group.names[value.id]))
    return Step(
        ProducerStore(task.id, channel.id, (), (read,), (value.id,), at),
        at.stage,
        sources=((value.id, at.stage),),
    )


def _into_tensor_memory(
    group: Group,
    span: tuple[int, int],
    task: Task,
    at: At,
    reads: tuple[Read, ...],
    sources: tuple[tuple[int, int | None], ...],
) -> Step:
    """An MMA whose completion arrives on mbarriers."""
    bound = group.kernel.bound(task.ops, at.iteration)
    (accumulator,) = group.kernel.stored(task.ops, at.iteration)
    slots = tuple(
        SlotPhase(channel, Iteration("newest", at.stage), "empty") for channel in _released_by(group, task)
    )
    arrivals = tuple(BarrierPhase(name, at.iteration) for name in group.dependences.arrivals.get(task.id, ()))
    return Step(
        MmaIssue(
            task.id,
            task.ops,
            (*reads, *bound),
            accumulator,
            flagged(group.code, group.scheduled.loop, root(group.code, task.node)),
            *span,
            at,
            MbarrierArrival(slots, arrivals),
            tuple(TensorMemory(tile.id) for tile in group.kernel.scales.get(task.ops[-1], ())),
        ),
        at.stage,
        sources=(*sources, *[(read.value, None) for read in bound]),
    )


def _released_by(group: Group, task: Task) -> list[str]:
    """The channels of which an MMA is the last of its group to read a slot."""
    last = dict[str, Task]()
    for other in sorted(group.own, key=lambda other: other.start):
        for leaf in other.leaves if is_mma(group.code, other) else ():
            if leaf.distance is not None and (found := group.channel(leaf)):
                last[found[0].id] = other
    return sorted(channel for channel, other in last.items() if other is task)


def _loads(group: Group, channel: ChannelPlan) -> Iterable[tuple[int, Task, int]]:
    """The loads that fill a channel: tensor, task, and bytes of each copy (0 for TMA)."""
    for task in group.tasks:
        for op in (group.code.ops[index] for index in task.ops):
            tensor = channel.holds(op.result) if group.code.loads(op) else None
            if tensor is not None:
                yield tensor, task, group.code.copies.get(op.index, 0)


def _load(interval: _Interval, position: int, channel: ChannelPlan, at: At) -> Step:
    loads, sources = list[TileLoad](), list[tuple[int, int | None]]()
    for tensor, task, vector in _loads(interval.group, channel):
        found = [(leaf.value.id, _location(interval, position, leaf, at.stage)) for leaf in task.leaves]
        reads = tuple(Read(value, location) for value, (location, _) in found)
        loads.append(TileLoad(tensor, task.ops, reads, vector))
        sources += [source for _, (_, source) in found]
    total = sum(tensor.bytes for tensor in channel.tensors)
    return Step(ProducerLoad(channel.id, tuple(loads), total, at), at.stage, sources=tuple(sources))


def _accumulate(group: Group, task: Task) -> Accumulate:
    if zero(group.code, root(group.code, task.node).operands[2]):
        return "never"
    return "always" if overwritten(group, task) is None else "not_first"


def overwritten(group: Group, task: Task) -> Carried | None:
    """The carried accumulator that needs no initial zeros: the first MMA overwrites it, and nothing else in
    the loop reads what the iteration before left there. None where there is none."""
    dot = root(group.code, task.node)
    for carried in group.scheduled.loop.carried:
        accumulator = dot.name == DOT and carried.arg.id == dot.operands[2].id
        if accumulator and zero(group.code, carried.init) and group.code.users[carried.arg.id] == (dot,):
            return carried
    return None


def _copied(group: Group, task: Task) -> Value | None:
    """What an MMA adds to, where that is the same in every iteration."""
    dot = root(group.code, task.node)
    if dot.name != DOT:
        return None
    value = dot.operands[2]
    return (
        value if not zero(group.code, value) and invariant(group.code, group.scheduled.loop, value) else None
    )


def _awaited(group: Group, event: Event, at: At) -> Iterable[Step]:
    """Waits for the accesses to tensor memory that come before those of an event, and for stores from the
    slot that it fills."""
    if event.channel is not None and event.task is not None and event.channel.filled_by == "threads":
        staged = group.kernel.overlaid.get(event.channel.id, ())
        yield from (Step(StoreWait(buffer, at), at.stage) for buffer in staged)
    if event.task is None or not event.computes or event.slices[0]:
        return
    for wait in sorted(group.dependences.waits.get(event.task.id, ()), key=_name):
        awaited = Iteration("newest", at.stage + wait.distance)
        yield Step(BarrierWait(wait.barrier, awaited, at, wait.issuer), at.stage)


def _name(wait: Awaited) -> str:
    return wait.barrier


def _arrived(group: Group, event: Event, at: At) -> Iterable[Step]:
    """Arrivals of the threads that have read or written tensor memory."""
    if event.task is None or not event.computes or event.slices[1] < SLICES or event.span is not None:
        return
    for barrier in group.dependences.arrivals.get(event.task.id, ()):
        yield Step(BarrierArrive(barrier, at), at.stage)


def _before(group: Group, event: Event, at: At) -> Iterable[Step]:
    """Waits for the ordering barriers in front of an MMA."""
    if event.span is None or event.span[0] or group.flat or event.task is None:
        return
    for order, hand_off in group.hand_offs:
        if hand_off.before == event.task.id:
            yield Step(OrderBarrierWait(order, at), at.stage, always=True)


def _after(group: Group, event: Event, at: At) -> Iterable[Step]:
    if (
        event.span is None
        or group.flat
        or event.task is None
        or event.span[1] != depth_of(group, event.task)[0]
    ):
        return
    for order, hand_off in group.hand_offs:
        if hand_off.after == event.task.id:
            yield Step(OrderBarrierArrive(order, at), at.stage, always=True)


# --- parts ------------------------------------------------------------------------------------------------


def prologue(sequence: Sequence[Step], stages: int) -> tuple[Step, ...]:
    """Intervals 0 to stages - 2: the steps of iterations that have begun."""
    made = (
        _rebased(step, "first", t)
        for t in range(stages - 1)
        for step in sequence
        if step.always or step.stage <= t
    )
    return tuple(step for step in made if not _pointless(step))


def epilogue(sequence: Sequence[Step], stages: int) -> tuple[Step, ...]:
    """The intervals after the last iteration has begun: the steps of iterations that have not ended. Releases
    may come later than all."""
    last = max([stages - 1, *(step.stage for step in sequence)])
    made = (
        _rebased(step, "last", t)
        for t in range(last)
        for step in sequence
        if (t < stages - 1 if step.always else step.stage > t)
    )
    return tuple(step for step in made if not _pointless(step))


def _pointless(step: Step) -> bool:
    """A wait for the arrival of an iteration before the first."""
    return isinstance(step.statement, BarrierWait) and step.statement.awaited.offset < 0


def _rebased(step: Step, base: str, t: int) -> Step:
    """The step as it is in interval `t` of the prologue or epilogue."""

    def iteration(it: Iteration) -> Iteration:
        if it.base != "newest":
            return it
        return Iteration("first", t - it.offset) if base == "first" else Iteration("last", it.offset - 1 - t)

    def location(p: OperandLocation, back: int | None) -> OperandLocation:
        match p:
            case Slot(channel, tensor, it):
                return Slot(channel, tensor, iteration(it))
            case TensorMemory(tile, it):
                return TensorMemory(tile, iteration(it))
            case Register(variable, age) if base == "last" and back is not None:
                return Register(variable, min(age, back - 1 - t))
            case _:
                return p

    def stored(tile: TensorMemory) -> TensorMemory:
        return replace(tile, iteration=iteration(tile.iteration))

    statement = step.statement
    at = replace(statement.at, iteration=iteration(statement.at.iteration))  # pyright: ignore
    if isinstance(statement, Compute | MmaIssue | ProducerStore | StoreTile | ProducerLoad):
        reads = tuple(
            Read(r.value, location(r.location, b))
            for r, (_, b) in zip(statement.reads, step.sources, strict=True)
        )
        if isinstance(statement, ProducerLoad):
            return replace(step, statement=replace(_reading(statement, reads), at=at))
        made = replace(statement, at=at, reads=reads)
        if isinstance(made, MmaIssue):
            made = _rebased_issue(made, iteration)
        if isinstance(made, Compute):
            made = replace(made, stores=tuple(map(stored, made.stores)))
        return replace(step, statement=made)
    if isinstance(statement, BarrierWait):
        awaited = iteration(statement.awaited)
        awaited = replace(awaited, offset=max(awaited.offset, 0)) if base == "last" else awaited
        statement = replace(statement, awaited=awaited)
    return replace(step, statement=replace(statement, at=at))  # pyright: ignore


def _rebased_issue(issue: MmaIssue, iteration: Callable[[Iteration], Iteration]) -> MmaIssue:
    """An MMA with what it writes, and arrives on, in another part of a loop."""
    if isinstance(issue.accumulator, TensorMemory):
        issue = replace(
            issue, accumulator=replace(issue.accumulator, iteration=iteration(issue.accumulator.iteration))
        )
    if isinstance(issue.completion, MbarrierArrival):
        slots = (replace(one, iteration=iteration(one.iteration)) for one in issue.completion.slots)
        phases = (replace(one, iteration=iteration(one.iteration)) for one in issue.completion.barriers)
        issue = replace(issue, completion=MbarrierArrival(tuple(slots), tuple(phases)))
    return issue


def _reading(statement: ProducerLoad, reads: tuple[Read, ...]) -> ProducerLoad:
    """The loads with other reads, in the same order."""
    loads, rest = list[TileLoad](), iter(reads)
    for load in statement.loads:
        loads.append(replace(load, reads=tuple(next(rest) for _ in load.reads)))
    return replace(statement, loads=tuple(loads))
