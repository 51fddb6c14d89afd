# pyright: basic, reportArgumentType=false, reportAttributeAccessIssue=false
"""Runs the example kernels in Triton's interpreter and compares with NumPy: `TRITON_INTERPRET=1 python
interpret.py CASE`."""

import sys

import numpy as np
from triton.runtime.interpreter import GridExecutor, InterpreterBuilder, TensorHandle

from examples import kernels

rng = np.random.default_rng(0)


class Array:
    """A NumPy array as Triton wants tensors: a pointer and a type."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = np.ascontiguousarray(array)
        self.dtype = str(self.array.dtype)

    def data_ptr(self) -> int:
        return self.array.ctypes.data


def add_into(
    self: InterpreterBuilder, kind: object, desc: object, value: TensorHandle, indices: list[TensorHandle]
) -> None:
    """A reduction through a descriptor, which the interpreter lacks. The kernels only ever add."""
    old = self.create_descriptor_load(desc, indices, None)
    self.create_descriptor_store(desc, TensorHandle(old.data + value.data, value.dtype), indices)


InterpreterBuilder.create_descriptor_reduce = add_into
GridExecutor._init_args_hst = lambda self, args, kwargs: (args, kwargs)
GridExecutor._restore_args_dev = lambda self, *_: None


def half(*shape: int) -> Array:
    return Array(rng.standard_normal(shape).astype(np.float16))


def empty(*shape: int, dtype: type = np.float16) -> Array:
    return Array(np.full(shape, np.nan, dtype))


def close(found: Array, expected: np.ndarray) -> None:
    wide = found.array.astype(np.float64)
    error = np.linalg.norm(wide - expected) / np.linalg.norm(expected)
    assert error < 2e-3, error


def wide(array: Array) -> np.ndarray:
    return array.array.astype(np.float64)


def products() -> None:
    M, N, K_ = 96, 128, 96
    tile = {"BLOCK_M": 32, "BLOCK_N": 64, "BLOCK_K": 32, "GROUP": 2}
    a, b, up = half(M, K_), half(N, K_), half(N, K_)
    grid = (M // 32 * (N // 64),)
    expected = wide(a) @ wide(b).T

    c = empty(M, N)
    kernels.gemm[grid](a, b, c, M, N, K_, **tile)
    close(c, expected)

    c = empty(M, N)
    kernels.gemm_persistent[(4,)](a, b, c, M, N, K_, **tile)
    close(c, expected)

    c, sums = empty(M, N), empty(M, dtype=np.float32)
    kernels.gemm_reduction[grid](a, b, c, sums, M, N, K_, **tile)
    close(c, expected)
    close(sums, wide(a).sum(1))

    c = empty(M, N)
    kernels.dual_gemm[grid](a, b, up, c, M, N, K_, **tile)
    close(c, expected / (1 + np.exp(-expected)) * (wide(a) @ wide(up).T))


HEADS, LENGTH, DIM = 2, 128, 32
SCALE = DIM**-0.5


def attention(q: Array, k: Array, v: Array, causal: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Output, log2 of the denominators, and the weights."""
    split = [wide(x).reshape(HEADS, LENGTH, DIM) for x in (q, k, v)]
    scores = np.einsum("hqd,hkd->hqk", split[0], split[1]) * SCALE
    if causal:
        scores = np.where(np.tril(np.ones((LENGTH, LENGTH), bool)), scores, -np.inf)
    highest = scores.max(-1, keepdims=True)
    total = np.exp(scores - highest).sum(-1, keepdims=True)
    weights = np.exp(scores - highest) / total
    out = np.einsum("hqk,hkd->hqd", weights, split[2])
    return out.reshape(-1, DIM), ((highest + np.log(total)) / np.log(2)).reshape(-1), weights


def forward() -> None:
    q, k, v = (half(HEADS * LENGTH, DIM) for _ in range(3))
    for kernel, rows, causal in (
        (kernels.fa_fwd, 32, False),
        (kernels.fa_fwd_subtiled, 16, False),
        (kernels.fa_fwd_causal, 16, True),
    ):
        out, lse, _ = attention(q, k, v, causal)
        per_program = rows if kernel is kernels.fa_fwd else 2 * rows
        for block in (16, 32):
            o, found = empty(HEADS * LENGTH, DIM), empty(HEADS * LENGTH, dtype=np.float32)
            sizes = {"HEAD_DIM": DIM, "BLOCK_M": rows, "BLOCK_N": block}
            kernel[(LENGTH // per_program, HEADS)](q, k, v, o, found, SCALE, HEADS, LENGTH, **sizes)
            close(o, out)
            close(found, lse)


def backward() -> None:
    q, k, v, do = (half(HEADS * LENGTH, DIM) for _ in range(4))
    out, lse, weights = attention(q, k, v, causal=False)
    split = [wide(x).reshape(HEADS, LENGTH, DIM) for x in (q, k, v, do)]
    delta = (out * wide(do)).sum(1)
    slopes = weights * (np.einsum("hqd,hkd->hqk", split[3], split[2]) - delta.reshape(HEADS, LENGTH, 1))
    for kernel, rows in ((kernels.fa_bwd, 32), (kernels.fa_bwd_subtiled, 16)):
        dq, dk, dv = (
            Array(np.zeros((HEADS * LENGTH, DIM), np.float32)),
            empty(HEADS * LENGTH, DIM),
            empty(HEADS * LENGTH, DIM),
        )
        rest = (Array(lse.astype(np.float32)), Array(delta.astype(np.float32)), SCALE, HEADS, LENGTH)
        sizes = {"HEAD_DIM": DIM, "BLOCK_M": rows, "BLOCK_N": 32}
        kernel[(LENGTH // 32, HEADS)](q, k, v, do, dq, dk, dv, *rest, **sizes)
        close(Array(dq.array * SCALE), np.einsum("hqk,hkd->hqd", slopes, split[1]).reshape(-1, DIM) * SCALE)
        close(dk, np.einsum("hqk,hqd->hkd", slopes, split[0]).reshape(-1, DIM) * SCALE)
        close(dv, np.einsum("hqk,hqd->hkd", weights, split[3]).reshape(-1, DIM))


if __name__ == "__main__":
    {"products": products, "forward": forward, "backward": backward}[sys.argv[1]]()
