"""An accumulator that goes from one loop to the next stays in tensor memory: the copy through registers is left
out where nothing else needs it, and nothing else changes."""

from pathlib import Path

import numpy as np
import pytest

from twill.extract.reader.ttgir import read
from twill.extract.rewrite.mma.tensor_copies import without_tensor_copies
from twill.ir.loop import Module
from twill.ops.table import role
from twill.simulate.compare import arguments
from twill.simulate.global_memory import Memory
from twill.simulate.interpret import interpret

CONTINUED = "tests/kernels/ttgir/continued.sm100.ttgir"
NUMBERS = {"M": 128, "N": 128, "K": 192, "split": 64}


def module(path: str = CONTINUED, old: str = "", new: str = "") -> Module:
    text = Path(path).read_text()
    assert old in text
    return read(text.replace(old, new, 1) if old else text, path)


def roles(made: Module, wanted: str) -> int:
    return sum(role(op) == wanted for op in made.functions[0].walk())


def executed(made: Module) -> Memory:
    values, memory = arguments(made.functions[0], dict(NUMBERS), 0)
    place = {"pid.x": 0, "pid.y": 0, "pid.z": 0, "grid.x": 1, "grid.y": 1, "grid.z": 1}
    interpret(made.functions[0], values, memory, place)
    return memory


def test_the_second_loop_adds_to_the_first_buffer() -> None:
    before = module()
    after = without_tensor_copies(before)
    for what in ("tensor_memory_alloc", "tensor_memory_load", "tensor_memory_store"):
        assert roles(after, what) == roles(before, what) - 1
    assert after.text.count("\n") == before.text.count("\n")
    one, other = executed(before), executed(after)
    assert np.array_equal(one.array("c", 128 * 128), other.array("c", 128 * 128))


def test_all_copies_go() -> None:
    after = without_tensor_copies(module("examples/ttgir/fa_fwd_causal.sm100.ttgir"))
    assert roles(after, "tensor_memory_alloc") == 10  # of 12: the accumulators of the second loop go


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("%acc_8[%acc_9], %true :", "%acc_8[%acc_9], %false :"),
        (
            "    %acc_12, %acc_13 = ttng.tmem_load %acc_8[%acc_11]",
            "    %acc_12, %acc_13 = ttng.tmem_load %acc_2[%acc_11]",
        ),
    ],
)
def test_a_buffer_that_is_needed_again_keeps_its_copy(old: str, new: str) -> None:
    made = module(old=old, new=new)
    assert without_tensor_copies(made) is made


def test_what_is_changed_between_the_loops_goes_through_registers() -> None:
    made = module("tests/kernels/ttgir/continued_scaled.sm100.ttgir")
    assert without_tensor_copies(made) is made
