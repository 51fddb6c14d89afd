"""Launches of kernels that write nothing with the usual numbers, or in the first programs of the grid."""

from dataclasses import replace

import pytest

from tests.kernels.programs import program
from tests.simulate.test_index_arrays import kernel
from tests.simulate.test_values import grid
from twill.extract.frontend.persistent import persistent
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
FAR = """
module attributes {"ttg.num-warps" = 4 : i32, ttg.target = "cuda:90"} {
  tt.func public @k(%out: !tt.ptr<i32>, %rows: i32) {
    %pid = tt.get_program_id x : i32
    %c4 = arith.constant 4 : i32
    %c5 = arith.constant 5 : i32
    %c128 = arith.constant 128 : i32
    %row = arith.muli %pid, %c128 : i32
    %rest = arith.remsi %pid, %c5 : i32
    %fifth = arith.cmpi eq, %rest, %c4 : i32
    %inside = arith.cmpi slt, %row, %rows : i32
    %any = arith.andi %fifth, %inside : i1
    scf.if %any {
      %at = tt.addptr %out, %pid : !tt.ptr<i32>, i32
      tt.store %at, %c4 : !tt.ptr<i32>
    }
    tt.return
  }
}
"""
FIRST = grid(0, 0, (2, 2))


def test_a_number_that_chooses_a_part_is_small() -> None:
    function = read(LEVEL, "k.ttgir").functions[0]
    free = frozenset(arg.id for arg in function.args if arg.name == "%level")
    assert not shows(function, {"level": 16}, FIRST)
    found = list(launches(function, free, {"level": 16}, FIRST))
    assert found[:2] == [({"level": 0.0}, FIRST), ({"level": 1.0}, FIRST)]
    assert {numbers["level"] for numbers, _ in found[2:]} == {2048.0}
    assert shows(function, {"level": 0.0}, FIRST)
    assert {numbers["level"] for numbers, _ in launches(function, frozenset(), {"level": 16}, FIRST)} == {16}


def test_a_number_keeps_the_divisor_that_is_promised() -> None:
    function = read(LEVEL, "k.ttgir").functions[0]
    promised = replace(function, arg_attributes=({}, {"tt.divisibility": 16}))
    free = frozenset(arg.id for arg in function.args if arg.name == "%level")
    found = [numbers["level"] for numbers, _ in launches(promised, free, {"level": 16}, FIRST)]
    assert (found[0], {*found[1:]}) == (0.0, {2048.0})


def test_a_kernel_that_begins_with_the_last_blocks_is_tried_in_the_last_program() -> None:
    """What it loads says how many blocks there are: no usual number gives the first program work."""
    function = kernel(LAST)
    assert not shows(function, {}, FIRST)
    numbers, late = next(launches(function, frozenset(), {}, FIRST))
    assert (numbers, late["pid.z"], late["grid.z"]) == ({}, 63, 64)
    assert shows(function, {}, late)


@pytest.mark.parametrize("walks", [False, True])
def test_a_kernel_that_writes_far_from_the_first_rows_is_tried_there(walks: bool) -> None:
    """Every fifth program, and only below the number of rows (fla's transformed queries, one state for each
    512 rows): more rows than usual, in a later program."""
    module = read(FAR, "k.ttgir")
    function = (persistent(module) if walks else module).functions[0]
    free = frozenset(arg.id for arg in function.args if arg.name == "%rows")
    numbers = {"rows": 512, **({f"twill_grid_{axis}": 2 for axis in "xyz"} if walks else {})}
    assert not shows(function, numbers, FIRST)
    more, late = next(one for one in launches(function, free, numbers, FIRST) if shows(function, *one))
    assert (more["rows"], late["pid.x"], late["grid.x"]) == (2048, 4, 5)
    assert not walks or more["twill_grid_x"] == 5


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
