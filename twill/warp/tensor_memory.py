"""Tensor memory: where each buffer lies, and the barriers that keep accesses to it in order.

Takes the tasks of a loop with their schedule; gives `TensorTile`s and, for each loop, `Dependences`. The
schedule says which columns a value has and when; this module says which access must be complete before which
other one starts, and leaves out what follows from the others.

An access is by threads (loads and stores, complete when their statement is) or by an MMA (complete some time
after it was issued). MMAs of one group are issued by one of its warps, and execute in order (PTX ISA, tcgen05
pipelining). A warp of four reaches 32 lanes, so accesses of threads in one group of four warps are in order
too.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

from twill.ir.channels import DependenceBarrier, TensorTile
from twill.ir.loop import Loop, Op, Value
from twill.ir.problem import Time
from twill.ir.statements import Accumulate
from twill.ops.mma import copied_scales, inputs
from twill.ops.table import role
from twill.warp.dataflow import MMAS, Code, blocks, in_tensor_memory, zero
from twill.warp.tasks import Scheduled, Task
from twill.warp.tensor_placement import Extent, Moment, apart, moments, placed

# --- accesses ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Access:
    """What one operation does to one buffer of tensor memory."""

    buffer: int
    """Value id of the allocation."""
    writes: bool


def accesses(code: Code, op: Op) -> tuple[Access, ...]:
    """Of one operation. Raises TwillError for one that works on a part of a buffer."""
    match role(op):
        case "tensor_memory_mma":
            found = [(op.operands[2], True), *((v, False) for v in inputs(op))]
        case "tensor_memory_load":
            found = [(op.operands[0], False)]
        case "tensor_memory_store":
            found = [(op.operands[0], True)]
        case "tensor_memory_alloc" if op.operands:
            found = [(op.results[0], True)]
        case _:
            return ()
    return tuple(
        Access(_allocated(code, op, value), writes) for value, writes in found if in_tensor_memory(value.type)
    )


def _allocated(code: Code, op: Op, value: Value) -> int:
    maker = code.maker(value)
    if maker is None or role(maker) != "tensor_memory_alloc":
        raise code.refuse(f"{op.name} on a part of a buffer of tensor memory can not be generated", op)
    return value.id


@dataclass(frozen=True, slots=True)
class _Touch:
    """An access of a task in a loop."""

    task: Task
    buffer: int
    writes: bool
    mma: bool
    offset: int = 0
    """Iterations back from the task to the beginning of the value that it reads."""


# --- places -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Place:
    """Where the value of a buffer lies in one loop."""

    buffer: int
    node: str
    """That begins the value."""
    address: int
    size: int
    slots: int
    resident: bool

    @property
    def end(self) -> int:
        return self.address + self.size * self.slots


def _places(code: Code, one: Scheduled, tasks: Sequence[Task]) -> dict[int, _Place]:
    """By buffer. Raises TwillError for a buffer that holds several values in an iteration."""
    found = dict[int, _Place]()
    given = {a.value: a for a in one.solution.allocations if a.memory == "tensor"}
    written = {(task.id, access.buffer) for task in tasks for access in _of(code, task) if access.writes}
    for value in one.graph.values:
        for node, buffer in sorted(written):
            if value.tile.place != "tensor" or node not in (value.writers or (value.node,)):
                continue
            a = given[value.id]
            place = _Place(buffer, value.node, a.address, a.size, a.slots, value.resident)
            if found.setdefault(buffer, place) != place:
                op = code.ops[one.graph.node(node).ops[-1]]
                raise code.refuse("a buffer of tensor memory that holds several values in an iteration", op)
    return found


def _of(code: Code, task: Task) -> list[Access]:
    return [access for index in task.ops for access in accesses(code, code.ops[index])]


def tiles(
    code: Code, loops: Sequence[tuple[Scheduled, tuple[Task, ...]]]
) -> tuple[Mapping[int, TensorTile], tuple[dict[int, _Place], ...]]:
    """The tile of each buffer, and the places in each loop, with addresses on which all loops and the code
    around them agree. Raises TwillError where they can not."""
    found = [_places(code, one, tasks) for one, tasks in loops]
    inside = {
        one.loop.op.index: frozenset(a.buffer for op in one.loop.op.inner() for a in accesses(code, op))
        for one, _ in loops
    }
    timeline = moments(code, inside, lambda op: [access.buffer for access in accesses(code, op)])
    extents = _extents(code, found, loops)
    _refuse_lost(code, timeline, found, loops)
    for op in code.ops.values():
        if any(access.buffer not in extents for access in accesses(code, op)):
            raise code.refuse(
                "a buffer of tensor memory that is written outside of loops alone can not be generated", op
            )
    separate = apart(code, timeline) | {pair for places in found for pair in _apart_in_loop(places)}
    addresses = placed(extents, separate, loops[0][0].problem.limits.tensor)
    if addresses is None:
        raise code.refuse("its loops can not agree on where tensor memory lies", loops[-1][0].loop.op)
    moved = tuple(
        {buffer: replace(place, address=addresses[buffer]) for buffer, place in places.items()}
        for places in found
    )
    fixed = {buffer: place for places in moved for buffer, place in places.items()}
    return {
        buffer: TensorTile(code.names[buffer], place.address, place.size, place.slots)
        for buffer, place in sorted(fixed.items())
    }, moved


def _extents(
    code: Code, found: Sequence[Mapping[int, _Place]], loops: Sequence[tuple[Scheduled, tuple[Task, ...]]]
) -> dict[int, Extent]:
    """What each buffer needs, in the first loop that has it; the others must agree on its slots."""
    fixed = dict[int, _Place]()
    for places, (one, _) in zip(found, loops, strict=True):
        for buffer, place in sorted(places.items()):
            first = fixed.setdefault(buffer, place)
            if (first.size, first.slots) != (place.size, place.slots):
                raise code.refuse("its loops can not agree on the slots of tensor memory", one.loop.op)
    return {
        buffer: Extent(place.size * place.slots, place.address) for buffer, place in sorted(fixed.items())
    }


def _apart_in_loop(places: Mapping[int, _Place]) -> Iterator[tuple[int, int]]:
    """The buffers that do not share columns in a schedule."""
    for one, other in combinations(sorted(places), 2):
        if places[one].end <= places[other].address or places[other].end <= places[one].address:
            yield one, other


def _refuse_lost(
    code: Code,
    timeline: Sequence[Moment],
    found: Sequence[Mapping[int, _Place]],
    loops: Sequence[tuple[Scheduled, tuple[Task, ...]]],
) -> None:
    """A loop whose last value of a buffer something behind it uses keeps that value: throughout the loop, or
    in columns of its own."""
    for places, (one, _) in zip(found, loops, strict=True):
        for buffer, place in sorted(places.items()):
            shared = any(
                place.address < other.end and other.address < place.end
                for other in places.values()
                if other is not place
            )
            kept = place.resident or (place.slots == 1 and not shared)
            if not kept and _read_later(code, timeline, buffer, one.loop.op.index, found, loops):
                raise code.refuse(
                    f"{code.names[buffer]} is used after the loop, and other values take its columns",
                    one.loop.op,
                )


def _read_later(
    code: Code,
    timeline: Sequence[Moment],
    buffer: int,
    loop: int,
    found: Sequence[Mapping[int, _Place]],
    loops: Sequence[tuple[Scheduled, tuple[Task, ...]]],
) -> bool:
    """Whether what comes to a buffer next, behind a scheduled loop, reads it: a load, or a loop that has it
    throughout. Behind the end of a loop that is executed as it stands comes its beginning."""
    at = next(i for i, one in enumerate(timeline) if one.op == loop)
    again = [one for one in timeline[: at + 1] if set(timeline[at].around) & set(one.around)]
    following = next((one for one in (*timeline[at + 1 :], *again) if buffer in one.buffers), None)
    if following is None:
        return False
    if not following.loop:
        return not any(a.writes for a in accesses(code, code.ops[following.op]) if a.buffer == buffer)
    places = next(p for p, (one, _) in zip(found, loops, strict=True) if one.loop.op.index == following.op)
    return buffer in places and places[buffer].resident


def scale_tiles(
    code: Code, tiles: Mapping[int, TensorTile], limit: int
) -> Mapping[int, tuple[TensorTile, ...]]:
    """Behind all `tiles`, those to which block-scaled MMAs copy their scale factors; by operation. Raises
    TwillError where they end behind column `limit`."""
    found, end = dict[int, tuple[TensorTile, ...]](), _aligned(tiles)
    for op in code.ops.values():
        made = list[TensorTile]()
        for value, columns in copied_scales(op) if role(op) == "tensor_memory_mma" else ():
            made.append(TensorTile(f"{code.names[value.id]}_of_{op.index}", end, columns))
            end += columns
        if end > limit:
            raise code.refuse("the scale factors of all loops do not fit in tensor memory", op)
        if made:
            found[op.index] = tuple(made)
    return found


def _aligned(tiles: Mapping[int, TensorTile]) -> int:
    """The first multiple of 4 columns behind some tiles."""
    return -(-max((tile.column + tile.columns * tile.buffers for tile in tiles.values()), default=0) // 4) * 4


# --- dependences ------------------------------------------------------------------------------------------


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


def dependences(order: LoopOrder, places: Mapping[int, _Place], first: int) -> Dependences:
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


def _touches(order: LoopOrder, places: Mapping[int, _Place]) -> Iterator[_Touch]:
    uses = {
        (use.node, value.node): use.distance for value in order.scheduled.graph.values for use in value.uses
    }
    for task in order.tasks:
        found = _of(order.code, task)
        for buffer in sorted({access.buffer for access in found}):
            writes = any(access.writes for access in found if access.buffer == buffer)
            offset = 0 if writes else uses.get((task.id, places[buffer].node), 0)
            yield _Touch(task, buffer, writes, order.mma(task), offset)


def _required(order: LoopOrder, places: Mapping[int, _Place]) -> list[_Edge]:
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
    scheduled: Scheduled, one: _Touch, other: _Touch, places: Mapping[int, _Place]
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


# --- outside of loops -------------------------------------------------------------------------------------


def outside(code: Code, loops: Sequence[Loop]) -> tuple[Op, ...]:
    """The operations on tensor memory around the loops."""
    inside = {op.index for loop in loops for op in loop.op.inner()}
    return tuple(op for op in code.ops.values() if op.index not in inside and accesses(code, op))


def initial_stores(code: Code, loops: Sequence[tuple[Scheduled, tuple[Task, ...]]]) -> dict[int, int]:
    """Stores of constants that the first MMA of a loop overwrites, with that loop: they matter only where it
    has no iteration. Nothing else in the loop reads what they store."""
    found, homes = dict[int, int](), blocks(code.function)
    for op in outside(code, [one.loop for one, _ in loops]):
        if role(op) != "tensor_memory_store" or not _constant(code, op.operands[-2]):
            continue
        (access,) = accesses(code, op)
        users = [
            (one.loop, code.ops[index])
            for one, tasks in loops
            for task in tasks
            for index in task.ops
            if any(other.buffer == access.buffer for other in accesses(code, code.ops[index]))
        ]
        first = next((loop for loop, _ in users if loop.op.index > op.index), None)
        own = [user for loop, user in users if loop is first]
        if (
            first is not None
            and homes[first.op.index] is homes[op.index]
            and len(own) == 1
            and role(own[0]) == "tensor_memory_mma"
            and flagged(code, first, own[0]) == "not_first"
        ):
            found[op.index] = first.op.index
    return found


def _constant(code: Code, value: Value) -> bool:
    maker = code.maker(value)
    return maker is not None and role(maker) == "constant"


def entered(code: Code, loops: Sequence[Loop], around: Sequence[Op]) -> frozenset[int]:
    """The loops before which the groups synchronize: something around them may still use tensor memory."""
    homes = blocks(code.function)
    top = code.function.body.blocks[0] if code.function.body else None
    return frozenset(
        loop.op.index
        for loop in loops
        if any(op.index < loop.op.index or homes[loop.op.index] is not top for op in around)
    )


def flagged(code: Code, loop: Loop, dot: Op) -> Accumulate:
    """Whether an MMA into tensor memory adds to what is there, by its flag. Raises TwillError where that
    depends on more than the first iteration."""
    flag, predicate = dot.operands[-2:]
    if _bit(code, predicate) is not True:
        raise code.refuse("an MMA that is executed under a condition can not be generated", dot)
    carried = next((c for c in loop.carried if c.arg.id == flag.id), None)
    first, later = (carried.init, carried.yielded) if carried else (flag, flag)
    match _bit(code, first), _bit(code, later):
        case True, True:
            return "always"
        case False, False:
            return "never"
        case False, True:
            return "not_first"
        case _ if _zeroed(code, flag, dot):
            return "always"
        case _:
            raise code.refuse("an MMA that adds to its accumulator now and then can not be generated", dot)


def _zeroed(code: Code, flag: Value, dot: Op) -> bool:
    """Whether a loop around carries the flag, false in its first iteration alone, and the accumulator holds
    zeros before that loop: nothing but a store there and the MMA writes it."""
    homes, buffer = blocks(code.function), dot.operands[2].id
    bits = [_bit(code, value) for value in code.carried.get(flag.id, ())[:2]]  # initial, yielded
    around = next((op for op in code.ops.values() if flag.id in _arguments(op)), None)
    stores = [op for op in code.ops.values() if op is not dot and _writes(code, op, buffer)]
    return (
        bits == [False, True]
        and around is not None
        and any(op.index < around.index and homes[op.index] is homes[around.index] for op in stores)
        and all(role(op) == "tensor_memory_store" and zero(code, op.operands[-2]) for op in stores)
    )


def _arguments(loop: Op) -> set[int]:
    return {arg.id for region in loop.regions for block in region.blocks for arg in block.args}


def _writes(code: Code, op: Op, buffer: int) -> bool:
    return any(one.writes and one.buffer == buffer for one in accesses(code, op))


def _bit(code: Code, value: Value) -> bool | None:
    """A constant; None for anything else."""
    maker = code.maker(value)
    found = maker.attributes.get("value") if maker is not None and role(maker) == "constant" else None
    return found if isinstance(found, bool) else None
