"""What stands before a loop whose group loads for itself, and may come behind the first loads of the loop.

Takes statements in order; gives those directly before the loop whose numbers (strides, corners, bounds) come
first and whose tiles follow the first loads, so that what they load from global memory, and barriers around
what passes through shared memory, are waited for while the loop's tiles are under way. A thread block with
few iterations waited for one after the other.

They write neither global memory nor slots, and read no slot; no buffer that they use lies in slots; and
neither loads nor bounds of the loop read anything that they compute of tiles.
"""

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass

from twill.ir.loop import Op, Tensor
from twill.ir.operands import Read, Register
from twill.ir.program import Program
from twill.ir.statements import SLICES, Compute, InitializeCarried, Pipelined, Statement
from twill.ops.row import Role
from twill.ops.table import role
from twill.warp.dataflow import EFFECTS, NOTHING

_STAYING: frozenset[Role] = frozenset(
    {
        "assert",
        "descriptor",
        "tensor_map",
        "tma_load",
        "wgmma",
        "tensor_memory_mma",
        "tensor_memory_alloc",
        "tensor_memory_store",
        "tensor_memory_load",
        "for",
        "while",
    }
)
"""What stays in front of the loop."""
_WAITING: frozenset[Role] = frozenset({"pointer_load", "layout", "reduce", "scan", "dot", "alloc"})
"""What waits for global memory, for other threads or for what was loaded before."""


@dataclass(frozen=True, slots=True)
class Before:
    """A statement before the loop, in two parts."""

    statement: Compute | InitializeCarried
    numbers: tuple[int, ...] = ()
    """Operations that come before the loads, by index: on scalars alone."""

    @property
    def tiles(self) -> tuple[int, ...]:
        """Those behind the loads."""
        ops = self.statement.ops if isinstance(self.statement, Compute) else ()
        return tuple(index for index in ops if index not in self.numbers)


def before_loop(program: Program, statements: Sequence[Statement]) -> tuple[Before, ...]:
    """Of statements from a certain one on: those up to a loop, if its first loads may come between their
    numbers and their tiles and if less is waited for then; else none."""
    count = next((i for i, one in enumerate(statements) if not _movable(program, one)), len(statements))
    loop = statements[count] if count < len(statements) else None
    if not isinstance(loop, Pipelined) or not loop.filled or uses_slots(program, statements[:count]):
        return ()
    found, late = list[Before](), set[str]()
    for one in statements[:count]:
        assert isinstance(one, Compute | InitializeCarried)
        found.append(_divided(program, one, late))
        late |= _written(program, found[-1])
    waits = any(role(program.op(index)) in _WAITING for one in found for index in one.tiles)
    needed = (*loop.bounds, *(read for load in loop.filled for read in load.reads))
    return tuple(found) if waits and not late & _registers(needed) else ()


def uses_slots(program: Program, statements: Sequence[Statement]) -> bool:
    """Whether a buffer in slots may be one of those that the statements use."""
    ops = {index for one in statements if isinstance(one, Compute) for index in one.ops}
    return any(one.overlays and (not one.ops or ops & set(one.ops)) for one in program.buffers)


def _movable(program: Program, one: Statement) -> bool:
    """Whether it computes registers from registers and global memory, all of it here."""
    if isinstance(one, InitializeCarried):
        return one.source is None or isinstance(one.source, Register)
    if not isinstance(one, Compute) or one.stores or one.deferred or (one.begin, one.end) != (0, SLICES):
        return False
    every = (each for index in one.ops for each in _whole(program.op(index)))
    return all(isinstance(read.location, Register) for read in one.reads) and not any(
        op.name in EFFECTS | NOTHING or role(op) in _STAYING for op in every
    )


def _whole(op: Op) -> Iterator[Op]:
    yield op
    yield from op.inner()


def _registers(reads: Sequence[Read]) -> set[str]:
    return {read.location.variable for read in reads if isinstance(read.location, Register)}


def _divided(program: Program, one: Compute | InitializeCarried, late: Set[str]) -> Before:
    """Numbers are scalars that follow from scalars alone, none of which is in a variable that is `late`."""
    if not isinstance(one, Compute):
        return Before(one)
    numbers = list[int]()
    behind = {read.value for read in one.reads if _registers([read]) & late}
    for op in map(program.op, one.ops):
        values = (*op.operands, *op.results)
        scalar = not op.regions and not any(isinstance(value.type, Tensor) for value in values)
        if scalar and not any(value.id in behind for value in op.operands):
            numbers.append(op.index)
        else:
            behind |= {value.id for value in op.results}
    return Before(one, tuple(numbers))


def _written(program: Program, one: Before) -> set[str]:
    """The variables of what comes behind the loads."""
    if isinstance(one.statement, InitializeCarried):
        return {one.statement.register.variable}
    computed = {value.id for index in one.tiles for value in program.op(index).results}
    return {write.register.variable for write in one.statement.writes if write.value in computed}
