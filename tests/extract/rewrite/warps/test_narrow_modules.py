"""Modules for more warps than they were written for: no two warps hold copies of an accumulator."""

from pathlib import Path

import pytest

from twill.extract.reader.ttgir import read
from twill.extract.rewrite.warps.narrow_modules import accumulator_tiles, widened
from twill.inputs import Inputs, cases
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


@pytest.mark.parametrize("kernel", ["centered", "centered_brain"])
def test_lanes_and_warps_do_not_name_one_column(kernel: str) -> None:
    """Of 32 columns eight warps have four each, but the lanes of a warp hold eight: some warps hold copies."""
    made = module(kernel)
    found = [
        distribution(one, tile.shape)
        for one in made.encodings.values()
        if isinstance(one, NvidiaMma)
        for tile in accumulator_tiles(made, one)
    ]
    assert found
    for one in found:
        assert one is not None
        named = [vector for vector in (*one.register, *one.lane, *one.warp) if any(vector)]
        assert len(named) == len(set(named))


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


TURNED = """
import triton
import triton.language as tl

@triton.jit
def turned(a: "*bf16", b: "*bf16", c: "*fp32", n: "i32"):
    i, j = tl.arange(0, 16)[:, None], tl.arange(0, 64)
    left = tl.load(a + i * 64 + j[None, :])
    acc = tl.zeros([16, 64], tl.float32)
    for k in range(0, n, 32):
        right = tl.load(b + j[:, None] + (k + tl.arange(0, 32))[None, :] * 64)
        acc = tl.dot(tl.dot(left, right).to(tl.bfloat16), right.T, acc)
    tl.store(c + i * 64 + j[None, :], acc)
"""


@pytest.mark.parametrize("arch", ["sm90", "sm100"])
@pytest.mark.parametrize("warps", [1, 2])
def test_a_tile_that_is_transposed_into_an_operand_is_spread_like_it(
    arch: str, warps: int, tmp_path: Path
) -> None:
    """Each of four warps holds the columns of B that it multiplies: fla's compressed attention, backwards."""
    (tmp_path / "turned.py").write_text(TURNED)
    (case,) = cases(
        Inputs(f"{tmp_path / 'turned.py'}:turned", arch=arch, settings=(("num_warps", str(warps)),))
    )
    assert case.module
    turned = [op for op in case.module.functions[0].walk() if role(op) == "transpose"]
    assert turned
    for op in turned:
        source, target = op.operands[0].type, op.result.type
        assert isinstance(source, Tensor)
        assert isinstance(target, Tensor)
        here, there = distribution(source.encoding, source.shape), distribution(target.encoding, target.shape)
        assert here is not None
        assert there is not None
        assert any(map(any, there.warp))
        assert (there.lane, there.warp) == tuple(
            tuple(one[::-1] for one in vectors) for vectors in (here.lane, here.warp)
        )


CARRIED = """
import triton
import triton.language as tl

@triton.jit
def carried(a: "*bf16", b: "*bf16", c: "*fp32", n: "i32"):
    i = tl.arange(0, 64)
    state = tl.zeros([64, 64], tl.float32)
    for k in range(0, n, 64):
        left = tl.load(a + (k + i)[:, None] * 64 + i[None, :])
        right = tl.load(b + (k + i)[:, None] * 64 + i[None, :])
        state += tl.dot(left, right).T
        state += tl.dot(right, state.T.to(tl.bfloat16)).T
    tl.store(c + i[:, None] * 64 + i[None, :], state)
"""


def test_a_state_that_is_kept_transposed_is_spread_like_accumulators(tmp_path: Path) -> None:
    """And what it is transposed into again: fla's gated delta rule, backwards, with values first."""
    (tmp_path / "carried.py").write_text(CARRIED)
    (case,) = cases(Inputs(f"{tmp_path / 'carried.py'}:carried", arch="sm90", settings=(("num_warps", "2"),)))
    assert case.module
    turned = [op for op in case.module.functions[0].walk() if role(op) == "transpose"]
    assert len(turned) > 2
    for op in turned:
        source, target = op.operands[0].type, op.result.type
        assert isinstance(source, Tensor)
        assert isinstance(target, Tensor)
        here, there = distribution(source.encoding, source.shape), distribution(target.encoding, target.shape)
        assert here is not None
        assert there is not None
        assert there.warp == tuple(one[::-1] for one in here.warp)
