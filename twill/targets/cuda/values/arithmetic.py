"""TTGIR operations on scalars and on single elements of tiles, as C expressions: from their rows in the table
of operations."""

from collections.abc import Sequence
from functools import cache

import numpy as np

from twill.ir.loop import Function, Op, Type, Value
from twill.ops.c import WIDTHS, families
from twill.ops.row import Role
from twill.ops.table import lookup, role
from twill.ops.values import Array, element, rounded

ATOMICS = {
    "fadd": "atomicAdd",
    "add": "atomicAdd",
    "max": "atomicMax",
    "min": "atomicMin",
    "umax": "atomicMax",
    "umin": "atomicMin",
    "and": "atomicAnd",
    "or": "atomicOr",
    "xor": "atomicXor",
    "exch": "atomicExch",
}
"""CUDA's names, by the kind of `tt.atomic_rmw`."""


def expression(op: Op, operands: Sequence[str]) -> str | None:
    """The value of one element of the first result; None where the operation has no such expression, or none
    for its types. Numbers of less than 32 bits are computed as `float`, and rounded where they are kept.
    Raises TwillError where its attributes have no meaning."""
    return expressions(op, operands)[0]


def expressions(op: Op, operands: Sequence[str], *, index: bool = False) -> tuple[str | None, ...]:
    """The same of each result. Of an index, overflow is not taken care of."""
    row = lookup(op.name)
    if row is None or row.c is None:
        return (None,)
    plain = row.index_c(op, operands) if index and row.index_c else None
    return (plain or row.c(op, operands), *(text(op, operands) for text in row.further))


_ARITHMETIC: frozenset[Role] = frozenset(
    {
        "add",
        "subtract",
        "multiply",
        "divide",
        "divide_up",
        "remainder",
        "extreme",
        "integer_cast",
        "splat",
        "expand",
        "broadcast",
        "layout",
    }
)


def _addresses(reader: Op, value: Value) -> bool:
    """It takes the value for an address, a coordinate, a bound, or a side of a comparison."""
    match role(reader):
        case "address" | "descriptor" | "compare" | "tma_load":
            return True
        case "for":
            return value in reader.operands[:3] and value not in reader.operands[3:]
        case "tma_store" | "tma_reduce":
            return value is not reader.operands[1]
        case _:
            return False


@cache
def indices(function: Function) -> frozenset[int]:
    """The operations, by `Op.index`, from whose results only addresses, coordinates, bounds and comparisons
    follow.

    Where such a number overflows, TTGIR's wraps around and addresses memory that is not the array's either:
    its C is plain. All other integers wrap in C too.
    """
    users = function.users()
    found = set[int]()
    for op in reversed(tuple(function.walk())):
        readers = [(reader, value) for value in op.results for reader in users.get(value.id, ())]
        if role(op) in _ARITHMETIC and all(
            reader.index in found or _addresses(reader, value) for reader, value in readers
        ):
            found.add(op.index)
    return frozenset(found)


@cache
def unrounded(function: Function) -> frozenset[int]:
    """The 16-bit floats, by value id, that are others or their negatives, and that one operation reads: that
    computes them as `float` for itself, since rounding changes nothing."""
    users = function.users()
    rows = ((op, lookup(op.name)) for op in function.walk() if len(op.results) == 1)
    same = (op.result for op, row in rows if row is not None and row.word in ("neg", "select"))
    return frozenset(
        value.id
        for value in same
        if element(value.type) in ("f16", "bf16") and len(users.get(value.id, ())) == 1
    )


def constant(value: object, type: Type) -> str:
    """A literal of a type; a float is rounded to it. Raises ValueError for what is no number."""
    name = element(type)
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return _integer(value, WIDTHS.get(name, 32))
        case float():
            return _float(rounded(np.asarray(value), name), "" if name == "f64" else "f")
        case _:
            raise ValueError(f"{value!r} is no number")


def _integer(value: int, bits: int) -> str:
    """The least integers have no literal: their sign is an operator."""
    if bits >= 32 and value == -(2 ** (bits - 1)):
        return f"INT{bits}_MIN"
    return f"int64_t({value})" if bits == 64 else str(value)


def _float(value: Array, suffix: str) -> str:
    shortest = str(value if suffix == "" else value.astype(np.float32))
    return {"inf": "INFINITY", "-inf": "(-INFINITY)", "nan": "NAN"}.get(shortest, f"{shortest}{suffix}")


def neutral(combine: Op) -> str | None:
    """What a reduction starts from; None for one that is not supported."""
    row = lookup(combine.name)
    identity = row.identity if row is not None else None
    if identity is None or isinstance(identity, str):
        return identity
    return next(
        (identity[name] for name in families(element(combine.operands[0].type)) if name in identity), None
    )
