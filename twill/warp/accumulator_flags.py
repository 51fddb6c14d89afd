"""Whether MMAs add to what tensor memory has, and the stores that they make superfluous.

Takes the flag of an MMA into tensor memory; gives how its accumulation begins. A store of a constant before
a loop whose first MMA overwrites it is not needed.
"""

from collections.abc import Sequence

from twill.ir.loop import Loop, Op, Value
from twill.ir.statements import Accumulate
from twill.ops.table import role
from twill.warp.dataflow import Code, blocks, zero
from twill.warp.tasks import Scheduled, Task
from twill.warp.tensor_memory import accesses, outside


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
