"""Signs of the numbers that loops carry: where one is said not to be negative, no execution makes it so."""

from itertools import product

import pytest

from twill.extract.reader.ttgir import read
from twill.ir.loop import Function, Value
from twill.ops.table import role
from twill.simulate.compare import arguments
from twill.simulate.interpret import interpret
from twill.warp.signs import Signs

TEXT = """\
module attributes {{"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90"}} {{
  tt.func public @walk(%at: !tt.ptr<i32>, %n: i32, %m: i32) {{
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %two = arith.constant 2 : i32
    %less = arith.constant -1 : i32
    %pid = tt.get_program_id x : i32
    %end = scf.for %i = %zero to %n step %one iter_args(%x = {begin}) -> (i32) : i32 {{
      %place = tt.addptr %at, %i : !tt.ptr<i32>, i32
      tt.store %place, %x : !tt.ptr<i32>
{body}
      scf.yield %next : i32
    }}
    tt.return
  }}
}}
"""
NATURAL = {
    "added": "%next = arith.addi %x, %two : i32",
    "added an argument": "%next = arith.addi %x, %m : i32",
    "multiplied": "%y = arith.muli %x, %two : i32\n%next = arith.addi %y, %i : i32",
    "around": (
        "%y = arith.addi %x, %one : i32\n%last = arith.cmpi sge, %y, %m : i32\n"
        "%next = arith.select %last, %zero, %y : i32"
    ),
    "remainder": "%y = arith.addi %x, %two : i32\n%next = arith.remsi %y, %m : i32",
    "cut off": "%y = arith.subi %x, %two : i32\n%next = arith.maxsi %y, %zero : i32",
    "branches": (
        "%even = arith.cmpi slt, %i, %two : i32\n%next = scf.if %even -> (i32) {\n  scf.yield %one : i32\n"
        "} else {\n  %y = arith.addi %x, %one : i32\n  scf.yield %y : i32\n}"
    ),
}
BELOW = {
    "subtracted": "%next = arith.subi %x, %two : i32",
    "a constant": "%next = arith.addi %x, %less : i32",
    "back by blocks": (
        "%back = arith.muli %m, %less : i32\n%y = arith.addi %x, %back : i32\n"
        "%z = arith.addi %x, %one : i32\n"
        "%last = arith.cmpi sge, %z, %m : i32\n%next = arith.select %last, %y, %z : i32"
    ),
    "branches": (
        "%even = arith.cmpi slt, %i, %two : i32\n%next = scf.if %even -> (i32) {\n  scf.yield %one : i32\n"
        "} else {\n  %y = arith.subi %x, %two : i32\n  scf.yield %y : i32\n}"
    ),
}


def walk(body: str, begin: str = "%pid") -> tuple[Function, Value]:
    function = read(TEXT.format(body=body, begin=begin), "walk.ttgir").functions[0]
    loop = next(op for op in function.walk() if role(op) == "for")
    return function, loop.regions[0].blocks[0].args[1]


def least(function: Function) -> int:
    """The least of what iterations begin with, over numbers of iterations, an argument and a program."""
    found = list[int]()
    for n, m, pid in product(range(1, 6), range(1, 5), range(3)):
        values, memory = arguments(function, {"n": n, "m": m})
        interpret(function, values, memory, {"pid.x": pid, "grid.x": 3})
        found += memory.arrays["at"][:n].tolist()
    return min(found)


@pytest.mark.parametrize("name", NATURAL)
def test_not_negative(name: str) -> None:
    function, carried = walk(NATURAL[name])
    assert not Signs(function).carried_below_zero(carried)
    assert least(function) >= 0


@pytest.mark.parametrize("name", BELOW)
def test_may_be_negative(name: str) -> None:
    function, carried = walk(BELOW[name])
    assert Signs(function).carried_below_zero(carried)
    assert least(function) < 0


def test_begins_below_zero() -> None:
    function, carried = walk(NATURAL["added"], "%less")
    assert Signs(function).carried_below_zero(carried)


def test_what_no_loop_carries_is_taken_for_an_index() -> None:
    function, _ = walk("%next = arith.subi %m, %n : i32")
    next_ = next(value for op in function.walk() for value in op.results if value.name == "%next")
    assert not Signs(function).carried_below_zero(next_)


def test_a_proof_that_fails_leaves_nothing_behind() -> None:
    """What was shown of an inner loop under an assumption about the outer one falls with it."""
    function = read(
        """\
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90"} {
  tt.func public @nest(%n: i32) {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %out = scf.for %i = %zero to %n step %one iter_args(%x = %zero) -> (i32) : i32 {
      %in = scf.for %j = %zero to %n step %one iter_args(%y = %x) -> (i32) : i32 {
        %up = arith.addi %y, %one : i32
        scf.yield %up : i32
      }
      %down = arith.subi %in, %n : i32
      scf.yield %down : i32
    }
    tt.return
  }
}
""",
        "nest.ttgir",
    ).functions[0]
    outer, inner = (op for op in function.walk() if role(op) == "for")
    signs = Signs(function)
    assert signs.carried_below_zero(outer.regions[0].blocks[0].args[1])
    assert signs.carried_below_zero(inner.regions[0].blocks[0].args[1])
