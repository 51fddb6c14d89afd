# pyright: basic, reportArgumentType=false, reportAttributeAccessIssue=false, reportCallIssue=false, reportGeneralTypeIssues=false
"""Kernels in Triton, whose PTX the machine is tried on. Triton compiles them with no GPU."""

import triton
import triton.language as tl


@triton.jit
def gemm(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rm, rn, rk = (
        tl.program_id(0) * BM + tl.arange(0, BM),
        tl.program_id(1) * BN + tl.arange(0, BN),
        tl.arange(0, BK),
    )
    at_a, at_b = a + rm[:, None] * K + rk[None, :], b + rk[:, None] * N + rn[None, :]
    sums = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, K, BK):
        sums = tl.dot(tl.load(at_a), tl.load(at_b), sums)
        at_a += BK
        at_b += BK * N
    tl.store(c + rm[:, None] * N + rn[None, :], sums.to(c.dtype.element_ty))


@triton.jit
def gemm_descriptors(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    tile_a = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    tile_b = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BN, BK])
    tile_c = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BM, BN])
    sums = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        sums = tl.dot(tile_a.load([m, k]), tile_b.load([n, k]).T, sums)
    tile_c.store([m, n], sums.to(c.dtype.element_ty))


@triton.jit
def gemm_specialized(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    tile_a = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    tile_b = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BN, BK])
    tile_c = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BM, BN])
    sums = tl.zeros((BM, BN), tl.float32)
    for k in tl.range(0, K, BK, warp_specialize=True):
        sums = tl.dot(tile_a.load([m, k]), tile_b.load([n, k]).T, sums)
    tile_c.store([m, n], sums.to(c.dtype.element_ty))


@triton.jit
def gemm_integers(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rm, rn, rk = (
        tl.program_id(0) * BM + tl.arange(0, BM),
        tl.program_id(1) * BN + tl.arange(0, BN),
        tl.arange(0, BK),
    )
    sums = tl.zeros((BM, BN), tl.int32)
    for k in range(0, K, BK):
        left = tl.load(a + rm[:, None] * K + k + rk[None, :])
        right = tl.load(b + rn[None, :] * K + k + rk[:, None])
        sums = tl.dot(left, right, sums, out_dtype=tl.int32)
    tl.store(c + rm[:, None] * N + rn[None, :], sums)


@triton.jit
def softmax(x, y, columns, BLOCK: tl.constexpr):
    at, row = tl.arange(0, BLOCK), tl.program_id(0)
    values = tl.load(x + row * columns + at, mask=at < columns, other=-float("inf"))
    raised = tl.exp(values - tl.max(values, axis=0))
    tl.store(y + row * columns + at, raised / tl.sum(raised, axis=0), mask=at < columns)


@triton.jit
def layer_norm(x, weight, bias, y, columns, epsilon, BLOCK: tl.constexpr):
    at, row = tl.arange(0, BLOCK), tl.program_id(0)
    inside = at < columns
    values = tl.load(x + row * columns + at, mask=inside, other=0.0).to(tl.float32)
    mean = tl.sum(values, axis=0) / columns
    centred = tl.where(inside, values - mean, 0.0)
    scale = 1 / tl.sqrt(tl.sum(centred * centred, axis=0) / columns + epsilon)
    made = centred * scale * tl.load(weight + at, mask=inside) + tl.load(bias + at, mask=inside)
    tl.store(y + row * columns + at, made.to(y.dtype.element_ty), mask=inside)


@triton.jit
def attention(q, k, v, o, length, scale, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    rm, rn, rd = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, D)
    query = tl.load(q + rm[:, None] * D + rd[None, :])
    highest = tl.full((BM,), -float("inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    sums = tl.zeros((BM, D), tl.float32)
    for start in range(0, length, BN):
        key = tl.load(k + (start + rn)[None, :] * D + rd[:, None])
        scores = tl.dot(query, key) * scale
        higher = tl.maximum(highest, tl.max(scores, axis=1))
        p = tl.exp2(scores - higher[:, None])
        decay = tl.exp2(highest - higher)
        total = total * decay + tl.sum(p, axis=1)
        value = tl.load(v + (start + rn)[:, None] * D + rd[None, :])
        sums = tl.dot(p.to(v.dtype.element_ty), value, sums * decay[:, None])
        highest = higher
    tl.store(o + rm[:, None] * D + rd[None, :], (sums / total[:, None]).to(o.dtype.element_ty))


@triton.jit
def transpose(x, y, M, N, BLOCK: tl.constexpr):
    rm, rn = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    tile = tl.load(x + rm[:, None] * N + rn[None, :])
    tl.store(y + rn[:, None] * M + rm[None, :], tl.trans(tile))


@triton.jit
def histogram(x, counts, size, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    bins = tl.load(x + at, mask=at < size, other=0)
    tl.atomic_add(counts + bins, 1, mask=at < size)


@triton.jit
def running_sums(x, y, columns, BLOCK: tl.constexpr):
    at, row = tl.arange(0, BLOCK), tl.program_id(0)
    values = tl.load(x + row * columns + at, mask=at < columns, other=0)
    tl.store(y + row * columns + at, tl.cumsum(values, axis=0), mask=at < columns)


@triton.jit
def sorted_rows(x, y, places, columns: tl.constexpr):
    at, row = tl.arange(0, columns), tl.program_id(0)
    values = tl.load(x + row * columns + at)
    tl.store(y + row * columns + at, tl.sort(values))
    tl.store(places + row, tl.argmax(values, axis=0))


@triton.jit
def conversions(x, half, brain, e4m3, e5m2, whole, size, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + at, mask=at < size, other=0.0)
    tl.store(half + at, values.to(tl.float16), mask=at < size)
    tl.store(brain + at, values.to(tl.bfloat16), mask=at < size)
    tl.store(e4m3 + at, values.to(tl.float8e4nv), mask=at < size)
    tl.store(e5m2 + at, values.to(tl.float8e5), mask=at < size)
    tl.store(whole + at, values.to(tl.int32), mask=at < size)


@triton.jit
def functions(x, y, size, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + at, mask=at < size, other=1.0)
    made = (
        tl.sin(values)
        + tl.cos(values) * tl.log2(tl.abs(values) + 1)
        + tl.rsqrt(values * values + 1)
        + tl.sigmoid(values)
    )
    tl.store(y + at, tl.fma(made, values, tl.floor(values)), mask=at < size)


@triton.jit
def gemm_persistent(
    a, b, c, M, N, K, PROGRAMS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    tile_a = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    tile_b = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BN, BK])
    tile_c = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BM, BN])
    columns = tl.cdiv(N, BN)
    for tile in tl.range(
        tl.program_id(0), tl.cdiv(M, BM) * columns, PROGRAMS, flatten=True, warp_specialize=True
    ):
        m, n = tile // columns * BM, tile % columns * BN
        sums = tl.zeros((BM, BN), tl.float32)
        for k in range(0, K, BK):
            sums = tl.dot(tile_a.load([m, k]), tile_b.load([n, k]).T, sums)
        tile_c.store([m, n], sums.to(c.dtype.element_ty))


@triton.jit
def gemm_scaled(
    a,
    a_scales,
    b,
    b_scales,
    c,
    M,
    N,
    K,
    A_TYPE: tl.constexpr,
    B_TYPE: tl.constexpr,
    VECTOR: tl.constexpr,
    A_PACK: tl.constexpr,
    B_PACK: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
):
    rm, rn = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
    ka, kb, ks = tl.arange(0, BK // A_PACK), tl.arange(0, BK // B_PACK), tl.arange(0, BK // VECTOR)
    sums = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        left = tl.load(a + rm[:, None] * (K // A_PACK) + k // A_PACK + ka[None, :])
        right = tl.load(b + rn[None, :] * (K // B_PACK) + k // B_PACK + kb[:, None])
        left_scales = tl.load(a_scales + rm[:, None] * (K // VECTOR) + k // VECTOR + ks[None, :])
        right_scales = tl.load(b_scales + rn[:, None] * (K // VECTOR) + k // VECTOR + ks[None, :])
        sums = tl.dot_scaled(left, left_scales, A_TYPE, right, right_scales, B_TYPE, sums)
    tl.store(c + rm[:, None] * N + rn[None, :], sums)


@triton.jit
def gemm_padded(
    a, a_scales, b, b_scales, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):  # fmt: skip
    """Of e4m3 by e2m1, which TMA pads."""
    a_desc = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    b_desc = tl.make_tensor_descriptor(b, [N, K // 2], [K // 2, 1], [BN, BK // 2])
    row, col, ks = tl.program_id(0) * BM, tl.program_id(1) * BN, tl.arange(0, BK // 32)
    rm, rn = row + tl.arange(0, BM), col + tl.arange(0, BN)
    sums = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        left_scales = tl.load(a_scales + rm[:, None] * (K // 32) + k // 32 + ks[None, :])
        right_scales = tl.load(b_scales + rn[:, None] * (K // 32) + k // 32 + ks[None, :])
        left, right = a_desc.load([row, k]), b_desc.load([col, k // 2])
        sums = tl.dot_scaled(left, left_scales, "e4m3", right.T, right_scales, "e2m1", sums)
    tl.store(c + rm[:, None] * N + rn[None, :], sums)


@triton.jit
def gemm_outer(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Of operands of 8 bits that are not contiguous along K."""
    a_desc = tl.make_tensor_descriptor(a, [K, M], [M, 1], [BK, BM])
    b_desc = tl.make_tensor_descriptor(b, [K, N], [N, 1], [BK, BN])
    row, col = tl.program_id(0) * BM, tl.program_id(1) * BN
    sums = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        sums = tl.dot(a_desc.load([k, row]).T, b_desc.load([k, col]), sums)
    rm, rn = row + tl.arange(0, BM), col + tl.arange(0, BN)
    tl.store(c + rm[:, None] * N + rn[None, :], sums)


@triton.jit
def attention_backward(
    q,
    k,
    v,
    do,
    highest,
    delta,
    dq,
    dk,
    dv,
    length,
    scale,
    BM: tl.constexpr,
    BN: tl.constexpr,
    D: tl.constexpr,
):
    """dK and dV of one block of keys, and its part of dQ; `highest` is the log2 of each row's sum."""
    rm, rn, rd = tl.arange(0, BM), tl.program_id(0) * BN + tl.arange(0, BN), tl.arange(0, D)
    key, value = tl.load(k + rn[:, None] * D + rd[None, :]), tl.load(v + rn[:, None] * D + rd[None, :])
    keys, values = tl.zeros((BN, D), tl.float32), tl.zeros((BN, D), tl.float32)
    for start in range(0, length, BM):
        at = (start + rm)[:, None] * D + rd[None, :]
        query, gradient = tl.load(q + at), tl.load(do + at)
        p = tl.exp2(tl.dot(query, tl.trans(key)) * scale - tl.load(highest + start + rm)[:, None])
        values = tl.dot(tl.trans(p.to(q.dtype.element_ty)), gradient, values)
        dp = tl.dot(gradient, tl.trans(value))
        ds = (p * (dp - tl.load(delta + start + rm)[:, None])).to(q.dtype.element_ty)
        keys = tl.dot(tl.trans(ds), query, keys)
        tl.atomic_add(dq + at, tl.dot(ds, key))
    at = rn[:, None] * D + rd[None, :]
    tl.store(dk + at, keys)
    tl.store(dv + at, values)


@triton.jit
def attention_specialized(q, k, v, o, length, scale, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    rm = tl.program_id(0) * BM
    tile_q = tl.make_tensor_descriptor(q, [length, D], [D, 1], [BM, D])
    tile_k = tl.make_tensor_descriptor(k, [length, D], [D, 1], [BN, D])
    tile_v = tl.make_tensor_descriptor(v, [length, D], [D, 1], [BN, D])
    tile_o = tl.make_tensor_descriptor(o, [length, D], [D, 1], [BM, D])
    query = tile_q.load([rm, 0])
    highest = tl.full((BM,), -float("inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    sums = tl.zeros((BM, D), tl.float32)
    for start in tl.range(0, length, BN, warp_specialize=True):
        scores = tl.dot(query, tile_k.load([start, 0]).T) * scale
        higher = tl.maximum(highest, tl.max(scores, axis=1))
        p = tl.exp2(scores - higher[:, None])
        decay = tl.exp2(highest - higher)
        total = total * decay + tl.sum(p, axis=1)
        sums = tl.dot(p.to(v.dtype.element_ty), tile_v.load([start, 0]), sums * decay[:, None])
        highest = higher
    tile_o.store([rm, 0], (sums / total[:, None]).to(o.dtype.element_ty))


@triton.jit
def packed_pairs(x, y, z, N: tl.constexpr):
    """Two elements in one instruction: add, mul and fma of .f32x2."""
    at = tl.arange(0, N)
    a, b = tl.load(x + at), tl.load(y + at)
    pairs = tl.inline_asm_elementwise(
        "{\n.reg .b64 a, b, c;\nmov.b64 a, {$2, $3};\nmov.b64 b, {$4, $5};\n"
        "fma.rn.f32x2 c, a, b, a;\nadd.rn.f32x2 c, c, b;\nmul.rn.f32x2 c, c, a;\nmov.b64 {$0, $1}, c;\n}",
        "=f,=f,f,f,f,f",
        [a, b],
        dtype=tl.float32,
        is_pure=True,
        pack=2,
    )
    tl.store(z + at, pairs)
