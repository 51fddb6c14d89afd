"""First operands of wgmma that are copied to shared memory, and whose elements threads join, take apart or
count otherwise before: int4 or fp4 that becomes 8 bits.

An MMA reads 8 bits from a buffer (`shared_operands`), so the layout of the fragment that it would take from
registers binds nothing, and the generator holds it as an accumulator. Joining and splitting rely on which
register holds an element. Takes a module after operands were staged; gives the same in which such a layout is
written as the exact linear one that it is. Lines stay where they are.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from twill.extract.rewrite.layouts.literal_layouts import deep, exact_text
from twill.extract.rewrite.mma.accumulator_rows import WGMMA
from twill.extract.rewrite.text.edits import Edit, edited
from twill.extract.rewrite.text.type_text import layout_text
from twill.ir.distribution import distribution
from twill.ir.loop import DotOperand, Encoding, Linear, Module, NvidiaMma, Op, Slice, Tensor
from twill.ops.table import role

PAIR = 2
"""Neighbours of a row in a thread, of an accumulator (PTX ISA, register fragments of wgmma)."""


@dataclass(frozen=True, slots=True)
class _Laid:
    """Tiles of one shape and layout: how TTGIR writes the layout, the linear one that it is, and its name."""

    shape: tuple[int, ...]
    text: str
    exact: Linear
    alias: str


def unpacked_operands(module: Module) -> Module:
    """The module itself where there are none, or one has no such form."""
    ops = [op for function in module.functions for op in function.walk()]
    relied = {one.encoding for op in ops if _relies(op) for one in _tiles(op) if _fragment(one.encoding)}
    bound = {one.encoding for op in ops if role(op) in ("wgmma", "dot") for one in _tiles(op)}
    sliced = {one.encoding.parent for op in ops for one in _tiles(op) if isinstance(one.encoding, Slice)}
    free = relied - bound - sliced
    tiles = {(one.encoding, one.shape): one for op in ops for one in _tiles(op) if one.encoding in free}
    laid = [found for number, one in enumerate(tiles.values()) if (found := _laid(module, one, number))]
    return edited(module, _edits(module, laid)) if len(laid) == len(tiles) else module


def _laid(module: Module, tile: Tensor, number: int) -> _Laid | None:
    made, text = distribution(tile.encoding, tile.shape), layout_text(module, tile.encoding)
    if made is None or made.repeats or text is None:
        return None
    exact = Linear(made.register, made.lane, made.warp, ())
    return _Laid(tile.shape, text, exact, f"#twill_unpacked{number}")


def _edits(module: Module, laid: Sequence[_Laid]) -> Iterator[Edit]:
    """Every tile of such a layout, and the aliases behind all that there is."""
    for one in laid:
        shape = "".join(f"{size}x" for size in one.shape)
        for found in re.finditer(rf"tensor<{shape}[^,]*, ({re.escape(one.text)})>", module.text):
            yield Edit(found.start(1), found.end(1), one.alias)
    end = len(module.text)
    yield from (Edit(end, end, f"\n{one.alias} = {exact_text(one.exact)}\n") for one in laid)


def _tiles(op: Op) -> Iterator[Tensor]:
    return (value.type for value in (*op.operands, *op.results) if isinstance(value.type, Tensor))


def _relies(op: Op) -> bool:
    """Whether it reads or makes registers of a thread that must be those of its layout."""
    return role(op) in ("join", "split", "unpack") or any(map(deep, _tiles(op)))


def _fragment(encoding: Encoding | None) -> bool:
    """The first operand of a wgmma in registers, where a thread has more neighbours than of an accumulator;
    where it has single elements, it holds them as they are laid out anyway (`literal`)."""
    match encoding:
        case DotOperand(0, NvidiaMma((version, *_)), int(width)):
            return version == WGMMA and width > PAIR
        case _:
            return False
