"""What a loop prepares for its next iteration if there is one, prepared where it is read."""

from collections.abc import Mapping

import pytest

from tests.extract.rewrite.control.test_predication import module
from tests.simulate.test_values import grid
from twill.extract.dependence.loops import loops
from twill.extract.reader.ttgir import read
from twill.extract.rewrite.carried.guarded_prefetches import prepared_in_place
from twill.ir.loop import Loop, Module
from twill.ops.table import role
from twill.simulate.compare import arguments, error
from twill.simulate.global_memory import Memory
from twill.simulate.interpret import interpret


def changed(changes: Mapping[str, str]) -> Module:
    text = module("slots_ahead").text
    for old, new in changes.items():
        assert text.count(old) == 1
        text = text.replace(old, new)
    return read(text, "slots_ahead.ttgir")


def looped(changes: Mapping[str, str]) -> Loop:
    (loop,) = loops(prepared_in_place(changed(changes)))
    return loop


def test_nothing_is_carried_of_what_the_next_iteration_reads() -> None:
    loop = looped({})
    assert not loop.carried
    assert not [op for op in loop.ops if role(op) == "if"]
    assert sum(role(op) == "pointer_load" for op in loop.ops) == 2


@pytest.mark.parametrize("size", [64, 192, 200])
def test_values_are_the_same(size: int) -> None:
    found = list[Memory]()
    for one in (changed({}), prepared_in_place(changed({}))):
        values, memory = arguments(one.functions[0], {"N": size}, 0)
        interpret(one.functions[0], values, memory, grid(0, 0, (1, 1)))
        found.append(memory)
    for name in found[0].arrays:
        before, after = (memory.arrays[name].astype(float) for memory in found)
        assert error(before, after) == 0


OTHERS = {
    "another condition": {"%6 = arith.cmpi slt, %5, %N": "%6 = arith.cmpi sle, %5, %N"},
    "another address": {"%slot_29 = tt.addptr %slot, %m_6": "%slot_29 = tt.addptr %slot, %inside_first"}
    | {"%slot = tt.splat": "%inside_first = arith.addi %m_6, %m_6 : tensor<64xi32,"
       " #ttg.slice<{dim = 0, parent = #blocked}>>\n    %slot = tt.splat"},
    "no mask": {"tt.load %slot_29, %inside_27, %cst_2 :": "tt.load %slot_29 :"},
    "other old values": {"scf.yield %slot_35, %inside_36, %inside_37": "scf.yield %slot_30, %inside_36, %inside_37"},
}  # fmt: skip


@pytest.mark.parametrize("change", OTHERS)
def test_the_branch_stays_where_an_iteration_may_read_something_else(change: str) -> None:
    assert len(looped(OTHERS[change]).carried) == 3
