"""Matrices of a warp: ldmatrix, stmatrix, movmatrix and mma.sync (PTX ISA, "Warp Level Matrix
Multiply-Accumulate Instructions")."""

from collections.abc import Mapping

import numpy as np

from twill.emulate.decode import Control, Decoder, Ref, control
from twill.emulate.faults import Fault
from twill.emulate.machine.warp import ALL, Warp
from twill.emulate.memory.clocks import Array
from twill.emulate.opcodes.lift import Pure, get, put
from twill.emulate.opcodes.memory import aligned, items, load_shared, store_shared, where
from twill.emulate.opcodes.wgmma import values
from twill.emulate.opcodes.windows import CVTA
from twill.emulate.ptx.syntax import Instruction, Operand

# --- rows of 16 bytes --------------------------------------------------------------------------------------


def _whole(warp: Warp, what: str) -> int:
    """The whole warp is here; or BLOCKED."""
    blocked = warp.gather(ALL, what)
    if not blocked and warp.mask != ALL:
        raise Fault(f"{what} is executed by a part of a warp")
    return blocked


def _addresses(at: Array, count: int) -> Array:
    """Of the rows of `count` matrices, which the first lanes give."""
    rows = at[: 8 * count]
    rows = np.where(rows >> 48 != 0, rows - CVTA["shared"], rows)
    aligned(rows, 16)
    return rows


def _form(one: Instruction) -> tuple[int, bool]:
    """How many matrices, and whether transposed. Raises ValueError for elements of other sizes than 16
    bits."""
    if "m8n8" not in one.modifiers or one.modifiers[-1] != "b16":
        raise ValueError("only .m8n8 of .b16")
    return next(
        int(part[1:]) for part in one.modifiers if part in ("x1", "x2", "x4")
    ), "trans" in one.modifiers


def fragments(matrices: Array, transposed: bool) -> Array:
    """Elements (matrix, row, column) of 16 bits as words of lanes (matrix, 32)."""
    turned = matrices.transpose(0, 2, 1) if transposed else matrices
    return np.ascontiguousarray(turned).view(np.uint32).reshape(len(matrices), 32)


def rows(words: Array, transposed: bool) -> Array:
    """The inverse of `fragments`."""
    matrices = np.ascontiguousarray(words).view(np.uint16).reshape(-1, 8, 8)
    return matrices.transpose(0, 2, 1) if transposed else matrices


@control("ldmatrix")
def _ldmatrix(one: Instruction, decoder: Decoder) -> Control:
    count, transposed = _form(one)
    refs = [decoder.target(item, "b32") for item in items(one.operands[0])]
    at, line = where(one.operands[1], decoder), one.line

    def run(warp: Warp) -> int:
        if blocked := _whole(warp, "ldmatrix"):
            return blocked
        warp.require(at.ref.code, at.ref.index, "an address")
        data, valid = load_shared(warp, _addresses(at.of(warp), count), 16, line)
        words = fragments(data.view(np.uint16).reshape(count, 8, 8), transposed)
        for i, ref in enumerate(refs):
            put(warp, ref, words[i], ALL if valid.all() else _known(valid[8 * i : 8 * i + 8], transposed))
        return warp.fragment.pc + 1

    return run


def _known(rows: Array, transposed: bool) -> int:
    """Lanes whose elements come from defined rows."""
    per_lane = np.array([rows.all()] * 32) if transposed else np.repeat(rows, 4)
    return int.from_bytes(np.packbits(per_lane, bitorder="little").tobytes(), "little")


@control("stmatrix")
def _stmatrix(one: Instruction, decoder: Decoder) -> Control:
    count, transposed = _form(one)
    at, line = where(one.operands[0], decoder), one.line
    refs = [decoder.source(item, "b32") for item in items(one.operands[1])]

    def run(warp: Warp) -> int:
        if blocked := _whole(warp, "stmatrix"):
            return blocked
        warp.require(at.ref.code, at.ref.index, "an address")
        data = rows(np.stack([get(warp, ref) for ref in refs]), transposed)
        valid = np.repeat([warp.valid[2][ref.index] == ALL for ref in refs], 8)
        store_shared(
            warp,
            _addresses(at.of(warp), count),
            np.ascontiguousarray(data).reshape(-1, 8).view(np.uint8),
            valid,
            line,
        )
        return warp.fragment.pc + 1

    return run


@control("movmatrix")
def _movmatrix(one: Instruction, decoder: Decoder) -> Control:
    target, source = decoder.target(one.operands[0], "b32"), decoder.source(one.operands[1], "b32")

    def run(warp: Warp) -> int:
        if blocked := _whole(warp, "movmatrix"):
            return blocked
        put(
            warp,
            target,
            fragments(rows(get(warp, source)[None], False), True)[0],
            ALL if warp.valid[2][source.index] == ALL else 0,
        )
        return warp.fragment.pc + 1

    return run


# --- mma.sync ---------------------------------------------------------------------------------------------

_EACH: Mapping[str, int] = {"f16": 2, "bf16": 2, "tf32": 1, "f32": 1, "e4m3": 4, "e5m2": 4, "s8": 4, "u8": 4}
"""Elements of a register."""


def left(words: Array, type: str) -> Array:
    """A (16, K) of registers: rows g and g + 8 alternate, then the next columns."""
    count = len(words)
    octets = np.ascontiguousarray(words).view(np.uint8).reshape(count // 2, 2, 8, 4, 4)
    return values(np.ascontiguousarray(octets.transpose(1, 2, 0, 3, 4).reshape(16, -1)), type).reshape(16, -1)


def right(words: Array, type: str) -> Array:
    """B (8, K), transposed, of registers."""
    octets = np.ascontiguousarray(words).view(np.uint8).reshape(-1, 8, 4, 4)
    return values(np.ascontiguousarray(octets.transpose(1, 0, 2, 3).reshape(8, -1)), type).reshape(8, -1)


def _square(words: Array, kind: str) -> Array:
    """C (16, 8)."""
    if kind == "f16":
        return words.view(np.float16).reshape(2, 8, 4, 2).reshape(16, 8)
    return (
        words.view({"f32": np.float32, "s32": np.int32}[kind])
        .reshape(2, 2, 8, 4)
        .transpose(0, 2, 3, 1)
        .reshape(16, 8)
    )


def _words(tile: Array, kind: str) -> Array:
    if kind == "f16":
        return np.ascontiguousarray(tile.astype(np.float16).reshape(2, 32, 2)).view(np.uint32).reshape(2, 32)
    whole = np.ascontiguousarray(tile.reshape(2, 8, 4, 2).transpose(0, 3, 1, 2))
    return whole.view(np.uint32).reshape(4, 32)


def _refs(operand: Operand, decoder: Decoder) -> list[Ref]:
    return [
        Ref("u32", ref.code, ref.index) for ref in (decoder.source(item, "u32") for item in items(operand))
    ]


@control("mma.sync")
def _mma(one: Instruction, decoder: Decoder) -> Control:
    """Of 16 rows and 8 columns, with A by rows and B by columns."""
    if (
        any(part in ("sp", "sp::ordered_metadata", "block_scale", "b1", "f64") for part in one.modifiers)
        or "m16n8" not in one.opcode
    ):
        raise ValueError("this form")
    d_type, a_type, b_type, c_type = [part for part in one.modifiers if part in ("f32", "s32", *_EACH)][-4:]
    d, a, b, c = (_refs(operand, decoder) for operand in one.operands[:4])
    saturate = "satfinite" in one.modifiers
    dot: Pure = _whole_dot if d_type == "s32" else _real_dot

    def run(warp: Warp) -> int:
        if blocked := _whole(warp, "mma.sync"):
            return blocked
        held = [np.stack([get(warp, ref) for ref in refs]) for refs in (a, b, c)]
        made = dot(left(held[0], a_type), right(held[1], b_type), _square(held[2], c_type), saturate)
        known = ALL if all(warp.valid[2][ref.index] == ALL for refs in (a, b, c) for ref in refs) else 0
        for ref, word in zip(d, _words(made, d_type), strict=True):
            put(warp, ref, word, known)
        return warp.fragment.pc + 1

    return run


def _real_dot(a: Array, b: Array, c: Array, saturate: bool) -> Array:
    return c.astype(np.float32) + a @ b.T


def _whole_dot(a: Array, b: Array, c: Array, saturate: bool) -> Array:
    exact = (a.astype(np.float64) @ b.T.astype(np.float64)).astype(np.int64) + c
    return (np.clip(exact, -(1 << 31), (1 << 31) - 1) if saturate else exact).astype(np.int32)
