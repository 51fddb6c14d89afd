"""Vectors that a loop without MMAs loads in one layout and reads in another: loaded as they are read.

Triton loads each element of a vector once and changes the layout of the vector where it becomes rows or
columns of a tile: an exchange through shared memory between two barriers, in every iteration. Takes a
module; gives the same with such a load in the layout that it is read in, so that threads load elements again
which others have, from L1, several in one access. Addresses and masks are computed there. A kernel that
stores through the same argument keeps its exchange: a thread may count on finding what it has stored itself.
Lines stay where they are.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from twill.extract.dependence.loops import loops
from twill.extract.rewrite.loads.early_loads import Arguments, apart
from twill.extract.rewrite.text.edits import UNKNOWN, Edit, edited, mentions, text_of
from twill.extract.rewrite.text.type_text import type_text
from twill.ir.distribution import distribution
from twill.ir.loop import Encoding, Loop, Module, Op, Tensor, Value
from twill.ops.axis_info import element_bytes
from twill.ops.table import is_elementwise, named, role, writes_global

_MOST = 8
"""Accesses of a thread for a vector."""
_WIDEST = 16
"""Bytes of one."""


@dataclass(frozen=True, slots=True)
class _Load:
    """A load, the operations on each of its elements, and the layout that all of these are read in."""

    load: Op
    converted: tuple[Op, ...]
    encoding: Encoding


def loaded_as_read(module: Module) -> Module:
    """The module itself where no loop has such a vector."""
    edits = list[Edit]()
    for loop in loops(module):
        if loop.tensor_ops:
            continue
        users, arguments = loop.function.users(), Arguments(loop.function)
        stored = [arguments.of(op) for op in loop.function.walk() if writes_global(op)]
        found = (_found(loop, users, op) for op in loop.body.ops if role(op) == "pointer_load")
        for one in filter(None, found):
            edits += _edits(module, one) if apart(stored, [arguments.of(one.load)]) else ()
    return edited(module, edits)


def _found(loop: Loop, users: Mapping[int, Sequence[Op]], load: Op) -> _Load | None:
    kind = load.result.type
    if not isinstance(kind, Tensor) or len(kind.shape) != 1:
        return None
    todo, between, changes = list(users.get(load.result.id, ())), list[Op](), list[Op]()
    while todo:
        op = todo.pop()
        if op not in loop.body.ops:
            return None
        if role(op) == "layout":
            changes.append(op)
        elif is_elementwise(op) and len(op.operands) == 1 and op not in between:
            between.append(op)
            todo += users.get(op.result.id, ())
        else:
            return None
    layouts = [one.result.type.encoding for one in changes if isinstance(one.result.type, Tensor)]
    first = layouts[0] if layouts else None
    if first is None or any(one != first for one in layouts) or _accesses(load, first) > _MOST:
        return None
    return _Load(load, (*between, *changes), first)


def _accesses(load: Op, encoding: Encoding | None) -> int:
    """How many accesses of 16 bytes or less each thread makes."""
    kind = load.result.type
    found = distribution(encoding, kind.shape) if isinstance(kind, Tensor) else None
    if found is None:
        return _MOST + 1
    together = min(found.side_by_side(0), _WIDEST // element_bytes(load.operands[0].type))
    return found.per_thread // together


def _edits(module: Module, one: _Load) -> Iterator[Edit]:
    """The changes of layout stay, of one layout to itself."""
    load, before = one.load, ""
    text = _in_layout(module, load, one.encoding)
    for i, value in enumerate(load.operands):
        name, kinds = f"{load.result.name}_of{i}", " -> ".join(_types(module, value, one.encoding))
        before += f"{name} = {named('layout')} {value.name} : {kinds} {UNKNOWN} "
        text = mentions(value.name).sub(name, text)
    yield Edit(load.span.start, load.span.end, before + text)
    for op in one.converted:
        yield Edit(op.span.start, op.span.end, _in_layout(module, op, one.encoding))


def _in_layout(module: Module, op: Op, encoding: Encoding) -> str:
    """The text of an operation on tiles in another layout."""
    text = text_of(module, op)
    for old, new in {_types(module, value, encoding) for value in (*op.operands, *op.results)}:
        text = text.replace(old, new)
    return text


def _types(module: Module, value: Value, encoding: Encoding) -> tuple[str, str]:
    """The type of a value, and with another layout where it is a tile."""
    laid = replace(value.type, encoding=encoding) if isinstance(value.type, Tensor) else value.type
    return type_text(module, value.type) or "", type_text(module, laid) or ""
