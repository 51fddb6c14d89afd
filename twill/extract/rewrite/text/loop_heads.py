"""The beginning of a loop as a module has it in its text, and with other carried values.

`%r:2 = scf.for %i = %a to %b step %c iter_args(%x = %y, %z = %w) -> (i32, f32)  : i32 {`
"""

from collections.abc import Sequence
from dataclasses import dataclass
from re import sub

from twill.extract.rewrite.text.edits import Edit, carried_in, listed
from twill.ir.loop import Carried, Loop, Module, Scalar

RESULTS = r"^(%[\w$.-]+)(?::\d+)?\s*=\s*"
"""The name of a loop's results, and how many there are."""


@dataclass(frozen=True, slots=True)
class LoopHead:
    """Of a loop that carries values."""

    begin: int
    end: int
    """Where the first operation of its body begins."""
    before: str
    """What stands before the carried values: results, induction variable, bounds."""
    pairs: tuple[str, ...]
    """The carried values, each with its first one: `%x = %y`."""
    types: tuple[str, ...]
    behind: str

    def carrying(self, pairs: Sequence[str], types: Sequence[str]) -> str:
        """The text with these values and their types in place of its own, and as many results."""
        if not pairs:
            return f"{sub(RESULTS, '', self.before)}{self.behind.lstrip()}"
        before = self.before
        if len(pairs) != len(self.pairs):
            before = sub(RESULTS, rf"\g<1>:{len(pairs)} = ", before)
        return f"{before}iter_args({', '.join(pairs)}) -> ({', '.join(types)}){self.behind}"

    def edit(self, pairs: Sequence[str], types: Sequence[str]) -> Edit:
        """The edit of the module's text that gives the loop these values."""
        return Edit(self.begin, self.end, self.carrying(pairs, types))


def number_type(one: Carried) -> str:
    """The type of a carried number, as text."""
    assert isinstance(one.arg.type, Scalar)
    return one.arg.type.name


def head_of(module: Module, loop: Loop) -> LoopHead:
    begin, end = loop.op.span.start, loop.body.ops[0].span.start
    text = module.text[begin:end]
    found = carried_in(text)
    assert found is not None, "the loop carries values"
    pairs, types = found.group(1), found.group(2).removeprefix("(").removesuffix(")")
    before, behind = text[: found.start()], text[found.end() :]
    return LoopHead(begin, end, before, tuple(listed(pairs)), tuple(listed(types)), behind)
