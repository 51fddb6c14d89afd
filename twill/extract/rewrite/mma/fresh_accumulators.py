"""MMAs into a buffer of tensor memory that nothing else uses begin it anew.

Triton stores the initial value of an accumulator to tensor memory, lets MMAs add to it, and loads the result
(`ttng.tmem_alloc`, `ttng.tmem_store`, `ttng.tc_gen5_mma`, `ttng.tmem_load`). Such a buffer holds two values,
one behind the other, and in a branch nothing says that the first is lost. Takes a module; gives the same
without the store: the first MMA does not accumulate, and what was stored is added to what is loaded, unless
it is zero. Lines stay where they are.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from re import escape, sub

from twill.extract.rewrite.text.edits import (
    UNKNOWN,
    Edit,
    accumulated,
    blanked,
    constant,
    edited,
    mentions,
    text_of,
)
from twill.extract.rewrite.text.type_text import type_text
from twill.ir.loop import Block, Module, Op, Scalar, Tensor, Token, Value
from twill.ops.table import role

_ADDED = (Scalar("f32"), Scalar("f16"))
"""Element types of what `arith.addf` adds."""


@dataclass(frozen=True, slots=True)
class _Update:
    """All that uses the buffer of an allocation, in one block: a store, MMAs one after the other, a load."""

    alloc: Op
    store: Op
    mma: Op
    """The first of them."""
    load: Op
    zero: bool
    """The stored value is zero."""


def fresh(module: Module) -> Module:
    """The module itself where there are no such MMAs."""
    edits = list[Edit]()
    for function in module.functions:
        made, users = {value.id: op for op in function.walk() for value in op.results}, function.users()
        for block in function.blocks():
            following = dict(zip((op.index for op in block.ops), block.ops[1:], strict=False))
            for alloc in block.ops:
                update = _update(module, block, made, users, alloc)
                edits += () if update is None else _edits(module, update, following)
    return edited(module, edits)


def _update(
    module: Module, block: Block, made: Mapping[int, Op], users: Mapping[int, Sequence[Op]], alloc: Op
) -> _Update | None:
    """What uses the buffer of an allocation, if that is an update as described above."""
    if role(alloc) != "tensor_memory_alloc" or alloc.operands or len(alloc.results) != 2:
        return None
    own = list(users.get(alloc.results[0].id, ()))
    kinds = ["tensor_memory_store", *["tensor_memory_mma"] * (len(own) - 2), "tensor_memory_load"]
    if len(own) < 3 or [role(op) for op in own] != kinds or any(op not in block.ops for op in own):
        return None
    store, mma, load = own[0], own[1], own[-1]
    kind, stored = load.results[0].type, store.operands[-2]
    alike = stored.type == kind and isinstance(kind, Tensor) and kind.dtype in _ADDED
    always = all(_true(made, value) for op in own[:-1] for value in _flags(op))
    named = type_text(module, kind) is not None and "#" not in load.results[0].name
    if not (_chained(users, own) and alike and always and named):
        return None
    maker = made.get(stored.id)
    zero = maker is not None and role(maker) == "constant" and "dense<0.0" in text_of(module, maker)
    return _Update(alloc, store, mma, load, zero)


def _chained(users: Mapping[int, Sequence[Op]], ops: Sequence[Op]) -> bool:
    """The token of each operation goes to the next one alone, that of the last one nowhere. A buffer that is
    not an MMA's accumulator is an operand, and has no token."""
    tokens = [op.results[-1] for op in ops if op.results and isinstance(op.results[-1].type, Token)]
    readers = [list(users.get(token.id, ())) for token in tokens]
    return len(tokens) == len(ops) and readers == [*([op] for op in ops[1:]), []]


def _flags(op: Op) -> Sequence[Value]:
    """Whether a store or an MMA does anything, and whether an MMA accumulates."""
    return op.operands[-1:] if role(op) == "tensor_memory_store" else op.operands[-2:]


def _true(made: Mapping[int, Op], value: Value) -> bool:
    maker = made.get(value.id)
    return maker is not None and role(maker) == "constant" and maker.attributes.get("value") is True


def _edits(module: Module, update: _Update, following: Mapping[int, Op]) -> Iterator[Edit]:
    store, mma, load = update.store, update.mma, update.load
    yield blanked(module, store.span.start, following[store.index].span.start)
    false = f"%twill_fresh{mma.index}"
    flag, predicate = (escape(value.name) for value in _flags(mma))
    text = _renamed(text_of(module, mma), store.results[0].name, update.alloc.results[1].name)
    text = sub(rf"{flag}(\s*,\s*{predicate}\b)", rf"{false}\1", text, count=1)
    yield Edit(mma.span.start, mma.span.end, f"{false} = {constant('false', 'i1')} {UNKNOWN} {text}")
    if not update.zero:
        result, part = load.results[0], f"{load.results[0].name}_part"
        yield Edit(load.span.start, load.span.end, _renamed(text_of(module, load), result.name, part))
        place, kind = following[load.index].span.start, type_text(module, result.type)
        assert kind, "an update is found only where its tile can be named"
        total = f"{result.name} = {accumulated(store.operands[-2].name, part, result.type, kind)} {UNKNOWN} "
        yield Edit(place, place, total)


def _renamed(text: str, name: str, other: str) -> str:
    """With another name where a value is first mentioned."""
    return mentions(name).sub(other, text, count=1)
