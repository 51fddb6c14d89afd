"""MMAs outside of loops become loops of one iteration: the same values, the same lines."""

from pathlib import Path

import pytest

from tests.simulate.test_values import grid
from twill.extract.dependence.loops import loops
from twill.extract.reader.ttgir import read
from twill.extract.rewrite.fresh_accumulators import fresh
from twill.extract.rewrite.single_iteration import in_loops
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
