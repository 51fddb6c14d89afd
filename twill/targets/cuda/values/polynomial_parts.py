"""Tiles of which a polynomial computes some elements, and another unit the others (`ops.row.Polynomial`).

Takes an operation whose row has a polynomial, its operand and how many parts of its elements the schedule
gives to it; gives elements that call the runtime's function with their register, which selects at compile
time.
"""

from twill.ir.loop import Op, Tensor
from twill.ops.table import lookup
from twill.targets.cuda.registers.register_tiles import AnyPoint, Elements, held
from twill.targets.cuda.values.element_pairs import FLOAT, Paired


def divided(op: Op, operand: Elements, parts: int, *, paired: bool) -> Elements:
    """The result of an operation of which a polynomial computes `parts` of `ir.problem.PARTS`. `paired`: one
    instruction computes two float32 elements."""
    row, kind = lookup(op.name), op.result.type
    assert row is not None
    assert row.polynomial is not None
    assert isinstance(kind, Tensor)
    found, register = row.polynomial, held("", kind).register
    call = f"{found.function}<{parts}>"
    scaled = _scaled(operand, found.factor) if found.factor else operand

    def single(point: AnyPoint) -> str:
        return f"{call}({register(point)}, {scaled(point)})"

    return Paired(FLOAT, f"{found.pair}<{parts}>", (scaled,), single, register) if paired else single


def _scaled(operand: Elements, factor: str) -> Elements:
    def single(point: AnyPoint) -> str:
        return f"({operand(point)} * {factor})"

    return Paired(FLOAT, "multiply_pair", (operand, lambda point: factor), single)
