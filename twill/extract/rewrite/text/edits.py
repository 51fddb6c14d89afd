"""Edits of a module's text.

Takes a `Module` and `Edit`s of its text; gives the module that the new text describes. Inserted operations
stand on the line of the operation they are inserted before, so line numbers stay those of the user's file.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from twill.extract.reader.ttgir import read
from twill.ir.loop import Function, Module, Op, Scalar, Tensor, Type
from twill.ops.table import named

UNKNOWN = "loc(unknown)"
"""The location of an inserted operation; it also ends the operation for the reader, which otherwise takes a
line for one operation."""
NAME = re.compile(r"%[\w$.-]+")
"""A value's name, without the number of a result."""
_END = re.compile(r"\}([ \t]*loc\((?:[^()]|\([^()]*\))*\))?")


@dataclass(frozen=True, slots=True)
class Edit:
    """Characters `begin` (included) to `end` (excluded) of the text become `text`."""

    begin: int
    end: int
    text: str


def edited(module: Module, edits: Iterable[Edit]) -> Module:
    """The module after all edits; edits at one position stay in their order. Without edits it is the same
    module. Raises ValueError where two overlap."""
    ordered = sorted(edits, key=lambda edit: (edit.begin, edit.end))
    if not ordered:
        return module
    pieces, last = list[str](), 0
    for edit in ordered:
        if edit.begin < last:
            raise ValueError(f"two edits of the text at {edit.begin} overlap")
        pieces += [module.text[last : edit.begin], edit.text]
        last = edit.end
    return read("".join([*pieces, module.text[last:]]), module.file)


def blanked(module: Module, begin: int, end: int) -> Edit:
    """Of these characters only the line breaks stay."""
    return Edit(begin, end, "\n" * module.text.count("\n", begin, end))


def mentions(name: str) -> re.Pattern[str]:
    """Where a text names a value, not one whose name begins alike. The only result of an operation that lost
    its others may be named by its number."""
    only = "" if "#" in name else "(?:#0)?"
    return re.compile(rf"{re.escape(name)}{only}(?![\w$.#:-])")


def renamed(text: str, names: Mapping[str, str]) -> str:
    """The text with other names of values."""
    for name, other in names.items():
        text = mentions(name).sub(other, text)
    return text


def extent(module: Module, function: Function) -> tuple[int, int]:
    """Where a function begins and ends in the text: its arguments, its operations, its brace."""
    assert function.body
    ops = list(function.walk())
    begin = module.text.rindex(f"@{function.name}(", 0, ops[0].span.start)
    begin = module.text.rindex("tt.func", 0, begin)
    brace = _END.search(module.text, ops[-1].span.end)
    assert brace
    return begin, brace.end()


def names_in(module: Module, function: Function) -> set[str]:
    """All that a function names."""
    begin, end = extent(module, function)
    return set(NAME.findall(module.text, begin, end))


def text_of(module: Module, op: Op) -> str:
    """The operation as it is written, without its location."""
    return module.text[op.span.start : op.span.end]


def accumulated(first: str, second: str, tile: Type, kind: str) -> str:
    """The text of a sum of two tiles of a type, of which `kind` is the text."""
    dtype = tile.dtype if isinstance(tile, Tensor) else tile
    integers = isinstance(dtype, Scalar) and dtype.name.startswith("i")
    return f"arith.{'addi' if integers else 'addf'} {first}, {second} : {kind}"


def added(first: str, second: str, kind: str) -> str:
    """The text of a sum of two scalars of a type."""
    return computed("addi", first, second, kind)


def sign_extended(value: str, narrow: str, wide: str) -> str:
    """A wider integer, or a tile of them."""
    return f"arith.extsi {value} : {narrow} to {wide}"


def computed(word: str, first: str, second: str, kind: str) -> str:
    """The text of an operation of `arith` on two values of a type, such as `subi`."""
    return f"arith.{word} {first}, {second} : {kind}"


def compared(predicate: str, first: str, second: str, kind: str) -> str:
    """The text of a comparison of two integers of a type, such as `sgt`."""
    return computed(f"cmpi {predicate},", first, second, kind)


def constant(value: object, type: str) -> str:
    """A constant as it is written."""
    return f"{named('constant')} {value} : {type}"


def carried_in(text: str) -> re.Match[str] | None:
    """In a loop's beginning, what it carries: names with their first values, then types, in parentheses where
    there are several."""
    return re.search(r"iter_args\((.*?)\)\s*->\s*(\(.*\)|\S+)(?=\s+:|\s+\{)", text, re.DOTALL)


def listed(text: str) -> Iterator[str]:
    """The parts of a list, separated by commas outside of brackets."""
    depth, begin = 0, 0
    for i, letter in enumerate(text):
        depth += (letter in "<([{") - (letter in ">)]}" and text[i - 1] != "-")
        if letter == "," and not depth:
            yield text[begin:i].strip()
            begin = i + 1
    yield text[begin:].strip()
