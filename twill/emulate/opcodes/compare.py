"""Comparisons (PTX ISA, "Comparison and Selection")."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from twill.emulate.decode import Decoder, Step, guard_of, step
from twill.emulate.machine.warp import Warp
from twill.emulate.memory.clocks import Array
from twill.emulate.numeric.formats import bf16_values
from twill.emulate.numeric.rounding import flushed
from twill.emulate.opcodes.lift import get, lift, put
from twill.emulate.ptx.syntax import Instruction, Operand, Pair

Compare = Callable[[Array, Array], Array]


def _or_nan(fn: Compare) -> Compare:
    return lambda a, b: fn(a, b) | np.isnan(a) | np.isnan(b)


_ORDERED: Mapping[str, Compare] = {
    "eq": np.equal,
    "ne": lambda a, b: (a != b) & (a == a) & (b == b),
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "lo": np.less,
    "ls": np.less_equal,
    "hi": np.greater,
    "hs": np.greater_equal,
    "num": lambda a, b: ~(np.isnan(a) | np.isnan(b)),
    "nan": lambda a, b: np.isnan(a) | np.isnan(b),
}
_COMPARES: Mapping[str, Compare] = {
    **_ORDERED,
    **{f"{name}u": _or_nan(_ORDERED[name]) for name in ("eq", "ne", "lt", "le", "gt", "ge")},
}
_JOINS: Mapping[str, Callable[[Array, Array], Array]] = {
    "and": np.logical_and,
    "or": np.logical_or,
    "xor": np.logical_xor,
}


def compare(one: Instruction, dtype: str) -> Compare:
    """The comparison of an instruction. Raises KeyError."""
    name = one.modifiers[0]
    fn = np.not_equal if name == "ne" and dtype[0] in "sub" and dtype != "bf16" else _COMPARES[name]
    if dtype == "bf16" or dtype == "bf16x2":
        return lambda a, b: fn(bf16_values(a), bf16_values(b))
    if "ftz" in one.modifiers and dtype == "f32":
        return lambda a, b: fn(flushed(a), flushed(b))
    return fn


@step("setp")
def _setp(one: Instruction, decoder: Decoder) -> Step:
    dtype = one.modifiers[-1]
    if dtype in ("f16x2", "bf16x2"):
        return _setp_packed(one, decoder, dtype)
    join = _JOINS.get(one.modifiers[1])
    first, second = (
        (one.operands[0].first, one.operands[0].second)
        if isinstance(one.operands[0], Pair)
        else (one.operands[0], None)
    )
    fn = compare(one, dtype)
    if join is None and second is None:
        return lift(
            fn,
            decoder.target(first, "pred"),
            [decoder.source(operand, dtype) for operand in one.operands[1:3]],
        )
    return _setp_long(fn, join, first, second, one, decoder, dtype)


def _setp_long(
    fn: Compare,
    join: Any,
    first: Operand,
    second: Operand | None,
    one: Instruction,
    decoder: Decoder,
    dtype: str,
) -> Step:
    """With a predicate joined to the result, and the result's opposite."""
    p = decoder.target(first, "pred")
    q = decoder.target(second, "pred") if second is not None else decoder.scratch("pred")
    a, b = (decoder.source(operand, dtype) for operand in one.operands[1:3])
    other, negated = guard_of(one.operands[3], decoder) if join else (None, False)

    def run(warp: Warp) -> None:
        value = fn(get(warp, a), get(warp, b))
        valid = warp.valid[a.code][a.index] & warp.valid[b.code][b.index]
        opposite = ~value
        if other is not None:
            c = warp.files[1][other.index] ^ negated
            value, opposite = join(value, c), join(opposite, c)
            valid &= warp.valid[0][other.index]
        put(warp, p, value, valid)
        put(warp, q, opposite, valid)

    return run


def _setp_packed(one: Instruction, decoder: Decoder, dtype: str) -> Step:
    """p of the low halves, q of the high halves."""
    pair = one.operands[0]
    if not isinstance(pair, Pair) or one.modifiers[1] in _JOINS:
        raise ValueError("setp of packed values needs two predicates and joins none here")
    fn = compare(one, dtype)
    p, q = decoder.target(pair.first, "pred"), decoder.target(pair.second, "pred")
    a, b = (decoder.source(operand, dtype) for operand in one.operands[1:3])

    def run(warp: Warp) -> None:
        value = np.asarray(fn(get(warp, a), get(warp, b)))
        valid = warp.valid[a.code][a.index] & warp.valid[b.code][b.index]
        put(warp, p, value[0::2], valid)
        put(warp, q, value[1::2], valid)

    return run


@step("set")
def _set(one: Instruction, decoder: Decoder) -> Step:
    """All ones or 1.0 where it holds."""
    target, dtype = one.modifiers[-2:]
    fn = compare(one, dtype)
    if len(one.operands) != 3 or target in ("f16x2", "bf16x2", "bf16"):
        raise ValueError("this form")
    yes: Any = 1.0 if target[0] == "f" else -1
    sources = [decoder.source(operand, dtype) for operand in one.operands[1:3]]
    kind = f"s{target[1:]}" if target[0] in "su" else target

    def run(a: Array, b: Array) -> Array:
        return np.where(fn(a, b), yes, 0)

    return lift(run, decoder.target(one.operands[0], kind), sources)
