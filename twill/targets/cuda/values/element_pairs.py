"""Arithmetic on two elements of a tile at once: add, sub and mul.rn of f16x2 and bf16x2, fma.rn.f16x2, and on
Blackwell these of f32x2.

Takes elementwise additions, subtractions, multiplications and `math.fma`; gives `Paired` elements, which
loops over registers print two by two: a word of f16 or bf16, a float2 of float32.
A sum, difference or product that is rounded to float32 first is the one that is rounded to f16 or bf16 alone:
float32 has more than twice their bits and two (Figueroa, "When is double rounding innocuous?", 1995). A
float32 multiplication that only an addition reads becomes part of it, as the compiler contracts single ones.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from twill.ir.loop import Op, Tensor, Value, users_of
from twill.ops.table import is_elementwise, lookup
from twill.ops.values import element
from twill.targets.cuda.expressions import argument
from twill.targets.cuda.registers.register_tiles import PACK, AnyPoint, Elements, element_of

HALF, BRAIN, FLOAT = "f16", "bf16", "f32"


@dataclass(frozen=True, slots=True)
class Paired:
    """A tile by an operation that exists for pairs of elements."""

    dtype: str
    function: str
    """Of the runtime, on pairs."""
    operands: tuple[Elements, ...]
    single: Elements
    register: Callable[[AnyPoint], str] | None = None
    """The register of the first of both, where the function takes it."""

    def __call__(self, point: AnyPoint) -> str:
        return self.single(point)


@dataclass(frozen=True, slots=True)
class _Pairs:
    """How two elements of a type are kept and computed together."""

    joined: Callable[[str, str], str]
    """The pair of two elements."""
    functions: Mapping[str, str] = field(default_factory=dict[str, str])
    """By the word of an operation's row: the runtime's function on pairs."""


def _float2(low: str, high: str) -> str:
    return f"float2{{{low}, {high}}}"


def _packed(pack: str, low: str, high: str) -> str:
    return f"{pack}({low}, {high})"


def _word(pack: str, low: str, high: str) -> str:
    """Elements that a word holds already are not converted to float32 and back, and what is stored in
    another type is converted as the runtime does two of it."""
    halves = [argument(f"un{pack}", text) for text in (low, high)]
    if None not in halves:
        return f"halves(half_of({halves[0]}), half_of({halves[1]}))"
    stored = [argument("float", text) for text in (low, high)]
    if None in stored:
        stored = [element_of(pack, text) for text in (low, high)]
    return _packed(pack, low, high) if None in stored else f"{pack}({stored[0]}, {stored[1]})"


_PAIRS: Mapping[str, _Pairs] = {
    **{dtype: _Pairs(partial(_packed, pack)) for dtype, pack in PACK.items()},
    BRAIN: _Pairs(
        partial(_word, PACK[BRAIN]),
        {
            "add": "add_bf16x2",
            "sub": "subtract_bf16x2",
            "mul": "multiply_bf16x2",
            "absf": "absolute_halves",
        },
    ),
    HALF: _Pairs(
        partial(_word, PACK[HALF]),
        {
            "add": "add_f16x2",
            "sub": "subtract_f16x2",
            "mul": "multiply_f16x2",
            "fma": "fma_f16x2",
            "absf": "absolute_halves",
        },
    ),
    FLOAT: _Pairs(
        _float2, {"add": "add_pair", "sub": "subtract_pair", "mul": "multiply_pair", "fma": "fma_pair"}
    ),
}


def pair(dtype: str, elements: Elements, low: AnyPoint, high: AnyPoint) -> str:
    """Two elements together."""
    if isinstance(elements, Paired) and elements.dtype == dtype:
        register = [elements.register(low)] if elements.register else []
        operands = (pair(dtype, one, low, high) for one in elements.operands)
        return f"{elements.function}({', '.join((*register, *operands))})"
    return _PAIRS[dtype].joined(elements(low), elements(high))


def paired(
    op: Op, operands: Sequence[Elements], single: Elements, fused: frozenset[int], *, floats: bool
) -> Elements:
    """The result of an operation on tiles; `single` where no instruction computes two elements of it.
    `fused`: multiplications, by value id, that are part of the addition which reads them. `floats`: one
    instruction computes two float32 elements."""
    dtype = element(op.results[0].type)
    word = paired_word(op, dtype) if floats or dtype in (HALF, BRAIN) else None
    if word is None:
        return single
    if word in ("add", "sub"):
        for position, value in enumerate(op.operands):
            factors = operands[position]
            if value.id in fused and isinstance(factors, Paired):
                return Paired(
                    dtype, "fma_pair", _fma(word, position, factors, operands[1 - position]), single
                )
    return Paired(dtype, _PAIRS[dtype].functions[word], tuple(operands), single)


def _fma(word: str, position: int, product: Paired, other: Elements) -> tuple[Elements, ...]:
    """a * b + c, a * b - c, c - a * b: the last two negate an operand."""
    a, b = product.operands
    if word == "sub" and position == 0:
        return a, b, _negated(other)
    return (_negated(a) if word == "sub" else a), b, other


def _negated(operand: Elements) -> Elements:
    return Paired(FLOAT, "negate_pair", (operand,), lambda point: f"-({operand(point)})")


def paired_word(op: Op, dtype: str, *, scalar: bool = False) -> str | None:
    """What an elementwise operation on tiles (or `scalar` numbers) of `dtype` is, of those that exist for
    pairs."""
    fits = len(op.results) == 1 and isinstance(op.results[0].type, Tensor) != scalar
    if not fits or not is_elementwise(op) or element(op.results[0].type) != dtype or dtype not in _PAIRS:
        return None
    row = lookup(op.name)
    return row.word if row is not None and row.word in _PAIRS[dtype].functions else None


def fused(ops: Sequence[Op], kept: frozenset[int]) -> frozenset[int]:
    """The float32 multiplications, by value id, that one addition of the same statement reads and nothing
    else."""
    readers = users_of(ops)

    def added(value: Value) -> bool:
        users = readers.get(value.id, [])
        return len(users) == 1 and paired_word(users[0], FLOAT) in ("add", "sub") and value.id not in kept

    return frozenset(op.result.id for op in ops if paired_word(op, FLOAT) == "mul" and added(op.result))
