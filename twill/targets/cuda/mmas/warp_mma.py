"""mma.sync: an MMA that every warp executes by itself, on operands in registers.

Takes a `tt.dot` whose tiles are in exact linear layouts (`extract.rewrite.layouts.literal_layouts`); gives C.
Raises ValueError for a layout or types that the instructions do not have (PTX ISA, "mma").
"""

from math import prod

from twill.ir.distribution import distribution, powers
from twill.ir.loop import Bases, DotOperand, Op, Scalar, Tensor, Type
from twill.ops.c import c_type
from twill.ops.mma import is_plain
from twill.ops.values import element
from twill.targets.cuda.mmas import plain_dot
from twill.targets.cuda.registers.fragments import staged
from twill.targets.cuda.registers.linear_tiles import Spread, literal, spread

TYPES = {
    "f16": ("f32", "f16"),
    "bf16": ("f32",),
    "f32": ("f32",),
    "f8E4M3FN": ("f32",),
    "f8E5M2": ("f32",),
    "i8": ("i32",),
}
"""The accumulators' types by that of both operands."""
SUMS = 4
"""Instructions that a warp has in progress where none waits for another one: each takes some four times as
long as a quarter of the tensor core works on it (35 cycles of latency, see [costs.mma_sync], and 8)."""
LONG = 8
"""Instructions of one accumulator from which on K is divided into sums. (On an H200 that is slower for
fewer, and for two accumulators.)"""
BITS = {"f16": 16, "bf16": 16, "f32": 32, "f8E4M3FN": 8, "f8E5M2": 8, "i8": 8}


def unsupported(op: Op) -> str | None:
    """Why a `tt.dot` can not be generated; None where it may be."""
    kinds = [value.type.dtype for value in op.operands if isinstance(value.type, Tensor)]
    names = [kind.name for kind in kinds if isinstance(kind, Scalar)]
    if len(names) != 3 or any(not _known(value.type) for value in op.operands if value not in staged(op)):
        return "of tiles in other layouts than those of mma.sync can not be generated"
    if is_plain(op):
        return plain_dot.unsupported(op)
    if names[0] != names[1] or names[2] not in TYPES.get(names[0], ()):
        return f"of {' and '.join(names[:2])} that adds to {names[2]} can not be generated"
    return None


def _known(type: Type) -> bool:
    """A tile that is held exactly as a layout says which is known here."""
    return isinstance(type, Tensor) and literal(type) and distribution(type.encoding, type.shape) is not None


def call(op: Op, accumulator: str, a: str, b: str, lean: bool = False) -> str:
    """All instructions of a warp's part, on arrays of registers. Of a single column, which all threads of a
    row hold, and of 8 rows and less, which stand twice in an instruction, each register stands for two. Where
    K ends with the elements that threads hold side by side, an instruction takes two words of these. `lean`:
    in as few registers as there may be."""
    left, right, result = (value.type for value in (*op.operands[:2], op.result))
    assert isinstance(left, Tensor)
    assert isinstance(right, Tensor)
    assert isinstance(result, Tensor)
    width = _width(left, right)
    d, x, y = spread(result), spread(left), spread(right)
    beside: Bases = ((0, 1),) if result.shape[1] > 1 else ()
    below: Bases = ((8, 0),) if result.shape[0] > 8 else ()
    own = len(beside) + len(below)
    columns = _count(d, own)
    depth = left.shape[1] // (8 * width)
    short = left.shape[1] == 4 * width
    rows = d.registers // (columns << own)
    second = () if short else (4 * width,)
    half = _log(width) + len(below) + len(second)
    expected = (
        (*beside, *below, *_further(d, own)),
        (*((0, k) for k in powers(1, width)), *below, *((0, k) for k in second), *_further(x, half)),
        (
            *((k, 0) for k in powers(1, width)),
            *((k, 0) for k in second),
            *_further(y, _log(width) + len(second)),
        ),
    )
    along = 1 if short else depth
    sizes = (rows * columns << own, rows * along << half, (width << len(second)) * columns * along)
    found = (d.register, x.register, y.register)
    if found != expected or sizes != (d.registers, x.registers, y.registers) or along < 1:
        raise ValueError("has operands in layouts that mma.sync does not have")
    if short and (own < 2 or width * BITS[element(left)] < 64):
        raise ValueError("has too few elements along K for mma.sync")
    if short:
        return f"warp_mma_short<{c_type(left)}, {rows}, {columns}, {width}>({accumulator}, {a}, {b});"
    numbers = f"{c_type(left)}, {rows}, {columns}, {depth}, {width}"
    steps = depth * width * BITS[element(left)] // 32
    sums = 1 if lean or BITS.get(element(result), 32) < 32 else _sums(rows * columns, steps)
    last = f", {sums}" if sums > 1 else ""
    if own == 2:
        return f"warp_mma<{numbers}{last}>({accumulator}, {a}, {b});"
    if BITS.get(element(result), 32) < 32:
        raise ValueError("adds to one column, or to 8 rows or less, in f16")
    held = ", ".join("true" if bit else "false" for bit in (beside, below))
    return f"warp_mma_part<{numbers}, {held}{last}>({accumulator}, {a}, {b});"


def _sums(accumulators: int, steps: int) -> int:
    """Into how many sums K is divided, of so many instructions for each of the accumulators."""
    return SUMS if accumulators == 1 and steps >= LONG else 1


def _width(left: Tensor, right: Tensor) -> int:
    """Elements of K that a thread holds side by side. Raises ValueError where they are less than four bytes,
    or differ."""
    widths = {one.encoding.k_width for one in (left, right) if isinstance(one.encoding, DotOperand)}
    assert isinstance(left.dtype, Scalar)
    (width, *more) = widths or {None}
    if more or not isinstance(width, int) or width * BITS[left.dtype.name] < 32:
        raise ValueError("has operands in layouts that mma.sync does not have")
    return width


def _count(form: Spread, first: int) -> int:
    """Instructions along the columns of an accumulator, of which one has the first registers."""
    return prod(2 for vector in form.register[first:] if vector[1])


def _further(form: Spread, first: int) -> Bases:
    """The registers beyond one instruction: columns before rows, both rising."""
    rest = form.register[first:]
    inner = sorted((v for v in rest if v[1] and not v[0]), key=lambda v: v[1])
    outer = sorted((v for v in rest if v[0] and not v[1]), key=lambda v: v[0])
    return (*inner, *outer)


def _log(size: int) -> int:
    return size.bit_length() - 1
