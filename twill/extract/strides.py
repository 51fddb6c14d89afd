"""The strides with which a kernel addresses each of its pointer arguments, as polynomials of its scalar
arguments.

Takes a `Function`; gives a `Layout` for each pointer argument: from descriptors as they are made, from
pointer arithmetic by writing every offset as a sum of (stride, a polynomial of arguments) times (index: of a
tile, a program, an iteration, or anything computed from such).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from twill.extract.scalars import extents
from twill.ir.loop import Function, Op, Pointer, Tensor, Value
from twill.ir.strides import Stride, Term
from twill.ops.row import Role
from twill.ops.table import role

SCALAR, SEVERAL = -1, -2
"""Axes of indices that are not of one axis of a tile: the same for the whole tile; of several axes
together."""
LARGEST = 64
"""Terms of a polynomial at most; a longer one counts as an index of its own."""

Monomial: TypeAlias = tuple[tuple[str, ...], tuple[tuple[int, int], ...]]
"""Names of arguments, and indices as (number, axis), both sorted; their product."""
Polynomial: TypeAlias = Mapping[Monomial, int]

_UNKNOWN = "?"
"""In place of an argument's name: computed from arguments in a way that is no polynomial."""
_SAME: frozenset[Role] = frozenset({"integer_cast", "splat", "broadcast", "layout"})
_ACCESSES: frozenset[Role] = frozenset(
    {"pointer_load", "pointer_store", "atomic", "atomic_exchange", "async_copy"}
)


@dataclass(frozen=True, slots=True)
class Layout:
    """How a pointer argument is addressed."""

    argument: str
    strides: tuple[Stride, ...] | None
    """Each once; None where the address of an access is not a polynomial of indices."""


@dataclass(frozen=True, slots=True)
class _Address:
    argument: str
    offset: Polynomial


_Found: TypeAlias = Polynomial | _Address | None
"""None: an address that is not known."""


def layouts(function: Function) -> tuple[Layout, ...]:
    """One for each pointer argument, in their order."""
    steps = _walked(function, {})[1]
    values, _ = _walked(function, steps)
    told = {
        name(arg)
        for arg in function.args
        if arg.id not in extents(function) and not isinstance(arg.type, Pointer)
    }
    found = dict[str, set[Stride] | None](
        {name(arg): set() for arg in function.args if isinstance(arg.type, Pointer)}
    )
    for op in function.walk():
        if role(op) in _ACCESSES or role(op) == "descriptor":
            _add(found, values.get(op.operands[0].id), _axes(op, values), told)
    return tuple(
        Layout(argument, None if one is None else tuple(sorted(one, key=_order)))
        for argument, one in found.items()
    )


def name(value: Value) -> str:
    """As callers spell it."""
    return value.name.lstrip("%")


def _order(stride: Stride) -> str:
    return str(stride.terms)


def _add(
    found: dict[str, set[Stride] | None],
    address: _Found,
    axes: Mapping[int, list[Polynomial]] | None,
    told: Iterable[str],
) -> None:
    """What one access says; of an address that is not known, any argument may be the base."""
    if not isinstance(address, _Address):
        found.update(dict.fromkeys(found))
        return
    parts = _by_index(address.offset)
    kept = found.get(address.argument)
    if kept is None or parts is None or axes is None:
        found[address.argument] = None
        return
    own = dict(axes)
    for axis, strides in parts.items():
        own[axis] = [*own.get(axis, []), *strides]
    tile = [one for axis, strides in own.items() if axis != SCALAR for one in strides]
    own[SCALAR] = [one for one in own.get(SCALAR, []) if not any(_multiple(one, other) for other in tile)]
    kept |= {
        _stride(one, frozenset(told)) for strides in own.values() for one in strides if not _undefined(one)
    }


def _axes(op: Op, values: Mapping[int, _Found]) -> Mapping[int, list[Polynomial]] | None:
    """The strides that a descriptor is made with, by axis; None where they depend on more than arguments."""
    if role(op) != "descriptor":
        return {}
    rank = len(getattr(op.result.type, "shape", ()))
    given = [values.get(operand.id) for operand in op.operands[1 + rank : 1 + 2 * rank]]
    strides = [one for one in given if isinstance(one, Mapping) and all(not indices for _, indices in one)]
    return {axis: [one] for axis, one in enumerate(strides)} if len(strides) == rank else None


def _by_index(offset: Polynomial) -> Mapping[int, list[Polynomial]] | None:
    """The stride of each index, by axis; None where several axes of a tile meet in one."""
    strides = dict[tuple[int, int], dict[Monomial, int]]()
    for (arguments, indices), factor in offset.items():
        tile = [index for index in indices if index[1] != SCALAR]
        if len(tile) > 1 or (tile and len(indices) > 1) or any(axis == SEVERAL for _, axis in tile):
            return None
        if indices:
            strides.setdefault(indices[0], {})[arguments, ()] = factor
    found = dict[int, list[Polynomial]]()
    for (_, axis), one in strides.items():
        found.setdefault(axis, []).append(one)
    return found


def _multiple(one: Polynomial, other: Polynomial) -> bool:
    """Whether a stride goes over whole steps of another: the offset of a block."""
    if one.keys() != other.keys():
        return False
    ratios = {divmod(one[key], other[key]) for key in one if other[key]}
    return len(ratios) == 1 and next(iter(ratios))[1] == 0


def _undefined(one: Polynomial) -> bool:
    return any(_UNKNOWN in arguments for arguments, _ in one)


def _stride(one: Polynomial, told: frozenset[str]) -> Stride:
    terms = tuple(Term(factor, arguments) for (arguments, _), factor in sorted(one.items()))
    return Stride(terms, any(argument in told for term in terms for argument in term.arguments))


# --- polynomials ------------------------------------------------------------------------------------------


def _walked(
    function: Function, steps: Mapping[int, Polynomial]
) -> tuple[dict[int, _Found], dict[int, Polynomial]]:
    """Values as polynomials, and by how much each carried value grows in an iteration. `steps` are those of a
    walk before."""
    found = dict[int, _Found]()
    grown = dict[int, Polynomial]()
    loops = dict[int, Op]()
    for arg in function.args:
        found[arg.id] = _Address(name(arg), {}) if isinstance(arg.type, Pointer) else {((name(arg),), ()): 1}
    for op in function.walk():
        if role(op) == "for":
            _enter(op, found, steps)
            loops[op.regions[0].blocks[0].ops[-1].index] = op
        elif role(op) == "yield" and op.index in loops:
            grown |= _grown(loops[op.index], op, found)
        else:
            found.update((result.id, _value(op, result, found)) for result in op.results)
    return found, grown


def _enter(op: Op, found: dict[int, _Found], steps: Mapping[int, Polynomial]) -> None:
    induction, *carried = op.regions[0].blocks[0].args
    found[induction.id] = _index(induction.id, SCALAR)
    for arg, init, result in zip(carried, op.operands[3:], op.results, strict=True):
        begin, step = found.get(init.id), steps.get(arg.id, {})
        moved = _times(step, _index(arg.id, SCALAR))
        match begin:
            case _Address(argument, offset):
                found[arg.id] = _Address(argument, _plus(offset, moved))
            case None:
                found[arg.id] = None
            case _:
                found[arg.id] = _plus(begin, moved)
        found[result.id] = found[arg.id]


def _grown(loop: Op, last: Op, found: Mapping[int, _Found]) -> dict[int, Polynomial]:
    pairs = zip(loop.regions[0].blocks[0].args[1:], last.operands, strict=True)
    steps = dict[int, Polynomial]()
    for arg, yielded in pairs:
        before, after = found.get(arg.id), found.get(yielded.id)
        if isinstance(before, _Address) and isinstance(after, _Address) and before.argument == after.argument:
            steps[arg.id] = _plus(after.offset, _times(before.offset, {((), ()): -1}))
        elif isinstance(before, Mapping) and isinstance(after, Mapping):
            steps[arg.id] = _plus(after, _times(before, {((), ()): -1}))
    return steps


def _value(op: Op, result: Value, found: Mapping[int, _Found]) -> _Found:
    operands = [found.get(operand.id) for operand in op.operands]
    if _pointing(result):
        return _address(op, operands)
    plain = [one for one in operands if isinstance(one, Mapping)]
    if len(plain) == len(operands):
        made = _arithmetic(op, plain)
        if made is not None and len(made) <= LARGEST:
            return made
    return _opaque(op, result, operands)


def _pointing(value: Value) -> bool:
    return isinstance(value.type.dtype if isinstance(value.type, Tensor) else value.type, Pointer)


def _address(op: Op, operands: list[_Found]) -> _Found:
    base = operands[0] if operands else None
    if not isinstance(base, _Address):
        return None
    if role(op) == "address" and isinstance(operands[1], Mapping):
        return _Address(base.argument, _plus(base.offset, operands[1]))
    moved = _arithmetic(op, [base.offset]) if role(op) in _SAME | {"expand", "transpose"} else None
    return None if moved is None else _Address(base.argument, moved)


def _arithmetic(op: Op, operands: list[Polynomial]) -> Polynomial | None:
    match role(op):
        case "constant":
            value = op.attributes.get("value")
            return {((), ()): value} if isinstance(value, int) else None
        case "add":
            return _plus(*operands)
        case "subtract":
            return _plus(operands[0], _times(operands[1], {((), ()): -1}))
        case "multiply":
            return _times(*operands)
        case "shift_left":
            shift = operands[1].get(((), ()), 0)
            return (
                _times(operands[0], {((), ()): 1 << shift})
                if set(operands[1]) <= {((), ())} and 0 <= shift < 64
                else None
            )
        case "range":
            return _index(op.index, 0, made_by=True)
        case "expand":
            at = op.attributes["axis"]
            return _moved(
                operands[0], {axis: axis + 1 for axis in range(8) if isinstance(at, int) and axis >= at}
            )
        case "transpose":
            order = op.attributes.get("order")
            places = (
                {old: new for new, old in enumerate(order) if isinstance(old, int)}
                if isinstance(order, tuple | list)
                else {}
            )
            return _moved(operands[0], places)
        case _:
            return operands[0] if role(op) in _SAME else None


def _opaque(op: Op, result: Value, operands: list[_Found]) -> Polynomial:
    """A value that is no polynomial: an index of its own, or something unknown that follows from arguments
    alone."""
    offsets = [one.offset if isinstance(one, _Address) else one for one in operands]
    indices = {index for one in offsets for _, own in one or {} for index in own}
    if op.operands and not op.regions and role(op) != "pointer_load" and None not in offsets and not indices:
        return {((_UNKNOWN,), ()): 1}
    axes = {axis for _, axis in indices if axis != SCALAR}
    tile = bool(getattr(result.type, "shape", ()))
    axis = axes.pop() if len(axes) == 1 else SEVERAL if axes or (tile and None in offsets) else SCALAR
    return _index(result.id, axis)


def _index(number: int, axis: int, *, made_by: bool = False) -> Polynomial:
    """A fresh index, numbered by its value or, negatively, by the operation that makes it."""
    return {((), ((-1 - number if made_by else number, axis),)): 1}


def _plus(one: Polynomial, other: Polynomial) -> Polynomial:
    total = {key: one.get(key, 0) + other.get(key, 0) for key in {**one, **other}}
    return {key: factor for key, factor in total.items() if factor}


def _times(one: Polynomial, other: Polynomial) -> Polynomial:
    total = dict[Monomial, int]()
    for (arguments, indices), factor in one.items() if len(one) * len(other) <= LARGEST**2 else ():
        for (more, others), times in other.items():
            key = tuple(sorted((*arguments, *more))), tuple(sorted((*indices, *others)))
            total[key] = total.get(key, 0) + factor * times
    return total


def _moved(one: Polynomial, places: Mapping[int, int]) -> Polynomial:
    """With the axes of indices renamed."""
    return {
        (arguments, tuple(sorted((number, places.get(axis, axis)) for number, axis in indices))): factor
        for (arguments, indices), factor in one.items()
    }
