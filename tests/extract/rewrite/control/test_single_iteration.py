"""MMAs outside of loops become loops of one iteration: the same values, the same lines."""

from pathlib import Path

import pytest

from tests.simulate.test_values import grid
from twill.extract.dependence.loops import loops
from twill.extract.reader.ttgir import read
from twill.extract.rewrite.control.single_iteration import in_loops
from twill.extract.rewrite.mma.fresh_accumulators import fresh
from twill.ir.loop import Module
from twill.ops.table import is_mma
from twill.simulate.compare import arguments, error
from twill.simulate.global_memory import Memory
from twill.simulate.interpret import interpret

KERNELS = {
    "surrounded": 3,
    "straight": 1,
    "resumed": 3,
    "reread": 2,
    "straight.sm100": 1,
    "handed_on.sm100": 3,
}
"""With the number of loops that they have afterwards."""


def module(kernel: str) -> Module:
    name, _, arch = kernel.partition(".")
    path = Path("tests/kernels/ttgir") / f"{name}.{arch or 'sm90'}.ttgir"
    return fresh(read(path.read_text(encoding="utf-8"), str(path)))


@pytest.mark.parametrize("kernel", KERNELS)
def test_values_are_the_same(kernel: str) -> None:
    before, after = module(kernel).functions[0], in_loops(module(kernel)).functions[0]
    found = list[Memory]()
    for function in (before, after):
        values, memory = arguments(function, {"M": 256, "N": 128, "K": 256})
        interpret(function, values, memory, grid(1, 0, (2, 1)))
        found.append(memory)
    assert found[0].arrays.keys() == found[1].arrays.keys()
    for name in found[0].arrays:
        assert error(found[0].arrays[name].astype(float), found[1].arrays[name].astype(float)) == 0.0


@pytest.mark.parametrize(("kernel", "count"), KERNELS.items())
def test_every_mma_is_in_an_innermost_loop_that_can_be_scheduled(kernel: str, count: int) -> None:
    made = in_loops(module(kernel))
    found = loops(made)
    assert len(found) == count
    assert all(loop.schedulable for loop in found if loop.innermost)
    mmas = [op for op in made.functions[0].walk() if is_mma(op)]
    assert len(mmas) == sum(len(loop.tensor_ops) for loop in found if loop.innermost)


@pytest.mark.parametrize("kernel", KERNELS)
def test_mmas_and_loads_of_tiles_keep_their_lines(kernel: str) -> None:
    before, after = module(kernel), in_loops(module(kernel))
    assert before.text.count("\n") == after.text.count("\n")
    lines = [
        {op.results[0].name: op.location.line for op in one.functions[0].walk() if is_mma(op)}
        for one in (before, after)
    ]
    assert lines[0] == lines[1]


def test_a_module_whose_mmas_are_all_in_loops_is_unchanged() -> None:
    made = module("pointers")
    assert in_loops(made) is made


def test_a_tile_that_is_read_behind_the_mma_is_loaded_again() -> None:
    """It is not carried out of the loop: the group that loads has no registers for it."""
    made = in_loops(module("reread"))
    once = loops(made)[1]
    loads = [
        op for op in made.functions[0].walk() if op.name == "tt.load" and op.result.name.startswith("%z_")
    ]
    assert [op in once.ops for op in loads] == [True, False]
    assert all(one.yielded.producer != loads[0].index for one in once.carried)


BLOCKED = (
    "#ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [2, 16], warpsPerCTA = [4, 1], order = [1, 0]}>"
)
WARPS = "#ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, warpsPerCTA = [4, 1], instrShape = [16, 8]}>"


@pytest.mark.parametrize("parent", [BLOCKED, WARPS])
def test_operands_in_many_threads_are_made_where_mmas_read_them(parent: str) -> None:
    """Not all before the first MMA: each thread would hold them until the last one."""
    text = f"""#blocked = {BLOCKED}
#parent = {parent}
module attributes {{"ttg.num-warps" = 4 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32}} {{
  tt.func public @small(%c: !tt.ptr<f32> {{tt.divisibility = 16 : i32}}) {{
    %one = arith.constant dense<1.000000e+00> : tensor<16x16xf32, #blocked>
    %zero = arith.constant dense<0.000000e+00> : tensor<16x16xf32, #parent>
    %a = ttg.convert_layout %one : tensor<16x16xf32, #blocked> -> tensor<16x16xf32, #ttg.dot_op<{{opIdx = 0, parent = #parent}}>>
    %b = ttg.convert_layout %one : tensor<16x16xf32, #blocked> -> tensor<16x16xf32, #ttg.dot_op<{{opIdx = 1, parent = #parent}}>>
    %x = tt.dot %a, %b, %zero : tensor<16x16xf32, #ttg.dot_op<{{opIdx = 0, parent = #parent}}>> * tensor<16x16xf32, #ttg.dot_op<{{opIdx = 1, parent = #parent}}>> -> tensor<16x16xf32, #parent>
    %d = ttg.convert_layout %one : tensor<16x16xf32, #blocked> -> tensor<16x16xf32, #ttg.dot_op<{{opIdx = 1, parent = #parent}}>>
    %y = tt.dot %a, %d, %x : tensor<16x16xf32, #ttg.dot_op<{{opIdx = 0, parent = #parent}}>> * tensor<16x16xf32, #ttg.dot_op<{{opIdx = 1, parent = #parent}}>> -> tensor<16x16xf32, #parent>
    %z = ttg.convert_layout %y : tensor<16x16xf32, #parent> -> tensor<16x16xf32, #blocked>
    %p = tt.splat %c : !tt.ptr<f32> -> tensor<16x16x!tt.ptr<f32>, #blocked>
    tt.store %p, %z : tensor<16x16x!tt.ptr<f32>, #blocked>
    tt.return
  }}
}}
"""
    (loop,) = loops(in_loops(read(text, "small.ttgir")))
    converted = [op for op in loop.op.inner() if op.name == "ttg.convert_layout"]
    assert "d" in {op.result.name.strip("%") for op in converted}
