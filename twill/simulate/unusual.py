"""Numbers, and programs of the grid, with which a kernel writes something where the usual ones do not.

A number may say which of several levels a launch computes, or how many tiles another kernel has done; a
kernel may begin with the last blocks, whose numbers are a constant less the program's, or write only far from
the first rows. Takes a function, and a launch that writes nothing; gives others to try.
"""

from collections.abc import Iterator, Mapping
from itertools import product

from twill.extract.rewrite.text.makers import makers_of
from twill.ir.loop import GRID, Function
from twill.ops.table import role
from twill.simulate.compare import arguments, useful
from twill.simulate.divisors import without_zeros
from twill.simulate.index_arrays import steered, work, writes

LEAST = (0.0, 1.0)
"""What a number is tried with; the second where no divisor of it is promised."""
MUCH = 2048.0
"""What all numbers are tried with together."""
LATER = 9
"""Programs along an axis that are tried with them."""

Numbers = Mapping[str, float]
Grid = Mapping[str, int]


def shows(function: Function, numbers: Numbers, grid: Grid) -> bool:
    """Whether a program of the grid writes anything, as far as a partial execution says, with the contents of
    arrays that say what it does."""
    values, memory = arguments(function, numbers)
    if writes(function, values, memory, grid):
        return True
    if not steered(function):
        return False
    found = work(function, values, memory, grid, useful(function, numbers, grid))
    return found is None or found[0] > 0


def launches(
    function: Function, free: frozenset[int], numbers: Numbers, grid: Grid
) -> Iterator[tuple[Numbers, Grid]]:
    """With less of each of the `free` arguments, by id, one by one; programs that the kernel counts from the
    last one; then later programs, with much of all of these arguments."""
    for arg, attributes in zip(function.args, function.arg_attributes, strict=True):
        name = arg.name.lstrip("%")
        for least in LEAST if arg.id in free and name in numbers else ():
            if least == 0 or "tt.divisibility" not in attributes:
                changed = {**numbers, name: least}
                yield without_zeros(function, changed, (grid,), free - {arg.id}), grid
    for axis, place in _from_the_last(function):
        yield numbers, _further(grid, axis, place)
    whole = (arg.name.lstrip("%") for arg in function.args if arg.id in free)
    much = {**numbers, **{name: MUCH for name in whole if name in numbers}}
    for axis, place in product("xyz", range(1, LATER)):
        yield _in_program(function, much, grid, axis, place)


def _in_program(
    function: Function, numbers: Numbers, grid: Grid, axis: str, place: int
) -> tuple[Numbers, Grid]:
    """A launch of a program further along an axis; of a kernel that walks over its grid, of one that begins
    there, in a grid that is no wider than that needs."""
    extents = grid_extents(function)
    if not extents:
        return numbers, _further(grid, axis, place)
    own = extents["xyz".index(axis)]
    return {**numbers, **dict.fromkeys(extents, 1), own: place + 1}, _further(grid, "x", place)


def grid_extents(function: Function) -> tuple[str, ...]:
    """The arguments of a kernel made persistent that are the extents of its grid."""
    pairs = zip(function.args, function.arg_attributes, strict=True)
    return tuple(arg.name.lstrip("%") for arg, attributes in pairs if GRID in attributes)


def _further(grid: Grid, axis: str, place: int) -> Grid:
    """The grid as it is seen by a program further along an axis."""
    more = max(place + 1, grid[f"grid.{axis}"])
    return {**grid, f"pid.{axis}": place, f"grid.{axis}": more}


def _from_the_last(function: Function) -> Iterator[tuple[str, int]]:
    """The axis and the number of programs that are the first ones where constants less their numbers
    count."""
    makers = makers_of(function.walk())
    for op in function.walk():
        if role(op) == "subtract":
            last, own = makers.number(op.operands[0]), makers.of(op.operands[1], "program_id")
            if own is not None and last is not None and last > 0:
                yield str(own.attributes["axis"]), last
