"""Trip counts of loops, against Python's own count."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.kernels.programs import program
from twill.diagnostics import TwillError
from twill.extract.dependence.loops import loops
from twill.extract.reader.ttgir import read
from twill.ir.statements import If, Pipelined, Statement, walk
from twill.simulate.actions import Taken, toward_loops, two_ways, unfold
from twill.simulate.explore import explore, same
from twill.simulate.trips import trips

MADE_FROM_MEMORY = """
module attributes {"ttg.num-warps" = 4 : i32} {
  tt.func public @k(%n: !tt.ptr<i32>) {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %most = tt.load %n : !tt.ptr<i32>
    scf.for %i = %zero to %most step %one : i32 {
      scf.yield
    }
    tt.return
  }
}
"""


def counted(kernel: str, numbers: dict[str, int], pid: int, grid: int) -> list[int]:
    """Of every loop that is scheduled."""
    path = f"examples/ttgir/{kernel}.sm90.ttgir"
    module = read(Path(path).read_text(), path)
    location = {"pid.x": pid, "pid.y": 0, "grid.x": grid, "grid.y": 1}
    found = [loop for loop in loops(module) if loop.schedulable]
    values = {
        arg.id: np.asarray(numbers[arg.name[1:]]) for arg in found[0].function.args if arg.name[1:] in numbers
    }
    return [trips(loop.function, loop.op, values, location) for loop in found]


def test_a_loop_by_itself() -> None:
    assert counted("gemm", {"M": 256, "N": 256, "K": 640}, 0, 2) == [10]


def test_a_loop_in_another() -> None:
    for pid in range(3):
        tiles = len(range(pid, (512 // 128) * (512 // 256), 3))
        assert counted("gemm_persistent", {"M": 512, "N": 512, "K": 640}, pid, 3) == [10 * tiles]


def test_a_loop_whose_bounds_are_the_same_in_every_iteration_around_it_is_counted_once() -> None:
    sizes = {"M": 1 << 20, "N": 1 << 20, "K": 640}
    assert counted("gemm_persistent", sizes, 0, 1) == [10 * (1 << 13) * (1 << 12)]


def test_bounds_that_follow_from_the_program_id() -> None:
    for pid in range(8):
        assert counted("fa_fwd_causal", {"heads": 1, "length": 1024}, pid, 8) == [7 - pid, 1]


def test_a_step_of_zero_is_an_error() -> None:
    text = MADE_FROM_MEMORY.replace("%most = tt.load %n : !tt.ptr<i32>", "%most = arith.constant 4 : i32")
    module = read(text.replace("step %one", "step %zero"), "k.ttgir")
    (loop,) = loops(module)
    with pytest.raises(TwillError, match="step is 0"):
        trips(loop.function, loop.op, {}, {"pid.x": 0, "grid.x": 1})


def test_bounds_from_memory_are_not_known() -> None:
    module = read(MADE_FROM_MEMORY, "k.ttgir")
    (loop,) = loops(module)
    with pytest.raises(TwillError, match="not known"):
        trips(loop.function, loop.op, {}, {})


def test_a_branch_with_a_loop_is_followed_wherever_it_stands() -> None:
    """`branching` stores zeros and returns where a size in memory is zero; its loop stands in the other
    branch."""
    for group in program("branching").groups:
        assert any(action.loop is not None for action in unfold(group.body, lambda loop: 3)), group.id


def without_loops(branch: If) -> If:
    """A branch of a group that has nothing to do in its first part."""
    return replace(branch, then=())


def loops_of(body: tuple[Statement, ...], taken: Taken) -> set[int]:
    """The pipelined loops that a group comes to."""
    actions = unfold(body, lambda loop: 1, taken)
    return {action.loop for action in actions if action.loop is not None}


@pytest.mark.parametrize("second", [False, True])
def test_all_groups_take_the_same_part_of_a_branch(*, second: bool) -> None:
    """`nested` has loops in both parts of a branch; a group that has one in the second part alone does
    nothing where the others take the first."""
    bodies = [group.body for group in program("nested").groups]
    (body, *_) = (one for one in bodies if two_ways([one]))
    branch = next(one for one in walk(body) if isinstance(one, If) and two_ways([(one,)]))
    first, other = (
        {one.op for one in walk(part) if isinstance(one, Pipelined)}
        for part in (branch.then, branch.otherwise)
    )
    taken = toward_loops([*bodies, (without_loops(branch),)], second=second)
    assert loops_of((branch,), taken) == (other if second else first)
    assert loops_of((without_loops(branch),), taken) == (other if second else set())
    assert explore(program("nested"), same(2), second=second).complete
