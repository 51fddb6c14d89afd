"""Operands of mma.sync for which registers do not suffice are read from shared memory in every iteration."""

from pathlib import Path

from tests.kernels.programs import cuda, loops
from twill.extract.reader.ttgir import read
from twill.extract.rewrite.mma.staged_fragments import staged_fragments
from twill.ir.loop import Module
from twill.ops.table import role


def _module(name: str) -> Module:
    path = Path(f"tests/kernels/ttgir/{name}.sm90.ttgir")
    return read(path.read_text(encoding="utf-8"), str(path))


def test_an_operand_of_which_every_warp_holds_all_columns_is_read_in_the_loop() -> None:
    """128 registers of 16 x 512 elements beside two times 68 for accumulators."""
    ops = list(staged_fragments(_module("rehearsed")).functions[0].walk())
    makers = {value.id: op for op in ops for value in op.results}
    scores, out = (op for op in ops if role(op) == "dot")
    load = makers[scores.operands[0].id]
    assert role(load) == "buffer_load"
    assert role(makers[load.operands[0].id]) == "alloc"
    assert role(makers[out.operands[0].id]) == "layout"


def test_an_operand_that_registers_suffice_for_stays_there() -> None:
    module = _module("peeked_columns")
    assert staged_fragments(module) is module


def test_reads_of_all_warps_are_part_of_the_mma() -> None:
    """Each of four warps reads all 16 KiB."""
    _, (loop,) = loops("rehearsed")
    (scores, _) = (node for node in loop.graph.nodes if node.kind == "mma")
    assert scores.work[0].read == 4 * 16 * 512 * 2
    assert [(one.tile.place, one.tile.bytes) for one in loop.graph.invariants] == [("shared", 16 * 512 * 2)]
    assert not any(node.kind == "shared_load" for node in loop.graph.nodes)


def test_few_accumulators_are_summed_in_several_parts() -> None:
    """For scores, 32 instructions would wait for each other; for the output, 16 are
    in progress together."""
    text = cuda("rehearsed")
    assert "warp_mma<__half, 1, 1, 32, 2, 4>" in text
    assert "warp_mma<__half, 1, 16, 1, 2>" in text
