"""Accumulators of wgmma with fewer rows than Triton's layout gives to the warps.

Triton puts all warps along the rows of the first of two chained MMAs, also where 64 rows have eight warps:
each warpgroup then computes the same. Takes a `Module`; gives the same with the warps that have no rows of
their own along the columns, so that each warpgroup has a part of N. What the kernel computes does not depend
on it.
"""

from collections.abc import Iterator

from twill.extract.rewrite.edits import Edit, edited
from twill.extract.rewrite.narrow_modules import accumulator_tiles, alias_line, shared_by
from twill.ir.loop import Module, NvidiaMma

WGMMA = 3
"""Major version of the layouts of wgmma."""
COLUMNS = 16
"""The fewest that a warpgroup may have: what keeps pairs of 16-bit elements together."""


def with_own_rows(module: Module) -> Module:
    """The module itself where the warps of every accumulator have rows of their own."""
    edits = tuple(_edits(module))
    return edited(module, edits) if edits else module


def _edits(module: Module) -> Iterator[Edit]:
    for name, encoding in module.encodings.items():
        if isinstance(encoding, NvidiaMma) and encoding.version[0] == WGMMA:
            warps = _within(module, encoding)
            if warps != encoding.warps_per_cta:
                begin, end = alias_line(module, name)
                line = module.text[begin:end]
                yield Edit(begin, end, shared_by(module, line, encoding, warps))


def _within(module: Module, encoding: NvidiaMma) -> tuple[int, ...]:
    """Warps along rows and columns, so that each has rows of its own; as they are where columns lack."""
    down, across = encoding.warps_per_cta
    shapes = [tile.shape for tile in accumulator_tiles(module, encoding)]
    rows = min((shape[0] for shape in shapes), default=down * encoding.instr_shape[0])
    most = max(1, rows // encoding.instr_shape[0])
    wider = across * max(1, down // most)
    if down <= most or any(shape[1] < COLUMNS * wider for shape in shapes):
        return down, across
    return most, wider
