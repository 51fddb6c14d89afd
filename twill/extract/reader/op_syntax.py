"""How the text of single operations departs from the common form.

The common form is `results = name operands {attributes} : types -> types`. What an operation needs beyond
that stands in its row of `twill.ops`; an operation without a row is read by the common form alone.
"""

from __future__ import annotations

from collections.abc import Iterable

from twill.ir import loop as ir
from twill.ops.row import Operands, Types
from twill.ops.table import lookup, syntax


def given_types(
    name: str, operands: Operands, inputs: Types, outputs: Types | None
) -> Iterable[tuple[ir.Value, ir.Type]]:
    """The types that the text gives for operands, where it gives one for each, or a single one for all
    operands and results.

    The condition of `arith.select` has a type of its own, which is given only for tensors.
    """
    row = lookup(name)
    if len(inputs) == 1 and outputs is None and row is not None and row.kind == "elementwise":
        values = operands[1:] if row.role == "select" else operands
        return zip(values, inputs * len(values), strict=True)
    return (
        zip(operands, inputs, strict=True) if len(inputs) == len(operands) and not syntax(name).order else ()
    )


def result_types(name: str, count: int, inputs: Types, outputs: Types | None) -> Types:
    """Types of `count` results of operation `name`, from the types before and after its arrow.

    Fewer than `count` come back where the text lists too few; results beyond the listed ones are tokens.
    """
    listed = inputs if outputs is None else outputs
    form = syntax(name)
    if form.token:
        return (ir.Token(),)
    if not listed and form.implied:
        return form.implied
    if listed and form.results:
        return form.results(listed)
    types = listed[:count] if outputs is not None else listed[-count:]
    return (*types, *[ir.Token()] * (count - len(types))) if types else ()
