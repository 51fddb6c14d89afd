"""In which order the programs of a grid begin.

A GPU begins thread blocks along x first, so those that run together differ in their first coordinates. What
they load alike is read from DRAM once and found in L2 by the others: `block_order` puts the axes first along
which tiles are shared. Correctness does not depend on it: programs of a grid begin in any order.
(On an H200, 8 products of 2048 x 2048 x 1024, their number along x and their tiles along y: 0.137 ms, 0.112
with tiles first.)
"""

from collections.abc import Iterator, Sequence

from twill.ir.loop import GRID, Op, Tensor, Type, Value
from twill.ir.program import AXES
from twill.ops.row import Role
from twill.ops.table import role
from twill.warp.dataflow import EFFECTS, Code, captured

_LOADS: frozenset[Role] = frozenset({"pointer_load", "tma_load"})


def block_order(code: Code) -> tuple[int, int, int]:
    """The axis of programs along each axis of the launch; as the kernel has them where it walks over the grid
    itself, or a program may wait for another one."""
    used = sorted({axis for op in code.ops.values() for axis in _axis(op)})
    if len(used) < 2 or _walks(code) or _communicates(code):
        return AXES
    apart = [_told_apart(code, op) for op in _loads(code)]
    alone = {axis: all(axis in own for own in apart) for axis in used}
    return _completed(sorted(used, key=lambda axis: alone[axis]))


def _completed(order: Sequence[int]) -> tuple[int, int, int]:
    """With the axes that the kernel does not use, whose extents are 1, where they are."""
    rest, found = iter(order), [axis if axis not in order else -1 for axis in AXES]
    x, y, z = (next(rest) if axis < 0 else axis for axis in found)
    return x, y, z


def _walks(code: Code) -> bool:
    return any(GRID in attributes for attributes in code.function.arg_attributes)


def _communicates(code: Code) -> bool:
    """Whether what a program does may depend on what others have written."""
    return any(
        role(op) == "while" or (op.name in EFFECTS and any(one.id in code.users for one in op.results))
        for op in code.ops.values()
    )


def _axis(op: Op) -> Iterator[int]:
    axis = op.attributes.get("axis") if role(op) == "program_id" else None
    if isinstance(axis, str):
        yield "xyz".index(axis)


def _loads(code: Code) -> list[Op]:
    """The loads of tiles: in loops, or all where no loop has any."""
    inside = {inner.index for op in code.ops.values() if role(op) == "for" for inner in op.inner()}
    loads = [op for op in code.ops.values() if role(op) in _LOADS and _tile(op.result.type)]
    return [op for op in loads if op.index in inside] or loads


def _tile(type: Type) -> bool:
    return isinstance(type, Tensor) and sum(extent > 1 for extent in type.shape) > 1


def _told_apart(code: Code, load: Op) -> frozenset[int]:
    """The axes along which neighbouring programs load from other places: not those on whose
    quotients alone an address depends."""
    roots = load.operands if role(load) == "tma_load" else load.operands[:1]
    todo, seen, found = [(value, False) for value in roots], set[tuple[int, bool]](), set[int]()
    while todo:
        value, divided = todo.pop()
        maker = code.maker(value)
        if (value.id, divided) in seen:
            continue
        seen.add((value.id, divided))
        if maker is not None and not divided:
            found.update(_axis(maker))
        todo += [(one, divided or quotient) for one, quotient in _from(code, value, maker)]
    return frozenset(found)


def _from(code: Code, value: Value, maker: Op | None) -> Iterator[tuple[Value, bool]]:
    """What a value follows from, each with whether it is divided."""
    if value.id in code.carried:
        yield from ((one, False) for one in code.carried[value.id])
    elif maker is not None:
        divided = maker.operands[0].id if role(maker) == "divide" else None
        yield from ((one, one.id == divided) for one in captured(maker))
