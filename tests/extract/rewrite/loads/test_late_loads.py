"""Tiles that only code behind a loop reads are loaded behind it, where nothing stands against that."""

from tests.extract.rewrite.control.test_predication import module
from twill.extract.dependence.loops import loops
from twill.extract.reader.ttgir import read
from twill.extract.rewrite.loads.late_loads import loaded_late
from twill.ir.loop import Module
from twill.ops.table import role

LOOP = "    %acc = scf.for"
GATES, SHIFTS, LAST = "%34", "%37", "%factor_20"
TILE, POINTERS = "tensor<64x64xf32, #blocked>", "tensor<64x64x!tt.ptr<f32>, #blocked>"


def _early(made: Module) -> set[str]:
    """What is loaded before the loop."""
    (loop,) = loops(made)
    assert loop.function.body
    ops = loop.function.body.blocks[0].ops
    return {op.result.name for op in ops[: ops.index(loop.op)] if role(op) == "pointer_load"}


def _with(inserted: str) -> Module:
    """The kernel with operations in front of its loop."""
    text = module("tempered").text
    assert text.count(LOOP) == 1
    return read(text.replace(LOOP, f"    {inserted} loc(unknown)\n{LOOP}"), "tempered")


def _storing(argument: str) -> str:
    return (
        f"%to = tt.splat {argument} : !tt.ptr<f32> -> {POINTERS} loc(unknown)\n"
        f"    %zeros = arith.constant dense<0.000000e+00> : {TILE} loc(unknown)\n"
        f"    tt.store %to, %zeros : {POINTERS}"
    )


def test_what_only_code_behind_a_loop_reads_is_loaded_behind_it() -> None:
    before = module("tempered")
    assert _early(before) == {GATES, SHIFTS, LAST}
    after = loaded_late(before)
    assert not _early(after)
    assert before.text.count("\n") == after.text.count("\n")
    assert loaded_late(after) is after


def test_loads_pass_a_store_through_another_argument() -> None:
    assert not _early(loaded_late(_with(_storing("%c"))))


def test_a_load_stays_before_a_store_through_its_argument() -> None:
    assert _early(loaded_late(_with(_storing("%shift")))) == {SHIFTS}


def test_loads_stay_before_what_waits_for_others() -> None:
    made = _with("ttg.barrier local")
    assert loaded_late(made) is made


def test_what_is_also_read_before_the_loop_stays() -> None:
    made = _with(
        f"%twice = arith.addf {GATES}, {GATES} : {TILE} loc(unknown)\n    "
        + _storing("%c").replace("%zeros :", "%twice :")
    )
    assert _early(loaded_late(made)) == {GATES}


def test_a_volatile_load_stays() -> None:
    text = module("tempered").text
    old = f"{SHIFTS} = tt.load %36, %within_16 :"
    assert text.count(old) == 1
    made = read(text.replace(old, f"{old[:-2]} {{isVolatile = true}} :"), "tempered")
    assert _early(loaded_late(made)) == {SHIFTS}


def test_what_the_loop_reads_stays() -> None:
    made = module("deflated")
    assert loaded_late(made) is made
