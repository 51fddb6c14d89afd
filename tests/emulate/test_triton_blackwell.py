"""PTX that Triton and Gluon generate for sm_100a alone: scaled dots, attention, CTA pairs, tensor memory,
cluster launch control."""

import re
from typing import Any, TypeAlias

import numpy as np
import pytest

from tests.emulate.compiled import compiled, compiled_gluon, few, launch, needs_triton
from twill.emulate.numeric.formats import table

pytestmark = needs_triton

Array: TypeAlias = np.ndarray[Any, Any]
RANDOM = np.random.default_rng(0)
SIZES = {"M": "i32", "N": "i32", "K": "i32"}


def integers(*shape: int) -> Array:
    return RANDOM.integers(-3, 4, shape).astype(np.float16)


# --- block-scaled dots ------------------------------------------------------------------------------------

_POINTERS = {"e2m1": "*u8", "e4m3": "*fp8e4nv", "e5m2": "*fp8e5"}


def operand(kind: str, rows: int, k: int) -> Array:
    """Codes of small integers; 4-bit ones lie two in a byte."""
    if kind == "e2m1":
        return RANDOM.integers(0, 256, (rows, k // 2)).astype(np.uint8)
    values = table(kind)
    good = np.flatnonzero(np.isfinite(values) & (np.abs(values) <= 8) & (values == np.trunc(values)))
    return RANDOM.choice(good.astype(np.uint8), (rows, k))


def decoded(codes: Array, kind: str) -> Array:
    if kind == "e2m1":
        codes = np.stack([codes & 15, codes >> 4], axis=-1).reshape(len(codes), -1)
    return table(kind)[codes]


def factors(rows: int, count: int, kind: str) -> Array:
    """Scale factors from 1/4 to 4."""
    one = {"ue8m0": 127, "e4m3": 0x38}[kind]
    step = {"ue8m0": 1, "e4m3": 8}[kind]
    return (one + step * RANDOM.integers(-2, 3, (rows, count))).astype(np.uint8)


def scaled(a: Array, a_kind: str, a_scales: Array, kind: str) -> Array:
    values = decoded(a, a_kind)
    return values * np.repeat(table(kind)[a_scales], values.shape[1] // a_scales.shape[1], axis=1)


@pytest.mark.parametrize(
    ("a_kind", "b_kind", "vector"),
    few(2, [("e4m3", "e2m1", 32), ("e2m1", "e2m1", 16), ("e4m3", "e5m2", 32), ("e2m1", "e2m1", 32)]),
)
def test_scaled_dots(a_kind: str, b_kind: str, vector: int) -> None:
    m, n, k, scale = 128, 128, 256, "ue8m0" if vector == 32 else "e4m3"
    a, b = operand(a_kind, m, k), operand(b_kind, n, k)
    a_scales, b_scales = factors(m, k // vector, scale), factors(n, k // vector, scale)
    packs = {f"{name}_PACK": 2 if kind == "e2m1" else 1 for name, kind in (("A", a_kind), ("B", b_kind))}
    held = "*u8" if scale == "ue8m0" else "*fp8e4nv"
    types = {"a": _POINTERS[a_kind], "a_scales": held, "b": _POINTERS[b_kind], "b_scales": held, "c": "*fp32"}
    constants = {"A_TYPE": a_kind, "B_TYPE": b_kind, "VECTOR": vector, "BM": 128, "BN": 128, "BK": 128}
    made, c = compiled("gemm_scaled", types | SIZES, constants | packs, 100), np.zeros((m, n), np.float32)
    launch(made, (1, 1), [a, a_scales, b, b_scales, c, m, n, k])
    assert np.array_equal(c, scaled(a, a_kind, a_scales, scale) @ scaled(b, b_kind, b_scales, scale).T)


def test_four_bits_beside_eight_that_tma_pads() -> None:
    """Triton expects the bytes of the elements, without the padding."""
    m, n, k = 128, 128, 256
    a, b = operand("e4m3", m, k), operand("e2m1", n, k)
    a_scales, b_scales = (factors(rows, k // 32, "ue8m0") for rows in (m, n))
    types = {"a": "*fp8e4nv", "a_scales": "*u8", "b": "*u8", "b_scales": "*u8", "c": "*fp32"}
    tile = {"BM": 128, "BN": 128, "BK": 128}
    made, c = compiled("gemm_padded", types | SIZES, tile, 100), np.zeros((m, n), np.float32)
    assert re.search(r"tensormap\.replace\.tile\.elemtype\.\S+ \[[^]]*\], 0xe;", made.asm["ptx"])
    launch(made, (1, 1), [a, a_scales, b, b_scales, c, m, n, k])
    assert np.array_equal(c, scaled(a, "e4m3", a_scales, "ue8m0") @ scaled(b, "e2m1", b_scales, "ue8m0").T)


def test_operands_of_eight_bits_across_k() -> None:
    m, n, k = 128, 64, 256
    a, b = operand("e4m3", k, m), operand("e4m3", k, n)
    types = {"a": "*fp8e4nv", "b": "*fp8e4nv", "c": "*fp32"}
    tile = {"BM": 128, "BN": 64, "BK": 128}
    made, c = compiled("gemm_outer", types | SIZES, tile, 100), np.zeros((m, n), np.float32)
    launch(made, (1, 1), [a, b, c, m, n, k])
    assert np.array_equal(c, decoded(a, "e4m3").T @ decoded(b, "e4m3"))


def test_scale_factors_that_are_copied_to_tensor_memory() -> None:
    a, b = operand("e4m3", 128, 128), operand("e4m3", 128, 128)
    a_scales, b_scales = factors(128, 4, "ue8m0"), factors(128, 4, "ue8m0")
    packed = [np.ascontiguousarray(one.reshape(4, 32, 4).swapaxes(0, 1)) for one in (a_scales, b_scales)]
    types = {"a": "*fp8e4nv", "a_scales": "*u8", "b": "*fp8e4nv", "b_scales": "*u8", "c": "*fp32"}
    made, c = (
        compiled_gluon("copied_scales", types, {"M": 128, "N": 128, "K": 128}),
        np.zeros((128, 128), "f4"),
    )
    launch(made, (1,), [a, packed[0], b, packed[1], c])
    assert np.array_equal(c, scaled(a, "e4m3", a_scales, "ue8m0") @ scaled(b, "e4m3", b_scales, "ue8m0").T)


# --- packed arithmetic ------------------------------------------------------------------------------------


def test_pairs_of_floats() -> None:
    """Each operation is rounded to float32 once."""
    x, y = (RANDOM.standard_normal(1024).astype(np.float32) for _ in range(2))
    z = np.zeros_like(x)
    made = compiled("packed_pairs", {"x": "*fp32", "y": "*fp32", "z": "*fp32"}, {"N": 1024}, 100)
    assert all(f"{word}.rn.f32x2" in made.asm["ptx"] for word in ("add", "mul", "fma"))
    launch(made, (1,), [x, y, z])
    once = (x.astype(np.float64) * y + x).astype(np.float32)
    assert np.array_equal(z, (once + y) * x)


# --- pipelines of warps -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("warps", "seed"), few(1, [(8, 1), (4, 0)]))
def test_persistent_gemm(warps: int, seed: int) -> None:
    a, b, c = integers(256, 192), integers(128, 192), np.zeros((256, 128), np.float16)
    constants = {"PROGRAMS": 2, "BM": 128, "BN": 64, "BK": 64}
    types = {"a": "*fp16", "b": "*fp16", "c": "*fp16", **SIZES}
    launch(compiled("gemm_persistent", types, constants, 100, warps), (2,), [a, b, c, 256, 128, 192], seed)
    assert np.array_equal(c, (a.astype(np.float32) @ b.T.astype(np.float32)).astype(np.float16))


def test_gemm_of_64_rows() -> None:
    a, b, c = integers(64, 128), integers(128, 64), np.zeros((64, 64), np.float16)
    types = {"a": "*fp16", "b": "*fp16", "c": "*fp16", **SIZES}
    launch(compiled("gemm", types, {"BM": 64, "BN": 64, "BK": 64}, 100), (1, 1), [a, b, c, 64, 64, 128])
    assert np.array_equal(c, (a.astype(np.float32) @ b.astype(np.float32)).astype(np.float16))


def test_gemm_of_bytes_whose_lines_run_along_n() -> None:
    """The MMA takes B as it lies in memory: .kind::f8f6f4 has MN-major operands of 8 bits."""
    a, b = operand("e4m3", 128, 128), operand("e4m3", 128, 64)
    c = np.zeros((128, 64), np.float32)
    types = {"a": "*fp8e4nv", "b": "*fp8e4nv", "c": "*fp32", **SIZES}
    made = compiled("gemm", types, {"BM": 128, "BN": 64, "BK": 64}, 100)
    assert "tcgen05.mma.cta_group::1.kind::f8f6f4" in made.asm["ptx"]
    launch(made, (1, 1), [a, b, c, 128, 64, 128])
    assert np.array_equal(c, decoded(a, "e4m3") @ decoded(b, "e4m3"))


def test_attention_of_bytes() -> None:
    """Weights of 8 bits go to the second MMA through tensor memory, four to a column."""
    q, k, v = (operand("e4m3", 128, 64) for _ in range(3))
    o = np.zeros((128, 64), np.float32)
    types = {**dict.fromkeys("qkv", "*fp8e4nv"), "o": "*fp32", "length": "i32", "scale": "fp32"}
    made = compiled("attention", types, {"BM": 128, "BN": 64, "D": 64}, 100)
    launch(made, (1, 1), [q, k, v, o, 128, 0.125])
    weights = decoded(q, "e4m3").astype(np.float64) @ decoded(k, "e4m3").T * 0.125
    weights = np.exp2(weights - weights.max(1, keepdims=True))
    want = weights @ decoded(v, "e4m3") / weights.sum(1, keepdims=True)
    assert np.abs(o - want).max() < 0.1 * np.abs(want).max()


def test_specialized_attention() -> None:
    q, k, v = (RANDOM.standard_normal((256, 64)).astype(np.float16) for _ in range(3))
    o = np.zeros_like(q)
    types = {"q": "*fp16", "k": "*fp16", "v": "*fp16", "o": "*fp16", "length": "i32", "scale": "fp32"}
    made = compiled("attention_specialized", types, {"BM": 128, "BN": 64, "D": 64}, 100)
    launch(made, (2,), [q, k, v, o, 256, 0.18])
    p = np.exp2(q.astype(np.float64) @ k.T * 0.18)
    assert np.abs(o - p @ v / p.sum(1, keepdims=True)).max() < 1e-3


@pytest.mark.parametrize("arch", few(1, [100, 90]))
def test_attention_backward(arch: int) -> None:
    q, k, v, do = (RANDOM.standard_normal((128, 64)).astype(np.float16) for _ in range(4))
    scores = q.astype(np.float64) @ k.T * 0.18
    highest = np.log2(np.exp2(scores).sum(1))
    p = np.exp2(scores - highest[:, None])
    delta = (do * (p @ v)).sum(1)
    ds = p * (do.astype(np.float64) @ v.T - delta[:, None])
    found = [np.zeros((128, 64), np.float32) for _ in range(3)]
    types = dict.fromkeys(("q", "k", "v", "do"), "*fp16") | {"length": "i32", "scale": "fp32"}
    types |= dict.fromkeys(("highest", "delta", "dq", "dk", "dv"), "*fp32")
    made = compiled("attention_backward", types, {"BM": 64, "BN": 128, "D": 64}, arch)
    rows = [highest.astype(np.float32), delta.astype(np.float32)]
    launch(made, (1,), [q, k, v, do, *rows, *found, 128, 0.18])
    for one, other in zip(found, (ds @ k, ds.T @ q, p.T @ do.astype(np.float64)), strict=True):
        assert np.abs(one - other).max() < 2e-3 * np.abs(other).max()


# --- CTA pairs, tensor memory, cluster launch control ----------------------------------------------------


@pytest.mark.parametrize(("rows", "seed"), [(256, 0), (128, 1)])
def test_a_dot_of_a_pair(rows: int, seed: int) -> None:
    a, b, c = integers(rows, 64), integers(64, 128), np.zeros((rows, 128), np.float32)
    types = {"a": "*fp16", "b": "*fp16", "c": "*fp32"}
    made = compiled_gluon("pair_gemm", types, {"M": rows, "N": 128, "K": 64}, ctas=2)
    launch(made, (2,), [a, b, c], seed)
    assert np.array_equal(c, a.astype(np.float32) @ b.astype(np.float32))


@pytest.mark.parametrize(("rows", "seed"), few(1, [(256, 0), (128, 1)]))
def test_loads_and_dots_of_a_pair(rows: int, seed: int) -> None:
    """Both CTAs arrive on an mbarrier of the first, which issues the dots."""
    a, b, c = integers(rows, 192), integers(192, 128), np.zeros((rows, 128), np.float32)
    types, constants = {"a": "*fp16", "b": "*fp16", "c": "*fp32"}, {"M": rows, "N": 128, "K": 192, "BK": 64}
    made = compiled_gluon("loaded_by_pairs", types, constants, ctas=2)
    assert "cp.async.bulk.tensor.2d.cta_group::2" in made.asm["ptx"]
    assert "mbarrier.arrive.expect_tx.shared::cluster" in made.asm["ptx"]
    launch(made, (2,), [a, b, c], seed)
    assert np.array_equal(c, a.astype(np.float32) @ b.astype(np.float32))


def test_a_block_scaled_dot_of_a_pair() -> None:
    a, b = operand("e4m3", 256, 128), operand("e4m3", 128, 128)
    scales = [factors(256, 4, "ue8m0"), factors(128, 4, "ue8m0")]
    packed = [np.ascontiguousarray(one.reshape(-1, 4, 32, 4).swapaxes(1, 2)) for one in scales]
    types = {"a": "*fp8e4nv", "a_scales": "*u8", "b": "*fp8e4nv", "b_scales": "*u8", "c": "*fp32"}
    made = compiled_gluon("pair_scaled", types, {"M": 256, "N": 128, "K": 128}, ctas=2)
    assert "tcgen05.mma.cta_group::2.kind::mxf8f6f4.block_scale" in made.asm["ptx"]
    c = np.zeros((256, 128), np.float32)
    launch(made, (2,), [a, packed[0], b, packed[1], c])
    left, right = (scaled(one, "e4m3", scale, "ue8m0") for one, scale in zip((a, b), scales, strict=True))
    assert np.array_equal(c, left @ right.T)


def test_reductions_by_tma() -> None:
    x, y = (RANDOM.integers(-9, 10, (64, 32)).astype(np.float32) for _ in range(2))
    made, expected = compiled_gluon("added_to", {"x": "*fp32", "y": "*fp32"}, {"M": 64, "N": 32}), x + y
    assert "cp.reduce.async.bulk.tensor.2d" in made.asm["ptx"]
    launch(made, (1,), [x, y])
    assert np.array_equal(y, expected)


@pytest.mark.parametrize("seed", few(1, [0, 1, 2]))
def test_arrivals_on_mbarriers_of_another_cta(seed: int) -> None:
    x = np.arange(3 * 512, dtype=np.float32)
    y, made = (
        np.zeros_like(x),
        compiled_gluon("handed_over", {"x": "*fp32", "y": "*fp32"}, {"BLOCK": 512}, ctas=2),
    )
    assert "mbarrier.arrive.shared::cluster" in made.asm["ptx"]
    launch(made, (2,), [x, y], seed)
    assert np.array_equal(y, x)


@pytest.mark.parametrize(
    ("rows", "kind", "stride", "shape"),
    few(
        3,
        [
            (128, "fp16", 2, "16x128b"),
            (64, "fp16", 2, "16x64b"),
            (64, "i32", 1, "16x256b"),
            (128, "i32", 1, "16x64b"),
            (128, "i32", 1, "16x128b"),
            (128, "fp16", 1, "16x256b"),
            (64, "fp16", 2, "32x32b"),
        ],
    ),
)
def test_shapes_of_tensor_memory(rows: int, kind: str, stride: int, shape: str) -> None:
    """Also .16x32bx2, with which Triton accesses 64 rows, and the packed forms, for a stride of 2."""
    x = RANDOM.integers(0, 1000, (rows, 32)).astype({"i32": np.int32, "fp16": np.float16}[kind])
    y, constants = np.zeros_like(x), {"M": rows, "N": 32, "STRIDE": stride, "VARIANT": shape}
    made = compiled_gluon("through_tensor_memory", {"x": f"*{kind}", "y": f"*{kind}"}, constants)
    launch(made, (1,), [x, y])
    assert np.array_equal(y, x + 1)


@pytest.mark.parametrize(("columns", "swizzle"), few(1, [(64, 64), (64, 128), (32, 32)]))
def test_copies_to_tensor_memory(columns: int, swizzle: int) -> None:
    x = RANDOM.standard_normal((128, columns)).astype(np.float32)
    y, constants = np.zeros_like(x), {"M": 128, "N": columns, "SWIZZLE": swizzle}
    launch(compiled_gluon("copied", {"x": "*fp32", "y": "*fp32"}, constants), (1,), [x, y])
    assert np.array_equal(x, y)


def test_loads_that_reduce() -> None:
    """sm_103a."""
    x, y = RANDOM.standard_normal((128, 64)).astype(np.float32), np.zeros(128, np.float32)
    made = compiled_gluon("highest_of_rows", {"x": "*fp32", "y": "*fp32"}, {"M": 128, "N": 64}, arch=103)
    assert "tcgen05.ld.red" in made.asm["ptx"]
    launch(made, (1,), [x, y])
    assert np.array_equal(y, x.max(1))


@pytest.mark.parametrize("seed", few(1, [1, 0]))
def test_a_running_cta_takes_over_work(seed: int) -> None:
    x = np.arange(8 * 256, dtype=np.int32)
    y = np.zeros_like(x)
    launch(compiled_gluon("taken_over", {"x": "*i32", "y": "*i32"}, {"BLOCK": 256}), (8,), [x, y], seed)
    assert np.array_equal(y, x + 1)
