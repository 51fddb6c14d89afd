"""Matrix multiply-accumulate on the tensor cores."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from twill.diagnostics import TwillError
from twill.ir.loop import Op
from twill.ops import rules
from twill.ops.meaning import of_op
from twill.ops.row import Environment, Meaning, Role, Row, Syntax, Values
from twill.ops.values import Array, Operand, TensorBuffer


def product(a: Array, b: Array) -> Array:
    """A matrix product, of integers in int32, of anything else in float32."""
    kind = np.int32 if np.asarray(a).dtype.kind == "i" else np.float32
    return np.asarray(a, kind) @ np.asarray(b, kind)


def _accumulated(op: Op, operands: Sequence[Operand]) -> Array:
    made = product(operands[0], operands[1])
    return made + np.asarray(operands[2], made.dtype)


def _into_tensor_memory(op: Op, operands: Sequence[Operand], environment: Environment) -> Values:
    """A and B, the buffer of D (and a token), whether D is added to, whether anything is done."""
    a, b, d, *_, accumulates, predicate = operands
    if isinstance(a, TensorBuffer):
        a = a.contents
    if a is None or (accumulates and d.contents is None):
        raise TwillError("tensor memory is read before it is written", op.location)
    if predicate:
        made = product(a, b)
        d.contents = made + d.contents if accumulates else made
    return (None,) * len(op.results)


def _dot(
    name: str, operands: int, meaning: Meaning | None = None, *, role: Role = "value", token: bool = False
) -> Row:
    syntax = Syntax(operands=operands, token=token)
    return Row(name=name, kind="mma", word="dot", access="mma", role=role, syntax=syntax, meaning=meaning)


ROWS = (
    replace(_dot("tt.dot", 3, of_op(_accumulated), role="dot"), repeatable=True),
    _dot("tt.dot_scaled", 3),
    replace(
        _dot("ttng.warp_group_dot", 3, of_op(_accumulated), role="wgmma"), counts=(3, 4, 1), rule=rules.mma
    ),
    _dot("ttng.tc_gen5_mma", 5, _into_tensor_memory, role="tensor_memory_mma", token=True),
    _dot("ttng.tc_gen5_mma_scaled", 5, token=True),
)
