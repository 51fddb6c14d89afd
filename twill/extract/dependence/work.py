"""What an operation does, in terms a cost table knows: kinds, tiles, matrix sizes.

Takes an operation of a body; gives its `Work`, one list per branch for an `scf.if`.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

from twill.extract.dependence.body import Body
from twill.extract.dependence.fold import Folding, stays_in_threads
from twill.extract.dependence.tiles import in_shared, tile, with_repeated_rows
from twill.ir.distribution import distribution
from twill.ir.graph import Exchange, Kind, Tile, Work
from twill.ir.loop import MemDesc, Op, Region, Scalar, Tensor, Value
from twill.ops.math import costed_as
from twill.ops.mma import BY_FMA, is_plain
from twill.ops.table import named, role, row
from twill.ops.values import element

BY_ELEMENT = "tt.load by element"
"""The cost of a pointer load of a tile whose elements one warp loads and stores one by one."""
THROUGH_REGISTERS = {1: "tt.load of 1 byte", 2: "tt.load of 2 bytes", 4: "tt.load of 4 bytes"}
"""The cost of one through the registers of a warpgroup, by the bytes of each access."""
TileOf = Callable[[Value], Tile | None]


def works(body: Body, folding: Folding, op: Op, tile_of: TileOf) -> tuple[tuple[Work, ...], tuple[Work, ...]]:
    """The work of an operation; for an `scf.if` that of its two branches, otherwise of none in the second."""
    kind = folding.kinds[op.index]
    if kind in ("view", "scalar"):
        return (), ()
    if kind == "branch":
        branches = [tuple(_branch(region, tile_of)) for region in op.regions]
        return branches[0], branches[1] if len(branches) > 1 else ()
    inputs = tuple(t for t in map(tile_of, _tiles(op.operands)) if t)
    made = tuple(t for t in map(tile_of, _tiles(op.results)) if t)
    fixed = sum(not body.origins(v, lambda _: False) for v in _tiles(op.operands))
    made_of = _work(body, op, kind, inputs, made, fixed)
    return (replace(made_of, read=_read(body, folding, op)) if kind == "mma" else made_of,), ()


def _read(body: Body, folding: Folding, mma: Op) -> int:
    """As `Work.read`."""
    makers = (body.owner(value) for value in mma.operands[:2])
    loads = (one for one in makers if one and folding.fragment(one))
    held = (tile(one.result.type, body.threads) for one in loads)
    return sum(one.held * one.bits // 8 for one in held if one)


def _work(
    body: Body, op: Op, kind: Kind, inputs: tuple[Tile, ...], made: tuple[Tile, ...], fixed: int
) -> Work:
    outputs = tuple(
        in_shared(t) if kind in ("load", "shared_store") and t.place == "registers" else t for t in made
    )
    plain = Work(costed_as(op), kind, inputs, outputs, fixed, location=op.location)
    match kind:
        case "mma":
            a = _unpacked(inputs[0], op.attributes.get("lhs"), -1)
            b = _unpacked(inputs[1], op.attributes.get("rhs"), -2)
            into = made or (inputs[2],)
            cost = BY_FMA if role(op) == "dot" and is_plain(op) else plain.op
            warps = body.module.num_warps
            return replace(plain, op=cost, inputs=(a, b), outputs=into, mnk=_mnk(a, b), warps=warps)
        case "reduce" | "scan":
            return replace(plain, exchange=_exchange(op), combine=_combine(op))
        case "tensor_store" | "shared_store" if not outputs:
            target, sources = inputs[0], inputs[1:]
            if target.place == "registers":
                target, sources = inputs[-1], inputs[:-1]
            return replace(plain, inputs=sources, outputs=(target,))
        case "shared_store" if row(op).kind == "convert":
            return replace(plain, op=named("alloc"))
        case "load" if (rows := body.repeated(op)) > 1 or body.synchronous(op):
            by = THROUGH_REGISTERS.get(body.access(op), BY_ELEMENT) if body.synchronous(op) else plain.op
            return replace(plain, op=by, outputs=tuple(with_repeated_rows(t, rows) for t in outputs))
        case "store" if role(op) == "pointer_store":
            bounds = sum(_bounds(body, mask) for mask in op.operands[2:])
            return replace(plain, bounds=bounds, access=body.stored_at_once(op))
        case _:
            return plain


def _bounds(body: Body, mask: Value) -> int:
    """Instructions of the comparisons that a mask joins, for one element: two for one of 64 bits, and two to
    pass what is found to the thread that stores."""
    maker = body.definer(mask)
    if maker is None:
        return 0
    kinds = [element(value.type) for value in maker.operands]
    if kinds and "i1" not in kinds:
        return 2 if kinds[0] in ("i64", "f64") else 1
    moved = role(maker) == "layout" and not stays_in_threads(maker.operands[0].type, mask.type)
    joined = (value for value in maker.operands if element(value.type) == "i1")
    return 2 * moved + sum(_bounds(body, value) for value in joined)


def _branch(region: Region, tile_of: TileOf) -> Iterator[Work]:
    """The elementwise operations and reductions of one branch on tiles."""
    for block in region.blocks:
        for op in block.ops:
            kind = row(op).kind if not op.name.endswith(".yield") else "view"
            tiles = tuple(t for t in map(tile_of, _tiles((*op.operands, *op.results))) if t)
            if kind not in ("view", "scalar") and any(t.shape for t in tiles):
                made = tuple(t for t in map(tile_of, _tiles(op.results)) if t)
                exchange = _exchange(op) if kind in ("reduce", "scan") else None
                yield Work(
                    op.name, kind, tiles, made, exchange=exchange, combine=_combine(op), location=op.location
                )


def _tiles(values: tuple[Value, ...]) -> tuple[Value, ...]:
    return tuple(
        v
        for v in values
        if isinstance(v.type, Tensor | MemDesc) or (isinstance(v.type, Scalar) and v.type.name != "i1")
    )


def _mnk(a: Tile, b: Tile) -> tuple[int, int, int]:
    """M, N, K of A (M x K) times B (K x N)."""
    return a.shape[-2], b.shape[-1], a.shape[-1]


_FORMATS = {"e4m3": "f8E4M3FN", "e5m2": "f8E5M2"}
"""What the elements of an operand with scales are, whatever type it is stored as."""


def _unpacked(tile: Tile, format: object, axis: int) -> Tile:
    """An operand with elements of that format; of `e2m1` a byte holds two, that follow each other along K."""
    if format != "e2m1":
        return replace(tile, dtype=_FORMATS.get(str(format), tile.dtype))
    shape = list(tile.shape)
    shape[axis] *= 2
    return replace(tile, shape=tuple(shape), dtype="f4", bits=tile.bits // 2)


def _combine(op: Op) -> tuple[str, ...]:
    if row(op).kind not in ("reduce", "scan"):
        return ()
    return tuple(inner.name for inner in op.inner() if not inner.name.endswith(".return"))


def _exchange(op: Op) -> Exchange | None:
    """How the elements of a reduced row are spread over threads; None where that is not known."""
    row_type, axis = op.operands[0].type, op.attributes.get("axis")
    if not isinstance(row_type, Tensor) or not isinstance(axis, int):
        return None
    layout = distribution(row_type.encoding, row_type.shape)
    return (
        Exchange(layout.serial_along(axis), layout.lanes_along(axis), layout.warps_along(axis))
        if layout
        else None
    )
