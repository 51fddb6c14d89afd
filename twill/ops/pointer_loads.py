"""Pointer loads of tiles: whether their values say where memory is accessed, and how many bytes one
asynchronous copy, or one access of a thread, may move.

Takes loads with the `AxisAnalysis` of their function. A load qualifies for copies if its tile lies in shared
memory as the tensor core or plain rows have it, if 4 bytes or more are known to be copied together, and if
what its mask leaves out is a constant or arbitrary. Tiles of 8 and 16 bits of which less is known to be
copied together pass through the registers of the threads that load.
"""

from collections.abc import Sequence, Set
from math import gcd, prod
from typing import Literal, TypeAlias

from twill.ir.distribution import distribution
from twill.ir.loop import DotOperand, Encoding, MemDesc, NvmmaShared, Op, Scalar, SharedLinear, Tensor, Value
from twill.ir.shared_places import places, run
from twill.ops.axis_info import AxisAnalysis, copied_together, element_bytes, moved_together
from twill.ops.kept_rows import kept_together
from twill.ops.row import Role
from twill.ops.steps import closer, step
from twill.ops.table import named, role
from twill.ops.upper_bounds import upper_bounds

WIDTHS = (16, 8, 4)
"""Bytes that one asynchronous copy moves (PTX ISA, cp.async)."""
BULK = 16
"""Bytes to which the addresses and the size of a bulk copy are aligned (PTX ISA, cp.async.bulk)."""
NUMBERS = (4, 8)
"""Bytes of a number that one asynchronous copy moves (PTX ISA, cp.async)."""
ACROSS = (1, 2, 4)
"""Bytes of an element of tiles that are copied along their columns."""
NARROW = (1, 2)
"""Bytes of an element of tiles that threads load through registers."""
WORD = 4
"""Bytes that these threads write to shared memory at a time."""
LEAST_LINE = 32
"""Bytes of a line of the narrowest swizzle."""
LEAST_REPEATED = 4
"""Equal rows of which one is kept, at least: a warp that reads eight rows then has few bank conflicts."""
LEAST_LOADED = 2
"""The same of rows that pass through registers: threads that load them take longer than bank conflicts do."""
Neighbours: TypeAlias = Literal["next", "apart", "equal"]
"""The elements of a word: next to each other in global memory, or not; or all the same one."""
_ALLOC = named("alloc")
_STEPS: frozenset[Role] = frozenset({"pointer_load", "pointer_store", "atomic"})


def why_not(analysis: AxisAnalysis, op: Op) -> str:
    tile = op.result.type
    assert isinstance(tile, Tensor)
    if len(tile.shape) > 2:
        return f"a tile of {len(tile.shape)} dimensions"
    if filling(analysis, op) is None:
        return "where its mask is false it is no number that is known"
    if not _understood(_encodings(analysis, op)):
        return "its layout in shared memory is not that of a TMA load"
    return (
        "its pointers are not known to be consecutive and aligned, or its mask not to be the same, for 4"
        " bytes or more"
    )


def feeds_address(analysis: AxisAnalysis, load: Op, inside: Set[int]) -> bool:
    """Whether what is loaded says where, or if, the loop reads or writes memory."""
    waiting, seen = [load], {load.index}
    while waiting:
        results = waiting.pop().results
        for value, user in ((one, user) for one in results for user in analysis.users.get(one.id, ())):
            if role(user) in _STEPS and (role(user) == "pointer_load" or user.operands[1].id != value.id):
                return True
            if user.index in inside and user.index not in seen and not _computes(user):
                seen.add(user.index)
                waiting.append(user)
    return False


def _computes(op: Op) -> bool:
    """Its result is a number that goes to other groups, not an index."""
    tiles = [value.type for value in op.results if isinstance(value.type, Tensor | MemDesc)]
    return op.name == _ALLOC or any(
        str(getattr(tile.dtype, "name", "i")).startswith(("f", "bf")) for tile in tiles
    )


def copy_bytes(analysis: AxisAnalysis, op: Op) -> int:
    """Bytes of each copy of a load; 0 where copies do not do."""
    encodings, tile = _encodings(analysis, op), op.result.type
    if (
        not _understood(encodings)
        or not isinstance(tile, Tensor)
        or len(tile.shape) > 2
        or filling(analysis, op) is None
    ):
        return 0
    encoding = next(iter(encodings), None)
    padded = isinstance(encoding, NvmmaShared) and encoding.fp4_padded
    widths = WIDTHS[1:] if padded else WIDTHS
    return _copied(analysis, op, _axis_of_copies(analysis, op, tile), widths)


def _axis_of_copies(analysis: AxisAnalysis, op: Op, tile: Tensor) -> int:
    """The dimension along which each copy moves elements."""
    encoding = next(iter(_encodings(analysis, op)), None)
    across = copied_across(analysis, op) or (isinstance(encoding, NvmmaShared) and encoding.transposed)
    return 0 if across else len(tile.shape) - 1


def _copied(analysis: AxisAnalysis, op: Op, axis: int, widths: Sequence[int] = WIDTHS) -> int:
    """How many bytes along `axis` one copy of a load may move: under one mask, or under one that may leave
    out its last elements where zeros take their place. The first of `widths` that is possible, or 0."""
    if axis == 0 and (rows := _equal_rows(analysis, op)) > 1:
        return kept_together(analysis, op, rows, widths)
    together, (pointers, *masks) = copied_together(analysis, op, axis, widths), op.operands
    if not masks or filling(analysis, op) != 0:
        return together
    most, size = moved_together(analysis, pointers, (), axis, widths), element_bytes(pointers.type)
    wider = (width for width in widths if together < width <= most and width % size == 0)
    some = (one for one in wider if upper_bounds(analysis, masks[0], axis, one // size) is not None)
    return next(some, together)


def bounds_of_copies(analysis: AxisAnalysis, op: Op, vector: int) -> frozenset[int]:
    """The comparisons in the mask of a load, by index, that may leave out the last elements of a copy of
    `vector` bytes; empty where one mask is that of all."""
    tile, (pointers, *masks) = op.result.type, op.operands
    if not masks or not vector or not isinstance(tile, Tensor) or not tile.shape:
        return frozenset()
    run = vector // element_bytes(pointers.type)
    found = upper_bounds(analysis, masks[0], _axis_of_copies(analysis, op, tile), run)
    return found or frozenset()


def register_access(analysis: AxisAnalysis, op: Op) -> tuple[int, int] | None:
    """How the threads that load bring a tile to shared memory through registers, where no asynchronous copy
    does: the bytes of each access to global memory, 1, 2 or 4, and the dimension along which consecutive
    threads read consecutive elements. None where they can not."""
    tile = op.result.type
    if not isinstance(tile, Tensor) or len(tile.shape) > 2 or filling(analysis, op) is None:
        return None
    encodings, size = _encodings(analysis, op), element_bytes(op.operands[0].type)
    long = [axis for axis, n in enumerate(tile.shape) if n > 1 or len(tile.shape) == 1]
    if not _understood(encodings) or size not in NARROW:
        return None
    if not long or any(tile.shape[axis] * size % WORD for axis in long):
        return None
    widths = tuple(width for width in (WORD, 2, 1) if width >= size)
    found = [copied_together(analysis, op, axis, widths) or size for axis in range(len(tile.shape))]
    runs = [gcd(run, n) for run, n in zip(_runs(analysis, op.operands[0])[0], tile.shape, strict=True)]
    axis = max(long, key=lambda axis: (found[axis], runs[axis], _fastest(tile) == axis))
    other = 1 - axis
    if len(long) > 1 and (found[other], runs[other]) == (found[axis], runs[axis]):
        axis = other if closer(analysis, op.operands[0], other, axis) else axis
    return found[axis], axis


def scattered(analysis: AxisAnalysis, op: Op) -> bool:
    """Whether a load that copies may bring word by word is of a vector whose neighbouring words are known not
    to be next to each other in global memory, nor all the same one."""
    tile, pointers = op.result.type, op.operands[0]
    words = isinstance(tile, Tensor) and len(tile.shape) == 1 and element_bytes(pointers.type) == WORD
    if not words or all_equal(analysis, op):
        return False
    found = step(analysis, pointers, 0)
    return analysis.of(pointers).constancy[0] > 1 or (found is not None and found.least > 1)


def neighbours(analysis: AxisAnalysis, op: Op, axis: int) -> Neighbours:
    """How neighbouring elements of a loaded tile lie in memory along a dimension; as much as is known."""
    pointers, *rest = op.operands
    word = WORD // element_bytes(pointers.type)
    if word == 1:
        return "next"
    if all(analysis.of(value).constancy[axis] % word == 0 for value in (pointers, *rest[:1])):
        return "equal"
    found = step(analysis, pointers, axis)
    known = found is not None and found.least > 1 and analysis.of(pointers).contiguity[axis] % word
    return "apart" if known else "next"


def _fastest(tile: Tensor) -> int:
    """The dimension along which a tile's layout has the elements of neighbouring lanes or registers next to
    each other; lanes before registers, which may repeat the layout beyond its end."""
    found = distribution(tile.encoding, tile.shape)
    bases = (*found.lane[:1], *found.register) if found else ()
    return next((basis.index(1) for basis in bases if 1 in basis), len(tile.shape) - 1)


def copied_across(analysis: AxisAnalysis, op: Op) -> bool:
    """Whether the copies of a tile that threads read go along its columns, where its pointers are
    consecutive: of 16-bit elements, which ldmatrix reads either way, and of those of 8 and 32 bits."""
    tile = op.result.type
    if role(op) != "pointer_load" or not isinstance(tile, Tensor) or len(tile.shape) != 2:
        return False
    size, rows = element_bytes(op.operands[0].type), tile.shape[0] // _equal_rows(analysis, op)
    if size not in ACROSS or _encodings(analysis, op) or (rows * size & -(rows * size)) < LEAST_LINE:
        return False
    return _copied(analysis, op, 0) > _copied(analysis, op, 1)


def number_bytes(analysis: AxisAnalysis, op: Op) -> int:
    """Bytes of the copy of a number; 0 where no copy has its size, or where its mask is false it is something
    other than zero."""
    kind = op.result.type
    size = element_bytes(op.operands[0].type) if isinstance(kind, Scalar) else 0
    return size if size in NUMBERS and filling(analysis, op) == 0 else 0


def all_equal(analysis: AxisAnalysis, op: Op) -> bool:
    """Whether a load gives one number in all elements of its tile: all pointers are the same, and so are the
    masks."""
    tile, (pointers, *rest) = op.result.type, op.operands
    if not isinstance(tile, Tensor) or prod(tile.shape) < 2 or (rest and filling(analysis, op) != 0):
        return False
    known = (analysis.of(value).constancy for value in (pointers, *rest[:1]))
    return all(run % size == 0 for runs in known for run, size in zip(runs, tile.shape, strict=True))


def repeated_rows(analysis: AxisAnalysis, op: Op) -> int:
    """How many rows of a loaded tile, the first at a multiple, are the same row in memory, so that one of
    them is copied and all are read from it: packed integers, loaded once for each number that they hold, and
    scales of groups of rows. 1 where neither copies nor registers bring the tile, where copies bring one of
    fewer than 32 bits, or where an MMA reads it where it lies."""
    if copy_bytes(analysis, op):
        return _equal_rows(analysis, op)
    tile, through_registers = op.result.type, register_access(analysis, op) is not None
    if not through_registers or (isinstance(tile, Tensor) and tile.shape[-1] == 1):
        return 1
    return _equal_rows(analysis, op, NARROW, LEAST_LOADED)


def _equal_rows(
    analysis: AxisAnalysis, op: Op, sizes: Sequence[int] = (WORD,), least: int = LEAST_REPEATED
) -> int:
    """The same of a tile that copies may bring, or of another with elements of one of `sizes`, `least` rows
    or more."""
    tile, (pointers, *rest) = op.result.type, op.operands
    if not isinstance(tile, Tensor) or len(tile.shape) != 2:
        return 1
    if element_bytes(pointers.type) not in sizes:
        return 1
    users = [op.result, *(user.result for user in analysis.users.get(op.result.id, ()) if user.results)]
    if any(isinstance(one.type, Tensor) and isinstance(one.type.encoding, DotOperand) for one in users):
        return 1
    equal = gcd(tile.shape[0], *(analysis.of(value).constancy[0] for value in (pointers, *rest[:1])))
    power = equal & -equal
    return power if power >= least and not _encodings(analysis, op) else 1


def one_copy(analysis: AxisAnalysis, op: Op) -> bool:
    """Whether a load is one bulk copy: a vector without a mask, consecutive and aligned to 16 bytes, that
    readers take to registers."""
    tile, pointers = op.result.type, op.operands[0]
    if not isinstance(tile, Tensor) or len(op.operands) > 1 or _encodings(analysis, op):
        return False
    found, *others = zip(tile.shape, *_runs(analysis, pointers), strict=True)
    length, run, divisor = found
    aligned = divisor % BULK == 0 and length * element_bytes(pointers.type) % BULK == 0
    return not others and run % length == 0 and aligned


def _runs(analysis: AxisAnalysis, pointers: Value) -> tuple[tuple[int, ...], tuple[int, ...]]:
    known = analysis.of(pointers)
    return known.contiguity, known.divisibility


def _understood(encodings: set[Encoding]) -> bool:
    """One layout at most, as TMA writes it and the tensor core reads it, or of words of a row."""
    return len(encodings) <= 1 and all(map(_of_words, encodings))


def _of_words(encoding: Encoding) -> bool:
    if isinstance(encoding, SharedLinear) and encoding.offset:
        shape = [
            1 << sum(bool(one[axis]) for one in encoding.offset) for axis in range(len(encoding.offset[0]))
        ]
        found = places(shape, encoding)
        return found is not None and run(found) % WORD == 0
    return isinstance(encoding, NvmmaShared) and encoding.swizzle_bytes >= LEAST_LINE


def _encodings(analysis: AxisAnalysis, op: Op) -> set[Encoding]:
    """How the tile lies in the buffers that it is copied to."""
    buffers = [user.result.type for user in analysis.users.get(op.result.id, ()) if user.name == _ALLOC]
    return {
        buffer.encoding for buffer in buffers if isinstance(buffer, MemDesc) and buffer.encoding is not None
    }


def filling(analysis: AxisAnalysis, op: Op) -> float | None:
    """What a load gives where its mask is false: zero where nothing says so; None where it is no constant."""
    if len(op.operands) < 3:
        return 0
    other = analysis.maker(op.operands[2])
    value = other.attributes.get("value") if other is not None and role(other) == "constant" else None
    return value if isinstance(value, int | float) else None
