"""Tensor memory: the barriers that keep the accesses of a loop in order.

Takes the places of the buffers in one loop and the order in which its groups execute; gives `Dependences`:
which access must be complete before which other one starts, without what follows from the others.

MMAs of one group are issued by one of its warps, and execute in order (PTX ISA, tcgen05 pipelining). A warp
of four reaches 32 lanes, so accesses of threads in one group of four warps are in order too.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from twill.ir.channels import DependenceBarrier
from twill.ir.problem import Time
from twill.warp.dataflow import MMAS, Code
from twill.warp.tasks import Scheduled, Task
from twill.warp.tensor_memory import Place, task_accesses


@dataclass(frozen=True, slots=True)
class _Touch:
    """An access of a task in a loop."""

    task: Task
    buffer: int
    writes: bool
    mma: bool
    offset: int = 0
    """Iterations back from the task to the beginning of the value that it reads."""


@dataclass(frozen=True, slots=True)
class Span:
    """Where a task begins and ends in the interval of its group: stage, and position in the interval."""

    begin: tuple[int, int]
    end: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Awaited:
    """A wait of a task: for the arrival of `distance` iterations before."""

    barrier: str
    distance: int
    issuer: bool


@dataclass(frozen=True, slots=True)
class Dependences:
    """The barriers of one loop, and which tasks wait for them and arrive on them."""

    barriers: tuple[DependenceBarrier, ...] = ()
    waits: Mapping[str, tuple[Awaited, ...]] = field(default_factory=dict[str, tuple[Awaited, ...]])
    arrivals: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    relays: Mapping[tuple[int, str], str] = field(default_factory=dict[tuple[int, str], str])
    """Of pairs of thread blocks, by group and channel: the barrier on which the group arrives when its slot
    is full, for the MMAs of the first block that read the slots of both."""


@dataclass(frozen=True, slots=True, eq=False)
class LoopOrder:
    """A loop as its groups execute it."""

    code: Code
    scheduled: Scheduled
    tasks: tuple[Task, ...]
    spans: Mapping[str, Span]
    """By task; of loads that share a channel only the first has one."""
    handed: tuple[tuple[str, str, int], ...]
    """Tiles that pass through channels: by which task, to which one, iterations later."""
    wide: frozenset[int]
    """Groups of more than one warpgroup."""

    def mma(self, task: Task) -> bool:
        return self.code.ops[task.ops[-1]].name in MMAS


ANY = 1 << 20
"""More iterations than a schedule spans."""


ALL = (-ANY, ANY)


@dataclass(frozen=True, slots=True)
class _Edge:
    """`before` is complete when `after`, `distance` iterations on, starts."""

    before: str
    after: str
    distance: int


def dependences(order: LoopOrder, places: Mapping[int, Place], first: int) -> Dependences:
    """The barriers of a loop, numbered from `first` on. Raises TwillError where nothing keeps an access from
    running ahead of the other by any number of iterations."""
    tasks = {task.id: task for task in order.tasks}
    kept = _reduced(order, _required(order, places))
    made, waits, arrivals = list[DependenceBarrier](), dict[str, list[Awaited]](), dict[str, list[str]]()
    for edge in kept:
        one, other = tasks[edge.before], tasks[edge.after]
        start = ("start", edge.after) if order.mma(other) else ("done", edge.after)
        back = _distances(order, kept, start).get(("done", edge.before))
        if back is None:
            raise order.code.refuse(
                f"nothing keeps {edge.before} from running ahead of {edge.after}", order.scheduled.loop.op
            )
        name = f"dependence{first + len(made)}"
        made.append(
            DependenceBarrier(
                name,
                one.group,
                other.group,
                "mma" if order.mma(one) else "threads",
                max(1, edge.distance + back, 1 - edge.distance),  # none waits past a phase it never saw
                f"{edge.after} after {edge.before}"
                + (f" of {edge.distance:+} iterations" if edge.distance else ""),
            )
        )
        waits.setdefault(other.id, []).append(Awaited(name, edge.distance, order.mma(other)))
        arrivals.setdefault(one.id, []).append(name)
    return Dependences(
        tuple(made),
        {task: tuple(found) for task, found in waits.items()},
        {task: tuple(found) for task, found in arrivals.items()},
    )


def _touches(order: LoopOrder, places: Mapping[int, Place]) -> Iterator[_Touch]:
    uses = {
        (use.node, value.node): use.distance for value in order.scheduled.graph.values for use in value.uses
    }
    for task in order.tasks:
        found = task_accesses(order.code, task)
        for buffer in sorted({access.buffer for access in found}):
            writes = any(access.writes for access in found if access.buffer == buffer)
            offset = 0 if writes else uses.get((task.id, places[buffer].node), 0)
            yield _Touch(task, buffer, writes, order.mma(task), offset)


def _required(order: LoopOrder, places: Mapping[int, Place]) -> list[_Edge]:
    """Every pair of accesses to the same columns of which one writes, with the nearest iteration."""
    touches, found = tuple(_touches(order, places)), set[_Edge]()
    for one in touches:
        for other in touches:
            if one.writes or other.writes:
                found |= {
                    _Edge(one.task.id, other.task.id, distance)
                    for distance in _conflicts(order.scheduled, one, other, places)
                    if not _in_order(order, one, other)
                }
    return sorted(found, key=lambda edge: (-edge.distance, edge.before, edge.after))


def _conflicts(
    scheduled: Scheduled, one: _Touch, other: _Touch, places: Mapping[int, Place]
) -> Iterator[int]:
    """How many iterations after `one` the accesses `other` come that must wait for it."""
    interval, apart = scheduled.solution.interval, other.offset - one.offset
    place, next_place = places[one.buffer], places[other.buffer]

    def later(first: Time, second: Time) -> int:
        return (first - second) // interval + 1

    if one.buffer != other.buffer:
        if place.address < next_place.end and next_place.address < place.end:
            yield later(scheduled.start(place.node), scheduled.start(next_place.node)) + apart
    elif place.resident:
        yield later(one.task.start, other.task.start) if one.task is not other.task else 1
    else:
        if one.task is not other.task and one.task.start < other.task.start + apart * interval:
            yield apart
        yield place.slots + apart


def _in_order(order: LoopOrder, one: _Touch, other: _Touch) -> bool:
    """Whether the hardware keeps two accesses in the order of the statements: MMAs of one warp, and threads
    that touch the same lanes (of the same tile where two warpgroups share these)."""
    if one.task.group != other.task.group or one.mma != other.mma:
        return False
    return one.mma or one.buffer == other.buffer or one.task.group not in order.wide


def _reduced(order: LoopOrder, edges: Sequence[_Edge]) -> list[_Edge]:
    """Without those that follow from others: through iterations between those of the two accesses, which
    there are if these are. (An access that comes before one of an earlier iteration is waited for in the last
    iteration too, where there is no later one: the wait is then for the last.)"""
    kept = list(edges)
    for edge in edges:
        rest = [other for other in kept if other != edge]
        within = (min(0, edge.distance), max(0, edge.distance))
        implied = _distances(order, rest, ("done", edge.before), within).get(("start", edge.after))
        if implied is not None and implied <= edge.distance:
            kept = rest
    return sorted(kept, key=lambda edge: (edge.before, edge.after, edge.distance))


_Point = tuple[str, str]
"""("start", task): when the first of its warps starts. ("done", task): when it is complete in all warps."""


def _distances(
    order: LoopOrder, edges: Sequence[_Edge], source: _Point, within: tuple[int, int] = ALL
) -> dict[_Point, int]:
    """For every point that comes after `source`: the first iteration in which it does, by steps through
    iterations `within` a range (what comes before an iteration comes before the next one too). Every step
    leads to a later time of the schedule, so that no circuit shortens a path (Bellman-Ford). Channels keep
    groups from running ahead, but do not order accesses to tensor memory: their barriers have no fences for
    it (PTX ISA, tcgen05.fence)."""
    steps = [*_program_order(order)]
    steps += [(("done", e.before), ("start", e.after), e.distance) for e in edges]
    if within == ALL:
        steps += [(("done", one), ("start", other), distance) for one, other, distance in order.handed]
    found, changed = {source: 0}, True
    while changed:
        changed = False
        for one, other, distance in steps:
            reached = max(found.get(one, ANY) + distance, within[0])
            if one in found and reached <= within[1] and reached < found.get(other, ANY):
                found[other], changed = reached, True
    return found


def _program_order(order: LoopOrder) -> Iterator[tuple[_Point, _Point, int]]:
    """A task is done after it starts. What its warps start, they start in order; what threads have done, or
    MMAs, is done in order. An MMA is started by one warp: that says nothing of the others."""
    tasks = [task for task in order.tasks if task.id in order.spans]
    for one in tasks:
        yield ("start", one.id), ("done", one.id), 0
        for other in tasks:
            if one is other or one.group != other.group:
                continue
            begin, end = order.spans[one.id], order.spans[other.id]
            if order.mma(other) or not order.mma(one):
                yield ("start", one.id), ("start", other.id), _after(begin.begin, end.begin)
            if order.mma(one) == order.mma(other):
                yield ("done", one.id), ("done", other.id), _after(begin.end, end.end)


def _after(one: tuple[int, int], other: tuple[int, int]) -> int:
    """The first iteration in which `other` comes after `one`."""
    return one[0] - other[0] + (one[1] >= other[1])
