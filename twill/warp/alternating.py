"""Accumulators that alternate: the MMAs of a loop over tiles go on with the next tile, in other columns of
tensor memory, while a group reads the result of this one.

Takes a loop in a loop over tiles; gives the barriers with which the group that issues its MMAs and the group
that reads the result follow each other, instead of all groups' synchronization before and after the loop.
None where anything else touches tensor memory, or where twice the columns do not fit.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from twill.ir.channels import DependenceBarrier, TensorTile
from twill.ir.loop import Op
from twill.ir.operands import ONCE, TensorMemory
from twill.ir.statements import Advance, BarrierArrive, BarrierWait, Compute, Pipelined, Statement
from twill.ops.table import role
from twill.warp.dataflow import MMAS, Code, blocks
from twill.warp.tasks import Scheduled, Task
from twill.warp.tensor_memory import accesses

DONE, FREE = "accumulators_done", "accumulators_free"
"""The MMAs of a tile are complete; its result has been read."""
BUFFERS = 2


@dataclass(frozen=True, slots=True)
class Alternating:
    """Which loop's accumulators alternate."""

    loop: int
    """Its operation."""
    issuer: int
    """The group that issues its MMAs."""
    reader: int
    """The group that reads the result."""

    @property
    def barriers(self) -> tuple[DependenceBarrier, ...]:
        """Before the loop over tiles the reader has read nothing: its first arrivals on `FREE` say so."""
        return (
            DependenceBarrier(DONE, self.issuer, self.reader, "mma", BUFFERS, "the MMAs of a tile"),
            DependenceBarrier(FREE, self.reader, self.issuer, "threads", BUFFERS, "a tile is read"),
        )


def alternating(
    code: Code,
    loops: Sequence[tuple[Scheduled, tuple[Task, ...]]],
    outside: Sequence[Op],
    synchronized: Collection[int],
    entered: Collection[int],
) -> Alternating | None:
    """`outside`: the operations on tensor memory around the loops, `synchronized`: the groups that use it,
    `entered`: the loops before which something may still do so."""
    (one, tasks), *others = loops
    home = blocks(code.function)
    issuing = {task.group for task in tasks for index in task.ops if accesses(code, code.ops[index])}
    readers = set(synchronized) - issuing
    top = code.function.body.blocks[0] if code.function.body else None
    loop = one.loop.op
    plain = (
        not others
        and loop.index in entered
        and home[loop.index] is not top
        and len(issuing) == 1
        and len(readers) == 1
        and _only_accumulators(code, tasks)
        and all(role(op) == "tensor_memory_load" for op in outside)
        and all(home[op.index] is home[loop.index] and op.index > loop.index for op in outside)
    )
    return Alternating(loop.index, issuing.pop(), readers.pop()) if plain else None


def _only_accumulators(code: Code, tasks: Sequence[Task]) -> bool:
    """Nothing in a loop uses tensor memory but MMAs, for what they add to."""
    found = [
        (code.ops[index], a) for task in tasks for index in task.ops for a in accesses(code, code.ops[index])
    ]
    return all(op.name in MMAS and access.writes for op, access in found)


def doubled(tiles: Mapping[int, TensorTile]) -> dict[int, TensorTile]:
    """The tiles with two buffers each, one behind the other."""
    found, end = dict[int, TensorTile](), 0
    for buffer, tile in sorted(tiles.items(), key=lambda item: item[1].column):
        found[buffer] = replace(tile, column=end, buffers=BUFFERS, counter=DONE)
        end += BUFFERS * tile.columns
    return found


# --- statements -------------------------------------------------------------------------------------------


def before(one: Alternating, group: int) -> tuple[Statement, ...]:
    """Of a group, before the loop: the columns are free."""
    return (BarrierWait(FREE, ONCE, issuer=True),) if group == one.issuer else ()


def after(one: Alternating, group: int) -> tuple[Statement, ...]:
    """And behind it."""
    if group == one.issuer:
        return (BarrierArrive(DONE),)
    return (BarrierWait(DONE, ONCE),) if group == one.reader else ()


def first(one: Alternating, group: int) -> tuple[Statement, ...]:
    """At the beginning of the reader: all buffers are free."""
    return (BarrierArrive(FREE), Advance(FREE)) * BUFFERS if group == one.reader else ()


def with_ends(one: Alternating, group: int, found: Sequence[Statement]) -> tuple[Statement, ...]:
    """The statements of a tile: the reader arrives behind the last that reads the result, and both go on to
    the next phases."""
    if group not in (one.issuer, one.reader) or not _waits(found):
        return tuple(found)
    ends = (Advance(DONE), Advance(FREE))
    if group == one.issuer:
        return (*found, *ends)
    last = max(i for i, statement in enumerate(found) if _reads(statement))
    return (*found[: last + 1], BarrierArrive(FREE), *found[last + 1 :], *ends)


def _waits(found: Sequence[Statement]) -> bool:
    return any(isinstance(one, BarrierWait) and one.barrier in (DONE, FREE) for one in found)


def _reads(statement: Statement) -> bool:
    """It reads the result, or waits for it."""
    if isinstance(statement, Compute):
        return any(isinstance(read.location, TensorMemory) for read in statement.reads)
    return isinstance(statement, BarrierWait | Pipelined)
