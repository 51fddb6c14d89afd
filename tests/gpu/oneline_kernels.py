# pyright: basic, reportMissingImports=false, reportArgumentType=false, reportGeneralTypeIssues=false
"""Own kernels of the forms that Triton's tutorials have: a grouped product through masked pointers (03),
layer normalization (05), attention through descriptors (06), products of many sizes in one launch (08), and a
persistent product through descriptors made by the host (09).
"""

import triton
import triton.language as tl


def sizes(*shapes):
    return [
        triton.Config({"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k}, num_warps=warps, num_stages=3)
        for m, n, k, warps in shapes
    ]


@triton.jit
def tile_of(tile, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, GROUP: tl.constexpr):
    """Row and column of a tile, walked in groups of rows for the sake of the L2."""
    columns = tl.cdiv(N, BLOCK_N)
    group = tile // (GROUP * columns)
    height = min(tl.cdiv(M, BLOCK_M) - group * GROUP, GROUP)
    inside = tile % (GROUP * columns)
    return group * GROUP + inside % height, inside // height


@triton.jit
def leaky(x):
    return tl.where(x >= 0, x, 0.01 * x)


@triton.autotune(sizes((128, 128, 64, 4), (128, 256, 64, 8)), key=["M", "N", "K"])
@triton.jit
def product(
    a, b, c, M, N, K, a_row, a_column, b_row, b_column, c_row, c_column,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP: tl.constexpr, LEAKY: tl.constexpr,
):  # fmt: skip
    """c[M, N] = a[M, K] @ b[K, N]; pointers are carried round the loop, and the last step is masked."""
    row, column = tile_of(tl.program_id(0), M, N, BLOCK_M, BLOCK_N, GROUP)
    rows = (row * BLOCK_M + tl.arange(0, BLOCK_M)) % M
    columns = (column * BLOCK_N + tl.arange(0, BLOCK_N)) % N
    inner = tl.arange(0, BLOCK_K)
    a_at = a + rows[:, None] * a_row + inner[None, :] * a_column
    b_at = b + inner[:, None] * b_row + columns[None, :] * b_column
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for k in range(tl.cdiv(K, BLOCK_K)):
        left = tl.load(a_at, mask=inner[None, :] < K - k * BLOCK_K, other=0.0)
        right = tl.load(b_at, mask=inner[:, None] < K - k * BLOCK_K, other=0.0)
        acc = tl.dot(left, right, acc)
        a_at += BLOCK_K * a_column
        b_at += BLOCK_K * b_row
    if LEAKY:
        acc = leaky(acc)
    rows, columns = row * BLOCK_M + tl.arange(0, BLOCK_M), column * BLOCK_N + tl.arange(0, BLOCK_N)
    where = (rows[:, None] < M) & (columns[None, :] < N)
    tl.store(c + rows[:, None] * c_row + columns[None, :] * c_column, acc.to(tl.float16), mask=where)


@triton.jit
def normalize(x, y, weight, bias, stride, N, eps, BLOCK: tl.constexpr):
    """A row of y is the row of x with mean 0 and variance 1, then weighted; no dot."""
    at, columns = tl.program_id(0) * stride, tl.arange(0, BLOCK)
    there = columns < N
    row = tl.load(x + at + columns, mask=there, other=0.0).to(tl.float32)
    centred = tl.where(there, row - tl.sum(row) / N, 0.0)
    scaled = centred / tl.sqrt(tl.sum(centred * centred) / N + eps)
    weights, biases = tl.load(weight + columns, mask=there), tl.load(bias + columns, mask=there)
    tl.store(y + at + columns, scaled * weights + biases, mask=there)


@triton.jit
def attend(
    acc, total, largest, q, k_desc, v_desc, first, scale, length, row,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, DIAGONAL: tl.constexpr,
):  # fmt: skip
    """The keys before the diagonal block of a causal row block, or those in it."""
    low, high = (row * BLOCK_M, (row + 1) * BLOCK_M) if DIAGONAL else (0, row * BLOCK_M)
    rows, columns = row * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N)
    for n in tl.range(low, high, BLOCK_N):
        scores = tl.dot(q, k_desc.load([first + n, 0]).T)
        if DIAGONAL:
            scores = scores * scale + tl.where(rows[:, None] >= n + columns[None, :], 0.0, -1.0e6)
            higher = tl.maximum(largest, tl.max(scores, 1))
            scores -= higher[:, None]
        else:
            higher = tl.maximum(largest, tl.max(scores, 1) * scale)
            scores = scores * scale - higher[:, None]
        weights = tl.math.exp2(scores)
        shrink = tl.math.exp2(largest - higher)
        total = total * shrink + tl.sum(weights, 1)
        acc = tl.dot(weights.to(tl.float16), v_desc.load([first + n, 0]), acc * shrink[:, None])
        largest = higher
    return acc, total, largest


@triton.jit
def attention(
    q,
    k,
    v,
    o,
    lse,
    scale,
    heads,
    length,
    HEAD: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    CAUSAL: tl.constexpr,
):
    """o = softmax(q @ k.T * scale) @ v for each head, causal or not; the descriptors are made by the
    kernel."""
    rows = heads * length
    q_desc = tl.make_tensor_descriptor(q, [rows, HEAD], [HEAD, 1], [BLOCK_M, HEAD])
    k_desc = tl.make_tensor_descriptor(k, [rows, HEAD], [HEAD, 1], [BLOCK_N, HEAD])
    v_desc = tl.make_tensor_descriptor(v, [rows, HEAD], [HEAD, 1], [BLOCK_N, HEAD])
    o_desc = tl.make_tensor_descriptor(o, [rows, HEAD], [HEAD, 1], [BLOCK_M, HEAD])
    row, first = tl.program_id(0), tl.program_id(1) * length
    block = q_desc.load([first + row * BLOCK_M, 0])
    total, largest = tl.zeros([BLOCK_M], tl.float32) + 1.0, tl.zeros([BLOCK_M], tl.float32) - float("inf")
    acc = tl.zeros([BLOCK_M, HEAD], tl.float32)
    scale = scale * 1.44269504
    if CAUSAL:
        acc, total, largest = attend(
            acc, total, largest, block, k_desc, v_desc, first, scale, length, row, BLOCK_M, BLOCK_N, False
        )
        acc, total, largest = attend(
            acc, total, largest, block, k_desc, v_desc, first, scale, length, row, BLOCK_M, BLOCK_N, True
        )
    else:
        for n in tl.range(0, length, BLOCK_N):
            scores = tl.dot(block, k_desc.load([first + n, 0]).T)
            higher = tl.maximum(largest, tl.max(scores, 1) * scale)
            weights = tl.math.exp2(scores * scale - higher[:, None])
            shrink = tl.math.exp2(largest - higher)
            total = total * shrink + tl.sum(weights, 1)
            acc = tl.dot(weights.to(tl.float16), v_desc.load([first + n, 0]), acc * shrink[:, None])
            largest = higher
    tl.store(lse + first + row * BLOCK_M + tl.arange(0, BLOCK_M), largest + tl.math.log2(total))
    o_desc.store([first + row * BLOCK_M, 0], (acc / total[:, None]).to(tl.float16))


@triton.jit
def many(
    a_addresses, b_addresses, c_addresses, shapes, strides, count,
    PROGRAMS: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Several products of different sizes, whose addresses, sizes and strides lie in memory."""
    tile, end = tl.program_id(0), 0
    for g in range(count):
        M, N, K = tl.load(shapes + g * 3), tl.load(shapes + g * 3 + 1), tl.load(shapes + g * 3 + 2)
        columns = tl.cdiv(N, BLOCK_N)
        tiles = tl.cdiv(M, BLOCK_M) * columns
        while tile >= end and tile < end + tiles:
            a_row, b_row, c_row = (
                tl.load(strides + g * 3),
                tl.load(strides + g * 3 + 1),
                tl.load(strides + g * 3 + 2),
            )
            a = tl.load(a_addresses + g).to(tl.pointer_type(tl.float16))
            b = tl.load(b_addresses + g).to(tl.pointer_type(tl.float16))
            c = tl.load(c_addresses + g).to(tl.pointer_type(tl.float16))
            row, column = (tile - end) // columns, (tile - end) % columns
            rows, others = row * BLOCK_M + tl.arange(0, BLOCK_M), column * BLOCK_N + tl.arange(0, BLOCK_N)
            inner = tl.arange(0, BLOCK_K)
            a_at, b_at = (
                a + rows[:, None] * a_row + inner[None, :],
                b + inner[:, None] * b_row + others[None, :],
            )
            acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
            for _ in range(tl.cdiv(K, BLOCK_K)):
                tl.multiple_of(a_at, [16, 16])
                tl.multiple_of(b_at, [16, 16])
                acc += tl.dot(tl.load(a_at), tl.load(b_at))
                a_at += BLOCK_K
                b_at += BLOCK_K * b_row
            tl.store(c + rows[:, None] * c_row + others[None, :], acc.to(tl.float16))
            tile += PROGRAMS
        end += tiles


@triton.jit
def persistent(
    a_desc, b_desc, c_desc, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP: tl.constexpr, PROGRAMS: tl.constexpr, FLAT: tl.constexpr,
):  # fmt: skip
    """c = a @ b.T; each program takes many tiles, through descriptors made by the host."""
    tiles = tl.cdiv(M, BLOCK_M) * tl.cdiv(N, BLOCK_N)
    for tile in tl.range(tl.program_id(0), tiles, PROGRAMS, flatten=FLAT):
        row, column = tile_of(tile, M, N, BLOCK_M, BLOCK_N, GROUP)
        acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for k in range(tl.cdiv(K, BLOCK_K)):
            left, right = (
                a_desc.load([row * BLOCK_M, k * BLOCK_K]),
                b_desc.load([column * BLOCK_N, k * BLOCK_K]),
            )
            acc = tl.dot(left, right.T, acc)
        c_desc.store([row * BLOCK_M, column * BLOCK_N], acc.to(tl.float16))


@triton.jit
def hosted(a_desc, b_desc, c_desc, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    """c = a @ b.T; one program for each tile, through descriptors made by the host."""
    row, column = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for k in range(0, K, BLOCK_K):
        acc = tl.dot(a_desc.load([row, k]), b_desc.load([column, k]).T, acc)
    c_desc.store([row, column], acc.to(tl.float16))
