"""Backward slices of a kernel's operations."""

from pathlib import Path

from twill.extract.reader.ttgir import read
from twill.ir.loop import Op, Value
from twill.ir.slicing import all_operands, backward_slice, reached

MODULE = read(Path("examples/ttgir/gemm.sm90.ttgir").read_text(), "gemm.ttgir")
(FUNCTION,) = MODULE.functions
OPS = {op.index: op for op in FUNCTION.walk()}
LOOP = next(op for op in OPS.values() if op.name == "scf.for")
STORE = next(op for op in OPS.values() if "store" in op.name)


def maker(value: Value) -> Op | None:
    return None if value.producer is None else OPS[value.producer]


def test_a_slice_has_what_values_follow_from_and_ends_where_nothing_makes_one() -> None:
    found = backward_slice(STORE.operands, maker)
    assert LOOP.index in found
    assert STORE.index not in found
    assert not found.keys() & {op.index for op in LOOP.inner()}
    assert backward_slice(STORE.operands, lambda value: None) == {}


def test_a_slice_goes_into_regions_where_their_operands_are_read() -> None:
    inner = {op.index for op in LOOP.inner() if op.name == "ttng.warp_group_dot"}
    assert inner
    assert inner <= backward_slice(STORE.operands, maker, all_operands).keys()


def test_reached_values_include_the_first_ones() -> None:
    value = STORE.operands[0]
    assert reached([value], lambda one: ()) == {value.id}
    everything = reached(STORE.operands, lambda one: made.operands if (made := maker(one)) else ())
    made = {one.id for op in backward_slice(STORE.operands, maker).values() for one in op.operands}
    assert everything == made | {one.id for one in STORE.operands}
