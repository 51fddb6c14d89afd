"""MMAs of a branch that add to what the loop carries, in place.

If-conversion (`extract.rewrite.control.predication`) lets an MMA of a branch add to zeros, adds what the loop
carries to its result, and selects between that sum and what was there before. Where the branch is left out as
a whole (`warp.skipped`), it is executed only where the select chooses the sum: the MMA may then add to the
variable that the loop carries, which is neither added nor selected.

Takes the statements of an iteration from where the branch is known; gives those that an iteration which takes
it executes, with fewer waits: one that no arithmetic follows before all MMAs are awaited is not needed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from twill.ir.effects import effects, registers
from twill.ir.loop import Op, Scalar, Tensor, Value
from twill.ir.operands import Register
from twill.ir.program import Program
from twill.ir.statements import SLICES, Compute, ConsumerWait, MmaIssue, MmaWait, Statement
from twill.ops.values import element
from twill.warp.skipped import Skipped
from twill.warp.slot_tensors import bits

_SUMS = ("arith.addf", "arith.addi")
_WHOLE = ("f32", "f16", "i32")
"""Types of accumulators whose MMAs and sums add alike."""
_ROUGH = 8
"""Bits of operands that tensor cores of Hopper add with fewer bits than float32 has: sums stay apart."""


@dataclass(frozen=True, slots=True)
class _Update:
    """An MMA that adds to zeros, the sum of its result and what is carried, and the choice between them."""

    issues: tuple[MmaIssue, ...]
    sum: Compute
    choice: Compute
    carried: Register


def in_place(program: Program, found: Skipped, statements: Sequence[Statement]) -> tuple[Statement, ...]:
    """The statements where the iteration takes the branch; themselves where nothing in it adds like that."""
    changed, gone = dict[int, Statement](), set[int]()
    for update in _updates(program, found, statements):
        gone |= {id(update.sum), id(update.choice)}
        for issue in update.issues:
            changed[id(issue)] = replace(issue, accumulator=update.carried, accumulate="always")
    if not changed:
        return tuple(statements)
    left = [changed.get(id(one), one) for one in statements if id(one) not in gone]
    return tuple(one for place, one in enumerate(left) if not _needless(found, left, place))


def _updates(program: Program, found: Skipped, statements: Sequence[Statement]) -> Iterator[_Update]:
    computes = [one for one in statements if isinstance(one, Compute) and found.branch.alone(one)]
    users = program.function.users()
    for choice in computes:
        select = program.op(choice.ops[-1])
        old = found.branch.selects.get(select.result.id) if len(select.results) == 1 else None
        if old is None or not _entire(choice) or len(choice.writes) != 1:
            continue
        carried, total = choice.writes[0].register, select.operands[1]
        sums = [one for one in computes if [write.value for write in one.writes] == [total.id]]
        if len(sums) != 1 or not _entire(sums[0]) or len(sums[0].ops) != 1:
            continue
        add = program.op(sums[0].ops[0])
        part = _other(add, old)
        if part is None or [user.index for user in users.get(total.id, ())] != [select.index]:
            continue
        issues = tuple(one for one in statements if isinstance(one, MmaIssue) and _makes(program, one, part))
        read = {user.index for user in users.get(old, ())}
        own = read <= {add.index, select.index} and [u.index for u in users.get(part.id, ())] == [add.index]
        if issues and own and _alone(statements, choice, sums[0], carried) and _exact(program, issues):
            yield _Update(issues, sums[0], choice, carried)


def _entire(one: Compute) -> bool:
    return (one.begin, one.end, one.deferred) == (0, SLICES, False)


def _other(add: Op, old: int) -> Value | None:
    """What is added to a value of a type that MMAs add to."""
    others = [value for value in add.operands if value.id != old]
    kind = add.result.type if len(add.results) == 1 else None
    known = isinstance(kind, Tensor) and isinstance(kind.dtype, Scalar) and kind.dtype.name in _WHOLE
    return others[0] if known and add.name in _SUMS and len(others) == 1 else None


def _makes(program: Program, one: MmaIssue, part: Value) -> bool:
    return program.op(one.ops[-1]).result.id == part.id


def _alone(statements: Sequence[Statement], choice: Compute, total: Compute, carried: Register) -> bool:
    """Whether only the choice writes the variable that the loop carries, which it and the sum read there."""
    written = [one for each in statements for one in registers(effects(each).writes)]
    here = all(any(read.location == carried for read in one.reads) for one in (choice, total))
    return carried.age == 0 and here and sum(one.variable == carried.variable for one in written) == 1


def _exact(program: Program, issues: Sequence[MmaIssue]) -> bool:
    """Whether the MMAs add to zeros, and as exactly as the sum does."""
    kind = element(program.op(issues[0].ops[-1]).operands[1].type)
    return (kind == "i8" or bits(Scalar(kind)) > _ROUGH) and all(one.accumulate == "never" for one in issues)


def _needless(found: Skipped, statements: Sequence[Statement], place: int) -> bool:
    """Whether a statement is a wait behind which the branch has nothing but MMAs until all are awaited."""
    if not isinstance(statements[place], MmaWait):
        return False
    passed = MmaIssue | ConsumerWait
    rest = statements[place + 1 :]
    after = next((one for one in rest if not isinstance(one, passed) or not found.branch.alone(one)), None)
    return isinstance(after, MmaWait) and after.pending == 0
