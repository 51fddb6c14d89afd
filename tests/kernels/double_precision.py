"""Kernels for Blackwell on several tiles, beside what they are to compute, in float64 from their operands as
they lie in memory."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import sqrt

import numpy as np

from tests.kernels.builds import build
from tests.kernels.programs import BLOCK_SCALED, BY_ROW, PADDED, PAIRED, SCALED_EXAMPLES
from twill.emulate.arrays import decoded, encoded
from twill.emulate.build import Request, execute, prepared
from twill.emulate.memory.clocks import Array
from twill.emulate.numeric.formats import table

Numbers = Mapping[str, float]
Arrays = Mapping[str, Array]
Results = Mapping[str, Array]
Triple = tuple[int, int, int]
Made = Callable[[Numbers, np.random.Generator], Arrays]
Expected = Callable[[Numbers, Arrays], Results]
LOG2_E = 1.4426950408889634
WIDTH = 128
"""Of a head."""


@dataclass(frozen=True, slots=True)
class Case:
    """One launch of a kernel."""

    numbers: Numbers
    grid: Triple
    made: Made
    """Operands, in float64."""
    expected: Expected
    """From the operands as they were rounded: the arrays that the kernel writes to, in float64."""


# --- matrix products --------------------------------------------------------------------------------------


def _operands(*names: str) -> Made:
    """The first has M rows, the others N, all of K."""

    def made(numbers: Numbers, random: np.random.Generator) -> Arrays:
        k = int(numbers["K"])
        rows = [int(numbers["M"]), *[int(numbers["N"])] * (len(names) - 1)]
        return {name: random.standard_normal((m, k)) for name, m in zip(names, rows, strict=True)}

    return made


def _product(numbers: Numbers, arrays: Arrays) -> Results:
    return {"c": arrays["a"] @ arrays["b"].T}


def _reduction(numbers: Numbers, arrays: Arrays) -> Results:
    return {**_product(numbers, arrays), "sums": arrays["a"].sum(1)}


def _gated(numbers: Numbers, arrays: Arrays) -> Results:
    gate, up = (arrays["a"] @ arrays[name].T for name in ("gate", "up"))
    return {"c": gate / (1 + np.exp(-gate)) * up}


# --- attention --------------------------------------------------------------------------------------------


def _heads(numbers: Numbers) -> tuple[int, int, int]:
    return int(numbers["heads"]), int(numbers["length"]), WIDTH


def _queries(numbers: Numbers, random: np.random.Generator) -> Arrays:
    return {name: random.standard_normal(_heads(numbers)) for name in "qkv"}


def _weights(numbers: Numbers, arrays: Arrays, causal: bool = False) -> tuple[Array, Array]:
    """Softmax weights, and log2 of the sums that they are divided by."""
    scores = arrays["q"] @ arrays["k"].swapaxes(1, 2) * numbers["scale"]
    if causal:
        scores = np.where(np.tri(scores.shape[1], dtype=bool), scores, -np.inf)
    sums = np.log(np.exp(scores).sum(-1))
    return np.exp(scores - sums[..., None]), sums * LOG2_E


def _forward(numbers: Numbers, arrays: Arrays) -> Results:
    weights, sums = _weights(numbers, arrays)
    return {"o": weights @ arrays["v"], "lse": sums}


def _causal(numbers: Numbers, arrays: Arrays) -> Results:
    weights, sums = _weights(numbers, arrays, causal=True)
    return {"o": weights @ arrays["v"], "lse": sums}


def _slopes(numbers: Numbers, random: np.random.Generator) -> Arrays:
    """The operands of the backward pass: those of the forward one, the gradient of its result, and what it
    leaves."""
    given = {**_queries(numbers, random), "do": random.standard_normal(_heads(numbers))}
    weights, sums = _weights(numbers, given)
    return {**given, "lse": sums, "delta": (weights @ given["v"] * given["do"]).sum(-1)}


def _backward(numbers: Numbers, arrays: Arrays) -> Results:
    """dq is without the scale, as the kernels leave it."""
    weights, _ = _weights(numbers, arrays)
    change = arrays["do"] @ arrays["v"].swapaxes(1, 2)
    slopes = weights * (change - (weights * change).sum(-1, keepdims=True))
    return {
        "dq": slopes @ arrays["k"],
        "dk": slopes.swapaxes(1, 2) @ arrays["q"] * numbers["scale"],
        "dv": weights.swapaxes(1, 2) @ arrays["do"],
    }


# --- the kernels ------------------------------------------------------------------------------------------

_WHOLE = {"M": 256, "N": 512, "K": 200}
"""Two tiles by two, of which the last along K is not whole."""
_FEW = {"M": 256, "N": 256, "K": 24}
"""One iteration, less than a tile."""
_RAGGED = {"M": 208, "N": 320, "K": 208}
_NARROW = {"M": 144, "N": 96, "K": 400}
_LONG = {"heads": 1, "length": 512, "scale": 1 / sqrt(WIDTH)}
_SHORT = {"heads": 2, "length": 256, "scale": 1 / sqrt(WIDTH)}


def _products(made: Made, expected: Expected, columns: int = 256) -> tuple[Case, ...]:
    """Of examples, whose tiles are whole but along K: two by two, and two in a column."""
    whole = {**_WHOLE, "N": 2 * columns}
    return Case(whole, (4, 1, 1), made, expected), Case({**_FEW, "N": columns}, (2, 1, 1), made, expected)


def _attention(made: Made, expected: Expected, rows: int) -> tuple[Case, ...]:
    """Of examples with so many rows in a thread block: two heads, and twice the keys and queries of one."""
    return tuple(
        Case(sizes, (int(sizes["length"]) // rows, int(sizes["heads"]), 1), made, expected)
        for sizes in (_SHORT, _LONG)
    )


_MATMUL = tuple(
    Case(sizes, grid, _operands("a", "b"), _product)
    for sizes, grid in ((_RAGGED, (2, 3, 1)), (_NARROW, (2, 1, 1)))
)
CASES: Mapping[str, tuple[Case, ...]] = {
    "gemm": _products(_operands("a", "b"), _product),
    "gemm_persistent": tuple(
        replace(one, grid=(2, 1, 1)) for one in _products(_operands("a", "b"), _product)
    ),
    "dual_gemm": _products(_operands("a", "gate", "up"), _gated, 128),
    "gemm_reduction": _products(_operands("a", "b"), _reduction),
    "fa_fwd": _attention(_queries, _forward, 128),
    "fa_fwd_subtiled": _attention(_queries, _forward, 256),
    "fa_fwd_subtiled_polynomial": _attention(_queries, _forward, 256),
    "fa_fwd_subtiled_bf16": _attention(_queries, _forward, 256),
    "fa_fwd_causal": _attention(_queries, _causal, 256),
    "fa_bwd": _attention(_slopes, _backward, 128),
    "fa_bwd_bf16": _attention(_slopes, _backward, 128),
    "fa_bwd_subtiled": _attention(_slopes, _backward, 128),
    **dict.fromkeys(("matmul_bf16", "matmul_e4m3", "matmul_tf32"), _MATMUL),
}
"""By kernel; clusters of two thread blocks compute the same."""
PLAIN = (
    *(f"{name}.sm100" for name in CASES),
    *(name for name in PAIRED if name.removesuffix("_pairs.sm100") in CASES),
)
"""Kernels of these cases."""
SCALED = (
    *(f"{name}.sm100" for name in (*BLOCK_SCALED, *SCALED_EXAMPLES)),
    *(name for name in PAIRED if name.removesuffix("_pairs.sm100") in (*BLOCK_SCALED, *SCALED_EXAMPLES)),
)
"""Block-scaled products, whose operands are bytes."""
ROUNDED: Mapping[str, float] = {"f16": 2**-11, "bf16": 2**-8, "f8E4M3FN": 2**-4, "f32": 2**-10}
"""Half of the last place of a result; of float32 the last place of tf32, to which operands are cut off."""


def largest(kernel: str, schedules: int) -> float | None:
    """The largest error of a kernel in some orders of its asynchronous operations; None for one that is not
    compared here. Raises ValueError for one that rounding does not explain."""
    if kernel not in (*PLAIN, *SCALED):
        return None
    found = [
        one
        for schedule in range(schedules)
        for one in (
            errors(kernel, schedule).values()
            if kernel in PLAIN
            else (scaled_error(kernel, *sizes, schedule) for sizes in scaled_sizes(kernel))
        )
    ]
    if any(error >= most for error, most in found):
        raise ValueError(f"{kernel} computes wrong values: {found}")
    return max(error for error, _ in found)


def scaled_sizes(kernel: str) -> tuple[Triple, ...]:
    """M, N and K of block-scaled products: whole tiles, and ragged ones in all three dimensions where the
    kernel takes them."""
    whole = kernel.removesuffix(".sm100").removesuffix("_pairs") in SCALED_EXAMPLES
    return ((256, 512, 1024), (256, 256, 512)) if whole else ((256, 256, 1024), (208, 320, 352))


def errors(kernel: str, schedule: int = 0) -> Mapping[str, tuple[float, float]]:
    """Relative errors of the arrays that a kernel writes to in each of its cases, executed as PTX with
    asynchronous operations in some order, each with the largest that rounding explains. Raises
    HazardError."""
    cases = CASES[kernel.removesuffix(".sm100").removesuffix("_pairs")]
    launched = [one for one in cases if kernel not in PAIRED or one.grid[0] % 2 == 0]
    return {
        f"{name} of {dict(case.numbers)}": error
        for case in launched
        for name, error in _errors(kernel, case, schedule).items()
    }


def _errors(kernel: str, case: Case, schedule: int) -> Mapping[str, tuple[float, float]]:
    made = build(kernel)
    types = {one.name: one.type.removeprefix("*") for one in made.manifest.arguments}
    given = case.made(case.numbers, np.random.default_rng(schedule))
    raw = {name: _stored(array, types[name]) for name, array in given.items()}
    read = {name: _values(raw[name], types[name], array.shape) for name, array in given.items()}
    expected = case.expected(case.numbers, read)
    raw |= {name: _stored(np.zeros(array.shape), types[name]) for name, array in expected.items()}
    execute(made, case.numbers, Request({}, case.grid, schedule=schedule), raw)
    narrow = max(ROUNDED[types[name]] for name in given)
    return {
        name: (_error(_values(raw[name], types[name], array.shape), array), max(narrow, ROUNDED[types[name]]))
        for name, array in expected.items()
    }


def _stored(values: Array, kind: str) -> Array:
    """As an array lies in a GPU's memory."""
    narrow = values.astype(np.float16 if kind == "f16" else np.float32)
    return encoded(narrow.ravel(), kind)


def _values(raw: Array, kind: str, shape: tuple[int, ...]) -> Array:
    return decoded(raw, kind).astype(np.float64).reshape(shape)


def _error(found: Array, right: Array) -> float:
    return float(np.linalg.norm(found - right) / np.linalg.norm(right))


# --- block-scaled products --------------------------------------------------------------------------------

FORMATS = {
    "gemm_mxfp8": ("e4m3", "e4m3", 32),
    "gemm_nvfp4": ("e2m1", "e2m1", 16),
    "matmul_mxfp8": ("e4m3", "e5m2", 32),
    "matmul_mxfp4": ("e2m1",) * 2 + (32,),
    "matmul_nvfp4": ("e2m1",) * 2 + (16,),
    "matmul_mxfp8_mxfp4": ("e4m3", "e2m1", 32),
    "matmul_mxfp4_mxfp8": ("e2m1", "e4m3", 32),
    "matmul_mxfp8_loaded": ("e4m3", "e4m3", 32),
    "matmul_mxfp8_outer": ("e4m3", "e4m3", 32),
    "matmul_mxfp4_mxfp8_copied": ("e2m1", "e4m3", 32),
    "matmul_mxfp8_mxfp4_across": ("e4m3", "e2m1", 32),
    "matmul_mxfp8_mxfp4_turned": ("e4m3", "e2m1", 32),
}
OUTER = (
    *("matmul_mxfp8_outer a", "matmul_mxfp8_outer b"),
    *("matmul_mxfp8_mxfp4_across b", "matmul_mxfp8_mxfp4_turned b"),
)
"""Operands that are contiguous along their rows in global memory, not along K."""
PITCH = 48
"""Scale factors from row to row, where a kernel loads them row by row."""


def scaled_error(kernel: str, m: int, n: int, k: int, schedule: int = 0) -> tuple[float, float]:
    """As `errors`, of a block-scaled product, on tiles of 128 x 128 or wider. Rows that TMA pads have whole
    tiles along K; examples have whole tiles, of 128 x 256."""
    made, name = build(kernel), kernel.removesuffix(".sm100").removesuffix("_pairs")
    example, (left, right, vector) = name in SCALED_EXAMPLES, FORMATS[name]
    grid = (m // 128 * (n // 256), 1, 1) if example else (-(-m // 128), -(-n // 128), 1)
    k = -(-k // 128) * 128 if name.startswith(PADDED) else k
    given = {"M": m, "N": n, "K": k} | ({"pitch": PITCH} if name in BY_ROW else {})
    start = prepared(made, Request(given, grid))
    raw = start.raw()
    execute(made, start.numbers, Request({}, grid, schedule=schedule), raw)
    a, b = (
        rows_of(raw[side].view(np.uint8), kind, count, k, along_k=f"{name} {side}" not in OUTER)
        * (
            scales_by_row(raw, side, count, k)
            if name in BY_ROW
            else scales_of(raw[f"{side}_scales"].view(np.uint8), count, k, vector)
        )
        for side, kind, count in (("a", left, m), ("b", right, n))
    )
    found = _values(raw["c"][: m * n], "bf16" if example else "f32", (m, n))
    return _error(found, a @ b.T), ROUNDED["bf16"] if example else EXACT


EXACT = 1e-5
"""Products of operands of 8 bits are exact in float32, their sums nearly so."""


def rows_of(raw: Array, kind: str, rows: int, k: int, *, along_k: bool = True) -> Array:
    """The values of an operand, which lie one after the other along K, or along its rows."""
    length = k // 2 if kind == "e2m1" else k
    octets = raw[: rows * length].reshape((rows, length) if along_k else (length, rows))
    octets = octets if along_k else octets.T
    if kind != "e2m1":
        return table(kind)[octets].astype(np.float64)
    return table(kind)[np.stack([octets & 15, octets >> 4], -1).reshape(rows, k)].astype(np.float64)


def scales_of(raw: Array, rows: int, k: int, vector: int) -> Array:
    """A factor for each value of an operand, from blocks of 32 x 4 x 4 bytes."""
    down, across = -(-rows // 128), -(-k // (4 * vector))
    blocks = raw[: down * across * 512].reshape(down, across, 32, 4, 4).transpose(0, 3, 2, 1, 4)
    values = table("ue8m0" if vector == 32 else "e4m3")[blocks.reshape(128 * down, 4 * across)]
    return np.repeat(values.astype(np.float64), vector, axis=1)[:rows, :k]


def scales_by_row(raw: Mapping[str, Array], name: str, rows: int, k: int) -> Array:
    """A factor for each value of an operand: of a from rows of bytes, of b computed."""
    count = -(-k // 32)
    if name == "b":
        codes = 127 + (np.arange(rows)[:, None] + np.arange(count)) % 2
    else:
        codes = np.stack(
            [raw["a_scales"].view(np.uint8)[at * PITCH : at * PITCH + count] for at in range(rows)]
        )
    return np.repeat(table("ue8m0")[codes].astype(np.float64), 32, axis=1)[:, :k]
