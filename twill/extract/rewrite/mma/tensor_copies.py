"""Copies from one buffer of tensor memory to another, left out: one buffer takes the place of both.

Triton hands an accumulator from one loop to the next through registers: a `ttng.tmem_load` of the first
loop's buffer and a `ttng.tmem_store` to a buffer of the second loop. Takes a module; gives the same without
these, where nothing else reads what was loaded, nothing uses the first buffer afterwards, and nothing has
used the second before. Lines stay where they are.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from twill.extract.rewrite.text.edits import Edit, blanked, edited, mentions
from twill.ir.loop import Function, Module, Op, Token
from twill.ops.table import role


@dataclass(frozen=True, slots=True)
class _Copy:
    """`load` of one buffer, `store` of what it loaded to the buffer of `alloc`, in one block."""

    load: Op
    alloc: Op
    store: Op
    following: Mapping[int, int]
    """Where the operation behind each of them begins in the text, by index."""

    @property
    def replaced(self) -> dict[str, str]:
        """By the name of each value that goes: the value that takes its place."""
        buffer, before = self.load.operands
        tokens = {one.results[-1].name: before.name for one in (self.load, self.store)}
        return {self.alloc.results[0].name: buffer.name, **tokens}

    @property
    def gone(self) -> tuple[Op, ...]:
        return self.load, self.alloc, self.store


def without_tensor_copies(module: Module) -> Module:
    """The module itself where there are none."""
    found = next((one for function in module.functions for one in _copies(function)), None)
    while found is not None:
        module = edited(module, _edits(module, found))
        found = next((one for function in module.functions for one in _copies(function)), None)
    return module


def _copies(function: Function) -> Iterator[_Copy]:
    for block in function.blocks():
        following = {op.index: after.span.start for op, after in zip(block.ops, block.ops[1:], strict=False)}
        made = {value.id: op for op in block.ops for value in op.results}
        true = {op.results[0].id for op in function.walk() if op.attributes.get("value") is True}
        for store in block.ops:
            if role(store) != "tensor_memory_store" or store.operands[-1].id not in true:
                continue
            alloc, load = (made.get(value.id) for value in (store.operands[0], store.operands[-2]))
            if alloc is not None and load is not None and _copied(function, made, load, alloc, store):
                yield _Copy(load, alloc, store, following)


def _copied(function: Function, made: Mapping[int, Op], load: Op, alloc: Op, store: Op) -> bool:
    """Whether a store does nothing but copy a buffer that is of no use any more. All buffers are allocated in
    the block of the copy, so that no iteration around it sees them again."""
    if role(load) != "tensor_memory_load" or role(alloc) != "tensor_memory_alloc" or alloc.operands:
        return False
    source, copy = load.operands[0], alloc.results[0]
    origin = made.get(source.id)
    plain = origin is not None and role(origin) == "tensor_memory_alloc" and source.type == copy.type
    tokens = all(isinstance(op.results[-1].type, Token) for op in (load, alloc, store))
    if not plain or not tokens or len(load.operands) != 2:
        return False
    users = [(value.id, op) for op in function.walk() for value in op.operands]
    read = [op for value, op in users if value == load.results[0].id]
    late = any(value == source.id and op.index > load.index for value, op in users)
    early = any(value in {one.id for one in alloc.results} and op.index < store.index for value, op in users)
    return read == [store] and not late and not early


def _edits(module: Module, copy: _Copy) -> Iterator[Edit]:
    """Without the copy's operations, and with the other names in those that read what these made."""
    for op in copy.gone:
        yield blanked(module, op.span.start, copy.following[op.index])
    made = {value.id for op in copy.gone for value in op.results}
    for op in (op for function in module.functions for op in function.walk()):
        if op not in copy.gone and any(value.id in made for value in op.operands):
            yield from _renamed(module, op, copy.replaced)


def _renamed(module: Module, op: Op, names: Mapping[str, str]) -> Iterator[Edit]:
    """Of an operation with others inside it only what comes before these."""
    inside = min((inner.span.start for inner in op.inner()), default=op.span.end)
    text = module.text[op.span.start : inside]
    for name, value in names.items():
        for place in mentions(name).finditer(text):
            yield Edit(op.span.start + place.start(), op.span.start + place.end(), value)
