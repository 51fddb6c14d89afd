"""Matrix multiply-accumulate on the tensor cores."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from twill.ir.loop import Op
from twill.ops import rules
from twill.ops.meaning import of_op
from twill.ops.row import Meaning, Role, Row, Syntax
from twill.ops.values import Array, Operand


def product(a: Array, b: Array) -> Array:
    """A matrix product, of integers in int32, of anything else in float32."""
    kind = np.int32 if np.asarray(a).dtype.kind == "i" else np.float32
    return np.asarray(a, kind) @ np.asarray(b, kind)


def _accumulated(op: Op, operands: Sequence[Operand]) -> Array:
    made = product(operands[0], operands[1])
    return made + np.asarray(operands[2], made.dtype)


def _dot(
    name: str, operands: int, meaning: Meaning | None = None, *, role: Role = "value", token: bool = False
) -> Row:
    syntax = Syntax(operands=operands, token=token)
    return Row(name=name, kind="mma", word="dot", access="mma", role=role, syntax=syntax, meaning=meaning)


ROWS = (
    _dot("tt.dot", 3, of_op(_accumulated), role="dot"),
    _dot("tt.dot_scaled", 3),
    replace(
        _dot("ttng.warp_group_dot", 3, of_op(_accumulated), role="wgmma"), counts=(3, 4, 1), rule=rules.mma
    ),
    _dot("ttng.tc_gen5_mma", 5, token=True),
    _dot("ttng.tc_gen5_mma_scaled", 5, token=True),
)
