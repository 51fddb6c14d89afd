"""Operands that an MMA cannot take from registers are copied to shared memory as they are computed, and once."""

from pathlib import Path

from tests.kernels.programs import loops
from twill.extract.reader.ttgir import read
from twill.extract.rewrite.mma.shared_operands import staged_operands
from twill.ir.loop import MemDesc
from twill.ops.table import role

KERNEL = Path("tests/kernels/ttgir/recalled.sm90.ttgir")


def test_two_mmas_read_one_copy_of_the_elements_that_both_take_in_their_own_layouts() -> None:
    module = staged_operands(read(KERNEL.read_text(), str(KERNEL)))
    dots = [op for op in module.functions[0].walk() if role(op) == "wgmma"]
    assert all(isinstance(dot.operands[0].type, MemDesc) for dot in dots)
    scores, out, recalled, state = (dot.operands[0].name for dot in dots)
    assert scores == recalled
    assert len({scores, out, state}) == 3


def test_a_tile_is_copied_before_it_changes_its_layout() -> None:
    """The scores are copied as the accumulator that they are."""
    module = staged_operands(read(KERNEL.read_text(), str(KERNEL)))
    makers = {value.id: op for op in module.functions[0].walk() for value in op.results}
    _, out, *_ = (op for op in module.functions[0].walk() if role(op) == "wgmma")
    source = makers[out.operands[0].id].operands[0]
    assert role(makers[source.id]) == "select"


def test_what_only_another_layout_needed_is_not_executed() -> None:
    """The queries are widened once, and the scores change no layout."""
    _, (loop,) = loops("recalled")
    nodes = [node.id for node in loop.graph.nodes]
    assert not any(node.startswith("convert.scores") for node in nodes)
    assert sum(node.startswith("ext.x") for node in nodes) <= 1
    assert sum("twill_operand" in node for node in nodes) == 3


def test_a_half_of_a_loaded_tile_is_copied_and_a_whole_one_is_not() -> None:
    """No registers hold it: nothing computes it. The whole tile is read where the load puts it."""
    half, whole = (
        Path(f"tests/kernels/ttgir/{name}.sm90.ttgir") for name in ("every_other_half", "pointers")
    )
    module = staged_operands(read(half.read_text(), str(half)))
    (dot,) = (op for op in module.functions[0].walk() if role(op) == "wgmma")
    assert isinstance(dot.operands[0].type, MemDesc)
    assert staged_operands(read(whole.read_text(), str(whole))).text == whole.read_text()
