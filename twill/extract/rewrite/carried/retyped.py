"""Carried values that get other types: text of a loop that carries them, and of what reads them behind it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

from twill.extract.rewrite.text.edits import Edit, listed, mentions, text_of
from twill.extract.rewrite.text.loop_heads import head_of
from twill.ir.loop import Loop, Module, Op, Value


class Retyped(Protocol):
    """A carried value that gets another type, by its number among the carried ones."""

    @property
    def number(self) -> int: ...
    @property
    def result(self) -> Value: ...
    @property
    def first(self) -> str:
        """The name of what it is in the first iteration."""
        ...

    @property
    def last(self) -> str:
        """What the names of what it is behind the loop begin with."""
        ...

    @property
    def old(self) -> str: ...
    @property
    def new(self) -> str:
        """Its types, as text."""
        ...


def with_types(module: Module, loop: Loop, found: Sequence[Retyped]) -> str:
    """The loop's beginning with values of other types."""
    head = head_of(module, loop)
    pairs, types = list(head.pairs), list(head.types)
    for one in found:
        pairs[one.number] = f"{pairs[one.number].split('=')[0]}= {one.first}"
        types[one.number] = one.new
    return head.carrying(pairs, types)


def yielded(module: Module, op: Op, found: Sequence[Retyped]) -> Edit:
    values, _, types = text_of(module, op).rpartition(" : ")
    kinds = list(listed(types))
    for one in found:
        kinds[one.number] = one.new
    return Edit(op.span.start, op.span.end, f"{values} : {', '.join(kinds)}")


def readers(users: Mapping[int, Sequence[Op]], found: Sequence[Retyped]) -> Sequence[Op]:
    """The operations behind the loop that read any of its values."""
    return list({op.index: op for one in found for op in users.get(one.result.id, ())}.values())


def changed_back(
    module: Module, read: Sequence[Op], found: Sequence[Retyped], change: Callable[[str, str, str, str], str]
) -> Iterator[Edit]:
    """What reads values behind the loop, of which an operation may read several, reads them as they were.
    `change` gives the text of a value of a name, made of another, from one type to another."""
    for op in read:
        text, back = module.text[op.span.start : own_end(op)], ""
        for one in (one for one in found if one.result in op.operands):
            name = f"{one.last}_{op.index}"
            back += change(name, one.result.name, one.new, one.old)
            text = mentions(one.result.name).sub(name, text)
        yield Edit(op.span.start, own_end(op), f"{back}{text}")


def own_end(op: Op) -> int:
    """Of the text of an operation in front of its regions."""
    return min((inner.span.start for inner in op.inner()), default=op.span.end)
