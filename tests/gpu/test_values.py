# pyright: basic, reportMissingImports=false
"""Generated kernels on this machine's GPU: values on all kinds of shapes, many launches, the same bits
each time."""

from dataclasses import replace
from typing import Any

import pytest

from benchmarks.hopper import VARIANTS, options
from tests.gpu.kernels import ANY, here, kernel, lineup
from twill.bench.contenders import field
from twill.bench.run import values
from twill.extract.frontend.arguments import from_text
from twill.generation.builds.built import built
from twill.generation.generated import GenerateOptions
from twill.inputs import Inputs
from twill.launch.load import load

pytestmark = pytest.mark.gpu(*ANY)

PRODUCTS = ("gemm", "gemm_persistent", "dual_gemm", "gemm_reduction")
ATTENTION = ("fa_fwd", "fa_fwd_subtiled", "fa_fwd_causal")

SIZES = [
    {"M": 128, "N": 256, "K": 64},
    {"M": 384, "N": 768, "K": 192},
    {"M": 1280, "N": 2304, "K": 320},
    {"M": 4096, "N": 4096, "K": 1024},
]
"""One tile and one iteration; odd grids; more tiles than SMs."""
LENGTHS = [
    {"heads": 1, "length": 128},
    {"heads": 3, "length": 384},
    {"heads": 5, "length": 640},
    {"heads": 32, "length": 2048},
]

CASES = [(name, size) for name in PRODUCTS for size in SIZES] + [
    (name, length) for name in (*ATTENTION, "fa_bwd") for length in LENGTHS
]
LARGEST = [(name, SIZES[-1]) for name in PRODUCTS] + [(name, LENGTHS[-1]) for name in ATTENTION]


@pytest.mark.parametrize(("name", "shape"), CASES)
def test_values_are_right(name: str, shape: dict[str, int]) -> None:
    field = lineup(name)
    case = field.case(shape)
    for _ in range(3):
        assert values(field, case)


@pytest.mark.parametrize(("name", "shape"), [("gemm", SIZES[2]), ("gemm_persistent", SIZES[3])])
@pytest.mark.parametrize("columns", [16, 144, 240])
def test_last_columns_of_a_tile_are_right(name: str, shape: dict[str, int], columns: int) -> None:
    ragged = lineup(name)
    assert values(ragged, ragged.case({**shape, "N": shape["N"] - 256 + columns}))


@pytest.mark.skipif(here() != "sm90", reason="--tile is for sm90 alone")
@pytest.mark.parametrize("columns", [96, 160, 192, 224])
@pytest.mark.parametrize("bits", [8, 16])
def test_tiles_that_triton_does_not_compile(bits: int, columns: int) -> None:
    """Two tiles in flight up to 192 columns."""
    types = {"a": "*fp8e4nv:16", "b": "*fp8e4nv:16", "BLOCK_K": "128"} if bits == 8 else {}
    settings = tuple({**types, "num_warps": "4"}.items())
    spec = "examples/kernels.py:gemm_persistent"
    inputs = Inputs(spec, arch="sm90", settings=settings, tile=("BLOCK_N", columns))
    options = GenerateOptions(check=False)
    made = field(spec, "sm90", from_text(dict(settings)), load(built(inputs, options)))
    for shape in SIZES[1:]:
        assert values(made, made.case(shape))


VARIED = {
    "fa_fwd_subtiled.heads_64": [1, 3, 11],
    "fa_fwd.heads_256": [1, 3, 8],
    "fa_fwd_causal.dynamic": [1, 3, 16],
    "fa_fwd_masked.dynamic": [1, 3, 16],
    "fa_fwd_window": [1, 9, 16],
    "fa_fwd_softcap": [1, 3, 16],
}
"""Attention as it is measured on Hopper, with multiples of its tiles of 128 queries (384, with tiles of 192
keys) in a sequence."""


@pytest.mark.skipif(here() != "sm90", reason="their schedules are for sm90")
@pytest.mark.parametrize("name", VARIED)
def test_what_is_measured_is_right_and_the_same_each_time(name: str) -> None:
    variant, step = VARIANTS[name], 384 if "heads_64" in name else 128
    built_here = load(built(variant.inputs, replace(options(name), schedules=(), check=False)))
    made = field(variant.inputs.spec, "sm90", from_text(dict(variant.settings)), built_here)
    for tiles in VARIED[name]:
        case = made.case({**variant.small[0], "heads": 12, "length": tiles * step})
        assert values(made, case)
    _same_each_time(made.own(case), case)


@pytest.mark.parametrize(("name", "shape"), LARGEST)
def test_a_thousand_launches_give_the_same_bits(name: str, shape: dict[str, int]) -> None:
    field = lineup(name)
    case = field.case(shape)
    _same_each_time(field.own(case), case)


def _same_each_time(run: Any, case: Any) -> None:
    import torch

    run()
    first = {output: case.arguments[output].clone() for output in case.outputs}
    case.poison()
    for _ in range(1000):
        run()
    torch.cuda.synchronize()
    for output, expected in first.items():
        assert torch.equal(case.arguments[output], expected)


def test_arrays_of_more_than_two_to_the_31_elements() -> None:
    import torch

    rows, columns, depth = 2112 * 128, 256, 8192
    assert rows * depth > 2**31
    a = torch.randn(rows, depth, device="cuda", dtype=torch.float16)
    b = torch.randn(columns, depth, device="cuda", dtype=torch.float16)
    c = torch.full((rows, columns), float("nan"), device="cuda", dtype=torch.float16)
    kernel("gemm")[(rows // 128,)](a, b, c, rows, columns, depth)
    for at in (0, rows // 2, rows - 512):
        expected = a[at : at + 512].float() @ b.float().T
        assert torch.allclose(c[at : at + 512].float(), expected, rtol=2e-3, atol=0.5)
