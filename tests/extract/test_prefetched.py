"""Tiles that a loop loads for its next iteration, loaded where they are read."""

import pytest

from tests.extract.test_predication import module
from twill.extract.dependence.loops import loops
from twill.extract.reader.ttgir import read
from twill.extract.rewrite.induction import from_iteration
from twill.extract.rewrite.prefetched import loaded_in_place
from twill.ir.loop import Loop, Module, Op, Tensor
from twill.ops.table import role

KINDS = {"%b": "i8", "%c": "f32"}
ZEROS = {"%b": "0", "%c": "0.000000e+00"}


def looped(before: Module) -> Loop:
    (loop,) = loops(loaded_in_place(from_iteration(before)))
    return loop


def loads(loop: Loop) -> list[Op]:
    return [op for op in loop.ops if role(op) == "pointer_load"]


def test_tiles_and_views_of_vectors_are_not_carried() -> None:
    made = looped(module("bytes_ahead"))
    assert [one.arg.name for one in made.carried] == ["%acc_1"]
    shapes = [op.result.type.shape for op in loads(made) if isinstance(op.result.type, Tensor)]
    assert sorted(shapes) == [(64,), (64, 64), (64, 64)]


def test_first_iteration_loads_nothing_in_place_of_what_it_has() -> None:
    """Its addresses would be before those of the kernel."""
    made = looped(module("bytes_ahead"))
    before = [op for op in loads(made) if "twill_before" in op.result.name]
    assert len(before) == 2
    assert all(len(op.operands) > 1 for op in before)


@pytest.mark.parametrize(("stored", "stays"), [("%c", False), ("%b", True)])
def test_a_tile_stays_carried_where_the_loop_stores_through_its_argument(stored: str, stays: bool) -> None:
    text = module("bytes_ahead").text
    begin = text.index("scf.yield")
    store = f"%at = tt.addptr {stored}, %i : !tt.ptr<{KINDS[stored]}>, i32 loc(unknown) "
    store += f"%zero = arith.constant {ZEROS[stored]} : {KINDS[stored]} loc(unknown) "
    store += f"tt.store %at, %zero : !tt.ptr<{KINDS[stored]}> loc(unknown) "
    made = looped(read(text[:begin] + store + text[begin:], "bytes_ahead.ttgir"))
    assert ("%y" in [one.arg.name for one in made.carried]) == stays
