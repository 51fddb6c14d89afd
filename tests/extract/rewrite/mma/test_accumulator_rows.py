"""Accumulators with fewer rows than their warps have."""

from pathlib import Path

from twill.extract.reader.ttgir import read
from twill.extract.rewrite.mma.accumulator_rows import with_own_rows
from twill.ir.loop import Module, Op
from twill.ops.table import role


def _module() -> Module:
    """64 rows and eight warps: those of the first two MMAs are one below the other, those of the last two by
    two."""
    path = Path("tests/kernels/ttgir/joined.sm90.ttgir")
    return read(path.read_text(encoding="utf-8"), str(path))


def _conversions(module: Module) -> list[Op]:
    ops = [op for function in module.functions for op in function.walk()]
    return [op for op in ops if role(op) == "layout"]


def test_an_mma_adds_in_place_to_a_tile_of_the_layout_that_it_has_then() -> None:
    before, after = _module(), with_own_rows(_module())
    assert len(_conversions(before)) == len(_conversions(after)) + 1
    assert all(op.operands[0].type != op.result.type for op in _conversions(after))
    ops = [op for function in after.functions for op in function.walk()]
    *_, last = (op for op in ops if role(op) == "wgmma")
    (made,) = (op for op in ops if op.results and op.result.id == last.operands[2].id)
    assert made.name == "arith.mulf"
