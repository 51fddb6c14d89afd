"""What divides the numbers that loops carry: what they begin with, and what every iteration makes of them."""

import pytest

from twill.extract.reader.ttgir import read
from twill.ir.loop import Value
from twill.ops.axis_info import AxisAnalysis

TEXT = """
module attributes {{"ttg.num-warps" = 4 : i32, ttg.target = "cuda:90"}} {{
  tt.func public @k(%n: i32, %stride: i32 {{tt.divisibility = 16 : i32}}) {{
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c24 = arith.constant 24 : i32
    %c64 = arith.constant 64 : i32
    %c96 = arith.constant 96 : i32
    %back = arith.muli %n, %c64 : i32
    %end:2 = scf.for %i = %c0 to %n step %c1 iter_args(%at = {init}, %other = %c64) -> (i32, i32)  : i32 {{
      %around = arith.cmpi sge, %i, %n : i32
      %far = arith.subi %at, %back : i32
      %next = arith.addi %at, %c96 : i32
      %odd = arith.addi %at, %n : i32
      %either = arith.select %around, %far, %next : i32
      %inner = scf.for %j = %c0 to %n step %c1 iter_args(%deep = %at) -> (i32)  : i32 {{
        %deeper = arith.addi %deep, %other : i32
        scf.yield %deeper : i32
      }}
      scf.yield {after}, {other} : i32, i32
    }}
    %read = arith.addi %end#0, %c0 : i32
    tt.return
  }}
}}
"""


def divisor(name: str, init: str, after: str, other: str = "%other") -> int:
    function = read(TEXT.format(init=init, after=after, other=other), "k.ttgir").functions[0]
    blocks = [block for op in function.walk() for region in op.regions for block in region.blocks]
    values: list[Value] = [result for op in function.walk() for result in op.results]
    found = {one.name: one for one in [*values, *(arg for block in blocks for arg in block.args)]}
    return AxisAnalysis(function).of(found[name]).divisibility[0]


@pytest.mark.parametrize(
    ("init", "after", "expected"),
    [
        ("%c0", "%either", 32),
        ("%c0", "%far", 64),
        ("%c64", "%next", 32),
        ("%c24", "%next", 24),
        ("%stride", "%far", 16),
        ("%n", "%far", 1),
        ("%c0", "%odd", 1),
        ("%c64", "%at", 64),
    ],
)
def test_a_carried_number_has_the_common_divisor(init: str, after: str, expected: int) -> None:
    assert divisor("%at", init, after) == expected


@pytest.mark.parametrize(("other", "expected"), [("%other", 64), ("%at", 32), ("%either", 32), ("%n", 1)])
def test_numbers_that_follow_from_each_other_are_found_together(other: str, expected: int) -> None:
    assert divisor("%other", "%c0", "%either", other) == expected


@pytest.mark.parametrize(("after", "expected"), [("%inner", 64), ("%either", 32), ("%odd", 1)])
def test_a_loop_in_a_loop_begins_with_what_that_carries(after: str, expected: int) -> None:
    assert divisor("%deep", "%c0", after) == expected
    assert divisor("%at", "%c0", after) == expected


def test_what_a_loop_leaves_is_one_of_what_it_carries() -> None:
    assert divisor("%read", "%c0", "%either") == 32
