"""Names of nodes: what the operation is, and the SSA name of its result as it stands in the file."""

from collections.abc import Mapping

from twill.ir.loop import Op
from twill.ops.table import row

REDUCTIONS = {
    "maxnumf": "max",
    "maximumf": "max",
    "minnumf": "min",
    "minimumf": "min",
    "addf": "sum",
    "addi": "sum",
}


def names(ops: tuple[Op, ...]) -> Mapping[int, str]:
    """A unique name for each operation, by `Op.index`: `exp2.p_17`, `reduce_max.m_ij_10`,
    `reduce.dq_desc`."""
    found: dict[int, str] = {}
    taken: set[str] = set()
    for op in ops:
        name = f"{word(op)}.{anchor(op)}"
        unique = name
        number = 2
        while unique in taken:
            unique, number = f"{name}.{number}", number + 1
        found[op.index] = unique
        taken.add(unique)
    return found


def word(op: Op) -> str:
    """The short word for an operation; a reduction says what it reduces by."""
    if row(op).kind in ("reduce", "scan"):
        combine = [inner.name.partition(".")[2] for inner in op.inner() if not inner.name.endswith(".return")]
        return (
            f"{row(op).word}_{REDUCTIONS.get(combine[0], combine[0])}" if len(combine) == 1 else row(op).word
        )
    return row(op).word


def anchor(op: Op) -> str:
    """The first result's name, or for an operation without results the first operand's."""
    values = op.results or op.operands
    return values[0].name.removeprefix("%").replace("#", "_") if values else str(op.location.line)
