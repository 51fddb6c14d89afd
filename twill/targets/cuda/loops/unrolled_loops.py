"""Loops that are not scheduled, several iterations of which begin with the loads of all.

Such a loop waits for its loads in each iteration: the compiler moves none over the branch at its end. Takes
the loop's operation and the lines of its body; gives C.
"""

from collections.abc import Sequence

from twill.ir.loop import Op, Tensor
from twill.ops.table import role
from twill.targets.cuda.emitter import indented
from twill.targets.cuda.expressions import atom
from twill.targets.cuda.registers.fragments import holding
from twill.targets.cuda.shared.shared_tiles import UNROLL
from twill.warp.dataflow import EFFECTS

TOGETHER = 4
"""Iterations that are unrolled."""
MOST_LOADED = 16
"""Registers of a thread at most for what an iteration loads (estimate: those of the iterations are loaded
together)."""
KEEPING = frozenset({"for", "while", "if", "barrier"})
"""Operations, beside those with effects, with which a loop stays as it is."""
ORDERING = ("_sync(", "asm", "fence", "mbarrier", "await_reads(")
"""What the compiler moves no load over, shuffles aside."""


def gathers_loads(loop: Op, body: Sequence[str]) -> bool:
    """Whether tiles that an iteration loads follow from its number alone, and nothing in the body keeps those
    of later iterations behind it: no store, no barrier, no other loop. (Loops over numbers are short enough
    for the compiler to unroll them.)"""
    (block,) = loop.regions[0].blocks
    if any(role(op) in KEEPING or op.name in EFFECTS for op in loop.inner()) or any(map(_orders, body)):
        return False
    carried = {value.id for value in block.args[1:]}
    loaded = 0
    for op in block.ops:
        known = not any(value.id in carried for one in (op, *op.inner()) for value in one.operands)
        if not known:
            carried |= {value.id for value in op.results}
        elif role(op) == "pointer_load":
            loaded += _registers(op)
    return 0 < loaded <= MOST_LOADED


def _orders(line: str) -> bool:
    return any(word in line.replace("__shfl_xor_sync(", "") for word in ORDERING)


def _registers(load: Op) -> int:
    """Of a thread for a tile."""
    kind = load.result.type
    return holding(kind).registers if isinstance(kind, Tensor) else 0


def unrolled(name: str, lower: str, upper: str, step: str, body: Sequence[str]) -> list[str]:
    """As many iterations together as there are, the others one by one."""
    more = f"int64_t({name}) + {TOGETHER - 1} * {atom(step)} < {upper}"
    several = f"for (int together_ = 0; together_ < {TOGETHER}; ++together_, {name} += {step}) {{"
    return [
        "{",
        f"    int32_t {name} = {lower};",
        f"    while ({more}) {{",
        f"        {UNROLL}",
        *indented(indented([several, *indented(body), "}"])),
        "    }",
        "    #pragma unroll 1",
        f"    for (; {name} < {upper}; {name} += {step}) {{",
        *indented(indented(body)),
        "    }",
        "}",
    ]
