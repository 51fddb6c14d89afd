"""A kernel that makes its descriptors itself, from one that takes descriptors made by the host.

Takes a `Module`; gives the same with an address in place of each descriptor argument, and a
`tt.make_tensor_descriptor` at the start of the kernel. Triton passes a descriptor as the descriptor, its
shape (i32 each) and its strides (i64 each), so all numbers are there already. The argument is marked
`twill.descriptor` with the shape of its block, those of the shape `twill.extent` with their axis. Lines stay
where they are. Raises TwillError, with the line, for descriptor arguments that are not followed by their
shape and strides.
"""

import re
from collections.abc import Iterator

from twill.diagnostics import TwillError
from twill.extract.frontend.persistent import arguments_end
from twill.extract.rewrite.text.edits import Edit, constant, edited
from twill.ir.loop import Function, Module, Scalar, TensorDesc, Value
from twill.ops.table import named

DESCRIPTOR, EXTENT = "twill.descriptor", "twill.extent"

MADE = ".made"
"""Ends the name of a descriptor that the kernel makes; its argument keeps the name, for the address."""

ALIGNMENT = 16
"""Bytes of which the address and the strides of a tensor map are multiples (CUDA driver API,
cuTensorMapEncodeTiled)."""

Splice = tuple[int, int, str]
"""Begin, end, and what stands there instead."""


def device_descriptors(module: Module) -> Module:
    """The module whose kernels take no descriptors."""
    kernels = [
        function
        for function in module.functions
        if function.public and function.body and any(_hosts(function))
    ]
    edits = sorted(edit for function in kernels for edit in _edits(module, function))
    return edited(module, (Edit(*edit) for edit in edits)) if edits else module


def _hosts(function: Function) -> Iterator[tuple[int, Value, TensorDesc]]:
    """Descriptor arguments with their positions and types."""
    for i, value in enumerate(function.args):
        if isinstance(value.type, TensorDesc):
            yield i, value, value.type


def _edits(module: Module, function: Function) -> list[Splice]:
    assert function.body is not None
    edits, made = list[Splice](), list[str]()
    begin, end = module.text.index(f"@{function.name}"), arguments_end(module.text, function)
    for i, value, kind in _hosts(function):
        rank = len(kind.shape)
        numbers = function.args[i + 1 : i + 1 + 2 * rank]
        if [one.type for one in numbers] != [Scalar("i32")] * rank + [Scalar("i64")] * rank or not isinstance(
            kind.dtype, Scalar
        ):
            raise TwillError(
                f"the descriptor {value.name} is not followed by its shape and strides", function.location
            )
        at = module.text.index(f"{value.name}: !tt.tensordesc<", begin, end)
        until = _closing(module.text, module.text.index("<", at))
        edits.append(
            (at, until, f"{value.name}: !tt.ptr<{kind.dtype.name}> {_base(module.text, until, kind)}")
        )
        edits += _uses(module.text, value, end)
        edits += [(*_after(module.text, one, begin, end), text) for one, text in _marks(numbers, kind)]
        made.append(_make(module.text[module.text.index("!", at) : until], value, kind, numbers))
    start = function.body.blocks[0].ops[0].span.start
    return [*edits, (start, start, " ".join([f"%twill_one = {constant(1, 'i64')}", *made, ""]))]


def _base(text: str, at: int, kind: TensorDesc) -> str:
    """The attributes of the address."""
    if text[at:].lstrip().startswith("{"):
        raise TwillError("a descriptor argument has attributes that are not known here")
    block = ", ".join(map(str, kind.shape))
    return f"{{{DESCRIPTOR} = array<i32: {block}>, tt.divisibility = {ALIGNMENT} : i32}}"


def _marks(numbers: tuple[Value, ...], kind: TensorDesc) -> Iterator[tuple[Value, str]]:
    """Attributes of the shape and of the strides, which but for the last are multiples of 16 bytes."""
    rank = len(kind.shape)
    for axis, one in enumerate(numbers[:rank]):
        yield one, f" {{{EXTENT} = {axis} : i32}}"
    step = ALIGNMENT // max(1, _bytes(kind))
    for one in numbers[rank:-1]:
        yield one, f" {{tt.divisibility = {step} : i32}}"


def _bytes(kind: TensorDesc) -> int:
    """Of an element."""
    name = kind.dtype.name if isinstance(kind.dtype, Scalar) else ""
    digits = "".join(c for c in name.partition("E")[0] if c.isdecimal())
    return int(digits or 8) // 8


def _after(text: str, value: Value, begin: int, end: int) -> tuple[int, int]:
    """Behind the type of a number among the arguments."""
    at = text.index(f"{value.name}: ", begin, end) + len(value.name) + 2
    until = at + len("i32")
    return until, until


def _make(written: str, value: Value, kind: TensorDesc, numbers: tuple[Value, ...]) -> str:
    """The operation that makes the descriptor; the last stride of a tensor map is 1."""
    rank = len(kind.shape)
    shape = ", ".join(one.name for one in numbers[:rank])
    strides = ", ".join([*(one.name for one in numbers[rank:-1]), "%twill_one"])
    inner = written.removeprefix("!tt.tensordesc")
    assert isinstance(kind.dtype, Scalar)
    return (
        f"{value.name}{MADE} = {named('descriptor')} {value.name}, [{shape}], [{strides}] :"
        f" <{kind.dtype.name}>, {inner}"
    )


def _uses(text: str, value: Value, begin: int) -> Iterator[Splice]:
    """The descriptor in the body, which begins at `begin`, under its new name."""
    after = text.find("tt.func", begin)
    name = re.compile(re.escape(value.name) + r"(?![\w$.-])")
    for found in name.finditer(text, begin, after if after >= 0 else len(text)):
        yield found.start(), found.end(), f"{value.name}{MADE}"


def _closing(text: str, opening: int) -> int:
    """Behind the `>` that closes the `<` at `opening`."""
    depth = 0
    for i in range(opening, len(text)):
        depth += {"<": 1, ">": -1}.get(text[i], 0)
        if not depth:
            return i + 1
    return len(text)
