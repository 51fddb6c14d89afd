"""Which tiles threads compute with fewer elements of vectors as TTGIR lays them out than as an MMA has them.

Weights that a loop decodes are shifted and scaled by numbers that belong to columns (scales, zero points), on
their way to shared memory or to an operand of an MMA. As an MMA has a tile, a thread holds a quarter of its
columns, in two rows; as a blocked layout has it, four columns, for instance, in many rows. It then reads,
converts and multiplies fewer numbers for the same tile. (On an H200, aphrodite's fused MoE of 4 bits: 16
columns in a thread, or 4; 558 or 319 instructions in an iteration.) Takes the operations of a module; gives
layouts.
"""

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass

from twill.extract.rewrite.layouts.as_accumulators import ONE_WARP, as_accumulator
from twill.ir.distribution import distribution, root
from twill.ir.loop import Blocked, Encoding, NvidiaMma, Op, Slice, Tensor, Value
from twill.ops.row import Role
from twill.ops.table import is_elementwise, is_mma, role

SAVED = 0.25
"""Of what a thread computes in a layout as it is laid out, at least so much more as an MMA has it."""
_LOOPS: tuple[Role, ...] = ("for", "while")
NEIGHBOURS = 4
"""Elements of a row that a thread holds side by side, at least: it writes them to shared memory at once, as
four lanes do with pairs of an MMA."""
_COPIES: tuple[Role, ...] = ("alloc", "layout")
_VIEWS: tuple[Role, ...] = ("expand", "broadcast", "splat", "bitcast")


@dataclass(slots=True)
class _Work:
    """Elements that a thread reads and computes in an iteration."""

    laid: int = 0
    held: int = 0
    """As an MMA has them."""
    tiles: bool = False
    """Some are computed of tiles with rows and columns."""
    computed: bool = False
    """Some are not only read."""

    def add(self, op: Op, tile: Tensor, warps: int) -> None:
        """A tile that is loaded as a whole is read the same number of times."""
        laid, held = distribution(tile.encoding, tile.shape), _held(tile, warps)
        if laid is None or held is None or (_wide(tile) and role(op) == "pointer_load"):
            return
        self.laid, self.held = self.laid + laid.per_thread, self.held + held
        self.tiles |= _wide(tile)
        self.computed |= role(op) != "pointer_load"


def few_columns(ops: Sequence[Op], buffered: Set[int], warps: int) -> frozenset[Encoding | None]:
    """The layouts in which loops with MMAs compute tiles so. Not those that something goes to or from but
    shared memory: that would pass through it. `buffered`: values, by id, that are only copied there."""
    found = dict[Encoding | None, _Work]()
    for op in _decoding(ops, buffered):
        tile = op.results[0].type
        if isinstance(tile, Tensor) and _in_rows(root(tile.encoding)):
            found.setdefault(root(tile.encoding), _Work()).add(op, tile, warps)
    moved = {_root(value) for op in ops if _moves(op, buffered) for value in (*op.operands, *op.results)}
    return frozenset(
        layout
        for layout, work in found.items()
        if work.tiles and layout not in moved and work.held >= (1 + SAVED) * work.laid
    )


def few_of_vectors(ops: Sequence[Op], warps: int) -> frozenset[Encoding | None]:
    """The layouts of one dimension in which loops with MMAs compute, from what they load, numbers that belong
    to columns of an accumulator, with half as many in a thread as in its rows, or fewer. Both ways these pass
    through shared memory. (Exponents of scales, as bytes: lmdeploy's fused MoE in fp4 has 452 instructions in
    an iteration for 494.)"""
    found = dict[Encoding | None, _Work]()
    for inner in _innermost(ops):
        changed = {op.operands[0].id for op in inner if role(op) == "layout" and _to_columns(op)}
        for op in _making(inner, changed):
            tile = op.results[0].type
            if isinstance(tile, Tensor) and isinstance(tile.encoding, Blocked) and len(tile.shape) == 1:
                found.setdefault(tile.encoding, _Work()).add(op, tile, warps)
    others = (op for op in ops if role(op) in ("layout", "reduce") and not _to_columns(op))
    moved = {_root(value) for op in others for value in (*op.operands, *op.results)}
    return frozenset(
        layout
        for layout, work in found.items()
        if work.computed and layout not in moved and work.held >= 2 * work.laid
    )


def _to_columns(op: Op) -> bool:
    """Whether it gives a vector of one dimension to the columns of an accumulator."""
    source, result = op.operands[0].type, op.results[0].type
    if not isinstance(source, Tensor) or not isinstance(result, Tensor) or len(source.shape) > 1:
        return False
    layout = result.encoding
    return isinstance(layout, Slice) and layout.dim == 0 and isinstance(layout.parent, NvidiaMma)


def _innermost(ops: Sequence[Op]) -> Iterator[Sequence[Op]]:
    """The operations of each innermost loop with MMAs."""
    for loop in (op for op in ops if role(op) in _LOOPS):
        inner = [*loop.inner()]
        if any(map(is_mma, inner)) and not any(role(one) in _LOOPS for one in inner):
            yield inner


def _decoding(ops: Sequence[Op], buffered: Set[int]) -> Iterator[Op]:
    """The operations of such loops that make what is copied to shared memory."""
    for inner in _innermost(ops):
        copies = (op.operands[0].id for op in inner if role(op) in _COPIES)
        yield from _making(inner, buffered & set(copies))


def _making(ops: Sequence[Op], made: Set[int]) -> Iterator[Op]:
    """Those that make values, by id, element by element from what is loaded."""
    wanted = set(made)
    for op in reversed(ops):
        if not op.results or op.results[0].id not in wanted or role(op) == "constant":
            continue
        if role(op) == "pointer_load":
            yield op
        elif role(op) in _VIEWS or is_elementwise(op):
            wanted |= {value.id for value in op.operands}
            yield from () if role(op) in _VIEWS else (op,)


def _moves(op: Op, buffered: Set[int]) -> bool:
    """Whether threads exchange elements, other than on the way to shared memory."""
    return role(op) in ("layout", "reduce") and op.operands[0].id not in buffered


def _root(value: Value) -> Encoding | None:
    return root(value.type.encoding) if isinstance(value.type, Tensor) else None


def _in_rows(layout: Encoding | None) -> bool:
    return isinstance(layout, Blocked) and layout.order[0] == 1 and layout.size_per_thread[1] >= NEIGHBOURS


def _wide(tile: Tensor) -> bool:
    return sum(size > 1 for size in tile.shape) > 1


def _held(tile: Tensor, warps: int) -> int | None:
    """Elements that a thread has of a tile, or of a vector along its rows or columns, as an MMA has them."""
    if _wide(tile):
        found = as_accumulator(tile.shape, warps) if len(tile.shape) == 2 else None
        return found.per_thread if found is not None else None
    along = tile.encoding.dim == 0 if isinstance(tile.encoding, Slice) else tile.shape[0] == 1
    size = max(tile.shape)
    if not along:
        return max(1, size // (8 * max(1, min(warps, size // 16))))
    row = distribution(ONE_WARP, (1, size))
    return row.per_thread if row is not None else None
