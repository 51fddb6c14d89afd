"""Inline PTX in the form that is generated: one result for each operation, and constants in the text.

Code from elsewhere may have several results (a word that is unpacked to two halves), and operands that must
be known when PTX is assembled (constraint "n": the table of a `lop3`). Takes a module; gives the same in
which such a text is repeated for each result, with registers of its own for the others, and in which tiles
of one integer stand in the text. Code with effects, of packed elements, or with constraints of other kinds
stays as it is. Lines stay where they are.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from twill.extract.rewrite.text.edits import UNKNOWN, Edit, edited, mentions, text_of
from twill.extract.rewrite.text.makers import Makers, makers_of
from twill.extract.rewrite.text.type_text import type_text
from twill.ir.loop import Function, Module, Op, Value

_ASSEMBLY = "tt.elementwise_inline_asm"
_REGISTERS: Mapping[str, str] = {"h": "b16", "r": "b32", "l": "b64", "f": "f32", "d": "f64"}
"""PTX's types of registers, by the letter of a constraint."""
_KNOWN = "n"
"""The constraint of an integer that is known when PTX is assembled."""


def assembled_apart(module: Module) -> Module:
    """The module itself where there is no such code."""
    return edited(module, (edit for function in module.functions for edit in _edits(module, function)))


def _edits(module: Module, function: Function) -> Iterator[Edit]:
    makers = makers_of(function.walk())
    written = {op.index: text for op in function.walk() if (text := _apart(module, makers, op))}
    for op in function.walk():
        renamed = {value.name: _named(value) for value in op.operands if _made(makers, value, written)}
        inner = min((one.span.start for one in op.inner()), default=op.span.end)
        if op.index in written:
            text = written[op.index]
            for name, other in renamed.items():
                text = mentions(name).sub(other, text)
            yield Edit(op.span.start, op.span.end, text)
            continue
        for name, other in renamed.items():
            for place in mentions(name).finditer(module.text, op.span.start, inner):
                yield Edit(place.start(), place.end(), other)


def _made(makers: Makers, value: Value, written: Mapping[int, str]) -> bool:
    op = makers.by_value.get(value.id)
    return op is not None and op.index in written


def _named(value: Value) -> str:
    """A name of its own for one of several results."""
    return value.name.replace("#", "_result")


def _apart(module: Module, makers: Makers, op: Op) -> str | None:
    """The operations instead of one; None where it stays."""
    kinds = _kinds(op)
    if kinds is None or (len(op.results) == 1 and _KNOWN not in kinds):
        return None
    made, given = kinds[: len(op.results)], kinds[len(op.results) :]
    operands = zip(given, op.operands, strict=True)
    numbers = [makers.number(value) if kind == _KNOWN else None for kind, value in operands]
    types = [type_text(module, value.type) for value in (*op.operands, *op.results)]
    quoted = re.search(r'"((?:[^"\\]|\\.)*)"', text_of(module, op))
    known = all(number is not None for number, kind in zip(numbers, given, strict=True) if kind == _KNOWN)
    if quoted is None or None in types or not known or all(number is not None for number in numbers):
        return None
    parts = [_part(op, quoted[1], made, given, numbers, types, i) for i in range(len(op.results))]
    return f" {UNKNOWN} ".join(parts)


def _kinds(op: Op) -> list[str] | None:
    """A letter for each result and operand; None where something stands in the way."""
    if op.name != _ASSEMBLY or op.attributes.get("packed_element") != 1 or not op.attributes.get("pure"):
        return None
    constraints = [one.strip() for one in str(op.attributes.get("constraints", "")).split(",")]
    count = len(op.results)
    if len(constraints) != count + len(op.operands):
        return None
    results = [one.removeprefix("=") for one in constraints[:count] if one.startswith("=")]
    kinds = [*results, *constraints[count:]]
    known = len(results) == count and all(kind in _REGISTERS for kind in results)
    return kinds if known and all(kind in (*_REGISTERS, _KNOWN) for kind in kinds) else None


def _part(
    op: Op,
    text: str,
    made: Sequence[str],
    given: Sequence[str],
    numbers: Sequence[int | None],
    types: Sequence[str | None],
    result: int,
) -> str:
    """The text for one of the results."""
    kept = [i for i, number in enumerate(numbers) if number is None]
    places = [f"twill_other{i}" for i in range(len(made))]
    places[result] = "$0"
    places += [f"${1 + kept.index(i)}" if i in kept else str(number) for i, number in enumerate(numbers)]
    own = re.sub(r"\$(\d+)", lambda found: places[int(found[1])], text)
    others = [f".reg .{_REGISTERS[kind]} {places[i]};" for i, kind in enumerate(made) if i != result]
    constraints = ",".join((f"={made[result]}", *(given[i] for i in kept)))
    operands = ", ".join(op.operands[i].name for i in kept)
    kinds = ", ".join(str(types[i]) for i in kept)
    how = f'{{constraints = "{constraints}", packed_element = 1 : i32, pure = true}}'
    return (
        f'{_named(op.results[result])} = {op.name} "{{ {" ".join((*others, own))} }}" {how} {operands}'
        f" : {kinds} -> {types[len(op.operands) + result]}"
    )
