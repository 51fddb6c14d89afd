"""Tensor memory: which buffers operations access, and where each buffer lies.

Takes the tasks of the loops with their schedules, which say which columns a value has and when; gives the
`Place`s of each loop and `TensorTile`s. `warp.tensor_dependences` keeps the accesses in order.

An access is by threads (loads and stores, complete when their statement is) or by an MMA (complete some time
after it was issued).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from twill.ir.channels import TensorTile
from twill.ir.loop import Loop, Op, Value
from twill.ops.mma import copied_scales, inputs
from twill.ops.table import role
from twill.warp.dataflow import Code, blocks, in_tensor_memory
from twill.warp.tasks import Scheduled, Task
from twill.warp.tensor_placement import Extent, Moment, apart, moments, placed


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
class Place:
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


def _places(code: Code, one: Scheduled, tasks: Sequence[Task]) -> dict[int, Place]:
    """By buffer. Raises TwillError for a buffer that holds several values in an iteration."""
    found = dict[int, Place]()
    given = {a.value: a for a in one.solution.allocations if a.memory == "tensor"}
    written = {
        (task.id, access.buffer) for task in tasks for access in task_accesses(code, task) if access.writes
    }
    for value in one.graph.values:
        for node, buffer in sorted(written):
            if value.tile.place != "tensor" or node not in (value.writers or (value.node,)):
                continue
            a = given[value.id]
            place = Place(buffer, value.node, a.address, a.size, a.slots, value.resident)
            if found.setdefault(buffer, place) != place:
                op = code.ops[one.graph.node(node).ops[-1]]
                raise code.refuse("a buffer of tensor memory that holds several values in an iteration", op)
    return found


def task_accesses(code: Code, task: Task) -> list[Access]:
    return [access for index in task.ops for access in accesses(code, code.ops[index])]


def tiles(
    code: Code, loops: Sequence[tuple[Scheduled, tuple[Task, ...]]]
) -> tuple[Mapping[int, TensorTile], tuple[dict[int, Place], ...]]:
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
    code: Code, found: Sequence[Mapping[int, Place]], loops: Sequence[tuple[Scheduled, tuple[Task, ...]]]
) -> dict[int, Extent]:
    """What each buffer needs, in the first loop that has it; the others must agree on its slots."""
    fixed = dict[int, Place]()
    for places, (one, _) in zip(found, loops, strict=True):
        for buffer, place in sorted(places.items()):
            first = fixed.setdefault(buffer, place)
            if (first.size, first.slots) != (place.size, place.slots):
                raise code.refuse("its loops can not agree on the slots of tensor memory", one.loop.op)
    return {
        buffer: Extent(place.size * place.slots, place.address) for buffer, place in sorted(fixed.items())
    }


def _apart_in_loop(places: Mapping[int, Place]) -> Iterator[tuple[int, int]]:
    """The buffers that do not share columns in a schedule."""
    for one, other in combinations(sorted(places), 2):
        if places[one].end <= places[other].address or places[other].end <= places[one].address:
            yield one, other


def _refuse_lost(
    code: Code,
    timeline: Sequence[Moment],
    found: Sequence[Mapping[int, Place]],
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
    found: Sequence[Mapping[int, Place]],
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


def outside(code: Code, loops: Sequence[Loop]) -> tuple[Op, ...]:
    """The operations on tensor memory around the loops."""
    inside = {op.index for loop in loops for op in loop.op.inner()}
    return tuple(op for op in code.ops.values() if op.index not in inside and accesses(code, op))


def entered(code: Code, loops: Sequence[Loop], around: Sequence[Op]) -> frozenset[int]:
    """The loops before which the groups synchronize: something around them may still use tensor memory."""
    homes = blocks(code.function)
    top = code.function.body.blocks[0] if code.function.body else None
    return frozenset(
        loop.op.index
        for loop in loops
        if any(op.index < loop.op.index or homes[loop.op.index] is not top for op in around)
    )
