"""Tiles that a loop loads for its next iteration, loaded where they are read."""

import pytest

from tests.extract.rewrite.control.test_predication import module
from twill.extract.dependence.loops import loops
from twill.extract.reader.ttgir import read
from twill.extract.rewrite.carried.induction import from_iteration
from twill.extract.rewrite.carried.prefetched import loaded_in_place
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


def choices(loop: Loop) -> list[Op]:
    """Between the initial value and what was loaded."""
    made = [op for op in loop.ops if role(op) == "select"]
    return [op for op in made if op.result.name.startswith("%twill_current")]


@pytest.mark.parametrize("kernel", ["bytes_ahead", "ahead"])
def test_first_iteration_loads_what_the_loop_starts_from(kernel: str) -> None:
    """The load's address an iteration before is that of the load in front of the loop."""
    made = looped(module(kernel))
    assert not choices(made)
    assert all(len(op.operands) == 1 for op in loads(made))


OTHERS = {
    "another address": ("%42 = tt.load %39", "%42 = tt.load %36"),
    "another mask": ("arith.cmpi slt, %more", "arith.cmpi sle, %more"),
    "another condition": ("arith.cmpi slt, %more, %K", "arith.cmpi slt, %more, %N"),
}


@pytest.mark.parametrize("change", OTHERS)
def test_first_iteration_loads_nothing_in_place_of_other_tiles(change: str) -> None:
    """The load's addresses may be before those of the kernel."""
    text, (old, new) = module("bytes_ahead").text, OTHERS[change]
    assert old in text
    made = looped(read(text.replace(old, new), "bytes_ahead.ttgir"))
    assert choices(made)
    masked = [op for op in loads(made) if len(op.operands) > 1]
    assert len(masked) == len(choices(made))


def test_first_iteration_loads_nothing_where_the_kernel_stores_in_front_of_the_loop() -> None:
    text = module("bytes_ahead").text
    begin = text.rindex("\n", 0, text.index("scf.for")) + 1
    store = "%zero = arith.constant 0 : i8 loc(unknown) tt.store %b, %zero : !tt.ptr<i8> loc(unknown) "
    made = looped(read(text[:begin] + store + text[begin:], "bytes_ahead.ttgir"))
    assert [op.result.type.shape for op in choices(made) if isinstance(op.result.type, Tensor)] == [(64, 64)]


@pytest.mark.parametrize(("stored", "stays"), [("%c", False), ("%b", True)])
def test_a_tile_stays_carried_where_the_loop_stores_through_its_argument(stored: str, stays: bool) -> None:
    text = module("bytes_ahead").text
    begin = text.index("scf.yield")
    store = f"%at = tt.addptr {stored}, %i : !tt.ptr<{KINDS[stored]}>, i32 loc(unknown) "
    store += f"%zero = arith.constant {ZEROS[stored]} : {KINDS[stored]} loc(unknown) "
    store += f"tt.store %at, %zero : !tt.ptr<{KINDS[stored]}> loc(unknown) "
    made = looped(read(text[:begin] + store + text[begin:], "bytes_ahead.ttgir"))
    assert ("%y" in [one.arg.name for one in made.carried]) == stays
