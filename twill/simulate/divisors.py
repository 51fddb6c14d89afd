"""Numbers with which no scalar of a kernel is divided by 0.

Takes a function, numbers for its scalar arguments by name, and grids; gives the numbers, where a divisor
would be 0 with other ones. What a division by 0 gives is not defined, and other in a kernel than on the host:
no launch of it exists. A kernel whose heads share keys divides the grid's extent by the number of these, and
the program's number by the quotient.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from twill.extract.scalars import reaching
from twill.ir.loop import Function, Scalar, Value
from twill.ops.row import Role
from twill.ops.table import role
from twill.simulate.trips import scalar

Numbers = Mapping[str, float]
Grid = Mapping[str, int]

_DIVIDING: frozenset[Role] = frozenset({"divide", "divide_up", "remainder"})


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
    return numbers if any(_zeros(function, found, grids)) else found


def integers(function: Function, numbers: Numbers) -> dict[int, np.ndarray]:
    """Arguments that are whole numbers, by the id of their value."""
    named = ((arg.id, numbers.get(arg.name.lstrip("%"), 0.5)) for arg in function.args)
    return {key: np.asarray(int(number)) for key, number in named if number % 1 == 0}


def _zeros(function: Function, numbers: Numbers, grids: Sequence[Grid]) -> Iterator[Value]:
    """Divisors of scalars that follow from the arguments and are 0."""
    values = integers(function, numbers)
    for op in function.walk():
        if role(op) in _DIVIDING and isinstance(op.operands[1].type, Scalar):
            divisor = op.operands[1]
            if any(scalar(function, divisor, values, grid) == 0 for grid in grids):
                yield divisor
