"""Persistent loops flattened by hand: the same values from a nest of loops, the same lines; loops whose parts
hand on more than a nest does stay as they are."""

from pathlib import Path

import numpy as np
import pytest

from twill.extract.dependence.loops import loops
from twill.extract.reader.ttgir import read
from twill.extract.rewrite.control.flattened_loops import unflattened
from twill.ir.loop import Module
from twill.ops.table import is_mma
from twill.simulate.compare import arguments
from twill.simulate.interpret import interpret


def flat(old: str = "", new: str = "", arch: str = "sm90") -> Module:
    path = Path(f"tests/kernels/ttgir/flattened.{arch}.ttgir")
    text = path.read_text(encoding="utf-8")
    assert old in text
    return read(text.replace(old, new, 1) if old else text, str(path))


def stored(made: Module, pid: int, **sizes: int) -> np.ndarray:
    values, memory = arguments(made.functions[0], dict(sizes))
    place = {"pid.x": pid, "pid.y": 0, "pid.z": 0, "grid.x": 2, "grid.y": 1, "grid.z": 1}
    interpret(made.functions[0], values, memory, place)
    return memory.array("c", sizes["M"] * sizes["N"])


def test_it_is_a_nest() -> None:
    original, nest = flat(), unflattened(flat())
    assert [(loop.depth, len(loop.carried)) for loop in loops(nest)] == [(0, 1), (1, 1)]
    assert original.text.count("\n") == nest.text.count("\n")
    lines = [[op.location.line for op in made.functions[0].walk() if is_mma(op)] for made in (original, nest)]
    assert lines[0] == lines[1]


@pytest.mark.parametrize("arch", ["sm90", "sm100"])
@pytest.mark.parametrize("pid", [0, 1])
@pytest.mark.parametrize("K", [0, 64, 160])
def test_values_are_the_same(K: int, pid: int, arch: str) -> None:
    """On Blackwell the loop also carries whether an MMA adds, which is false again behind each tile."""
    sizes = {"M": 256, "N": 384, "K": K}
    nest = unflattened(flat(arch=arch))
    assert len(list(loops(nest))) == 2
    assert np.array_equal(stored(flat(arch=arch), pid, **sizes), stored(nest, pid, **sizes))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("%k_11 = %c-1_i32", "%k_11 = %c0_i32"),
        ("%7 = arith.cmpi eq, %k_15, %k ", "%7 = arith.cmpi eq, %k_15, %c1_i32 "),
        ("%7 = arith.cmpi eq, %k_15, %k ", "%7 = arith.cmpi ne, %k_15, %k "),
        ("arith.select %k_13, %c0_i32", "arith.select %k_13, %c1_i32"),
        ("%tile_23 = arith.addi %tile_10, %tiles_6", "%tile_23 = arith.addi %tile_10, %k_15"),
        ("scf.yield %tile_10, %row, %col", "scf.yield %tile_10, %col, %row"),
        ("scf.yield %6#0, %k_15, %6#1, %6#2", "scf.yield %6#0, %k_15, %6#2, %6#1"),
        ("%acc_16 = arith.muli %k_15, %c64", "%acc_16 = arith.muli %row, %c64"),
        ("c_desc_1[%6#1, %6#2]", "c_desc_1[%6#1, %acc_16]"),
        ("%4 = arith.muli %tiles_9, %1", "%4 = arith.muli %tiles_9, %tiles_9"),
    ],
)
def test_other_loops_stay(old: str, new: str) -> None:
    made = flat(old, new)
    assert unflattened(made).text == made.text
