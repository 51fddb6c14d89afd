"""Vectors that copies can not bring stay in registers where one group computes and loads."""

import shutil
from functools import cache
from pathlib import Path

import pytest

from twill.emulate.check import check as executed
from twill.generation.generate import generate
from twill.generation.generated import Generated, GenerateOptions
from twill.inputs import Inputs
from twill.ir.statements import Compute, ProducerLoad, walk
from twill.simulate.check import check
from twill.warp.plan import Options

NARROW = "%narrow"
VECTOR = "tensor<128x{}, #ttg.slice<{{dim = 1, parent = #mma}}>>"


def _text() -> str:
    """A product with a vector of two-byte numbers of which nothing is known to be aligned."""
    text = Path("tests/kernels/ttgir/scaled.sm90.ttgir").read_text()
    text = text.replace(
        "%left: !tt.ptr<f32> {tt.divisibility = 16 : i32}", "%left: !tt.ptr<f16> {tt.divisibility = 2 : i32}"
    )
    lines = text.splitlines()
    for i, line in enumerate(lines):
        if any(f"{name} = " in line for name in ("%47", "%48", "%49", "%50")):
            lines[i] = line.replace("!tt.ptr<f32>", "!tt.ptr<f16>").replace("%50 =", f"{NARROW} =")
        if "%50 = " in line:
            wide, narrow = VECTOR.format("f32"), VECTOR.format("f16")
            lines[i] += f"\n      %50 = arith.extf {NARROW} : {narrow} to {wide} loc(#loc25)"
    return "\n".join(lines)


@cache
def _made() -> Generated:
    options = GenerateOptions(time_limit=5.0, check=False, lowering=Options(multistage=True))
    return generate(Inputs(_text(), arch="sm90", groups=2), options)


def test_the_group_loads_the_vector_in_its_own_iteration() -> None:
    made = _made().program
    (group,) = made.groups
    (load,) = (op.index for op in made.function.walk() if op.results and op.result.name == NARROW)
    assert any(load in one.ops for one in walk(group.body) if isinstance(one, Compute))
    filled = (load for one in walk(group.body) if isinstance(one, ProducerLoad) for load in one.loads)
    assert not any(load in one.ops for one in filled)
    assert check(made, lambda what: None).values


@pytest.mark.skipif(not shutil.which("nvcc"), reason="needs nvcc")
def test_the_ptx_computes_the_same() -> None:
    made = _made()
    assert executed(made.program, made.loops, made.cuda, lambda what: None).values > 1000
