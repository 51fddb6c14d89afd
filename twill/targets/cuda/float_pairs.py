"""Arithmetic on two float32 elements at once: add, mul and fma.rn.f32x2 of Blackwell.

Takes elementwise additions, subtractions and multiplications; gives `Paired` elements, which loops over
registers print two by two. A multiplication that only an addition reads becomes part of it, as the compiler
contracts single ones.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from twill.ir.loop import Op, Tensor, Value
from twill.ops.table import is_elementwise, lookup
from twill.ops.values import element
from twill.targets.cuda.register_tiles import AnyPoint, Elements

WORDS = {"add": "add_pair", "sub": "subtract_pair", "mul": "multiply_pair", "fma": "fma_pair"}
"""By the word of an operation's row: the runtime's function on two float2."""


@dataclass(frozen=True, slots=True)
class Paired:
    """A tile of float32 by an operation that exists for pairs."""

    function: str
    operands: tuple[Elements, ...]
    single: Elements
    register: Callable[[AnyPoint], str] | None = None
    """The register of the first of both, where the function takes it."""

    def __call__(self, point: AnyPoint) -> str:
        return self.single(point)


def paired(op: Op, operands: Sequence[Elements], single: Elements, fused: frozenset[int]) -> Elements:
    """The result of an operation on tiles; `single` where no instruction computes two elements of it.
    `fused`: multiplications, by value id, that are part of the addition which reads them."""
    word = word_of(op)
    if word is None:
        return single
    if word in ("add", "sub"):
        for position, value in enumerate(op.operands):
            product = operands[position]
            if value.id in fused and isinstance(product, Paired):
                return Paired("fma_pair", _fma(word, position, product, operands[1 - position]), single)
    return Paired(WORDS[word], tuple(operands), single)


def _fma(word: str, position: int, product: Paired, other: Elements) -> tuple[Elements, ...]:
    """a * b + c, a * b - c, c - a * b: the last two negate an operand."""
    a, b = product.operands
    if word == "sub" and position == 0:
        other = Paired("negate_pair", (other,), lambda point: f"-({other(point)})")
    if word == "sub" and position == 1:
        first = a
        a = Paired("negate_pair", (first,), lambda point: f"-({first(point)})")
    return a, b, other


def word_of(op: Op, *, scalar: bool = False) -> str | None:
    """What an elementwise operation on float32 tiles (or `scalar` numbers) is, of those that exist for
    pairs."""
    fits = len(op.results) == 1 and isinstance(op.results[0].type, Tensor) != scalar
    if not fits or not is_elementwise(op) or element(op.results[0].type) != "f32":
        return None
    row = lookup(op.name)
    return row.word if row is not None and row.word in WORDS else None


def fused(ops: Sequence[Op], kept: frozenset[int]) -> frozenset[int]:
    """The multiplications, by value id, that one addition of the same statement reads and nothing else."""
    readers: dict[int, list[Op]] = {}
    for op in ops:
        for value in op.operands:
            readers.setdefault(value.id, []).append(op)

    def added(value: Value) -> bool:
        users = readers.get(value.id, [])
        return len(users) == 1 and word_of(users[0]) in ("add", "sub") and value.id not in kept

    return frozenset(op.result.id for op in ops if word_of(op) == "mul" and added(op.result))


def pair(elements: Elements, low: AnyPoint, high: AnyPoint) -> str:
    """Two elements as a float2."""
    if isinstance(elements, Paired):
        register = [elements.register(low)] if elements.register else []
        operands = (pair(one, low, high) for one in elements.operands)
        return f"{elements.function}({', '.join((*register, *operands))})"
    return f"float2{{{elements(low)}, {elements(high)}}}"
