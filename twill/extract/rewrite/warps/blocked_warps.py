"""Along which dimension more warps of a blocked layout lie: as the views that relate it to others say.

Views (`tt.reshape`, `tt.trans`, `tt.broadcast`) keep elements in their threads. A warp that takes further
rows of one tile takes what is the same part of each view of it, which may be columns of another tile. Takes
a module of fewer warps; gives for each blocked layout the slowest dimension with which all views agree.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import prod

from twill.extract.rewrite.warps.linear_warps import (
    Beside,
    Vector,
    followed,
    related_by,
    tiles_of,
    views_beside,
)
from twill.ir.distribution import distribution, root
from twill.ir.loop import Blocked, DotOperand, Encoding, Linear, Module, Slice

Tiles = Mapping[Encoding, set[Vector]]


def dimensions(module: Module, factor: int) -> Mapping[Blocked, int]:
    """The dimension along which each blocked layout gets `factor` times as many warps."""
    tiles, beside = tiles_of(module), _between(views_beside(module))
    found = dict[Blocked, int]()
    for layout in module.encodings.values():
        if isinstance(layout, Blocked) and layout not in found:
            found |= _agreeing(layout, factor, tiles, beside) or {layout: layout.order[-1]}
    return found


def with_warps(layout: Blocked, dim: int, factor: int) -> Blocked:
    """With `factor` times as many warps along a dimension."""
    warps = tuple(n * factor if d == dim else n for d, n in enumerate(layout.warps_per_cta))
    return replace(layout, warps_per_cta=warps)


def _agreeing(layout: Blocked, factor: int, tiles: Tiles, beside: Beside) -> Mapping[Blocked, int] | None:
    """For this layout and all that views relate to it; None where no dimension agrees with all views."""
    related = [one for one in tiles if root(one) == layout and one in beside]
    if not related:
        return None
    every = sorted(related_by(related[0], beside), key=str)
    for dim in reversed(layout.order):
        vectors = _added(related[0], layout, dim, factor, tiles)
        made = [followed(related[0], vector, beside) for vector in vectors or ()]
        dims = _dimensions(every, [one for one in made if one], factor, tiles) if made and all(made) else None
        if dims is not None and dims.get(layout) == dim:
            return dims
    return None


def _dimensions(
    every: Sequence[Encoding], made: Sequence[Mapping[Encoding, Vector]], factor: int, tiles: Tiles
) -> Mapping[Blocked, int] | None:
    """Of the blocked layouts among these, where each has one whose further warps are as `made` says."""
    fitting = defaultdict[Blocked, list[set[int]]](list)
    for one in every:
        wanted, base = [bit[one] for bit in made], root(one)
        if isinstance(base, Blocked):
            dims = (d for d in base.order if _added(one, base, d, factor, tiles) == wanted)
            fitting[base].append(set(dims))
        elif not (isinstance(one, Linear) and _has(one, wanted)):
            return None
    common = {base: set[int].intersection(*dims) for base, dims in fitting.items()}
    if not all(common.values()):
        return None
    return {base: next(d for d in reversed(base.order) if d in dims) for base, dims in common.items()}


def _has(layout: Linear, wanted: Iterable[Vector]) -> bool:
    """Whether a thread's registers hold what the further warps take."""
    return all(not any(vector) or layout.register.count(vector) == 1 for vector in wanted)


def _added(encoding: Encoding, base: Blocked, dim: int, factor: int, tiles: Tiles) -> list[Vector] | None:
    """Where the further bits of the warp's number move an element of the largest tile; None where one of a
    smaller tile moves elsewhere, or where other bits would move it elsewhere than before."""
    wider, found = _with_root(encoding, with_warps(base, dim, factor)), list[Vector]()
    for shape in sorted(tiles[encoding], key=prod, reverse=True):
        old, new = distribution(encoding, shape), distribution(wider, shape)
        if old is None or new is None or new.warp[: len(old.warp)] != old.warp:
            return None
        vectors = list(new.warp[len(old.warp) :])
        found = found or vectors
        if any(any(vector) and vector != first for vector, first in zip(vectors, found, strict=True)):
            return None
    return found


def _between(beside: Beside) -> Beside:
    """Without views as the same layout, such as broadcasts."""
    return {
        layout: kept
        for layout, views in beside.items()
        if (kept := [one for one in views if one[0].source.encoding != one[0].result.encoding])
    }


def _with_root(encoding: Encoding, base: Blocked) -> Encoding:
    match encoding:
        case Slice(parent=parent) | DotOperand(parent=parent):
            return replace(encoding, parent=_with_root(parent, base))
        case _:
            return base
