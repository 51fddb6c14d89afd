"""Iterations of loops that are not scheduled, which load together."""

import re

import pytest

from tests.kernels.programs import cuda, loops
from twill.ir.loop import Op
from twill.ops.table import role
from twill.targets.cuda.loops.unrolled_loops import gathers_loads


def unscheduled(kernel: str) -> list[Op]:
    module, found = loops(kernel)
    scheduled = {one.loop.op.index for one in found}
    function = module.functions[0]
    return [op for op in function.walk() if role(op) == "for" and op.index not in scheduled]


def test_tiles_that_follow_from_the_iteration_are_loaded_together() -> None:
    """Four iterations in one basic block, and the rest one by one."""
    assert all(gathers_loads(loop, ["one = two;"]) for loop in unscheduled("stepwise"))
    text = cuda("stepwise")
    assert "while (int64_t(v_j) + 3 * 1 < v_n) {" in text
    assert re.search(r"for \(int together_ = 0; together_ < 4; \+\+together_, v_j \+= 1\) {", text)
    assert text.count("for (; v_j < v_n; v_j += 1) {") == text.count("while (int64_t(v_j) + 3 * 1 < v_n) {")


@pytest.mark.parametrize("line", ["named_barrier_sync(group_1_barrier, 128);", "await_reads(tile);"])
def test_not_behind_what_orders_loads(line: str) -> None:
    assert not any(gathers_loads(loop, [line]) for loop in unscheduled("stepwise"))
    shuffled = ["sum += __shfl_xor_sync(~0u, sum, 4);"]
    assert all(gathers_loads(loop, shuffled) for loop in unscheduled("stepwise"))


@pytest.mark.parametrize("kernel", ["searched", "interrupted"])
def test_loops_over_numbers_are_left_to_the_compiler(kernel: str) -> None:
    assert unscheduled(kernel)
    assert not any(gathers_loads(loop, []) for loop in unscheduled(kernel))
