"""Scale factors that threads compute go through shared memory; nothing else changes."""

import re
from pathlib import Path

import numpy as np

from twill.extract.reader.ttgir import read
from twill.extract.rewrite.mma.shared_scales import shared_scales
from twill.ir.loop import MemDesc, Module, Op, SharedLinear
from twill.ops.mma import inputs
from twill.ops.table import role
from twill.simulate.compare import arguments
from twill.simulate.global_memory import Memory
from twill.simulate.interpret import interpret

LOADED = "tests/kernels/ttgir/matmul_mxfp8_loaded.sm100.ttgir"
NUMBERS = {"M": 128, "N": 128, "K": 256, "pitch": 16}


def module(change: str = "", to: str = "") -> Module:
    text = Path(LOADED).read_text()
    assert change in text
    return read(text.replace(change, to) if change else text, LOADED)


def dot(made: Module) -> Op:
    (found,) = (op for op in made.functions[0].walk() if role(op) == "tensor_memory_mma")
    return found


def executed(made: Module) -> Memory:
    values, memory = arguments(made.functions[0], dict(NUMBERS), 0)
    place = {"pid.x": 0, "pid.y": 0, "pid.z": 0, "grid.x": 1, "grid.y": 1, "grid.z": 1}
    interpret(made.functions[0], values, memory, place)
    return memory


def test_an_mma_reads_its_scale_factors_in_blocks_of_shared_memory() -> None:
    before = module()
    after = shared_scales(before)
    for value in inputs(dot(after))[2:]:
        kind = value.type
        assert isinstance(kind, MemDesc)
        assert kind.space == "smem"
        assert isinstance(kind.encoding, SharedLinear)
        assert kind.encoding.offset[:4] == ((0, 1), (0, 2), (32, 0), (64, 0))
    assert after.text.count("\n") == before.text.count("\n")
    one, other = (executed(made).array("c", 128 * 128) for made in (before, after))
    assert np.any(one)
    assert np.array_equal(one, other)


def test_a_tile_is_taken_in_the_layout_in_which_it_is_loaded() -> None:
    changes = [role(op) for op in module().functions[0].walk()].count("layout")
    left = [role(op) for op in shared_scales(module()).functions[0].walk()].count("layout")
    assert left == changes - 1


def test_factors_that_do_not_fill_blocks_stay() -> None:
    """Two of a row: 64 elements along K."""
    text = re.sub(r"128x4x(i\d+|i1|!tt\.ptr<i8>)", r"128x2x\1", Path(LOADED).read_text())
    made = read(text, LOADED)
    assert shared_scales(made) is made
