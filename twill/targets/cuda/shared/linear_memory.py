"""Where the elements of a tile lie in shared memory that is addressed through a linear layout without a
swizzle (`ir.shared_places`), as C."""

from collections.abc import Iterator
from itertools import pairwise

from twill.ir.loop import Bases
from twill.targets.cuda.expressions import atom


def place(found: Bases, row: str, column: str) -> str:
    """C expression of an element's place."""
    terms = [term for axis, text in enumerate((row, column)) for term in _terms(found, axis, atom(text))]
    return f"({' + '.join(terms)})" if terms else "0"


def _terms(found: Bases, axis: int, text: str) -> Iterator[str]:
    """One for each run of bits of a coordinate that are neighbours in the place too."""
    bits = [(k, one[axis].bit_length() - 1) for k, one in enumerate(found) if one[axis]]
    if text == "0" or not bits:
        return
    starts = [0, *(i + 1 for i, (a, b) in enumerate(pairwise(bits)) if (b[0] - a[0], b[1] - a[1]) != (1, 1))]
    for begin, end in pairwise([*starts, len(bits)]):
        to, start = bits[begin]
        shifted = f"({text} >> {start})" if start else text
        yield f"({shifted} & {(1 << end - begin) - 1}) * {1 << to}"
