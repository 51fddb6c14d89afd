"""Kernels with tile sizes that are no powers of two, which Triton does not compile.

Takes a way to compile a kernel for a value of one of its constants; gives TTGIR for another value. Compiled
for three powers of two, the kernel differs in numbers alone: sizes of tiles, steps, offsets, bounds of masks.
A number that is a linear function of the constant in all three is the same function of the value that is
wanted. Where the texts differ in more, or a number is another function, a TwillError says so. Names may
differ, and so may which sizes share a constant and which tiles a layout: both are compared where they are
used. A layout that is no linear function is that of a value which divides the wanted one: it repeats.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import combinations

from twill.diagnostics import TwillError

POWERS = (256, 128, 64, 32, 16)
"""Values that a kernel is compiled for, largest first."""
_PARTS = re.compile(r'"[^"\n]*"|[%#][\w$.-]+(?:#\d+)?|\d+|[^\W\d]+|\s+|.')
_CONSTANT = re.compile(r"^\s*(%[\w$.-]+) = arith\.constant (-?\d+) : (\w+)(.*)$")
_LAYOUT = re.compile(r"^(#(?!loc)[\w$-]+) = (#.*)$")
_FUNCTION = re.compile(r"^\s*tt\.func\b")
_VALUE, _TILED = "%=", "#="
"""How the use of an integer constant begins, its value, type and location behind; and that of a layout, its
definition behind. No name of MLIR begins so."""
_USED = re.compile(rf"^{_VALUE}(-?\d+):(\w+)(.*)$")

Line = tuple[str, ...]


def instantiated(compiled: Callable[[int], str], name: str, size: int) -> str:
    """The TTGIR for a value of the constant `name`: a multiple of 16 between two of `POWERS`.

    Raises TwillError for another value, and where the kernel's text is no linear function of it.
    """
    if size % 16 or not POWERS[-1] < size < POWERS[0]:
        raise TwillError(
            f"--tile {name}={size}: sizes are multiples of 16 from {POWERS[-1]} to {POWERS[0]}",
            help="the tensor core takes 16 elements along K at a time, and 256 columns at most",
        )
    lines = cache(partial(_lines, compiled))
    for values in combinations(POWERS, 3):
        if values[-1] < size < values[0]:
            made = _interpolated([lines(value) for value in values], values, size)
            if made is not None:
                return made
    raise TwillError(
        f"--tile {name}={size}: the kernel's TTGIR is no linear function of {name}",
        help=f"compiled for {name} = {', '.join(map(str, POWERS))}, it differs in more than sizes",
    )


# --- texts without integer constants and layouts ----------------------------------------------------------


def _lines(compiled: Callable[[int], str], value: int) -> tuple[Line, ...]:
    """The lines of the text in parts, integer constants and layouts where they are used; none for a value
    that Triton refuses."""
    try:
        text = compiled(value)
    except TwillError:
        return ()
    layouts, constants, found = dict[str, str](), dict[str, str](), list[Line]()
    for line in text.split("\n"):
        if _FUNCTION.match(line):
            constants.clear()
        if one := _CONSTANT.match(line):
            constants[one[1]] = f"{_VALUE}{one[2]}:{one[3]}{one[4]}"
        elif one := _LAYOUT.match(line):
            layouts[one[1]] = _TILED + "".join(part.removeprefix(_TILED) for part in _parts(one[2], layouts))
        else:
            found.append(_parts(line, layouts | constants))
    return tuple(found)


def _parts(line: str, known: Mapping[str, str]) -> Line:
    """The parts of a line, known names replaced."""
    parts: list[str] = _PARTS.findall(line)
    return tuple(known.get(part, part) for part in parts)


def _text(lines: Sequence[Line]) -> str:
    """The text: layouts at its beginning, integer constants at that of each function."""
    found, begins = list[str](), 0
    layouts, constants = dict[str, str](), dict[str, str]()
    for line in lines:
        if _FUNCTION.match("".join(line)):
            found[begins:begins] = constants.values()
            begins, constants = len(found) + 1, {}
        found.append("".join(_named(part, layouts, constants) for part in line))
    found[begins:begins] = constants.values()
    return "\n".join([*(f"{name} = {layout}" for layout, name in layouts.items()), *found])


def _named(part: str, layouts: dict[str, str], constants: dict[str, str]) -> str:
    """A part as MLIR writes it. A layout's name is added to `layouts`, a constant's definition to
    `constants`."""
    if part.startswith(_TILED):
        layout = part.removeprefix(_TILED)
        kind = re.sub(r"<.*", "", layout).rpartition(".")[2]
        return layouts.setdefault(layout, f"#{kind}{len(layouts)}")
    if part.startswith(_VALUE):
        number, kind, rest = _constant(part)
        name = f"%{'cm' if number < 0 else 'c'}{abs(number)}_{kind}"
        constants.setdefault(name, f"    {name} = arith.constant {number} : {kind}{rest}")
        return name
    return part


def _constant(part: str) -> tuple[int, str, str]:
    """Value, type, and what follows them, of a use."""
    number, kind, rest = _USED.findall(part)[0]
    return int(number), kind, rest


# --- the text for another value ---------------------------------------------------------------------------


def _interpolated(texts: Sequence[Sequence[Line]], values: Sequence[int], size: int) -> str | None:
    """The text for `size`; None where the texts differ in more than numbers that are linear in the value."""
    if not texts[0] or len({len(text) for text in texts}) > 1:
        return None
    names = [dict[str, str]() for _ in texts[1:]]
    found = list[Line]()
    for lines in zip(*texts, strict=True):
        made = list(_found(lines, values, size, names)) if len({len(line) for line in lines}) == 1 else [None]
        if None in made:
            return None
        found.append(tuple(map(str, made)))
    bijective = all(len(set(one.values())) == len(one) for one in names)
    return _text(found) if bijective else None


def _found(
    texts: Sequence[Line], values: Sequence[int], size: int, names: Sequence[dict[str, str]]
) -> Iterator[str | None]:
    """The parts for `size`, None for one that does not follow; `names` become those of the other texts, by
    name in the first."""
    for parts in zip(*texts, strict=True):
        first, *others = parts
        begins = {part[:2] for part in parts}
        if begins == {_VALUE}:
            yield _linear_constant([_constant(part) for part in parts], values, size)
        elif begins == {_TILED}:
            yield _layout(parts, values, size)
        elif begins & {_VALUE, _TILED}:
            yield None
        elif first[0] in "%#" and all(other[0] == first[0] for other in others):
            same = all(
                own.setdefault(first, other) == other for own, other in zip(names, others, strict=True)
            )
            yield first if same else None
        else:
            yield _plain(parts, values, size)


def _plain(parts: Sequence[str], values: Sequence[int], size: int) -> str | None:
    """Of a part that is no name."""
    if len(set(parts)) == 1:
        return parts[0]
    if not all(part.isdecimal() for part in parts):
        return None
    made = _linear([int(part) for part in parts], values, size)
    return None if made is None or made < 0 else str(made)


def _linear_constant(
    constants: Sequence[tuple[int, str, str]], values: Sequence[int], size: int
) -> str | None:
    (_, kind, rest), *_ = constants
    made = _linear([number for number, *_ in constants], values, size)
    alike = len({kind for _, kind, _ in constants}) == 1
    return f"{_VALUE}{made}:{kind}{rest}" if alike and made is not None else None


def _layout(layouts: Sequence[str], values: Sequence[int], size: int) -> str | None:
    """A linear function, or the layout of the largest value that divides `size`."""
    lines = [_PARTS.findall(layout) for layout in layouts]
    if len({len(line) for line in lines}) == 1:
        found = [_plain(parts, values, size) for parts in zip(*lines, strict=True)]
        if None not in found:
            return "".join(map(str, found))
    return next((one for one, value in zip(layouts, values, strict=True) if size % value == 0), None)


def _linear(numbers: Sequence[int], values: Sequence[int], size: int) -> int | None:
    """The number for `size` of a linear function with whole coefficients through the others."""
    (first, *_, last), (start, *_, end) = numbers, values
    slope, rest = divmod(last - first, end - start)
    if rest or any(
        number != first + slope * (value - start) for number, value in zip(numbers, values, strict=True)
    ):
        return None
    return first + slope * (size - start)
