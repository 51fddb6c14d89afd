"""The form that TTGIR gives its operations: element types, shapes and attributes, as rules of rows.

A rule takes an operation whose number of operands is right; gives what is wrong with it, or None. (They are
those of Triton's and MLIR's own verifiers: TritonOps.td, TritonGPUAttrDefs.td, ArithOps.td.)
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod

from twill.ir.loop import MemDesc, Op, Pointer, Scalar, Tensor, TensorDesc, Type, Value
from twill.ops.row import Complaint, Row, Rule

# --- types -------------------------------------------------------------------------------------------------


def shape(value: Value) -> tuple[int, ...]:
    """Of a tile, a buffer or a block of a descriptor; () for a scalar."""
    return value.type.shape if isinstance(value.type, Tensor | MemDesc | TensorDesc) else ()


def element(value: Value) -> Type:
    """The element type of a tile; a scalar's own type. Descriptors tell unsigned integers apart (`ui8`),
    values do not."""
    return _signless(
        value.type.dtype if isinstance(value.type, Tensor | MemDesc | TensorDesc) else value.type
    )


def _signless(kind: Type) -> Type:
    """Descriptors of integers say whether they have a sign; tiles and pointers do not."""
    return Scalar(kind.signless) if isinstance(kind, Scalar) else kind


def is_float(value: Value) -> bool:
    kind = element(value)
    return isinstance(kind, Scalar) and kind.name.startswith(("f", "bf", "tf"))


def is_integer(value: Value) -> bool:
    kind = element(value)
    return isinstance(kind, Scalar) and kind.name.startswith("i")


def is_bit(value: Value) -> bool:
    return element(value) == Scalar("i1")


def _scalar(value: Value) -> bool:
    return isinstance(value.type, Scalar) and is_integer(value)


# --- rules ------------------------------------------------------------------------------------------------


def _alike(op: Op) -> Complaint:
    """Elementwise, all of one type."""
    types = {(shape(value), element(value)) for value in (*op.operands, *op.results)}
    return "has operands and results of different types" if len(types) > 1 else None


def of_kind(holds: Callable[[Value], bool], what: str) -> Rule:
    """Elementwise, on elements of a kind."""
    return lambda op: (
        _alike(op)
        or (None if all(holds(value) for value in op.operands) else f"is not for anything but {what}")
    )


def comparison(holds: Callable[[Value], bool], what: str) -> Rule:
    def rule(op: Op) -> Complaint:
        one, other = op.operands
        if (
            (shape(one), element(one)) != (shape(other), element(other))
            or shape(op.result) != shape(one)
            or not is_bit(op.result)
        ):
            return "compares values of different types"
        if not isinstance(op.attributes.get("predicate"), str):
            return "has no predicate"
        return None if holds(one) else f"is not for anything but {what}"

    return rule


def conversion(source: Callable[[Value], bool], result: Callable[[Value], bool]) -> Rule:
    def rule(op: Op) -> Complaint:
        if shape(op.operands[0]) != shape(op.result):
            return "changes the shape"
        return None if source(op.operands[0]) and result(op.result) else "does not cast between these types"

    return rule


def select(op: Op) -> Complaint:
    condition, one, other = op.operands
    same = shape(one) == shape(other) == shape(op.result) and element(one) == element(other) == element(
        op.result
    )
    fits = is_bit(condition) and shape(condition) in ((), shape(op.result))
    return None if same and fits else "chooses between values of different types"


def constant(op: Op) -> Complaint:
    return None if op.attributes.get("value") is not None else "has no value"


def _axis(op: Op, rank: int) -> int | None:
    axis = op.attributes.get("axis")
    return axis if isinstance(axis, int) and 0 <= axis < rank else None


def expand(op: Op) -> Complaint:
    old, new = shape(op.operands[0]), shape(op.result)
    axis = _axis(op, len(old) + 1)
    if axis is None:
        return f"has no axis below {len(old) + 1}"
    return None if new == (*old[:axis], 1, *old[axis:]) and _same_element(op) else f"makes {new} of {old}"


def broadcast(op: Op) -> Complaint:
    old, new = shape(op.operands[0]), shape(op.result)
    fits = len(old) == len(new) and all(one in (1, other) for one, other in zip(old, new, strict=True))
    return None if fits and _same_element(op) else f"makes {new} of {old}"


def splat(op: Op) -> Complaint:
    return (
        None
        if not shape(op.operands[0]) and _same_element(op)
        else "takes a scalar of the result's element type"
    )


def trans(op: Op) -> Complaint:
    old, new, order = shape(op.operands[0]), shape(op.result), op.attributes.get("order")
    if not isinstance(order, tuple) or sorted(order, key=str) != list(range(len(old))):
        return f"has no order of {len(old)} dimensions"
    moved = tuple(old[axis] for axis in order if isinstance(axis, int))
    return None if moved == new and _same_element(op) else f"makes {new} of {old}"


def reshape(op: Op) -> Complaint:
    return (
        None
        if prod(shape(op.operands[0])) == prod(shape(op.result)) and _same_element(op)
        else "changes the number of elements"
    )


def unpack(op: Op) -> Complaint:
    old, new, axis = shape(op.operands[0]), shape(op.result), op.attributes.get("axis")
    if not isinstance(axis, int) or not 0 <= axis < len(old):
        return f"has no axis below {len(old)}"
    return None if new == (*old[:axis], 2 * old[axis], *old[axis + 1 :]) else f"makes {new} of {old}"


def unchanged(op: Op) -> Complaint:
    """Another layout, or another memory, of the same tile."""
    if not op.operands:
        return None
    return (
        None
        if shape(op.operands[0]) == shape(op.result) and _same_element(op)
        else "changes shape or element type"
    )


def _same_element(op: Op) -> bool:
    return element(op.operands[0]) == element(op.result)


def index_range(op: Op) -> Complaint:
    start, end = op.attributes.get("start"), op.attributes.get("end")
    if (
        not isinstance(start, int)
        or not isinstance(end, int)
        or shape(op.result) != (end - start,)
        or not is_integer(op.result)
    ):
        return "has a start and an end that do not fit its result"
    return None


def addptr(op: Op) -> Complaint:
    pointer, offset = op.operands
    same = shape(pointer) == shape(offset) == shape(op.result) and element(pointer) == element(op.result)
    return (
        None
        if same and isinstance(element(pointer), Pointer) and is_integer(offset)
        else "adds a number to a pointer of the same shape"
    )


def program(op: Op) -> Complaint:
    return None if op.attributes.get("axis") in ("x", "y", "z", 0, 1, 2) else "has no axis x, y or z"


def reduce(op: Op) -> Complaint:
    old = shape(op.operands[0])
    axis = _axis(op, len(old))
    if axis is None:
        return f"has no axis below {len(old)}"
    if len(op.results) != len(op.operands) or any(shape(value) != old for value in op.operands):
        return "reduces tiles of different shapes"
    if any(shape(value) != (*old[:axis], *old[axis + 1 :]) for value in op.results):
        return "has results of another shape than its operands without the axis"
    blocks = op.regions[0].blocks if op.regions else ()
    fits = len(blocks) == 1 and len(blocks[0].args) == 2 * len(op.operands) and bool(blocks[0].ops)
    return None if fits else "has no region for two elements of each operand"


def load(op: Op) -> Complaint:
    return _through_pointer(op, op.result, op.operands[1:2], op.operands[2:3])


def store(op: Op) -> Complaint:
    return _through_pointer(op, op.operands[1], op.operands[2:3], ())


def atomic(op: Op) -> Complaint:
    if not isinstance(op.attributes.get("atomic_rmw_op"), str):
        return "has no kind"
    return _through_pointer(op, op.operands[1], op.operands[2:3], op.results)


def _through_pointer(op: Op, moved: Value, masks: Sequence[Value], others: Sequence[Value]) -> Complaint:
    pointer = op.operands[0]
    kind = element(pointer)
    if (
        not isinstance(kind, Pointer)
        or _signless(kind.pointee) != element(moved)
        or shape(pointer) != shape(moved)
    ):
        return "moves other elements than its pointers point to"
    if any(not is_bit(mask) or shape(mask) != shape(moved) for mask in masks):
        return "has a mask of another shape or type"
    return (
        None
        if all((shape(o), element(o)) == (shape(moved), element(moved)) for o in others)
        else "has values of different types"
    )


def descriptor(op: Op) -> Complaint:
    rank = len(shape(op.result))
    if (
        not isinstance(op.result.type, TensorDesc)
        or not 1 <= rank <= 5
        or any(size < 1 for size in shape(op.result))
    ):
        return "makes no descriptor of one to five dimensions"
    if len(op.operands) < 1 + 2 * rank or not all(_scalar(value) for value in op.operands[1 : 1 + 2 * rank]):
        return f"takes a pointer, {rank} sizes and {rank} strides"
    pointer = element(op.operands[0])
    fits = (
        isinstance(pointer, Pointer)
        and not shape(op.operands[0])
        and _signless(pointer.pointee) == element(op.result)
    )
    return None if fits else "takes a pointer to the descriptor's elements"


def descriptor_load(op: Op) -> Complaint:
    return _block(op, op.result, op.operands[1:])


def descriptor_store(op: Op) -> Complaint:
    tiles = [value for value in op.operands[1:] if isinstance(value.type, Tensor | MemDesc)]
    if len(tiles) != 1:
        return "stores one tile"
    if op.name == "tt.descriptor_reduce" and not isinstance(op.attributes.get("kind"), str):
        return "has no kind"
    return _block(op, tiles[0], [value for value in op.operands[1:] if value is not tiles[0]])


def _block(op: Op, tile: Value, coordinates: Sequence[Value]) -> Complaint:
    kind = op.operands[0].type
    if not isinstance(kind, TensorDesc):
        return "takes a descriptor"
    if len(coordinates) != len(kind.shape) or not all(_scalar(value) for value in coordinates):
        return f"takes {len(kind.shape)} coordinates"
    fits = prod(shape(tile)) == prod(kind.shape) and element(tile) == _signless(kind.dtype)
    return None if fits else f"moves a tile of {shape(tile)} by a descriptor of {kind.shape}"


K_BITS = 256
"""Bits of a row of A that one instruction takes (PTX ISA, wgmma and mma: 32 bytes)."""


def _bits(value: Value) -> int:
    found = re.match(r"[a-z]+(\d+)", getattr(element(value), "name", ""))
    return int(found[1]) if found else K_BITS


def mma(op: Op) -> Complaint:
    a, b, c = map(shape, op.operands[:3])
    if (
        not len(a) == len(b) == len(c) >= 2
        or (a[:-1], a[-1], b[-1]) != (c[:-1], b[-2], c[-1])
        or shape(op.result) != c
    ):
        return f"multiplies {a} by {b} and adds to {c}"
    if a[-1] & (a[-1] - 1) and a[-1] * _bits(op.operands[0]) % K_BITS:
        return f"has K = {a[-1]}, and an instruction takes {K_BITS // 8} bytes"
    if element(op.operands[2]) != element(op.result) or not all(
        isinstance(v.type, Tensor | MemDesc) for v in op.operands[:3]
    ):
        return "has a result of another type than its accumulator"
    return (
        None
        if isinstance(op.result.type, Tensor) and isinstance(op.operands[1].type, MemDesc)
        else "takes B from shared memory"
    )


def loop(op: Op) -> Complaint:
    blocks = op.regions[0].blocks if op.regions else ()
    if len(blocks) != 1 or not blocks[0].args:
        return "has no body of one block"
    last = blocks[0].ops[-1] if blocks[0].ops else None
    inits, args, yielded = (
        op.operands[3:],
        blocks[0].args,
        last.operands if last is not None and last.name.endswith(".yield") else (),
    )
    bounds = (*op.operands[:3], args[0])
    if not all(_scalar(value) for value in bounds) or len({value.type for value in bounds}) > 1:
        return "has bounds of different types"
    if not len(inits) == len(args) - 1 == len(yielded) == len(op.results):
        return "carries different numbers of values"
    groups = zip(inits, args[1:], yielded, op.results, strict=True)
    return (
        None
        if all(len({v.type for v in one}) == 1 for one in groups)
        else "carries values that change their type"
    )


def branch(op: Op) -> Complaint:
    if not is_bit(op.operands[0]) or shape(op.operands[0]):
        return "has no condition of type i1"
    for region in op.regions if op.results else ():
        last = region.blocks[-1].ops[-1] if region.blocks and region.blocks[-1].ops else None
        if last is None or [value.type for value in last.operands] != [value.type for value in op.results]:
            return "has a branch that yields values of other types"
    return (
        "has results and no second branch"
        if op.results and len([r for r in op.regions if r.blocks]) < 2
        else None
    )


FLOATS, INTEGERS = of_kind(is_float, "floating point"), of_kind(is_integer, "integers")
BETWEEN_FLOATS, BETWEEN_INTEGERS = conversion(is_float, is_float), conversion(is_integer, is_integer)
TO_FLOAT, TO_INTEGER = conversion(is_integer, is_float), conversion(is_float, is_integer)
TESTS = conversion(is_float, is_bit)


def ruled(rule: Rule, *rows: Row) -> tuple[Row, ...]:
    """Rows with a rule."""
    return tuple(replace(row, rule=rule) for row in rows)
