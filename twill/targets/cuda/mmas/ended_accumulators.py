"""Accumulators that are set to zero before a loop whose first MMA overwrites them.

Takes a group and a loop inside of another one; says whether that saves registers. MMAs name accumulators as
operands that they read and write, so for ptxas the values of one iteration of the outer loop live until the
first MMA of the next one: beside what is computed from them behind the inner loop, and beside accumulators of
other inner loops. Zeros end that, in one instruction for two accumulators. (FlagGems' addmm in tiles of 128 x
128 for a warpgroup, made persistent: 368 bytes of spills at 224 registers, none with zeros.)
"""

from collections.abc import Iterator

from twill.ir.loop import Tensor, Type
from twill.ir.program import Program, WarpProgram
from twill.ir.statements import Compute, For, InitializeCarried, Pipelined, Statement, While, inner, walk
from twill.ops.table import role
from twill.targets.cuda.registers.fragments import Fragment, holding
from twill.targets.cuda.registers.register_tiles import packed


def zeros_save_registers(program: Program, group: WarpProgram, it: Pipelined) -> bool:
    """Whether a thread would need more registers than it has for the accumulators of all loops inside of the
    outer one, and for what a statement behind them loads and computes."""
    outer = next((one for one in walk(group.body) if isinstance(one, For | While) and _holds(one, it)), None)
    if outer is None:
        return False
    inside = [one for part in inner(outer) for one in walk(part)]
    loops = [one for one in inside if isinstance(one, Pipelined)]
    started = {
        one.register.variable for loop in loops for one in loop.zeroed if isinstance(one, InitializeCarried)
    }
    held = sum(_registers(group.variable(name).type) for name in started)
    besides = (_loaded_and_computed(program, one) for one in _beside_loops(outer))
    return held + max(besides, default=0) > group.registers


def _holds(outer: For | While, it: Pipelined) -> bool:
    return any(isinstance(one, Pipelined) and one.op == it.op for part in inner(outer) for one in walk(part))


def _beside_loops(statement: Statement) -> Iterator[Compute]:
    for one in (one for part in inner(statement) for one in part):
        if isinstance(one, Compute):
            yield one
        elif not isinstance(one, Pipelined):
            yield from _beside_loops(one)


def _loaded_and_computed(program: Program, it: Compute) -> int:
    """Registers for the tiles that a statement loads, and for those that it writes."""
    loaded = (op.result.type for op in map(program.op, it.ops) if role(op) == "pointer_load")
    return sum(map(_registers, (*loaded, *(program.value(one.value).type for one in it.writes))))


def _registers(kind: Type) -> int:
    """Of a thread, for a tile as an MMA has its accumulators."""
    if not isinstance(kind, Tensor) or len(kind.shape) != 2 or 1 in kind.shape:
        return 0
    form = holding(kind)
    whole = isinstance(form, Fragment) and form.axes == (0, 1)
    return form.registers // (2 if packed(kind) else 1) if whole else 0
