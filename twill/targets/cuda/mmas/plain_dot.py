"""Dots that run on no tensor core: of float32 in full precision, of tiles too small for an MMA.

Takes a `tt.dot` whose result is in an exact linear layout; gives C. Each thread holds all of K for the rows
and the columns of its elements of the result, and adds up one element after the other. An operand that is in
another layout (`extract.rewrite.mma.staged_tiles`) lies in shared memory, from where all threads read it, K
by K; so does a loaded one of which a thread would hold too much.
"""

from dataclasses import dataclass, replace
from math import prod

from twill.ir.distribution import distribution, powers
from twill.ir.loop import DotOperand, Op, Tensor
from twill.ops.c import c_type
from twill.targets.cuda.registers.fragments import staged
from twill.targets.cuda.registers.linear_tiles import Point, Spread, Vector, spread
from twill.targets.cuda.registers.register_tiles import Elements
from twill.targets.cuda.shared.in_shared import CHUNK, InShared
from twill.targets.cuda.shared.shared_tiles import UNROLL
from twill.warp.slot_tensors import bits

MOST = 1 << 13
"""Products of one thread, which are all printed by the compiler."""

FEWEST = 1 << 8
"""Products of one thread at least that are printed one behind the other, where a loop is around them."""
IN_REGISTERS = 32
"""Elements of an operand for each thread up to which it is read into registers: several operands, and what is
read ahead of them, have room (estimate)."""
AT_ONCE = 4
"""Of K, what a thread reads from shared memory at once: 16 bytes of a row of A in one access."""
_WORD = 32
"""Bits of the elements that are read several at a time."""


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
    form, kind = spread(result), c_type(result)
    sides = (_Side(0, left, form, a), _Side(1, right, form, b))
    if k_by_k:
        return _some_of_k(name, kind, left.shape[1], form.registers, sides)
    first, second = (side.element("i_", "k_") for side in sides)
    return [
        UNROLL,
        f"for (int i_ = 0; i_ < {form.registers}; ++i_)",
        "    " + UNROLL,
        f"    for (int k_ = 0; k_ < {left.shape[1]}; ++k_) {name}[i_] += {kind}({first}) * {kind}({second});",
    ]


@dataclass(frozen=True, slots=True)
class _Side:
    """An operand, and the rows of A, or the columns of B, of a thread's elements of the result."""

    axis: int
    """0 of A, 1 of B."""
    tile: Tensor
    form: Spread
    """Of the result."""
    elements: Elements

    @property
    def letter(self) -> str:
        return "ab"[self.axis]

    @property
    def bits(self) -> tuple[int, ...]:
        """Of the number of a register of the result, those that its row or column depends on."""
        return tuple(bit for bit, vector in enumerate(self.form.register) if vector[self.axis])

    @property
    def count(self) -> int:
        """Rows or columns."""
        return 1 << len(self.bits)

    @property
    def number(self) -> str:
        """Which of them register i_ has."""
        return " + ".join(f"(i_ >> {bit} & 1) * {1 << n}" for n, bit in enumerate(self.bits)) or "0"

    def register(self, number: str) -> str:
        """A register that has that one of them."""
        return (
            f"({' + '.join(f'({number} >> {n} & 1) * {1 << bit}' for n, bit in enumerate(self.bits)) or '0'})"
        )

    def point(self, register: str, k: str) -> Point:
        """The element for a register of the result and a number of K."""
        depth = self.tile.shape[1 - self.axis]

        def kept(vector: Vector) -> Vector:
            return (vector[0], 0) if self.axis == 0 else (0, vector[1])

        along = tuple((0, each) if self.axis == 0 else (each, 0) for each in powers(1, depth))
        registers = (*along, *map(kept, self.form.register))
        lane, warp = (tuple(map(kept, bits)) for bits in (self.form.lane, self.form.warp))
        return Point(self.tile.shape, registers, lane, warp, (0, 0), f"({register} * {depth} + {k})")

    def element(self, register: str, k: str) -> str:
        return self.elements(self.point(register, k))

    @property
    def in_shared(self) -> InShared | None:
        return self.elements if isinstance(self.elements, InShared) else None

    @property
    def period(self) -> tuple[int, int]:
        """After how many numbers of K all elements in shared memory lie so many bytes further."""
        return self.in_shared.period(1 - self.axis) if self.in_shared else (1, 0)

    def from_on(self, whole: int) -> "_Side":
        """What belongs to the numbers of K from `whole` times from_ on, a multiple of the period."""
        place = self.in_shared
        assert place
        number, distance = self.period
        moved = f"{place.address} + from_ * {whole // number * distance}"
        return replace(self, elements=replace(place, address=moved))

    def together(self, kind: str, some: int) -> tuple[int, bool]:
        """How many elements one access reads, and whether they lie along K."""
        place = self.in_shared
        if place is None or bits(self.tile.dtype) != _WORD or c_type(self.tile) != kind:
            return 1, False
        if place.contiguous == 1 - self.axis:
            return (some, True) if place.side_by_side % some == 0 else (1, False)
        own = replace(self.form, register=tuple(v for v in self.form.register if v[self.axis]))
        return own.neighbours(self.axis, min(place.side_by_side, 8 * CHUNK // _WORD)), False

    def read(self, kind: str, some: int) -> list[str]:
        """Declares and reads what belongs to `some` numbers of K from k_ on."""
        many, along_k = self.together(kind, some)
        name, count = f"{self.letter}_", self.count
        lines = [f"{kind} {name}[{count * some}];", UNROLL]
        if along_k and self.in_shared:
            at = self.in_shared.place(self.point(self.register("j_"), "k_"))
            return [
                *lines,
                f"for (int j_ = 0; j_ < {count}; ++j_) load_elements<{some}>({name}, j_ * {some}, {at});",
            ]
        lines += [f"for (int s_ = 0; s_ < {some}; ++s_)", "    " + UNROLL]
        loop = f"    for (int j_ = 0; j_ < {count // many}; ++j_) "
        one = self.point(self.register(f"(j_ * {many})" if many > 1 else "j_"), "(k_ + s_)")
        if many > 1 and self.in_shared:
            to = f"s_ * {count} + j_ * {many}"
            return [*lines, f"{loop}load_elements<{many}>({name}, {to}, {self.in_shared.place(one)});"]
        return [*lines, f"{loop}{name}[s_ * {count} + j_] = {kind}({self.elements(one)});"]

    def held(self, kind: str, some: int) -> str:
        """What `read` has read for register i_ and number s_ of K."""
        along_k = self.together(kind, some)[1]
        number = f"({self.number}) * {some} + s_" if along_k else f"s_ * {self.count} + {self.number}"
        return f"{self.letter}_[{number}]"


def _some_of_k(name: str, kind: str, depth: int, registers: int, sides: tuple[_Side, _Side]) -> list[str]:
    """Reads some columns of A and rows of B before their products are added; those of one period after the
    other, so that all addresses but its beginning are known to the compiler."""
    some = min(AT_ONCE, depth)
    periods = (depth if side.in_shared is None else side.period[0] for side in sides)
    whole = min(depth, max(some, FEWEST // registers, *periods))
    if whole < depth:
        sides = (sides[0].from_on(whole), sides[1].from_on(whole))
    added = " * ".join(side.held(kind, some) for side in sides)
    lines = [
        UNROLL,
        f"for (int k_ = 0; k_ < {whole}; k_ += {some}) {{",
        *(f"    {line}" for side in sides for line in side.read(kind, some)),
        "    " + UNROLL,
        f"    for (int s_ = 0; s_ < {some}; ++s_)",
        "        " + UNROLL,
        f"        for (int i_ = 0; i_ < {registers}; ++i_) {name}[i_] += {added};",
        "}",
    ]
    if whole == depth:
        return lines
    return [
        "#pragma unroll 1",
        f"for (int from_ = 0; from_ < {depth // whole}; ++from_) {{",
        *(f"    {line}" for line in lines),
        "}",
    ]
