"""One interval of the steady state of one group: its statements in schedule order.

Takes the events of a group in order, its channels and hand-offs; gives `Step`s without waits for MMAs.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from twill.ir.loop import Carried, Value
from twill.ir.operands import ONCE, At, Iteration, OperandLocation, Read, Register, Slot, TensorMemory, Write
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
    LocalLoad,
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
from twill.warp.accumulator_flags import flagged
from twill.warp.channels import LOADED, ChannelPlan
from twill.warp.dataflow import DOT, STORES, invariant, zero
from twill.warp.events import Event, depth_of, is_mma, loads, stores_from
from twill.warp.kernel import Group
from twill.warp.steps import Step
from twill.warp.tasks import Leaf, Task, root
from twill.warp.tensor_dependences import Awaited

Sources: TypeAlias = tuple[tuple[int, int | None], ...]
"""Of each operand that a step reads: what `Step.sources` says."""


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
        if event.acquires:
            yield from _consumer_waits(interval, i, at)
            return
        yield from (
            Step(StoreWait(group.kernel.buffers[other.ops[-1]][0], at), stage)
            for other in group.own
            if stores_from(group, other, event.channel)
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
            relay = group.dependences.relays.get((group.id, channel))
            if relay is not None:
                yield Step(BarrierArrive(relay, at), at.stage)
                yield Step(BarrierWait(relay, at.iteration, at, issuer=True), at.stage)


def _acquired(group: Group, event: Event) -> set[str]:
    """The channels of which an event reads, or awaits, a slot, except for tiles from outside of the loop."""
    if event.acquires and event.channel is not None:
        return {event.channel.id}
    return {
        location[0].id
        for leaf in _read(group, event)
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
    if back - made < (0 if defined < position else 1):
        raise group.code.defect(
            f"{leaf.value.name} would be read before it is computed", group.code.ops[writer.ops[-1]]
        )
    assigned = _assigned(interval, leaf.source)
    begun, _ = group.when(interval.sequence[assigned].time)
    age = back - begun - (0 if assigned < position else 1)
    return Register(group.names[leaf.source.id], age), (leaf.source.id, back)


def _moves(interval: _Interval, position: int, at: At) -> Iterable[Step]:
    """Moves of older instances, just before the event assigns a variable that has some."""
    event = interval.sequence[position]
    assert event.task is not None
    if not event.computes or interval.firsts[event.task.id] != position:
        return
    for value in event.task.writes:
        name = interval.group.names[value.id]
        if _assigned(interval, value) == position:
            yield from (Step(Move(name, age, at), at.stage) for age in range(_oldest(interval, name), 0, -1))


def _assigned(interval: _Interval, value: Value) -> int:
    """The position of the event of an iteration that is the first to overwrite an older instance of a value:
    MMAs that add to one accumulator one after the other have one variable, also where they are in several
    stages."""
    names = interval.group.names
    writers = (
        interval.firsts[writer.id]
        for other, writer in interval.writers.items()
        if names[other] == names[value.id]
    )
    return min(writers, key=lambda position: (interval.sequence[position].time, position))


def _oldest(interval: _Interval, name: str) -> int:
    """The age of the oldest instance of a variable that an event reads."""
    ages, group = [0], interval.group
    for i, other in enumerate(interval.sequence):
        for leaf in _read(group, other):
            if (
                leaf.distance is not None
                and group.names[leaf.source.id] == name
                and group.channel(leaf) is None
            ):
                location, _ = _location(interval, i, leaf, group.when(other.time)[0])
                ages += [location.age] if isinstance(location, Register) else []
    return max(ages)


def _read(group: Group, event: Event) -> tuple[Leaf, ...]:
    """What an event reads."""
    if event.channel is not None and event.channel.filled_by in LOADED and event.task is not None:
        return tuple(leaf for _, task, _ in loads(group, event.channel) for leaf in task.leaves)
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
    if not task.ops:
        return _local_load(group, task, at, locations)
    last = group.code.ops[task.ops[-1]]
    if event.channel is not None:
        return _filling(group, event.channel, task, event.computes, at, reads, sources)
    if event.span is not None and group.kernel.by_mbarrier:
        return _into_tensor_memory(group, event.span, task, at, reads, sources)
    if event.span is not None:
        accumulator = Register(group.names[last.result.id])
        if not event.span[0] and any(_older(read.location, accumulator) for read in reads):
            raise group.code.defect(
                f"{accumulator.variable} is overwritten before {last.name} adds to it", last
            )
        issue = MmaIssue(task.id, task.ops, reads, accumulator, _accumulate(group, task), *event.span, at)
        return Step(issue, at.stage, sources=sources)
    if last.name in STORES:
        buffer, parts = group.kernel.buffers[last.index]
        staged = not any(isinstance(read.location, Slot) for read in reads)
        return Step(StoreTile(task.ops, reads, buffer, parts, at, staged=staged), at.stage, sources=sources)
    return _computing(group, event, task, at, reads, sources)


def _older(location: OperandLocation, accumulator: Register) -> bool:
    """Whether an MMA would add to an instance that is not in its variable any more."""
    return isinstance(location, Register) and location.variable == accumulator.variable and location.age > 0


def _local_load(
    group: Group,
    task: Task,
    at: At,
    locations: Mapping[int, tuple[OperandLocation, tuple[int, int | None]]],
) -> Step:
    """The read of a tile from its slot."""
    (leaf,) = task.leaves
    source, where = locations[leaf.value.id]
    assert isinstance(source, Slot)
    register = Register(group.names[leaf.source.id])
    return Step(LocalLoad(leaf.value.id, source, register, at), at.stage, sources=(where,))


def _computing(
    group: Group, event: Event, task: Task, at: At, reads: tuple[Read, ...], sources: Sources
) -> Step:
    """The step of operations that threads execute."""
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
            event.by_rows,
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
    sources: Sources,
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
    sources: Sources,
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


def _load(interval: _Interval, position: int, channel: ChannelPlan, at: At) -> Step:
    made, sources = list[TileLoad](), list[tuple[int, int | None]]()
    code = interval.group.code
    for tensor, task, index in loads(interval.group, channel):
        found = [(leaf.value.id, _location(interval, position, leaf, at.stage)) for leaf in task.leaves]
        reads = tuple(Read(value, location) for value, (location, _) in found)
        vector, along = code.copies.get(index, 0), code.through_registers.get(index)
        made.append(TileLoad(tensor, task.ops, reads, vector, along))
        sources += [source for _, (_, source) in found]
    total = sum(tensor.loaded for tensor in channel.tensors)
    return Step(ProducerLoad(channel.id, tuple(made), total, at), at.stage, sources=tuple(sources))


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
