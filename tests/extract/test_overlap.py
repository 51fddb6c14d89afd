"""Which arguments must not share memory, and which may be one array."""

import pytest

from twill.extract.overlap import apart
from twill.extract.reader.ttgir import read
from twill.inputs import Inputs, origin
from twill.ir.apart import Apart

HEAD = """
#blocked = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
#other = #ttg.blocked<{sizePerThread = [4], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
module attributes {"ttg.num-warps" = 4 : i32} {
  tt.func public @k(%a: !tt.ptr<f16>, %b: !tt.ptr<f16>, %unused: !tt.ptr<f16>, %N: i32) {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %block = arith.constant 128 : i32
    %pid = tt.get_program_id x : i32
    %begin = arith.muli %pid, %block : i32
    %r = tt.make_range {start = 0 : i32, end = 128 : i32} : tensor<128xi32, #blocked>
    %splat = tt.splat %begin : i32 -> tensor<128xi32, #blocked>
    %at = arith.addi %splat, %r : tensor<128xi32, #blocked>
    %again = arith.addi %splat, %r : tensor<128xi32, #blocked>
    %further = arith.addi %at, %r : tensor<128xi32, #blocked>
    %as = tt.splat %a : !tt.ptr<f16> -> tensor<128x!tt.ptr<f16>, #blocked>
    %bs = tt.splat %b : !tt.ptr<f16> -> tensor<128x!tt.ptr<f16>, #blocked>
    %pa = tt.addptr %as, %at : tensor<128x!tt.ptr<f16>, #blocked>, tensor<128xi32, #blocked>
    %pb = tt.addptr %bs, %again : tensor<128x!tt.ptr<f16>, #blocked>, tensor<128xi32, #blocked>
    %far = tt.addptr %bs, %further : tensor<128x!tt.ptr<f16>, #blocked>, tensor<128xi32, #blocked>
"""
TAIL = """
    tt.return
  }
}
"""
LOAD = "%x = tt.load %pa : tensor<128x!tt.ptr<f16>, #blocked>"
DOUBLE = "%y = arith.addf %x, %x : tensor<128xf16, #blocked>"
STORE = "tt.store %pb, %y : tensor<128x!tt.ptr<f16>, #blocked>"
LOOP = "scf.for %i = %zero to %N step %one  : i32 {"


def pairs(*body: str) -> tuple[Apart, ...]:
    (function,) = read(HEAD + "\n".join(body) + TAIL, "k.ttgir").functions
    return apart(function)


def test_a_tile_that_is_updated_where_it_was_loaded_may_be_in_one_array() -> None:
    """The address is computed twice; a change of layout keeps elements apart."""
    assert pairs(LOAD, DOUBLE, STORE) == (Apart("b", "a", in_place=True),)
    there = "%c = ttg.convert_layout %x : tensor<128xf16, #blocked> -> tensor<128xf16, #other>"
    back = "%y = ttg.convert_layout %c : tensor<128xf16, #other> -> tensor<128xf16, #blocked>"
    assert pairs(LOAD, there, back, STORE) == (Apart("b", "a", in_place=True),)


@pytest.mark.parametrize(
    "body",
    [
        (LOAD, DOUBLE, STORE.replace("%pb", "%far")),
        (LOAD, "%y = arith.constant dense<1.0> : tensor<128xf16, #blocked>", STORE),
        (LOOP, LOAD, DOUBLE, STORE, "}"),
        (LOAD, DOUBLE, LOOP, STORE, "}"),
        (LOAD, LOAD.replace("%x", "%z").replace("%pa", "%far"), DOUBLE, STORE),
        (LOAD, DOUBLE, STORE, "%late = tt.load %pb : tensor<128x!tt.ptr<f16>, #blocked>"),
    ],
    ids=["elsewhere", "of-nothing", "in-a-loop", "into-a-loop", "read-through-both", "read-again"],
)
def test_other_uses_of_one_array_are_not_known_to_be_right(body: tuple[str, ...]) -> None:
    assert [(one.stored, one.other, one.in_place) for one in pairs(*body)] == [("b", "a", False)]


def test_what_is_only_read_or_not_touched_may_lie_anywhere() -> None:
    assert pairs(LOAD, LOAD.replace("%x", "%z").replace("%pa", "%pb")) == ()


def test_pointers_that_a_loop_carries_or_a_branch_chooses_are_of_their_arguments() -> None:
    tile = "tensor<128x!tt.ptr<f16>, #blocked>"
    carried = (
        f"%last = scf.for %i = %zero to %N step %one iter_args(%p = %pa) -> ({tile})  : i32 {{",
        f"%v = tt.load %p : {tile}",
        f"%next = tt.addptr %p, %r : {tile}, tensor<128xi32, #blocked>",
        f"scf.yield %next : {tile}",
        "}",
        f"%y = tt.load %last : {tile}",
    )
    assert pairs(*carried, STORE) == (Apart("b", "a"),)
    condition = "%c = arith.cmpi slt, %N, %one : i32"
    chosen = f"%p = arith.select %c, %pa, %pb : {tile}"
    assert pairs(LOAD, condition, chosen, STORE.replace("%pb", "%p").replace("%y", "%x")) == (
        Apart("a", "b"),
    )


def test_of_a_product_the_result_is_apart_from_the_operands() -> None:
    module, _ = origin(Inputs("examples/ttgir/gemm.sm90.ttgir", arch="sm90"))
    assert apart(module.functions[0]) == (Apart("c", "a"), Apart("c", "b"))
