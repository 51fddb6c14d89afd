"""Offsets that loads and computations read are carried once for each: the same values, no shared group."""

from pathlib import Path

import numpy as np
import pytest

from tests.simulate.test_values import grid
from twill.extract.dependence.loops import loops
from twill.extract.reader.ttgir import read
from twill.extract.rewrite.carried.own_offsets import own_offsets
from twill.inputs import Inputs, cases
from twill.ir.loop import Module, Scalar
from twill.simulate.compare import arguments
from twill.simulate.global_memory import Memory
from twill.simulate.interpret import interpret
from twill.warp import dataflow
from twill.warp.alignment import ties
from twill.warp.tasks import located

PATH = Path("tests/kernels/ttgir/leaping.sm90.ttgir")


def module() -> Module:
    return read(PATH.read_text(encoding="utf-8"), str(PATH))


@pytest.mark.parametrize("seed", range(4))
def test_values_are_the_same(seed: int) -> None:
    found = list[Memory]()
    for one in (module(), own_offsets(module())):
        function = one.functions[0]
        values, memory = arguments(function, {"K": 320}, seed)
        interpret(function, values, memory, grid(0, 0, (1, 1)))
        found.append(memory)
    assert found[0].arrays["o"].any()
    for name in found[0].arrays:
        assert np.array_equal(found[0].arrays[name], found[1].arrays[name])


def test_no_group_has_to_load_and_to_compute() -> None:
    (case,) = cases(Inputs(str(PATH), subtile=1))
    assert case.module is not None
    assert case.loop is not None
    assert case.graph is not None
    code = dataflow.read(case.module, case.loop.function)
    tied = ties(code, [(case.loop, case.graph)], dataflow.variables(code, [case.loop]))
    loading = {op.id for op in case.problem.operations if op.variable}
    sets = dict[str, set[bool]]()
    for (_, node), name in tied.sets.items():
        sets.setdefault(name, set()).add(node in loading)
    assert len(loading) == 5
    assert len(sets) == 4, "the accumulator, what loads read, and a vector for each mask"
    assert all(len(kinds) == 1 for kinds in sets.values())


def test_a_group_moves_all_numbers_that_it_carries() -> None:
    """Both are moved by what one load gives, and belong to that operation."""
    (case,) = cases(Inputs(str(PATH), subtile=1))
    assert case.module is not None
    assert case.loop is not None
    assert case.graph is not None
    numbers = {one.arg.id for one in case.loop.carried if isinstance(one.arg.type, Scalar)}
    (node,) = (one.id for one in case.graph.nodes if one.id.startswith("load.step"))
    read = located(dataflow.read(case.module, case.loop.function), case.loop, case.graph)[node]
    assert len(numbers) == 3
    assert numbers <= {value.id for value in read}


@pytest.mark.parametrize(("added", "more"), [("%c64_i32", 2), ("%i", 1)])
def test_what_is_added_before_the_loop_may_be_added_to_the_first_value(added: str, more: int) -> None:
    """The number of an iteration may not."""
    plain = "%y_26 = tt.splat %at : i32"
    sum_first = f"%y_sum = arith.addi %at, {added} : i32 loc(unknown) %y_26 = tt.splat %y_sum : i32"
    assert plain in module().text
    changed = read(module().text.replace(plain, sum_first), str(PATH))
    found = list[Memory]()
    for one in (changed, own_offsets(changed)):
        values, memory = arguments(one.functions[0], {"K": 320}, 1)
        interpret(one.functions[0], values, memory, grid(0, 0, (1, 1)))
        found.append(memory)
    (before,), (after,) = loops(changed), loops(own_offsets(changed))
    assert len(after.carried) == len(before.carried) + more
    assert np.array_equal(found[0].arrays["o"], found[1].arrays["o"])


def test_lines_stay_and_what_nobody_shares_stays() -> None:
    before, after = module(), own_offsets(module())
    assert before.text.count("\n") == after.text.count("\n")
    assert [len(loop.carried) for one in (before, after) for loop in loops(one)] == [4, 6]
    path = Path("tests/kernels/ttgir/jumping.sm90.ttgir")
    other = read(path.read_text(encoding="utf-8"), str(path))
    assert own_offsets(other) is other
