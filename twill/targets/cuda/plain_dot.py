"""Dots that run on no tensor core: of float32 in full precision, of tiles too small for an MMA.

Takes a `tt.dot` whose tiles are in exact linear layouts; gives C. Each thread holds all of K for the rows and
the columns of its elements of the result, and adds up one element after the other.
"""

from math import prod

from twill.ir.distribution import powers
from twill.ir.loop import DotOperand, Op, Tensor
from twill.ops.c import c_type
from twill.targets.cuda.linear_tiles import Point, Vector, spread
from twill.targets.cuda.register_tiles import Elements
from twill.targets.cuda.shared_tiles import UNROLL

MOST = 1 << 13
"""Products of one thread, which are all printed by the compiler."""


def is_plain(op: Op) -> bool:
    """Whether the layouts of the operands are those of no MMA."""
    kinds = [value.type for value in op.operands[:2]]
    return all(
        isinstance(kind, Tensor)
        and isinstance(kind.encoding, DotOperand)
        and kind.encoding.k_width is None
        and len(kind.shape) == 2
        for kind in kinds
    )


def unsupported(op: Op) -> str | None:
    """Why such a dot can not be generated; None where it may be."""
    left, result = op.operands[0].type, op.result.type
    assert isinstance(left, Tensor)
    assert isinstance(result, Tensor)
    if str(getattr(result.dtype, "name", "")) not in ("f32", "f64", "i32"):
        return "without the tensor core that adds to such numbers can not be generated"
    threads = prod(2 for _ in (*spread(result).lane, *spread(result).warp))
    work = prod(result.shape) * left.shape[1] // threads
    return None if work <= MOST else f"without the tensor core of {left.shape} can not be generated"


def lines(op: Op, name: str, a: Elements, b: Elements) -> list[str]:
    """Adds the products to the result's registers."""
    left, right, result = (value.type for value in (*op.operands[:2], op.result))
    assert isinstance(left, Tensor)
    assert isinstance(right, Tensor)
    assert isinstance(result, Tensor)
    depth, form = left.shape[1], spread(result)

    def operand(axis: int, shape: tuple[int, ...]) -> Point:
        """The element of A (axis 0) or B for step i_ of the result's registers and k_ of K."""

        def kept(vector: Vector) -> Vector:
            return (vector[0], 0) if axis == 0 else (0, vector[1])

        along = tuple((0, k) if axis == 0 else (k, 0) for k in powers(1, depth))
        register = (*along, *map(kept, form.register))
        return Point(
            shape,
            register,
            tuple(map(kept, form.lane)),
            tuple(map(kept, form.warp)),
            (0, 0),
            f"(i_ * {depth} + k_)",
        )

    kind = c_type(result)
    product = f"{kind}({a(operand(0, left.shape))}) * {kind}({b(operand(1, right.shape))})"
    return [
        UNROLL,
        f"for (int i_ = 0; i_ < {form.registers}; ++i_)",
        "    " + UNROLL,
        f"    for (int k_ = 0; k_ < {depth}; ++k_) {name}[i_] += {product};",
    ]
