"""Whether operations have the operands that the rest relies on: a file written by hand, or cut by a tool, may
not.

Takes an operation; raises TwillError at its line where it lacks something. After `check` has passed every
operation of a body, the stages behind it index operands and results without looking.
"""

from collections.abc import Callable, Mapping

from twill.diagnostics import TwillError
from twill.ir.graph import Kind
from twill.ir.loop import MemDesc, Op, Pointer, Tensor, TensorDesc, UnknownType, Value
from twill.ops.row import Access
from twill.ops.table import row

Rule = tuple[Callable[[Op], bool], str]
"""What must hold, and how to say that it does not."""


def tiles(values: tuple[Value, ...]) -> tuple[Tensor | MemDesc, ...]:
    return tuple(v.type for v in values if isinstance(v.type, Tensor | MemDesc))


def buffers(values: tuple[Value, ...]) -> tuple[MemDesc, ...]:
    return tuple(v.type for v in values if isinstance(v.type, MemDesc))


def _is_mma(op: Op) -> bool:
    matrices = tiles(op.operands)[:3]
    return len(matrices) == 3 and all(len(m.shape) >= 2 for m in matrices)


def _reduces(op: Op) -> bool:
    axis, first = op.attributes.get("axis"), next(iter(op.operands), None)
    shape = first.type.shape if first and isinstance(first.type, Tensor) else ()
    return (
        isinstance(axis, int)
        and 0 <= axis < len(shape)
        and bool(op.results)
        and all(isinstance(v.type, Tensor) for v in op.operands)
    )


def _space(values: tuple[Value, ...], space: str) -> bool:
    return any(buffer.space == space for buffer in buffers(values))


def _stores(op: Op, space: str) -> bool:
    found = buffers(op.operands)
    return bool(found) and found[-1].space == space


def _addressed(op: Op) -> bool:
    """The first operand is an address, or of a type that is not known here."""
    match op.operands[0].type if op.operands else None:
        case Pointer() | TensorDesc() | Tensor(dtype=Pointer()) | UnknownType():
            return True
        case _:
            return False


ACCESSES: Mapping[Access, Rule] = {
    "mma": (_is_mma, "needs A, B and D, tiles of two dimensions or more"),
    "load": (lambda op: _addressed(op) and len(op.results) == 1, "needs an address and one result"),
    "store": (lambda op: _addressed(op) and len(op.operands) >= 2, "needs an address and a value"),
    "reduce": (lambda op: _addressed(op) and len(op.operands) >= 2, "needs an address and a value"),
    "load_buffer": (
        lambda op: bool(buffers(op.operands) and tiles(op.results)),
        "needs a buffer to read and a tile to give",
    ),
}

KINDS: Mapping[Kind, Rule] = {
    "elementwise": (lambda op: bool(op.results), "needs a result"),
    "convert": (
        lambda op: bool(tiles(op.operands)) and len(tiles(op.results)) == 1 == len(op.results),
        "needs a tile and gives a tile",
    ),
    "reduce": (_reduces, "needs tensors, a result and an axis that they have"),
    "scan": (_reduces, "needs tensors, a result and an axis that they have"),
    "branch": (lambda op: bool(op.regions), "needs a region"),
    "tensor_load": (lambda op: _space(op.operands, "tmem"), "reads tensor memory"),
    "shared_load": (lambda op: _space(op.operands, "smem"), "reads shared memory"),
}

STORES: Mapping[Kind, str] = {"tensor_store": "tmem", "shared_store": "smem"}
"""The memory that an allocation or store must name."""


def check(op: Op) -> None:
    """Raises TwillError where an operation of a loop body lacks an operand, a result or an attribute."""
    found = row(op)
    rules = [rule for rule in (ACCESSES.get(found.access), KINDS.get(found.kind)) if rule]
    if found.kind in STORES:
        space = STORES[found.kind]
        if found.access == "alloc":
            rules.append(
                (
                    lambda op: len(buffers(op.results[:1])) == 1 and _space(op.results, space),
                    f"allocates {space}",
                )
            )
        else:
            rules.append((lambda op: _stores(op, space), f"writes {space}"))
    if found.kind == "view" and found.role not in ("constant", "poison"):
        rules.append((lambda op: bool(op.operands and op.results), "needs an operand and a result"))
    for holds, message in rules:
        if not holds(op):
            raise TwillError(f"{op.name} {message}", op.location, span=len(op.name))
