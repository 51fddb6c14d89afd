"""Work that an iteration does not need which leaves a branch out.

If-conversion (`extract.rewrite.control.predication`) makes a branch straight-line code and a select for each
of its results. Takes a program whose only group overlaps no iterations of a loop; gives the condition of a
branch and the statements that nothing else needs, so that they may be executed under it: sparse attention
leaves out most blocks.

A statement may be left out if all that it writes is read by what may be left out, or is the first choice of a
select by the condition. MMAs are left out all together or not at all: waits count those in flight.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import groupby

from twill.ir.effects import effects, registers
from twill.ir.loop import Op, Scalar, Tensor, Value
from twill.ir.operands import Register, Slot, Write
from twill.ir.program import Program, WarpProgram
from twill.ir.slicing import backward_slice
from twill.ir.statements import (
    Compute,
    ConsumerRelease,
    ConsumerWait,
    MmaIssue,
    MmaWait,
    Pipelined,
    ProducerStore,
    SchedulingFence,
    Statement,
    walk,
)
from twill.ops.row import Role
from twill.ops.table import is_mma, lookup, role

SELECT = "arith.select"
SPREAD: tuple[Role, ...] = ("splat", "broadcast", "expand", "layout")
"""A number in all elements of a tile stays that."""


@dataclass(frozen=True, slots=True)
class _Branch:
    """What only a branch needs."""

    made: Mapping[int, int]
    """By value: the operation of the loop's body that makes it."""
    ops: frozenset[int]
    """Operations whose results nothing else reads."""
    selects: Mapping[int, int]
    """Selects by its condition, by result, with the value that they have where it is not taken."""
    local: frozenset[str] = frozenset()
    """Channels through which the group passes tiles to itself: all of the loop, as the barriers of one also
    keep the slots of another."""

    def alone(self, one: Statement) -> bool:
        """Whether only the branch needs a statement. All MMAs are in it, and so are waits for them."""
        match one:
            case Compute():
                alone = (
                    self.made.get(write.value) in self.ops or self._stays(one, write) for write in one.writes
                )
                return bool(one.writes) and not one.stores and all(alone)
            case MmaIssue() | MmaWait() | SchedulingFence():
                return True
            case ProducerStore(channel=name) | ConsumerWait(channel=name) | ConsumerRelease(channel=name):
                return name in self.local
            case _:
                return False

    def _stays(self, one: Compute, write: Write) -> bool:
        """Whether what is written is there already where the branch is not taken: an accumulator."""
        old = (read for read in one.reads if read.value == self.selects.get(write.value))
        return any(read.location == write.register for read in old)


@dataclass(frozen=True, slots=True)
class Skipped:
    """A branch of a loop."""

    condition: Value
    by: Compute
    """A statement that computes the condition."""
    needed: tuple[Op, ...]
    """Of its operations, those that do."""
    place: int
    """The statement of an iteration before which they have all that they read."""
    branch: "_Branch"

    from_memory: bool
    """A number in memory says which iterations take the branch, and nothing else. (One that also says where
    the branch reads is only checked for being there.)"""


def skipped(program: Program, it: Pipelined) -> Skipped | None:
    """The branch that all MMAs of a loop are in. None where there is none, where iterations overlap, or where
    an MMA would be in flight at the end of what is left out: ptxas serializes these (C7515)."""
    if it.stages != 1 or len(program.groups) != 1 or not _drained(it.steady):
        return None
    body = program.op(it.op).regions[0].blocks[0].ops
    for condition, ops in _branches(program, body):
        found = _branch(program, it, condition, ops)
        if found and all(_drained(run) for needless, run in runs(found, it.steady) if needless):
            return found
    return None


def flagged(program: Program, loop: int) -> bool:
    """Whether a number in memory, which says nothing else, decides a branch that all MMAs of a loop (an
    operation) are in."""
    body = program.op(loop).regions[0].blocks[0].ops
    made = _made(body)
    return any(_flag(body, condition, made) for condition, _ in _branches(program, body))


def read_where_taken(program: Program, group: WarpProgram, it: Pipelined) -> dict[str, Value]:
    """Channels whose slots nothing but the branch that all MMAs of a loop are in reads; its condition."""
    if (found := skipped(program, it)) is None:
        return {}
    branch = [one for one in it.steady if found.branch.alone(one)]
    others = [one for one in walk(group.body) if not any(one is each for each in branch)]
    elsewhere = _read(others)
    return dict.fromkeys(_read(branch) - elsewhere, found.condition)


def _read(statements: Iterable[Statement]) -> set[str]:
    """The channels whose slots statements read."""
    return {where.channel for one in statements for where in effects(one).reads if isinstance(where, Slot)}


def _branches(program: Program, body: Sequence[Op]) -> Iterator[tuple[Value, frozenset[int]]]:
    """The conditions of branches that all MMAs are in, with the operations that only the branch needs."""
    users, conditions = program.function.users(), chosen_by(body)
    mmas = [op.index for op in body if is_mma(op)]
    for condition in {value.id: value for value in conditions.values() if mmas}.values():
        selects = frozenset(index for index, value in conditions.items() if value.id == condition.id)
        ops = only_for(selects, body, users)
        if ops.issuperset(mmas):
            yield condition, ops


def _made(body: Sequence[Op]) -> Mapping[int, int]:
    return {value.id: op.index for op in body for value in op.results}


def _flag(body: Sequence[Op], condition: Value, made: Mapping[int, int]) -> bool:
    numbers = _numbers(body, condition, made)
    return bool(numbers) and not _addressing(numbers, body)


def runs(found: Skipped, statements: Sequence[Statement]) -> Iterator[tuple[bool, Sequence[Statement]]]:
    """The statements in order, in runs, and whether each may be left out."""
    for needless, run in groupby(statements, found.branch.alone):
        yield needless, tuple(run)


def chosen_by(body: Sequence[Op]) -> Mapping[int, Value]:
    """By select: the number that is its condition, as it is or in all elements of a tile."""
    makers = {value.id: op for op in body for value in op.results}
    found = dict[int, Value]()
    for op in body:
        if op.name != SELECT:
            continue
        condition = op.operands[0]
        while (maker := makers.get(condition.id)) and role(maker) in SPREAD:
            condition = maker.operands[0]
        if not isinstance(condition.type, Tensor):
            found[op.index] = condition
    return found


def only_for(selects: Set[int], body: Sequence[Op], users: Mapping[int, Sequence[Op]]) -> frozenset[int]:
    """The operations of a loop's body whose results are read as the first choice of these selects, and by one
    another."""
    found = set[int]()
    for op in reversed(body):
        uses = [(value, user) for value in op.results for user in users.get(value.id, ())]
        if uses and _pure(op) and all(_needless(*use, selects, found) for use in uses):
            found.add(op.index)
    return frozenset(found)


def _needless(value: Value, user: Op, selects: Set[int], found: Set[int]) -> bool:
    """Whether a value is read for nothing where the condition does not hold."""
    if user.index in found:
        return True
    return user.index in selects and value.id not in (user.operands[0].id, user.operands[2].id)


def _pure(op: Op) -> bool:
    """It changes nothing that others see."""
    row = lookup(op.name)
    return is_mma(op) or role(op) == "pointer_load" or (row is not None and row.access == "none")


def _branch(program: Program, it: Pipelined, condition: Value, ops: frozenset[int]) -> Skipped | None:
    """None where the iteration does not compute the condition by itself."""
    if condition.type != Scalar("i1"):
        return None
    body = program.op(it.op).regions[0].blocks[0].ops
    made = _made(body)
    branch = _Branch(made, ops, _old(body, condition))
    branch = replace(branch, local=_local(program, it, branch))
    first = next((i for i, one in enumerate(it.steady) if branch.alone(one)), len(it.steady))
    for place, one in enumerate(it.steady):
        if isinstance(one, Compute) and condition.producer in one.ops:
            fixed = _fixed(one, it.steady[first:place])
            needed = _cone(program, one, condition, made, fixed)
            flag = _flag(body, condition, made)
            return Skipped(condition, one, needed, first, branch, flag) if needed else None
    return None


def _fixed(by: Compute, before: Sequence[Statement]) -> frozenset[int]:
    """The values that a statement reads from registers which those right before it do not write."""
    written = {one.variable for each in before for one in registers(effects(each).writes)}
    return frozenset(
        read.value
        for read in by.reads
        if isinstance(read.location, Register) and read.location.variable not in written
    )


def _numbers(body: Sequence[Op], condition: Value, made: Mapping[int, int]) -> Sequence[Op]:
    """The loaded numbers that decide."""
    makers = {op.index: op for op in body}
    found = backward_slice(
        [condition],
        lambda value: makers.get(made.get(value.id, -1)),
        lambda op: op.operands if role(op) != "pointer_load" else (),
    )
    return [op for op in found.values() if role(op) == "pointer_load"]


def _old(body: Sequence[Op], condition: Value) -> Mapping[int, int]:
    chosen = chosen_by(body)
    selects = (op for op in body if op.index in chosen and chosen[op.index].id == condition.id)
    return {op.result.id: op.operands[2].id for op in selects}


def _local(program: Program, it: Pipelined, branch: _Branch) -> frozenset[str]:
    """The group's channels to itself, if nothing else than the branch reads what passes through them."""
    channels = {one.channel for one in it.steady if isinstance(one, ProducerStore)}
    read = _read(one for one in it.steady if not branch.alone(one))
    only = not channels & read and all(program.channel(name).local for name in channels)
    return frozenset(channels) if only else frozenset()


def _addressing(numbers: Sequence[Op], body: Sequence[Op]) -> bool:
    """Whether other loads of a loop's body read at addresses that follow from loaded numbers."""
    from_them = {value.id for op in numbers for value in op.results}
    for op in body:
        pointers = role(op) == "pointer_load"
        if any(value.id in from_them for value in (op.operands[:1] if pointers else op.operands)):
            if pointers or role(op) == "tma_load":
                return True
            from_them |= {value.id for value in op.results}
    return False


def _cone(
    program: Program, it: Compute, condition: Value, made: Mapping[int, int], fixed: Set[int]
) -> tuple[Op, ...]:
    """The operations of a statement that compute the condition from what is fixed in the loop, or `fixed`
    before them, and the number of the iteration; none where it reads what else changes in the loop."""
    own = {index: program.op(index) for index in it.ops}

    def maker(value: Value) -> Op | None:
        return None if value.id in fixed or value.producer is None else own.get(value.producer)

    found = backward_slice([condition], maker)
    needed = tuple(own[index] for index in it.ops if index in found)
    changing = (made.keys() | _carried(program, made)) - fixed
    late = any(v.id in changing and v.producer not in found for op in needed for v in op.operands)
    tiles = any(isinstance(value.type, Tensor) for op in needed for value in op.results)
    return () if late or tiles else needed


def _carried(program: Program, made: Mapping[int, int]) -> frozenset[int]:
    """What iterations hand on to the next, by the loop around the operations."""
    indices = frozenset(made.values())
    blocks = (block for block in program.function.blocks() if any(op.index in indices for op in block.ops))
    return frozenset(value.id for block in blocks for value in block.args[1:])


def _drained(statements: Sequence[Statement]) -> bool:
    """Whether no MMA is in flight at the end of an iteration."""
    last = max((i for i, one in enumerate(statements) if isinstance(one, MmaIssue)), default=-1)
    waits = (one.pending for one in statements[last + 1 :] if isinstance(one, MmaWait))
    return last < 0 or 0 in waits
