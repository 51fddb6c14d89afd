"""Arithmetic on the two f16 elements of a word: add, sub and mul.f16x2.

Takes elementwise additions, subtractions and multiplications; gives `Halves`, which loops over words print at
once. A result that is rounded to float32 and then to f16 is the one that is rounded to f16 alone: float32 has
more than twice the bits of f16 and two (Figueroa, "When is double rounding innocuous?", 1995).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from twill.ir.loop import Op
from twill.ops.table import is_elementwise, lookup
from twill.ops.values import element
from twill.targets.cuda.register_tiles import PACK, AnyPoint, Elements

WORDS = {"add": "add_f16x2", "sub": "subtract_f16x2", "mul": "multiply_f16x2"}
"""By the word of an operation's row: the runtime's function on two words."""


@dataclass(frozen=True, slots=True)
class Halves:
    """A tile of f16 by an operation that exists for words."""

    function: str
    operands: tuple[Elements, ...]
    single: Elements

    def __call__(self, point: AnyPoint) -> str:
        return self.single(point)


def halved(op: Op, operands: Sequence[Elements], single: Elements) -> Elements:
    """The result of an operation on tiles; `single` where no instruction computes a word of it."""
    row = lookup(op.name)
    if row is None or row.word not in WORDS or not is_elementwise(op) or element(op.result.type) != "f16":
        return single
    return Halves(WORDS[row.word], tuple(operands), single)


def word(elements: Elements, low: AnyPoint, high: AnyPoint, pack: str) -> str:
    """Two elements in a word."""
    if isinstance(elements, Halves) and pack == PACK["f16"]:
        return f"{elements.function}({', '.join(word(one, low, high, pack) for one in elements.operands)})"
    one, other = elements(low), elements(high)
    parts = [_half(text, pack) for text in (one, other)]
    if None in parts:
        return f"{pack}({one}, {other})"
    return f"halves({parts[0]}, {parts[1]})"


def _half(text: str, pack: str) -> str | None:
    """The half of a word that a text unpacks, as it is; None for another text."""
    if pack != PACK["f16"] or not text.startswith(f"un{pack}("):
        return None
    inside = text[len(f"un{pack}(") : -1]
    depth = 0
    for character in inside:
        depth += {"(": 1, ")": -1}.get(character, 0)
        if depth < 0:
            return None
    return f"half_of({inside})" if text.endswith(")") else None
