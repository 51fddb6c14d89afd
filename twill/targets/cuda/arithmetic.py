"""TTGIR operations on scalars and on single elements of tiles, as C expressions: from their rows in the table of operations."""

from collections.abc import Sequence

import numpy as np

from twill.ir.loop import Op, Type
from twill.ops.c import WIDTHS, families
from twill.ops.table import lookup
from twill.ops.values import Array, element, rounded

ATOMICS = {"fadd": "atomicAdd", "add": "atomicAdd", "max": "atomicMax", "min": "atomicMin", "and": "atomicAnd", "or": "atomicOr"}
"""CUDA's names, by the kind of `tt.atomic_rmw`."""


def expression(op: Op, operands: Sequence[str]) -> str | None:
    """The value of one element of the first result; None where the operation has no such expression, or none for its
    types. Numbers of less than 32 bits are computed as `float`, and rounded where they are kept. Raises TwillError where
    its attributes have no meaning."""
    return expressions(op, operands)[0]


def expressions(op: Op, operands: Sequence[str]) -> tuple[str | None, ...]:
    """The same of each result."""
    row = lookup(op.name)
    if row is None or row.c is None:
        return (None,)
    return tuple(text(op, operands) for text in (row.c, *row.further))


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
    return next((identity[name] for name in families(element(combine.operands[0].type)) if name in identity), None)
