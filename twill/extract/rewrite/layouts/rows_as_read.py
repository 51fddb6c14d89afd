"""Vectors that a loop loads and views as rows or columns of a tile, in the layout that the tile is read in.

Triton changes the layout of such a row behind the view, after it has changed that of the vector: an exchange
through shared memory between two barriers, in every iteration, though a vector can be read from its slot in
any layout at once. Takes a module; gives the same with the vector brought to the layout of the tile in front
of the view, where nothing else reads what lies between. Lines stay where they are.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from twill.extract.dependence.loops import loops
from twill.extract.rewrite.text.edits import UNKNOWN, Edit, blanked, edited, mentions, text_of
from twill.extract.rewrite.text.makers import Makers, makers_of
from twill.extract.rewrite.text.type_text import type_text
from twill.ir.loop import Encoding, Loop, Module, Op, Slice, Tensor, Value
from twill.ops.table import named, role


@dataclass(frozen=True, slots=True)
class _Row:
    """A loaded vector, its first change of layout if there is one, its view, and the change behind that."""

    vector: Value
    first: Op | None
    view: Op
    last: Op

    def name(self) -> str:
        """Of the vector in its layout."""
        return f"{self.view.result.name}_read"


def rows_as_read(module: Module) -> Module:
    """The module itself where no loop has such a vector."""
    edits = list[Edit]()
    for loop in loops(module):
        users, makers = loop.function.users(), makers_of(loop.function.walk())
        for view in loop.body.ops if loop.tensor_ops else ():
            if role(view) == "expand" and (row := _row(loop, users, makers, view)):
                edits += _edits(module, loop, row)
    return edited(module, edits)


def _row(loop: Loop, users: Mapping[int, Sequence[Op]], makers: Makers, view: Op) -> _Row | None:
    def alone(value: Value, *roles: str) -> Op | None:
        """What alone reads a value, if it is of one of these roles and in the loop."""
        (one, *others) = users.get(value.id) or (None,)
        return one if one in loop.body.ops and not others and role(one) in roles else None

    vector, last = view.operands[0], alone(view.result, "layout")
    first = makers.of(vector, "layout")
    if first is not None and alone(first.result, "expand") is view:
        vector = first.operands[0]
    else:
        first = None
    load = makers.of(vector, "pointer_load")
    if last is None or load not in loop.body.ops or alone(vector, "expand", "layout") is None:
        return None
    return _Row(vector, first, view, last)


def _edits(module: Module, loop: Loop, row: _Row) -> Iterator[Edit]:
    """The last change of layout stays, of one layout to itself."""
    last, dim = row.last.result.type, row.view.attributes.get("axis")
    texts = [type_text(module, value.type) for value in (row.vector, row.view.operands[0], row.view.result)]
    if not isinstance(last, Tensor) or not isinstance(row.vector.type, Tensor) or not isinstance(dim, int):
        return
    assert last.encoding is not None
    new = [type_text(module, _laid(row.vector.type, Slice(dim, last.encoding))), type_text(module, last)]
    if None in (*texts, *new):
        return
    loaded, before, viewed = (text or "" for text in texts)
    brought, after = (text or "" for text in new)
    change = f"{row.name()} = {named('layout')} {row.vector.name} : {loaded} -> {brought} {UNKNOWN} "
    view = mentions(row.view.operands[0].name).sub(row.name(), text_of(module, row.view))
    yield Edit(
        row.view.span.start,
        row.view.span.end,
        change + view.replace(viewed, after).replace(before, brought),
    )
    yield Edit(row.last.span.start, row.last.span.end, text_of(module, row.last).replace(viewed, after))
    for op, following in pairwise(loop.body.ops):
        if op is row.first:
            yield blanked(module, op.span.start, following.span.start)


def _laid(kind: Tensor, encoding: Encoding) -> Tensor:
    return replace(kind, encoding=encoding)
