"""The order in which the programs of a grid begin: those that load the same tiles together."""

import re
from pathlib import Path

import pytest

from tests.kernels.programs import program
from twill.extract.reader.ttgir import read
from twill.warp.block_order import block_order
from twill.warp.dataflow import read as code

SCALED = Path("tests/kernels/ttgir/scaled_32.sm90.ttgir")
BATCH = """%batch = tt.get_program_id x : i32
    %index = {index} : i32
    %begin = arith.muli %index, %M : i32
    %of_a = tt.addptr %a, %begin : !tt.ptr<f16>, i32
    %of_b = tt.addptr %b, %begin : !tt.ptr<f16>, i32
    """


def batched(index: str) -> str:
    """Tiles of rows along y and of columns along z, of one of several matrices by the program's index along
    x."""
    text = SCALED.read_text().replace("get_program_id y", "get_program_id z")
    text = text.replace("get_program_id x", "get_program_id y")
    text = re.sub(r"tt\.splat %([ab]) :", r"tt.splat %of_\1 :", text)
    before, first, after = text.partition("%0 = tt.get_program_id")
    return before + BATCH.format(index=index) + first + after


def order(text: str) -> tuple[int, int, int]:
    module = read(text, "batched.ttgir")
    return block_order(code(module, next(one for one in module.functions if one.public)))


def test_axes_without_a_tile_in_common_are_last() -> None:
    assert order(batched("arith.addi %batch, %batch")) == (1, 2, 0)


@pytest.mark.parametrize("quotient", ["arith.divsi %batch, %K", "arith.divui %batch, %N"])
def test_neighbours_with_the_same_quotient_share_tiles(quotient: str) -> None:
    """Heads of a group, which have keys and values in common."""
    assert order(batched(quotient)) == (0, 1, 2)


def test_both_axes_of_a_product_share_tiles() -> None:
    assert order(SCALED.read_text()) == (0, 1, 2)


def test_programs_that_wait_for_others_keep_their_order() -> None:
    """The result of an atomic operation decides where they load."""
    counted = batched("arith.addi %batch, %before")
    one = "%one = arith.constant 1 : i32\n    %true = arith.constant true\n    "
    add = "%before = tt.atomic_rmw add, acq_rel, gpu, %count, %one, %true"
    counted = counted.replace("%index =", f"{one}{add} : (!tt.ptr<i32>, i32, i1) -> i32\n    %index =")
    counted = counted.replace("@scaled(", "@scaled(%count: !tt.ptr<i32>, ")
    assert order(counted) == (0, 1, 2)


@pytest.mark.parametrize("kernel", ["gemm_persistent", "gemm_clustered"])
def test_walks_over_the_grid_and_clusters_keep_their_order(kernel: str) -> None:
    assert program(kernel).order == (0, 1, 2)
