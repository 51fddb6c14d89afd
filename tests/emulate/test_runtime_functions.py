"""Runtime functions that are inline PTX, executed: what nvcc makes of them computes what their names say, NaN
and infinities included."""

import shutil
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

from tests.emulate.ptx import Array
from twill.emulate import Module
from twill.emulate.host import compiled
from twill.launch.build import RUNTIME
from twill.ops.values import rounded
from twill.targets.cuda.values.conversions import REACH

pytestmark = pytest.mark.skipif(not shutil.which("nvcc"), reason="needs nvcc")
RANDOM = np.random.default_rng(3)
EDGES = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 448.0, 1e-3, -3.5]
A = np.array([*EDGES, *RANDOM.normal(0, 10, 54)], np.float32)
B = np.array([*EDGES[::-1], *RANDOM.normal(0, 10, 54)], np.float32)


def _of_pair(of: Callable[[Array, Array], Array], half: str) -> Array:
    """Both numbers of {a, b} and {b, a}."""
    return np.asarray(of(*((A, B) if half == "x" else (B, A))), np.float32)


PAIRS: dict[str, tuple[str, Callable[[Array, Array], Array]]] = {
    "add": ("{a, b}, {b, a}", lambda a, b: a + b),
    "subtract": ("{a, b}, {b, a}", lambda a, b: a - b),
    "multiply": ("{a, b}, {b, a}", lambda a, b: a * b),
    "fma": ("{a, b}, {b, a}, {b, b}", lambda a, b: a.astype(np.float64) * b + B),
}


def _nearby(kind: str, low: int, reach: int, half: int) -> tuple[str, Callable[[], Array]]:
    """Integers from the least to the most that one conversion takes, and the other way round."""
    up = low + np.arange(64) * (reach - 1) // 63
    one = f"{low} + int(threadIdx.x) * {reach - 1} / 63"
    other = f"{low} + (63 - int(threadIdx.x)) * {reach - 1} / 63"
    pair = f"pack_{kind}(nearby<{low}>({one}), nearby<{low}>({other}))"
    return f"unpack_{kind}({pair}, {half})", lambda: np.asarray((up, up[::-1])[half], np.float32)


E2M1 = np.array([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0], np.float32)
"""The numbers without a sign, by their bits (OCP Microscaling Formats, FP4)."""


def _quarters(kind: str, first: int, other: int, half: int) -> tuple[str, Callable[[], Array]]:
    """Numbers in the low or high halves of bytes: of all bytes, the two of one; of others, two of both."""
    change = 0 if first != other else 0x5A
    byte = "(int(threadIdx.x) * 4 + int(threadIdx.x) / 16)"
    pair = f"unpack_e2m1(int8_t({byte}), {first}), unpack_e2m1(int8_t({byte} ^ {change}), {other})"
    held = np.arange(64) * 4 + np.arange(64) // 16
    bits = (held >> 4 * first, (held ^ change) >> 4 * other)[half] & 15
    return f"unpack_{kind}(pack_{kind}({pair}), {half})", lambda: np.where(bits & 8, -1, 1) * E2M1[bits & 7]


FUNCTIONS: dict[str, tuple[str, Callable[[], Array]]] = {
    **{
        f"quarters_{kind}_{first}{other}_{half}": _quarters(kind, first, other, half)
        for kind in ("f16", "bf16")
        for first in (0, 1)
        for other in (0, 1)
        for half in (0, 1)
    },
    **{
        f"nearby_{kind}_{at}_{half}": _nearby(kind, low, REACH[kind], half)
        for kind in REACH
        for at, low in (
            ("lowest", -REACH[kind]),
            ("signed", -8),
            ("natural", 0),
            ("highest", REACH[kind] - 1),
        )
        for half in (0, 1)
    },
    "max_nanf": ("max_nanf(a, b)", lambda: np.maximum(A, B)),
    "min_nanf": ("min_nanf(a, b)", lambda: np.minimum(A, B)),
    "divide": ("divide(a, b)", lambda: A / B),
    "exp2": ("exp2_approx(a)", lambda: np.exp2(A)),
    "log2": ("log2_approx(a)", lambda: np.log2(A)),
    "mask": (
        "[&] { Mask<40> m; if (a > 0.0f) m[35] = true; m[3] = b > 0.0f; return m[35] + 2.0f * m[3]; }()",
        lambda: (A > 0) + np.float32(2) * (B > 0),
    ),
    **{
        f"{name}_pair_{half}": (
            f"{name}_pair({operands}).{half}",
            partial(_of_pair, of, half),
        )
        for half in "xy"
        for name, (operands, of) in PAIRS.items()
    },
    **{
        f"{name}_{half}": (
            f"unpack_{name}(pack_{name}(a, b), {half})",
            lambda kind=kind, half=half: narrowed((A, B)[half], kind),
        )
        for name, kind in (("f16", "f16"), ("bf16", "bf16"), ("e4m3", "f8E4M3FN"), ("e5m2", "f8E5M2"))
        for half in (0, 1)
    },
}


def narrowed(values: Array, kind: str) -> Array:
    """Rounded to a type; 8-bit floats saturate."""
    most = {"f8E4M3FN": 448.0, "f8E5M2": 57344.0}.get(kind)
    return np.asarray(rounded(values if most is None else np.clip(values, -most, most), kind), np.float32)


@cache
def module() -> Module:
    """One kernel for each function."""
    head = '#include "twill.cuh"\nusing namespace twill;\n'
    body = 'extern "C" __global__ void {}(const float* x, const float* y, float* z) {{\n'
    body += "    const float a = x[threadIdx.x], b = y[threadIdx.x];\n    z[threadIdx.x] = {};\n}}\n"
    with TemporaryDirectory() as folder:
        file = Path(folder) / "functions.cu"
        file.write_text(
            head + "".join(body.format(f"run_{name}", text) for name, (text, _) in FUNCTIONS.items())
        )
        return compiled(file, Path(folder), [RUNTIME], "100a").module


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_computes_what_its_name_says(name: str) -> None:
    wanted: Callable[[], Array] = FUNCTIONS[name][1]
    found = np.zeros_like(A)
    module().kernel(f"run_{name}").launch((1, 1, 1), [A.copy(), B.copy(), found], block=(64, 1, 1))
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(found, wanted(), rtol=1e-5, atol=1e-6)
