"""Which buffers of tensor memory may share columns, and where each lies, for all loops of a kernel together.

Takes the code, its scheduled loops with the places that each schedule gives to its own buffers, and the
accesses outside of them; gives one address for each buffer. A schedule decides what may share columns
within its loop. Outside of loops, and where one loop runs while a buffer waits for another, two buffers that
are live at once lie apart.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from twill.ir.loop import Block, Op
from twill.ops.table import role
from twill.warp.dataflow import Code

GRAIN = 4
"""Columns at multiples of which a buffer may begin."""
STEPS = 1 << 14
"""Addresses that a search tries at most."""


@dataclass(frozen=True, slots=True)
class Extent:
    """What a buffer needs."""

    columns: int
    """Of all its slots."""
    preferred: int
    """Where a schedule has it."""


@dataclass(frozen=True, slots=True)
class Moment:
    """One point in the text of a function: an operation outside of the scheduled loops that accesses tensor
    memory, or a whole scheduled loop."""

    op: int
    around: tuple[int, ...]
    """The loops that are executed as they stand, and are around it, from the outermost on."""
    buffers: frozenset[int]
    loop: bool


def moments(
    code: Code, inside: Mapping[int, frozenset[int]], outside: Callable[[Op], Iterable[int]]
) -> tuple[Moment, ...]:
    """In the order of the text. `inside`: the buffers of each scheduled loop, by its operation; `outside`:
    those that an operation accesses."""

    def found(block: Block, around: tuple[int, ...]) -> Iterator[Moment]:
        for op in block.ops:
            if op.index in inside:
                yield Moment(op.index, around, inside[op.index], loop=True)
                continue
            if buffers := frozenset(outside(op)):
                yield Moment(op.index, around, buffers, loop=False)
            deeper = (*around, op.index) if role(op) in ("for", "while") else around
            for region in op.regions:
                for inner in region.blocks:
                    yield from found(inner, deeper)

    body = code.function.body
    return tuple(one for block in (body.blocks if body else ()) for one in found(block, ()))


def apart(code: Code, timeline: Sequence[Moment]) -> frozenset[tuple[int, int]]:
    """The pairs of buffers, in order, that are live at once where no schedule says that they may share
    columns."""
    buffers = sorted({buffer for one in timeline for buffer in one.buffers})
    lives = {buffer: _live(code, timeline, buffer) for buffer in buffers}
    return frozenset(
        (one, other)
        for one, other in combinations(buffers, 2)
        for at in sorted(lives[one] & lives[other])
        if not (timeline[at].loop and {one, other} <= timeline[at].buffers)
    )


def _live(code: Code, timeline: Sequence[Moment], buffer: int) -> frozenset[int]:
    """Numbers of the moments at which a buffer holds something: from the first access in the text to the
    last; throughout a loop that is executed as it stands, if the buffer is allocated before that; and up to
    the next scheduled loop, since groups go on by themselves until they synchronize before it."""
    used = [i for i, one in enumerate(timeline) if buffer in one.buffers]
    first, last = used[0], used[-1]
    alloc = next(op.index for op in code.ops.values() if any(v.id == buffer for v in op.results))
    for loop in sorted({loop for i in used for loop in timeline[i].around}):
        if alloc < loop:
            within = [i for i, one in enumerate(timeline) if loop in one.around]
            first, last = min(first, within[0]), max(last, within[-1])
    found = set(range(first, last + 1))
    return frozenset(found | set(_until_synchronized(timeline, last)))


def _until_synchronized(timeline: Sequence[Moment], last: int) -> Iterator[int]:
    """The moments after one up to the next scheduled loop; behind the end of a loop around it comes its
    beginning again."""
    if timeline[last].loop:
        return
    for loop in timeline[last].around:
        for i in (i for i, one in enumerate(timeline) if loop in one.around):
            if timeline[i].loop:
                break
            yield i
    for i in range(last + 1, len(timeline)):
        if timeline[i].loop:
            return
        yield i


def placed(
    extents: Mapping[int, Extent], separate: frozenset[tuple[int, int]], limit: int
) -> Mapping[int, int] | None:
    """The first column of each buffer, so that the pairs that must be `separate` are; None where none is
    found. Where the schedules have them if that is possible; else by backtracking over the ends of what is
    placed already, large buffers first."""
    wished = {buffer: extent.preferred for buffer, extent in extents.items()}
    if all(_disjoint(extents, wished, one, other) for one, other in separate):
        return wished
    order = sorted(extents, key=lambda buffer: (-extents[buffer].columns, buffer))
    steps = iter(range(STEPS))

    def search(at: int, found: dict[int, int]) -> dict[int, int] | None:
        if at == len(order):
            return found
        buffer = order[at]
        ends = {-(-(found[other] + extents[other].columns) // GRAIN) * GRAIN for other in found}
        for address in sorted({0, extents[buffer].preferred} | ends):
            if next(steps, None) is None:
                return None
            more = {**found, buffer: address}
            fits = address + extents[buffer].columns <= limit and all(
                _disjoint(extents, more, one, other)
                for one, other in separate
                if buffer in (one, other) and {one, other} <= more.keys()
            )
            if fits and (made := search(at + 1, more)) is not None:
                return made
        return None

    return search(0, {})


def _disjoint(extents: Mapping[int, Extent], found: Mapping[int, int], one: int, other: int) -> bool:
    return (
        found[one] + extents[one].columns <= found[other]
        or found[other] + extents[other].columns <= found[one]
    )
