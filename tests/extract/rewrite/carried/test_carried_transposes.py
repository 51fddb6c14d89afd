"""Accumulators that a loop carries transposed."""

from pathlib import Path

from twill.extract.dependence.loops import loops
from twill.extract.reader.ttgir import read
from twill.extract.rewrite.carried.carried_transposes import carried_as_computed
from twill.ir.loop import Module, NvidiaMma, Tensor
from twill.ops.table import role


def fixture(kernel: str, change: tuple[str, str] = ("", "")) -> Module:
    path = Path(f"tests/kernels/ttgir/{kernel}.sm90.ttgir")
    return read(path.read_text(encoding="utf-8").replace(*change), str(path))


def test_the_accumulator_is_carried_as_the_mma_has_it() -> None:
    before = fixture("quarters_and_whole")
    made = carried_as_computed(before)
    (loop,) = loops(made)
    (carried,) = loop.carried
    for value in (carried.init, carried.arg, carried.result, carried.yielded):
        assert isinstance(value.type, Tensor)
        assert isinstance(value.type.encoding, NvidiaMma)
    assert not any(role(op) == "transpose" for op in loop.body.ops)
    (mma,) = loop.tensor_ops
    assert carried.arg in mma.operands
    assert carried.yielded is mma.result
    assert made.text.count("\n") == before.text.count("\n")


def test_what_reads_it_behind_the_loop_reads_it_transposed() -> None:
    made = carried_as_computed(fixture("quarters_and_whole"))
    (loop,) = loops(made)
    (after,) = loop.function.users()[loop.carried[0].result.id]
    assert role(after) == "transpose"
    assert after.result.type == loops(fixture("quarters_and_whole"))[0].carried[0].result.type


def test_zeros_begin_it_as_zeros() -> None:
    (loop,) = loops(carried_as_computed(fixture("quarters_and_whole")))
    maker = next(op for op in loop.function.walk() if loop.carried[0].init in op.results)
    assert role(maker) == "constant"


def test_other_numbers_are_transposed_before_the_loop() -> None:
    change = ("%acc = arith.constant dense<0.000000e+00>", "%acc = arith.constant dense<1.000000e+00>")
    (loop,) = loops(carried_as_computed(fixture("quarters_and_whole", change)))
    maker = next(op for op in loop.function.walk() if loop.carried[0].init in op.results)
    assert role(maker) == "transpose"


def test_a_loop_without_such_a_tile_is_left_alone() -> None:
    before = fixture("quarters")
    assert carried_as_computed(before) is before
