# pyright: basic, reportArgumentType=false, reportMissingImports=false, reportAttributeAccessIssue=false
"""Triton kernels to schedule: matrix products and attention, written with tensor descriptors.

    twill schedule examples/kernels.py:fa_fwd_subtiled --arch sm90
    twill extract  examples/kernels.py:gemm --arch sm100 --set BLOCK_N=128

Matrices are row major; every size is a multiple of its block, but for the columns of `gemm`. Attention tensors are
flattened to [heads * length, HEAD_DIM], where `heads` counts batch times heads. The table `TWILL` at the end says with
which argument types, block sizes and warps each kernel is compiled.
"""

import triton
import triton.language as tl

LOG2_E = tl.constexpr(1.4426950408889634)

# --- matrix products --------------------------------------------------------------------------------------------------


@triton.jit
def tile_corner(index, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, GROUP: tl.constexpr):
    """First row and column of the `index`-th tile; GROUP rows of tiles are walked together, to share them in L2."""
    rows, cols = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    group, within = index // (GROUP * cols), index % (GROUP * cols)
    height = min(rows - group * GROUP, GROUP)
    return (group * GROUP + within % height) * BLOCK_M, (within // height) * BLOCK_N


@triton.jit
def gemm(
    a, b, c, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP: tl.constexpr = 8
):  # fmt: skip
    """c[M, N] = a[M, K] @ b[N, K].T; one program for each tile of c."""
    a_desc = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BLOCK_M, BLOCK_K])
    b_desc = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BLOCK_N, BLOCK_K])
    c_desc = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BLOCK_M, BLOCK_N])
    row, col = tile_corner(tl.program_id(0), M, N, BLOCK_M, BLOCK_N, GROUP)
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for k in range(0, K, BLOCK_K):
        x = a_desc.load([row, k])
        y = b_desc.load([col, k])
        acc = tl.dot(x, y.T, acc)
    c_desc.store([row, col], acc.to(c.dtype.element_ty))


@triton.jit
def gemm_persistent(
    a, b, c, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP: tl.constexpr = 8
):  # fmt: skip
    """c[M, N] = a[M, K] @ b[N, K].T; each program walks over many tiles of c."""
    a_desc = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BLOCK_M, BLOCK_K])
    b_desc = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BLOCK_N, BLOCK_K])
    c_desc = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BLOCK_M, BLOCK_N])
    tiles = tl.cdiv(M, BLOCK_M) * tl.cdiv(N, BLOCK_N)
    for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):
        row, col = tile_corner(tile, M, N, BLOCK_M, BLOCK_N, GROUP)
        acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
        for k in range(0, K, BLOCK_K):
            x = a_desc.load([row, k])
            y = b_desc.load([col, k])
            acc = tl.dot(x, y.T, acc)
        c_desc.store([row, col], acc.to(c.dtype.element_ty))


@triton.jit
def dual_gemm(
    a, gate, up, c, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP: tl.constexpr = 8
):  # fmt: skip
    """c = silu(a @ gate.T) * (a @ up.T), the first half of a gated feed-forward layer; both products share a."""
    a_desc = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BLOCK_M, BLOCK_K])
    gate_desc = tl.make_tensor_descriptor(gate, [N, K], [K, 1], [BLOCK_N, BLOCK_K])
    up_desc = tl.make_tensor_descriptor(up, [N, K], [K, 1], [BLOCK_N, BLOCK_K])
    c_desc = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BLOCK_M, BLOCK_N])
    row, col = tile_corner(tl.program_id(0), M, N, BLOCK_M, BLOCK_N, GROUP)
    gated = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    linear = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for k in range(0, K, BLOCK_K):
        x = a_desc.load([row, k])
        y = gate_desc.load([col, k])
        z = up_desc.load([col, k])
        gated = tl.dot(x, y.T, gated)
        linear = tl.dot(x, z.T, linear)
    silu = gated / (1.0 + tl.exp2(gated * -LOG2_E))
    c_desc.store([row, col], (silu * linear).to(c.dtype.element_ty))


@triton.jit
def gemm_reduction(
    a, b, c, sums, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP: tl.constexpr = 8
):  # fmt: skip
    """c = a @ b.T and sums[m] = sum over k of a[m, k], from one reading of a."""
    a_desc = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BLOCK_M, BLOCK_K])
    b_desc = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BLOCK_N, BLOCK_K])
    c_desc = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BLOCK_M, BLOCK_N])
    row, col = tile_corner(tl.program_id(0), M, N, BLOCK_M, BLOCK_N, GROUP)
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    for k in range(0, K, BLOCK_K):
        x = a_desc.load([row, k])
        y = b_desc.load([col, k])
        acc = tl.dot(x, y.T, acc)
        total += tl.sum(x.to(tl.float32), 1)
    c_desc.store([row, col], acc.to(c.dtype.element_ty))
    if col == 0:
        tl.store(sums + row + tl.arange(0, BLOCK_M), total)


# --- attention, forward -----------------------------------------------------------------------------------------------


@triton.jit
def softmax_step(scores, highest, total, scale):
    """One block of an online softmax, in powers of two.

    `highest` and `total` are the running maximum and sum of each row; gives the block's weights, by how much to scale
    what has been accumulated so far, and the new maximum and sum.
    """
    raised = tl.maximum(highest, tl.max(scores, 1) * scale)
    weights = tl.exp2(scores * scale - raised[:, None])
    shrink = tl.exp2(highest - raised)
    return weights, shrink, raised, total * shrink + tl.sum(weights, 1)


@triton.jit
def store_rows(o_desc, lse, row, acc, highest, total, BLOCK_M: tl.constexpr):
    """Writes a finished query tile and, for the backward pass, log2 of its softmax denominators."""
    o_desc.store([row, 0], (acc / total[:, None]).to(o_desc.dtype))
    tl.store(lse + row + tl.arange(0, BLOCK_M), highest + tl.log2(total))


@triton.jit
def fa_fwd(
    q, k, v, o, lse, scale, heads, length, HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    """o = softmax(q @ k.T * scale) @ v for one tile of BLOCK_M queries of one head."""
    rows = heads * length
    q_desc = tl.make_tensor_descriptor(q, [rows, HEAD_DIM], [HEAD_DIM, 1], [BLOCK_M, HEAD_DIM])
    k_desc = tl.make_tensor_descriptor(k, [rows, HEAD_DIM], [HEAD_DIM, 1], [BLOCK_N, HEAD_DIM])
    v_desc = tl.make_tensor_descriptor(v, [rows, HEAD_DIM], [HEAD_DIM, 1], [BLOCK_N, HEAD_DIM])
    o_desc = tl.make_tensor_descriptor(o, [rows, HEAD_DIM], [HEAD_DIM, 1], [BLOCK_M, HEAD_DIM])
    first_key = tl.program_id(1) * length
    row = first_key + tl.program_id(0) * BLOCK_M
    scale2 = scale * LOG2_E

    x = q_desc.load([row, 0])
    acc = tl.zeros([BLOCK_M, HEAD_DIM], tl.float32)
    highest = tl.full([BLOCK_M], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    for start in range(0, length, BLOCK_N):
        y = k_desc.load([first_key + start, 0])
        scores = tl.dot(x, y.T)
        weights, shrink, highest, total = softmax_step(scores, highest, total, scale2)
        z = v_desc.load([first_key + start, 0])
        acc = tl.dot(weights.to(z.dtype), z, acc * shrink[:, None])
    store_rows(o_desc, lse, row, acc, highest, total, BLOCK_M)


@triton.jit
def fa_fwd_subtiled(
    q, k, v, o, lse, scale, heads, length, HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    """As `fa_fwd`, for two tiles of BLOCK_M queries that share every key and value."""
    rows = heads * length
    q_desc = tl.make_tensor_descriptor(q, [rows, HEAD_DIM], [HEAD_DIM, 1], [BLOCK_M, HEAD_DIM])
    k_desc = tl.make_tensor_descriptor(k, [rows, HEAD_DIM], [HEAD_DIM, 1], [BLOCK_N, HEAD_DIM])
    v_desc = tl.make_tensor_descriptor(v, [rows, HEAD_DIM], [HEAD_DIM, 1], [BLOCK_N, HEAD_DIM])
    o_desc = tl.make_tensor_descriptor(o, [rows, HEAD_DIM], [HEAD_DIM, 1], [BLOCK_M, HEAD_DIM])
    first_key = tl.program_id(1) * length
    row0 = first_key + tl.program_id(0) * (2 * BLOCK_M)
    row1 = row0 + BLOCK_M
    scale2 = scale * LOG2_E

    x0 = q_desc.load([row0, 0])
    x1 = q_desc.load([row1, 0])
    acc0 = tl.zeros([BLOCK_M, HEAD_DIM], tl.float32)
    acc1 = tl.zeros([BLOCK_M, HEAD_DIM], tl.float32)
    highest0 = tl.full([BLOCK_M], float("-inf"), tl.float32)
    highest1 = tl.full([BLOCK_M], float("-inf"), tl.float32)
    total0 = tl.zeros([BLOCK_M], tl.float32)
    total1 = tl.zeros([BLOCK_M], tl.float32)
    for start in range(0, length, BLOCK_N):
        y = k_desc.load([first_key + start, 0])
        scores0 = tl.dot(x0, y.T)
        scores1 = tl.dot(x1, y.T)
        weights0, shrink0, highest0, total0 = softmax_step(scores0, highest0, total0, scale2)
        weights1, shrink1, highest1, total1 = softmax_step(scores1, highest1, total1, scale2)
        z = v_desc.load([first_key + start, 0])
        acc0 = tl.dot(weights0.to(z.dtype), z, acc0 * shrink0[:, None])
        acc1 = tl.dot(weights1.to(z.dtype), z, acc1 * shrink1[:, None])
    store_rows(o_desc, lse, row0, acc0, highest0, total0, BLOCK_M)
    store_rows(o_desc, lse, row1, acc1, highest1, total1, BLOCK_M)


@triton.jit
def fa_fwd_causal(
    q, k, v, o, lse, scale, heads, length, HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    """As `fa_fwd_subtiled`, where a query sees no later key: blocks of keys wholly before both tiles, then the rest.

    2 * BLOCK_M is a multiple of BLOCK_N.
    """
    rows = heads * length
    q_desc = tl.make_tensor_descriptor(q, [rows, HEAD_DIM], [HEAD_DIM, 1], [BLOCK_M, HEAD_DIM])
    k_desc = tl.make_tensor_descriptor(k, [rows, HEAD_DIM], [HEAD_DIM, 1], [BLOCK_N, HEAD_DIM])
    v_desc = tl.make_tensor_descriptor(v, [rows, HEAD_DIM], [HEAD_DIM, 1], [BLOCK_N, HEAD_DIM])
    o_desc = tl.make_tensor_descriptor(o, [rows, HEAD_DIM], [HEAD_DIM, 1], [BLOCK_M, HEAD_DIM])
    first_key = tl.program_id(1) * length
    query0 = (tl.num_programs(0) - 1 - tl.program_id(0)) * (2 * BLOCK_M)  # the longest first
    query1 = query0 + BLOCK_M
    scale2 = scale * LOG2_E

    x0 = q_desc.load([first_key + query0, 0])
    x1 = q_desc.load([first_key + query1, 0])
    acc0 = tl.zeros([BLOCK_M, HEAD_DIM], tl.float32)
    acc1 = tl.zeros([BLOCK_M, HEAD_DIM], tl.float32)
    highest0 = tl.full([BLOCK_M], float("-inf"), tl.float32)
    highest1 = tl.full([BLOCK_M], float("-inf"), tl.float32)
    total0 = tl.zeros([BLOCK_M], tl.float32)
    total1 = tl.zeros([BLOCK_M], tl.float32)
    for start in range(0, query0, BLOCK_N):
        y = k_desc.load([first_key + start, 0])
        scores0 = tl.dot(x0, y.T)
        scores1 = tl.dot(x1, y.T)
        weights0, shrink0, highest0, total0 = softmax_step(scores0, highest0, total0, scale2)
        weights1, shrink1, highest1, total1 = softmax_step(scores1, highest1, total1, scale2)
        z = v_desc.load([first_key + start, 0])
        acc0 = tl.dot(weights0.to(z.dtype), z, acc0 * shrink0[:, None])
        acc1 = tl.dot(weights1.to(z.dtype), z, acc1 * shrink1[:, None])

    seen = tl.arange(0, BLOCK_M)[:, None] - tl.arange(0, BLOCK_N)[None, :]
    for start in range(query0, min(query0 + 2 * BLOCK_M, length), BLOCK_N):
        y = k_desc.load([first_key + start, 0])
        scores0 = tl.where(seen >= start - query0, tl.dot(x0, y.T), float("-inf"))
        scores1 = tl.where(seen >= start - query1, tl.dot(x1, y.T), float("-inf"))
        weights0, shrink0, highest0, total0 = softmax_step(scores0, highest0, total0, scale2)
        weights1, shrink1, highest1, total1 = softmax_step(scores1, highest1, total1, scale2)
        z = v_desc.load([first_key + start, 0])
        acc0 = tl.dot(weights0.to(z.dtype), z, acc0 * shrink0[:, None])
        acc1 = tl.dot(weights1.to(z.dtype), z, acc1 * shrink1[:, None])
    store_rows(o_desc, lse, first_key + query0, acc0, highest0, total0, BLOCK_M)
    store_rows(o_desc, lse, first_key + query1, acc1, highest1, total1, BLOCK_M)


# --- attention, backward ----------------------------------------------------------------------------------------------


@triton.jit
def weights_and_slopes(y, z, x, g, lse, delta, row, scale2, BLOCK_M: tl.constexpr):
    """The softmax weights of keys y and queries x, and the derivative of the loss by their scores, both transposed.

    Keys run along the rows and queries along the columns, so that both can feed the next products as they are.
    """
    query = row + tl.arange(0, BLOCK_M)
    weights = tl.exp2(tl.dot(y, x.T) * scale2 - tl.load(lse + query)[None, :])
    slopes = weights * (tl.dot(z, g.T) - tl.load(delta + query)[None, :])
    return weights.to(x.dtype), slopes.to(x.dtype)


@triton.jit
def fa_bwd(
    q, k, v, do, dq, dk, dv, lse, delta, scale, heads, length,
    HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    """Gradients of `fa_fwd` for one tile of BLOCK_N keys and values, which meets every block of BLOCK_M queries.

    `lse` comes from the forward pass, delta[row] = sum(o * do). `dq` is float32, starts at zero, is added to by every
    program, and is to be multiplied by `scale` afterwards.
    """
    rows = heads * length
    q_desc = tl.make_tensor_descriptor(q, [rows, HEAD_DIM], [HEAD_DIM, 1], [BLOCK_M, HEAD_DIM])
    k_desc = tl.make_tensor_descriptor(k, [rows, HEAD_DIM], [HEAD_DIM, 1], [BLOCK_N, HEAD_DIM])
    v_desc = tl.make_tensor_descriptor(v, [rows, HEAD_DIM], [HEAD_DIM, 1], [BLOCK_N, HEAD_DIM])
    do_desc = tl.make_tensor_descriptor(do, [rows, HEAD_DIM], [HEAD_DIM, 1], [BLOCK_M, HEAD_DIM])
    dq_desc = tl.make_tensor_descriptor(dq, [rows, HEAD_DIM], [HEAD_DIM, 1], [BLOCK_M, HEAD_DIM])
    dk_desc = tl.make_tensor_descriptor(dk, [rows, HEAD_DIM], [HEAD_DIM, 1], [BLOCK_N, HEAD_DIM])
    dv_desc = tl.make_tensor_descriptor(dv, [rows, HEAD_DIM], [HEAD_DIM, 1], [BLOCK_N, HEAD_DIM])
    first_query = tl.program_id(1) * length
    key = first_query + tl.program_id(0) * BLOCK_N
    scale2 = scale * LOG2_E

    y = k_desc.load([key, 0])
    z = v_desc.load([key, 0])
    dy = tl.zeros([BLOCK_N, HEAD_DIM], tl.float32)
    dz = tl.zeros([BLOCK_N, HEAD_DIM], tl.float32)
    for start in range(0, length, BLOCK_M):
        row = first_query + start
        x = q_desc.load([row, 0])
        g = do_desc.load([row, 0])
        weights, slopes = weights_and_slopes(y, z, x, g, lse, delta, row, scale2, BLOCK_M)
        dz = tl.dot(weights, g, dz)
        dy = tl.dot(slopes, x, dy)
        dq_desc.atomic_add([row, 0], tl.dot(slopes.T, y))
    dv_desc.store([key, 0], dz.to(dv.dtype.element_ty))
    dk_desc.store([key, 0], (dy * scale).to(dk.dtype.element_ty))


@triton.jit
def fa_bwd_subtiled(
    q, k, v, do, dq, dk, dv, lse, delta, scale, heads, length,
    HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    """As `fa_bwd`, meeting two blocks of BLOCK_M queries in each step."""
    rows = heads * length
    q_desc = tl.make_tensor_descriptor(q, [rows, HEAD_DIM], [HEAD_DIM, 1], [BLOCK_M, HEAD_DIM])
    k_desc = tl.make_tensor_descriptor(k, [rows, HEAD_DIM], [HEAD_DIM, 1], [BLOCK_N, HEAD_DIM])
    v_desc = tl.make_tensor_descriptor(v, [rows, HEAD_DIM], [HEAD_DIM, 1], [BLOCK_N, HEAD_DIM])
    do_desc = tl.make_tensor_descriptor(do, [rows, HEAD_DIM], [HEAD_DIM, 1], [BLOCK_M, HEAD_DIM])
    dq_desc = tl.make_tensor_descriptor(dq, [rows, HEAD_DIM], [HEAD_DIM, 1], [BLOCK_M, HEAD_DIM])
    dk_desc = tl.make_tensor_descriptor(dk, [rows, HEAD_DIM], [HEAD_DIM, 1], [BLOCK_N, HEAD_DIM])
    dv_desc = tl.make_tensor_descriptor(dv, [rows, HEAD_DIM], [HEAD_DIM, 1], [BLOCK_N, HEAD_DIM])
    first_query = tl.program_id(1) * length
    key = first_query + tl.program_id(0) * BLOCK_N
    scale2 = scale * LOG2_E

    y = k_desc.load([key, 0])
    z = v_desc.load([key, 0])
    dy = tl.zeros([BLOCK_N, HEAD_DIM], tl.float32)
    dz = tl.zeros([BLOCK_N, HEAD_DIM], tl.float32)
    for start in range(0, length, 2 * BLOCK_M):
        row0 = first_query + start
        row1 = row0 + BLOCK_M
        x0 = q_desc.load([row0, 0])
        g0 = do_desc.load([row0, 0])
        x1 = q_desc.load([row1, 0])
        g1 = do_desc.load([row1, 0])
        weights0, slopes0 = weights_and_slopes(y, z, x0, g0, lse, delta, row0, scale2, BLOCK_M)
        weights1, slopes1 = weights_and_slopes(y, z, x1, g1, lse, delta, row1, scale2, BLOCK_M)
        dz = tl.dot(weights0, g0, dz)
        dz = tl.dot(weights1, g1, dz)
        dy = tl.dot(slopes0, x0, dy)
        dy = tl.dot(slopes1, x1, dy)
        dq_desc.atomic_add([row0, 0], tl.dot(slopes0.T, y))
        dq_desc.atomic_add([row1, 0], tl.dot(slopes1.T, y))
    dv_desc.store([key, 0], dz.to(dv.dtype.element_ty))
    dk_desc.store([key, 0], (dy * scale).to(dk.dtype.element_ty))


@triton.jit
def fa_fwd_masked(
    q, k, v, o, lse, scale, heads, length, HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    """As `fa_fwd_causal`, in one loop from the last block of keys to the first: a block of keys that reaches
    beyond the first query is masked. BLOCK_N is 2 * BLOCK_M.
    """
    rows = heads * length
    q_desc = tl.make_tensor_descriptor(q, [rows, HEAD_DIM], [HEAD_DIM, 1], [BLOCK_M, HEAD_DIM])
    k_desc = tl.make_tensor_descriptor(k, [rows, HEAD_DIM], [HEAD_DIM, 1], [BLOCK_N, HEAD_DIM])
    v_desc = tl.make_tensor_descriptor(v, [rows, HEAD_DIM], [HEAD_DIM, 1], [BLOCK_N, HEAD_DIM])
    o_desc = tl.make_tensor_descriptor(o, [rows, HEAD_DIM], [HEAD_DIM, 1], [BLOCK_M, HEAD_DIM])
    first_key = tl.program_id(1) * length
    query0 = (tl.num_programs(0) - 1 - tl.program_id(0)) * (2 * BLOCK_M)  # the longest first
    query1 = query0 + BLOCK_M
    scale2 = scale * LOG2_E

    x0 = q_desc.load([first_key + query0, 0])
    x1 = q_desc.load([first_key + query1, 0])
    acc0 = tl.zeros([BLOCK_M, HEAD_DIM], tl.float32)
    acc1 = tl.zeros([BLOCK_M, HEAD_DIM], tl.float32)
    highest0 = tl.full([BLOCK_M], float("-inf"), tl.float32)
    highest1 = tl.full([BLOCK_M], float("-inf"), tl.float32)
    total0 = tl.zeros([BLOCK_M], tl.float32)
    total1 = tl.zeros([BLOCK_M], tl.float32)
    seen = tl.arange(0, BLOCK_M)[:, None] - tl.arange(0, BLOCK_N)[None, :]
    end = min(query0 + 2 * BLOCK_M, length)
    for done in range(0, end, BLOCK_N):
        start = end - BLOCK_N - done
        y = k_desc.load([first_key + start, 0])
        scores0 = tl.dot(x0, y.T)
        scores1 = tl.dot(x1, y.T)
        if done < 2 * BLOCK_M:
            scores0 = tl.where(seen >= start - query0, scores0, float("-inf"))
            scores1 = tl.where(seen >= start - query1, scores1, float("-inf"))
        weights0, shrink0, highest0, total0 = softmax_step(scores0, highest0, total0, scale2)
        weights1, shrink1, highest1, total1 = softmax_step(scores1, highest1, total1, scale2)
        z = v_desc.load([first_key + start, 0])
        acc0 = tl.dot(weights0.to(z.dtype), z, acc0 * shrink0[:, None])
        acc1 = tl.dot(weights1.to(z.dtype), z, acc1 * shrink1[:, None])
    store_rows(o_desc, lse, first_key + query0, acc0, highest0, total0, BLOCK_M)
    store_rows(o_desc, lse, first_key + query1, acc1, highest1, total1, BLOCK_M)


@triton.jit
def fa_fwd_window(
    q, k, v, o, lse, scale, heads, length, window,
    HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    """As `fa_fwd_masked`, where a query sees itself and the `window` - 1 keys before it: blocks of keys at both ends
    of what a tile of queries sees are masked. BLOCK_N is 2 * BLOCK_M.
    """
    rows = heads * length
    q_desc = tl.make_tensor_descriptor(q, [rows, HEAD_DIM], [HEAD_DIM, 1], [BLOCK_M, HEAD_DIM])
    k_desc = tl.make_tensor_descriptor(k, [rows, HEAD_DIM], [HEAD_DIM, 1], [BLOCK_N, HEAD_DIM])
    v_desc = tl.make_tensor_descriptor(v, [rows, HEAD_DIM], [HEAD_DIM, 1], [BLOCK_N, HEAD_DIM])
    o_desc = tl.make_tensor_descriptor(o, [rows, HEAD_DIM], [HEAD_DIM, 1], [BLOCK_M, HEAD_DIM])
    first_key = tl.program_id(1) * length
    query0 = (tl.num_programs(0) - 1 - tl.program_id(0)) * (2 * BLOCK_M)
    query1 = query0 + BLOCK_M
    scale2 = scale * LOG2_E

    x0 = q_desc.load([first_key + query0, 0])
    x1 = q_desc.load([first_key + query1, 0])
    acc0 = tl.zeros([BLOCK_M, HEAD_DIM], tl.float32)
    acc1 = tl.zeros([BLOCK_M, HEAD_DIM], tl.float32)
    highest0 = tl.full([BLOCK_M], float("-inf"), tl.float32)
    highest1 = tl.full([BLOCK_M], float("-inf"), tl.float32)
    total0 = tl.zeros([BLOCK_M], tl.float32)
    total1 = tl.zeros([BLOCK_M], tl.float32)
    before = tl.arange(0, BLOCK_M)[:, None] - tl.arange(0, BLOCK_N)[None, :]
    end = query0 + 2 * BLOCK_M
    seen = min(end, window + 2 * BLOCK_M - 1)
    for done in range(0, seen, BLOCK_N):
        start = end - BLOCK_N - done
        y = k_desc.load([first_key + start, 0])
        scores0 = tl.dot(x0, y.T)
        scores1 = tl.dot(x1, y.T)
        if (done < 2 * BLOCK_M) | (start < end - window):
            back0 = before + (query0 - start)
            back1 = before + (query1 - start)
            scores0 = tl.where((back0 >= 0) & (back0 < window), scores0, float("-inf"))
            scores1 = tl.where((back1 >= 0) & (back1 < window), scores1, float("-inf"))
        weights0, shrink0, highest0, total0 = softmax_step(scores0, highest0, total0, scale2)
        weights1, shrink1, highest1, total1 = softmax_step(scores1, highest1, total1, scale2)
        z = v_desc.load([first_key + start, 0])
        acc0 = tl.dot(weights0.to(z.dtype), z, acc0 * shrink0[:, None])
        acc1 = tl.dot(weights1.to(z.dtype), z, acc1 * shrink1[:, None])
    store_rows(o_desc, lse, first_key + query0, acc0, highest0, total0, BLOCK_M)
    store_rows(o_desc, lse, first_key + query1, acc1, highest1, total1, BLOCK_M)


@triton.jit
def capped(scores, scale, cap):
    """cap * tanh(scores * scale / cap), in the logarithm's units that `softmax_step` takes with a scale of 1.

    The divisor is 1 at least, so that the fast division loses nothing.
    """
    most = cap * LOG2_E
    return most - tl.extra.cuda.libdevice.fast_dividef(2.0 * most, 1.0 + tl.exp2(scores * (2.0 * LOG2_E * scale / cap)))


@triton.jit
def fa_fwd_softcap(
    q, k, v, o, lse, scale, cap, heads, groups, length,
    HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    """As `fa_fwd_subtiled`, where `groups` heads of queries share keys and values, and scores are kept between -cap and cap."""
    rows, key_rows = heads * length, heads // groups * length
    q_desc = tl.make_tensor_descriptor(q, [rows, HEAD_DIM], [HEAD_DIM, 1], [BLOCK_M, HEAD_DIM])
    k_desc = tl.make_tensor_descriptor(k, [key_rows, HEAD_DIM], [HEAD_DIM, 1], [BLOCK_N, HEAD_DIM])
    v_desc = tl.make_tensor_descriptor(v, [key_rows, HEAD_DIM], [HEAD_DIM, 1], [BLOCK_N, HEAD_DIM])
    o_desc = tl.make_tensor_descriptor(o, [rows, HEAD_DIM], [HEAD_DIM, 1], [BLOCK_M, HEAD_DIM])
    first_key = tl.program_id(1) // groups * length
    row0 = tl.program_id(1) * length + tl.program_id(0) * (2 * BLOCK_M)
    row1 = row0 + BLOCK_M

    x0 = q_desc.load([row0, 0])
    x1 = q_desc.load([row1, 0])
    acc0 = tl.zeros([BLOCK_M, HEAD_DIM], tl.float32)
    acc1 = tl.zeros([BLOCK_M, HEAD_DIM], tl.float32)
    highest0 = tl.full([BLOCK_M], float("-inf"), tl.float32)
    highest1 = tl.full([BLOCK_M], float("-inf"), tl.float32)
    total0 = tl.zeros([BLOCK_M], tl.float32)
    total1 = tl.zeros([BLOCK_M], tl.float32)
    for start in range(0, length, BLOCK_N):
        y = k_desc.load([first_key + start, 0])
        scores0 = capped(tl.dot(x0, y.T), scale, cap)
        scores1 = capped(tl.dot(x1, y.T), scale, cap)
        weights0, shrink0, highest0, total0 = softmax_step(scores0, highest0, total0, 1.0)
        weights1, shrink1, highest1, total1 = softmax_step(scores1, highest1, total1, 1.0)
        z = v_desc.load([first_key + start, 0])
        acc0 = tl.dot(weights0.to(z.dtype), z, acc0 * shrink0[:, None])
        acc1 = tl.dot(weights1.to(z.dtype), z, acc1 * shrink1[:, None])
    store_rows(o_desc, lse, row0, acc0, highest0, total0, BLOCK_M)
    store_rows(o_desc, lse, row1, acc1, highest1, total1, BLOCK_M)


# --- products of block-scaled operands ---------------------------------------------------------------------------------


@triton.jit
def scale_factors(desc, row, block, ROWS: tl.constexpr, BLOCKS: tl.constexpr):
    """ROWS x (4 * BLOCKS) scale factors from block number `block` along K on, from memory in blocks of 128 rows x 4."""
    x = desc.load([0, row // 128, block, 0, 0]).reshape(ROWS // 128, BLOCKS, 32, 4, 4)
    return x.trans(0, 3, 2, 1, 4).reshape(ROWS, 4 * BLOCKS)


@triton.jit
def scaled_tile(
    a, b, c, a_scales, b_scales, M, N, K, FORMAT: tl.constexpr, VECTOR: tl.constexpr, PACK: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP: tl.constexpr
):  # fmt: skip
    """A tile of c = (a * a_scales) @ (b * b_scales).T, with a scale factor for VECTOR elements along K. PACK elements are a byte."""
    a_desc = tl.make_tensor_descriptor(a, [M, K // PACK], [K // PACK, 1], [BLOCK_M, BLOCK_K // PACK])
    b_desc = tl.make_tensor_descriptor(b, [N, K // PACK], [K // PACK, 1], [BLOCK_N, BLOCK_K // PACK])
    c_desc = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BLOCK_M, BLOCK_N])
    BLOCKS: tl.constexpr = BLOCK_K // VECTOR // 4
    blocks = K // (4 * VECTOR)
    x_desc = tl.make_tensor_descriptor(
        a_scales, [1, M // 128, blocks, 2, 256], [M * blocks * 4, blocks * 512, 512, 256, 1], [1, BLOCK_M // 128, BLOCKS, 2, 256]
    )
    y_desc = tl.make_tensor_descriptor(
        b_scales, [1, N // 128, blocks, 2, 256], [N * blocks * 4, blocks * 512, 512, 256, 1], [1, BLOCK_N // 128, BLOCKS, 2, 256]
    )
    row, col = tile_corner(tl.program_id(0), M, N, BLOCK_M, BLOCK_N, GROUP)
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for i in range(K // BLOCK_K):
        x = a_desc.load([row, i * (BLOCK_K // PACK)])
        y = b_desc.load([col, i * (BLOCK_K // PACK)])
        left = scale_factors(x_desc, row, i * BLOCKS, BLOCK_M, BLOCKS)
        right = scale_factors(y_desc, col, i * BLOCKS, BLOCK_N, BLOCKS)
        acc = tl.dot_scaled(x, left, FORMAT, y.T, right, FORMAT, acc)
    c_desc.store([row, col], acc.to(c.dtype.element_ty))


@triton.jit
def gemm_mxfp8(
    a, b, c, a_scales, b_scales, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP: tl.constexpr = 8
):  # fmt: skip
    """c[M, N] = a[M, K] @ b[N, K].T of e4m3; 32 elements along K share a scale factor, a power of two."""
    scaled_tile(a, b, c, a_scales, b_scales, M, N, K, "e4m3", 32, 1, BLOCK_M, BLOCK_N, BLOCK_K, GROUP)


@triton.jit
def gemm_nvfp4(
    a, b, c, a_scales, b_scales, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP: tl.constexpr = 8
):  # fmt: skip
    """c[M, N] = a[M, K] @ b[N, K].T of e2m1, two in a byte; 16 elements along K share a scale factor of e4m3."""
    scaled_tile(a, b, c, a_scales, b_scales, M, N, K, "e2m1", 16, 2, BLOCK_M, BLOCK_N, BLOCK_K, GROUP)


# --- attention as it suits Triton -------------------------------------------------------------------------------------


@triton.jit
def fa_fwd_causal_whole(
    q, k, v, o, lse, scale, heads, length, HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    """As `fa_fwd_causal` with one tile of BLOCK_M queries, a multiple of BLOCK_N."""
    rows = heads * length
    q_desc = tl.make_tensor_descriptor(q, [rows, HEAD_DIM], [HEAD_DIM, 1], [BLOCK_M, HEAD_DIM])
    k_desc = tl.make_tensor_descriptor(k, [rows, HEAD_DIM], [HEAD_DIM, 1], [BLOCK_N, HEAD_DIM])
    v_desc = tl.make_tensor_descriptor(v, [rows, HEAD_DIM], [HEAD_DIM, 1], [BLOCK_N, HEAD_DIM])
    o_desc = tl.make_tensor_descriptor(o, [rows, HEAD_DIM], [HEAD_DIM, 1], [BLOCK_M, HEAD_DIM])
    first_key = tl.program_id(1) * length
    query = (tl.num_programs(0) - 1 - tl.program_id(0)) * BLOCK_M  # the longest first
    scale2 = scale * LOG2_E

    x = q_desc.load([first_key + query, 0])
    acc = tl.zeros([BLOCK_M, HEAD_DIM], tl.float32)
    highest = tl.full([BLOCK_M], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    for start in range(0, query, BLOCK_N):
        y = k_desc.load([first_key + start, 0])
        weights, shrink, highest, total = softmax_step(tl.dot(x, y.T), highest, total, scale2)
        z = v_desc.load([first_key + start, 0])
        acc = tl.dot(weights.to(z.dtype), z, acc * shrink[:, None])

    seen = tl.arange(0, BLOCK_M)[:, None] - tl.arange(0, BLOCK_N)[None, :]
    for start in range(query, min(query + BLOCK_M, length), BLOCK_N):
        y = k_desc.load([first_key + start, 0])
        scores = tl.where(seen >= start - query, tl.dot(x, y.T), float("-inf"))
        weights, shrink, highest, total = softmax_step(scores, highest, total, scale2)
        z = v_desc.load([first_key + start, 0])
        acc = tl.dot(weights.to(z.dtype), z, acc * shrink[:, None])
    store_rows(o_desc, lse, first_key + query, acc, highest, total, BLOCK_M)


@triton.jit
def fa_bwd_apart(
    q, k, v, do, dq, dk, dv, lse, delta, scale, heads, length,
    HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """As `fa_bwd` without accumulating dq in memory: a loop over queries for dk and dv of BLOCK_N keys, then, with seven
    products in the place of five, a loop over keys for dq of as many queries."""
    rows = heads * length
    q_desc = tl.make_tensor_descriptor(q, [rows, HEAD_DIM], [HEAD_DIM, 1], [BLOCK_M, HEAD_DIM])
    do_desc = tl.make_tensor_descriptor(do, [rows, HEAD_DIM], [HEAD_DIM, 1], [BLOCK_M, HEAD_DIM])
    k_desc = tl.make_tensor_descriptor(k, [rows, HEAD_DIM], [HEAD_DIM, 1], [BLOCK_N, HEAD_DIM])
    v_desc = tl.make_tensor_descriptor(v, [rows, HEAD_DIM], [HEAD_DIM, 1], [BLOCK_N, HEAD_DIM])
    dk_desc = tl.make_tensor_descriptor(dk, [rows, HEAD_DIM], [HEAD_DIM, 1], [BLOCK_N, HEAD_DIM])
    dv_desc = tl.make_tensor_descriptor(dv, [rows, HEAD_DIM], [HEAD_DIM, 1], [BLOCK_N, HEAD_DIM])
    some_k = tl.make_tensor_descriptor(k, [rows, HEAD_DIM], [HEAD_DIM, 1], [BLOCK_M, HEAD_DIM])
    some_v = tl.make_tensor_descriptor(v, [rows, HEAD_DIM], [HEAD_DIM, 1], [BLOCK_M, HEAD_DIM])
    all_q = tl.make_tensor_descriptor(q, [rows, HEAD_DIM], [HEAD_DIM, 1], [BLOCK_N, HEAD_DIM])
    all_do = tl.make_tensor_descriptor(do, [rows, HEAD_DIM], [HEAD_DIM, 1], [BLOCK_N, HEAD_DIM])
    dq_desc = tl.make_tensor_descriptor(dq, [rows, HEAD_DIM], [HEAD_DIM, 1], [BLOCK_N, HEAD_DIM])
    first = tl.program_id(1) * length
    row = first + tl.program_id(0) * BLOCK_N
    scale2 = scale * LOG2_E

    y, z = k_desc.load([row, 0]), v_desc.load([row, 0])
    keys = tl.zeros([BLOCK_N, HEAD_DIM], tl.float32)
    values = tl.zeros([BLOCK_N, HEAD_DIM], tl.float32)
    for start in range(0, length, BLOCK_M):
        x, g = q_desc.load([first + start, 0]), do_desc.load([first + start, 0])
        weights, slopes = weights_and_slopes(y, z, x, g, lse, delta, first + start, scale2, BLOCK_M)
        values = tl.dot(weights, g, values)
        keys = tl.dot(slopes, x, keys)
    dk_desc.store([row, 0], (keys * scale).to(dk.dtype.element_ty))
    dv_desc.store([row, 0], values.to(dv.dtype.element_ty))

    mine, slope = all_q.load([row, 0]), all_do.load([row, 0])
    own = row + tl.arange(0, BLOCK_N)
    highest, sums = tl.load(lse + own)[:, None], tl.load(delta + own)[:, None]
    queries = tl.zeros([BLOCK_N, HEAD_DIM], tl.float32)
    for start in range(0, length, BLOCK_M):
        key, value = some_k.load([first + start, 0]), some_v.load([first + start, 0])
        chances = tl.exp2(tl.dot(mine, key.T) * scale2 - highest)
        changes = chances * (tl.dot(slope, value.T) - sums)
        queries = tl.dot(changes.to(key.dtype), key, queries)
    dq_desc.store([row, 0], queries)


# --- how twill compiles them ------------------------------------------------------------------------------------------

SIZES = {"M": "i32:16", "N": "i32:16", "K": "i32:16"}
PRODUCT = {"a": "*fp16:16", "b": "*fp16:16", "c": "*fp16:16", **SIZES}
TILE = {"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64, "num_warps": 8}
SCALED = {"c": "*bf16:16", **SIZES, "BLOCK_M": 128, "BLOCK_N": 256, "num_warps": 8}
HEADS = {"scale": "fp32", "heads": "i32", "length": "i32:16", "HEAD_DIM": 128}
FORWARD = {**dict.fromkeys("qkvo", "*fp16:16"), "lse": "*fp32:16", **HEADS}
PAIRS = {"BLOCK_N": 128, "num_warps": 4, "sm90": {"BLOCK_M": 64}, "sm100": {"BLOCK_M": 128}}
"""Of kernels with two tiles of queries."""
BACKWARD = {
    **dict.fromkeys(["q", "k", "v", "do", "dk", "dv"], "*fp16:16"),
    **dict.fromkeys(["dq", "lse", "delta"], "*fp32:16"),
    **HEADS,
}

TWILL = {
    "gemm": {**PRODUCT, **TILE},
    "gemm_persistent": {**PRODUCT, **TILE},
    "dual_gemm": {**dict.fromkeys(["a", "gate", "up", "c"], "*fp16:16"), **SIZES, **TILE, "BLOCK_N": 128},
    "gemm_mxfp8": {**SCALED, "a": "*fp8e4nv:16", "b": "*fp8e4nv:16", "a_scales": "*u8:16", "b_scales": "*u8:16", "BLOCK_K": 128},
    "gemm_nvfp4": {**SCALED, "a": "*u8:16", "b": "*u8:16", "a_scales": "*fp8e4nv:16", "b_scales": "*fp8e4nv:16", "BLOCK_K": 256},
    "gemm_reduction": {**PRODUCT, "sums": "*fp32:16", **TILE},
    "fa_fwd": {**FORWARD, "BLOCK_M": 128, "BLOCK_N": 128, "sm90": {"num_warps": 8}, "sm100": {"num_warps": 4}},
    "fa_fwd_subtiled": {**FORWARD, **PAIRS},
    "fa_fwd_causal": {**FORWARD, **PAIRS},
    "fa_fwd_masked": {**FORWARD, **PAIRS},
    "fa_fwd_window": {**FORWARD, "window": "i32", **PAIRS},
    "fa_fwd_softcap": {**FORWARD, "cap": "fp32", "groups": "i32", **PAIRS},
    "fa_bwd": {**BACKWARD, "BLOCK_N": 128, "num_warps": 8, "sm90": {"BLOCK_M": 64}, "sm100": {"BLOCK_M": 128}},
    "fa_bwd_subtiled": {**BACKWARD, "BLOCK_M": 64, "BLOCK_N": 128, "num_warps": 8},
    "fa_fwd_causal_whole": {**FORWARD, "BLOCK_M": 128, "BLOCK_N": 128, "num_warps": 8},
    "fa_bwd_apart": {**BACKWARD, "BLOCK_M": 64, "BLOCK_N": 128, "num_warps": 8},
}

# --- how twill measures them ------------------------------------------------------------------------------------------


BACKWARD_ERROR = 2e-3
"""Relative error of gradients, in float32 too: weights and slopes are rounded to the inputs' type between the products."""

FP8_ERROR = 1e-2
"""Relative error of a product of fp8: Hopper's tensor core keeps about 14 bits of a sum (DeepSeek-V3 report, 3.3.2)."""


def normal(dtype, *shape):
    """Random numbers of any type."""
    import torch

    return torch.randn(*shape, device="cuda").to(dtype)


def empty(dtype, *shape):
    import torch

    return torch.empty(*shape, device="cuda", dtype=dtype)


def matmul(x, y, dtype):
    """cuBLAS, by PyTorch: x @ y.T."""
    import torch

    if x.element_size() > 1:
        return torch.mm(x, y.T)
    one = torch.ones((), device="cuda")
    return torch._scaled_mm(x, y.T, scale_a=one, scale_b=one, out_dtype=dtype, use_fast_accum=True)


def by_rows(x, y):
    """cuBLAS with a scale for each row of fp8 operands, which it computes faster than with one scale."""
    import torch

    scales = (torch.ones(shape, device="cuda") for shape in ((x.shape[0], 1), (1, y.shape[0])))
    a, b = scales
    return lambda: torch._scaled_mm(x, y.T, scale_a=a, scale_b=b, out_dtype=torch.bfloat16, use_fast_accum=True)


def product_case(settings, M=8192, N=8192, K=4096):
    """One matrix product, beside cuBLAS."""
    a, b, c = normal(settings["a"], M, K), normal(settings["b"], N, K), empty(settings["c"], M, N)
    return {
        "arguments": {"a": a, "b": b, "c": c, "M": M, "N": N, "K": K},
        "grid": (triton.cdiv(M, settings["BLOCK_M"]) * triton.cdiv(N, settings["BLOCK_N"]),),
        "outputs": ["c"],
        "flops": 2 * M * N * K,
        "reference": lambda: {"c": (c, a.float() @ b.float().T)},
        "peers": {"cublas": lambda: matmul(a, b, settings["c"]), **({"cublas_rows": by_rows(a, b)} if a.element_size() == 1 else {})},
        "tolerance": FP8_ERROR if a.element_size() == 1 else None,
    }


def persistent_case(settings, M=8192, N=8192, K=4096):
    """The same by as many programs as there are SMs."""
    import torch

    case = product_case(settings, M, N, K)
    return {**case, "grid": (min(*case["grid"], torch.cuda.get_device_properties(0).multi_processor_count),)}


def random_factors(dtype, rows, K, vector):
    """Random scale factors for `vector` elements along K, in blocks of 128 rows x 4: powers of two, or numbers of e4m3."""
    import torch

    shape = (rows // 128, K // (4 * vector), 32, 4, 4)
    if dtype == torch.uint8:
        return torch.randint(125, 130, shape, device="cuda", dtype=dtype)
    return torch.rand(*shape, device="cuda").add(0.25).to(dtype)


E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
"""By code, without the sign."""


def unscaled(x, scales, vector):
    """An operand in float64: its elements, two in a byte where they have 4 bits, times their scale factors."""
    import torch

    if x.dtype == torch.uint8:
        codes = torch.stack([x & 15, x >> 4], -1).flatten(1).int()
        x = torch.tensor([*E2M1, *(-one for one in E2M1)], device=x.device, dtype=torch.float64)[codes]
    factors = (scales.double() - 127).exp2() if scales.dtype == torch.uint8 else scales.double()
    down, across = scales.shape[:2]
    by_row = factors.permute(0, 3, 2, 1, 4).reshape(128 * down, 4 * across)
    return x.double() * by_row.repeat_interleave(vector, 1)


def scaled_matmul(a, b, a_scales, b_scales):
    """cuBLAS, by PyTorch, which takes scale factors in these blocks, where it has the types."""
    import torch

    if not hasattr(torch, "float4_e2m1fn_x2"):
        return {}
    if a.dtype == torch.uint8:
        a, b = a.view(torch.float4_e2m1fn_x2), b.view(torch.float4_e2m1fn_x2)
    if a_scales.dtype == torch.uint8:
        a_scales, b_scales = a_scales.view(torch.float8_e8m0fnu), b_scales.view(torch.float8_e8m0fnu)
    scales = {"scale_a": a_scales.flatten(), "scale_b": b_scales.flatten()}
    return {"cublas": lambda: torch._scaled_mm(a, b.T, **scales, out_dtype=torch.bfloat16)}


def scaled_case(settings, M, N, K, vector):
    """A product of block-scaled operands, beside cuBLAS."""
    import torch

    def operand(dtype, rows):
        four = dtype == torch.uint8
        return torch.randint(0, 256, (rows, K // 2), device="cuda", dtype=dtype) if four else normal(dtype, rows, K)

    a, b, c = operand(settings["a"], M), operand(settings["b"], N), empty(settings["c"], M, N)
    left, right = (random_factors(settings["a_scales"], rows, K, vector) for rows in (M, N))
    return {
        "arguments": {"a": a, "b": b, "c": c, "a_scales": left, "b_scales": right, "M": M, "N": N, "K": K},
        "grid": (triton.cdiv(M, settings["BLOCK_M"]) * triton.cdiv(N, settings["BLOCK_N"]),),
        "outputs": ["c"],
        "flops": 2 * M * N * K,
        "reference": lambda: {"c": (c, unscaled(a, left, vector) @ unscaled(b, right, vector).T)},
        "peers": scaled_matmul(a, b, left, right),
    }


def mxfp8_case(settings, M=8192, N=8192, K=4096):
    return scaled_case(settings, M, N, K, 32)


def nvfp4_case(settings, M=8192, N=8192, K=4096):
    return scaled_case(settings, M, N, K, 16)


def reduction_case(settings, M=8192, N=8192, K=4096):
    case, sums = product_case(settings, M, N, K), empty(settings["sums"], M)
    a, right = case["arguments"]["a"], case["reference"]
    return {
        **case,
        "arguments": {**case["arguments"], "sums": sums},
        "outputs": ["c", "sums"],
        "reference": lambda: {**right(), "sums": (sums, a.double().sum(1))},
    }


def dual_case(settings, M=8192, N=4096, K=4096):
    """Beside one product of as many operations."""
    import torch

    a, weights, c = normal(settings["a"], M, K), normal(settings["gate"], 2 * N, K) / K**0.5, empty(settings["c"], M, N)
    gate, up = weights[:N], weights[N:]

    def reference():
        gated, linear = a.float() @ gate.float().T, a.float() @ up.float().T
        return {"c": (c, torch.nn.functional.silu(gated) * linear)}

    return {
        "arguments": {"a": a, "gate": gate, "up": up, "c": c, "M": M, "N": N, "K": K},
        "grid": (triton.cdiv(M, settings["BLOCK_M"]) * triton.cdiv(N, settings["BLOCK_N"]),),
        "outputs": ["c"],
        "flops": 4 * M * N * K,
        "reference": reference,
        "peers": {"cublas": lambda: matmul(a, weights, settings["c"])},
    }


FLASH_ATTENTION = {9: ("fa3", "flash_attn_interface"), 10: ("fa4", "flash_attn.cute")}
"""By the GPU's compute capability: FlashAttention's version, as a peer's name, and its module."""


def flash_attention(*tensors, causal=False):
    """This GPU's FlashAttention on one batch, by its name, where it is installed: its output for tensors of (heads, length, width)."""
    import importlib

    import torch

    name, module = FLASH_ATTENTION[torch.cuda.get_device_capability()[0]]
    try:
        attention = importlib.import_module(module).flash_attn_func
    except ImportError:
        return {}

    def forward():
        found = attention(*(x.transpose(-3, -2) for x in tensors), causal=causal)
        return found[0] if isinstance(found, tuple) else found

    return {name: forward}


def attended(settings, heads, length, tiles, change, shared=1, pairs=None, **numbers):
    """Attention whose scores, times the scale, `change` changes before the softmax; `shared` heads of queries have
    the same keys, and `pairs` of a query and a key count (all). As many heads are compared as are quickly computed in float64."""
    import torch

    width, dtype = settings["HEAD_DIM"], settings["q"]
    q = normal(dtype, heads, length, width)
    k, v = (normal(dtype, heads // shared, length, width) for _ in range(2))
    o, lse = empty(dtype, heads, length, width), empty(settings["lse"], heads, length)
    some = range(0, heads, max(1, -(-heads * length**2 >> 28)))

    def right(head):
        scores = change(q[head].double() @ k[head // shared].double().T * width**-0.5)
        return scores.softmax(-1) @ v[head // shared].double(), scores.logsumexp(-1) * LOG2_E.value

    def reference():
        outputs, sums = zip(*map(right, some), strict=True)
        rows = list(some)
        return {"o": (o[rows], torch.stack(outputs)), "lse": (lse[rows], torch.stack(sums))}

    arguments = {"q": q, "k": k, "v": v, "o": o, "lse": lse, "scale": width**-0.5, "heads": heads, "length": length}
    return {
        "arguments": {**arguments, **numbers},
        "grid": (length // (tiles * settings["BLOCK_M"]), heads),
        "outputs": ["o", "lse"],
        "flops": 4 * heads * (pairs or length**2) * width,
        "reference": reference,
    }


def attention_case(settings, heads=128, length=8192, tiles=1, causal=False):
    """Beside cuDNN, which sees one batch."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def change(scores):
        return scores.masked_fill_(torch.ones_like(scores, dtype=torch.bool).triu(1), float("-inf")) if causal else scores

    case = attended(settings, heads, length, tiles, change, pairs=length**2 // 2 if causal else None)
    q, k, v = (case["arguments"][name][None] for name in "qkv")

    def cudnn():
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

    return {**case, "peers": {"cudnn": cudnn, **flash_attention(q, k, v, causal=causal)}}


def flex_attention(case, **how):
    """PyTorch's attention for any scores and masks, as its compiler makes it for this case."""
    import torch
    from torch.nn.attention.flex_attention import flex_attention as flex

    made = torch.compile(flex, dynamic=False)
    q, k, v = (case["arguments"][name][None] for name in "qkv")
    return {"flex": lambda: made(q, k, v, enable_gqa=q.shape != k.shape, **how)}


def softcap_case(settings, heads=128, length=8192, groups=4, cap=20.0):
    """Beside flex attention."""
    import torch

    case = attended(settings, heads, length, 2, lambda scores: cap * torch.tanh(scores / cap), groups, cap=cap, groups=groups)
    return {**case, "peers": flex_attention(case, score_mod=lambda score, *_: cap * torch.tanh(score / cap))}


def window_case(settings, heads=128, length=8192, window=1024):
    """Beside flex attention, which skips blocks that nothing is seen of, too."""
    import torch
    from torch.nn.attention.flex_attention import create_block_mask

    def seen(_batch, _head, query, key):
        return (query >= key) & (query - key < window)

    def change(scores):
        return scores.masked_fill_(torch.ones_like(scores, dtype=torch.bool).triu(1 - window).tril(0).logical_not(), float("-inf"))

    most = min(window, length)
    pairs = most * (most + 1) // 2 + (length - most) * most
    case = attended(settings, heads, length, 2, change, pairs=pairs, window=window)
    mask = create_block_mask(seen, None, None, length, length, device="cuda")
    return {**case, "peers": flex_attention(case, block_mask=mask)}


def whole_case(settings, heads=128, length=8192):
    return attention_case(settings, heads, length)


def subtiled_case(settings, heads=128, length=8192):
    return attention_case(settings, heads, length, tiles=2)


def causal_case(settings, heads=128, length=8192):
    return attention_case(settings, heads, length, tiles=2, causal=True)


def causal_whole_case(settings, heads=128, length=8192):
    return attention_case(settings, heads, length, causal=True)


def backward_case(settings, heads=128, length=8192):
    """Beside cuDNN's whole backward pass. As there, zeroing dq and rounding it count; delta = sum(o * do) does not."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    width, dtype = settings["HEAD_DIM"], settings["q"]
    scale = width**-0.5
    q, k, v, do = (normal(dtype, heads, length, width) for _ in range(4))
    dq, dk, dv = empty(settings["dq"], heads, length, width), empty(dtype, heads, length, width), empty(dtype, heads, length, width)
    leaves = [x[None].detach().requires_grad_() for x in (q, k, v)]
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        o = torch.nn.functional.scaled_dot_product_attention(*leaves)
    delta = (o[0].detach().float() * do.float()).sum(-1)
    lse = torch.stack([(x.float() @ y.float().T * scale).logsumexp(-1) for x, y in zip(q, k, strict=True)]) * LOG2_E.value
    some = range(0, heads, max(1, -(-heads * length**2 >> 28)))

    def right(head):
        own = [x[head].double().requires_grad_() for x in (q, k, v)]
        x, y, z = own
        return torch.autograd.grad((x @ y.T * scale).softmax(-1) @ z, own, do[head].double())

    def reference():
        rows, expected = list(some), [torch.stack(gradients) for gradients in zip(*map(right, some), strict=True)]
        found = (dq[rows] * scale, dk[rows], dv[rows])
        return dict(zip(("dq", "dk", "dv"), zip(found, expected, strict=True), strict=True))

    rounded, peers = empty(dtype, heads, length, width), {"cudnn": lambda: torch.autograd.grad(o, leaves, do[None], retain_graph=True)}
    for name, flash in flash_attention(*leaves).items():
        out, slope = flash(), do[None].transpose(-3, -2)
        peers[name] = lambda out=out, slope=slope: torch.autograd.grad(out, leaves, slope, retain_graph=True)
    tensors = {"q": q, "k": k, "v": v, "do": do, "dq": dq, "dk": dk, "dv": dv, "lse": lse, "delta": delta}
    return {
        "arguments": {**tensors, "scale": scale, "heads": heads, "length": length},
        "grid": (length // settings["BLOCK_N"], heads),
        "outputs": ["dq", "dk", "dv"],
        "zeroed": ["dq"],
        "flops": 10 * heads * length**2 * width,
        "reference": reference,
        "before": dq.zero_,
        "after": lambda: torch.mul(dq, scale, out=rounded),
        "peers": peers,
        "tolerance": BACKWARD_ERROR,
    }


DEPTHS = [{"K": 1024}, {"K": 4096}, {"K": 16384}]
LENGTHS = [{"length": 4096}, {"length": 8192}, {"length": 16384}]


def tiles(*blocks, kernels=(None,), names=("BLOCK_M", "BLOCK_N", "BLOCK_K")):
    """What Triton is tried with besides a kernel's own blocks: each of these, in the kernel itself or in others."""
    sizes = [dict(zip(names, block, strict=False)) for block in blocks]
    return [{**({"kernel": kernel} if kernel else {}), **block} for kernel in kernels for block in sizes]


PRODUCTS = tiles(
    *((128, 256, 64), (128, 256, 32), (256, 128, 64), (128, 128, 64), (128, 128, 32), (128, 128, 128), (64, 256, 64), (64, 128, 64)),
    kernels=("gemm", "gemm_persistent"),
)
DUAL = tiles((128, 128, 32), (128, 64, 64), (64, 128, 64), (64, 64, 64), (128, 64, 128))
ALONG_K = tiles((128, 128, 64), (128, 128, 128), (64, 256, 64), (64, 128, 64), (256, 128, 64))
FORWARDS = tiles((128, 128), (128, 64), (128, 32), (64, 128), (64, 64), kernels=("fa_fwd", "fa_fwd_subtiled"))
DIAGONAL = tiles((128, 128), (128, 64), (128, 32), (64, 64), kernels=("fa_fwd_causal_whole", "fa_fwd_causal"))
BACKWARDS = tiles((64, 128), (128, 128), (32, 128), (64, 64), (128, 64), (32, 64), kernels=("fa_bwd_apart", "fa_bwd", "fa_bwd_subtiled"))

BENCH = {
    "gemm": {"case": product_case, "shapes": DEPTHS, "triton": PRODUCTS},
    "gemm_persistent": {"case": persistent_case, "shapes": DEPTHS, "triton": PRODUCTS},
    "dual_gemm": {"case": dual_case, "shapes": DEPTHS, "triton": DUAL},
    "gemm_mxfp8": {"case": mxfp8_case, "shapes": DEPTHS},
    "gemm_nvfp4": {"case": nvfp4_case, "shapes": DEPTHS},
    "gemm_reduction": {"case": reduction_case, "shapes": DEPTHS, "triton": ALONG_K},
    "fa_fwd": {"case": whole_case, "shapes": LENGTHS, "triton": FORWARDS},
    "fa_fwd_subtiled": {"case": subtiled_case, "shapes": LENGTHS, "triton": FORWARDS},
    "fa_fwd_causal": {"case": causal_case, "shapes": LENGTHS, "triton": DIAGONAL},
    "fa_fwd_masked": {"case": causal_case, "shapes": LENGTHS, "triton": DIAGONAL},
    "fa_fwd_window": {"case": window_case, "shapes": LENGTHS},
    "fa_fwd_softcap": {"case": softcap_case, "shapes": LENGTHS},
    "fa_bwd": {"case": backward_case, "shapes": LENGTHS, "triton": BACKWARDS},
    "fa_bwd_subtiled": {"case": backward_case, "shapes": LENGTHS, "triton": BACKWARDS},
    "fa_fwd_causal_whole": {"case": causal_whole_case, "shapes": LENGTHS},
    "fa_bwd_apart": {"case": backward_case, "shapes": LENGTHS},
}
