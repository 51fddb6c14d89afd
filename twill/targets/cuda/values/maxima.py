"""Maxima of rows of float32, each thread by itself, three numbers to an instruction.

Takes the elements of a tile that lies as wgmma has it; gives C. As signed integers, the bits of numbers from
0 to infinity have the order of the numbers, and they are larger than the bits of negative numbers. sm_90 has
an instruction for the largest of three integers, none for three numbers. Where the largest bits belong to a
negative number, or to a NaN, the warp takes the maxima number by number instead: the result is the same. The
vote and the branch take a warp about 180 cycles, in which it issues nothing (on an H200, 128 heads of 8192:
10.58 million SM cycles in one group of eight warps, 10.13 number by number, 9.88 without the vote). So
another group has to compute in the meantime.
"""

from twill.ir.loop import Op
from twill.ir.statements import SLICES
from twill.ops.values import element
from twill.targets.cuda.registers.fragments import Fragment
from twill.targets.cuda.registers.register_tiles import Elements, point
from twill.targets.cuda.shared.shared_tiles import UNROLL

LEAST = 16
"""Elements of a row in a thread from which on it pays: half of them are instructions that are saved, five are
for the comparison."""


def by_bits(op: Op, combine: Op, source: Fragment, span: tuple[int, int]) -> bool:
    """Whether maxima of rows are taken so, of the slices from `span[0]` to `span[1]`."""
    rows, words = 2 * source.bands, source.registers // 2
    return (
        combine.name == "arith.maxnumf"
        and element(combine.result.type) == "f32"
        and op.attributes["axis"] == 1
        and not source.threads
        and source.registers * (span[1] - span[0]) // SLICES >= LEAST * rows
        and all(words * end % SLICES == 0 for end in span)
    )


def maxima(
    name: str, source: Fragment, elements: Elements, words: str, otherwise: list[str], *, first: bool
) -> list[str]:
    """Maxima of rows into the variable `name`: by what comes `first`, or beside what it holds. `words` loops
    over i_, the pairs of registers that take part; `otherwise` does the same number by number."""
    low, high = (point(source, text) for text in ("(2 * i_)", "(2 * i_ + 1)"))
    row, count = low.along((0,)).register, 2 * source.bands
    loop, number = f"for (int i_ = 0; i_ < {count}; ++i_)", "__int_as_float(bits_[i_])"
    return [
        "{",
        f"    int32_t bits_[{count}];",
        f"    {UNROLL}",
        f"    {loop} bits_[i_] = INT32_MIN;",
        f"    {UNROLL}",
        f"    {words} bits_[{row}] = largest_bits(bits_[{row}], {elements(low)}, {elements(high)});",
        "    if (bits_mislead(bits_)) {",
        *(f"        {line}" for line in otherwise),
        "    } else {",
        f"        {UNROLL}",
        f"        {loop} {name}[i_] = {number if first else f'fmaxf({name}[i_], {number})'};",
        "    }",
        "}",
    ]
