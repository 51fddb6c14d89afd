"""Modules of which several warps compute the same, written for the warps that are needed.

Triton gives each warp a copy of an accumulator that has no rows or columns for it: four warps compute a
product of 16 rows and 16 columns four times, and exchange what they load through shared memory. Takes a
`Module`; gives the same for fewer warps: layouts and the module's attribute name fewer, each of which holds
more elements of the tiles that were divided. What the kernel computes does not depend on it.
"""

from collections.abc import Iterator
from re import finditer

from twill.extract.rewrite.text.edits import Edit, edited
from twill.extract.rewrite.text.layout_lines import alias_line
from twill.extract.rewrite.warps.narrow_modules import (
    ATTRIBUTE,
    accumulator_tiles,
    agreeing,
    replaced,
)
from twill.ir.distribution import distribution
from twill.ir.loop import Blocked, Linear, Module, NvidiaMma, Op
from twill.ops.mma import is_plain
from twill.ops.table import role


def needed_warps(module: Module) -> int:
    """How many of its warps hold accumulators of their own: all of them where MMAs are those of warpgroups,
    or where there are none."""
    every = [op for function in module.functions for op in function.walk()]
    if module.num_warps & (module.num_warps - 1) or not any(map(_of_warps, every)):
        return module.num_warps
    layouts = [one for one in module.encodings.values() if isinstance(one, NvidiaMma)]
    tiles = [(one, tile.shape) for one in layouts for tile in accumulator_tiles(module, one)]
    spreads = [distribution(one, shape) for one, shape in tiles]
    own = (module.num_warps if one is None else 1 << sum(map(any, one.warp)) for one in spreads)
    return max(own, default=module.num_warps)


def _of_warps(op: Op) -> bool:
    return role(op) == "dot" and not is_plain(op)


def lessened(module: Module, warps: int) -> Module:
    """The module itself where it has no more warps, or a layout can not be of fewer."""
    if module.num_warps <= warps or module.num_warps % warps:
        return module
    halvings = (module.num_warps // warps).bit_length() - 1
    return agreeing(edited(module, _edits(module, halvings)))


def _edits(module: Module, halvings: int) -> Iterator[Edit]:
    for found in finditer(ATTRIBUTE, module.text):
        yield Edit(found.start(1), found.end(1), str(module.num_warps >> halvings))
    for name, encoding in module.encodings.items():
        begin, end = alias_line(module, name)
        line = module.text[begin:end]
        match encoding:
            case Blocked(warps_per_cta=warps, order=order):
                yield Edit(begin, end, replaced(line, "warpsPerCTA", warps, _halved(warps, order, halvings)))
            case NvidiaMma(warps_per_cta=warps):
                copies = _copying(module, encoding, halvings)
                yield Edit(begin, end, replaced(line, "warpsPerCTA", warps, copies))
            case Linear(register=register, warp=warp):
                kept, moved = _without(warp, halvings)
                line = replaced(line, "warp", warp, kept)
                yield Edit(begin, end, replaced(line, "register", register, (*register, *moved)))
            case _:
                pass


def _halved(warps: tuple[int, ...], order: tuple[int, ...], halvings: int) -> tuple[int, ...]:
    """Along the slowest dimension first, so that neighbours stay neighbours."""
    found = list(warps)
    for _ in range(halvings):
        found[next(d for d in reversed(order) if found[d] > 1)] //= 2
    return tuple(found)


def _copying(module: Module, encoding: NvidiaMma, halvings: int) -> tuple[int, ...]:
    """Without the warps that hold copies of all accumulators, along the rows first."""
    found = list(encoding.warps_per_cta)
    tiles = [tile.shape for tile in accumulator_tiles(module, encoding)]
    for _ in range(halvings):
        copied = (d for d in range(len(found)) if _copies(found, encoding, tiles, d))
        found[next(copied, 0 if found[0] > 1 else 1)] //= 2
    return tuple(found)


def _copies(warps: list[int], encoding: NvidiaMma, tiles: list[tuple[int, ...]], dimension: int) -> bool:
    whole = warps[dimension] * encoding.instr_shape[dimension]
    return warps[dimension] > 1 and all(whole > shape[dimension] for shape in tiles)


def _without(
    warp: tuple[tuple[int, ...], ...], halvings: int
) -> tuple[tuple[tuple[int, ...], ...], tuple[tuple[int, ...], ...]]:
    """The vectors of the warps that stay, and of those that a thread's registers have then: copies go
    first."""
    ordered = sorted(range(len(warp)), key=lambda k: (any(warp[k]), -k))
    gone = ordered[:halvings]
    kept = tuple(vector for k, vector in enumerate(warp) if k not in gone)
    return kept, tuple(warp[k] for k in sorted(gone) if any(warp[k]))
