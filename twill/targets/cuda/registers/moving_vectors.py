"""Vectors in registers of a group that only moves data: each thread has every so many-th element.

Takes the type of a vector, and how the group shares it (`fragments.linear`); gives lines of C, and the
elements that a thread holds. Such groups keep numbers and vectors, from which they find what they load (the
ends of the rows of each expert), and no tiles.
"""

from twill.diagnostics import TwillError
from twill.ir.loop import Scalar, Tensor
from twill.ir.program import Program, Variable, WarpProgram
from twill.ops.c import c_type
from twill.targets.cuda.registers.elements import guard, once
from twill.targets.cuda.registers.fragments import Fragment, linear
from twill.targets.cuda.registers.register_tiles import PACK, Elements, Held, cast, point
from twill.targets.cuda.shared.shared_tiles import UNROLL


def declared(program: Program, group: WarpProgram, one: Variable) -> list[str]:
    """The declaration of a vector that the group keeps. Raises TwillError for a tile, or for older instances
    of a vector."""
    assert isinstance(one.type, Tensor)
    if one.ages > 1 or sum(size > 1 for size in one.type.shape) > 1:
        raise _kept(program, one.id)
    return [declaration(one.type, one.id, linear(one.type, 32 * group.warps))]


def declaration(type: Tensor, name: str, form: Fragment) -> str:
    """Of a variable; of zeros where threads have no element: nvcc compares them all the same."""
    return f"{c_type(type)} {name}[{form.registers}]{'' if once(form) == 'true' else ' = {}'};"


def assigned(type: Tensor, name: str, form: Fragment, elements: Elements) -> list[str]:
    """Each thread computes its elements, if it has some."""
    value = cast(type, elements(point(form, "i_")))
    return [
        UNROLL,
        f"for (int i_ = 0; i_ < {form.registers}; ++i_) {guard(once(form))}{name}[i_] = {value};",
    ]


def held(name: str, type: Tensor, form: Fragment) -> Held:
    """The elements of a vector kept in a variable."""
    return Held(name, form, None, isinstance(type.dtype, Scalar) and type.dtype.name in PACK)


def _kept(program: Program, name: str) -> TwillError:
    """About a tile that a group keeps which only moves data."""
    op = next(
        (op for op in program.function.walk() if any(program.name(value.id) == name for value in op.results)),
        None,
    )
    lines = program.module.text.splitlines()
    where, text = (op.location, lines[op.location.line - 1]) if op else (program.function.location, None)
    return TwillError(
        f"the tile {name} would be kept by the warp that loads",
        where,
        text=text,
        help="compute it anew in every iteration",
    )
