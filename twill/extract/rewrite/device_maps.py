"""Descriptors that a thread block makes itself.

The host makes the tensor maps of descriptors that follow from a kernel's arguments alone. One that follows
from a program's number, from memory or from an iteration of a loop around the scheduled ones is made on the
device: its `tt.make_tensor_descriptor` becomes `twill.tensor_map`, which groups execute as it stands. One in
an innermost loop stays, and is refused. Takes a module; gives the same with these names. Lines stay where
they are.
"""

from collections.abc import Iterator, Mapping

from twill.extract.rewrite.edits import Edit, edited
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
    makers = {value.id: op for op in function.walk() for value in op.results}
    arguments = {arg.id for arg in function.args}
    innermost = {
        inner.index
        for op in function.walk()
        if role(op) == "for" and not any(role(one) in ("for", "while") for one in op.inner())
        for inner in op.inner()
    }
    for op in function.walk():
        if role(op) == "descriptor" and op.index not in innermost and not _known(op, makers, arguments):
            yield op


def _known(op: Op, makers: Mapping[int, Op], arguments: set[int]) -> bool:
    """Whether it follows from arguments and constants alone."""
    todo, seen = [op], set[int]()
    while todo:
        one = todo.pop()
        if role(one) in _LATE:
            return False
        for value in one.operands:
            maker = makers.get(value.id)
            if maker is None and value.id not in arguments:
                return False
            if maker is not None and maker.index not in seen:
                seen.add(maker.index)
                todo.append(maker)
    return True
