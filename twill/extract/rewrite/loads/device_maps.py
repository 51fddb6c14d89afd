"""Descriptors that a thread block makes itself.

The host makes the tensor maps of descriptors that follow from a kernel's arguments alone. One that follows
from a program's number, from memory or from an iteration of a loop around the scheduled ones is made on the
device: its `tt.make_tensor_descriptor` becomes `twill.tensor_map`, which groups execute as it stands. One in
an innermost loop stays, and is refused. Takes a module; gives the same with these names. Lines stay where
they are.
"""

from collections.abc import Iterator

from twill.extract.rewrite.text.edits import Edit, edited
from twill.ir.loop import Function, Module, Op
from twill.ops.row import Role
from twill.ops.table import named, role

_LATE: frozenset[Role] = frozenset({"program_id", "pointer_load", "for", "while", "if"})
"""What the host does not know, or does not execute."""


def on_the_device(module: Module) -> Module:
    """The module itself where the host makes all descriptors."""
    made, own = named("descriptor"), named("tensor_map")
    return edited(
        module,
        [
            Edit(at, at + len(made), own)
            for function in module.functions
            for op in _late(function)
            for at in [module.text.index(made, op.span.start, op.span.end)]
        ],
    )


def _late(function: Function) -> Iterator[Op]:
    """Descriptors outside of innermost loops that the host can not make."""
    known = _known(function)
    innermost = {
        inner.index
        for op in function.walk()
        if role(op) == "for" and not any(role(one) in ("for", "while") for one in op.inner())
        for inner in op.inner()
    }
    for op in function.walk():
        if role(op) == "descriptor" and op.index not in innermost and op.result.id not in known:
            yield op


def _known(function: Function) -> set[int]:
    """The values, by id, that follow from arguments and constants alone. Operands come before their users."""
    known = {arg.id for arg in function.args}
    for op in function.walk():
        if role(op) not in _LATE and all(value.id in known for value in op.operands):
            known |= {value.id for value in op.results}
    return known
