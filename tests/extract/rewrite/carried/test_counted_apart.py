"""Numbers that a loop only counts are counted behind it: the same values, without a place in the schedule."""

from pathlib import Path

import numpy as np
import pytest

from tests.simulate.test_values import grid
from twill.extract.dependence.loops import loops
from twill.extract.reader.ttgir import read
from twill.extract.rewrite.carried.counted_apart import counted_apart
from twill.ir.loop import Module
from twill.simulate.compare import arguments
from twill.simulate.global_memory import Memory
from twill.simulate.interpret import interpret

PATH = Path("tests/kernels/ttgir/tolled.sm90.ttgir")
TEXT = PATH.read_text(encoding="utf-8")


def module(text: str = TEXT) -> Module:
    return read(text, str(PATH))


@pytest.mark.parametrize("width", [0, 64, 320])
def test_values_are_the_same(width: int) -> None:
    found = list[Memory]()
    for one in (module(), counted_apart(module())):
        values, memory = arguments(one.functions[0], {"N": width})
        interpret(one.functions[0], values, memory, grid(0, 0, (1, 1)))
        found.append(memory)
    assert found[0].arrays["c"].any()
    assert np.array_equal(found[0].arrays["c"], found[1].arrays["c"])


def test_the_loop_of_the_mma_carries_its_accumulator_alone() -> None:
    (before,), (loop, counting) = loops(module()), loops(counted_apart(module()))
    assert len(before.carried) == 3
    assert len(loop.carried) == 1
    assert loop.tensor_ops
    assert len(counting.carried) == 2
    assert not counting.tensor_ops


@pytest.mark.parametrize("number", ["%count", "%tolls_9"])
def test_numbers_that_the_loop_reads_stay(number: str) -> None:
    """With those that they follow from, and those that follow from them."""
    made = f"%twill_k = arith.addi %i, {number} : i32 loc(unknown) %x_11 = tt.splat %twill_k "
    text = TEXT.replace("%x_11 = tt.splat %i ", made, 1)
    assert text != TEXT
    assert counted_apart(module(text)).text == text
