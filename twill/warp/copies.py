"""Which pointer loads of a loop are executed by asynchronous copies (cp.async) into a channel, and which by every reader.

Takes the code of a function and its scheduled loops; gives the code with these loads. Index tiles, from which addresses follow, are loaded
again by whoever reads them, unless the kernel writes memory of their type. A load qualifies if its tile lies in shared memory
as the tensor core or plain rows have it, if 4 bytes or more are known to be copied together, and if what its mask leaves out is zero or
arbitrary. Every other pointer load is executed element by element.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from twill.ir.loop import Encoding, MemDesc, NvmmaShared, Op, Pointer, Scalar, Tensor, Type
from twill.ops.row import Role
from twill.ops.table import role
from twill.warp.axis_info import AxisAnalysis, copied_together
from twill.warp.dataflow import ALLOC, Code
from twill.warp.tasks import Scheduled, root

_STEPS: frozenset[Role] = frozenset({"pointer_load", "pointer_store", "atomic"})


def with_copies(code: Code, loops: Sequence[Scheduled]) -> Code:
    """The code with the loads that asynchronous copies, and those that all readers execute."""
    analysis = AxisAnalysis(code)
    found = {op.index: vector for op in loaded_by_pointer(code, loops) if (vector := _vector(code, analysis, op))}
    return replace(code, copies=found, reloaded=frozenset(op.index for op in _index_tiles(code, loops)))


def _index_tiles(code: Code, loops: Sequence[Scheduled]) -> Iterator[Op]:
    inside = {op.index for one in loops for op in one.loop.body.walk()}
    written = {_pointee(op.operands[0].type) for op in code.ops.values() if role(op) in ("pointer_store", "atomic")}
    for op in code.ops.values():
        tile = op.result.type if role(op) == "pointer_load" else None
        index = isinstance(tile, Tensor) and bool(tile.shape) and isinstance(tile.dtype, Scalar) and tile.dtype.name.startswith("i")
        if index and _pointee(op.operands[0].type) not in written and (op.index not in inside or _addresses(code, op, inside)):
            yield op


def _pointee(type: Type) -> Type:
    """What pointers of a type point to."""
    dtype = type.dtype if isinstance(type, Tensor) else type
    return dtype.pointee if isinstance(dtype, Pointer) else dtype


def loaded_by_pointer(code: Code, loops: Iterable[Scheduled]) -> Iterator[Op]:
    """The pointer loads of tiles in loops that the group which loads executes, and nobody needs for an address."""
    for one in loops:
        inside = {op.index for op in one.loop.body.walk()}
        for op in (root(code, node) for node in one.graph.nodes if node.kind == "load"):
            if (
                role(op) == "pointer_load"
                and isinstance(op.result.type, Tensor)
                and op.result.type.shape
                and not _addresses(code, op, inside)
            ):
                yield op


def element_by_element(code: Code, loops: Sequence[Scheduled]) -> Iterator[tuple[Op, str]]:
    """The loads that copies do not execute, each with the reason."""
    for op in loaded_by_pointer(code, loops):
        if op.index not in code.copies:
            yield op, _reason(code, op)


def _reason(code: Code, op: Op) -> str:
    tile = op.result.type
    assert isinstance(tile, Tensor)
    if len(tile.shape) > 2:
        return f"a tile of {len(tile.shape)} dimensions"
    if not _zero(code, op):
        return "where its mask is false it is something other than zero"
    if not _understood(_encodings(code, op)):
        return "its layout in shared memory is not that of a TMA load"
    return "its pointers are not known to be consecutive and aligned, or its mask not to be the same, for 4 bytes or more"


def _addresses(code: Code, load: Op, inside: set[int]) -> bool:
    """Whether what is loaded says where, or if, the loop reads or writes memory."""
    waiting, seen = [load], {load.index}
    while waiting:
        for value in waiting.pop().results:
            for user in code.users.get(value.id, ()):
                if role(user) in _STEPS and (role(user) == "pointer_load" or user.operands[1].id != value.id):
                    return True
                if user.index in inside and user.index not in seen and not _computes(user):
                    seen.add(user.index)
                    waiting.append(user)
    return False


def _computes(op: Op) -> bool:
    """Its result is a number that goes to other groups, not an index."""
    tiles = [value.type for value in op.results if isinstance(value.type, Tensor | MemDesc)]
    return op.name == ALLOC or any(str(getattr(tile.dtype, "name", "i")).startswith(("f", "bf")) for tile in tiles)


def _vector(code: Code, analysis: AxisAnalysis, op: Op) -> int:
    """Bytes of each copy of a load; 0 where copies do not do."""
    encodings, tile = _encodings(code, op), op.result.type
    if not _understood(encodings) or not isinstance(tile, Tensor) or len(tile.shape) > 2 or not _zero(code, op):
        return 0
    encoding = next(iter(encodings), None)
    along = 0 if isinstance(encoding, NvmmaShared) and encoding.transposed else len(tile.shape) - 1
    return copied_together(analysis, op, along)


def _understood(encodings: set[Encoding]) -> bool:
    """One layout at most, as TMA writes it and the tensor core reads it."""
    swizzled = all(isinstance(one, NvmmaShared) and one.swizzle_bytes >= 32 for one in encodings)
    return len(encodings) <= 1 and swizzled


def _encodings(code: Code, op: Op) -> set[Encoding]:
    """How the tile lies in the buffers that it is copied to."""
    buffers = [user.result.type for user in code.users.get(op.result.id, ()) if user.name == ALLOC]
    return {buffer.encoding for buffer in buffers if isinstance(buffer, MemDesc) and buffer.encoding is not None}


def _zero(code: Code, op: Op) -> bool:
    """What the mask leaves out is zero, or nothing says what it is."""
    other = code.maker(op.operands[2]) if len(op.operands) > 2 else None
    return len(op.operands) < 3 or (other is not None and other.attributes.get("value") in (0, 0.0, False))
