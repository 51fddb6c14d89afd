"""A readable, unique C identifier for every value of a function.

A value keeps its name in the text (`%acc_24` of `loc("acc")`); one that is only numbered is named after its
operation: `%12 = arith.mulf` is `mulf_12`.
"""

from collections.abc import Iterator, Mapping
from re import sub

from twill.ir.loop import Function, Op, Value


def value_names(function: Function) -> Mapping[int, str]:
    """By the value's id; names differ."""
    names, taken = dict[int, str](), set[str]()
    for value, maker in _made(function):
        name = _name(value, maker)
        name = name if name not in taken else f"{name}_v{value.id}"
        taken.add(name)
        names[value.id] = name
    return names


def values(function: Function) -> Iterator[Value]:
    """Every value of a function: arguments first, then in the order of the text."""
    return (value for value, _ in _made(function))


def _made(function: Function) -> Iterator[tuple[Value, Op | None]]:
    yield from ((arg, None) for arg in function.args)
    for op in function.walk():
        yield from ((result, op) for result in op.results)
        yield from ((arg, None) for region in op.regions for block in region.blocks for arg in block.args)


def _name(value: Value, maker: Op | None) -> str:
    name = identifier(value.name)
    if value.name.lstrip("%")[:1].isdigit() and maker is not None:
        word = maker.label or maker.name.split(".")[-1]
        return identifier(f"{word}_{value.name.lstrip('%')}")
    return name


def identifier(name: str) -> str:
    """A C identifier from a name; different names may give the same."""
    name = sub(r"[^0-9A-Za-z_]", "_", name.lstrip("%"))
    return name if name[:1].isalpha() else f"v{name}"
