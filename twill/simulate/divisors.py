"""Numbers, and grids, with which no scalar of a kernel is divided by 0, and no loop steps by 0.

Takes a function, numbers for its scalar arguments by name, and grids; gives the numbers or the grid, where a
divisor or a step would be 0 with other ones. What a division by 0 gives is not defined, and other in a kernel
than on the host, and a loop with a step of 0 does not end: no launch of either exists. A kernel whose heads
share keys divides the grid's extent by the number of these, and the program's number by the quotient.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from twill.extract.scalars import axes, reaching
from twill.ir.loop import Function, Op, Scalar, Value
from twill.ops.row import Role
from twill.ops.table import role
from twill.simulate.trips import scalar

Numbers = Mapping[str, float]
Grid = Mapping[str, int]

_DIVIDING: frozenset[Role] = frozenset({"divide", "divide_up", "remainder"})
_MOST_POWER = 10
"""Of two, for programs along an axis of a grid that are tried."""


def without_zeros(
    function: Function, numbers: Numbers, grids: Sequence[Grid], free: frozenset[int]
) -> Numbers:
    """The arguments with ids `free` that a divisor of 0 follows from are as small as is promised. Numbers
    where that does not help stay: a divisor may be in a loop that does not run."""
    zeros = tuple(_zeros(function, numbers, grids))
    changed = reaching(function, zeros) & free
    if not changed:
        return numbers
    pairs = zip(function.args, function.arg_attributes, strict=True)
    promised = ((arg, attributes.get("tt.divisibility")) for arg, attributes in pairs if arg.id in changed)
    least = {arg.name.lstrip("%"): float(of) if isinstance(of, int) else 1.0 for arg, of in promised}
    found = {**numbers, **least}
    left = reaching(function, _zeros(function, found, grids))
    return numbers if left & changed else found


def with_programs(function: Function, numbers: Numbers, grid: Grid) -> Grid:
    """The grid, with more programs along the axes that a divisor of 0 follows from: the first power of two
    of them with which none is 0. As it is along those where none helps."""
    for axis in sorted(axes(function, _zeros(function, numbers, [grid]))):
        along = f"grid.{axis}"
        for programs in (2**power for power in range(1, _MOST_POWER + 1)):
            larger = {**grid, along: max(grid[along], programs)}
            if axis not in axes(function, _zeros(function, numbers, [larger])):
                grid = larger
                break
    return grid


def integers(function: Function, numbers: Numbers) -> dict[int, np.ndarray]:
    """Arguments that are whole numbers, by the id of their value."""
    named = ((arg.id, numbers.get(arg.name.lstrip("%"), 0.5)) for arg in function.args)
    return {key: np.asarray(int(number)) for key, number in named if number % 1 == 0}


def _zeros(function: Function, numbers: Numbers, grids: Sequence[Grid]) -> Iterator[Value]:
    """Divisors of scalars, and steps of loops, that follow from the arguments and are 0."""
    values = integers(function, numbers)
    for divisor in filter(None, map(_divisor, function.walk())):
        if any(scalar(function, divisor, values, grid) == 0 for grid in grids):
            yield divisor


def _divisor(op: Op) -> Value | None:
    """What an operation divides a scalar by, or a loop steps by."""
    if role(op) == "for":
        return op.operands[2]
    return op.operands[1] if role(op) in _DIVIDING and isinstance(op.operands[1].type, Scalar) else None
