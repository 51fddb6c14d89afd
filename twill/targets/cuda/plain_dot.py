"""Dots that run on no tensor core: of float32 in full precision, of tiles too small for an MMA.

Takes a `tt.dot` whose result is in an exact linear layout; gives C. Each thread holds all of K for the rows
and the columns of its elements of the result, and adds up one element after the other. An operand that is in
another layout (`extract.rewrite.staged_tiles`) lies in shared memory, from where all threads read it, K by K;
so does a loaded one of which a thread would hold too much.
"""

from dataclasses import dataclass
from math import prod

from twill.ir.distribution import distribution, powers
from twill.ir.loop import Bases, DotOperand, Op, Tensor
from twill.ops.c import c_type
from twill.targets.cuda.fragments import staged
from twill.targets.cuda.linear_tiles import Point, Vector, spread
from twill.targets.cuda.register_tiles import Elements, Held
from twill.targets.cuda.shared_tiles import UNROLL

MOST = 1 << 13
"""Products of one thread, which are all printed by the compiler."""

IN_REGISTERS = 128
"""Elements of an operand for each thread up to which it is read into registers: half of what a thread has."""
AT_ONCE = 4
"""Of K, what a thread reads from shared memory at once: 16 bytes of a row of A in one access."""


def is_plain(op: Op) -> bool:
    """Whether the layouts of the operands are those of no MMA."""
    kinds = [value.type for value in op.operands[:2]]
    return all(
        isinstance(kind, Tensor)
        and len(kind.shape) == 2
        and not (isinstance(kind.encoding, DotOperand) and kind.encoding.k_width is not None)
        for kind in kinds
    )


def too_large(tile: Tensor) -> bool:
    """Whether an operand of such a dot has too many elements for the registers of a thread."""
    plain = isinstance(tile.encoding, DotOperand) and tile.encoding.k_width is None and len(tile.shape) == 2
    found = distribution(tile.encoding, tile.shape) if plain else None
    return found is not None and found.per_thread > IN_REGISTERS


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
    k_by_k = staged(op) or any(too_large(one.type) for one in op.operands[:2] if isinstance(one.type, Tensor))
    left, right, result = (value.type for value in (*op.operands[:2], op.result))
    assert isinstance(left, Tensor)
    assert isinstance(right, Tensor)
    assert isinstance(result, Tensor)
    depth, form = left.shape[1], spread(result)

    def operand(axis: int, shape: tuple[int, ...], register: str = "i_") -> Point:
        """The element of A (axis 0) or B for a register of the result and step k_ of K."""

        def kept(vector: Vector) -> Vector:
            return (vector[0], 0) if axis == 0 else (0, vector[1])

        along = tuple((0, k) if axis == 0 else (k, 0) for k in powers(1, depth))
        registers = (*along, *map(kept, form.register))
        return Point(
            shape,
            registers,
            tuple(map(kept, form.lane)),
            tuple(map(kept, form.warp)),
            (0, 0),
            f"({register} * {depth} + k_)",
        )

    kind = c_type(result)
    if k_by_k:
        first, second = (_Line.along(form.register, axis) for axis in (0, 1))
        elements = (
            a(operand(0, left.shape, first.register)),
            b(operand(1, right.shape, second.register)),
        )
        unroll = UNROLL if any(isinstance(one, Held) for one in (a, b)) else f"#pragma unroll {AT_ONCE}"
        return [unroll, *_k_by_k(name, kind, depth, form.registers, (first, second), elements)]
    product = f"{kind}({a(operand(0, left.shape))}) * {kind}({b(operand(1, right.shape))})"
    return [
        UNROLL,
        f"for (int i_ = 0; i_ < {form.registers}; ++i_)",
        "    " + UNROLL,
        f"    for (int k_ = 0; k_ < {depth}; ++k_) {name}[i_] += {product};",
    ]


@dataclass(frozen=True, slots=True)
class _Line:
    """The rows, or the columns, of a thread's elements of the result."""

    bits: tuple[int, ...]
    """Of the number of a register, those that it depends on."""

    @classmethod
    def along(cls, registers: Bases, axis: int) -> "_Line":
        return cls(tuple(bit for bit, vector in enumerate(registers) if vector[axis]))

    @property
    def count(self) -> int:
        return 1 << len(self.bits)

    @property
    def register(self) -> str:
        """A register that has number j_ of them."""
        return f"({' + '.join(f'(j_ >> {n} & 1) * {1 << bit}' for n, bit in enumerate(self.bits)) or '0'})"

    @property
    def number(self) -> str:
        """Which of them register i_ has."""
        return " + ".join(f"(i_ >> {bit} & 1) * {1 << n}" for n, bit in enumerate(self.bits)) or "0"


def _k_by_k(
    name: str, kind: str, depth: int, registers: int, held: tuple[_Line, _Line], elements: tuple[str, str]
) -> list[str]:
    """Reads one column of A and one row of B before their products are added."""
    reads = list[str]()
    for operand, line, element in zip("ab", held, elements, strict=True):
        reads += [
            f"    {kind} {operand}_[{line.count}];",
            "    " + UNROLL,
            f"    for (int j_ = 0; j_ < {line.count}; ++j_) {operand}_[j_] = {kind}({element});",
        ]
    rows, columns = (line.number for line in held)
    return [
        f"for (int k_ = 0; k_ < {depth}; ++k_) {{",
        *reads,
        "    " + UNROLL,
        f"    for (int i_ = 0; i_ < {registers}; ++i_) {name}[i_] += a_[{rows}] * b_[{columns}];",
        "}",
    ]
