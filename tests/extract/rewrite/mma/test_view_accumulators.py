"""MMAs that add to a tile in another layout of the same registers add to zeros: the same values."""

from pathlib import Path

import numpy as np

from tests.simulate.test_values import grid
from twill.extract.reader.ttgir import read
from twill.extract.rewrite.mma.view_accumulators import apart
from twill.ir.loop import Module
from twill.ops.table import role
from twill.simulate.compare import arguments, error
from twill.simulate.interpret import interpret

PATH = Path("tests/kernels/ttgir/retyped.sm90.ttgir")


def module(text: str | None = None) -> Module:
    return read(text or PATH.read_text(encoding="utf-8"), str(PATH))


def accumulators(made: Module) -> list[str]:
    """What makes the accumulators of the MMAs, one behind the other."""
    function = made.functions[0]
    makers = {value.id: op for op in function.walk() for value in op.results}
    return [role(makers[op.operands[2].id]) or "" for op in function.walk() if role(op) == "wgmma"]


def test_a_result_in_the_layout_of_other_types_is_added_behind_the_mma() -> None:
    assert accumulators(module()) == ["constant", "layout"]
    assert accumulators(apart(module())) == ["constant", "constant"]
    assert apart(module()).text.count("\n") == module().text.count("\n")


def test_a_tile_that_moves_between_threads_is_an_accumulator() -> None:
    """Its layout is an operation of the schedule, and has registers of its own."""
    text = PATH.read_text(encoding="utf-8")
    head, rest = text.split("#mma1 = ", 1)
    moved = f"{head}#mma1 = {rest.replace('warpsPerCTA = [4, 1]', 'warpsPerCTA = [2, 2]', 1)}"
    assert apart(module(moved)).text == moved


def test_values_are_the_same() -> None:
    found = list[np.ndarray]()
    for one in (module(), apart(module())):
        function = one.functions[0]
        values, memory = arguments(function, {"K": 192}, 0)
        interpret(function, values, memory, grid(0, 0, (1, 1)))
        found.append(memory.arrays["o"].astype(float))
    assert np.any(found[0])
    assert error(found[0], found[1]) < 1e-3
