"""Divisions of the rows of a tile of float32, each row by one number.

Takes the elements of a tile that lies as wgmma has it; gives C. div.full.f32 is a multiplication by the
divisor's reciprocal, between two that scale dividend and divisor where the divisor is very large or very
small: four instructions for an element (ptxas 13.0, sm_90a and sm_100a). Where no divisor of a thread is,
one multiplication for an element gives the same bits. Both forms are in the code then, which takes
registers: only kernels in which several groups compute are faster so (attention of two sub-tiles on an H200,
million SM cycles: 9.57 and 9.54; of one group of eight warps 10.15 and 10.13, and a kernel of vLLM spilled 8
bytes, which made it 14% slower).
"""

from twill.ir.loop import Op, Tensor
from twill.ops.table import lookup, role
from twill.ops.values import element
from twill.targets.cuda.registers.elements import written
from twill.targets.cuda.registers.fragments import Fragment, holding
from twill.targets.cuda.registers.register_tiles import Elements, point
from twill.targets.cuda.scope import Scope
from twill.targets.cuda.shared.shared_tiles import UNROLL
from twill.targets.cuda.values.exchange import WHOLE

LEAST = 16
"""Elements of a row in a thread from which on it pays."""


def by_rows(scope: Scope, op: Op) -> bool:
    """Whether a tile is divided so, all of it now."""
    if not scope.program.several_compute:
        return False
    row, divisor = lookup(op.name), op.operands[-1]
    if row is None or row.word != "div" or divisor.producer is None or scope.span != WHOLE:
        return False
    maker, tile = scope.program.op(divisor.producer), op.result.type
    if role(maker) != "broadcast" or not isinstance(tile, Tensor) or element(tile) != "f32":
        return False
    column, form = maker.operands[0].type, holding(tile)
    by_number = isinstance(column, Tensor) and column.shape == (tile.shape[0], 1)
    if not by_number or not isinstance(form, Fragment) or form.axes != (0, 1) or form.threads:
        return False
    return form.band >= 2 * LEAST and scope.keeps(op.result)


def divided(tile: Tensor, name: str, dividend: Elements, divisor: Elements, plain: Elements) -> list[str]:
    """The quotients into the variable `name`; `plain` is each of them by itself."""
    form = holding(tile)
    assert isinstance(form, Fragment)
    first = point(form, f"(i_ / 2 * {form.band} + i_ % 2 * 2)")
    row = point(form, "i_").along((0,)).register
    quick = written(tile, name, lambda one: f"({dividend(one)} * inverse_[{row}])")
    rows = 2 * form.bands
    return [
        "{",
        f"    float inverse_[{rows}];",
        "    bool usual_ = true;",
        f"    {UNROLL}",
        f"    for (int i_ = 0; i_ < {rows}; ++i_) usual_ &= invert({divisor(first)}, inverse_[i_]);",
        "    if (usual_) {",
        *(f"        {line}" for line in quick),
        "    } else {",
        *(f"        {line}" for line in written(tile, name, plain)),
        "    }",
        "}",
    ]
