"""What more warps hold of tiles in linear layouts: each a part, where they would hold copies.

A linear layout names no number of warps that could be multiplied: each bit of a warp's number moves to
another element, or to none. Operands that a kernel unpacks and scales have such layouts. Takes a module whose
layouts have had warps added that hold copies, and the bits of these warps' numbers; gives the same with a
register of each tile in the place of a copy. Views (`tt.reshape`, `tt.trans`, `tt.broadcast`, `tt.split`,
`tt.join`, `ttg.fp4_to_fp`) keep elements in their threads, so the layouts that they relate are changed
together: as an accumulator or its operand among them is spread, else by the last register of the largest
tile. Layouts of which one can not follow stay as they are. Lines stay where they are.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import prod
from typing import NamedTuple

from twill.extract.rewrite.text.edits import Edit, edited
from twill.extract.rewrite.text.layout_lines import alias_line, replaced
from twill.ir.distribution import distribution, root
from twill.ir.loop import Encoding, Linear, Module, Op, Tensor
from twill.ops.axis import axis_of
from twill.ops.row import Role
from twill.ops.table import role

_VIEWS: tuple[Role, ...] = ("reshape", "transpose", "broadcast", "unpack", "split", "join")
Vector = tuple[int, ...]
"""By dimension, how far an element moves: a power of two in one of them, or nowhere."""
Beside = Mapping[Encoding, Sequence[tuple["_View", bool]]]
"""By layout, the views of or from tiles of it; whether of."""


class _View(NamedTuple):
    op: Op
    source: Tensor
    result: Tensor

    def forward(self, vector: Vector) -> Vector:
        """Where an element of the result lies, of one of the operand."""
        match role(self.op):
            case "reshape":
                return _reshaped(vector, self.source.shape, self.result.shape)
            case "transpose":
                return tuple(vector[axis] for axis in _order(self.op))
            case "unpack":
                return _scaled(vector, axis_of(self.op), 2)
            case "split":
                return vector[:-1]
            case "join":
                return (*vector, 0)
            case _:
                return vector

    def backward(self, vector: Vector) -> Vector:
        """Of which element of the operand one of the result is."""
        match role(self.op):
            case "reshape":
                return _reshaped(vector, self.result.shape, self.source.shape)
            case "transpose":
                order = _order(self.op)
                return tuple(vector[order.index(axis)] for axis in range(len(order)))
            case "unpack":
                return _scaled(vector, axis_of(self.op), 1 / 2)
            case "split":
                return (*vector, 0)
            case "join":
                return vector[:-1]
            case _:
                return tuple(v if size > 1 else 0 for v, size in zip(vector, self.source.shape, strict=True))


def spread(module: Module, bits: Iterable[int]) -> Module:
    """The module itself where no layout can be spread further."""
    for bit in bits:
        module = _edited(module, _spread(module, bit), bit)
    return module


def _spread(module: Module, bit: int) -> Mapping[Linear, Vector]:
    """By layout, the register that a bit of the warp's number takes the place of."""
    tiles, beside = tiles_of(module), views_beside(module)
    found, seen = dict[Linear, Vector](), set[Encoding]()
    for layout in sorted(filter(_of(bit), tiles), key=lambda one: -max(map(prod, tiles[one]))):
        if layout in seen:
            continue
        related = related_by(layout, beside)
        seen |= related
        for begin, vector in _begins(layout, related, tiles, bit):
            made = followed(begin, vector, beside)
            if made is not None and _possible(made, tiles, bit):
                found |= {one: at for one, at in made.items() if isinstance(one, Linear) and any(at)}
                break
    return found


def tiles_of(module: Module) -> Mapping[Encoding, set[Vector]]:
    """The shapes of the tiles in each layout."""
    found = defaultdict[Encoding, set[Vector]](set)
    for function in module.functions:
        for op in function.walk():
            for value in (*op.operands, *op.results):
                if isinstance(value.type, Tensor) and value.type.encoding is not None:
                    found[value.type.encoding].add(value.type.shape)
    return found


def views_beside(module: Module) -> Beside:
    beside = defaultdict[Encoding, list[tuple[_View, bool]]](list)
    for view in _views(module):
        assert view.source.encoding is not None
        assert view.result.encoding is not None
        beside[view.source.encoding].append((view, True))
        beside[view.result.encoding].append((view, False))
    return beside


def _views(module: Module) -> Iterator[_View]:
    """Of one layout as another."""
    for function in module.functions:
        for op in function.walk():
            if role(op) in _VIEWS and op.operands and op.results:
                source, result = op.operands[0].type, op.results[0].type
                if isinstance(source, Tensor) and isinstance(result, Tensor):
                    yield _View(op, source, result)


def _of(bit: int):
    """Whether the warps of a bit hold copies in a layout."""

    def copies(layout: Encoding) -> bool:
        return isinstance(layout, Linear) and len(layout.warp) > bit and not any(layout.warp[bit])

    return copies


def related_by(layout: Encoding, beside: Beside) -> frozenset[Encoding]:
    """The layout and all that views relate to it."""
    found, waiting = {layout}, [layout]
    while waiting:
        for view, forward in beside.get(waiting.pop(), ()):
            other = view.result.encoding if forward else view.source.encoding
            if other is not None and other not in found:
                found.add(other)
                waiting.append(other)
    return frozenset(found)


def _begins(
    layout: Encoding, related: Iterable[Encoding], tiles: Mapping[Encoding, set[Vector]], bit: int
) -> Iterator[tuple[Encoding, Vector]]:
    """Where a layout among the related ones may begin: where one is given, else at the registers of the
    largest tile, the last ones first."""
    assert isinstance(layout, Linear)
    given = [one for one in related if not isinstance(one, Linear)]
    if not given:
        yield from ((layout, vector) for vector in sorted(layout.register, reverse=True, key=max))
        return
    first = min(given, key=str)
    vector = _held(first, tiles, bit)
    if vector is not None:
        yield first, vector


def _held(layout: Encoding, tiles: Mapping[Encoding, set[Vector]], bit: int) -> Vector | None:
    """Where a bit of the warp's number moves an element in a layout that is no linear one."""
    every = {distribution(layout, shape) for shape in tiles[layout]}
    vectors = {one.warp[bit] if one is not None and len(one.warp) > bit else None for one in every}
    return vectors.pop() if len(vectors) == 1 else None


def followed(begin: Encoding, vector: Vector, beside: Beside) -> Mapping[Encoding, Vector] | None:
    """The same bit in all related layouts; None where they contradict each other."""
    found, waiting = {begin: vector}, [begin]
    while waiting:
        layout = waiting.pop()
        for view, forward in beside.get(layout, ()):
            one, other = (
                (view.source, view.result.encoding) if forward else (view.result, view.source.encoding)
            )
            if len(one.shape) != len(found[layout]) or other is None:
                return None
            at = view.forward(found[layout]) if forward else view.backward(found[layout])
            if other not in found:
                found[other] = at
                waiting.append(other)
            elif found[other] != at:
                return None
    return found


def _possible(made: Mapping[Encoding, Vector], tiles: Mapping[Encoding, set[Vector]], bit: int) -> bool:
    """Whether every linear layout has the register that a warp takes, and all others are spread so."""
    for layout, vector in made.items():
        if isinstance(layout, Linear):
            if any(vector) and not (_of(bit)(layout) and layout.register.count(vector) == 1):
                return False
        elif isinstance(root(layout), Linear) or _held(layout, tiles, bit) != vector:
            return False
    return True


def _edited(module: Module, moved: Mapping[Linear, Vector], bit: int) -> Module:
    edits = list[Edit]()
    for name, layout in module.encodings.items():
        if isinstance(layout, Linear) and layout in moved:
            begin, end = alias_line(module, name)
            line, vector = module.text[begin:end], moved[layout]
            warps = (*layout.warp[:bit], vector, *layout.warp[bit + 1 :])
            line = replaced(line, "warp", layout.warp, warps)
            kept = tuple(one for one in layout.register if one != vector)
            edits.append(Edit(begin, end, replaced(line, "register", layout.register, kept)))
    return edited(module, edits) if edits else module


def _reshaped(vector: Vector, source: Vector, result: Vector) -> Vector:
    """The place with the same number among all elements, row by row."""
    number = 0
    for at, size in zip(vector, source, strict=True):
        number = number * size + at
    found = list[int]()
    for size in reversed(result):
        found.append(number % size)
        number //= size
    return tuple(reversed(found))


def _scaled(vector: Vector, axis: int, by: float) -> Vector:
    return tuple(int(v * by) if d == axis else v for d, v in enumerate(vector))


def _order(op: Op) -> Sequence[int]:
    order = op.attributes.get("order")
    return [int(str(axis)) for axis in order] if isinstance(order, tuple) else [1, 0]
