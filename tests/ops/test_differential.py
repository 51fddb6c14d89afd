"""Each row's CUDA beside its meaning in NumPy, over the edge values of every type.

All cases are one shared object: the C expressions compiled for the host, with `cuda_on_host.hpp` for what
CUDA has of its own.
"""

import ctypes
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.ops.cases import CASTS, ELSEWHERE, Case, cases
from twill.launch.build import RUNTIME
from twill.ops.row import Environment
from twill.ops.table import TABLE
from twill.ops.values import Array, bits_of, dtype, of_bits

ALL = cases()
SHIM = Path(__file__).with_name("cuda_on_host.hpp")
NOWHERE: Environment = None  # pyright: ignore[reportAssignmentType]

ROUNDED: Mapping[str, int] = {"f16": 1, "bf16": 1, "f32": 4, "f64": 4}
"""Units in the last place that a function of CUDA or of NumPy may be off; a narrow type is rounded from
f32."""
LOOSE: Mapping[str, int] = {"math.exp": 256, "math.log": 8, "arith.remf": 0}
"""Where the C is a cheaper formula: exp multiplies its argument before the instruction, which costs |x|
units."""
EXACT = frozenset(
    {
        *(
            "math.fma",
            "math.absf",
            "math.absi",
            "math.copysign",
            "math.floor",
            "math.ceil",
            "math.trunc",
            "math.round",
            "math.roundeven",
        ),
        *(
            "math.sqrt",
            "math.ctpop",
            "math.ctlz",
            "math.cttz",
            "math.isnan",
            "math.isinf",
            "math.isfinite",
            "tt.precise_sqrt",
        ),
    }
)
FAST = 1e-4
"""Relative error of libdevice's fast functions, of results that are neither very small nor very large."""
FLUSHED = frozenset({"math.exp", "math.exp2"})
"""Their instruction gives 0 for results that are subnormal, which the host's function does not."""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    if shutil.which("g++") is None:
        pytest.skip("g++ is not installed")
    folder = tmp_path_factory.mktemp("rows")
    head = [f'#include "{SHIM}"', f'#include "{RUNTIME}/arithmetic.cuh"', "using namespace twill;"]
    (folder / "rows.cpp").write_text(
        "\n".join([*head, *(case.function(f"case_{i}") for i, case in enumerate(ALL))])
    )
    command = [
        "g++",
        "-std=c++17",
        "-O1",
        "-ffp-contract=off",
        "-w",
        "-shared",
        "-fPIC",
        "-o",
        "rows.so",
        "rows.cpp",
    ]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:4000]
    return ctypes.CDLL(str(folder / "rows.so"))


@pytest.mark.parametrize("number", range(len(ALL)), ids=[str(case) for case in ALL])
def test_cuda_and_numpy_agree(number: int, library: ctypes.CDLL) -> None:
    case = ALL[number]
    given = case.values()
    assert case.row.meaning is not None
    with np.errstate(all="ignore"):
        expected = case.row.meaning(case.op, given, NOWHERE)
    found = _called(getattr(library, f"case_{number}"), case, given)
    for one, other, name in zip(expected, found, case.results, strict=True):
        wrong = np.flatnonzero(different(case, np.broadcast_to(one, given[0].shape), other, name))
        at = [(*(str(value[i]) for value in given), f"NumPy {one[i]}, C {other[i]}") for i in wrong[:5]]
        assert not len(wrong), f"{case}: {len(wrong)} of {len(given[0])} differ: {at}\n{case.texts()}"


def _called(function: Callable[..., Any], case: Case, given: tuple[Array, ...]) -> list[Array]:
    inputs = [
        np.ascontiguousarray(bits_of(value, name)) for value, name in zip(given, case.operands, strict=True)
    ]
    outputs = [
        np.zeros(given[0].shape, bits_of(np.zeros(1, dtype(name)), name).dtype) for name in case.results
    ]
    function(*(ctypes.c_void_p(array.ctypes.data) for array in [*inputs, *outputs]), len(given[0]))
    return [of_bits(bits, name) for bits, name in zip(outputs, case.results, strict=True)]


def different(case: Case, expected: Array, found: Array, name: str) -> Array:
    if expected.dtype.kind != "f":
        return expected != found
    if str(case.attributes.get("symbol")).startswith("__nv_fast_"):
        with np.errstate(all="ignore"):
            regular = (np.abs(expected) > 1e-20) & (np.abs(expected) < 1e20)
            return regular & ~np.isclose(found, expected, rtol=FAST, atol=0)
    both = np.isnan(expected) & np.isnan(found)
    ulps = _tolerance(case, name)
    if not ulps:
        return ~both & ((expected != found) | (np.signbit(expected) != np.signbit(found)))
    tiny = np.finfo(np.float32).tiny
    flushed = (
        (np.abs(expected) < tiny) & (np.abs(found) < tiny)
        if case.row.name in FLUSHED
        else np.zeros(both.shape, bool)
    )
    apart = np.abs(_position(expected, name) - _position(found, name))
    return ~both & ~flushed & ((apart > ulps) | (np.isnan(expected) != np.isnan(found)))


def _tolerance(case: Case, name: str) -> int:
    inexact = case.row.name.startswith("math.") or case.row.name == "tt.extern_elementwise"
    if not inexact or case.row.name in EXACT:
        return 0
    return max(ROUNDED[name], LOOSE.get(case.row.name, 0)) if name == "f32" else ROUNDED[name]


def _position(values: Array, name: str) -> Array:
    """Which number of its type it is, counted from zero. Python integers hold all 64 bits."""
    bits = bits_of(values, name)
    below_sign = np.asarray(2 ** (8 * bits.dtype.itemsize - 1) - 1, bits.dtype)
    return np.where(np.signbit(values), -1, 1) * np.bitwise_and(bits, below_sign).astype(object)


def test_every_row_with_cuda_is_tried() -> None:
    assert {case.row.name for case in ALL} == {row.name for row in TABLE.values() if row.c} - ELSEWHERE


def test_every_conversion_between_types_is_tried() -> None:
    """At least one from and one to every type that a conversion is meant for."""
    for name, (sources, results) in CASTS.items():
        tried = [case for case in ALL if case.row.name == name]
        assert {case.operands[0] for case in tried} >= set(sources) - {
            "i1",
            "f8E4M3FN",
            "f8E5M2",
            "i64",
            "f64",
            "i8",
            "index",
        }, name
        assert {case.results[0] for case in tried} >= set(results) - {
            "i1",
            "f8E4M3FN",
            "f8E5M2",
            "i64",
            "f64",
            "i8",
            "f16",
            "index",
        }, name
