"""Tiles on their way to shared memory whose threads have long runs of a row: neighbours have rows, not runs.

Eight threads store 16 bytes each at a time. Where the runs of a row's threads together are longer than a row
of the swizzle, such as those of weights that each thread unpacks from a few words, two of the eight have the
same banks; eight rows never do, since the swizzle tells them apart. Takes a module; gives the same with
lanes that go down the rows first, in the layouts that such a tile is computed in. Which registers a thread
has stays. Loads in loops are copied to shared memory by threads of their own, whatever their layout, and what
follows from places alone is computed where it is used; a layout in which anything else is loaded, stored or
exchanged stays as it is. Lines stay where they are.
"""

import re
from collections.abc import Iterator, Sequence

from twill.extract.rewrite.text.edits import Edit, edited
from twill.ir.distribution import root
from twill.ir.loop import Blocked, Encoding, MemDesc, Module, NvmmaShared, Op, Tensor
from twill.ops.row import Role
from twill.ops.table import is_elementwise, role

ACCESS, THREADS = 16, 8
"""Bytes of the widest access to shared memory, and threads whose accesses of that size are one transaction
(CUDA C++ Programming Guide, shared memory of compute capability 5.x and later: 32 banks of 4 bytes)."""
_MOVES: tuple[Role, ...] = ("layout", "alloc", "for", "yield", "return", "if", "while", "condition")
"""Operations that relate no layout of one tile to that of another."""
_KEEPS: tuple[Role, ...] = ("constant", "splat", "expand", "broadcast", "reshape", "join", "range", "address")
"""Operations that are right in any layout, and need no exchange in these."""


def lanes_down_rows(module: Module) -> Module:
    """The module itself where no tile conflicts so."""
    ops = [op for function in module.functions for op in function.walk()]
    repeated = frozenset(inner.index for op in ops if role(op) == "for" for inner in op.inner())
    relating, changed = _relating(ops), set[Encoding]()
    for seed in {encoding for op in ops for encoding in _conflicting(op)}:
        layouts = _related(relating, seed)
        users = [op for op in relating if layouts & _layouts(op)]
        fine = all(isinstance(one, Blocked) and _single_row(one) for one in layouts)
        if fine and all(_movable(op, repeated) for op in users):
            changed |= layouts
    edits = [
        edit for name, one in module.encodings.items() if one in changed for edit in _edits(module, name, one)
    ]
    return edited(module, edits) if edits else module


def _conflicting(op: Op) -> Iterator[Encoding]:
    """The layout of a tile that is stored with conflicts."""
    if role(op) != "alloc" or not op.operands:
        return
    source, buffer = op.operands[0].type, op.result.type
    layout = source.encoding if isinstance(source, Tensor) else None
    shared = buffer.encoding if isinstance(buffer, MemDesc) else None
    if not isinstance(source, Tensor) or not isinstance(layout, Blocked) or layout.order != (1, 0):
        return
    if not isinstance(shared, NvmmaShared) or shared.transposed:
        return
    run = layout.size_per_thread[1] * shared.element_bits // 8
    together = run * layout.threads_per_warp[1]
    if run > ACCESS and together > shared.swizzle_bytes and layout.threads_per_warp[0] >= THREADS:
        yield layout


def _relating(ops: Sequence[Op]) -> Sequence[Op]:
    """The operations whose results have the layouts of what they read: not changes of layout, and not those
    that follow from places in a tile alone."""
    placed, found = set[int](), list[Op]()
    for op in ops:
        follows = bool(op.operands) and all(value.id in placed for value in op.operands)
        if role(op) in ("range", "constant") or (
            follows and (is_elementwise(op) or role(op) in (*_KEEPS, "layout"))
        ):
            placed |= {value.id for value in op.results}
        elif role(op) not in _MOVES:
            found.append(op)
    return found


def _related(relating: Sequence[Op], seed: Encoding) -> frozenset[Encoding]:
    """The layouts that follow from each other: of what an operation reads and makes."""
    found, more = frozenset[Encoding](), frozenset({seed})
    while more - found:
        found |= more
        beside = map(_layouts, relating)
        more = frozenset[Encoding]().union(*(layouts for layouts in beside if layouts & found))
    return found


def _layouts(op: Op) -> frozenset[Encoding]:
    tiles = (value.type for value in (*op.operands, *op.results))
    roots = (root(tile.encoding) for tile in tiles if isinstance(tile, Tensor))
    return frozenset(one for one in roots if one is not None)


def _single_row(layout: Blocked) -> bool:
    """Whether a thread has neighbours in one row alone."""
    return len(layout.order) > 1 and layout.size_per_thread[0] == 1


def _movable(op: Op, repeated: frozenset[int]) -> bool:
    loaded = role(op) in ("pointer_load", "tma_load") and op.index in repeated
    return loaded or is_elementwise(op) or role(op) in _KEEPS


def _edits(module: Module, name: str, layout: Encoding) -> Iterator[Edit]:
    """Of the order in the definition of an alias."""
    assert isinstance(layout, Blocked)
    begin = 0 if module.text.startswith(f"{name} = ") else module.text.index(f"\n{name} = ") + 1
    order = re.compile(r"order = \[[\d, ]*\]").search(module.text, begin)
    assert order
    down = (0, *(axis for axis in layout.order if axis != 0))
    yield Edit(order.start(), order.end(), f"order = [{', '.join(map(str, down))}]")
