"""Layouts of a kernel whose tiles have fewer rows.

A layout covers tiles of any number of rows, so it stays as it is while its warps have rows of their own.
Where the rows of a sub-tile's accumulator are too few for all warps of the module, the module gets half as
many, and each layout gives up a factor of two of its warps; what is not divided lies in more registers of
each thread.
"""

from collections.abc import Iterator
from math import prod
from re import finditer

from twill.diagnostics import TwillError
from twill.extract.rewrite.subtile.dimensions import shape
from twill.extract.rewrite.subtile.division import WHOLE, Division, Facts
from twill.extract.rewrite.text.edits import Edit
from twill.extract.rewrite.text.layout_lines import alias_line, replaced
from twill.ir.distribution import distribution
from twill.ir.loop import Bases, Blocked, Encoding, Linear, NvidiaMma, Tensor, Value
from twill.ir.schedule import WARPGROUP
from twill.ops.table import is_mma, role

_TENSOR_MEMORY_ACCESS = ("tensor_memory_load", "tensor_memory_store")


def layout_edits(known: Facts, made: Division) -> Iterator[Edit]:
    """Of the module's number of warps and of all layouts; none where the warps have rows enough. Raises
    TwillError where less than a warpgroup would be left."""
    factor = _factor(known, made)
    if factor == 1:
        return
    for found in finditer(r'"?ttg\.num-warps"? = (\d+)', known.module.text):
        yield Edit(found.start(1), found.end(1), str(known.module.num_warps // factor))
    for name, encoding in known.module.encodings.items():
        begin, end = alias_line(known.module, name)
        line = known.module.text[begin:end]
        match encoding:
            case Blocked(warps_per_cta=warps) | NvidiaMma(warps_per_cta=warps):
                smaller = _fewer(warps, _dimension(known, made, encoding), factor)
                yield Edit(begin, end, replaced(line, "warpsPerCTA", warps, smaller))
            case Linear(register=register, warp=warp):
                more, left = _moved(register, warp, factor)
                line = replaced(line, "register", register, more)
                yield Edit(begin, end, replaced(line, "warp", warp, left))
            case _:
                pass


def _factor(known: Facts, made: Division) -> int:
    """By how much the warps are too many for the accumulators of sub-tiles."""
    warps = known.module.num_warps
    least = min((_used(value, made, warps) for value in _accumulators(known, made)), default=warps)
    if least < WARPGROUP <= warps:
        raise TwillError(
            f"sub-tiles: {least} warps have rows of their own, and a warpgroup has {WARPGROUP}",
            known.function.location,
            help="use --subtile 1",
        )
    return max(1, warps // least)


def _accumulators(known: Facts, made: Division) -> Iterator[Value]:
    access = (op for op in known.ops if is_mma(op) or role(op) in _TENSOR_MEMORY_ACCESS)
    for value in (value for op in access for value in (*op.operands[2:], *op.results)):
        if isinstance(value.type, Tensor) and made.dims.get(value.id, WHOLE) != WHOLE:
            yield value


def _used(value: Value, made: Division, warps: int) -> int:
    """How many warps hold different rows or columns of a sub-tile."""
    sizes, dim = list(shape(value)), made.dims[value.id]
    sizes[dim] = made.parts(sizes[dim])
    assert isinstance(value.type, Tensor)
    layout = distribution(value.type.encoding, tuple(sizes))
    return warps if layout is None else prod(2 for vector in layout.warp if any(vector))


def _dimension(known: Facts, made: Division, encoding: Encoding) -> int | None:
    """Along which tiles of a layout are divided."""
    for value in (value for op in known.ops for value in op.results):
        dim = made.dims.get(value.id, WHOLE)
        if dim != WHOLE and isinstance(value.type, Tensor) and value.type.encoding == encoding:
            return dim
    return None


def _fewer(warps: tuple[int, ...], dim: int | None, factor: int) -> tuple[int, ...]:
    """Fewer warps along the divided dimension first, then along the others."""
    left = list(warps)
    order = sorted(range(len(warps)), key=lambda d: (d != dim, -warps[d]))
    for d in order:
        taken = min(factor, left[d])
        left[d], factor = left[d] // taken, factor // taken
    return tuple(left)


def _moved(register: Bases, warp: Bases, factor: int) -> tuple[Bases, Bases]:
    """The last bits of the warps' numbers become registers."""
    kept = len(warp) - (factor.bit_length() - 1)
    return (*register, *warp[kept:]), warp[:kept]
