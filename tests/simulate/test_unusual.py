"""Launches of kernels that write nothing with the usual numbers, or in the first programs of the grid."""

from dataclasses import replace

from tests.kernels.programs import program
from tests.simulate.test_index_arrays import kernel
from tests.simulate.test_values import grid
from twill.extract.reader.ttgir import read
from twill.simulate.check import compared_trial, trials
from twill.simulate.compare import wrong
from twill.simulate.unusual import launches, shows

LEVEL = """
module attributes {"ttg.num-warps" = 4 : i32, ttg.target = "cuda:90"} {
  tt.func public @k(%out: !tt.ptr<i32>, %level: i32) {
    %pid = tt.get_program_id x : i32
    %c1 = arith.constant 1 : i32
    %c0 = arith.constant 0 : i32
    %next = arith.addi %pid, %c1 : i32
    %bit = arith.shli %c1, %level : i32
    %own = arith.andi %next, %bit : i32
    %any = arith.cmpi ne, %own, %c0 : i32
    scf.if %any {
      %at = tt.addptr %out, %pid : !tt.ptr<i32>, i32
      tt.store %at, %c1 : !tt.ptr<i32>
    }
    tt.return
  }
}
"""
LAST = """
    %pid = tt.get_program_id z : i32
    %c63 = arith.constant 63 : i32
    %c128 = arith.constant 128 : i32
    %block = arith.subi %c63, %pid : i32
    %begin = arith.muli %block, %c128 : i32
    %length = tt.load %starts : !tt.ptr<i32>
    %any = arith.cmpi slt, %begin, %length : i32
    scf.if %any {
      %at = tt.addptr %out, %block : !tt.ptr<i32>, i32
      tt.store %at, %one : !tt.ptr<i32>
    }
    tt.return
"""
FIRST = grid(0, 0, (2, 2))


def test_a_number_that_chooses_a_part_is_small() -> None:
    function = read(LEVEL, "k.ttgir").functions[0]
    free = frozenset(arg.id for arg in function.args if arg.name == "%level")
    assert not shows(function, {"level": 16}, FIRST)
    assert list(launches(function, free, {"level": 16}, FIRST)) == [
        ({"level": 0.0}, FIRST),
        ({"level": 1.0}, FIRST),
    ]
    assert shows(function, {"level": 0.0}, FIRST)
    assert not list(launches(function, frozenset(), {"level": 16}, FIRST))


def test_a_number_keeps_the_divisor_that_is_promised() -> None:
    function = read(LEVEL, "k.ttgir").functions[0]
    promised = replace(function, arg_attributes=({}, {"tt.divisibility": 16}))
    free = frozenset(arg.id for arg in function.args if arg.name == "%level")
    assert list(launches(promised, free, {"level": 16}, FIRST)) == [({"level": 0.0}, FIRST)]


def test_a_kernel_that_begins_with_the_last_blocks_is_tried_in_the_last_program() -> None:
    """What it loads says how many blocks there are: no usual number gives the first program work."""
    function = kernel(LAST)
    assert not shows(function, {}, FIRST)
    ((numbers, late),) = launches(function, frozenset(), {}, FIRST)
    assert (numbers, late["pid.z"], late["grid.z"]) == ({}, 63, 64)
    assert shows(function, {}, late)


def test_tiles_that_are_done_already_are_none() -> None:
    """A number of tiles that bounds masks is no size: with many of them nothing is left."""
    made = program("leftover")
    found = trials(made)
    assert {trial.numbers["done"] for trial in found if shows(made.function, trial.numbers, trial.grid)} == {
        0
    }
    _, compared = compared_trial(made, found[0])
    assert sum(one.values for one in compared) > 0
    assert wrong(made.function, compared) is None
