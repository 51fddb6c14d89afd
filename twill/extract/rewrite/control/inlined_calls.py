"""Calls of functions as the operations of these functions.

Triton inlines what a kernel calls, but for functions with `noinline=True` and those that return early, which
it can not put into a loop. Takes a module; gives the same with the operations of each called function in the
place of its call, early returns as branches, and without functions that nothing calls any more. A function
that returns values at several places stays, with its calls, which generation refuses.

Operations keep their order and have lines of their own, those of the new text.
"""

from collections.abc import Iterator

from twill.extract.rewrite.control.early_return import structured
from twill.extract.rewrite.control.predication import read_instead, trailing_location
from twill.extract.rewrite.text.edits import NAME, UNKNOWN, Edit, blanked, edited, extent, names_in
from twill.ir.loop import Function, Module, Op
from twill.ops.table import named

_CALL = "tt.call"


def inlined(module: Module) -> Module:
    """The module itself where nothing is called."""
    if not any(_calls(function) for function in module.functions):
        return module
    module, count = structured(module), 0
    while (found := _next(module)) is not None:
        module, count = edited(module, _edits(module, *found, count)), count + 1
    called = {name for function in module.functions for op in _calls(function) for name in op.symbols}
    unused = (one for one in module.functions if not one.public and one.name not in called)
    return edited(module, (edit for one in unused for edit in _without(module, one)))


def _calls(function: Function) -> list[Op]:
    return [op for op in function.walk() if op.name == _CALL]


def _next(module: Module) -> tuple[Function, Op, Function] | None:
    """A call that can be inlined, in its function, of one that calls nothing itself."""
    functions = {function.name: function for function in module.functions}
    for function in module.functions:
        for op in _calls(function):
            callee = functions.get(next(iter(op.symbols), ""))
            if callee is not None and not _calls(callee) and _straight(callee):
                return function, op, callee
    return None


def _straight(function: Function) -> bool:
    """Its operations are one block, of which the last one returns."""
    blocks = list(function.body.blocks) if function.body else []
    return [block.ops[-1].name for block in blocks if block.ops] == [named("return")] and len(blocks) == 1


def _edits(module: Module, caller: Function, call: Op, callee: Function, count: int) -> Iterator[Edit]:
    """The operations of a function in the place of a call, and its results where the call's were read."""
    assert callee.body
    ops, taken = list(callee.body.blocks[0].ops), names_in(module, caller)
    last = ops[-1]
    names = {arg.name: value.name for arg, value in zip(callee.args, call.operands, strict=True)}
    own = {name for name in names_in(module, callee) if name not in names}
    names |= {name: _fresh(name, taken | own, count) for name in sorted(own & taken)}

    def renamed(text: str) -> str:
        return NAME.sub(lambda found: names.get(found.group(), found.group()), text)

    body = renamed(module.text[ops[0].span.start : last.span.start])
    end = call.span.end + len(trailing_location(module, call))
    yield Edit(call.span.start, end, body if len(ops) > 1 else UNKNOWN)
    yield from read_instead(module, caller, call, [renamed(value.name) for value in last.operands])


def _fresh(name: str, taken: set[str], count: int) -> str:
    """A name that no value has yet."""
    new = f"%call{count}_{name[1:]}"
    while new in taken:
        new += "_"
    return new


def _without(module: Module, function: Function) -> Iterator[Edit]:
    """Nothing in the place of a function."""
    if function.body:
        yield blanked(module, *extent(module, function))
