"""Scale factors of block-scaled MMAs that threads compute: through shared memory.

Triton stores such a tile to tensor memory by threads, four times over (`ttng.tmem_alloc` of a tile in
registers). Takes a module; gives the same in which it is written to shared memory in blocks of 128 rows x 4,
where one that TMA loads would lie: MMAs copy these to tensor memory by themselves (`tcgen05.cp`), in order
with what they read, so that a slot is all that a producer waits for. The tile is taken in the layout in which
it is computed. Tiles that do not consist of whole blocks stay as they are, and so do lines.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from twill.extract.rewrite.text.edits import Edit, blanked, edited, listed, text_of
from twill.extract.rewrite.text.type_text import type_text
from twill.ir.loop import Function, MemDesc, Module, Op, Tensor, Value
from twill.ops.mma import inputs
from twill.ops.table import named, role

BLOCK_ROWS, BLOCK_FACTORS = 128, 4
"""Of a block (PTX ISA, "Scale Factor A")."""
IN_BLOCK = ("[0, 1]", "[0, 2]", "[32, 0]", "[64, 0]", *(f"[{1 << i}, 0]" for i in range(5)))
"""Row and factor at each bit of a byte's offset in a block."""


def shared_scales(module: Module) -> Module:
    """The module itself where no MMA needs it."""
    return edited(module, (edit for function in module.functions for edit in _of_function(module, function)))


def _of_function(module: Module, function: Function) -> Iterator[Edit]:
    makers = {value.id: op for op in function.walk() for value in op.results}
    users, buffers, unread = function.users(), dict[int, str](), set[int]()
    for op in function.walk():
        result = op.results[0] if _stored(op) else None
        if result is None or not all(_scales(user, result) for user in users.get(result.id, ())):
            continue
        source = _as_computed(module, makers, op.operands[0])
        if (tile := type_text(module, source.type)) is not None:
            buffers[result.id] = _buffer(module, result.type)
            made = f"{named('alloc')} {source.name} : ({tile}) -> {buffers[result.id]}"
            yield Edit(op.span.start, op.span.end, f"{result.name} = {made}")
            unread |= {*_unread(makers, users, op.operands[0], source)}
    for block in function.blocks():
        for op, following in pairwise(block.ops):
            if op.index in unread:
                yield blanked(module, op.span.start, following.span.start)
    for op in function.walk():
        if role(op) == "tensor_memory_mma":
            yield from _read_there(module, op, buffers)


def _stored(op: Op) -> bool:
    """Whether threads store a tile of whole blocks of bytes to a buffer of its own in tensor memory."""
    if role(op) != "tensor_memory_alloc" or len(op.operands) != 1 or len(op.results) != 1:
        return False
    kind, tile = op.results[0].type, op.operands[0].type
    if not isinstance(kind, MemDesc) or not isinstance(tile, Tensor) or len(kind.shape) != 2:
        return False
    rows, factors = kind.shape
    whole = rows % BLOCK_ROWS == 0 and factors % BLOCK_FACTORS == 0
    return whole and all(size & (size - 1) == 0 for size in kind.shape)


def _scales(user: Op, value: Value) -> bool:
    """Whether an operation reads a buffer as scale factors of an MMA."""
    return role(user) == "tensor_memory_mma" and any(value.id == one.id for one in inputs(user)[2:])


def _as_computed(module: Module, makers: Mapping[int, Op], value: Value) -> Value:
    """The tile before changes of its layout."""
    while (maker := makers.get(value.id)) is not None and role(maker) == "layout":
        if type_text(module, maker.operands[0].type) is None:
            break
        value = maker.operands[0]
    return value


def _unread(
    makers: Mapping[int, Op], users: Mapping[int, Sequence[Op]], value: Value, source: Value
) -> Iterator[int]:
    """The changes of a tile's layout behind `source`, by index, that nothing else reads."""
    while value.id != source.id and len(users[value.id]) == 1:
        yield makers[value.id].index
        value = makers[value.id].operands[0]


def _buffer(module: Module, kind: object) -> str:
    """The type of the buffer in shared memory: block after block of the rows, then the next factors."""
    assert isinstance(kind, MemDesc)
    rows, factors = kind.shape
    more = [f"[{size}, 0]" for size in _doubled(BLOCK_ROWS, rows)]
    more += [f"[0, {size}]" for size in _doubled(BLOCK_FACTORS, factors)]
    layout = f"#ttg.shared_linear<{{offset = [{', '.join((*IN_BLOCK, *more))}]}}, alignment = 128>"
    dtype = type_text(module, kind.dtype)
    return f"!ttg.memdesc<{rows}x{factors}x{dtype}, {layout}, #ttg.shared_memory>"


def _doubled(first: int, end: int) -> Iterator[int]:
    while first < end:
        yield first
        first *= 2


def _read_there(module: Module, mma: Op, buffers: Mapping[int, str]) -> Iterator[Edit]:
    """The types of the operands that are other buffers now."""
    operands = [value for value in mma.operands if isinstance(value.type, MemDesc)]
    text = text_of(module, mma)
    begin = text.rindex(" : ") + len(" : ")
    for value, kind in zip(operands, listed(text[begin:]), strict=False):
        at = text.index(kind, begin)
        if value.id in buffers:
            yield Edit(mma.span.start + at, mma.span.start + at + len(kind), buffers[value.id])
        begin = at + len(kind)
