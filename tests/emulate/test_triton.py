"""PTX that Triton generates for sm_80, sm_90a and sm_100a computes on the machine what NumPy computes."""

from typing import Any, TypeAlias

import numpy as np
import pytest

from tests.emulate.compiled import compiled, launch, needs_triton
from twill.emulate.arrays import encoded

pytestmark = needs_triton

Array: TypeAlias = np.ndarray[Any, Any]
RANDOM = np.random.default_rng(0)
ARCHITECTURES = (90, 100)
SIZES = {"M": "i32", "N": "i32", "K": "i32"}


def integers(*shape: int) -> Array:
    return RANDOM.integers(-3, 4, shape).astype(np.float16)


@pytest.mark.parametrize(
    ("kernel", "arch", "warps", "seed"),
    [
        ("gemm", 80, 4, 0),
        ("gemm", 90, 4, 0),
        ("gemm", 90, 8, 1),
        ("gemm_descriptors", 90, 4, 0),
        ("gemm_descriptors", 90, 8, 2),
        ("gemm_specialized", 90, 4, 0),
        ("gemm_specialized", 90, 4, 3),
        ("gemm", 100, 4, 0),
        ("gemm_descriptors", 100, 8, 1),
        ("gemm_specialized", 100, 4, 0),
        ("gemm_specialized", 100, 4, 3),
    ],
)
def test_gemm(kernel: str, arch: int, warps: int, seed: int) -> None:
    m, n, k, turned = 128, 128, 256, kernel != "gemm"
    a, b, c = integers(m, k), integers(*((n, k) if turned else (k, n))), np.zeros((m, n), np.float16)
    made = compiled(
        kernel,
        {"a": "*fp16", "b": "*fp16", "c": "*fp16", **SIZES},
        {"BM": 128, "BN": 64, "BK": 64},
        arch,
        warps,
    )
    launch(made, (1, 2), [a, b, c, m, n, k], seed)
    assert np.array_equal(
        c, (a.astype(np.float32) @ (b.T if turned else b).astype(np.float32)).astype(np.float16)
    )


@pytest.mark.parametrize("arch", [80, 90, 100])
def test_gemm_of_integers(arch: int) -> None:
    a, b = (RANDOM.integers(-128, 128, (64, 128)).astype(np.int8) for _ in range(2))
    c = np.zeros((64, 64), np.int32)
    made = compiled(
        "gemm_integers", {"a": "*i8", "b": "*i8", "c": "*i32", **SIZES}, {"BM": 64, "BN": 64, "BK": 64}, arch
    )
    launch(made, (1, 1), [a, b, c, 64, 64, 128])
    assert np.array_equal(c, a.astype(np.int32) @ b.T.astype(np.int32))


@pytest.mark.parametrize(
    ("bits", "kind", "arch"),
    [
        (16, "bf16", 90),
        (8, "fp8e4nv", 90),
        (8, "fp8e5", 90),
        (32, "fp32", 90),
        (32, "fp32", 80),
        (8, "fp8e4nv", 100),
        (8, "fp8e5", 100),
        (32, "fp32", 100),
    ],
)
def test_gemm_of_other_types(bits: int, kind: str, arch: int) -> None:
    a, b = integers(128, 128).astype(np.float32), integers(64, 128).astype(np.float32)
    names = {"bf16": "bf16", "fp8e4nv": "e4m3", "fp8e5": "e5m2", "fp32": "f32"}
    made = compiled(
        "gemm_descriptors" if arch >= 90 else "gemm",
        {"a": f"*{kind}", "b": f"*{kind}", "c": "*fp32", **SIZES},
        {"BM": 128, "BN": 64, "BK": 512 // bits},
        arch,
    )
    c, given = np.zeros((128, 64), np.float32), b if arch >= 90 else np.ascontiguousarray(b.T)
    launch(made, (1, 1), [encoded(a, names[kind]), encoded(given, names[kind]), c, 128, 64, 128])
    assert np.array_equal(c, a @ b.T)


@pytest.mark.parametrize("arch", [80, 90, 100])
def test_attention(arch: int) -> None:
    q, k, v = (RANDOM.standard_normal((128, 64)).astype(np.float16) for _ in range(3))
    o = np.zeros_like(q)
    types = {"q": "*fp16", "k": "*fp16", "v": "*fp16", "o": "*fp16", "length": "i32", "scale": "fp32"}
    launch(compiled("attention", types, {"BM": 128, "BN": 64, "D": 64}, arch), (1,), [q, k, v, o, 128, 0.18])
    scores = q.astype(np.float64) @ k.T * 0.18
    p = np.exp2(scores - scores.max(1, keepdims=True))
    assert np.abs(o - p @ v / p.sum(1, keepdims=True)).max() < 1e-3


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_softmax(arch: int) -> None:
    x = RANDOM.standard_normal((4, 1000)).astype(np.float32)
    y = np.zeros_like(x)
    launch(
        compiled("softmax", {"x": "*fp32", "y": "*fp32", "columns": "i32"}, {"BLOCK": 1024}, arch),
        (4,),
        [x, y, 1000],
    )
    raised = np.exp(x - x.max(1, keepdims=True))
    assert np.allclose(y, raised / raised.sum(1, keepdims=True), rtol=1e-5, atol=0)


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_layer_norm(arch: int) -> None:
    x, y = RANDOM.standard_normal((2, 1000)).astype(np.float16), np.zeros((2, 1000), np.float16)
    weight, bias = (RANDOM.standard_normal(1000).astype(np.float32) for _ in range(2))
    types = {
        "x": "*fp16",
        "weight": "*fp32",
        "bias": "*fp32",
        "y": "*fp16",
        "columns": "i32",
        "epsilon": "fp32",
    }
    launch(compiled("layer_norm", types, {"BLOCK": 1024}, arch), (2,), [x, weight, bias, y, 1000, 1e-5])
    wide = x.astype(np.float64)
    expected = (wide - wide.mean(1, keepdims=True)) / np.sqrt(
        wide.var(1, keepdims=True) + 1e-5
    ) * weight + bias
    assert np.allclose(y, expected, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_transpose(arch: int) -> None:
    x, y = integers(128, 64), np.zeros((64, 128), np.float16)
    launch(
        compiled("transpose", {"x": "*fp16", "y": "*fp16", "M": "i32", "N": "i32"}, {"BLOCK": 64}, arch),
        (2, 1),
        [x, y, 128, 64],
    )
    assert np.array_equal(x.T, y)


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_atomic_additions(arch: int) -> None:
    x, counts = RANDOM.integers(0, 16, 1000).astype(np.int32), np.zeros(16, np.int32)
    launch(
        compiled("histogram", {"x": "*i32", "counts": "*i32", "size": "i32"}, {"BLOCK": 256}, arch),
        (4,),
        [x, counts, 1000],
    )
    assert np.array_equal(counts, np.bincount(x, minlength=16))


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_scan(arch: int) -> None:
    x = RANDOM.integers(0, 16, (2, 1000)).astype(np.int32)
    y = np.zeros_like(x)
    launch(
        compiled("running_sums", {"x": "*i32", "y": "*i32", "columns": "i32"}, {"BLOCK": 1024}, arch),
        (2,),
        [x, y, 1000],
    )
    assert np.array_equal(y, x.cumsum(1))


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_sort_and_argmax(arch: int) -> None:
    x = RANDOM.permutation(128).astype(np.int32).reshape(2, 64)
    y, places = np.zeros_like(x), np.zeros(2, np.int32)
    launch(
        compiled("sorted_rows", {"x": "*i32", "y": "*i32", "places": "*i32"}, {"columns": 64}, arch),
        (2,),
        [x, y, places],
    )
    assert np.array_equal(y, np.sort(x, 1))
    assert np.array_equal(places, x.argmax(1))


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_conversions(arch: int) -> None:
    x = np.concatenate([RANDOM.standard_normal(250) * scale for scale in (1, 100, 1e4, 1e-3)]).astype(
        np.float32
    )
    made = [np.zeros(1000, kind) for kind in (np.uint16, np.uint16, np.uint8, np.uint8, np.int32)]
    types = {
        "x": "*fp32",
        "half": "*fp16",
        "brain": "*bf16",
        "e4m3": "*fp8e4nv",
        "e5m2": "*fp8e5",
        "whole": "*i32",
        "size": "i32",
    }
    launch(compiled("conversions", types, {"BLOCK": 256}, arch), (4,), [x, *made, 1000])
    wanted = [
        x.astype(np.float16).view(np.uint16),
        *(encoded(x, kind) for kind in ("bf16", "e4m3", "e5m2")),
        x.astype(np.int32),
    ]
    for one, other in zip(made, wanted, strict=True):
        assert np.array_equal(one, other)


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_functions(arch: int) -> None:
    x = RANDOM.standard_normal(1000).astype(np.float32)
    y = np.zeros_like(x)
    launch(
        compiled("functions", {"x": "*fp32", "y": "*fp32", "size": "i32"}, {"BLOCK": 256}, arch),
        (4,),
        [x, y, 1000],
    )
    wide = x.astype(np.float64)
    made = (
        np.sin(wide)
        + np.cos(wide) * np.log2(np.abs(wide) + 1)
        + 1 / np.sqrt(wide * wide + 1)
        + 1 / (1 + np.exp(-wide))
    )
    assert np.allclose(y, made * wide + np.floor(wide), rtol=1e-5, atol=1e-5)
