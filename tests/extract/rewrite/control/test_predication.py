"""Branches with loads or MMAs become straight-line code: the same values, memory accessed under the condition."""

from pathlib import Path

import pytest

from tests.simulate.test_values import grid
from twill.extract.dependence.loops import loops
from twill.extract.reader.ttgir import read
from twill.extract.rewrite.control.predication import predicated
from twill.extract.rewrite.mma.fresh_accumulators import fresh
from twill.ir.loop import Module, Op, Tensor
from twill.ops.ranges import Interval, Ranges
from twill.ops.table import is_mma, role
from twill.simulate.compare import arguments, error
from twill.simulate.global_memory import Memory
from twill.simulate.interpret import interpret

KERNELS = ("guarded", "skipping", "patchwork", "metered", "edged", "guarded.sm100", "skipping.sm100")


def module(kernel: str) -> Module:
    name, _, arch = kernel.partition(".")
    path = Path("tests/kernels/ttgir") / f"{name}.{arch or 'sm90'}.ttgir"
    return fresh(read(path.read_text(encoding="utf-8"), str(path)))


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("size", [192, 200])
def test_values_are_the_same(kernel: str, seed: int, size: int) -> None:
    found = list[Memory]()
    for one in (module(kernel), predicated(module(kernel))):
        function = one.functions[0]
        names = {arg.name.lstrip("%") for arg in function.args}
        numbers = {name: value for name, value in {"M": 128, "N": 128, "K": size}.items() if name in names}
        values, memory = arguments(function, numbers, seed)
        interpret(function, values, memory, grid(0, 0, (1, 1)))
        found.append(memory)
    for name in found[0].arrays:
        before, after = (memory.arrays[name].astype(float) for memory in found)
        assert error(before, after) < 1e-6


@pytest.mark.parametrize("kernel", KERNELS)
def test_no_branch_with_memory_or_mmas_is_left_and_lines_stay(kernel: str) -> None:
    before, after = module(kernel), predicated(module(kernel))
    (loop,) = loops(after)
    assert loop.schedulable
    branches = [op for op in loop.ops if role(op) == "if"]
    assert len(branches) == (kernel == "patchwork")
    touching = ("pointer_load", "atomic")
    assert not any(is_mma(op) or role(op) in touching for branch in branches for op in branch.inner())
    assert before.text.count("\n") == after.text.count("\n")
    lines = [[op.location.line for op in one.functions[0].walk() if is_mma(op)] for one in (before, after)]
    assert lines[1] == (lines[0][:1] if kernel == "edged" else lines[0])


def tile_loads(one: Module) -> list[Op]:
    return [
        op
        for op in one.functions[0].walk()
        if role(op) == "pointer_load" and isinstance(op.result.type, Tensor)
    ]


def test_a_tile_that_both_sides_load_is_loaded_once_under_one_mask() -> None:
    assert len(tile_loads(module("guarded"))) == 2
    (load,) = tile_loads(predicated(module("guarded")))
    assert len(load.operands) == 3, "pointers, mask, and the zeros of the masked side"


def test_sides_that_differ_in_masks_alone_are_one() -> None:
    after = predicated(module("edged"))
    assert [len(load.operands) for load in tile_loads(after)] == [3, 3]
    assert sum(is_mma(op) for op in after.functions[0].walk()) == 1
    (loop,) = loops(after)
    assert not any(role(op) == "select" for op in loop.ops)


def test_sides_with_other_mmas_stay_two() -> None:
    text = module("edged").text
    first = text.index("warp_group_dot")
    other = text[:first] + text[first:].replace("inputPrecision = 0", "inputPrecision = 2", 1)
    after = predicated(fresh(read(other, "edged.ttgir")))
    assert sum(is_mma(op) for op in after.functions[0].walk()) == 2
    assert len(tile_loads(after)) == 4


def test_a_load_of_one_side_gets_a_mask() -> None:
    (load,) = tile_loads(predicated(module("skipping")))
    assert len(load.operands) == 2


def test_a_module_without_such_branches_is_unchanged() -> None:
    made = module("pointers")
    assert predicated(made) is made


TEXT = """
module attributes {"ttg.num-warps" = 4 : i32, ttg.target = "cuda:90"} {
  tt.func public @f(%n: i32, %m: i64) {
    %c0 = arith.constant 0 : i32
    %c8 = arith.constant 8 : i32
    %c64 = arith.constant 64 : i32
    %p = tt.get_program_id x : i32
    %wide = arith.extsi %p : i32 to i64
    %row = arith.muli %p, %c64 : i32
    %square = arith.muli %wide, %wide : i64
    %below = arith.minsi %n, %c64 : i32
    scf.for %i = %c8 to %c64 step %c8  : i32 {
      %inside = arith.cmpi sge, %i, %c0 : i32
      %outside = arith.cmpi slt, %i, %c0 : i32
      %unknown = arith.cmpi slt, %i, %n : i32
      %bounded = arith.cmpi sle, %below, %c64 : i32
      %equal = arith.cmpi eq, %i, %c8 : i32
    }
    %end = arith.minsi %row, %c64 : i32
    %last = arith.muli %end, %c8 : i32
    scf.for %j = %c8 to %last step %c8  : i32 {
      %rest = arith.subi %last, %j : i32
      %previous = arith.subi %rest, %c8 : i32
      %reversed = arith.cmpi sge, %previous, %c0 : i32
    }
    scf.for %l = %c8 to %n step %c8  : i32 {
      %more = arith.subi %n, %l : i32
      %before = arith.subi %more, %c8 : i32
      %ragged = arith.cmpi sge, %before, %c0 : i32
    }
    tt.return
  }
}
"""


def test_intervals_hold_and_overflow_gives_every_number() -> None:
    function = read(TEXT, "ranges.ttgir").functions[0]
    ranges = Ranges(function)
    named = {value.name: value for op in function.walk() for value in op.results}
    assert ranges.of(named["%wide"]) == Interval(0, 2**31 - 2)
    assert ranges.of(named["%row"]) == Interval(-(2**31), 2**31 - 1), "may overflow"
    assert ranges.of(named["%square"]) == Interval(0, (2**31 - 2) ** 2)
    assert ranges.of(function.args[0]) == Interval(-(2**31), 2**31 - 1)
    truths = {
        name: ranges.truth(named[name]) for name in ("%inside", "%outside", "%unknown", "%bounded", "%equal")
    }
    assert ranges.truth(named["%reversed"]) is True, "the range ends at its bound"
    assert ranges.truth(named["%ragged"]) is None
    assert ranges.of(named["%more"]).low == 1
    assert truths == {"%inside": True, "%outside": False, "%unknown": None, "%bounded": True, "%equal": None}
