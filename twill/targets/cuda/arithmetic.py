"""TTGIR operations on scalars and on single elements of tiles, as C expressions: from their rows in the table of operations."""

from collections.abc import Sequence

from twill.ir.loop import Op
from twill.ops.c import families
from twill.ops.table import lookup
from twill.ops.values import element

ATOMICS = {"fadd": "atomicAdd", "add": "atomicAdd", "max": "atomicMax", "min": "atomicMin", "and": "atomicAnd", "or": "atomicOr"}
"""CUDA's names, by the kind of `tt.atomic_rmw`."""


def expression(op: Op, operands: Sequence[str]) -> str | None:
    """The value of one element of the first result; None where the operation has no such expression, or none for its types. Numbers of
    less than 32 bits are computed as `float`, and rounded where they are kept. Raises TwillError where its attributes have no meaning."""
    row = lookup(op.name)
    return row.c(op, operands) if row is not None and row.c is not None else None


def constant(value: object) -> str:
    """A literal."""
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return {"inf": "INFINITY", "-inf": "(-INFINITY)", "nan": "NAN"}.get(str(value), f"{value!r}f")
        case _:
            raise ValueError(f"{value!r} is no number")


def neutral(combine: Op) -> str | None:
    """What a reduction starts from; None for one that is not supported."""
    row = lookup(combine.name)
    identity = row.identity if row is not None else None
    if identity is None or isinstance(identity, str):
        return identity
    return next((identity[name] for name in families(element(combine.operands[0].type)) if name in identity), None)
