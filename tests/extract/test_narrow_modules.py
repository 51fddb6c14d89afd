"""Modules for more warps than they were written for: no two warps hold copies of an accumulator."""

from pathlib import Path

import pytest

from twill.extract.reader.ttgir import read
from twill.extract.rewrite.narrow_modules import accumulator_tiles, widened
from twill.ir.distribution import distribution
from twill.ir.loop import DotOperand, Module, NvidiaMma, Op, Tensor
from twill.ops.table import role


def module(kernel: str) -> Module:
    path = Path(f"tests/kernels/ttgir/{kernel}.sm90.ttgir")
    return widened(read(path.read_text(encoding="utf-8"), str(path)), 8)


@pytest.mark.parametrize("kernel", ["recurrent", "faded", "walled", "weighted"])
def test_warps_that_share_rows_have_columns_of_their_own(kernel: str) -> None:
    made = module(kernel)
    accumulators = [one for one in made.encodings.values() if isinstance(one, NvidiaMma)]
    tiles = [(one, tile.shape) for one in accumulators for tile in accumulator_tiles(made, one)]
    assert any(one.warps_per_cta == (4, 2) for one, _ in tiles)
    for one, shape in tiles:
        spread = distribution(one, shape)
        assert spread is not None
        assert all(any(vector) for vector in spread.warp)


def _operands(made: Module) -> list[Op]:
    return [
        op
        for op in made.functions[0].walk()
        if role(op) == "layout"
        and isinstance(op.result.type, Tensor)
        and isinstance(op.result.type.encoding, DotOperand)
    ]


@pytest.mark.parametrize("kernel", ["weighted", "weighted_integer"])
def test_an_operand_from_an_accumulator_that_warps_share_by_columns_moves(kernel: str) -> None:
    """Each warp needs all columns of its rows as the left operand of the next MMA."""
    found = _operands(module(kernel))
    assert found
    for op in found:
        source, target = op.operands[0].type, op.result.type
        assert isinstance(source, Tensor)
        assert isinstance(target, Tensor)
        here, there = distribution(source.encoding, source.shape), distribution(target.encoding, target.shape)
        assert here is not None
        assert there is not None
        assert not here.moves_nothing_to(there)
