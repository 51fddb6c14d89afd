"""Small tiles that are loaded behind a loop are loaded before it, where nothing stands against that."""

from tests.extract.rewrite.control.test_predication import module
from twill.extract.dependence.loops import loops
from twill.extract.reader.ttgir import read
from twill.extract.rewrite.loads.early_loads import loaded_early
from twill.ir.loop import Module
from twill.ops.table import role

FACTORS, BIAS = "%acc_20", "%acc_10"
"""Loads behind the loop of 2 and of 32 registers of a thread."""
ADDRESS = "%acc_15, %acc_18, %acc"
"""Operands of the first."""


def _early(made: Module) -> set[str]:
    """What is loaded before the loop."""
    (loop,) = loops(made)
    assert loop.function.body
    ops = loop.function.body.blocks[0].ops
    return {op.result.name for op in ops[: ops.index(loop.op)] if role(op) == "pointer_load"}


def _changed(old: str, new: str) -> Module:
    text = module("epilogue").text
    assert text.count(old) == 1
    return read(text.replace(old, new), "epilogue")


def test_a_load_of_few_registers_comes_before_the_loop_with_its_address() -> None:
    before = module("epilogue")
    after = loaded_early(before)
    assert _early(after) == {FACTORS}
    assert before.text.count("\n") == after.text.count("\n")
    assert loaded_early(after) is after


def test_before_a_short_loop_a_load_may_take_more_registers() -> None:
    assert _early(loaded_early(_changed("to %K step", "to %c128_i32 step"))) == {BIAS}


def test_a_load_stays_behind_a_store() -> None:
    kind = "tensor<128x!tt.ptr<f32>, #ttg.slice<{dim = 0, parent = #mma}>>"
    load = f"    {FACTORS} = tt.load"
    made = _changed(load, f"    tt.store %acc_5, %acc_1, %acc_8 : {kind} loc(unknown)\n{load}")
    assert loaded_early(made) is made


def test_a_volatile_load_stays() -> None:
    made = _changed(f"tt.load {ADDRESS} :", f"tt.load {ADDRESS} {{isVolatile = true}} :")
    assert loaded_early(made) is made


def test_a_load_stays_behind_the_load_that_it_follows_from_and_that_stays() -> None:
    """Its mask needs the bias, whose registers no loop of unknown length keeps."""
    kind = "tensor<128xi1, #ttg.slice<{dim = 0, parent = #mma}>>"
    made = _changed(
        "%acc_18 = arith.cmpi slt, %12, %acc_16 : tensor<128xi32, #ttg.slice<{dim = 1, parent = #mma}>>",
        "%late = arith.cmpf ogt, %acc_10, %acc_1 : tensor<128xf32, #ttg.slice<{dim = 0, parent = #mma}>>"
        f" loc(unknown) %acc_18 = ttg.convert_layout %late : {kind} -> {kind.replace('0', '1', 1)}",
    )
    assert loaded_early(made) is made


YIELD = "      scf.yield %acc_52"
VECTOR = "tensor<128xf32, #ttg.slice<{dim = 1, parent = #mma}>>"
POINTERS = VECTOR.replace("f32", "!tt.ptr<f32>")


def _storing(argument: str, written: str = f"tt.store %place, %zeros : {POINTERS}") -> Module:
    """The loop writes through an argument; the first load behind it is through `%scale`."""
    lines = (
        f"%zeros = arith.constant dense<0.0> : {VECTOR}",
        f"%place = tt.splat {argument} : !tt.ptr<f32> -> {POINTERS}",
        written,
    )
    return _changed(YIELD, "".join(f"      {line} loc(unknown)\n" for line in lines) + YIELD)


def test_a_load_comes_before_a_loop_that_stores_through_another_argument() -> None:
    assert _early(loaded_early(_storing("%norms"))) == {FACTORS}


def test_a_load_stays_behind_a_loop_that_stores_through_its_argument() -> None:
    made = _storing("%scale")
    assert loaded_early(made) is made


def test_a_load_stays_behind_a_loop_with_an_atomic_operation() -> None:
    """Others may wait for what it adds, and store what is loaded behind the loop."""
    kind = f"({POINTERS}, {VECTOR}) -> {VECTOR}"
    made = _storing("%norms", f"%was = tt.atomic_rmw fadd, relaxed, gpu, %place, %zeros : {kind}")
    assert loaded_early(made) is made


def test_a_load_comes_before_a_barrier_of_the_block() -> None:
    """One behind a store is refused, so that it orders nothing."""
    loop = "    } loc(#loc71)\n"
    assert _early(loaded_early(_changed(loop, f"{loop}    ttg.barrier local loc(unknown)\n"))) == {FACTORS}
