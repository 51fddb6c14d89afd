"""Which arrays hold exponents, found by what becomes of their numbers."""

import pytest

from tests.simulate.test_values import grid
from twill.extract.reader.ttgir import read
from twill.simulate.compare import arguments
from twill.simulate.interpret import interpret
from twill.simulate.number_kinds import kinds

HEAD = """
module attributes {"ttg.num-warps" = 4 : i32, ttg.target = "cuda:90"} {
  tt.func public @k(%scales: !tt.ptr<i8>, %out: !tt.ptr<f32>) {
    %i = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32>
    %from = tt.splat %scales : !tt.ptr<i8> -> tensor<64x!tt.ptr<i8>>
    %read = tt.addptr %from, %i : tensor<64x!tt.ptr<i8>>, tensor<64xi32>
    %x = tt.load %read : tensor<64x!tt.ptr<i8>>
"""
TAIL = """
    %to = tt.splat %out : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
    %at = tt.addptr %to, %i : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
    tt.store %at, %y : tensor<64x!tt.ptr<f32>>
    tt.return
  }
}
"""
SHIFTED = """
    %bits = arith.constant dense<{bits}> : tensor<64xi32>
    %wide = arith.extui %x : tensor<64xi8> to tensor<64xi32>
    %high = arith.shli %wide, %bits : tensor<64xi32>
    %y = tt.bitcast %high : tensor<64xi32> -> tensor<64xf32>
"""
POWER = """
    %bias = arith.constant dense<{bias}> : tensor<64xf32>
    %real = arith.uitofp %x : tensor<64xi8> to tensor<64xf32>
    %less = arith.subf %real, %bias : tensor<64xf32>
    %y = math.exp2 %less : tensor<64xf32>
"""
MASKED = """
    %bits = arith.constant dense<23> : tensor<64xi32>
    %low = arith.constant dense<15> : tensor<64xi8>
    %some = arith.andi %x, %low : tensor<64xi8>
    %wide = arith.extui %some : tensor<64xi8> to tensor<64xi32>
    %high = arith.shli %wide, %bits : tensor<64xi32>
    %y = tt.bitcast %high : tensor<64xi32> -> tensor<64xf32>
"""


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (SHIFTED.format(bits=23), True),
        (SHIFTED.format(bits=16), False),
        (POWER.format(bias="1.270000e+02"), True),
        (POWER.format(bias="1.500000e+01"), False),
        (MASKED, False),
    ],
    ids=["shifted", "shifted-by-another-width", "power", "power-with-another-bias", "part-of-a-byte"],
)
def test_exponents(body: str, *, found: bool) -> None:
    function = read(HEAD + body + TAIL, "k.ttgir").functions[0]
    assert kinds(function) == ({"scales": "scales"} if found else {})


def test_scale_factors_are_around_one() -> None:
    function = read(HEAD + SHIFTED.format(bits=23) + TAIL, "k.ttgir").functions[0]
    values, memory = arguments(function, {})
    interpret(function, values, memory, grid(0, 0, (1, 1)))
    assert set(memory.arrays["out"][:64].tolist()) == {0.125, 0.25, 0.5, 1.0}
