"""Tiles of bytes that are parts of words, on their way to shared memory.

Weights of 4 bits are decoded four at a time, to a word of four numbers of a byte; each byte of it is shifted
down, cut off, and joined with others to rows. A permutation of bytes (PTX ISA, prmt) takes any bytes of two
words, wherever they are in them. Takes a `Scope` with a tile; gives its elements as bytes of words, where all
of them are.
"""

import re
from collections.abc import Iterator

from twill.ir.loop import Op, Scalar, Tensor, Type, Value
from twill.ops.table import role
from twill.ops.values import element
from twill.targets.cuda.registers.register_tiles import AnyPoint, Elements
from twill.targets.cuda.scope import Scope
from twill.targets.cuda.values.views import VIEWS

_SHIFTS = ("arith.shrui", "arith.shrsi")
_BYTES = ("i8", "f8E4M3FN", "f8E5M2")
_REGISTER = re.compile(r"(\w+)\[([^\[\]]*)\]")
"""A word in an array of registers."""


def bytes_of_words(scope: Scope, value: Value) -> Elements | None:
    """None where a byte is computed otherwise."""
    chain = list(_chain(scope, value))
    if None in chain or len(chain) < 2:
        return None
    inner = Scope(scope.program, scope.group, dict(scope.values))
    for op in reversed(chain):
        assert op is not None
        if op.name == "arith.trunci":
            inner.values[op.result.id] = _bytes(scope, op.operands[0])
        elif role(op) == "bitcast":
            inner.values[op.result.id] = inner.values[op.operands[0].id]
        else:
            inner.values[op.result.id] = VIEWS[op.name](inner, op)
    return inner.elements(value)


def _chain(scope: Scope, value: Value) -> Iterator[Op | None]:
    """The operations that make a tile of words' bytes, each before what it reads; None among them where it is
    not made so."""
    maker = scope.program.op(value.producer) if value.producer is not None else None
    if maker is None or not isinstance(value.type, Tensor) or element(value.type) not in _BYTES:
        yield None
    elif maker.name == "arith.trunci":
        yield maker if _is_words(maker.operands[0].type) else None
    elif role(maker) in ("bitcast", "join", "reshape"):
        yield maker
        for operand in maker.operands:
            yield from _chain(scope, operand)
    else:
        yield None


def _is_words(type: Type) -> bool:
    return isinstance(type, Tensor) and type.dtype == Scalar("i32")


def _bytes(scope: Scope, value: Value) -> Elements:
    """The lowest bytes of words, or those that a shift has brought there. Raises ValueError for words that
    are in no registers."""
    source, byte = _shifted(scope, value)
    words = scope.elements(source)

    def elements(one: AnyPoint) -> str:
        held = _REGISTER.fullmatch(words(one))
        if held is None:
            raise ValueError("are computed where they are used")
        return f"byte_of_word<{source.id}>({held[1]}, {held[2]}, {byte})"

    return elements


def _shifted(scope: Scope, value: Value) -> tuple[Value, int]:
    """The words that the statement has, before a shift by whole bytes, and which byte becomes the lowest."""
    maker = scope.program.op(value.producer) if value.producer is not None else None
    if maker is None or maker.name not in _SHIFTS:
        return value, 0
    words, bits = maker.operands[0], _constant(scope, maker.operands[1])
    whole = bits is not None and bits % 8 == 0 and 0 <= bits < 32
    return (words, bits // 8) if bits is not None and whole and words.id in scope.values else (value, 0)


def _constant(scope: Scope, value: Value) -> int | None:
    maker = scope.program.op(value.producer) if value.producer is not None else None
    found = maker.attributes.get("value") if maker is not None and role(maker) == "constant" else None
    return found if isinstance(found, int) else None
