"""Which pointer loads of a loop are executed by asynchronous copies (cp.async) into a channel, and which by
every reader.

A vector that is consecutive and aligned is one bulk copy (cp.async.bulk), which one thread issues. A number
is one copy too: the group that loads does not wait for it.

Takes the code of a function and its scheduled loops; gives the code with these loads. Index tiles, from which
addresses follow, are loaded again by whoever reads them, unless the kernel may store to their array. A
load qualifies if its tile lies in shared memory as the tensor core or plain rows have it, if 4 bytes or more
are known to be copied together, and if what its mask leaves out is a constant or arbitrary. Tiles of 8 and 16
bits of which less is known to be copied together pass through the registers of the threads that load. Every
other pointer load is executed element by element.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from twill.ir.loop import Op, Scalar, Tensor
from twill.ops.axis_info import AxisAnalysis
from twill.ops.pointer_loads import (
    WORD,
    copied_across,
    copy_bytes,
    feeds_address,
    number_bytes,
    one_copy,
    register_access,
    repeated_rows,
    scattered,
    why_not,
)
from twill.ops.table import role
from twill.warp.dataflow import EFFECTS, Code
from twill.warp.disjoint import may_write
from twill.warp.tasks import Scheduled, root
from twill.warp.thread_block import only_moves


def with_copies(code: Code, loops: Sequence[Scheduled]) -> Code:
    """The code with the loads that asynchronous copies, and those that all readers execute."""
    analysis = AxisAnalysis(code.function)
    found = {
        op.index: 0 if one_copy(analysis, op) else vector
        for op in loaded_by_pointer(code, loops)
        if (vector := copy_bytes(analysis, op))
    }
    found |= {op.index: size for op in _numbers(code, loops) if (size := number_bytes(analysis, op))}
    across = frozenset(index for index in found if copied_across(analysis, code.ops[index]))
    reloaded = frozenset(op.index for op in _index_tiles(code, loops))
    others = {
        op.index: access
        for op in loaded_by_pointer(code, loops)
        if op.index not in found and (access := register_access(analysis, op)) is not None
    }
    vectors = found | {index: size for index, (size, _) in others.items()}
    return replace(
        code,
        copies=vectors,
        through_registers={index: axis for index, (_, axis) in others.items()},
        across=across,
        scattered=frozenset(
            index
            for index, vector in found.items()
            if vector == WORD and scattered(analysis, code.ops[index])
        ),
        repeated={
            index: rows
            for index, vector in vectors.items()
            if vector and (rows := repeated_rows(analysis, code.ops[index])) > 1
        },
        reloaded=reloaded,
    )


def for_one_group(code: Code, loops: Sequence[Scheduled]) -> Code:
    """The code for one group that computes and loads. Vectors whose elements copies can not bring stay in the
    registers of the threads that load them: on the way through shared memory, slots ahead, all would
    wait for these."""
    vectors = {index for index in code.through_registers if len(_shape(code.ops[index])) == 1}
    copies = {index: size for index, size in code.copies.items() if index not in vectors}
    through = {index: axis for index, axis in code.through_registers.items() if index not in vectors}
    return with_reloaded_numbers(replace(code, copies=copies, through_registers=through), loops)


def _shape(op: Op) -> tuple[int, ...]:
    return tuple(op.result.type.shape) if isinstance(op.result.type, Tensor) else ()


def with_reloaded_numbers(code: Code, loops: Sequence[Scheduled]) -> Code:
    """The code for one group that computes and loads: numbers of which loads in a loop say where, or whether,
    others read (the flag of a block of sparse attention, for one) are loaded again by whoever reads them. No
    other group reads them ahead then, and copies are issued several iterations before the group itself
    reaches the iteration of the number. (The copies have brought its line to the cache by then.)"""
    inside = _inside(loops) - set(code.copies)
    loads = (op for op in _for_addresses(code, loops) if isinstance(op.result.type, Scalar))
    return replace(code, reloaded=code.reloaded | {op.index for op in loads if op.index in inside})


def _index_tiles(code: Code, loops: Sequence[Scheduled]) -> Iterator[Op]:
    for op in _for_addresses(code, loops):
        tile = op.result.type
        if (
            isinstance(tile, Tensor)
            and tile.shape
            and isinstance(tile.dtype, Scalar)
            and tile.dtype.name.startswith("i")
        ):
            yield op


def _for_addresses(code: Code, loops: Sequence[Scheduled]) -> Iterator[Op]:
    """The pointer loads of what nothing in the kernel writes: outside of loops, and in these where what is
    loaded says where, or whether, other loads read."""
    analysis, inside = AxisAnalysis(code.function), _inside(loops)
    stores = [op for op in code.ops.values() if op.name in EFFECTS]
    for op in code.ops.values():
        if (
            role(op) == "pointer_load"
            and (op.index not in inside or feeds_address(analysis, op, inside))
            and not any(may_write(code, store, op) for store in stores)
        ):
            yield op


def _inside(loops: Sequence[Scheduled]) -> set[int]:
    return {op.index for one in loops for op in one.loop.body.walk()}


def loaded_by_pointer(code: Code, loops: Iterable[Scheduled]) -> Iterator[Op]:
    """The pointer loads of tiles in loops that the group which loads executes, and nobody needs for an
    address."""
    analysis = AxisAnalysis(code.function)
    for one in loops:
        inside = {op.index for op in one.loop.body.walk()}
        for op in (root(code, node) for node in one.graph.nodes if node.kind == "load"):
            if (
                role(op) == "pointer_load"
                and isinstance(op.result.type, Tensor)
                and op.result.type.shape
                and not feeds_address(analysis, op, inside)
            ):
                yield op


def _numbers(code: Code, loops: Iterable[Scheduled]) -> Iterator[Op]:
    """The loads of numbers in loops that a group which only moves data executes for others."""
    analysis = AxisAnalysis(code.function)
    for one in loops:
        inside = {op.index for op in one.loop.body.walk()}
        moving = {group.id for group in one.solution.groups if only_moves(group)}
        for node in one.graph.nodes:
            op = root(code, node) if node.kind == "load" and one.group(node.id) in moving else None
            own = any(edge.src == node.id and one.group(edge.dst) in moving for edge in one.graph.edges)
            if op and role(op) == "pointer_load" and not own and not feeds_address(analysis, op, inside):
                yield op


def element_by_element(code: Code, loops: Sequence[Scheduled]) -> Iterator[tuple[Op, str]]:
    """The loads that copies do not execute, each with the reason."""
    for op in loaded_by_pointer(code, loops):
        if op.index not in code.copies:
            yield op, why_not(AxisAnalysis(code.function), op)
