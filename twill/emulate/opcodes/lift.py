"""Functions on arrays, made steps of a warp: they compute all lanes, keep what inactive lanes had, and pass
on what is undefined."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from twill.emulate.decode import Ref, Step
from twill.emulate.machine.warp import CODES, Warp
from twill.emulate.memory.clocks import Array

Pure: TypeAlias = Callable[..., Any]

_WIDTHS = {code: bits for bits, code in CODES.items()}


def put(warp: Warp, ref: Ref, value: Any, valid: int) -> None:
    """Writes a result for the active lanes; `valid` are the lanes where it is defined."""
    row = warp.views[ref.type][ref.index]
    held = warp.valid[ref.code]
    if warp.full:
        row[...] = value
        held[ref.index] = valid
        return
    made = row.copy()
    made[...] = value
    base = warp.files[_WIDTHS[ref.code]][ref.index]
    where = np.repeat(warp.active, 2) if len(base) == 64 else warp.active
    np.copyto(base, made.view(base.dtype), where=where)
    held[ref.index] = held[ref.index] & ~warp.mask | valid & warp.mask


def get(warp: Warp, ref: Ref) -> Array:
    return warp.views[ref.type][ref.index]


def lift(fn: Pure, target: Ref, sources: Sequence[Ref]) -> Step:
    """The step `target = fn(*sources)`."""
    match sources:
        case []:
            return _none(fn, target)
        case [a]:
            return _one(fn, target, a)
        case [a, b]:
            return _two(fn, target, a, b)
        case [a, b, c]:
            return _three(fn, target, a, b, c)
        case _:
            return _many(fn, target, tuple(sources))


def _none(fn: Pure, target: Ref) -> Step:
    def run(warp: Warp) -> None:
        put(warp, target, fn(), warp.mask)

    return run


def _one(fn: Pure, target: Ref, a: Ref) -> Step:
    td, cd, d, ta, ca, ia = target.type, target.code, target.index, a.type, a.code, a.index

    def run(warp: Warp) -> None:
        views, valid = warp.views, warp.valid
        value = fn(views[ta][ia])
        if warp.full:
            views[td][d][...] = value
            valid[cd][d] = valid[ca][ia]
        else:
            put(warp, target, value, valid[ca][ia])

    return run


def _two(fn: Pure, target: Ref, a: Ref, b: Ref) -> Step:
    td, cd, d = target.type, target.code, target.index
    ta, ca, ia, tb, cb, ib = a.type, a.code, a.index, b.type, b.code, b.index

    def run(warp: Warp) -> None:
        views, valid = warp.views, warp.valid
        value = fn(views[ta][ia], views[tb][ib])
        if warp.full:
            views[td][d][...] = value
            valid[cd][d] = valid[ca][ia] & valid[cb][ib]
        else:
            put(warp, target, value, valid[ca][ia] & valid[cb][ib])

    return run


def _three(fn: Pure, target: Ref, a: Ref, b: Ref, c: Ref) -> Step:
    td, cd, d = target.type, target.code, target.index
    ta, ca, ia, tb, cb, ib, tc, cc, ic = (
        a.type,
        a.code,
        a.index,
        b.type,
        b.code,
        b.index,
        c.type,
        c.code,
        c.index,
    )

    def run(warp: Warp) -> None:
        views, valid = warp.views, warp.valid
        value = fn(views[ta][ia], views[tb][ib], views[tc][ic])
        if warp.full:
            views[td][d][...] = value
            valid[cd][d] = valid[ca][ia] & valid[cb][ib] & valid[cc][ic]
        else:
            put(warp, target, value, valid[ca][ia] & valid[cb][ib] & valid[cc][ic])

    return run


def _many(fn: Pure, target: Ref, sources: tuple[Ref, ...]) -> Step:
    def run(warp: Warp) -> None:
        defined = warp.mask
        for one in sources:
            defined &= warp.valid[one.code][one.index]
        put(warp, target, fn(*(get(warp, one) for one in sources)), defined)

    return run
