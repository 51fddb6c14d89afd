# pyright: basic, reportMissingImports=false
"""Every kernel that can be generated, on this machine's GPU, beside a direct execution of its TTGIR on the
CPU."""

from itertools import product
from typing import Any

import numpy as np
import pytest

from tests.gpu.kernels import ANY, here, kernel
from tests.kernels.programs import (
    BLACKWELL_FORMS,
    BLOCK_SCALED,
    EXAMPLES,
    FORMS,
    PAIRED,
    SCALED_EXAMPLES,
    loops,
)
from twill.ir.loop import Function
from twill.ops.values import element
from twill.simulate.compare import TOLERANCE, arguments, error, of_order, useful
from twill.simulate.interpret import interpret

pytestmark = pytest.mark.gpu(*ANY)

NUMBERS: dict[str, float] = {
    "M": 256,
    "N": 256,
    "K": 256,
    "COUNT": 256,
    "L": 1,
    "E": 2,
    "groups": 5,
    "pages": 2,
    "steps": 4,
    "which": 1,
    "taps": 2,
    "D": 48,
    "done": 0,
    "first": 8,
    "heads": 1,
    "slope": 0.125,
    "stride": 256,
    "row": 256,
    "apart": 256,
    "pitch": 256,
    "a_stride": 256,
    "b_stride": 256,
    "split": 128,
    "n": 5,
    "size": 16,
    "stride_h": 256,
}
SCALED = {"K": 640, "pitch": 32}
"""Of block-scaled kernels: whole blocks of scale factors."""
GRID = (2, 1, 1)
GRIDS: dict[str, tuple[int, int, int]] = dict.fromkeys(("overwritten", "accrued"), (1, 1, 1))
"""Of kernels whose programs write to the same places, in no order on a GPU: one program."""

TENSOR_CORE = 1e-3
"""Relative error that the tensor core makes by itself: tf32 operands are cut off, not rounded, and sums of
fp8 have about 14 bits."""

ROUNDED = 1e-2
"""The same where a kernel rounds what a function of the GPU gives to 8 bits: results that differ in their
last bit are rounded to neighbours, 1/16 apart, and a sum has many."""

_PAIRS = (name.removesuffix(".sm100") for name in PAIRED)
_EXAMPLES = (*EXAMPLES, *SCALED_EXAMPLES)
ON_BLACKWELL = (*BLACKWELL_FORMS, *(name for name in _PAIRS if name.removesuffix("_pairs") not in _EXAMPLES))

TORCH = {"bf16": "bfloat16", "f8E4M3FN": "float8_e4m3fn", "f8E5M2": "float8_e5m2"}
"""Types that NumPy lacks: the simulator keeps their values as float32."""


@pytest.mark.parametrize("name", FORMS if here() == "sm90" else ON_BLACKWELL)
def test_a_gpu_computes_what_the_ttgir_computes(name: str) -> None:
    import torch

    _, scheduled = loops(name if here() == "sm90" else f"{name}.{here()}")
    function = scheduled[0].loop.function
    names = {value.name.lstrip("%") for value in function.args}
    given = NUMBERS | (SCALED if name.removesuffix("_pairs") in BLOCK_SCALED else {})
    numbers: dict[str, Any] = {key: value for key, value in given.items() if key in names}
    contents = useful(function, numbers, place_of((0, 0, 0)))
    values, memory = arguments(function, numbers, 0, contents)
    grid = GRIDS.get(name, GRID)
    for place in product(*map(range, grid)):
        interpret(function, values, memory, place_of(place))
    _, fresh = arguments(function, numbers, 0, contents)
    fresh.types |= memory.types
    passed, pointed = dict(numbers), dict[int, Any]()
    for argument in sorted(memory.types, key=lambda one: not one.startswith("*")):
        array = fresh.array(argument, len(memory.arrays.get(argument, [0]))).copy()
        if argument in memory.addresses:
            named = [place for place, number in enumerate(array.tolist()) if number in pointed]
            array[named] = [pointed[number].data_ptr() for number in array[named].tolist()]
        narrow = TORCH.get(memory.types[argument])
        passed[argument] = torch.from_numpy(array).cuda().to(getattr(torch, narrow) if narrow else None)
        if argument.startswith("*"):
            pointed[int(argument[1:])] = passed[argument]
    kernel(name)[grid](**{name: one for name, one in passed.items() if not name.startswith("*")})
    for argument, touched in memory.arrays.items():
        if argument in memory.addresses:
            continue
        expected = memory.array(argument, len(touched))  # with what lies between its touched parts
        found = passed[argument].float() if memory.types[argument] in TORCH else passed[argument]
        kind = memory.types[argument]
        least = ROUNDED if rounds_to_bytes(function) else TENSOR_CORE
        allowed = max(least, TOLERANCE[kind], of_order(function)) if kind in TOLERANCE else 0
        assert error(expected.astype(np.float64), found.cpu().numpy().astype(np.float64)) <= allowed


def rounds_to_bytes(function: Function) -> bool:
    """What it computes with an approximated function becomes an operand of 8 bits."""
    ops = list(function.walk())
    narrow = any(op.name == "tt.fp_to_fp" and element(op.result.type).startswith("f8") for op in ops)
    return narrow and any(op.name == "math.exp2" for op in ops)


def place_of(place: tuple[int, ...]) -> dict[str, int]:
    names = [f"{what}.{axis}" for what in ("pid", "grid") for axis in "xyz"]
    return dict(zip(names, (*place, *GRID), strict=True))
