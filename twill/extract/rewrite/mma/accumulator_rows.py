"""Accumulators of wgmma with fewer rows than Triton's layout gives to the warps.

Triton puts all warps along the rows of the first of two chained MMAs, also where 64 rows have eight warps:
each warpgroup then computes the same. Takes a `Module`; gives the same with the warps that have no rows of
their own along the columns, so that each warpgroup has a part of N. What the kernel computes does not depend
on it. Changes of layout that change nothing then are left out: an MMA adds to the tile itself, in place.
"""

from collections.abc import Iterator
from itertools import pairwise

from twill.extract.rewrite.text.edits import Edit, blanked, edited, mentions
from twill.extract.rewrite.text.layout_lines import alias_line
from twill.extract.rewrite.warps.narrow_modules import accumulator_tiles, shared_by
from twill.ir.loop import Function, Module, NvidiaMma, Op
from twill.ops.table import role

WGMMA = 3
"""Major version of the layouts of wgmma."""
COLUMNS = 16
"""The fewest that a warpgroup may have: what keeps pairs of 16-bit elements together."""


def with_own_rows(module: Module) -> Module:
    """The module itself where the warps of every accumulator have rows of their own."""
    edits = tuple(_edits(module))
    return _without_conversions(edited(module, edits)) if edits else module


def _without_conversions(module: Module) -> Module:
    """The module without changes from a layout to the same; their readers read what these would have."""
    return edited(module, (edit for function in module.functions for edit in _conversions(module, function)))


def _conversions(module: Module, function: Function) -> Iterator[Edit]:
    pairs = [pair for block in function.blocks() for pair in pairwise(block.ops)]
    same = [(op, following) for op, following in pairs if _changes_nothing(op)]
    spans = [(op.span.start, following.span.start) for op, following in same]
    yield from (blanked(module, *span) for span in spans)
    end, origins = max((op.span.end for op in function.walk()), default=0), dict[str, str]()
    for op, following in same:
        (name,) = (value.name for value in op.operands)
        origins[op.result.name] = origins.get(name, name)
        for place in mentions(op.result.name).finditer(module.text, following.span.start, end):
            if not any(begin <= place.start() < behind for begin, behind in spans):
                yield Edit(place.start(), place.end(), origins[op.result.name])


def _changes_nothing(op: Op) -> bool:
    return role(op) == "layout" and op.operands[0].type == op.result.type


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
