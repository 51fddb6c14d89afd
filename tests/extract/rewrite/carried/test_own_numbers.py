"""Numbers that loads and computations follow from are carried once for each: the same values, no shared group."""

from pathlib import Path

import numpy as np
import pytest

from tests.simulate.test_values import grid
from twill.extract.dependence.loops import loops
from twill.extract.reader.ttgir import read
from twill.extract.rewrite.carried.own_numbers import own_numbers
from twill.extract.rewrite.carried.pointer_offsets import pointer_offsets
from twill.extract.rewrite.control.predication import predicated
from twill.inputs import Inputs, cases
from twill.ir.loop import Module
from twill.simulate.compare import arguments
from twill.simulate.global_memory import Memory
from twill.simulate.interpret import interpret
from twill.warp import dataflow
from twill.warp.alignment import ties

PATH = Path("tests/kernels/ttgir/circling.sm90.ttgir")


def module(text: str | None = None) -> Module:
    return pointer_offsets(predicated(read(text or PATH.read_text(encoding="utf-8"), str(PATH))))


@pytest.mark.parametrize("width", [64, 208])
@pytest.mark.parametrize("program", [0, 2])
def test_values_are_the_same(width: int, program: int) -> None:
    found = list[Memory]()
    before = read(PATH.read_text(encoding="utf-8"), str(PATH))
    for one in (before, own_numbers(module())):
        values, memory = arguments(one.functions[0], {"M": 192, "N": width})
        interpret(one.functions[0], values, memory, grid(program, 0, (3, 1)))
        found.append(memory)
    assert found[0].arrays["c"].any()
    for name in found[0].arrays:
        assert np.array_equal(found[0].arrays[name], found[1].arrays[name])


def test_no_group_has_to_load_and_to_compute() -> None:
    (case,) = [one for one in cases(Inputs(str(PATH), subtile=1)) if one.loop and one.loop.carried]
    assert case.module is not None
    assert case.loop is not None
    assert case.graph is not None
    code = dataflow.read(case.module, case.loop.function)
    tied = ties(code, [(case.loop, case.graph)], dataflow.variables(code, [case.loop]))
    loading = {op.id for op in case.problem.operations if op.variable}
    sets = dict[str, set[bool]]()
    for (_, node), name in tied.sets.items():
        sets.setdefault(name, set()).add(node in loading)
    assert loading
    assert len(sets) == 2
    assert all(len(kinds) == 1 for kinds in sets.values())


def test_every_number_that_is_carried_belongs_to_an_operation() -> None:
    """Also one that only changes what the next iteration but one loads."""
    (case,) = [one for one in cases(Inputs(str(PATH), subtile=1)) if one.loop and one.loop.carried]
    assert case.loop is not None
    assert case.graph is not None
    owned = {index for node in case.graph.nodes for index in node.ops}
    assert {one.yielded.producer for one in case.loop.carried} <= owned


def test_lines_stay_and_one_number_is_carried_besides() -> None:
    before, after = module(), own_numbers(module())
    assert before.text.count("\n") == after.text.count("\n")
    counts = [[len(loop.carried) for loop in loops(one)] for one in (before, after)]
    assert [more - few for few, more in zip(*counts, strict=True) if few] == [1]


def test_a_number_that_what_is_loaded_changes_stays() -> None:
    text = PATH.read_text(encoding="utf-8")
    step = "%at_27 = arith.addi %at_21, %c1_i32 : i32"
    assert step in text
    loaded = (
        "%twill_any = tt.load %a_number : !tt.ptr<i32> loc(unknown) "
        "%at_27 = arith.addi %at_21, %twill_any : i32"
    )
    pointer = text.replace("%c: !tt.ptr<f32>", "%a_number: !tt.ptr<i32>, %c: !tt.ptr<f32>", 1)
    assert pointer != text
    made = module(pointer.replace(step, loaded, 1))
    assert own_numbers(made) is made
