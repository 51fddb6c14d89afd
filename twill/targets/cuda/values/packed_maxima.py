"""Maxima and minima of rows of 16-bit floats, two elements to an instruction.

Takes a reduction of a tile whose elements lie in pairs; gives C. A thread combines words; the maxima of both
halves are a number of float32, as which lanes and warps exchange it: every maximum is one of the elements, so
that nothing is rounded.
"""

from dataclasses import replace

from twill.ir.loop import Op, Scalar, Tensor, Type, Value
from twill.ir.statements import SLICES
from twill.ops.arith import EXTREMES
from twill.ops.values import element
from twill.targets.cuda.registers.fragments import Fragment
from twill.targets.cuda.registers.register_tiles import Elements, packed, point
from twill.targets.cuda.shared.shared_tiles import UNROLL
from twill.targets.cuda.values.element_pairs import BRAIN, HALF, pair

LOWEST = {HALF: 0xFC00, BRAIN: 0xFF80}
"""The bits of minus infinity."""
SIGN = 0x8000


def as_wide(op: Op) -> Op | None:
    """The reduction of the elements as float32; None for one of others than 16-bit floats, or by another
    operation."""
    combine, result = op.regions[0].blocks[0].ops[0], op.result.type
    if combine.name not in EXTREMES or element(combine.result.type) not in LOWEST or packed(result):
        return None
    (block,) = op.regions[0].blocks
    wide = replace(combine, operands=_wide(combine.operands), results=_wide(combine.results))
    region = replace(op.regions[0], blocks=(replace(block, ops=(wide, *block.ops[1:])),))
    return replace(op, results=_wide(op.results), regions=(region,))


def _wide(values: tuple[Value, ...]) -> tuple[Value, ...]:
    return tuple(replace(value, type=_of_floats(value.type)) for value in values)


def _of_floats(type: Type) -> Type:
    return replace(type, dtype=Scalar("f32")) if isinstance(type, Tensor) else Scalar("f32")


def in_words(op: Op, source: Fragment, span: tuple[int, int]) -> bool:
    """Whether the elements of rows from slice `span[0]` to `span[1]` are combined in words."""
    kept = op.operands[0].type
    return (
        element(kept) in LOWEST
        and bool(packed(kept))
        and op.regions[0].blocks[0].ops[0].name in EXTREMES
        and op.attributes["axis"] == 1
        and not source.threads
        and all(source.registers // 2 * end % SLICES == 0 for end in span)
    )


def extremes(op: Op, name: str, source: Fragment, elements: Elements, words: str) -> list[str]:
    """Maxima or minima of rows into the variable `name`, float32. `words` loops over i_, the pairs of
    registers that take part."""
    combine, dtype = op.regions[0].blocks[0].ops[0], element(op.operands[0].type)
    low, high = (point(source, text) for text in ("(2 * i_)", "(2 * i_ + 1)"))
    row, count, word = low.along((0,)).register, 2 * source.bands, EXTREMES[combine.name]
    start = LOWEST[dtype] ^ (SIGN if word == "min" else 0)
    both, loop = pair(dtype, elements, low, high), f"for (int i_ = 0; i_ < {count}; ++i_)"
    halves = ", ".join(f"unpack_{dtype}(words_[i_], {half})" for half in (0, 1))
    return [
        "{",
        f"    uint32_t words_[{count}];",
        f"    {UNROLL}",
        f"    {loop} words_[i_] = {start | start << 16:#010x};",
        f"    {UNROLL}",
        f"    {words} words_[{row}] = {word}_{dtype}x2(words_[{row}], {both});",
        f"    {UNROLL}",
        f"    {loop} {name}[i_] = f{word}f({halves});",
        "}",
    ]
