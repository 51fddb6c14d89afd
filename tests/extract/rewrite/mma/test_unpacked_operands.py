"""Operands of 8 bits that are joined in registers are held exactly as TTGIR lays them out; no others are."""

from pathlib import Path

import pytest

from twill.extract.reader.ttgir import read
from twill.extract.rewrite.mma.shared_operands import staged_operands
from twill.extract.rewrite.mma.unpacked_operands import unpacked_operands
from twill.ir.distribution import distribution
from twill.ir.loop import DotOperand, Linear, Module, Tensor
from twill.ops.table import role


def module(kernel: str) -> Module:
    path = Path(f"tests/kernels/ttgir/{kernel}.sm90.ttgir")
    return read(path.read_text(), str(path))


@pytest.mark.parametrize("kernel", ["nibbled", "nibbled_e4m3"])
def test_joined_bytes_stay_in_their_registers(kernel: str) -> None:
    """As a linear layout that spreads the tile as the fragment of the MMA does; lines stay."""
    before = staged_operands(module(kernel))
    after = unpacked_operands(before)
    old, new = (
        next(op.result.type for op in one.functions[0].walk() if role(op) == "reshape")
        for one in (before, after)
    )
    assert isinstance(old, Tensor)
    assert isinstance(new, Tensor)
    assert isinstance(old.encoding, DotOperand)
    assert isinstance(new.encoding, Linear)
    assert new.encoding.exact
    assert distribution(new.encoding, new.shape) == distribution(old.encoding, old.shape)
    encodings = [
        v.type.encoding for op in after.functions[0].walk() for v in op.results if isinstance(v.type, Tensor)
    ]
    assert not any(isinstance(one, DotOperand) for one in encodings)
    assert after.text.count("\n", 0, after.text.index("tt.func")) == before.text.count(
        "\n", 0, before.text.index("tt.func")
    )


@pytest.mark.parametrize("kernel", ["rescaled_rows", "bytewise", "packed_halves"])
def test_other_operands_are_held_as_before(kernel: str) -> None:
    """Bytes that nothing takes apart, and operands that an MMA takes from registers."""
    before = staged_operands(module(kernel))
    assert unpacked_operands(before) is before
