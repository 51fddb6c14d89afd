"""Pointer loads that TMA can execute: tiles whose pointers are base + row * stride + column, as far as the
arguments of a launch allow.

Takes a `Program` and a load by copies; gives a `TiledLoad`: a tensor map that the host makes from the
kernel's arguments, the coordinates of the tile, and the conditions on the arguments under which the map loads
what the pointers and the mask say. A mask of upper bounds becomes the extents of the map, beyond which TMA
fills in zeros. Rows that wrap around (`% M`) are consecutive where M is a multiple of the tile's rows.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from math import prod

from twill.ir.channels import SlotTensor
from twill.ir.loop import NvmmaShared, Op, Pointer, Scalar, Tensor, Value
from twill.ir.program import Program
from twill.ir.statements import TileLoad
from twill.ops.axis import axis_of
from twill.ops.axis_info import AxisAnalysis
from twill.ops.pointer_loads import filling
from twill.ops.table import role
from twill.ops.upper_bounds import AND
from twill.targets.cuda.shared.shared_tiles import Shared, shared
from twill.targets.cuda.values.polynomials import SIGN_EXTENSION, Atom, Polynomial, Scalars, atom, number
from twill.warp.dataflow import cheap
from twill.warp.signs import Signs
from twill.warp.slot_tensors import bits

ALIGNMENT = 16
"""Bytes: maps begin at a multiple, and so does every tile along its columns. A load from another place is an
illegal instruction (an H200; triton-lang/triton, issue 7385)."""
UNBOUNDED = 1 << 31
"""The extent of a dimension whose bound nothing says: coordinates are smaller."""
MOST_ROWS = 256
"""Of a box (CUDA driver API, cuTensorMapEncodeTiled)."""
_VIEWS = frozenset({"broadcast", "expand", "layout"})
MOST_RANK = 5
"""Of a tensor map."""
FAR = 1 << 15
"""Elements: what is multiplied by at least so many is the number of a tile of another dimension. Coordinates
have 32 bits; the places in the grid that are multiplied have up to 16 (along y and z), as columns 31."""


@dataclass(frozen=True, slots=True)
class Dimension:
    """One dimension of a tensor map."""

    coordinate: Polynomial
    """Where the tile begins."""
    stride: Polynomial
    """In elements; 1 for the innermost."""
    extent: Polynomial
    box: int


@dataclass(frozen=True, slots=True)
class TiledLoad:
    """A load by TMA through a map of its own."""

    op: int
    base: Value
    """The argument that the pointers begin at."""
    dimensions: tuple[Dimension, ...]
    """Innermost first."""
    tile: Shared
    """How the box lies in shared memory."""
    element: str
    multiples: tuple[tuple[Polynomial, int], ...]
    """On arguments: each must be a positive multiple of the number."""
    inside: tuple[tuple[Polynomial, int], ...] = ()
    """On the tile: each must be the number at least, or its pointers and mask are not those of the map."""
    aligned: tuple[tuple[Polynomial, int], ...] = ()
    """On arguments: each must be a multiple of the number, or 0, for tiles to begin where TMA may read."""
    given: tuple[Polynomial, ...] = ()
    """What arguments add to coordinates, and the arguments that factors of them are: none may be negative or
    need more than 30 bits."""


@dataclass(frozen=True, slots=True)
class _Affine:
    """A tile of integers or pointers: constant + sum of coefficient * position, along its dimensions."""

    constant: Polynomial
    coefficients: tuple[Polynomial, ...]
    multiples: tuple[tuple[Polynomial, int], ...] = ()
    inside: tuple[tuple[Polynomial, int], ...] = ()

    def __add__(self, other: "_Affine") -> "_Affine":
        both = zip(self.coefficients, other.coefficients, strict=True)
        return _Affine(
            self.constant + other.constant,
            tuple(a + b for a, b in both),
            (*self.multiples, *other.multiples),
            (*self.inside, *other.inside),
        )

    @property
    def uniform(self) -> bool:
        return not any(one.terms for one in self.coefficients)

    def times(self, factor: "Polynomial") -> "_Affine":
        return replace(
            self,
            constant=self.constant * factor,
            coefficients=tuple(one * factor for one in self.coefficients),
        )


class _NotAffineError(Exception):
    """The load is left to copies."""


class _NeverInsideError(_NotAffineError):
    """A bound is less than the tile is long, so no tile lies inside of the map."""


def tiled(program: Program, load: TileLoad, tensor: SlotTensor) -> TiledLoad | None:
    """The load by TMA; None where its pointers or its mask are not such. Where the columns of a tile begin at
    a number that the host does not know, their bound is no extent, and a tile that is wider than the bound
    (heads of 96 in tiles of 128) would never be loaded so: that number is taken apart then, into strides of
    the map and what is multiplied by them."""
    op = program.op(load.ops[-1])
    if tensor.repeated > 1:
        return None
    try:
        return _Finder(program, load).load(op, tensor)
    except _NeverInsideError:
        return _taken_apart(program, load, tensor)
    except (_NotAffineError, ValueError):
        return None


def _taken_apart(program: Program, load: TileLoad, tensor: SlotTensor) -> TiledLoad | None:
    try:
        return _Finder(program, load, apart=True).load(program.op(load.ops[-1]), tensor)
    except (_NotAffineError, ValueError):
        return None


def _constants(multiples: Iterable[tuple[Polynomial, int]]) -> Iterator[tuple[int | None, int]]:
    return ((one.constant, multiple) for one, multiple in multiples)


@dataclass(slots=True)
class _Finder:
    program: Program
    given: TileLoad
    apart: bool = False
    """Numbers at hand are taken apart too, where what they are made of can be computed."""
    known: frozenset[int] = field(init=False)
    """Values that the group that loads has at hand."""
    scalars: Scalars = field(init=False)
    axes: AxisAnalysis = field(init=False)
    signs: Signs = field(init=False)

    def __post_init__(self) -> None:
        self.axes = AxisAnalysis(self.program.function)
        self.signs = Signs(self.program.function)
        self.known = frozenset(read.value for read in self.given.reads)
        self.scalars = Scalars(
            self.maker,
            frozenset() if self.apart else self.known,
            frozenset(arg.id for arg in self.program.function.args),
        )

    def maker(self, value: Value) -> Op | None:
        return None if value.producer is None else self.program.op(value.producer)

    # --- tiles --------------------------------------------------------------------------------------------

    def affine(self, value: Value) -> _Affine:
        """Raises _NotAffineError."""
        maker, kind = self.maker(value), value.type
        if not isinstance(kind, Tensor):
            return _Affine(self.scalars.of(value), ())
        if maker is None or value.id in self.known:
            raise _NotAffineError
        rank = len(kind.shape)
        match role(maker):
            case "range":
                return _Affine(number(int(str(maker.attributes["start"]))), (number(1),))
            case "splat":
                return replace(self.affine(maker.operands[0]), coefficients=(Polynomial(),) * rank)
            case "constant":
                found = maker.attributes.get("value")
                if not isinstance(found, int) or isinstance(found, bool):
                    raise _NotAffineError
                return _Affine(number(found), (Polynomial(),) * rank)
            case "expand":
                source, axis = self.affine(maker.operands[0]), axis_of(maker)
                before, after = source.coefficients[:axis], source.coefficients[axis:]
                return replace(source, coefficients=(*before, Polynomial(), *after))
            case "layout" | "broadcast":
                return self.affine(maker.operands[0])
            case "add":
                one, other = (self.affine(operand) for operand in maker.operands)
                return one + other
            case "integer_cast" if maker.name == SIGN_EXTENSION:
                return self.affine(maker.operands[0])
            case "multiply":
                return self._product(maker)
            case "remainder":
                return self._wrapped(maker, kind)
            case "select":
                return self._clamped(maker, kind)
            case _:
                raise _NotAffineError

    def _product(self, op: Op) -> _Affine:
        one, other = (self.affine(operand) for operand in op.operands)
        if not one.uniform and not other.uniform:
            raise _NotAffineError
        tile, factor = (other, one) if one.uniform else (one, other)
        made = tile.times(factor.constant)
        multiples, inside = (*tile.multiples, *factor.multiples), (*tile.inside, *factor.inside)
        return replace(made, multiples=multiples, inside=inside)

    def _wrapped(self, op: Op, kind: Tensor) -> _Affine:
        """Consecutive numbers that begin at a multiple of how many they are, by a number that is one too."""
        one, by = (self.affine(operand) for operand in op.operands)
        along = [axis for axis, each in enumerate(one.coefficients) if each.terms]
        if len(along) != 1 or not by.uniform or one.coefficients[along[0]] != number(1):
            raise _NotAffineError
        many = kind.shape[along[0]]
        if one.constant.divisor(self._divisor) % many:
            raise _NotAffineError
        start = atom(Atom(-1, one.constant, by.constant)) if one.constant.terms else one.constant
        multiples = (*one.multiples, *by.multiples, (by.constant, many))
        return _Affine(start, one.coefficients, multiples, (*one.inside, *by.inside))

    def _clamped(self, op: Op, kind: Tensor) -> _Affine:
        """Consecutive numbers as long as they are below a bound: all of them, in a tile that is inside."""
        condition, one = self.maker(op.operands[0]), self.affine(op.operands[1])
        while condition is not None and role(condition) in _VIEWS:
            condition = self.maker(condition.operands[0])
        if condition is None or role(condition) != "compare" or not self.affine(op.operands[2]).uniform:
            raise _NotAffineError
        axis, bound = self._compared(condition)
        many = kind.shape[axis] if len(kind.shape) > axis else 0
        if not many or one.multiples:
            raise _NotAffineError
        multiples = ((bound + one.constant, many),) if self._argument(bound + one.constant) else ()
        return replace(one, multiples=multiples, inside=(*one.inside, (bound, many)))

    def _divisor(self, one: Atom) -> int:
        if one.start is not None and one.modulus is not None:
            return one.start.divisor(self._divisor)
        return self.axes.of(self.program.value(one.value)).divisibility[0]

    def pointer(self, value: Value) -> tuple[Value, _Affine]:
        """The argument that pointers begin at, and what is added. Raises _NotAffineError."""
        if any(value is arg for arg in self.program.function.args):
            return value, _Affine(Polynomial(), ())
        maker = self.maker(value)
        if maker is None:
            raise _NotAffineError
        rank = len(value.type.shape) if isinstance(value.type, Tensor) else 0
        match role(maker):
            case "splat":
                base, offset = self.pointer(maker.operands[0])
                return base, replace(offset, coefficients=(Polynomial(),) * rank)
            case "broadcast" | "layout":
                return self.pointer(maker.operands[0])
            case "expand":
                base, offset = self.pointer(maker.operands[0])
                axis = axis_of(maker)
                before, after = offset.coefficients[:axis], offset.coefficients[axis:]
                return base, replace(offset, coefficients=(*before, Polynomial(), *after))
            case "address":
                base, offset = self.pointer(maker.operands[0])
                return base, offset + self.affine(maker.operands[1])
            case _:
                raise _NotAffineError

    # --- the load -----------------------------------------------------------------------------------------

    def load(self, op: Op, tensor: SlotTensor) -> TiledLoad:
        """Raises _NotAffineError, or ValueError for a tile that is not as TMA writes it."""
        kind, tile = self._tile(op, tensor)
        base, offset = self.pointer(op.operands[0])
        inner = 0 if tile.transposed else 1
        pitch = offset.coefficients[1 - inner]
        if offset.coefficients[inner] != number(1) or len(pitch.terms) != 1 or tile.rows > MOST_ROWS:
            raise _NotAffineError
        size = bits(tensor.dtype) // 8
        rows, rest = offset.constant.divided(pitch)
        further, columns = self._further(rest)
        bounds, starts = dict(self._bounds(op)), {inner: columns, 1 - inner: rows}
        extents = [self._extent(bounds.get(axis), starts[axis]) for axis in (inner, 1 - inner)]
        partial = [axis for axis, bound in bounds.items() if not self._fixed(bound, starts[axis])]
        inside = [*offset.inside, *((bounds[axis], kind.shape[axis]) for axis in partial)]
        dimensions = (
            Dimension(columns, number(1), extents[0], tile.width // size),
            Dimension(rows, pitch, extents[1], tile.rows),
            *(Dimension(at, stride, number(UNBOUNDED), 1) for stride, at in further),
        )
        ahead = all(self._ahead(one.coordinate) for one in dimensions) and self._counted(columns)
        if len(dimensions) > MOST_RANK or not ahead:
            raise _NotAffineError
        pitches = [(one.stride, ALIGNMENT // size) for one in dimensions[1:]]
        multiples = (*offset.multiples, *pitches, *((one, 1) for one in extents))
        assert isinstance(base.type, Pointer)
        assert isinstance(base.type.pointee, Scalar)
        unique, loose = (tuple(dict.fromkeys(one)) for one in (multiples, inside))
        aligned = tuple(self._aligned(columns, max(1, ALIGNMENT // size)))
        given = tuple(dict.fromkeys(one for each in dimensions for one in self._given(each.coordinate)))
        return self._possible(
            TiledLoad(op.index, base, dimensions, tile, base.type.pointee.name, unique, loose, aligned, given)
        )

    def _aligned(self, columns: Polynomial, many: int) -> Iterator[tuple[Polynomial, int]]:
        """What arguments must be multiples of for columns to begin at a multiple of so many elements. Raises
        _NotAffineError where no arguments make it so."""
        for product, count in columns.terms:
            if count * prod(map(self._divisor, product)) % many:
                fixed = tuple(one for one in product if self._argument(atom(one)))
                if not fixed:
                    raise _NotAffineError
                yield Polynomial(((fixed, count),)), many

    def _tile(self, op: Op, tensor: SlotTensor) -> tuple[Tensor, Shared]:
        """The tile of a load in registers and in shared memory, where TMA fills it in as the load does."""
        kind, encoding = op.result.type, tensor.encoding
        if not isinstance(kind, Tensor) or len(kind.shape) != 2 or not isinstance(encoding, NvmmaShared):
            raise _NotAffineError
        if filling(self.axes, op) != 0 or encoding.fp4_padded:  # TMA fills in zeros
            raise _NotAffineError
        return kind, shared("", tensor.shape, tensor.dtype, encoding)

    def _given(self, coordinate: Polynomial) -> Iterator[Polynomial]:
        """What arguments add to a coordinate, and each argument that is multiplied with what changes."""
        alone, mixed = coordinate.parted(self._argument)
        if alone.atoms:
            yield alone
        yield from (one for each in mixed.atoms if self._argument(one := atom(each)))

    def _possible(self, load: TiledLoad) -> TiledLoad:
        """The load, if the host can make its map and the group that loads can compute its coordinates. Raises
        _NotAffineError."""
        made = (*(one for one, _ in load.multiples), *(one.stride for one in load.dimensions))
        wrong = (fixed is not None and (fixed <= 0 or fixed % n) for fixed, n in _constants(load.multiples))
        needed = [*(one.coordinate for one in load.dimensions), *(one for one, _ in load.inside)]
        if not all(map(self._argument, made)) or any(wrong) or not all(map(self._at_hand, needed)):
            raise _NotAffineError
        if any(most is not None and most < many for most, many in _constants(load.inside)):
            raise _NeverInsideError
        return load

    def _argument(self, polynomial: Polynomial) -> bool:
        """Whether the host can compute it."""
        return all(one.start is None and one.value in self.scalars.arguments for one in polynomial.atoms)

    def _ahead(self, polynomial: Polynomial) -> bool:
        """Whether nothing is subtracted: a coordinate before the first would be filled in with zeros."""
        return all(count > 0 for _, count in polynomial.terms)

    def _counted(self, columns: Polynomial) -> bool:
        """Whether no loop takes away from the columns. What loops add to pointers is in elements, all of them
        columns here: one that goes back by rows is not in front of the tensor, and yet the column is."""
        return not any(self.signs.carried_below_zero(self.program.value(one)) for one in columns.values)

    def _further(self, rest: Polynomial) -> tuple[list[tuple[Polynomial, Polynomial]], Polynomial]:
        """Strides of more dimensions, each with its coordinate: products of arguments, or of large numbers,
        with what changes; and what is left for the columns."""
        found, columns = dict[Polynomial, Polynomial](), Polynomial()
        for product, count in rest.terms:
            fixed = tuple(one for one in product if one.start is None and one.value in self.scalars.arguments)
            moving = tuple(one for one in product if one not in fixed)
            if moving and (fixed or count >= FAR):
                size, each = (1, count) if fixed else (count, 1)
                stride = Polynomial(((fixed, size),))
                found[stride] = found.get(stride, Polynomial()) + Polynomial(((moving, each),))
            else:
                columns += Polynomial(((product, count),))
        return sorted(found.items()), columns

    def _bounds(self, op: Op) -> Iterator[tuple[int, Polynomial]]:
        """What a position along an axis must be less than, for the mask to hold. Raises _NotAffineError for
        masks that are no upper bounds."""
        for value in op.operands[1:2]:
            found = dict[int, Polynomial]()
            for axis, bound in self._conditions(value):
                if found.setdefault(axis, bound) != bound:
                    raise _NotAffineError
            yield from found.items()

    def _conditions(self, value: Value) -> Iterator[tuple[int, Polynomial]]:
        maker = self.maker(value)
        if maker is None:
            raise _NotAffineError
        kind = role(maker)
        if maker.name == AND:
            for operand in maker.operands:
                yield from self._conditions(operand)
        elif kind in ("broadcast", "layout"):
            yield from self._conditions(maker.operands[0])
        elif kind == "expand":
            axis = axis_of(maker)
            for along, bound in self._conditions(maker.operands[0]):
                yield along + (along >= axis), bound
        elif kind == "constant" and maker.attributes.get("value") is True:
            return
        elif kind == "compare":
            yield self._compared(maker)
        else:
            raise _NotAffineError

    def _compared(self, op: Op) -> tuple[int, Polynomial]:
        predicate = str(op.attributes.get("predicate"))
        if predicate not in ("slt", "sle", "sgt", "sge"):
            raise _NotAffineError
        small, bound = (
            self.affine(one) for one in (op.operands if predicate[1] == "l" else op.operands[::-1])
        )
        along = [axis for axis, each in enumerate(small.coefficients) if each.terms]
        if len(along) != 1 or small.coefficients[along[0]] != number(1) or not bound.uniform:
            raise _NotAffineError
        if small.multiples or bound.multiples or small.inside or bound.inside:
            raise _NotAffineError
        return along[0], bound.constant - small.constant + number(predicate[2] == "e")

    def _extent(self, bound: Polynomial | None, start: Polynomial) -> Polynomial:
        """Of a map; where the bound does not follow from arguments, tiles are to lie inside of it."""
        return number(UNBOUNDED) if bound is None or not self._fixed(bound, start) else bound + start

    def _fixed(self, bound: Polynomial, start: Polynomial) -> bool:
        return self._argument(bound + start)

    def _at_hand(self, polynomial: Polynomial) -> bool:
        """Whether the group that loads can compute it."""
        return all(
            self._at_hand(one.start) and self._at_hand(one.modulus)
            if one.start is not None and one.modulus is not None
            else self._computed(self.program.value(one.value))
            for one in polynomial.atoms
        )

    def _computed(self, value: Value) -> bool:
        maker = self.maker(value)
        known = value.id in self.known | self.scalars.arguments
        known = known or (maker is not None and (maker.index in self.given.ops or role(maker) == "constant"))
        return (
            known
            or (maker is None and value.id in self._inductions)
            or (maker is not None and cheap(maker) and all(map(self._computed, maker.operands)))
        )

    @property
    def _inductions(self) -> frozenset[int]:
        """Induction variables, which every statement of a loop knows."""
        walked = self.program.function.walk()
        return frozenset(op.regions[0].blocks[0].args[0].id for op in walked if role(op) == "for")
