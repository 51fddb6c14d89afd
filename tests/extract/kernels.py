# pyright: basic, reportArgumentType=false, reportGeneralTypeIssues=false
"""Kernels with what the examples lack: while loops, branches, early returns, and operations of unusual
form."""

import triton
import triton.language as tl


@triton.jit(noinline=True)
def apart(x, n):
    return x * n, x + n


@triton.jit
def scaled_sum(a0, a1, b0, b1):
    return a0 * b0, a1 + b1


@triton.jit
def odd(x, y, z, n, BLOCK: tl.constexpr):
    """Nothing to schedule; many forms of text."""
    pid = tl.program_id(1)
    if pid > n:
        return
    offsets = pid * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + offsets, mask=offsets < n, other=0.0, cache_modifier=".cg", eviction_policy="evict_last")
    b = tl.load(y + offsets, mask=offsets < n, other=0)
    tl.device_print("b: ", b)
    c = tl.inline_asm_elementwise(
        "cvt.rna.tf32.f32 $0, $1;", "=r,r", [a], dtype=tl.float32, is_pure=True, pack=1
    )
    d, e = tl.associative_scan((c, a), 0, scaled_sum)
    f, _ = tl.split(tl.join(d, e))
    g, where = tl.max(c, 0, return_indices=True)
    tl.atomic_add(z + offsets, f, mask=offsets < n, sem="relaxed", scope="gpu")
    tl.atomic_max(y + 4, tl.atomic_cas(y, 0, 1))
    h, i = apart(n, 3)
    k = (
        tl.clamp(c, 0.0, 1.0)
        + tl.fma(c, c, d)
        + c.to(tl.float8e5).to(tl.float32)
        + tl.umulhi(b, b).to(tl.float32)
    )
    tl.store(y + tl.arange(0, 16), tl.histogram(b, 16))
    tl.store(z + offsets, tl.where(offsets < n, k, d) + g + where + h + i + tl.gather(c, b, 0))


@triton.jit
def while_gemm(x, n, BLOCK: tl.constexpr):
    """A product in a while loop, with a branch that gives a value."""
    at = tl.program_id(0)
    acc = tl.zeros([BLOCK, BLOCK], tl.float32)
    tile = tl.arange(0, BLOCK)[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :]
    while at < n:
        a = tl.load(x + tile + at)
        acc = tl.dot(a, a, acc)
        at += tl.num_programs(0)
        if at > 10:
            acc = acc * 2.0
        else:
            tl.store(x + at, 1.0)
    tl.store(x + tile, acc.to(tl.float16))


@triton.jit
def specialized_gemm(a, b, c, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    """A product whose loop Triton is asked to specialize."""
    a_desc = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BLOCK_M, BLOCK_K])
    b_desc = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BLOCK_N, BLOCK_K])
    c_desc = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BLOCK_M, BLOCK_N])
    row, col = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for k in tl.range(0, K, BLOCK_K, warp_specialize=True):
        x = a_desc.load([row, k])
        y = b_desc.load([col, k])
        acc = tl.dot(x, y.T, acc)
    c_desc.store([row, col], acc.to(tl.float16))


@triton.jit
def flat_gemm(a, b, c, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    """A loop of tiles around the loop of the product, which Triton makes one loop of."""
    a_desc = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BLOCK_M, BLOCK_K])
    b_desc = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BLOCK_N, BLOCK_K])
    c_desc = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BLOCK_M, BLOCK_N])
    columns = tl.cdiv(N, BLOCK_N)
    for tile in tl.range(tl.program_id(0), tl.cdiv(M, BLOCK_M) * columns, tl.num_programs(0), flatten=True):
        row, col = tile // columns * BLOCK_M, tile % columns * BLOCK_N
        acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
        for k in range(tl.cdiv(K, BLOCK_K)):
            acc = tl.dot(a_desc.load([row, k * BLOCK_K]), b_desc.load([col, k * BLOCK_K]).T, acc)
        c_desc.store([row, col], acc.to(tl.float16))


@triton.jit
def host_gemm(a_desc, b_desc, c_desc, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    """A product of matrices whose descriptors are made by the host."""
    row, col = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for k in range(0, K, BLOCK_K):
        acc = tl.dot(a_desc.load([row, k]), b_desc.load([col, k]).T, acc)
    c_desc.store([row, col], acc.to(tl.float16))


TILED = {
    **dict.fromkeys("abc", "*fp16:16"),
    **dict.fromkeys("MNK", "i32:16"),
    "BLOCK_M": 128,
    "BLOCK_N": 128,
    "BLOCK_K": 64,
}

TWILL = {
    "odd": {"x": "*fp32:16", "y": "*i32:16", "z": "*fp32", "n": "i32", "BLOCK": 256},
    "while_gemm": {"x": "*fp16:16", "n": "i32", "BLOCK": 64},
    "specialized_gemm": TILED,
    "flat_gemm": TILED,
    "host_gemm": {
        **dict.fromkeys(("a_desc", "b_desc"), "tensordesc<fp16[128, 64]>"),
        "c_desc": "tensordesc<fp16[128, 128]>",
        "K": "i32:16",
        "BLOCK_M": 128,
        "BLOCK_N": 128,
        "BLOCK_K": 64,
    },
}
