"""A kernel's arguments under the names that its source gives them.

Triton names a value after each variable that it is assigned to, and MLIR prints the last of these names: with
`gate = image_gate` in one branch of a kernel, its parameter `image_gate` is printed as `%gate_0`. A caller
passes `image_gate`. Takes a `Module`; gives the same with such arguments renamed.
"""

import re
from collections.abc import Iterator, Mapping

from twill.extract.rewrite.edits import Edit, edited
from twill.ir.loop import Function, Module

_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")


def named_as_in_source(module: Module) -> Module:
    """The module itself where all arguments have their names."""
    return edited(module, (edit for function in module.functions for edit in _edits(module, function)))


def _edits(module: Module, function: Function) -> Iterator[Edit]:
    begin, end = _extent(module, function)
    for old, new in _renamed(function, module.text[begin:end]).items():
        for found in _mentions(old).finditer(module.text, begin, end):
            yield Edit(found.start(), found.end(), new)


def _renamed(function: Function, text: str) -> Mapping[str, str]:
    """By the name in the text, with `%`; none that anything in the function has already."""
    pairs = [
        (value.name, f"%{name}")
        for value, name in zip(function.args, function.parameters, strict=True)
        if name and _IDENTIFIER.fullmatch(name)
    ]
    names = [new for _, new in pairs]
    return {
        old: new
        for old, new in pairs
        if old != new and names.count(new) == 1 and not _mentions(new).search(text)
    }


def _mentions(name: str) -> re.Pattern[str]:
    """Where a text names or defines a value."""
    return re.compile(rf"{re.escape(name)}(?![\w$.#-])")


def _extent(module: Module, function: Function) -> tuple[int, int]:
    """Where the text of a function begins, and where that of the next one does."""
    lines = [one.location.line for one in module.functions if one.location.line > function.location.line]
    return _start(module.text, function.location.line), (
        _start(module.text, min(lines)) if lines else len(module.text)
    )


def _start(text: str, line: int) -> int:
    """Of a line, counted from 1."""
    return sum(map(len, text.splitlines(keepends=True)[: line - 1]))
