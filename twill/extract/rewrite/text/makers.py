"""Which operation makes a value.

Takes operations; gives, by a value, the one that made it, where it has a role that is looked for, and the
integer that a constant is.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from twill.ir.loop import Op, Value
from twill.ops.row import Role
from twill.ops.table import role


@dataclass(frozen=True, slots=True)
class Makers:
    """Operations, by the ids of the values that they make."""

    by_value: Mapping[int, Op]

    def of(self, value: Value | None, *roles: Role) -> Op | None:
        """The operation that makes a value; None where it has none of these roles."""
        op = self.by_value.get(value.id) if value is not None else None
        return op if op is not None and role(op) in roles else None

    def number(self, value: Value | None) -> int | None:
        """What an integer constant, or a tile of one, is."""
        op = self.of(value, "constant")
        found = op.attributes.get("value") if op is not None else None
        return found if isinstance(found, int) and not isinstance(found, bool) else None


def makers_of(ops: Iterable[Op]) -> Makers:
    """Of the values that these operations make."""
    return Makers({value.id: op for op in ops for value in op.results})
