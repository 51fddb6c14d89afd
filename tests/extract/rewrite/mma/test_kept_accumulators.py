"""MMAs whose accumulator is needed again add to zeros: the same values, the same lines; others stay."""

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.kernels.programs import program
from tests.simulate.test_values import grid
from twill.diagnostics import DefectError
from twill.extract.reader.ttgir import read
from twill.extract.rewrite.control.predication import predicated
from twill.extract.rewrite.mma.kept_accumulators import kept
from twill.ir.loop import Module
from twill.ir.operands import Register
from twill.ir.program import Program, WarpProgram
from twill.ir.statements import MmaIssue, Pipelined
from twill.ops.table import role
from twill.simulate.compare import arguments, error
from twill.simulate.interpret import interpret
from twill.targets.hopper import source

RIVALS = "tests/kernels/ttgir/rivals.sm90.ttgir"


def module(kernel: str = RIVALS) -> Module:
    return predicated(read(Path(kernel).read_text(encoding="utf-8"), kernel))


def mmas(made: Module) -> list[str]:
    """What makes the accumulators of the MMAs."""
    function = made.functions[0]
    makers = {value.id: op for op in function.walk() for value in op.results}
    found = [op.operands[2].id for op in function.walk() if role(op) == "wgmma"]
    return [role(makers[one]) or makers[one].name if one in makers else "carried" for one in found]


def test_each_of_several_adds_to_zeros() -> None:
    assert mmas(module()) == ["carried", "carried", "value"]
    assert mmas(kept(module())) == ["constant"] * 3
    assert kept(module()).text.count("\n") == module().text.count("\n")


@pytest.mark.parametrize("seed", range(2))
def test_values_are_the_same(seed: int) -> None:
    found = list[np.ndarray]()
    for one in (module(), kept(module())):
        function = one.functions[0]
        values, memory = arguments(function, {"M": 64, "N": 64, "K": 256}, seed)
        interpret(function, values, memory, grid(0, 0, (1, 1)))
        found.append(memory.arrays["c"].astype(float))
    assert np.any(found[0])
    assert error(found[0], found[1]) < 1e-5


def test_integers_are_added_as_integers() -> None:
    text = module().text.replace("xf32, #mma>", "xi32, #mma>").replace("dense<5.000000e-01>", "dense<2>")
    whole = kept(read(text.replace("dense<0.000000e+00>", "dense<0>"), "rivals.ttgir"))
    assert whole.text.count("arith.addi") - text.count("arith.addi") == 3


@pytest.mark.parametrize("kernel", ["skipping", "guarded", "faded", "recurrent"])
def test_an_accumulator_of_one_mma_stays(kernel: str) -> None:
    made = module(f"tests/kernels/ttgir/{kernel}.sm90.ttgir")
    assert kept(made) is made


def aged(thing: Any) -> Any:
    """The same statements, whose MMAs read an accumulator of an iteration before."""
    if isinstance(thing, tuple):
        return tuple(map(aged, thing))  # pyright: ignore[reportUnknownArgumentType]
    if isinstance(thing, MmaIssue):
        reads = (
            replace(one, location=Register("older", 1)) if isinstance(one.location, Register) else one
            for one in thing.reads
        )
        return replace(thing, reads=tuple(reads))
    if isinstance(thing, Program | WarpProgram | Pipelined):
        names = [one.name for one in fields(thing) if one.init]
        return replace(thing, **{name: aged(getattr(thing, name)) for name in names})
    return thing


def test_an_mma_on_other_registers_than_its_accumulators_is_a_defect() -> None:
    assert "wgmma_f16" in source(program("gemm"))
    with pytest.raises(DefectError, match="adds to other registers"):
        source(aged(program("gemm")))
