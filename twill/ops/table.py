"""The table of operations, and its look-ups.

Adding an operation is one row in the module of its kind, and a cost in machines/*.toml where it is scheduled.
Guarantees that an operation without a row is refused at its line, never guessed, except those of the `arith`
and `math` dialects, which are elementwise by definition (they have neither a meaning nor C).
"""

from collections.abc import Mapping

from twill.diagnostics import TwillError
from twill.ir.loop import Op
from twill.ops import arith, casts, comparisons, control, math, memory, mma, shape
from twill.ops.row import Role, Row, Syntax

ROWS = (
    *arith.ROWS,
    *comparisons.ROWS,
    *casts.ROWS,
    *math.ROWS,
    *shape.ROWS,
    *memory.ROWS,
    *mma.ROWS,
    *control.ROWS,
)

TABLE: Mapping[str, Row] = {row.name: row for row in ROWS}

_COMMON = Syntax()


def lookup(name: str) -> Row | None:
    """The row of an operation by its name; None where there is none."""
    known = TABLE.get(name)
    dialect, _, short = name.partition(".")
    if known is None and dialect in ("arith", "math"):
        return Row(name=name, kind="elementwise", word=short, repeatable=True)
    return known


def row(op: Op) -> Row:
    """The row of an operation that is scheduled. Raises TwillError at its line where there is none."""
    found = lookup(op.name)
    if found is None or not found.scheduled:
        raise TwillError(
            f"operation {op.name} cannot be scheduled",
            op.location,
            span=len(op.name),
            help=(
                "Twill reads loops as they are before pipelining and warp specialization; other operations"
                " need a row in twill/ops"
            ),
        )
    return found


def role(op: Op) -> Role:
    """What an operation is to later stages; `value` for one without a row."""
    return role_of(op.name)


def role_of(name: str) -> Role:
    """The same by its name."""
    found = TABLE.get(name)
    return found.role if found else "value"


def word(op: Op) -> str:
    """The short name of an operation; empty for one without a row."""
    row = lookup(op.name)
    return row.word if row else ""


def syntax(name: str) -> Syntax:
    """How an operation is written."""
    found = TABLE.get(name)
    return found.syntax if found else _COMMON


def cost_name(name: str) -> str:
    """The operation under which machines/*.toml give the cost of one."""
    found = TABLE.get(name)
    return found.cost or name if found else name


def implicit(op: Op) -> bool:
    """It needs no statement of its own: a constant, or a descriptor, which the host makes."""
    return role(op) in ("constant", "descriptor")


def repeatable(row: Row, op: Op) -> bool:
    """It may be executed anywhere, and more than once: by its row, or by the word of who wrote it (`pure` of
    code from outside)."""
    return row.repeatable or op.attributes.get("pure") is True


def writes_global(op: Op) -> bool:
    """It writes global memory."""
    found = TABLE.get(op.name)
    return found is not None and found.writes_global


def reduction(op: Op) -> str | None:
    """How an operation combines a value with what is in global memory, if its order among its like does not
    matter."""
    kind = {"tma_reduce": "kind", "atomic": "atomic_rmw_op"}.get(role(op) or "")
    found = str(op.attributes[kind]) if kind else "exch"
    return None if found == "exch" else found.removeprefix("f")


def is_elementwise(op: Op) -> bool:
    """Each element of its results follows from those of its operands at the same place."""
    found = lookup(op.name)
    return found is not None and found.kind == "elementwise" and found.role not in ("range", "unpack")


def is_mma(op: Op) -> bool:
    """It runs on the tensor cores."""
    found = TABLE.get(op.name)
    return found is not None and found.kind == "mma"


def pipelined(op: Op) -> str:
    """What it does, where only a pipeliner writes it; empty otherwise."""
    found = TABLE.get(op.name)
    return found.pipelined if found else ""


def names(*roles: Role) -> tuple[str, ...]:
    """The operations of some roles."""
    return tuple(row.name for row in ROWS if row.role in roles)


def named(role: Role) -> str:
    """The one operation of a role. Raises ValueError where there are none or several."""
    (name,) = names(role)
    return name
