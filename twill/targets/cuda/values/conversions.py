"""Integers of a known short range as narrow floats: two at once by a sum and a subtraction.

Takes a conversion of a tile; gives the C of an element, which the runtime's words of two elements take as it
is (`Nearby` in `runtime/math.cuh`). Weights of 4 bits are such integers. A GPU converts each one to float32
and two of those to a word: three instructions, where the sum has both behind powers of two at once.
"""

from collections.abc import Mapping, Sequence
from functools import cache

from twill.ir.loop import Function, Op
from twill.ops.ranges import Ranges
from twill.ops.table import lookup
from twill.ops.values import element

REACH: Mapping[str, int] = {"f16": 1024, "bf16": 128}
"""By the type of the result: the power of two from which on neighbours are 1 apart, and how many there are up
to the next one."""


@cache
def _ranges(function: Function) -> Ranges:
    return Ranges(function)


def nearby(function: Function, op: Op, operands: Sequence[str]) -> str | None:
    """An element of the result; None where the operation is no such conversion."""
    row = lookup(op.name)
    if row is None or row.word not in ("sitofp", "uitofp"):
        return None
    reach, source = REACH.get(element(op.result.type)), element(op.operands[0].type)
    if reach is None or source == "i1":
        return None
    found = _ranges(function).of(op.operands[0])
    if row.word == "uitofp" and found.low < 0:  # the number without a sign is another one
        return None
    fits = -reach <= found.low < reach and found.high - found.low < reach
    return f"float(nearby<{found.low}>({operands[0]}))" if fits else None
