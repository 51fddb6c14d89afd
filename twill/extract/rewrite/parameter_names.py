"""A kernel's arguments under the names that its source gives them.

Triton names a value after each variable that it is assigned to, and MLIR prints the last of these names: with
`gate = image_gate` in one branch of a kernel, its parameter `image_gate` is printed as `%gate_0`. A caller
passes `image_gate`. Takes a `Module`; gives the same with such arguments renamed.
"""

import re
from collections.abc import Iterator, Mapping

from twill.extract.rewrite.text.edits import NAME, Edit, edited, extent, names_in
from twill.ir.loop import Function, Module

_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")


def named_as_in_source(module: Module) -> Module:
    """The module itself where all arguments have their names."""
    return edited(module, (edit for one in module.functions if one.body for edit in _edits(module, one)))


def _edits(module: Module, function: Function) -> Iterator[Edit]:
    renamed = _renamed(function, names_in(module, function))
    for found in NAME.finditer(module.text, *extent(module, function)) if renamed else ():
        if new := renamed.get(found.group()):
            yield Edit(found.start(), found.end(), new)


def _renamed(function: Function, taken: set[str]) -> Mapping[str, str]:
    """By the name in the text, with `%`; none that anything in the function has already."""
    pairs = [
        (value.name, f"%{name}")
        for value, name in zip(function.args, function.parameters, strict=True)
        if name and _IDENTIFIER.fullmatch(name)
    ]
    names = [new for _, new in pairs]
    return {old: new for old, new in pairs if names.count(new) == 1 and new not in taken}
