"""Reductions of whole tiles become reductions along one dimension after the other."""

import re
from pathlib import Path

import pytest

from tests.simulate.test_values import grid
from twill.extract.reader.ttgir import read
from twill.extract.rewrite.layouts.whole_reductions import by_dimensions
from twill.ir.loop import Module, Tensor
from twill.ops.table import role
from twill.simulate.compare import arguments
from twill.simulate.interpret import interpret

TEXT = """
#b = #ttg.blocked<{sizePerThread = [1, 1, 4], threadsPerWarp = [1, 8, 4], warpsPerCTA = [4, 1, 1], order = [2, 1, 0]}>
#f = #ttg.blocked<{sizePerThread = [4], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
module attributes {"ttg.num-warps" = 4 : i32, ttg.target = "cuda:90"} {
  tt.func public @sum(%out: !tt.ptr<i32>) {
    %two = arith.constant dense<2> : tensor<4x8x16xi32, #b>
    %flat = tt.reshape %two ORDER : tensor<4x8x16xi32, #b> -> tensor<512xi32, #f>
    %sum = "tt.reduce"(%flat) <{axis = 0 : i32}> ({
    ^bb0(%one: i32, %other: i32):
      %both = arith.addi %one, %other : i32
      tt.reduce.return %both : i32
    }) : (tensor<512xi32, #f>) -> i32
    tt.store %out, %sum : !tt.ptr<i32>
    tt.return
  }
}
"""


def stored(module: Module) -> int:
    function = module.functions[0]
    values, memory = arguments(function, {})
    interpret(function, values, memory, grid(0, 0, (1, 1)))
    return int(memory.arrays["out"][0])


def test_a_tile_of_three_dimensions_is_reduced_three_times() -> None:
    module = read(TEXT.replace("ORDER", "allow_reorder"), "sum.ttgir")
    made = by_dimensions(module)
    reductions = [op for op in made.functions[0].walk() if role(op) == "reduce"]
    shapes = [kind.shape for op in reductions if isinstance(kind := op.operands[0].type, Tensor)]
    assert shapes == [(4, 8, 16), (4, 8), (4,)]
    assert not any(role(op) == "reshape" for op in made.functions[0].walk())
    assert stored(module) == stored(made) == 1024
    lines = [
        next(op.location.line for op in one.functions[0].walk() if op.name == "tt.store")
        for one in (module, made)
    ]
    assert lines[0] == lines[1]


def test_a_vector_in_another_layout_is_reduced_as_it_is() -> None:
    vector = "#ttg.slice<{dim = 0, parent = #ttg.slice<{dim = 0, parent = #b}>}>"
    text = TEXT.replace("4x8x16xi32, #b", f"16xi32, {vector}").replace("512xi32", "16xi32")
    module = read(text.replace("ORDER", "allow_reorder"), "sum.ttgir")
    made = by_dimensions(module)
    (reduction,) = (op for op in made.functions[0].walk() if role(op) == "reduce")
    assert [value.name for value in reduction.operands] == ["%two"]
    assert not any(role(op) == "reshape" for op in made.functions[0].walk())
    assert stored(module) == stored(made) == 32
    assert by_dimensions(made) is made


@pytest.mark.parametrize("order", ["", "allow_reorder"])
def test_a_reshape_that_something_else_reads_stays(order: str) -> None:
    """One whose order matters, and one that is stored too."""
    more = 'tt.store %out, %sum : !tt.ptr<i32>\n    tt.print ": " %flat : tensor<512xi32, #f>'
    text = TEXT.replace("ORDER", order)
    module = read(
        text if not order else text.replace("tt.store %out, %sum : !tt.ptr<i32>", more), "sum.ttgir"
    )
    assert by_dimensions(module) is module


def test_reductions_of_16_bits_round_each_step() -> None:
    """Sums are computed and kept in the type that TTGIR reduces in."""
    text = Path("tests/targets/golden/reread.cu").read_text(encoding="utf-8")
    assert re.search(r"(\w+)\[i_\] = __hadd_rn\(\1\[i_\], __half\(__shfl_xor_sync", text)
