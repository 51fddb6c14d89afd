"""Lanes go down the rows where runs of neighbours in a row would meet in the same banks."""

from pathlib import Path

import pytest

from tests.kernels.programs import program
from twill.extract.reader.ttgir import read
from twill.extract.rewrite.layouts.lanes_down_rows import lanes_down_rows
from twill.ir.loop import Blocked, Module, Tensor
from twill.ops.table import role
from twill.targets.hopper import source


def module(kernel: str, *changes: tuple[str, str]) -> Module:
    text = Path(f"tests/kernels/ttgir/{kernel}.sm90.ttgir").read_text(encoding="utf-8")
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return read(text, kernel)


def orders(made: Module) -> list[tuple[int, ...]]:
    """Of the layouts of tiles that are stored as operands."""
    ops = [op for function in made.functions for op in function.walk() if role(op) == "alloc" and op.operands]
    kinds = [op.operands[0].type for op in ops]
    layouts = [kind.encoding for kind in kinds if isinstance(kind, Tensor)]
    return [layout.order for layout in layouts if isinstance(layout, Blocked)]


def test_weights_that_a_thread_unpacks_are_stored_by_eight_rows_at_a_time() -> None:
    """32 numbers of 16 bits in a row, four threads beside each other: 256 bytes, two rows of the swizzle."""
    assert (0, 1) not in orders(module("unpacked"))
    made = lanes_down_rows(module("unpacked"))
    assert (0, 1) in orders(made)
    assert made.text.count("\n") == module("unpacked").text.count("\n"), "lines stay"
    assert "swizzle<128>(((thread.lane & 7) + " in source(program("unpacked")), (
        "a row for each of eight threads"
    )


@pytest.mark.parametrize("kernel", ["dequantized", "rotated"])
def test_other_kernels_stay_as_they_are(kernel: str) -> None:
    one = module(kernel)
    assert lanes_down_rows(one) is one
