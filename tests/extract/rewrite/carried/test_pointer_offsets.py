"""Pointers that a loop moves by different steps are offsets of their own: the same values, no shared group."""

from pathlib import Path

import numpy as np
import pytest

from tests.simulate.test_values import grid
from twill.extract.dependence.loops import loops
from twill.extract.reader.ttgir import read
from twill.extract.rewrite.carried.pointer_offsets import pointer_offsets
from twill.extract.rewrite.control.predication import predicated
from twill.inputs import Inputs, cases
from twill.ir.loop import Module, Pointer, Scalar, Tensor
from twill.modulo.start import start
from twill.simulate.compare import arguments
from twill.simulate.global_memory import Memory
from twill.simulate.interpret import interpret

PATH = Path("tests/kernels/ttgir/pacing.sm90.ttgir")


def module(text: str | None = None) -> Module:
    return predicated(read(text or PATH.read_text(encoding="utf-8"), str(PATH)))


def carried(made: Module) -> list[object]:
    (loop,) = loops(made)
    kinds = [one.arg.type for one in loop.carried]
    return [kind.dtype if isinstance(kind, Tensor) else kind for kind in kinds]


@pytest.mark.parametrize("length", [64, 320, 576])
def test_values_are_the_same(length: int) -> None:
    found = list[Memory]()
    before = read(PATH.read_text(encoding="utf-8"), str(PATH))
    for one in (before, pointer_offsets(module())):
        values, memory = arguments(one.functions[0], {"M": 64, "N": 64, "K": length})
        interpret(one.functions[0], values, memory, grid(0, 0, (1, 1)))
        found.append(memory)
    for name in found[0].arrays:
        assert np.array_equal(found[0].arrays[name], found[1].arrays[name])
    a, b, weights = (found[0].arrays[name].astype(np.float32) for name in ("a", "b", "weights"))
    left, right = (one[: 64 * length].reshape(64, length) for one in (a, b[1:]))
    wanted = np.zeros((64, 64), np.float32)
    for block in range(length // 64):
        x, y = (one[:, 64 * at : 64 * at + 64] for one, at in ((left, block), (right, block // 2)))
        wanted += x @ y.T * weights[1 + block // 2 - block % 2]
    assert np.allclose(found[1].arrays["c"][: 64 * 64].reshape(64, 64), wanted, rtol=1e-2, atol=1e-2)


def test_numbers_are_carried_in_the_place_of_pointers() -> None:
    assert sum(isinstance(kind, Pointer) for kind in carried(module())) == 2
    made = carried(pointer_offsets(module()))
    assert not any(isinstance(kind, Pointer) for kind in made)
    assert made.count(Scalar("i64")) == 2
    assert module().text.count("\n") == pointer_offsets(module()).text.count("\n")


def test_pointers_that_are_read_behind_the_loop_stay() -> None:
    text, store = PATH.read_text(encoding="utf-8"), "    tt.return"
    read_behind = f"    %again = tt.load %acc#1 : !tt.ptr<f32>\n{store}"
    made = pointer_offsets(module(text.replace(store, read_behind, 1)))
    assert sum(isinstance(kind, Pointer) for kind in carried(made)) == 1


def test_no_load_has_to_share_a_group_with_a_computation() -> None:
    (case,) = cases(Inputs(str(PATH), arch="sm90", subtile=1))
    assert not start(case.problem).infeasible
    assert {op.id for op in case.problem.operations if op.name.startswith(("branch", "select"))} == set()
