"""First operands of wgmma that are copied to shared memory, and whose elements threads join, take apart or
count otherwise before: int4 or fp4 that becomes 8 bits.

An MMA reads 8 bits from a buffer (`shared_operands`), so the layout of the fragment that it would take from
registers binds nothing, and the generator holds it as an accumulator. Joining and splitting rely on which
register holds an element. Takes a module after operands were staged; gives the same in which such a layout is
written as the exact linear one that it is. Lines stay where they are.
"""

import re
from collections.abc import Iterator, Mapping

from twill.extract.rewrite.layouts.literal_layouts import deep, exact_text
from twill.extract.rewrite.text.edits import Edit, edited
from twill.extract.rewrite.text.type_text import layout_text
from twill.ir.distribution import distribution
from twill.ir.loop import DotOperand, Encoding, Linear, Module, NvidiaMma, Op, Slice, Tensor
from twill.ops.table import role

WGMMA = 3
"""The version of the layouts of its accumulators."""
PAIR = 2
"""Neighbours of a row in a thread, of an accumulator (PTX ISA, register fragments of wgmma)."""


def unpacked_operands(module: Module) -> Module:
    """The module itself where there are none."""
    ops = [op for function in module.functions for op in function.walk()]
    relied = {one.encoding for op in ops if _relies(op) for one in _tiles(op) if _fragment(one.encoding)}
    bound = {one.encoding for op in ops if role(op) in ("wgmma", "dot") for one in _tiles(op)}
    sliced = {one.encoding.parent for op in ops for one in _tiles(op) if isinstance(one.encoding, Slice)}
    free = relied - bound - sliced
    shapes = {(one.encoding, one.shape): one for op in ops for one in _tiles(op) if one.encoding in free}
    aliases = {key: f"#twill_unpacked{number}" for number, key in enumerate(shapes)}
    exact = {aliases[key]: _exact(one) for key, one in shapes.items()}
    texts = {key: layout_text(module, key[0]) for key in shapes}
    if None in exact.values() or None in texts.values():
        return module
    return edited(module, _edits(module, aliases, texts, exact))


def _edits(
    module: Module,
    aliases: Mapping[tuple[Encoding | None, tuple[int, ...]], str],
    texts: Mapping[tuple[Encoding | None, tuple[int, ...]], str | None],
    exact: Mapping[str, Linear | None],
) -> Iterator[Edit]:
    """Every tile of such a layout, and the aliases behind all that there is."""
    for key, name in aliases.items():
        shape = "".join(f"{size}x" for size in key[1])
        for found in re.finditer(rf"tensor<{shape}[^,]*, ({re.escape(texts[key] or '')})>", module.text):
            yield Edit(found.start(1), found.end(1), name)
    end = len(module.text)
    yield from (Edit(end, end, f"\n{name} = {exact_text(one)}\n") for name, one in exact.items() if one)


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


def _exact(tile: Tensor) -> Linear | None:
    made = distribution(tile.encoding, tile.shape)
    return Linear(made.register, made.lane, made.warp, ()) if made and not made.repeats else None
