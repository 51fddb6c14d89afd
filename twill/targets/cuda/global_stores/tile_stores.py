"""How a tile goes to global memory by TMA.

Raises TwillError for a reduction, or a layout, that can not be stored so.
"""

from collections.abc import Callable

from twill.ir.channels import Buffer
from twill.ir.loop import MemDesc, Op, Tensor, TensorDesc, Value
from twill.ir.operands import Read, Slot
from twill.ir.statements import StoreTile
from twill.ops.table import role
from twill.targets.cuda.emitter import STORES_READ, Emitter, box_coordinates, indented, map_pointer
from twill.targets.cuda.expressions import plus
from twill.targets.cuda.mmas.tensor_memory import leaves, row_groups
from twill.targets.cuda.operations import execute
from twill.targets.cuda.registers.elements import refuse
from twill.targets.cuda.registers.linear_tiles import Spread
from twill.targets.cuda.registers.register_tiles import Held, packed
from twill.targets.cuda.scope import Scope
from twill.targets.cuda.shared.shared_stores import picked, stored
from twill.targets.cuda.shared.shared_tiles import Shared, shared

REDUCTIONS = {"None": "tma_store", "add": "tma_add"}
"""How a tile leaves, by the kind of reduction."""


def store_tile(emitter: Emitter, it: StoreTile) -> list[str]:
    """By way of a staging buffer, or from the slot of a channel."""
    if not it.staged:
        return _store_from_slot(emitter, it)
    op = emitter.program.op(it.ops[-1])
    scope = emitter.scope(it.reads, at=it.at)
    for index in it.ops[:-1]:
        before = emitter.program.op(index)
        if role(before) == "layout" and _leaves(before.operands[0]):
            scope.values[before.result.id] = scope.form(before.operands[0])
        else:
            execute(scope, before)
    value = next(value for value in op.operands if isinstance(value.type, Tensor))
    assert isinstance(value.type, Tensor)
    form = scope.elements(value)
    words = form if isinstance(form, Held) and form.pack == packed(value.type) else scope.kept(value, form)
    assert isinstance(words, Held)
    buffer = next(buffer for buffer in emitter.program.buffers if buffer.id == it.buffer)
    corner = [scope.scalar(value) for value in op.operands[1:] if not isinstance(value.type, Tensor)]
    for part in range(it.parts):
        scope.lines += _staging_free(emitter, buffer, waits=it.waits or part > 0)
        scope.lines += _leave(emitter, scope, op, words, it.parts, buffer.offset, part, corner)
    return [emitter.comment(it.at, it.ops, "store"), "{", *indented(scope.lines), "}"]


def _store_from_slot(emitter: Emitter, it: StoreTile) -> list[str]:
    """A store that starts from the slot of a channel."""
    op = emitter.program.op(it.ops[-1])
    (read,) = (read for read in it.reads if isinstance(read.location, Slot))
    scope = emitter.scope((other for other in it.reads if other is not read), at=it.at)
    for before in (emitter.program.op(index) for index in it.ops[:-1]):
        if not _of_slot(before, read):
            execute(scope, before)
    tiles = (Tensor, MemDesc)
    corner = [scope.scalar(value) for value in op.operands[1:] if not isinstance(value.type, tiles)]
    assert isinstance(read.location, Slot)
    tensor = emitter.program.channel(read.location.channel).tensors[read.location.tensor]
    if tensor.first_row:
        corner[-2] = plus(corner[-2], tensor.first_row)
    scope.lines += _boxes(emitter, scope, op, scope.operand(read, read.location), corner)
    return [emitter.comment(it.at, it.ops, "store"), "{", *indented(scope.lines), "}"]


def _of_slot(op: Op, read: Read) -> bool:
    """A change of the layout in registers of a tile that TMA reads from its slot."""
    return role(op) == "layout" and op.operands[0].id == read.value


def _boxes(
    emitter: Emitter,
    scope: Scope,
    op: Op,
    tile: Shared,
    corner: list[str],
    column: Callable[[int], int] = lambda column: column,
) -> list[str]:
    """Stores of the boxes of a tile in shared memory; `column` is where a column of it goes."""
    word = REDUCTIONS.get(str(op.attributes.get("kind")))
    if word is None:
        raise refuse(emitter.program, op, f"a reduction {op.attributes['kind']} can not be generated")
    boxes = list[str]()
    for box in range(tile.boxes):
        at = box_coordinates(corner, column(box * tile.width * 8 // tile.bits))
        boxes.append(f"    {word}({map_pointer(scope, op)}, {plus(tile.address, box * tile.box)}, {at});")
    return ["if (thread.leader) {", *boxes, "    tma_commit();", "}"]


def _staging_free(emitter: Emitter, buffer: Buffer, *, waits: bool) -> list[str]:
    """Before a buffer is written: earlier stores have read it, and all warps are done with the channel
    that it overlays."""
    wait = [STORES_READ] if waits else []
    return [*wait, emitter.scope().group_barrier()] if waits or buffer.overlays else []


def _leave(
    emitter: Emitter,
    scope: Scope,
    op: Op,
    words: Held,
    parts: int,
    offset: int,
    part: int,
    corner: list[str],
) -> list[str]:
    """One part of a tile: registers to shared memory, then to global memory."""
    kind = op.operands[0].type
    assert isinstance(kind, TensorDesc)
    columns = kind.shape[-1] // parts
    try:
        tile = shared(plus("memory", offset), (*kind.shape[:-1], columns), kind.dtype, kind.encoding)
    except ValueError as problem:
        raise refuse(emitter.program, op, f"a tile {problem}") from problem
    try:
        piece = columns // _across(words)
        filled = stored(words, tile, part * piece)
    except ValueError:
        piece, filled = columns, picked(words, tile, part, op.operands[1].type)

    def column(inside: int) -> int:
        group, rest = divmod(inside, piece)
        return (group * parts + part) * piece + rest

    start = _boxes(emitter, scope, op, tile, corner, column)
    return [*filled, "fence_async_shared();", emitter.scope().group_barrier(), *start]


def _leaves(value: Value) -> bool:
    return isinstance(value.type, Tensor) and leaves(value.type)


def _across(words: Held) -> int:
    """Among how many groups of warps the columns of a tile are divided. Raises ValueError for a linear layout
    other than a row in each thread."""
    if isinstance(words.layout, Spread):
        groups = row_groups(words.layout)
        if groups is None:
            raise ValueError("in a layout with other than a row in each thread can not be stored so")
        return groups
    return words.layout.across
