"""Elementwise operations of a loop between two changes of layout, computed where they come from and go to.

Triton masks a tile that was computed before a loop with one that the loop loads: the loop's tile goes to the
layout of the other one, and the result back, through shared memory in every iteration. Takes a module; gives
the same with such an operation in the layout of the loop's tile, and what does not change in the loop brought
there once, in front of it. Lines stay where they are.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from twill.extract.dependence.loops import loops
from twill.extract.rewrite.text.edits import UNKNOWN, Edit, blanked, edited, mentions, text_of
from twill.extract.rewrite.text.makers import Makers, makers_of
from twill.extract.rewrite.text.type_text import type_text
from twill.ir.loop import Encoding, Loop, Module, Op, Tensor, Type, Value
from twill.ops.table import is_elementwise, named, role


@dataclass(frozen=True, slots=True)
class _Between:
    """An operation, the changes of layout that bring operands to it, and the one that takes its result."""

    op: Op
    brought: tuple[Op, ...]
    taken: Op
    invariant: tuple[Value, ...]

    @property
    def encoding(self) -> Encoding | None:
        """Of the operation from now on."""
        return _encoding(self.taken.result)


def exchanged_once(module: Module) -> Module:
    """The module itself where no loop has such an operation."""
    edits = list[Edit]()
    for place, loop in enumerate(loops(module)):
        users, makers = loop.function.users(), makers_of(loop.function.walk())
        changes = (op for op in loop.body.ops if role(op) == "layout" and op.operands and op.results)
        found = (_between(loop, users, makers, op) for op in changes)
        for number, one in enumerate(filter(None, found)):
            edits += _edits(module, loop, makers, one, f"_once{place}_{number}")
    return edited(module, edits)


def _between(loop: Loop, users: Mapping[int, Sequence[Op]], makers: Makers, taken: Op) -> _Between | None:
    """What a change of layout takes the result of, if that can be computed behind it."""
    op = makers.by_value.get(taken.operands[0].id)
    if op is None or op not in loop.body.ops or not is_elementwise(op) or op.regions:
        return None
    if len(op.results) != 1 or list(users[op.result.id]) != [taken]:
        return None
    inside = {value.id for one in loop.op.inner() for value in one.results}
    inside |= {arg.id for region in loop.op.regions for block in region.blocks for arg in block.args}
    brought, invariant = list[Op](), list[Value]()
    for value in dict.fromkeys(op.operands):
        maker = makers.of(value, "layout")
        if value.id not in inside:
            invariant.append(value)
        elif (
            maker in loop.body.ops
            and maker.operands
            and all(user is op for user in users[value.id])
            and _encoding(maker.operands[0]) == _encoding(taken.result)
        ):
            brought.append(maker)
        else:
            return None
    return _Between(op, tuple(brought), taken, tuple(invariant)) if brought else None


def _encoding(value: Value) -> Encoding | None:
    return value.type.encoding if isinstance(value.type, Tensor) else None


def _edits(module: Module, loop: Loop, makers: Makers, it: _Between, suffix: str) -> Iterator[Edit]:
    """The second change of layout stays, of one layout to itself."""
    text, before = _in_layout(module, it, it.op), ""
    for value in it.invariant:
        if isinstance(value.type, Tensor):
            name = f"{value.name.replace('#', '_')}{suffix}"
            before += f"{name} = {_brought(module, makers, it, value)} {UNKNOWN} "
            text = mentions(value.name).sub(name, text)
    for change in it.brought:
        text = mentions(change.result.name).sub(change.operands[0].name, text)
    yield Edit(loop.op.span.start, loop.op.span.start, before)
    yield Edit(it.op.span.start, it.op.span.end, text)
    yield Edit(it.taken.span.start, it.taken.span.end, _in_layout(module, it, it.taken))
    for op, following in pairwise(loop.body.ops):
        if op in it.brought:
            yield blanked(module, op.span.start, following.span.start)


def _brought(module: Module, makers: Makers, it: _Between, value: Value) -> str:
    """The operation that gives an invariant tile in the other layout: a constant anew."""
    old, new = _types(module, it, value.type)
    constant = makers.of(value, "constant")
    if constant is not None and isinstance(constant.attributes.get("value"), bool | int | float):
        return text_of(module, constant).partition("=")[2].strip().replace(old, new)
    return f"{named('layout')} {value.name} : {old} -> {new}"


def _in_layout(module: Module, it: _Between, op: Op) -> str:
    """The text of an operation on tiles in the other layout."""
    text = text_of(module, op)
    for old, new in {_types(module, it, value.type) for value in (*op.operands, *op.results)}:
        text = text.replace(old, new)
    return text


def _types(module: Module, it: _Between, type: Type) -> tuple[str, str]:
    """The text of a type, and of the same in the other layout."""
    laid = replace(type, encoding=it.encoding) if isinstance(type, Tensor) else type
    return type_text(module, type) or "", type_text(module, laid) or ""
