"""Matrix multiply-accumulate on the tensor cores."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from twill.diagnostics import TwillError
from twill.ir.loop import DotOperand, MemDesc, Op, Tensor, Value
from twill.ops import rules
from twill.ops.meaning import of_op
from twill.ops.row import Environment, Meaning, Role, Row, Syntax, Values
from twill.ops.values import Array, Operand, TensorBuffer, element, shape_of


def product(a: Array, b: Array) -> Array:
    """A matrix product, of integers in int32, of anything else in float32."""
    kind = np.int32 if np.asarray(a).dtype.kind == "i" else np.float32
    return np.asarray(a, kind) @ np.asarray(b, kind)


def _accumulated(op: Op, operands: Sequence[Operand]) -> Array:
    made = product(*factors(op, operands[:2]))
    return made + np.asarray(operands[2], made.dtype)


BY_FMA = "tt.dot by multiply-adds"
"""What a dot costs as that no tensor core has."""


def is_plain(op: Op) -> bool:
    """Whether the layouts of the operands of a `tt.dot` are those of no MMA: of float32 in full precision, of
    tiles too small for one."""
    kinds = [value.type for value in op.operands[:2]]
    return all(
        isinstance(kind, Tensor)
        and len(kind.shape) == 2
        and not (isinstance(kind.encoding, DotOperand) and kind.encoding.k_width is not None)
        for kind in kinds
    )


def inputs(op: Op) -> tuple[Value, ...]:
    """What an MMA into tensor memory reads besides its accumulator: A, B, and scale factors of both where it
    has some."""
    buffers = tuple(value for value in op.operands if isinstance(value.type, MemDesc))
    return (*buffers[:2], *buffers[3:])


def copied_scales(op: Op) -> tuple[tuple[Value, int], ...]:
    """The scale factors of an MMA that lie in shared memory, from where the MMA copies them to tensor memory
    first; with the columns they take there: 128 rows x 4 of them lie in four columns (PTX ISA, tcgen05.cp
    .32x128b.warpx4)."""
    found = list[tuple[Value, int]]()
    for value in inputs(op)[2:]:
        if isinstance(value.type, MemDesc) and value.type.space == "smem":
            rows, count = value.type.shape[-2:]
            found.append((value, 4 * -(-rows // 128) * -(-count // 4)))
    return tuple(found)


_E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)
"""By code (OCP Microscaling Formats, FP4)."""
_BIAS = 127
"""Of the exponent that a scale factor of type e8m0 is."""


def packed(op: Op, position: int) -> bool:
    """Whether operand A (0) or B (1) holds two e2m1 in a byte, neighbours along K, the first one in the lower
    half."""
    return op.attributes.get(("lhs", "rhs")[position]) == "e2m1"


def depth(op: Op) -> int:
    """K of an MMA into tensor memory, in elements."""
    return shape_of(op.operands[0].type)[-1] * (1 + packed(op, 0))


def factors(op: Op, read: Sequence[Operand]) -> tuple[Array, Array]:
    """A (M x K) and B (K x N) as an MMA multiplies them, from what `inputs` are: decoded, and times their
    scale factors (rows x K / vector of A, of the transposed B)."""
    tiles = [np.asarray(one.contents if isinstance(one, TensorBuffer) else one) for one in read]
    a, b = (_decoded(op, i, tile) for i, tile in enumerate((tiles[0], tiles[1].T)))
    if len(tiles) > 2:
        a, b = (
            one * np.repeat(_scales(value, scales), one.shape[1] // scales.shape[1], axis=1)
            for one, value, scales in zip((a, b), inputs(op)[2:], tiles[2:], strict=True)
        )
    return _as_read(op, a), _as_read(op, b.T)


_TF32 = np.uint32(0xFFFFE000)
"""The bits of a float32 that the tensor core reads: sign, exponent and 10 bits of the fraction."""


def _as_read(op: Op, tile: Array) -> Array:
    """An operand as the tensor core reads it: float32 as tf32, whose lower bits are ignored (PTX ISA,
    mma.sync, wgmma.mma_async, tcgen05.mma). TTGIR names the precision of MMAs in registers, as a word or by
    number; FMAs compute another."""
    in_memory = isinstance(op.operands[2].type, MemDesc)
    rounded = in_memory or op.attributes.get("inputPrecision") in ("tf32", 0)
    if not rounded or element(op.operands[0].type) != "f32" or tile.dtype != np.float32:
        return tile
    return (np.ascontiguousarray(tile).view(np.uint32) & _TF32).view(np.float32)


def _decoded(op: Op, position: int, tile: Array) -> Array:
    """Rows of K."""
    if not packed(op, position) or tile.dtype.kind == "f":  # not a number: it has not arrived
        return np.repeat(tile, 2, axis=1) if packed(op, position) else tile
    codes = np.asarray(tile).astype(np.uint8)
    return _E2M1[np.stack([codes & 15, codes >> 4], axis=-1).reshape(len(codes), -1)]


def _scales(value: Value, scales: Array) -> Array:
    if element(value.type).startswith("f") or scales.dtype.kind == "f":
        return np.abs(np.asarray(scales, np.float32))
    return np.ldexp(np.float32(1), scales.astype(np.uint8).astype(np.int32) - _BIAS)


def _into_tensor_memory(op: Op, operands: Sequence[Operand], environment: Environment) -> Values:
    """A and B, the buffer of D (and a token), scale factors of some, whether D is added to, whether anything
    is done."""
    by_value = {value.id: found for value, found in zip(op.operands, operands, strict=True)}
    d, (accumulates, predicate) = operands[2], operands[-2:]
    read = [by_value[value.id] for value in inputs(op)]
    unwritten = any(isinstance(one, TensorBuffer) and one.contents is None for one in read)
    if unwritten or (accumulates and d.contents is None):
        raise TwillError("tensor memory is read before it is written", op.location)
    if predicate:
        made = product(*factors(op, read))
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
    _dot("ttng.tc_gen5_mma_scaled", 5, _into_tensor_memory, role="tensor_memory_mma", token=True),
)
