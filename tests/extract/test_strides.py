"""How kernels address their arguments: what the strides are, and which the caller says as such."""

from pathlib import Path

import pytest

from twill.extract.reader.ttgir import read
from twill.extract.strides import layouts
from twill.ir.strides import Stride

KERNEL = """
#blocked = #ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [1, 32], warpsPerCTA = [4, 1], order = [1, 0]}>
#rows = #ttg.slice<{dim = 1, parent = #blocked}>
#columns = #ttg.slice<{dim = 0, parent = #blocked}>
module attributes {"ttg.num-warps" = 4 : i32} {
  tt.func public @k(%a: !tt.ptr<f16>, %b: !tt.ptr<f16>, %batch: i64, %pitch: i32, %M: i32) {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %block = arith.constant 32 : i32
    %pid = tt.get_program_id x : i32
    %wide = arith.extsi %pid : i32 to i64
    %begin = arith.muli %wide, %batch : i64
    %base = tt.addptr %a, %begin : !tt.ptr<f16>, i64
    %m = tt.make_range {start = 0 : i32, end = 32 : i32} : tensor<32xi32, #rows>
    %n = tt.make_range {start = 0 : i32, end = 32 : i32} : tensor<32xi32, #columns>
    %m2 = tt.expand_dims %m {axis = 1 : i32} : tensor<32xi32, #rows> -> tensor<32x1xi32, #blocked>
    %n2 = tt.expand_dims %n {axis = 0 : i32} : tensor<32xi32, #columns> -> tensor<1x32xi32, #blocked>
    %pitches = tt.splat %PITCH : i32 -> tensor<32x1xi32, #blocked>
    %r = arith.muli %m2, %pitches : tensor<32x1xi32, #blocked>
    %rs = tt.broadcast %r : tensor<32x1xi32, #blocked> -> tensor<32x32xi32, #blocked>
    %ns = tt.broadcast %n2 : tensor<1x32xi32, #blocked> -> tensor<32x32xi32, #blocked>
    %sum = arith.addi %rs, %ns : tensor<32x32xi32, #blocked>
    %bases = tt.splat %base : !tt.ptr<f16> -> tensor<32x32x!tt.ptr<f16>, #blocked>
    %first = tt.addptr %bases, %sum : tensor<32x32x!tt.ptr<f16>, #blocked>, tensor<32x32xi32, #blocked>
    %steps = arith.constant dense<32> : tensor<32x32xi32, #blocked>
    %last = scf.for %i = %zero to %M step %one iter_args(%p = %first) -> (tensor<32x32x!tt.ptr<f16>, #blocked>)  : i32 {
      %v = tt.load %p : tensor<32x32x!tt.ptr<f16>, #blocked>
      %next = tt.addptr %p, %steps : tensor<32x32x!tt.ptr<f16>, #blocked>, tensor<32x32xi32, #blocked>
      scf.yield %next : tensor<32x32x!tt.ptr<f16>, #blocked>
    }
    %x = tt.load %b : !tt.ptr<f16>
    tt.return
  }
}
"""


def strides(text: str) -> dict[str, tuple[Stride, ...] | None]:
    (function,) = read(text, "k.ttgir").functions
    return {one.argument: one.strides for one in layouts(function)}


def values(found: tuple[Stride, ...] | None, **numbers: int) -> dict[int, bool]:
    """The strides with these arguments, and whether they are told."""
    assert found is not None
    return {one.value(numbers): one.told for one in found}


def test_pointer_arithmetic_round_a_loop() -> None:
    """The steps of 32 columns are no stride of their own."""
    found = strides(KERNEL.replace("%PITCH", "%pitch"))
    assert values(found["a"], batch=7000, pitch=50, M=3) == {7000: True, 50: True, 1: False}
    assert values(found["b"]) == {}


def test_an_extent_that_is_a_pitch_too_is_not_told() -> None:
    found = strides(KERNEL.replace("%PITCH", "%M"))
    assert values(found["a"], batch=7000, pitch=50, M=3) == {7000: True, 3: False, 1: False}


def test_a_pitch_that_is_no_polynomial_fits_nothing() -> None:
    half = "%half = arith.divsi %pitch, %block : i32\n    %pitches = tt.splat %half"
    found = strides(KERNEL.replace("%pitches = tt.splat %PITCH", half))
    assert values(found["a"], batch=7000, pitch=50, M=3) == {7000: True, 1: False}


def test_an_address_from_memory_says_nothing() -> None:
    text = KERNEL.replace("%PITCH", "%pitch").replace(
        "%x = tt.load %b : !tt.ptr<f16>",
        "%q = tt.int_to_ptr %batch : i64 -> !tt.ptr<f16>\n    %x = tt.load %q : !tt.ptr<f16>",
    )
    assert strides(text) == {"a": None, "b": None}


@pytest.mark.parametrize(
    ("file", "argument", "expected"),
    [
        ("examples/ttgir/gemm.sm90.ttgir", "c", {30: False, 1: False}),
        ("examples/ttgir/fa_fwd_causal.sm90.ttgir", "lse", {70: False, 1: False}),
        ("tests/kernels/ttgir/batched.sm90.ttgir", "a", {800: False, 40: False, 1: False}),
        ("tests/kernels/ttgir/epilogue.sm90.ttgir", "bias", {1: False}),
    ],
)
def test_of_kernels(file: str, argument: str, expected: dict[int, bool]) -> None:
    found = strides(Path(file).read_text())
    assert values(found[argument], M=20, N=30, K=40, length=70) == expected
