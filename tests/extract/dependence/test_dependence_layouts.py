"""Layouts as distributions over registers, lanes and warps; Triton's own numbers for the same layouts."""

import pytest

from twill.extract.dependence.tiles import tensor_columns, tile
from twill.ir.distribution import distribution
from twill.ir.loop import (
    Blocked,
    DotOperand,
    Encoding,
    Linear,
    MemDesc,
    NvidiaMma,
    Scalar,
    Slice,
    Tensor,
    TensorMemory,
    UnknownEncoding,
)

ACCUMULATOR = NvidiaMma((3, 0), (4, 1), (16, 128, 16))
TWO_GROUPS = NvidiaMma((3, 0), (8, 1), (16, 128, 16))
SPLIT = NvidiaMma((3, 0), (4, 2), (16, 64, 16))
BLOCKED = Blocked((1, 8), (4, 8), (4, 1), (1, 0))
ROWS = Linear(
    tuple((0, 1 << i) for i in range(7)), tuple((1 << i, 0) for i in range(5)), ((32, 0), (64, 0)), ()
)
"""One row per thread: what a tensor memory load gives."""


@pytest.mark.parametrize(
    ("encoding", "shape", "per_thread", "held"),
    [
        (ACCUMULATOR, (64, 128), 64, 64 * 128),
        (ACCUMULATOR, (128, 128), 128, 128 * 128),
        (TWO_GROUPS, (128, 128), 64, 128 * 128),
        (SPLIT, (64, 128), 32, 64 * 128),
        (Slice(1, ACCUMULATOR), (64,), 2, 4 * 64),
        (Slice(0, ACCUMULATOR), (128,), 32, 32 * 128),
        (Slice(1, ROWS), (128,), 1, 128),
        (BLOCKED, (64, 64), 32, 64 * 64),
        (BLOCKED, (8, 64), 8, 2 * 8 * 64),
        (Slice(0, BLOCKED), (64,), 8, 16 * 64),
        (DotOperand(0, ACCUMULATOR, 2), (64, 128), 64, 64 * 128),
        (DotOperand(0, SPLIT, 2), (64, 128), 64, 2 * 64 * 128),
    ],
)
def test_elements_per_thread_and_replicas(
    encoding: Encoding, shape: tuple[int, ...], per_thread: int, held: int
) -> None:
    found = distribution(encoding, shape)
    assert found is not None
    assert (found.per_thread, found.held) == (per_thread, held)


def moves_nothing(source: Encoding, target: Encoding, shape: tuple[int, ...]) -> bool:
    here, there = distribution(source, shape), distribution(target, shape)
    assert here is not None
    assert there is not None
    return here.moves_nothing_to(there)


def test_an_accumulator_is_a_left_operand_where_warps_agree() -> None:
    assert moves_nothing(ACCUMULATOR, DotOperand(0, ACCUMULATOR, 2), (64, 128))
    assert moves_nothing(NvidiaMma((3, 0), (8, 1), (16, 64, 16)), DotOperand(0, TWO_GROUPS, 2), (128, 64))
    assert not moves_nothing(SPLIT, DotOperand(0, SPLIT, 2), (64, 128)), (
        "the warps along N hold other columns"
    )
    assert not moves_nothing(ACCUMULATOR, DotOperand(0, ACCUMULATOR, 4), (64, 128)), (
        "8-bit operands pack four columns"
    )
    assert not moves_nothing(ACCUMULATOR, BLOCKED, (64, 128))


def test_how_a_row_is_spread() -> None:
    mma, rows = distribution(ACCUMULATOR, (64, 128)), distribution(ROWS, (128, 128))
    assert mma is not None
    assert rows is not None
    assert (mma.serial_along(1), mma.lanes_along(1), mma.warps_along(1)) == (32, 2, 0)
    assert (rows.serial_along(1), rows.lanes_along(1), rows.warps_along(1)) == (128, 0, 0)
    assert (mma.serial_along(0), mma.lanes_along(0), mma.warps_along(0)) == (2, 3, 2)


def test_registers_pack_small_elements() -> None:
    def registers(name: str) -> int:
        found = tile(Tensor((64, 128), Scalar(name), ACCUMULATOR), 128)
        assert found is not None
        return found.registers

    assert [registers(name) for name in ("f32", "f16", "bf16", "f8E4M3FN", "i1", "i64")] == [
        64,
        32,
        32,
        16,
        2,
        128,
    ]


def test_a_layout_that_is_not_known_is_spread_evenly() -> None:
    found = tile(Tensor((64, 64), Scalar("f32"), UnknownEncoding("#ttg.new<{}>")), 128)
    assert found is not None
    assert (found.registers, found.held) == (32, 64 * 64)


@pytest.mark.parametrize(
    ("shape", "dtype", "stride", "block_m", "columns"),
    [
        ((128, 128), "f32", 1, 128, 128),
        ((128, 128), "f16", 1, 128, 64),
        ((128, 128), "f16", 2, 128, 128),
        ((64, 128), "f32", 1, 64, 128),
        ((256, 64), "f32", 1, 128, 128),
        ((2, 128, 64), "f32", 1, 128, 128),
    ],
)
def test_columns_of_tensor_memory(
    shape: tuple[int, ...], dtype: str, stride: int, block_m: int, columns: int
) -> None:
    encoding = TensorMemory(block_m, shape[-1], stride, two_ctas=False)
    assert tensor_columns(MemDesc(shape, Scalar(dtype), encoding, "tmem", alloc_shape=shape)) == columns
