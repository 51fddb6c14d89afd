"""Where the tiles of pointer loads by TMA begin, as C: coordinates of tensor maps.

Takes polynomials of scalars with the scope of a statement. What is the same in every iteration of a loop is
computed before it: a remainder (rows that wrap around) takes longer than a load.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from twill.ir.loop import Value
from twill.ops.table import role
from twill.targets.cuda.expressions import bare, plus
from twill.targets.cuda.loads.tiled_loads import TiledLoad
from twill.targets.cuda.operations import execute
from twill.targets.cuda.scope import Scope
from twill.targets.cuda.values.polynomials import Polynomial, text


@dataclass(frozen=True, slots=True)
class FixedCorner:
    """The parts of coordinates and bounds that are the same in every iteration of a loop, by variable."""

    moving: frozenset[int]
    """Values that are not."""
    names: Mapping[Polynomial, str]

    def text(self, scope: Scope, whole: Polynomial) -> str:
        """A coordinate or bound."""
        fixed, rest = whole.parted(self.holds)
        if fixed not in self.names:
            return _computed(scope, whole)
        return plus(self.names[fixed], _computed(scope, rest))

    def holds(self, one: Polynomial) -> bool:
        """Whether it is the same in every iteration."""
        return not one.values & self.moving

    def lines(self, scope: Scope) -> list[str]:
        """Declarations of the variables, and what computes them."""
        texts = [(name, _computed(scope, one)) for one, name in self.names.items()]
        if not texts:
            return []
        computed = [*scope.lines, *(f"{name} = {bare(one)};" for name, one in texts)]
        inner = ["{", *(f"    {line}" for line in computed), "}"]
        return [*(f"int32_t {name};" for name, _ in texts), *inner, *(f"keep({name});" for name, _ in texts)]


NOTHING_FIXED = FixedCorner(frozenset(), {})
"""Outside of loops."""


def fixed_corner(scope: Scope, load: TiledLoad, moving: frozenset[int]) -> FixedCorner:
    """One variable for each coordinate and bound that has fixed parts other than numbers."""
    found = FixedCorner(moving, {})
    wholes = [*(one.coordinate for one in load.dimensions), *(one for one, _ in load.inside)]
    fixed = dict.fromkeys(whole.parted(found.holds)[0] for whole in wholes)
    name = f"kept_{scope.program.name(scope.program.op(load.op).result.id)}_corner"
    named = (one for one in fixed if one.atoms)
    return replace(found, names={one: f"{name}{i}" for i, one in enumerate(named)})


def _computed(scope: Scope, polynomial: Polynomial) -> str:
    """Scalars that are not at hand are computed."""

    def named(value: int) -> str:
        found = scope.program.value(value)
        _compute(scope, found)
        return scope.scalar(found)

    return text(polynomial, named, "int32_t")


def _compute(scope: Scope, value: Value) -> None:
    """A scalar, with all that it follows from."""
    maker = None if value.producer is None else scope.program.op(value.producer)
    if value.id in scope.values or maker is None or role(maker) == "constant":
        return
    for operand in maker.operands:
        _compute(scope, operand)
    execute(scope, maker)
