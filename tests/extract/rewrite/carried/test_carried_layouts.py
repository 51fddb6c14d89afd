"""Loops without MMAs exchange nothing between threads that they need not exchange."""

import re
from collections.abc import Callable

import pytest

from tests.extract.rewrite.control.test_predication import module
from twill.extract.reader.ttgir import read
from twill.extract.rewrite.carried.carried_layouts import carried_as_added
from twill.extract.rewrite.loads.loads_as_read import loaded_as_read
from twill.ir.loop import Module, Op
from twill.ops.table import role
from twill.ops.values import element


def _loop(made: Module) -> Op:
    """The loop without an MMA."""
    return [op for function in made.functions for op in function.walk() if role(op) == "for"][-1]


def _exchanges(made: Module) -> int:
    """Changes of layout that an iteration makes, of tiles and vectors of numbers."""
    changes = [op for op in _loop(made).inner() if role(op) == "layout"]
    return sum(op.operands[0].type != op.result.type and element(op.result.type) != "ptr" for op in changes)


def test_a_sum_is_carried_in_the_layout_of_what_is_added() -> None:
    before = module("stepwise")
    after = carried_as_added(before)
    assert (_exchanges(before), _exchanges(after)) == (2, 1)
    carried = [(_loop(made).operands[3].type, _loop(made).result.type) for made in (before, after)]
    assert carried[0][0] == carried[0][1] != carried[1][0] == carried[1][1]
    assert before.text.count("\n") == after.text.count("\n")
    assert carried_as_added(after) is after


@pytest.mark.parametrize("number", ["", "#0"])
def test_what_reads_a_sum_reads_it_as_it_was(number: str) -> None:
    """Also where it is named by its number, as the only result of a loop that had others."""
    before = module("stepwise").text
    change = next(line for line in before.splitlines() if "%acc_22 = ttg.convert_layout %acc_21 " in line)
    doubled = f"%acc_both = arith.addf %acc_21{number}, %acc_21{number} : tensor<16x64xf32, #mma>"
    read_twice = before.replace(
        change, f"    {doubled} loc(unknown)\n{change.replace('%acc_21 ', '%acc_both ')}", 1
    )
    after = carried_as_added(read(read_twice.replace("%acc_21 = scf", "%acc_21:1 = scf"), "stepwise"))
    (twice,) = (op for op in after.functions[0].walk() if any(one.name == "%acc_both" for one in op.results))
    assert [one.type for one in twice.operands] == [twice.result.type] * 2
    assert _exchanges(after) == 1


def _with_sum(text: Callable[[str, str], str]) -> Module:
    """With another operation in the place of the sum, of what is carried and what is added."""
    before = module("stepwise").text
    carried, added = re.findall(r"arith.addf (%acc_\d+), (%acc_\d+) : .*#mma", before)[-1]
    after = before.replace(f"arith.addf {carried}, {added}", text(carried, added))
    assert after != before
    return read(after, "stepwise")


@pytest.mark.parametrize("word", ["mulf", "maxnumf", "subf"])
def test_other_operations_on_two_tiles_are_sums_too(word: str) -> None:
    made = carried_as_added(_with_sum(lambda carried, added: f"arith.{word} {added}, {carried}"))
    assert _exchanges(made) == 1


def test_a_sum_that_an_iteration_reads_stays() -> None:
    """It is in the layout in which it is read."""
    for made in (
        _with_sum(lambda carried, added: f"arith.addf {added}, {added}"),
        _with_sum(lambda carried, added: f"arith.addf {carried}, {carried}"),
    ):
        assert carried_as_added(made) is made


@pytest.mark.parametrize("kernel", ["pointers", "gathered_rows"])
def test_a_loop_with_an_mma_stays(kernel: str) -> None:
    made = module(kernel)
    assert carried_as_added(made) is made
    assert loaded_as_read(made) is made


def test_a_vector_is_loaded_as_it_is_read() -> None:
    before = module("stepwise")
    after = loaded_as_read(before)
    assert (_exchanges(before), _exchanges(after)) == (2, 1)
    assert before.text.count("\n") == after.text.count("\n")


def test_a_vector_that_is_read_as_it_was_loaded_stays() -> None:
    """Where anything but a change of layout reads it."""
    text = module("stepwise").text
    (vector,) = re.findall(r"(%row_\d+) = tt.load", text)
    made = read(text.replace(f"arith.extf {vector} :", f"arith.mulf {vector}, {vector} :"), "stepwise")
    assert loaded_as_read(made) is made


def test_a_vector_of_an_argument_that_is_stored_through_stays() -> None:
    """Threads find what they have stored themselves, not what others have."""
    text = module("stepwise").text
    stored = "tt.splat %c : !tt.ptr<f32>"
    assert text.count(stored) == 1
    own = text.replace("tt.addptr %rows, %row : !tt.ptr<bf16>, i32", "tt.addptr %c, %row : !tt.ptr<f32>, i32")
    begin, end = (own.index(word) for word in ("%row_24 =", "%gate ="))
    own = own[:begin] + own[begin:end].replace("bf16", "f32").replace("arith.extf", "math.absf") + own[end:]
    own = own.replace("tensor<64xf32, #blocked2> to tensor<64xf32, #blocked2>", "tensor<64xf32, #blocked2>")
    made = read(own, "stepwise")
    assert loaded_as_read(made) is made
    other = own.replace("tt.addptr %c, %row", "tt.addptr %gates, %row")
    assert loaded_as_read(read(other, "stepwise")).text != other
