"""Tiles that TMA loads in another order than their MMA reads them."""

import pytest

from twill.extract.reader.ttgir import read
from twill.extract.rewrite.loads.turned_loads import turned_loads
from twill.ir.loop import Module
from twill.ops.table import role


def module(name: str) -> Module:
    path = f"tests/kernels/ttgir/{name}.ttgir"
    with open(path, encoding="utf-8") as file:
        return read(file.read(), path)


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("matmul_outer_tf32.sm90", 2),
        ("matmul_outer_tf32.sm100", 2),
        ("matmul_mxfp8_mxfp4_turned.sm100", 1),
        ("matmul_outer.sm100", 0),
        ("matmul_tf32.sm100", 0),
        ("matmul_mxfp8_mxfp4.sm100", 0),
    ],
)
def test_what_the_mma_does_not_read_is_copied(name: str, count: int) -> None:
    before = module(name)
    after = turned_loads(before)
    copies = [op for op in after.functions[0].walk() if role(op) == "select"]
    buffers = [op for op in after.functions[0].walk() if role(op) == "alloc" and op.operands]
    assert sum(one.result.id == buffer.operands[0].id for one in copies for buffer in buffers) == count
    assert (after is before) == (count == 0)
    assert before.text.count("\n") == after.text.count("\n")
