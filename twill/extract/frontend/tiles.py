"""Kernels with tile sizes that are no powers of two, which Triton does not compile.

Takes a way to compile a kernel for a value of one of its constants; gives TTGIR for another value. Compiled
for three powers of two, the kernel differs in numbers alone: sizes of tiles, steps, offsets, bounds of masks.
A number that is a linear function of the constant in all three is the same function of the value that is
wanted. Where the texts differ in more, or a number is another function, a TwillError says so. Names of values
and layouts may differ.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from itertools import combinations

from twill.diagnostics import TwillError

POWERS = (256, 128, 64, 32, 16)
"""Values that a kernel is compiled for, largest first."""
_PARTS = re.compile(r'"[^"\n]*"|[%#][\w$.-]+(?:#\d+)?|\d+|[^\W\d]+|\s+|.')


def instantiated(compiled: Callable[[int], str], name: str, size: int) -> str:
    """The TTGIR for a value of the constant `name`: a multiple of 16 between two of `POWERS`.

    Raises TwillError for another value, and where the kernel's text is no linear function of it.
    """
    if size % 16 or not POWERS[-1] < size < POWERS[0]:
        raise TwillError(
            f"--tile {name}={size}: sizes are multiples of 16 from {POWERS[-1]} to {POWERS[0]}",
            help="the tensor core takes 16 elements along K at a time, and 256 columns at most",
        )
    parts = cache(partial(_parts, compiled))
    for values in combinations(POWERS, 3):
        if values[-1] < size < values[0]:
            made = _interpolated([parts(value) for value in values], values, size)
            if made is not None:
                return made
    raise TwillError(
        f"--tile {name}={size}: the kernel's TTGIR is no linear function of {name}",
        help=f"compiled for {name} = {', '.join(map(str, POWERS))}, it differs in more than sizes",
    )


def _parts(compiled: Callable[[int], str], value: int) -> tuple[str, ...]:
    """The text in parts; none for a value that Triton refuses."""
    try:
        return tuple(_PARTS.findall(compiled(value)))
    except TwillError:
        return ()


def _interpolated(texts: Sequence[Sequence[str]], values: Sequence[int], size: int) -> str | None:
    """The text for `size`; None where the texts differ in more than numbers that are linear in the value."""
    if not texts[0] or len({len(text) for text in texts}) > 1:
        return None
    names = [dict[str, str]() for _ in texts[1:]]
    found = list(_found(texts, values, size, names))
    bijective = all(len(set(one.values())) == len(one) for one in names)
    return "".join(map(str, found)) if bijective and None not in found else None


def _found(
    texts: Sequence[Sequence[str]], values: Sequence[int], size: int, names: Sequence[dict[str, str]]
) -> Iterator[str | None]:
    """The parts for `size`, None for one that does not follow; `names` become those of the other texts, by
    name in the first."""
    for parts in zip(*texts, strict=True):
        first, *others = parts
        if first[0] in "%#" and all(other[0] == first[0] for other in others):
            same = all(
                own.setdefault(first, other) == other for own, other in zip(names, others, strict=True)
            )
            yield first if same else None
        elif len(set(parts)) == 1:
            yield first
        elif all(part.isdecimal() for part in parts):
            yield _linear([int(part) for part in parts], values, size)
        else:
            yield None


def _linear(numbers: Sequence[int], values: Sequence[int], size: int) -> str | None:
    """The number for `size` of a linear function with whole coefficients through the others."""
    (first, *_, last), (start, *_, end) = numbers, values
    slope, rest = divmod(last - first, end - start)
    if rest or any(
        number != first + slope * (value - start) for number, value in zip(numbers, values, strict=True)
    ):
        return None
    made = first + slope * (size - start)
    return str(made) if made >= 0 else None
