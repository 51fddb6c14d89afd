"""Where the address of an access comes from."""

from collections.abc import Callable

from twill.ir.loop import Op, Value
from twill.ops.row import Role
from twill.ops.table import role

POINTERS = frozenset[Role](("descriptor", "address", "splat", "broadcast", "expand", "bitcast", "layout"))
"""Through which the first operand is followed to the pointer of an access."""


def beginning(access: Op, maker: Callable[[Value], Op | None]) -> Value | None:
    """The value that the address of an access begins from, which no operation makes; None where one on the
    way chooses or loads it. `maker`: the operation that makes a value."""
    value = access.operands[0]
    while (made := maker(value)) is not None:
        if role(made) not in POINTERS:
            return None
        value = made.operands[0]
    return value
