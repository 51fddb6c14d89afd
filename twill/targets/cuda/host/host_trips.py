"""How many iterations the loops of a launch have, as the launcher computes it.

Takes a `Program`; gives lines of C. Of a loop whose begin, end and step follow from the kernel's arguments
alone all thread blocks execute as many iterations.
"""

from functools import cache

from twill.ir.loop import Op, Scalar
from twill.ir.program import Program
from twill.ir.slicing import backward_slice
from twill.ir.statements import Pipelined, walk
from twill.ops.table import lookup, role
from twill.targets.cuda.emitter import indented
from twill.targets.cuda.expressions import atom
from twill.targets.cuda.operations import execute
from twill.targets.cuda.scope import Scope

ITERATIONS = "iterations"
"""Of the longest loop."""


@cache
def loops(program: Program) -> tuple[int, ...]:
    """The loops, by operation, whose iterations the launcher can count."""
    found = {one.op for group in program.groups for one in walk(group.body) if isinstance(one, Pipelined)}
    return tuple(index for index in sorted(found) if _follows(program, program.op(index)))


def computed(program: Program) -> list[str]:
    """The lines that compute `ITERATIONS`."""
    lines = [f"int64_t {ITERATIONS} = 0;"]
    for op in map(program.op, loops(program)):
        scope = Scope(program, program.groups[0], {})
        for index, maker in sorted(_makers(program, op).items()):
            if role(program.op(index)) != "constant":
                execute(scope, maker)
        lower, upper, step = (atom(scope.scalar(value)) for value in op.operands[:3])
        count = f"divide_ceiling(int64_t({upper}) - {lower}, int64_t({step}))"
        lines += ["{", *indented([*scope.lines, f"{ITERATIONS} = std::max({ITERATIONS}, {count});"]), "}"]
    return lines


def _makers(program: Program, loop: Op) -> dict[int, Op]:
    return backward_slice(loop.operands[:3], program.maker)


def _follows(program: Program, loop: Op) -> bool:
    """Whether the bounds of a loop are numbers that follow from arguments."""
    if role(loop) != "for":
        return False
    makers = _makers(program, loop)
    known = {value.id for value in program.function.args}
    known |= {result.id for op in makers.values() for result in op.results}
    read = [*loop.operands[:3], *(value for op in makers.values() for value in op.operands)]
    return all(map(_arithmetic, makers.values())) and all(value.id in known for value in read)


def _arithmetic(op: Op) -> bool:
    """Whether it computes a number from others."""
    row = lookup(op.name)
    numbers = all(isinstance(one.type, Scalar) for one in (*op.operands, *op.results))
    pure = row is not None and row.access == "none" and bool(op.operands) and not op.regions
    return role(op) == "constant" or (numbers and pure)
