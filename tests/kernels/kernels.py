# pyright: basic, reportArgumentType=false, reportGeneralTypeIssues=false, reportCallIssue=false, reportOperatorIssue=false
"""Kernels in the forms that the examples do not have, for tests of what is generated.

`python -m tests.kernels.make_fixtures` compiles and schedules them; tests read what that writes.
"""

import triton
import triton.language as tl


@triton.jit
def matmul(
    a, b, c, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """c = a @ b.T."""
    a_desc = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BLOCK_M, BLOCK_K])
    b_desc = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BLOCK_N, BLOCK_K])
    c_desc = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BLOCK_M, BLOCK_N])
    row, col = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for k in range(0, K, BLOCK_K):
        acc = tl.dot(a_desc.load([row, k]), b_desc.load([col, k]).T, acc)
    c_desc.store([row, col], acc.to(c.dtype.element_ty))


@triton.jit
def with_bias(
    a, b, c, bias, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """c = a @ b.T + bias: the accumulator starts as one number per column, the same in all rows."""
    a_desc = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BLOCK_M, BLOCK_K])
    b_desc = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BLOCK_N, BLOCK_K])
    c_desc = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BLOCK_M, BLOCK_N])
    row, col = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    acc += tl.load(bias + col + tl.arange(0, BLOCK_N))[None, :]
    for k in range(0, K, BLOCK_K):
        acc = tl.dot(a_desc.load([row, k]), b_desc.load([col, k]).T, acc)
    c_desc.store([row, col], acc.to(c.dtype.element_ty))


@triton.jit
def matmul_scaled(
    a, b, c, a_scales, b_scales, M, N, K, LEFT: tl.constexpr, RIGHT: tl.constexpr, VECTOR: tl.constexpr, LEFT_PACK: tl.constexpr,
    RIGHT_PACK: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """c = (a * a_scales) @ (b * b_scales).T: a scale factor for VECTOR elements along K, in blocks of 128 rows x 4 of them; 4-bit
    elements lie two in a byte."""
    a_desc = tl.make_tensor_descriptor(
        a, [M, K // LEFT_PACK], [K // LEFT_PACK, 1], [BLOCK_M, BLOCK_K // LEFT_PACK]
    )
    b_desc = tl.make_tensor_descriptor(
        b, [N, K // RIGHT_PACK], [K // RIGHT_PACK, 1], [BLOCK_N, BLOCK_K // RIGHT_PACK]
    )
    c_desc = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BLOCK_M, BLOCK_N])
    COUNT: tl.constexpr = BLOCK_K // VECTOR // 4
    blocks = tl.cdiv(K, VECTOR * 4)
    x_desc = tl.make_tensor_descriptor(
        a_scales, [1, tl.cdiv(M, 128), blocks, 2, 256], [tl.cdiv(M, 128) * blocks * 512, blocks * 512, 512, 256, 1],
        [1, BLOCK_M // 128, COUNT, 2, 256],
    )  # fmt: skip
    y_desc = tl.make_tensor_descriptor(
        b_scales, [1, tl.cdiv(N, 128), blocks, 2, 256], [tl.cdiv(N, 128) * blocks * 512, blocks * 512, 512, 256, 1],
        [1, BLOCK_N // 128, COUNT, 2, 256],
    )  # fmt: skip
    row, col = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for i in range(tl.cdiv(K, BLOCK_K)):
        x = a_desc.load([row, i * (BLOCK_K // LEFT_PACK)])
        y = b_desc.load([col, i * (BLOCK_K // RIGHT_PACK)])
        left = x_desc.load([0, row // 128, i * COUNT, 0, 0]).reshape(BLOCK_M // 128, COUNT, 32, 4, 4)
        right = y_desc.load([0, col // 128, i * COUNT, 0, 0]).reshape(BLOCK_N // 128, COUNT, 32, 4, 4)
        left = left.trans(0, 3, 2, 1, 4).reshape(BLOCK_M, BLOCK_K // VECTOR)
        right = right.trans(0, 3, 2, 1, 4).reshape(BLOCK_N, BLOCK_K // VECTOR)
        acc = tl.dot_scaled(x, left, LEFT, y.T, right, RIGHT, acc)
    c_desc.store([row, col], acc.to(c.dtype.element_ty))


@triton.jit
def matmul_scaled_loaded(
    a, b, c, a_scales, M, N, K, pitch, LEFT: tl.constexpr, RIGHT: tl.constexpr, VECTOR: tl.constexpr,
    LEFT_PACK: tl.constexpr, RIGHT_PACK: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """c = (a * a_scales) @ (b * right).T with scale factors row by row, `pitch` apart those of a, 1 or 2 those of b."""
    a_desc = tl.make_tensor_descriptor(
        a, [M, K // LEFT_PACK], [K // LEFT_PACK, 1], [BLOCK_M, BLOCK_K // LEFT_PACK]
    )
    b_desc = tl.make_tensor_descriptor(
        b, [N, K // RIGHT_PACK], [K // RIGHT_PACK, 1], [BLOCK_N, BLOCK_K // RIGHT_PACK]
    )
    c_desc = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BLOCK_M, BLOCK_N])
    row, col = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N
    m, n, k = row + tl.arange(0, BLOCK_M), col + tl.arange(0, BLOCK_N), tl.arange(0, BLOCK_K // VECTOR)
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for i in range(tl.cdiv(K, BLOCK_K)):
        x = a_desc.load([row, i * (BLOCK_K // LEFT_PACK)])
        y = b_desc.load([col, i * (BLOCK_K // RIGHT_PACK)])
        at = (i * (BLOCK_K // VECTOR) + k)[None, :]
        left = tl.load(a_scales + m[:, None] * pitch + at, mask=m[:, None] < M)
        right = (127 + (n[:, None] + at) % 2).to(tl.uint8)
        acc = tl.dot_scaled(x, left, LEFT, y.T, right, RIGHT, acc)
    c_desc.store([row, col], acc.to(c.dtype.element_ty))


@triton.jit
def matmul_into(
    a, b, c, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, ACC: tl.constexpr
):  # fmt: skip
    """c = a @ b.T, accumulated in numbers of the type of c."""
    a_desc = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BLOCK_M, BLOCK_K])
    b_desc = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BLOCK_N, BLOCK_K])
    c_desc = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BLOCK_M, BLOCK_N])
    row, col = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N
    acc = tl.zeros([BLOCK_M, BLOCK_N], ACC)
    for k in range(0, K, BLOCK_K):
        acc = tl.dot(a_desc.load([row, k]), b_desc.load([col, k]).T, acc, out_dtype=ACC)
    c_desc.store([row, col], acc)


@triton.jit
def batched(
    a, b, c, L, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """c[l] = a[l] @ b[l], through descriptors of three dimensions."""
    a_desc = tl.make_tensor_descriptor(a, [L, M, K], [M * K, K, 1], [1, BLOCK_M, BLOCK_K])
    b_desc = tl.make_tensor_descriptor(b, [L, K, N], [K * N, N, 1], [1, BLOCK_K, BLOCK_N])
    c_desc = tl.make_tensor_descriptor(c, [L, M, N], [M * N, N, 1], [1, BLOCK_M, BLOCK_N])
    row, col, batch = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N, tl.program_id(2)
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for k in range(0, K, BLOCK_K):
        x = a_desc.load([batch, row, k]).reshape([BLOCK_M, BLOCK_K])
        y = b_desc.load([batch, k, col]).reshape([BLOCK_K, BLOCK_N])
        acc = tl.dot(x, y, acc)
    c_desc.store([batch, row, col], acc.to(c.dtype.element_ty).reshape([1, BLOCK_M, BLOCK_N]))


@triton.jit
def epilogue(
    a, b, c, bias, scale, norms, peaks, M, N, K, slope, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """A matrix multiplication of any size with an epilogue, through pointers with masks."""
    a_desc = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BLOCK_M, BLOCK_K])
    b_desc = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BLOCK_N, BLOCK_K])
    row, col = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for k in range(0, K, BLOCK_K):
        acc = tl.dot(a_desc.load([row, k]), b_desc.load([col, k]).T, acc)
    m, n = row + tl.arange(0, BLOCK_M), col + tl.arange(0, BLOCK_N)
    acc += tl.load(bias + n, n < N, other=0.0)[None, :]
    acc *= tl.load(scale + m, m < M, other=1.0)[:, None]
    gate = 1 / (1 + tl.exp(-acc))
    acc = tl.where(
        acc > slope,
        acc * gate,
        tl.minimum(acc, 0.0) * slope + tl.sqrt(tl.abs(acc)) * tl.rsqrt(acc * acc + 1.0),
    )
    acc = tl.where((m < M)[:, None] & (n < N)[None, :], acc, 0.0)
    tl.store(norms + m, tl.sum(acc * acc, 1), m < M)
    tl.store(peaks + tl.program_id(0) * N + n, tl.max(acc, 0), n < N)
    tl.store(c + m[:, None] * N + n[None, :], acc.to(c.dtype.element_ty), (m[:, None] < M) & (n[None, :] < N))


@triton.jit
def widened(
    a, b, c, scale, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """c = (a * scale) @ b.T where a is of 8 bits: widened in registers, with a scale for each block of K."""
    a_desc = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BLOCK_M, BLOCK_K])
    b_desc = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BLOCK_N, BLOCK_K])
    c_desc = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BLOCK_M, BLOCK_N])
    row, col = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for k in range(0, K, BLOCK_K):
        factor = tl.load(scale + k // BLOCK_K)
        x = (a_desc.load([row, k]).to(tl.float32) * factor).to(tl.float16)
        acc = tl.dot(x, b_desc.load([col, k]).T, acc)
    c_desc.store([row, col], acc.to(c.dtype.element_ty))


@triton.jit
def split(
    a, b, c, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """c += a @ b.T by several programs for each tile, by atomic addition through pointers."""
    a_desc = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BLOCK_M, BLOCK_K])
    b_desc = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BLOCK_N, BLOCK_K])
    row, col = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for k in range(tl.program_id(2) * BLOCK_K, K, tl.num_programs(2) * BLOCK_K):
        acc = tl.dot(a_desc.load([row, k]), b_desc.load([col, k]).T, acc)
    m, n = row + tl.arange(0, BLOCK_M), col + tl.arange(0, BLOCK_N)
    tl.atomic_add(c + m[:, None] * N + n[None, :], acc, (m[:, None] < M) & (n[None, :] < N))


@triton.jit
def pointers(
    a, b, c, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """c = a @ b of any size, through pointers with masks alone."""
    m, n = (
        tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M),
        tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N),
    )
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for start in range(0, K, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        x = tl.load(a + m[:, None] * K + k[None, :], (m[:, None] < M) & (k[None, :] < K), other=0.0)
        y = tl.load(b + k[:, None] * N + n[None, :], (n[None, :] < N) & (k[:, None] < K), other=0.0)
        acc = tl.dot(x, y, acc)
    tl.store(c + m[:, None] * N + n[None, :], acc.to(c.dtype.element_ty), (m[:, None] < M) & (n[None, :] < N))


@triton.jit
def wrapped(
    a, b, c, M, N, K, a_stride, b_stride, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    ACC: tl.constexpr,
):  # fmt: skip
    """c = a @ b of any size, rows of b contiguous; rows and columns beyond the end wrap around, pointers are carried."""
    m, n = (
        tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M),
        tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N),
    )
    k = tl.arange(0, BLOCK_K)
    left = a + (m % M)[:, None] * a_stride + k[None, :]
    right = b + k[:, None] * b_stride + (n % N)[None, :]
    acc = tl.zeros([BLOCK_M, BLOCK_N], ACC)
    for i in range(tl.cdiv(K, BLOCK_K)):
        x = tl.load(left, k[None, :] < K - i * BLOCK_K, other=0.0)
        y = tl.load(right, k[:, None] < K - i * BLOCK_K, other=0.0)
        acc = tl.dot(x, y, acc, out_dtype=ACC)
        left += BLOCK_K
        right += BLOCK_K * b_stride
    tl.store(c + m[:, None] * N + n[None, :], acc.to(c.dtype.element_ty), (m[:, None] < M) & (n[None, :] < N))


@triton.jit
def across(
    a, b, c, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """c = a @ b.T of any size, tiles of b loaded with rows and columns exchanged."""
    m, n = (
        tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M),
        tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N),
    )
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for start in range(0, K, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        x = tl.load(a + m[:, None] * K + k[None, :], (m[:, None] < M) & (k[None, :] < K), other=0.0)
        y = tl.load(b + n[None, :] * K + k[:, None], (n[None, :] < N) & (k[:, None] < K), other=0.0)
        acc = tl.dot(x, y, acc)
    tl.store(c + m[:, None] * N + n[None, :], acc.to(c.dtype.element_ty), (m[:, None] < M) & (n[None, :] < N))


@triton.jit
def bumped(
    a, b, c, M, N, K, stride, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """c = a @ b through pointers that are moved on in every iteration, from rows that wrap around; programs beyond the end return."""
    row = tl.program_id(0) * BLOCK_M
    tl.assume(stride > 0)
    if row >= M:
        return
    m, n, k = (
        row + tl.arange(0, BLOCK_M),
        tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N),
        tl.arange(0, BLOCK_K),
    )
    x, y = a + (m % M)[:, None] * stride + k[None, :], b + k[:, None] * N + (n % N)[None, :]
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for i in range(tl.cdiv(K, BLOCK_K)):
        left = tl.load(x, mask=k[None, :] < K - i * BLOCK_K, other=0.0)
        acc = tl.dot(left, tl.load(y, mask=k[:, None] < K - i * BLOCK_K, other=0.0), acc)
        x += BLOCK_K
        y += BLOCK_K * N
    tl.store(c + m[:, None] * N + n[None, :], acc.to(c.dtype.element_ty), (m[:, None] < M) & (n[None, :] < N))


@triton.jit
def clamped(
    a, b, c, bound, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """c = a @ b.T, with row 0 in place of rows beyond the end, columns from 16 times a number in memory on filled with zeros."""
    start, k = tl.program_id(0) * BLOCK_M, tl.arange(0, BLOCK_K)
    m, n = start + tl.arange(0, BLOCK_M), tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    rows, last = tl.where(m < M, m, 0), tl.load(bound) * 16
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for i in range(tl.cdiv(K, BLOCK_K)):
        x = tl.load(
            a + rows[:, None] * K + (i * BLOCK_K + k)[None, :], (i * BLOCK_K + k)[None, :] < last, other=0.0
        )
        y = tl.load(b + n[:, None] * K + (i * BLOCK_K + k)[None, :], n[:, None] < N, other=0.0)
        acc = tl.dot(x, y.T, acc)
    tl.store(c + m[:, None] * N + n[None, :], acc.to(c.dtype.element_ty), n[None, :] < N)


@triton.jit
def scaled(
    a, b, c, left, right, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """c = a @ b.T, each block of K times scales of its rows and columns."""
    m, n = (
        tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M),
        tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N),
    )
    k, acc, scales = tl.arange(0, BLOCK_K), tl.zeros([BLOCK_M, BLOCK_N], tl.float32), right + n // 32 * 64
    for i in range(tl.cdiv(K, BLOCK_K)):
        x = tl.load(
            a + (m % M)[:, None] * K + (i * BLOCK_K + k)[None, :], (i * BLOCK_K + k)[None, :] < K, other=0.0
        )
        y = tl.load(
            b + (n % N)[:, None] * K + (i * BLOCK_K + k)[None, :], (i * BLOCK_K + k)[None, :] < K, other=0.0
        )
        rows, columns = tl.load(left + i * M + m % M), tl.load(scales)
        acc += tl.dot(x, y.T) * rows[:, None] * columns[None, :]
        scales += 1
    tl.store(c + m[:, None] * N + n[None, :], acc.to(c.dtype.element_ty), (m[:, None] < M) & (n[None, :] < N))


@triton.jit
def gathered(
    a, b, c, rows, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """c = a[rows] @ b.T, the rows by numbers in memory; nothing is known of the rows' lengths."""
    m, n = (
        tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M),
        tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N),
    )
    row = tl.load(rows + m, m < M, other=0)
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for start in range(0, K, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        x = tl.load(a + row[:, None] * K + k[None, :], (m[:, None] < M) & (k[None, :] < K), other=0.0)
        y = tl.load(b + n[:, None] * K + k[None, :], (n[:, None] < N) & (k[None, :] < K), other=0.0)
        acc = tl.dot(x, y.T, acc)
    tl.store(c + m[:, None] * N + n[None, :], acc.to(c.dtype.element_ty), (m[:, None] < M) & (n[None, :] < N))


@triton.jit
def offset(
    a, b, c, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """c = a @ b.T with coordinates that are carried: one beside the loop's counter, one read after the loop."""
    a_desc = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BLOCK_M, BLOCK_K])
    b_desc = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BLOCK_N, BLOCK_K])
    row, col, k, rest = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N, 0, K
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for i in range(1, K // BLOCK_K + 1):
        acc = tl.dot(a_desc.load([row, k]), b_desc.load([col, (i - 1) * BLOCK_K]).T, acc)
        k += BLOCK_K
        rest -= BLOCK_K
    m, n = row + tl.arange(0, BLOCK_M), col + tl.arange(0, BLOCK_N)
    tl.store(
        c + m[:, None] * N + n[None, :],
        (acc + rest).to(c.dtype.element_ty),
        (m[:, None] < M) & (n[None, :] < N),
    )


@triton.jit
def branching(
    a, b, c, sizes, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """c = a @ b.T in the rows that a size in memory says; zeros in programs that have no row, nothing in programs beyond the end."""
    a_desc = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BLOCK_M, BLOCK_K])
    b_desc = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BLOCK_N, BLOCK_K])
    row, col = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N
    m, n = row + tl.arange(0, BLOCK_M), col + tl.arange(0, BLOCK_N)
    if row >= M or col >= N:
        return
    target, inside = c + m[:, None] * N + n[None, :], (m[:, None] < M) & (n[None, :] < N)
    if tl.load(sizes + tl.program_id(0)) == 0:
        tl.store(target, tl.zeros([BLOCK_M, BLOCK_N], c.dtype.element_ty), inside)
        return
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for k in range(0, K, BLOCK_K):
        acc = tl.dot(a_desc.load([row, k]), b_desc.load([col, k]).T, acc)
    tl.store(target, acc.to(c.dtype.element_ty), inside)


@triton.jit
def exclusive(
    a, b, c, M, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """The sums of the first 0, 1, 2, ... MMAs: the accumulator is stored before the MMA that adds to it."""
    a_desc = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BLOCK_M, BLOCK_K])
    b_desc = tl.make_tensor_descriptor(b, [BLOCK_N, K], [K, 1], [BLOCK_N, BLOCK_K])
    c_desc = tl.make_tensor_descriptor(c, [M * (K // BLOCK_K + 1), BLOCK_N], [BLOCK_N, 1], [BLOCK_M, BLOCK_N])
    row = tl.program_id(0) * BLOCK_M
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for k in range(0, K, BLOCK_K):
        x = a_desc.load([row, k])
        y = b_desc.load([0, k])
        c_desc.store([k // BLOCK_K * M + row, 0], acc.to(tl.float16))
        acc = tl.dot(x, y.T, acc)
    c_desc.store([K // BLOCK_K * M + row, 0], acc.to(tl.float16))


@triton.jit
def prefixes(
    a, b, c, last, M, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """The sums of the first 0, 1, 2, ... MMAs, and that of all of them in an array of its own: what the loop
    stores has no order with what follows it."""
    a_desc = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BLOCK_M, BLOCK_K])
    b_desc = tl.make_tensor_descriptor(b, [BLOCK_N, K], [K, 1], [BLOCK_N, BLOCK_K])
    c_desc = tl.make_tensor_descriptor(c, [M * (K // BLOCK_K + 1), BLOCK_N], [BLOCK_N, 1], [BLOCK_M, BLOCK_N])
    last_desc = tl.make_tensor_descriptor(last, [M, BLOCK_N], [BLOCK_N, 1], [BLOCK_M, BLOCK_N])
    row = tl.program_id(0) * BLOCK_M
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for k in range(0, K, BLOCK_K):
        x = a_desc.load([row, k])
        y = b_desc.load([0, k])
        c_desc.store([k // BLOCK_K * M + row, 0], acc.to(tl.float16))
        acc = tl.dot(x, y.T, acc)
    last_desc.store([row, 0], acc.to(tl.float16))


@triton.jit
def recurrent(
    q, k, v, o, K, DIM: tl.constexpr, BLOCK_K: tl.constexpr, DECAY: tl.constexpr
):  # fmt: skip
    """Linear attention with a state that decays: o = q @ h, then h = h * decay + k.T @ v."""
    q_desc = tl.make_tensor_descriptor(q, [K, DIM], [DIM, 1], [BLOCK_K, DIM])
    k_desc = tl.make_tensor_descriptor(k, [K, DIM], [DIM, 1], [BLOCK_K, DIM])
    v_desc = tl.make_tensor_descriptor(v, [K, DIM], [DIM, 1], [BLOCK_K, DIM])
    o_desc = tl.make_tensor_descriptor(o, [K, DIM], [DIM, 1], [BLOCK_K, DIM])
    h = tl.zeros([DIM, DIM], tl.float32)
    for i in range(0, K, BLOCK_K):
        x = q_desc.load([i, 0])
        y = k_desc.load([i, 0])
        z = v_desc.load([i, 0])
        o_desc.store([i, 0], tl.dot(x, h.to(tl.float16)).to(tl.float16))
        h = tl.dot(y.T, z, h * DECAY)


@triton.jit
def retyped(
    q, k, r, w, o, K, DIM: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """An MMA of tf32 that adds to the result of one of fp16: their layouts differ by the K of an instruction alone."""
    q_desc = tl.make_tensor_descriptor(q, [BLOCK_K, DIM], [DIM, 1], [BLOCK_K, DIM])
    k_desc = tl.make_tensor_descriptor(k, [K, DIM], [DIM, 1], [BLOCK_K, DIM])
    r_desc = tl.make_tensor_descriptor(r, [BLOCK_K, DIM], [DIM, 1], [BLOCK_K, DIM])
    w_desc = tl.make_tensor_descriptor(w, [K, DIM], [DIM, 1], [BLOCK_K, DIM])
    o_desc = tl.make_tensor_descriptor(o, [BLOCK_K, BLOCK_K], [BLOCK_K, 1], [BLOCK_K, BLOCK_K])
    x = q_desc.load([0, 0])
    z = r_desc.load([0, 0])
    acc = tl.zeros([BLOCK_K, BLOCK_K], tl.float32)
    for i in range(0, K, BLOCK_K):
        s = tl.dot(x, k_desc.load([i, 0]).T)
        s = tl.dot(z, w_desc.load([i, 0]).T, s)
        acc += s
    o_desc.store([0, 0], acc.to(tl.float16))


@triton.jit
def chunked(
    q, k, v, o, K, DIM: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """Linear attention in chunks: the state is read by one MMA, and another adds to it."""
    q_desc = tl.make_tensor_descriptor(q, [K, DIM], [DIM, 1], [BLOCK_K, DIM])
    k_desc = tl.make_tensor_descriptor(k, [K, DIM], [DIM, 1], [BLOCK_K, DIM])
    v_desc = tl.make_tensor_descriptor(v, [K, DIM], [DIM, 1], [BLOCK_K, DIM])
    o_desc = tl.make_tensor_descriptor(o, [K, DIM], [DIM, 1], [BLOCK_K, DIM])
    h = tl.zeros([DIM, DIM], tl.float32)
    row = tl.arange(0, BLOCK_K)
    for i in range(0, K, BLOCK_K):
        x = q_desc.load([i, 0])
        y = k_desc.load([i, 0])
        z = v_desc.load([i, 0])
        s = tl.where(row[:, None] >= row[None, :], tl.dot(x, y.T), 0.0)
        t = tl.dot(s.to(tl.float16), z)
        t = tl.dot(x, h.to(tl.float16), t)
        o_desc.store([i, 0], t.to(tl.float16))
        h = tl.dot(y.T, z, h)


@triton.jit
def joined(
    a, b, d, g, c, DIM: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """c = (a @ d) * g + lower(a @ b.T) @ b for one block of rows: the product in registers is added to another one, which Triton gives
    to more warps than there are rows."""
    row, col = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, DIM)
    at = row[:, None] * DIM + col[None, :]
    x, y = tl.load(a + at), tl.load(b + at)
    s = tl.where(row[:, None] >= row[None, :], tl.dot(x, y.T), 0.0)
    acc = tl.dot(x, tl.load(d + col[:, None] * DIM + col[None, :])) * tl.load(g + row)[:, None]
    tl.store(c + at, tl.dot(s.to(tl.float16), y, acc))


@triton.jit
def foreseen(
    a, b, c, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """c = a @ b.T with pointers that are computed two iterations before they are read."""
    m, n = (
        tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M),
        tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N),
    )
    k = tl.arange(0, BLOCK_K)
    left, right = a + m[:, None] * K + k[None, :], b + n[:, None] * K + k[None, :]
    x, y, next_x, next_y = left, right, left + BLOCK_K, right + BLOCK_K
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for i in range(K // BLOCK_K):
        acc = tl.dot(tl.load(x), tl.load(y).T, acc)
        x, y = next_x, next_y
        next_x, next_y = left + (i + 2) * BLOCK_K, right + (i + 2) * BLOCK_K
    tl.store(c + m[:, None] * N + n[None, :], acc.to(c.dtype.element_ty))


@triton.jit
def columns(
    a, b, c, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """c = a @ b.T for a b of 32 bits, whose tiles go down the columns in memory; they are converted in registers."""
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for i in range(0, K, BLOCK_K):
        x = tl.load(a + m[:, None] * K + (i + k)[None, :], (i + k < K)[None, :], other=0.0)
        y = tl.load(b + (i + k)[:, None] + n[None, :] * K, (i + k < K)[:, None], other=0.0)
        acc = tl.dot(x, y.to(tl.float16), acc)
    tl.store(c + m[:, None] * N + n[None, :], acc.to(tl.float16), (m < M)[:, None] & (n < N)[None, :])


@triton.jit
def promoted(a, b, c, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    """c = a @ b.T for numbers of 8 bits, all of which are converted in registers before MMAs of warps."""
    m, n = tl.arange(0, BLOCK_M), tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for i in range(0, K, BLOCK_K):
        x = tl.load(a + m[:, None] * K + (i + k)[None, :], (i + k < K)[None, :], other=0.0)
        y = tl.load(b + (i + k)[:, None] + n[None, :] * K, (i + k < K)[:, None], other=0.0)
        acc = tl.dot(x.to(tl.float16), y.to(tl.float16), acc)
    tl.store(c + m[:, None] * N + n[None, :], acc)


@triton.jit
def turned(
    x, w, y, M, N, K, stride, WIDE: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """y = x @ w.T for images, as convolutions have them, and each third column of w: offsets are computed as
    vectors without a direction, which become rows and columns."""
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    image, place = m // WIDE, m % WIDE
    left, right = x + (image * stride)[:, None] + place[:, None], w + (n * K * 3)[None, :]
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for i in range(0, K, BLOCK_K):
        k = i + tl.arange(0, BLOCK_K)
        a = tl.load(left + (k * WIDE)[None, :], (m < M)[:, None] & (k < K)[None, :], other=0.0)
        b = tl.load(right + (k * 3)[:, None], (k[:, None] < K) & (n[None, :] < N), other=0.0)
        acc = tl.dot(a, b, acc)
    offset = (n // WIDE) * M * WIDE + n % WIDE
    tl.store(
        y + (m * WIDE)[:, None] + offset[None, :], acc.to(tl.float16), (m < M)[:, None] & (n < N)[None, :]
    )


@triton.jit
def decayed(
    k, v, g, h, K, stride, BLOCK_K: tl.constexpr, DIM: tl.constexpr
):  # fmt: skip
    """A state that decays by a gate, loaded as a number and as a vector; every iteration stores the state and
    scales a tile in registers. All through pointers."""
    row, column = tl.arange(0, BLOCK_K), tl.arange(0, DIM)
    state = tl.zeros([DIM, DIM], tl.float32)
    for i in range(tl.cdiv(K, BLOCK_K)):
        at = i * BLOCK_K + row
        inside = (at < K)[:, None]
        there = h + i * DIM * DIM + column[:, None] * DIM + column[None, :]
        tl.store(there, state.to(tl.bfloat16))
        x = tl.load(k + at[:, None] * stride + column[None, :], inside, other=0.0)
        y = tl.load(v + at[:, None] * stride + column[None, :], inside, other=0.0)
        last = tl.load(g + (tl.minimum((i + 1) * BLOCK_K, K) - 1))
        gate = tl.load(g + at, at < K, other=0.0)
        state *= tl.exp2(last)
        y = (y.to(tl.float32) * tl.exp2(last - gate)[:, None]).to(tl.bfloat16)
        state = tl.dot(x.T, y, state)
    tl.store(
        h + tl.cdiv(K, BLOCK_K) * DIM * DIM + column[:, None] * DIM + column[None, :], state.to(tl.bfloat16)
    )


@triton.jit
def panels(
    a, b, c, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """c = a @ b for a panel of a that is loaded before the loop; its mask is computed again where the loop stores."""
    m = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    inside = m < M.to(tl.int64)
    k, n = tl.arange(0, BLOCK_K), tl.arange(0, BLOCK_N)
    x = tl.load(a + m[:, None] * BLOCK_K + k[None, :], inside[:, None], other=0.0)
    for col in range(0, N, BLOCK_N):
        y = tl.load(b + k[:, None] * N + (col + n)[None, :], (col + n < N)[None, :], other=0.0)
        z = tl.dot(x, y).to(tl.float16)
        tl.store(c + m[:, None] * N + (col + n)[None, :], z, inside[:, None] & (col + n < N)[None, :])


@triton.jit
def biased(
    a, b, c, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, FILLED: tl.constexpr
):  # fmt: skip
    """c = a @ b.T plus a tile that is the same in every iteration: computed before the loop, or (FILLED) a constant."""
    a_desc = tl.make_tensor_descriptor(a, [M, BLOCK_K], [BLOCK_K, 1], [BLOCK_M, BLOCK_K])
    b_desc = tl.make_tensor_descriptor(b, [N, BLOCK_K], [BLOCK_K, 1], [BLOCK_N, BLOCK_K])
    c_desc = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BLOCK_M, BLOCK_N])
    row = tl.program_id(0) * BLOCK_M
    x = a_desc.load([row, 0])
    if FILLED:
        bias = tl.full([BLOCK_M, BLOCK_N], 2.0, tl.float32)
    else:
        bias = (tl.arange(0, BLOCK_M)[:, None] + tl.arange(0, BLOCK_N)[None, :]).to(tl.float32)
    for col in range(0, N, BLOCK_N):
        c_desc.store([row, col], tl.dot(x, b_desc.load([col, 0]).T, bias).to(tl.float16))


@triton.jit
def unpacked(
    a, b, c, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """c = a @ b, where a byte of b holds two numbers of 4 bits, side by side in a row, the left one in the low half."""
    a_desc = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BLOCK_M, BLOCK_K])
    b_desc = tl.make_tensor_descriptor(b, [K, N // 2], [N // 2, 1], [BLOCK_K, BLOCK_N // 2])
    c_desc = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BLOCK_M, BLOCK_N])
    row, col = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for k in range(0, K, BLOCK_K):
        pair = b_desc.load([k, col // 2])
        low, high = (pair & 15) - 8, ((pair >> 4) & 15) - 8
        both = tl.join(low.to(tl.float16), high.to(tl.float16)).reshape(BLOCK_K, BLOCK_N)
        acc = tl.dot(a_desc.load([row, k]), both, acc)
    c_desc.store([row, col], acc.to(c.dtype.element_ty))


@triton.jit
def rotated(
    a, b, c, sums, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """c = r(a) @ b.T, where r turns each pair of neighbours in a row by the angle of its row; sums of the pairs of b's tiles
    along their rows go to `sums`."""
    a_desc = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BLOCK_M, BLOCK_K])
    b_desc = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BLOCK_N, BLOCK_K])
    c_desc = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BLOCK_M, BLOCK_N])
    row, col = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N
    angle = (row + tl.arange(0, BLOCK_M)).to(tl.float32) * 0.01
    cos, sin = tl.cos(angle)[:, None], tl.sin(angle)[:, None]
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for k in range(0, K, BLOCK_K):
        x, y = tl.split(a_desc.load([row, k]).to(tl.float32).reshape(BLOCK_M, BLOCK_K // 2, 2))
        turned = tl.join(x * cos - y * sin, x * sin + y * cos).reshape(BLOCK_M, BLOCK_K)
        acc = tl.dot(turned.to(tl.float16), b_desc.load([col, k]).T, acc)
    halves = acc.reshape(BLOCK_M, 2, BLOCK_N // 2)
    m, n = row + tl.arange(0, BLOCK_M), col // 2 + tl.arange(0, BLOCK_N // 2)
    tl.store(sums + m[:, None] * (N // 2) + n[None, :], tl.sum(halves, 1))
    c_desc.store([row, col], acc.to(c.dtype.element_ty))


@triton.jit
def crests(
    a, b, c, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """Each row's highest number of a @ b.T in the even and in the odd columns, over all tiles, by atomic maximum."""
    a_desc = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BLOCK_M, BLOCK_K])
    b_desc = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BLOCK_N, BLOCK_K])
    row, col = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.int32)
    for k in range(0, K, BLOCK_K):
        acc = tl.dot(a_desc.load([row, k]), b_desc.load([col, k]).T, acc, out_dtype=tl.int32)
    highest = tl.max(acc.reshape(BLOCK_M, BLOCK_N // 2, 2), 1)
    m, side = row + tl.arange(0, BLOCK_M), tl.arange(0, 2)
    tl.atomic_max(c + m[:, None] * 2 + side[None, :], highest, (m[:, None] < M) & (side[None, :] < 2))


@triton.jit
def nearest(
    a, b, c, places, lengths, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """How far a @ b.T stays below the highest number of a row of the tile, the columns of these, and the sum of
    their squares."""
    a_desc = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BLOCK_M, BLOCK_K])
    b_desc = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BLOCK_N, BLOCK_K])
    row, col = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for k in range(0, K, BLOCK_K):
        acc = tl.dot(a_desc.load([row, k]), b_desc.load([col, k]).T, acc)
    highest, at = tl.max(acc, 1, return_indices=True)
    m, n = row + tl.arange(0, BLOCK_M), col + tl.arange(0, BLOCK_N)
    tl.store(c + m[:, None] * N + n[None, :], acc - highest[:, None])
    tl.store(places + m, at)
    tl.store(lengths + tl.program_id(0), tl.sum(highest * highest, 0))


@triton.jit
def surrounded(
    a, b, v, c, M, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """c = p + p @ v for p = a @ b.T / 2 + a @ b.T: MMAs before a loop, in it, and behind it."""
    a_desc = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BLOCK_M, BLOCK_K])
    b_desc = tl.make_tensor_descriptor(b, [BLOCK_N, K], [K, 1], [BLOCK_N, BLOCK_K])
    c_desc = tl.make_tensor_descriptor(c, [M, BLOCK_N], [BLOCK_N, 1], [BLOCK_M, BLOCK_N])
    row, n, k = tl.program_id(0) * BLOCK_M, tl.arange(0, BLOCK_N), tl.arange(0, BLOCK_K)
    m = row + tl.arange(0, BLOCK_M)
    x = tl.load(a + m[:, None] * K + k[None, :], (m < M)[:, None], other=0.0)
    p = tl.dot(x, tl.load(b + n[None, :] * K + k[:, None])) * 0.5
    for i in range(0, K, BLOCK_K):
        p = tl.dot(a_desc.load([row, i]), b_desc.load([0, i]).T, p)
    scale = tl.load(v + n)
    z = tl.load(v + n[:, None] * BLOCK_N + n[None, :])
    q = tl.dot((p * scale[None, :].to(tl.float32)).to(tl.float16), z)
    c_desc.store([row, 0], (p + q).to(tl.float16))


@triton.jit
def straight(
    q, k, v, o, K, DIM: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """o = exp2(q @ k.T) @ v for one block of rows: no loop at all."""
    row = tl.program_id(0) * BLOCK_K
    q_desc = tl.make_tensor_descriptor(q, [K, DIM], [DIM, 1], [BLOCK_K, DIM])
    k_desc = tl.make_tensor_descriptor(k, [K, DIM], [DIM, 1], [BLOCK_K, DIM])
    o_desc = tl.make_tensor_descriptor(o, [K, DIM], [DIM, 1], [BLOCK_K, DIM])
    s = tl.dot(q_desc.load([row, 0]), k_desc.load([row, 0]).T)
    rows, columns = row + tl.arange(0, BLOCK_K), tl.arange(0, DIM)
    z = tl.load(v + rows[:, None] * DIM + columns[None, :])
    p = tl.exp2(s * 0.125 - tl.max(s, 1)[:, None])  # pyright: ignore
    o_desc.store([row, 0], tl.dot(p.to(tl.float16), z).to(tl.float16))


@triton.jit
def detoured(q, k, v, bias, o, peaks, DIM: tl.constexpr, BLOCK: tl.constexpr):
    """o = exp2(q @ k.T) @ v without a loop: the first program adds a tile to the scores, and the largest of each row is stored
    as an element of a tile of three dimensions."""
    row = tl.program_id(0) * BLOCK
    rows, columns, inner = row + tl.arange(0, BLOCK), tl.arange(0, DIM), tl.arange(0, BLOCK)
    x = tl.load(q + rows[:, None] * DIM + columns[None, :])
    y = tl.load(k + rows[:, None] * DIM + columns[None, :])
    s = tl.dot(x, y.T) * 0.125
    if row == 0:
        s += tl.load(bias + rows[:, None] * BLOCK + inner[None, :])
    p = tl.exp2(s)
    z = tl.load(v + rows[:, None] * DIM + columns[None, :])
    tl.store(peaks + rows[:, None], tl.max(tl.reshape(p, [BLOCK, 1, BLOCK]), 2))
    tl.store(o + rows[:, None] * DIM + columns[None, :], tl.dot(p.to(tl.float16), z).to(tl.float16))


@triton.jit
def eliminated(a, o, N, BLOCK: tl.constexpr):
    """A tile is loaded, changed row by row, and multiplied: nothing is loaded where the products are."""
    i = tl.arange(0, BLOCK)
    x = tl.load(a + i[:, None] * BLOCK + i[None, :])
    for j in range(1, N):
        row = tl.sum(tl.where((i == j)[:, None], x, 0.0), 0)
        x += tl.where((i > j)[:, None], row[None, :] * 0.125, 0.0)
    y = x.to(tl.float16)
    z = tl.dot(tl.dot(y, y).to(tl.float16), y)
    tl.store(o + i[:, None] * BLOCK + i[None, :], z)


@triton.jit
def substituted(a, o, N, BLOCK: tl.constexpr):
    """Forward substitution in a @ a.T for blocks of rows that there are, of which the rows are read again where they were
    stored, behind a barrier."""
    first = tl.program_id(0) * BLOCK
    if first >= N:
        return
    i = tl.arange(0, BLOCK)
    x = tl.load(a + (first + i)[:, None] * BLOCK + i[None, :])
    y = tl.where(i[:, None] > i[None, :], tl.dot(x, tl.trans(x)), 0.0)
    tl.store(o + (first + i)[:, None] * BLOCK + i[None, :], y)
    tl.debug_barrier()
    z = -y
    for j in range(2, BLOCK):
        row = -tl.load(o + (first + j) * BLOCK + i)
        row += tl.sum(row[:, None] * z, 0)
        z = tl.where((i == j)[:, None], row * 0.0625, z)
    tl.store(o + (first + i)[:, None] * BLOCK + i[None, :], z)


@triton.jit
def reflected(a, b, c, N, BLOCK: tl.constexpr):
    """A tile is rounded, multiplied, and turned in registers to be the left operand of another product."""
    i = tl.arange(0, BLOCK)
    tile = i[:, None] * BLOCK + i[None, :]
    for k in range(N):
        x = tl.load(a + k * BLOCK * BLOCK + tile).to(tl.bfloat16)
        y = tl.dot(x, tl.load(b + k * BLOCK * BLOCK + tile))
        tl.store(c + k * BLOCK * BLOCK + tile, tl.dot(tl.trans(x), y.to(tl.bfloat16)))


@triton.jit
def recounted(a, b, c, N, BLOCK: tl.constexpr, PART: tl.constexpr):
    """Parts of the columns of a loaded tile are rows of the left operand; the largest product of each is kept."""
    i, j = tl.arange(0, BLOCK), tl.arange(0, PART)
    small = tl.load(b + j[:, None] * PART + j[None, :])
    ROWS: tl.constexpr = BLOCK * BLOCK // PART
    most = tl.zeros((ROWS, PART), tl.float32)
    for k in range(N):
        x = tl.load(a + k * BLOCK * BLOCK + i[:, None] * BLOCK + i[None, :])
        most = tl.maximum(most, tl.dot(tl.reshape(tl.trans(x), [ROWS, PART]), small))
    tl.store(c + tl.arange(0, ROWS)[:, None] * PART + j[None, :], most)


@triton.jit
def sums_of_rows(a, b, c, d, e, N, BLOCK: tl.constexpr):
    """c += a[i] @ b[i], and d has the sums of a's columns, e that of their squares, as products with a row of ones."""
    i = tl.arange(0, BLOCK)
    tile = i[:, None] * BLOCK + i[None, :]
    acc, sums, squares = tl.zeros([BLOCK, BLOCK], tl.float32), tl.zeros([1, BLOCK], tl.float32), tl.zeros([1, 1], tl.float32)
    for k in range(N):
        x = tl.load(a + k * BLOCK * BLOCK + tile)
        acc = tl.dot(x, tl.load(b + k * BLOCK * BLOCK + tile), acc)
        wide = x.to(tl.float32)
        sums += tl.dot(tl.full([1, BLOCK], 1.0, tl.float32), wide)
        rows = tl.dot(wide * wide, tl.full([BLOCK, 1], 1.0, tl.float32))
        squares += tl.dot(tl.full([1, BLOCK], 1.0, tl.float32), rows)
    tl.store(c + tile, acc)
    tl.store(d + i[None, :], sums)
    tl.store(e + tl.arange(0, 1)[:, None] + tl.arange(0, 1)[None, :], squares)


@triton.jit
def unrolled(
    a, b, c, sums, M, N, K, STEPS: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """c = a @ b.T over the first STEPS blocks of columns, and sums of squares of a's rows: no loop, and more tiles than fit
    into shared memory together."""
    a_desc = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BLOCK_M, BLOCK_K])
    b_desc = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BLOCK_N, BLOCK_K])
    c_desc = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BLOCK_M, BLOCK_N])
    row, col = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N
    acc, squares = tl.zeros([BLOCK_M, BLOCK_N], tl.float32), tl.zeros([BLOCK_M], tl.float32)
    for i in tl.static_range(STEPS):
        x = a_desc.load([row, i * BLOCK_K])
        acc = tl.dot(x, b_desc.load([col, i * BLOCK_K]).T, acc)
        squares += tl.sum(x.to(tl.float32) * x, 1)  # pyright: ignore
    c_desc.store([row, col], acc.to(c.dtype.element_ty))
    tl.store(sums + row + tl.arange(0, BLOCK_M), squares)


@triton.jit
def strided(
    a, b, c, M, N, K, STEPS: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """c = a @ b.T, STEPS blocks of columns in an iteration: more tiles than fit into shared memory together."""
    a_desc = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BLOCK_M, BLOCK_K])
    b_desc = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BLOCK_N, BLOCK_K])
    c_desc = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BLOCK_M, BLOCK_N])
    row, col = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for k in range(0, K, STEPS * BLOCK_K):
        for i in tl.static_range(STEPS):
            x, y = a_desc.load([row, k + i * BLOCK_K]), b_desc.load([col, k + i * BLOCK_K])
            acc = tl.dot(x, y.T, acc)
    c_desc.store([row, col], acc.to(c.dtype.element_ty))


@triton.jit
def reread(
    q, k, v, o, sums, K, DIM: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """o = s.T @ v * v for s = q.T @ k, with an MMA behind the loop whose operand is read once more; sums of whole tiles."""
    column, columns, n = tl.program_id(0) * BLOCK_K, tl.arange(0, DIM), tl.arange(0, BLOCK_K)
    s, most = tl.zeros([BLOCK_K, DIM], tl.float32), -1.0
    for i in range(0, K, BLOCK_K):
        x = tl.load(q + (i + n)[:, None] * K + (column + n)[None, :])
        y = tl.load(k + (i + n)[:, None] * DIM + columns[None, :])
        s = tl.dot(x.T, y, s)
        most = tl.maximum(most, tl.sum((x * y > 1.0).to(tl.float16)).to(tl.float32))  # pyright: ignore
    z = tl.load(v + (column + n)[:, None] * DIM + columns[None, :])
    p = tl.dot(s.to(tl.float16).T, z) * z
    tl.store(o + (column + n)[:, None] * DIM + columns[None, :], p.to(tl.float16))
    tl.store(sums + tl.program_id(0), most * tl.sum(p))  # pyright: ignore


@triton.jit
def echoed(x, y, p, o, BLOCK: tl.constexpr):
    """p = x @ y and o = (p @ y) * y for each block of rows: the tile that both MMAs read is read once more behind them, and a store between them keeps it from being loaded again."""
    places = (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :]
    b = tl.load(y + places)
    s = tl.dot(tl.load(x + places), b)
    tl.store(p + places, s)
    r = tl.dot(s.to(tl.float16), b)
    tl.store(o + places, r * b)


@triton.jit
def quarters(
    a, b, left, right, c, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """c = a @ b.T of numbers of four bits, two in each byte, with a power of two for 32 of them."""
    m, n = (
        tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M),
        tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N),
    )
    k, s = tl.arange(0, BLOCK_K // 2), tl.arange(0, BLOCK_K // 32)
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for i in range(0, K, BLOCK_K):
        x = tl.load(a + m[:, None] * (K // 2) + (i // 2 + k)[None, :])
        y = tl.load(b + n[:, None] * (K // 2) + (i // 2 + k)[None, :])
        p = tl.load(left + m[:, None] * (K // 32) + (i // 32 + s)[None, :])
        q = tl.load(right + n[:, None] * (K // 32) + (i // 32 + s)[None, :])
        acc = tl.dot_scaled(x, p + 126, "e2m1", y.T, q + 126, "e2m1", acc)
    tl.store(c + m[:, None] * N + n[None, :], acc.to(tl.float16))


@triton.jit
def quarters_and_whole(
    a, b, scales, c, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """c = a @ b.T of numbers of 16 bits and of four, the latter with a power of two for 32 of them."""
    a_desc = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BLOCK_M, BLOCK_K])
    b_desc = tl.make_tensor_descriptor(b, [N, K // 2], [K // 2, 1], [BLOCK_N, BLOCK_K // 2])
    row, col = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N
    m, n, s = row + tl.arange(0, BLOCK_M), col + tl.arange(0, BLOCK_N), tl.arange(0, BLOCK_K // 32)
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for i in range(0, K, BLOCK_K):
        x, y = a_desc.load([row, i]), b_desc.load([col, i // 2])
        q = tl.load(scales + n[:, None] * (K // 32) + (i // 32 + s)[None, :])
        acc = tl.dot_scaled(x, None, "bf16", y.T, q, "e2m1", acc)
    tl.store(c + m[:, None] * N + n[None, :], acc)


@triton.jit
def packed_rows(
    a, b, scales, c, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """c = a @ b of numbers of four bits, eight rows of b in each number, with scales for BLOCK_K rows."""
    m, n = (
        tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M),
        tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N),
    )
    k = tl.arange(0, BLOCK_K)
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for i in range(tl.cdiv(K, BLOCK_K)):
        x = tl.load(a + m[:, None] * K + (i * BLOCK_K + k)[None, :], mask=m[:, None] < M, other=0.0)
        words = tl.load(b + (i * BLOCK_K + k)[:, None] // 8 * N + n[None, :])
        scale = tl.load(scales + i * N + n)
        y = ((words >> (k % 8 * 4)[:, None]) & 15).to(tl.float16) * scale[None, :]
        acc = tl.dot(x, y, acc)
    tl.store(c + m[:, None] * N + n[None, :], acc.to(tl.float16), mask=m[:, None] < M)


@triton.jit
def packed_columns(
    a, b, scales, c, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """packed_rows with the numbers of a column of b one behind the other."""
    m, n = (
        tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M),
        tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N),
    )
    k = tl.arange(0, BLOCK_K)
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for i in range(tl.cdiv(K, BLOCK_K)):
        x = tl.load(a + m[:, None] * K + (i * BLOCK_K + k)[None, :], mask=m[:, None] < M, other=0.0)
        words = tl.load(b + (i * BLOCK_K + k)[:, None] // 8 + n[None, :] * (K // 8))
        scale = tl.load(scales + i * N + n)
        y = ((words >> (k % 8 * 4)[:, None]) & 15).to(tl.float16) * scale[None, :]
        acc = tl.dot(x, y, acc)
    tl.store(c + m[:, None] * N + n[None, :], acc.to(tl.float16), mask=m[:, None] < M)


@triton.jit
def packed_halves(
    a, b, scales, c, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """c = a @ b.T of numbers of four bits, two of a row of b in each byte, with scales for 128 of a row."""
    m, n = (
        tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M),
        tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N),
    )
    k = tl.arange(0, BLOCK_K)
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for i in range(tl.cdiv(K, BLOCK_K)):
        x = tl.load(a + m[:, None] * K + (i * BLOCK_K + k)[None, :], mask=m[:, None] < M, other=0.0)
        halves = tl.load(b + n[None, :] * (K // 2) + (i * BLOCK_K + k)[:, None] // 2)
        scale = tl.load(scales + n[None, :] * (K // 128) + (i * BLOCK_K + k)[:, None] // 128)
        y = ((halves >> (k % 2 * 4)[:, None]) & 15).to(tl.float16) * scale
        acc = tl.dot(x, y, acc)
    tl.store(c + m[:, None] * N + n[None, :], acc.to(tl.float16), mask=m[:, None] < M)


@triton.jit
def nibbled(
    a, b, c, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, WIDE: tl.constexpr
):  # fmt: skip
    """c = a @ b in 8 bits, with two numbers of four bits of a row of a in each byte, joined in registers."""
    m, n = (
        tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M),
        tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N),
    )
    k, half = tl.arange(0, BLOCK_K), tl.arange(0, BLOCK_K // 2)
    acc = tl.zeros([BLOCK_M, BLOCK_N], WIDE)
    for i in range(0, K, BLOCK_K):
        both = tl.load(a + m[:, None] * (K // 2) + (i // 2 + half)[None, :])
        y = tl.load(b + (i + k)[:, None] * N + n[None, :])
        x = tl.join((both & 15).to(WIDE), (both >> 4).to(WIDE)).reshape(BLOCK_M, BLOCK_K).to(y.dtype)
        acc = tl.dot(x, y, acc, out_dtype=WIDE)
    tl.store(c + m[:, None] * N + n[None, :], acc)


@triton.jit
def _later(scale, shift, other_scale, other_shift):
    """Two maps x * scale + shift, one after the other."""
    return scale * other_scale, shift * other_scale + other_shift


@triton.jit
def ranked(
    a, b, v, c, last, bins, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """Running sums, in the loop too, maxima from the end, recurrences, histograms, gathers and concatenations of a @ b."""
    m, n = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    acc, rates = tl.zeros([BLOCK_M, BLOCK_N], tl.float32), tl.zeros([BLOCK_N], tl.float32)
    for i in range(0, K, BLOCK_K):
        x = tl.load(a + m[:, None] * K + (i + k)[None, :])
        y = tl.load(b + (i + k)[:, None] * N + n[None, :])
        rates += tl.cumsum(tl.load(v + i + n), 0)
        acc = tl.dot(x, y, acc)
    down = tl.cumsum(acc, 0, reverse=True) + rates[None, :]
    scale, shift = tl.associative_scan((tl.sigmoid(acc), acc), 1, _later)
    order = (tl.abs(down) * 8.0).to(tl.int32) % BLOCK_N  # pyright: ignore
    moved = tl.gather(shift, order, 1) + scale
    tl.store(c + m[:, None] * N + n[None, :], (down + moved).to(tl.float16))
    both = tl.cat(rates, rates * 2.0, can_reorder=True)
    tl.store(last + tl.arange(0, 2 * BLOCK_N), both)
    tl.store(bins + tl.program_id(0) * BLOCK_N + n, tl.histogram((rates * 4.0).to(tl.int32), BLOCK_N))  # pyright: ignore


@triton.jit
def mapped(
    starts, sizes, b, c, groups, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """c[g] = a[g] @ b.T for a list of matrices, through descriptors of what is loaded, of a program and of an iteration."""
    column = tl.program_id(0) * BLOCK_N
    b_desc = tl.make_tensor_descriptor(b + column * K, [BLOCK_N, K], [K, 1], [BLOCK_N, BLOCK_K])
    for g in range(groups):
        a = tl.load(starts + g).to(tl.pointer_type(tl.float16))
        rows, pitch = tl.load(sizes + 2 * g), tl.load(sizes + 2 * g + 1)
        a_desc = tl.make_tensor_descriptor(a, [rows, K], [pitch, 1], [BLOCK_M, BLOCK_K])
        c_desc = tl.make_tensor_descriptor(c + g * BLOCK_M * N, [rows, N], [N, 1], [BLOCK_M, BLOCK_N])
        acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
        for k in range(0, K, BLOCK_K):
            acc = tl.dot(a_desc.load([0, k]), b_desc.load([0, k]).T, acc)
        c_desc.store([0, column], acc.to(tl.float16))


@triton.jit
def drawn(
    a, b, c, counts, locks, marks, last, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """c = a @ b times what atomic operations found, of 32 and 64 bits; last: what tiles of atomic operations found."""
    m, n = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for i in range(0, K, BLOCK_K):
        x = tl.load(a + m[:, None] * K + (i + k)[None, :])
        y = tl.load(b + (i + k)[:, None] * N + n[None, :])
        acc = tl.dot(x, y, acc)
    order = tl.atomic_add(counts + tl.program_id(0), 1)
    found = tl.atomic_cas(locks + tl.program_id(0), order, order + 7)
    best = tl.atomic_max(marks + tl.program_id(0) * BLOCK_N + n, tl.max(acc, 0).to(tl.int32))  # pyright: ignore
    tl.store(c + m[:, None] * N + n[None, :], (acc * (order + 2 * found + 1).to(tl.float32)).to(tl.float16))
    tl.store(
        last + tl.program_id(0) * BLOCK_N + n,
        best + tl.atomic_xor(marks + tl.program_id(0) * BLOCK_N + n, 5, sem="relaxed"),
    )


@triton.jit
def weighted(
    a, b, v, c, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """c = (a * v) @ b.T, where the weighted tile of a is computed, and no type that wgmma takes from registers."""
    m, n = (
        tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M),
        tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N),
    )
    k = tl.arange(0, BLOCK_K)
    acc = tl.zeros([BLOCK_M, BLOCK_N], c.dtype.element_ty)
    for i in range(0, K, BLOCK_K):
        x = tl.load(a + m[:, None] * K + (i + k)[None, :]) * tl.load(v + i + k)[None, :]
        y = tl.load(b + n[:, None] * K + (i + k)[None, :])
        acc = tl.dot(x, y.T, acc, out_dtype=c.dtype.element_ty)
    tl.store(c + m[:, None] * N + n[None, :], acc)


@triton.jit
def upheld(
    a, b, rows, c, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """c = (a * rows) @ b.T, where two warpgroups side by side hold the computed rows of a, each all of them."""
    m, n = (
        tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M),
        tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N),
    )
    k = tl.arange(0, BLOCK_K)
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for i in range(0, K, BLOCK_K):
        x = tl.load(a + m[:, None] * K + (i + k)[None, :]) * tl.load(rows + i + m)[:, None]
        y = tl.load(b + n[:, None] * K + (i + k)[None, :])
        acc = tl.dot(x.to(tl.float16), y.T, acc)
    tl.store(c + m[:, None] * N + n[None, :], acc)


@triton.jit
def exactly(
    a, b, c, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """c = a @ b in full precision: no tensor core has that."""
    m, n = (
        tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M),
        tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N),
    )
    k = tl.arange(0, BLOCK_K)
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for i in range(0, K, BLOCK_K):
        x = tl.load(a + m[:, None] * K + (i + k)[None, :])
        y = tl.load(b + (i + k)[:, None] * N + n[None, :])
        acc = tl.dot(x, y, acc, input_precision="ieee")
    tl.store(c + m[:, None] * N + n[None, :], acc)


@triton.jit
def parting(
    a, b, c, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """c = a @ b in the first half of the rows, twice that in the others but the last program's: both branches
    end the kernel, one of them early too."""
    pid = tl.program_id(0)
    m, n = pid * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    if pid * BLOCK_M < M // 2:
        for i in range(0, K, BLOCK_K):
            x = tl.load(a + m[:, None] * K + (i + k)[None, :])
            acc = tl.dot(x, tl.load(b + (i + k)[:, None] * BLOCK_N + n[None, :]), acc)
        tl.store(c + m[:, None] * BLOCK_N + n[None, :], acc.to(tl.float16))
    else:
        if (pid + 1) * BLOCK_M >= M:
            return
        for i in range(0, K, BLOCK_K):
            x = tl.load(a + m[:, None] * K + (i + k)[None, :])
            acc = tl.dot(x, tl.load(b + (i + k)[:, None] * BLOCK_N + n[None, :]), acc)
        tl.store(c + m[:, None] * BLOCK_N + n[None, :], (2 * acc).to(tl.float16))


@triton.jit
def forking(
    a, b, c, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """c = a @ b in even programs along y, relu(a) @ b in the others, which take half of K at a time: the tiles of both
    branches do not fit in shared memory together."""
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    if tl.program_id(1) % 2 == 0:
        k = tl.arange(0, BLOCK_K)
        for i in range(0, K, BLOCK_K):
            x = tl.load(a + m[:, None] * K + (i + k)[None, :])
            acc = tl.dot(x, tl.load(b + (i + k)[:, None] * N + n[None, :]), acc)
    else:
        h = tl.arange(0, BLOCK_K // 2)
        for i in range(0, K, BLOCK_K // 2):
            x = tl.load(a + m[:, None] * K + (i + h)[None, :])
            acc = tl.dot(tl.maximum(x, 0.0), tl.load(b + (i + h)[:, None] * N + n[None, :]), acc)
    tl.store(c + m[:, None] * N + n[None, :], acc.to(tl.float16))


@triton.jit
def both_ways(a, b, c, N, BLOCK: tl.constexpr):
    """c = a.T @ (a @ b), block by block of b: the first operand of both products is one tile, which stays."""
    m = tl.arange(0, BLOCK)
    x = tl.load(a + m[:, None] * BLOCK + m[None, :])
    acc = tl.zeros([BLOCK, BLOCK], tl.float32)
    for i in range(0, N, BLOCK):
        y = tl.load(b + (i + m)[:, None] * BLOCK + m[None, :])
        acc += tl.dot(x.T, tl.dot(x, y).to(tl.float16))
    tl.store(c + m[:, None] * BLOCK + m[None, :], acc.to(tl.float16))


@triton.jit
def interrupted(a, b, c, w, N, steps, BLOCK: tl.constexpr):
    """c = a.T @ (a @ b), scaled for each block of b by numbers which a loop between the products multiplies, and
    (a @ b) @ b: a tile is staged before that loop, and read behind it."""
    m = tl.arange(0, BLOCK)
    acc, more = tl.zeros([BLOCK, BLOCK], tl.float32), tl.zeros([BLOCK, BLOCK], tl.float32)
    for i in range(0, N, BLOCK):
        x = tl.load(a + (i + m)[:, None] * BLOCK + m[None, :])
        y = tl.load(b + (i + m)[:, None] * BLOCK + m[None, :])
        s, scale = tl.dot(x, y).to(tl.float16), 1.0
        more = tl.dot(s, y, more)
        for r in range(steps):
            scale *= tl.load(w + r)
        acc += tl.dot(x.T, s) * scale
    tl.store(c + m[:, None] * BLOCK + m[None, :], (acc + more).to(tl.float16))


@triton.jit
def signalled(a, b, c, flags, N, BLOCK: tl.constexpr):
    """c = a @ b, and a flag that says so: what all threads have written comes before it."""
    m = tl.arange(0, BLOCK)
    n = tl.program_id(0) * BLOCK + m
    acc = tl.zeros([BLOCK, BLOCK], tl.float32)
    for i in range(0, N, BLOCK):
        x = tl.load(a + m[:, None] * N + (i + m)[None, :])
        acc = tl.dot(x, tl.load(b + (i + m)[:, None] * N + n[None, :]), acc)
    tl.store(c + m[:, None] * N + n[None, :], acc.to(tl.float16))
    tl.atomic_xchg(flags + tl.program_id(0), 1)


@triton.jit
def mounting(
    a, c, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    """Sums down the columns of each block of rows, by a product in full precision: more operands than a
    thread has registers for."""
    m, n = tl.arange(0, BLOCK_M), tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    ones = tl.where(m[:, None] >= m[None, :], 1.0, 0.0)
    for i in range(0, M, BLOCK_M):
        at = (i + m)[:, None] * N + n[None, :]
        x = tl.load(a + at).to(tl.float32) * 0.5
        tl.store(c + at, tl.dot(ones, x, input_precision="ieee"))


@triton.jit
def settled(
    a, b, c, o, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """c = a @ b, and o = c @ b for the rows of a program: what it stores it loads again behind a barrier."""
    m, n = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for i in range(0, K, BLOCK_K):
        x = tl.load(a + m[:, None] * K + (i + k)[None, :])
        acc = tl.dot(x, tl.load(b + (i + k)[:, None] * N + n[None, :]), acc)
    tl.store(c + m[:, None] * BLOCK_N + n[None, :], (acc * 0.1).to(tl.float16))
    tl.debug_barrier()
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for i in range(0, BLOCK_N, BLOCK_K):
        x = tl.load(c + m[:, None] * BLOCK_N + (i + k)[None, :])
        acc = tl.dot(x, tl.load(b + (i + k)[:, None] * N + n[None, :]), acc)
    tl.store(o + m[:, None] * BLOCK_N + n[None, :], acc.to(tl.float16))


@triton.jit
def lengths_of_rows(
    a, b, c, d, M, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """c = a @ b, and d has the sums of squares of a's rows, as products with a column of ones."""
    m, n, k = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N), tl.arange(0, BLOCK_K)
    acc, squares = tl.zeros([BLOCK_M, BLOCK_N], tl.float32), tl.zeros([BLOCK_M, 1], tl.float32)
    ones = tl.full([BLOCK_K, 1], 1.0, tl.float32)
    for i in range(0, K, BLOCK_K):
        x = tl.load(a + m[:, None] * K + (i + k)[None, :])
        acc = tl.dot(x, tl.load(b + (i + k)[:, None] * BLOCK_N + n[None, :]), acc)
        wide = x.to(tl.float32)
        squares += tl.dot(wide * wide, ones)
    tl.store(c + m[:, None] * BLOCK_N + n[None, :], acc)
    tl.store(d + m[:, None], squares)


@triton.jit
def _accrue(j, a, b, c, lengths, M, K, BLOCK_M: tl.constexpr, BLOCK_K: tl.constexpr):
    """Adds columns of a, from j on, times the same rows of b to c from row j on; nothing for an empty block."""
    length = tl.load(lengths + j // BLOCK_K)
    if length <= 0:
        return
    m, k = tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_K)
    y = tl.load(b + (j + k)[:, None] * BLOCK_K + k[None, :], (k < length)[:, None], other=0.0)
    for i in range(j, M, BLOCK_M):
        x = tl.load(a + (i + m)[:, None] * K + (j + k)[None, :])
        tl.debug_barrier()
        at = c + (i + m)[:, None] * BLOCK_K + k[None, :]
        tl.store(at, tl.dot(x, y, tl.load(at)))


@triton.jit
def accrued(
    a, b, c, lengths, M, K, BLOCK_M: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """c += a @ b where a is lower triangular by blocks, block by block of K, of which each reads and writes its rows: a function that returns early is called."""
    for j in range(0, K, BLOCK_K):
        _accrue(j, a, b, c, lengths, M, K, BLOCK_M, BLOCK_K)


@triton.jit
def listed(
    starts, b, addresses, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """c = a @ b, where the addresses of a and c lie in memory: those of several matrices, one for each program; all rows are given."""
    a = tl.load(starts + tl.program_id(1)).to(tl.pointer_type(tl.float16))
    c = tl.load(addresses + tl.program_id(1)).to(tl.pointer_type(tl.float16))
    m, n = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for i in range(0, K, BLOCK_K):
        x = tl.load(a + m[:, None] * K + (i + k)[None, :], (m < M)[:, None], other=0.0)
        y = tl.load(b + (i + k)[:, None] * N + n[None, :])
        acc = tl.dot(x, y, acc)
    tl.store(c + m[:, None] * N + n[None, :], acc.to(tl.float16), (m < M)[:, None])


@triton.jit
def unaligned(
    a, b, c, pitch, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """c = a @ b, whose rows begin anywhere."""
    m, n = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for i in range(0, K, BLOCK_K):
        x = tl.load(a + m[:, None] * K + (i + k)[None, :])
        acc = tl.dot(x, tl.load(b + (i + k)[:, None] * N + n[None, :]), acc)
    tl.store(c + m[:, None] * pitch + n[None, :], acc.to(c.dtype.element_ty), (m < M)[:, None])


@triton.jit
def jumping(
    a, b, steps, c, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """c = sum over i of a[:, i] @ b[at(i), :] for blocks of columns and rows; how far at moves on is loaded."""
    m, n = (
        tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M),
        tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N),
    )
    k = tl.arange(0, BLOCK_K)
    acc, at = tl.zeros([BLOCK_M, BLOCK_N], tl.float32), 0
    for i in range(K // BLOCK_K):
        x = tl.load(a + m[:, None] * K + i * BLOCK_K + k[None, :])
        y = tl.load(b + (at + k[:, None]) * N + n[None, :])
        acc = tl.dot(x, y, acc)
        at = (at + (tl.load(steps + i + 1) - tl.load(steps + i)) * BLOCK_K) & (K - 1)
    tl.store(c + m[:, None] * N + n[None, :], acc.to(tl.float16))


@triton.jit
def leaping(
    q, k, v, o, steps, weights, K, DIM: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """Attention without a maximum over blocks of keys: how far on the next block begins is loaded, and a mask and weights depend on it."""
    rows, columns = tl.arange(0, BLOCK_K), tl.arange(0, DIM)
    x = tl.load(q + rows[:, None] * DIM + columns[None, :])
    acc, at, keys, pairs = tl.zeros([BLOCK_K, DIM], tl.float32), 0, rows, rows ^ 1
    for i in range(K // BLOCK_K):
        y = tl.load(k + (at + rows)[None, :] * DIM + columns[:, None])
        s = tl.dot(x, y) * tl.load(weights + keys)[None, :] + tl.load(weights + pairs)[None, :]
        s = tl.where(rows[:, None] * 4 >= (at + rows)[None, :], s, 0.0)
        s = tl.where(rows[:, None] * 2 >= keys[None, :], s, s * 0.5)
        z = tl.load(v + (at + rows)[:, None] * DIM + columns[None, :])
        acc = tl.dot(s.to(tl.float16), z, acc)
        step = (tl.load(steps + i) & 1) * BLOCK_K
        at += step
        keys += step
        pairs += step
    tl.store(o + rows[:, None] * DIM + columns[None, :], acc.to(tl.float16))


@triton.jit
def query_gradient(
    q, k, v, g, dq, M, N, stride, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, DIM: tl.constexpr
):  # fmt: skip
    """dq = (2**(q @ k.T) * (g @ v.T)) @ k; tiles of q and g are loaded through pointers and stay."""
    m, n, d = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N), tl.arange(0, DIM)
    x = tl.load(q + m[:, None] * DIM + d[None, :])
    y = tl.load(g + m[:, None] * DIM + d[None, :])
    begin = tl.program_id(1) * N
    acc = tl.zeros([BLOCK_M, DIM], tl.float32)
    for i in range(0, N, BLOCK_N):
        at = (begin + i + n)[None, :] * stride + d[:, None]
        keys = tl.load(k + at)
        p = tl.exp2(tl.dot(x, keys) * 0.01)
        p = p * (tl.dot(y, tl.load(v + at).to(tl.float16)) - 1.0)
        acc = tl.dot(p.to(tl.float16), tl.trans(keys), acc)
    tl.store(dq + m[:, None] * DIM + d[None, :], acc)


@triton.jit
def queries(
    q, k, v, o, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, DIM: tl.constexpr
):  # fmt: skip
    """Attention without the division; the tile of q is loaded through pointers and does not fit in the
    registers beside the accumulators."""
    k_desc = tl.make_tensor_descriptor(k, [N, DIM], [DIM, 1], [BLOCK_N, DIM])
    v_desc = tl.make_tensor_descriptor(v, [N, DIM], [DIM, 1], [BLOCK_N, DIM])
    m, d = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, DIM)
    x = tl.load(q + m[:, None] * DIM + d[None, :])
    acc, highest = tl.zeros([BLOCK_M, DIM], tl.float32), tl.zeros([BLOCK_M], tl.float32)
    for i in range(0, N, BLOCK_N):
        s = tl.dot(x, k_desc.load([i, 0]).T) * 0.125
        higher = tl.maximum(highest, tl.max(s, 1))
        p = tl.exp2(s - higher[:, None])
        acc = tl.dot(p.to(tl.float16), v_desc.load([i, 0]), acc * tl.exp2(highest - higher)[:, None])
        highest = higher
    tl.store(o + m[:, None] * DIM + d[None, :], acc)


@triton.jit
def narrowed(
    q, k, v, o, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, DIM: tl.constexpr
):  # fmt: skip
    """Attention without the division; the columns of v are lines in memory, and what the exponentials give is rounded
    to the 8 bits that q, k and v have."""
    q_desc = tl.make_tensor_descriptor(q, [N, DIM], [DIM, 1], [BLOCK_M, DIM])
    k_desc = tl.make_tensor_descriptor(k, [N, DIM], [DIM, 1], [BLOCK_N, DIM])
    v_desc = tl.make_tensor_descriptor(v, [DIM, N], [N, 1], [DIM, BLOCK_N])
    m, d = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, DIM)
    x = q_desc.load([tl.program_id(0) * BLOCK_M, 0])
    acc, highest = tl.zeros([BLOCK_M, DIM], tl.float32), tl.zeros([BLOCK_M], tl.float32)
    for i in range(0, N, BLOCK_N):
        s = tl.dot(x, k_desc.load([i, 0]).T) * 0.125
        higher = tl.maximum(highest, tl.max(s, 1))
        p = tl.exp2(s - higher[:, None])
        acc = tl.dot(p.to(tl.float8e4nv), v_desc.load([0, i]).T, acc * tl.exp2(highest - higher)[:, None])
        highest = higher
    tl.store(o + m[:, None] * DIM + d[None, :], acc)


@triton.jit
def stacked(
    a, b, c, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, DIM: tl.constexpr, HEADS: tl.constexpr
):  # fmt: skip
    """c is the sum of a @ block.T over blocks of rows of b; the rows of a are loaded as those of several heads."""
    b_desc = tl.make_tensor_descriptor(b, [N, DIM], [DIM, 1], [BLOCK_N, DIM])
    m, n, d = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N), tl.arange(0, DIM)
    head, row = (
        tl.arange(0, HEADS)[:, None, None] * (BLOCK_M // HEADS),
        tl.arange(0, BLOCK_M // HEADS)[None, :, None],
    )
    x = tl.load(a + (tl.program_id(0) * BLOCK_M + head + row) * DIM + d[None, None, :]).reshape(
        [BLOCK_M, DIM]
    )
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for i in range(0, N, BLOCK_N):
        acc = tl.dot(x, b_desc.load([i, 0]).T, acc)
    tl.store(c + m[:, None] * BLOCK_N + n[None, :], acc)


@triton.jit
def windowed(
    q, k, rows, columns, o, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, DIM: tl.constexpr
):  # fmt: skip
    """Scores with a bias for rows and one for columns of an image: which of these are loaded, and which scores
    are stored, depends on one tile of conditions."""
    m, d = tl.arange(0, BLOCK_M), tl.arange(0, DIM)
    below = m < N
    x = tl.load(q + m[:, None] * DIM + d[None, :], below[:, None], other=0.0)
    for i in range(0, N, BLOCK_N):
        n = i + tl.arange(0, BLOCK_N)
        y = tl.load(k + n[None, :] * DIM + d[:, None], (n < N)[None, :], other=0.0)
        seen = below[:, None] & (n < N)[None, :]
        row = tl.load(rows + m[:, None] * 64 + (n // 64)[None, :], seen, other=0.0)
        column = tl.load(columns + m[:, None] * 64 + (n % 64)[None, :], seen, other=0.0)
        s = tl.dot(x, y) * 0.125 + (row + column) * 0.5
        tl.store(o + m[:, None] * N + n[None, :], tl.where(seen, s, -1.0), n[None, :] < N)


@triton.jit
def highest_bytes(
    a, b, c, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, DIM: tl.constexpr
):  # fmt: skip
    """The highest of integer products of a tile of bytes, loaded under a mask before the loop, with all columns."""
    b_desc = tl.make_tensor_descriptor(b, [N, DIM], [DIM, 1], [BLOCK_N, DIM])
    m, n, d = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N), tl.arange(0, DIM)
    x = tl.load(a + m[:, None] * DIM + d[None, :], mask=m[:, None] < M, other=0)
    best = tl.full([BLOCK_M, BLOCK_N], -(2**30), tl.int32)
    for i in range(0, N, BLOCK_N):
        best = tl.maximum(best, tl.dot(x, b_desc.load([i, 0]).T))
    tl.store(c + m[:, None] * BLOCK_N + n[None, :], best, mask=m[:, None] < M)


@triton.jit
def walled(
    a, b, c, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, DIM: tl.constexpr
):  # fmt: skip
    """The highest products with columns below N, in steps of BLOCK_N: the MMA adds to a row that each iteration broadcasts."""
    b_desc = tl.make_tensor_descriptor(b, [N, DIM], [DIM, 1], [BLOCK_N, DIM])
    m, n, d = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N), tl.arange(0, DIM)
    x = tl.load(a + m[:, None] * DIM + d[None, :])
    best = tl.full([BLOCK_M, BLOCK_N], -1e30, tl.float32)
    for i in range(0, N, BLOCK_N):
        best = tl.maximum(best, tl.dot(x, b_desc.load([i, 0]).T) + tl.where(i + n < N, 0.0, -1e30)[None, :])
    tl.store(c + m[:, None] * BLOCK_N + n[None, :], best)


@triton.jit
def ahead(
    a, b, scales, c, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """c = a @ b.T, each BLOCK_K columns of a times scales of their rows, which the iteration before has loaded."""
    m, n = (
        tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M),
        tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N),
    )
    k = tl.arange(0, BLOCK_K)
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    scale = tl.load(scales + m)
    for i in range(0, K, BLOCK_K):
        s = tl.dot(
            tl.load(a + m[:, None] * K + i + k[None, :]), tl.load(b + n[:, None] * K + i + k[None, :]).T
        )
        acc += s * scale[:, None]
        scale = tl.load(scales + (i // BLOCK_K + 1) * M + m, mask=i + BLOCK_K < K, other=0.0)
    tl.store(c + m[:, None] * N + n[None, :], acc)


@triton.jit
def heads_apart(
    a, b, c, N, stride_h, HEADS: tl.constexpr, DIM: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    """c[token] = a[token] @ b.T @ b, where the heads of a token are rows of a tile of three dimensions."""
    q, h, d, n = tl.arange(0, 1), tl.arange(0, HEADS), tl.arange(0, DIM), tl.arange(0, BLOCK_N)
    token = (tl.program_id(0) + q)[:, None, None] * HEADS
    place = (token + h[None, :, None]) * stride_h + d[None, None, :]
    rows = tl.reshape(tl.load(a + place), HEADS, DIM)
    acc = tl.zeros([HEADS, DIM], tl.float32)
    for i in range(0, N, BLOCK_N):
        tile = tl.load(b + (i + n)[:, None] * DIM + d[None, :])
        acc = tl.dot(tl.dot(rows, tile.T).to(tl.float16), tile, acc)
    tl.store(c + place, tl.reshape(acc, 1, HEADS, DIM))


@triton.jit
def slots_ahead(
    a, b, slots, c, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, DIM: tl.constexpr
):  # fmt: skip
    """c = a @ b[slots].T; an iteration loads the slots of the next one, if there is one."""
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n, d = tl.arange(0, BLOCK_N), tl.arange(0, DIM)
    rows = tl.load(a + m[:, None] * DIM + d[None, :])
    inside = n < N
    slot = tl.load(slots + n, mask=inside, other=0)
    for i in range(0, N, BLOCK_N):
        now, there = slot.to(tl.int64), inside
        if i + BLOCK_N < N:
            inside = i + BLOCK_N + n < N
            slot = tl.load(slots + i + BLOCK_N + n, mask=inside, other=0)
        columns = tl.load(b + now[None, :] * DIM + d[:, None], mask=there[None, :], other=0.0)
        tl.store(c + m[:, None] * N + i + n[None, :], tl.dot(rows, columns), mask=there[None, :])


@triton.jit
def bytes_ahead(
    a, b, scales, c, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """c = a @ b, where b holds bytes and each BLOCK_K of its rows have scales of the columns: both are loaded
    by the iteration before."""
    m, n = (
        tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M),
        tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N),
    )
    k = tl.arange(0, BLOCK_K)
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    a_ptrs, b_ptrs, scale_ptrs = a + m[:, None] * K + k[None, :], b + k[:, None] * N + n[None, :], scales + n
    y, scale = tl.load(b_ptrs), tl.load(scale_ptrs)[None, :]
    for i in range(0, K, BLOCK_K):
        y_now = y.to(tl.float16) * scale
        b_ptrs += BLOCK_K * N
        scale_ptrs += N
        more = i + BLOCK_K < K
        y, scale = tl.load(b_ptrs, mask=more), tl.load(scale_ptrs, mask=more)[None, :]
        acc = tl.dot(tl.load(a_ptrs), y_now, acc)
        a_ptrs += BLOCK_K
    tl.store(c + m[:, None] * N + n[None, :], acc)


@triton.jit
def strips(
    a, b, c, M, N, K, taps, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """The sum over taps of a's next K columns times the same b: both loops carry the pointers to a."""
    m, n = (
        tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M),
        tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N),
    )
    k = tl.arange(0, BLOCK_K)
    a_ptrs = a + m[:, None] * (K * taps) + k[None, :]
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for _ in range(taps):
        b_ptrs = b + n[:, None] * K + k[None, :]
        for _ in range(K // BLOCK_K):
            acc = tl.dot(tl.load(a_ptrs), tl.load(b_ptrs).T, acc)
            a_ptrs += BLOCK_K
            b_ptrs += BLOCK_K
    tl.store(c + m[:, None] * N + n[None, :], acc)


@triton.jit
def noted(
    a, b, notes, c, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """c = a @ b.T plus the largest sum so far of each row, which passes through memory in every iteration."""
    m, n = (
        tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M),
        tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N),
    )
    k, places = tl.arange(0, BLOCK_K), notes + tl.program_id(1) * M + m
    acc, largest = tl.zeros([BLOCK_M, BLOCK_N], tl.float32), tl.zeros([BLOCK_M], tl.float32)
    for i in range(0, K, BLOCK_K):
        x, y = tl.load(a + m[:, None] * K + (i + k)[None, :]), tl.load(b + n[:, None] * K + (i + k)[None, :])
        acc = tl.dot(x, y.T, acc)
        tl.store(places, tl.maximum(largest, tl.max(acc, 1)))
        largest = tl.load(places)
    tl.store(c + m[:, None] * N + n[None, :], acc + largest[:, None])


@triton.jit
def summed_columns(
    a, b, c, sums, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """c = a @ b, and the sums of b's columns: the tiles of b have too few rows for all warps."""
    m, n = (
        tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M),
        tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N),
    )
    k = tl.arange(0, BLOCK_K)
    acc, total = tl.zeros([BLOCK_M, BLOCK_N], tl.float32), tl.zeros([BLOCK_N], tl.float32)
    for i in range(0, K, BLOCK_K):
        y = tl.load(b + (i + k)[:, None] * N + n[None, :])
        acc = tl.dot(tl.load(a + m[:, None] * K + (i + k)[None, :]), y, acc)
        total += tl.sum(y.to(tl.float32), 0)
    tl.store(c + m[:, None] * N + n[None, :], acc)
    tl.store(sums + tl.program_id(0) * N + n, total)


@triton.jit
def summed_transposed(
    a, b, c, sums, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """c = a @ b.T, and the sums of the squares of b's rows: each is in one warp as it is loaded, and in several as it is held."""
    m, n = (
        tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M),
        tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N),
    )
    k = tl.arange(0, BLOCK_K)
    acc, total = tl.zeros([BLOCK_M, BLOCK_N], tl.float32), tl.zeros([BLOCK_N], tl.float32)
    for i in range(0, K, BLOCK_K):
        y = tl.load(b + (i + k)[:, None] + n[None, :] * K)
        acc = tl.dot(tl.load(a + m[:, None] * K + (i + k)[None, :]), y.to(tl.float16), acc)
        total += tl.sum(y * y, 0)
    tl.store(c + m[:, None] * N + n[None, :], acc)
    tl.store(sums + tl.program_id(0) * N + n, total)


@triton.jit
def archived(a, b, c, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    """A state that each iteration stores, and adds a transposed product to."""
    m, n, k = tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N), tl.arange(0, BLOCK_K)
    state = tl.zeros([BLOCK_N, BLOCK_M], tl.float32)
    for i in range(0, K, BLOCK_K):
        rows = i // BLOCK_K * BLOCK_N + n
        tl.store(c + rows[:, None] * BLOCK_M + m[None, :], state.to(tl.float16))
        x = tl.load(a + m[:, None] * K + (i + k)[None, :])
        state += tl.trans(tl.dot(x, tl.load(b + n[None, :] * K + (i + k)[:, None])))


@triton.jit
def scored(
    q, k, ends, c, N, QUERIES: tl.constexpr, HEADS: tl.constexpr, BLOCK_N: tl.constexpr, DIM: tl.constexpr
):  # fmt: skip
    """The sum over heads of positive products of queries with keys, up to the largest of the queries' ends; 16-bit sums of tiles of
    three dimensions."""
    first, d, n = tl.program_id(0) * QUERIES, tl.arange(0, DIM), tl.arange(0, BLOCK_N)
    rows, own = first * HEADS + tl.arange(0, QUERIES * HEADS), first + tl.arange(0, QUERIES)
    end = tl.minimum(tl.max(tl.load(ends + own), 0), N)
    x = tl.load(q + rows[:, None] * DIM + d[None, :])
    for i in range(0, end, BLOCK_N):
        y = tl.load(k + (i + n)[None, :] * DIM + d[:, None], mask=(i + n)[None, :] < end, other=0)
        s = tl.maximum(tl.dot(x, y), 0).to(tl.float16)
        total = tl.sum(tl.reshape(tl.trans(s), [BLOCK_N, QUERIES, HEADS]), 2)
        tl.store(c + own[None, :] * N + (i + n)[:, None], total, mask=(i + n)[:, None] < end)


@triton.jit
def scaled_columns(
    a, b, scales, c, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """c = a @ b.T with a scale for each column, loaded as a column and transposed."""
    m, n = (
        tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M),
        tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N),
    )
    k, acc = tl.arange(0, BLOCK_K), tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for i in range(0, K, BLOCK_K):
        x, y = tl.load(a + m[:, None] * K + (i + k)[None, :]), tl.load(b + n[:, None] * K + (i + k)[None, :])
        acc = tl.dot(x, y.T, acc)
    column = tl.load((scales + n)[:, None], mask=(n < N)[:, None])
    tl.store(c + m[:, None] * N + n[None, :], acc * column.T)


@triton.jit
def deflated(
    q, k, w, r, o, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, DIM: tl.constexpr
):  # fmt: skip
    """Two MMAs of an iteration read the same registers, which the next one changes; a column from outside is subtracted in each,
    and the sum is divided approximately."""
    k_desc = tl.make_tensor_descriptor(k, [N, DIM], [DIM, 1], [BLOCK_N, DIM])
    w_desc = tl.make_tensor_descriptor(w, [N, DIM], [DIM, 1], [BLOCK_N, DIM])
    m, d = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, DIM)
    x, level = tl.load(q + m[:, None] * DIM + d[None, :]).to(tl.float32), tl.load(r + m)
    acc = tl.zeros([BLOCK_M, DIM], tl.float32)
    for i in range(0, N, BLOCK_N):
        low, tile = x.to(tl.float16), w_desc.load([i, 0])
        s = tl.dot(low, k_desc.load([i, 0]).T) - level[:, None]
        acc = tl.dot(s.to(tl.float16), tile, acc)
        x -= tl.dot((tl.dot(low, tile.T) * 0.01).to(tl.float16), tile)
    tl.store(
        o + m[:, None] * DIM + d[None, :], tl.fdiv(acc, 1.0 + level[:, None] * level[:, None], approx=True)
    )


@triton.jit
def tempered(
    a, b, gates, last, shift, c, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """c = (a @ b.T) * exp2(gates - last) + shift, whose factors and shifts are loaded before the loop."""
    m, n = (
        tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M),
        tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N),
    )
    k, place = tl.arange(0, BLOCK_K), m[:, None] * N + n[None, :]
    within = (m < M)[:, None] & (n < N)[None, :]
    gate, moved = tl.load(gates + place, mask=within, other=0.0), tl.load(shift + place, mask=within)
    factor = tl.exp2(gate - tl.load(last + n, mask=n < N, other=0.0)[None, :])
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for i in range(0, K, BLOCK_K):
        x, y = tl.load(a + m[:, None] * K + (i + k)[None, :]), tl.load(b + n[:, None] * K + (i + k)[None, :])
        acc = tl.dot(x, y.T, acc)
    tl.store(c + place, acc * factor + moved, mask=within)


@triton.jit
def faded(
    a, b, w, r, s, c, sums, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """The sum of each block of K times a decay of its own, and its products with a tile from before the loop, summed
    over rows: with the exponents as tiles, more registers than a thread has."""
    a_desc = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BLOCK_M, BLOCK_K])
    b_desc = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BLOCK_N, BLOCK_K])
    m, n = (
        tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M),
        tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N),
    )
    tile, acc = tl.load(w + m[:, None] * N + n[None, :]), tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    for k in range(0, K, BLOCK_K):
        rows, columns = tl.load(r + k // BLOCK_K * M + m), tl.load(s + k // BLOCK_K * N + n)
        part = tl.dot(
            a_desc.load([tl.program_id(0) * BLOCK_M, k]), b_desc.load([tl.program_id(1) * BLOCK_N, k]).T
        )
        part *= tl.exp2(tl.minimum(rows[:, None] - columns[None, :], 0.0))
        total += tl.sum(part * tile, 1)
        acc += part
    tl.store(c + m[:, None] * N + n[None, :], acc)
    tl.store(sums + tl.program_id(1) * M + m, total)


@triton.jit
def gram(
    a, c, M, K, BLOCK_M: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """The products of 16 rows with each other: warps side by side on the columns, and copies of them."""
    m, k = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_K)
    acc = tl.zeros([BLOCK_M, BLOCK_M], tl.float32)
    for i in range(0, K, BLOCK_K):
        x = tl.load(a + m[:, None] * K + (i + k)[None, :])
        acc += tl.dot(x, tl.trans(x))
    tl.store(c + m[:, None] * BLOCK_M + tl.arange(0, BLOCK_M)[None, :], acc)


@triton.jit
def aged(
    k, v, s, o, N, BLOCK_N: tl.constexpr, DIM: tl.constexpr
):  # fmt: skip
    """o = (k.T * s) @ v, where the row s, and a number of each block, are multiplied into the operand in registers."""
    m, n = tl.arange(0, DIM), tl.arange(0, BLOCK_N)
    acc = tl.zeros([DIM, DIM], tl.float32)
    for i in range(0, N, BLOCK_N):
        x = tl.load(k + (i + n)[None, :] * DIM + m[:, None]) * tl.load(s + (i + n)[None, :]) * tl.load(s + i)
        acc += tl.dot(x, tl.load(v + (i + n)[:, None] * DIM + m[None, :]))
    tl.store(o + m[:, None] * DIM + m[None, :], acc)


@triton.jit
def recalled(
    q, k, v, o, N, BLOCK_N: tl.constexpr, DIM: tl.constexpr, WIDTH: tl.constexpr
):  # fmt: skip
    """Causal linear attention without a softmax, in tf32: two MMAs read the queries in registers, one of them the scores that another
    one makes."""
    n, m, e = tl.arange(0, BLOCK_N), tl.arange(0, DIM), tl.arange(0, WIDTH)
    state = tl.zeros([DIM, WIDTH], tl.float32)
    for i in range(0, N, BLOCK_N):
        x = tl.load(q + (i + n)[:, None] * DIM + m[None, :]).to(tl.float32)
        y = tl.load(k + (i + n)[None, :] * DIM + m[:, None]).to(tl.float32)
        z = tl.load(v + (i + n)[:, None] * WIDTH + e[None, :]).to(tl.float32)
        scores = tl.where(n[:, None] >= n[None, :], tl.dot(x, y), 0.0)
        out = tl.dot(scores, z) + tl.dot(x, state)
        tl.store(o + (i + n)[:, None] * WIDTH + e[None, :], out.to(tl.bfloat16))
        state += tl.dot(y, z)


@triton.jit
def masked(
    q, k, v, o, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, DIM: tl.constexpr
):  # fmt: skip
    """Attention without the division, of two tiles of queries; keys beyond the end are masked where a block has some."""
    k_desc = tl.make_tensor_descriptor(k, [N, DIM], [DIM, 1], [BLOCK_N, DIM])
    v_desc = tl.make_tensor_descriptor(v, [N, DIM], [DIM, 1], [BLOCK_N, DIM])
    q_desc = tl.make_tensor_descriptor(q, [N, DIM], [DIM, 1], [BLOCK_M, DIM])
    o_desc = tl.make_tensor_descriptor(o, [N, DIM], [DIM, 1], [BLOCK_M, DIM])
    row = tl.program_id(0) * 2 * BLOCK_M
    x0, x1 = q_desc.load([row, 0]), q_desc.load([row + BLOCK_M, 0])
    acc0, highest0 = tl.zeros([BLOCK_M, DIM], tl.float32), tl.zeros([BLOCK_M], tl.float32)
    acc1, highest1 = tl.zeros([BLOCK_M, DIM], tl.float32), tl.zeros([BLOCK_M], tl.float32)
    keys = tl.arange(0, BLOCK_N)[None, :]
    for start in range(0, N, BLOCK_N):
        y = k_desc.load([start, 0])
        s0, s1 = tl.dot(x0, y.T), tl.dot(x1, y.T)
        if start + BLOCK_N > N:
            s0 = tl.where(keys < N - start, s0, float("-inf"))
            s1 = tl.where(keys < N - start, s1, float("-inf"))
        higher0, higher1 = tl.maximum(highest0, tl.max(s0, 1)), tl.maximum(highest1, tl.max(s1, 1))
        p0, p1 = tl.exp2(s0 - higher0[:, None]), tl.exp2(s1 - higher1[:, None])
        z = v_desc.load([start, 0])
        acc0 = tl.dot(p0.to(tl.float16), z, acc0 * tl.exp2(highest0 - higher0)[:, None])
        acc1 = tl.dot(p1.to(tl.float16), z, acc1 * tl.exp2(highest1 - higher1)[:, None])
        highest0, highest1 = higher0, higher1
    o_desc.store([row, 0], acc0.to(tl.float16))
    o_desc.store([row + BLOCK_M, 0], acc1.to(tl.float16))


@triton.jit
def chosen(
    q, scales, k, v, o, blocks, N, ROWS: tl.constexpr, BLOCK: tl.constexpr, DIM: tl.constexpr
):  # fmt: skip
    """Attention without the division to blocks of keys whose numbers are loaded; blocks behind the last key are left
    out. The scaled queries are the same in every iteration, and change their layout in the branch."""
    m, n, d = tl.arange(0, ROWS), tl.arange(0, BLOCK), tl.arange(0, DIM)
    x = tl.load(q + m[:, None] * DIM + d[None, :])
    x = (x.to(tl.float32) * tl.load(scales)).to(tl.float16)
    acc, total = tl.zeros([ROWS, DIM], tl.float32), tl.zeros([ROWS], tl.float32)
    for i in range(0, N, BLOCK):
        at = tl.load(blocks + i // BLOCK) * BLOCK
        if at < N:
            keys = tl.load(k + (at + n)[None, :] * DIM + d[:, None])
            values = tl.load(v + (at + n)[:, None] * DIM + d[None, :])
            p = tl.exp2(tl.dot(x, keys) * 0.0625)
            total = total * 0.5 + tl.sum(p, 1)
            acc = tl.dot(p.to(tl.float16), values, acc * 0.5)
    tl.store(o + m[:, None] * DIM + d[None, :], acc / total[:, None])


@triton.jit
def balanced(a, b, c, flags, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    """c = a @ b, where in flagged blocks of K what a's elements are divided by b's are multiplied with: a branch whose two
    results belong together, and are read at different times."""
    m, n, k = tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N), tl.arange(0, BLOCK_K)
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for i in range(0, K, BLOCK_K):
        x = tl.load(a + m[:, None] * K + (i + k)[None, :])
        y = tl.load(b + (i + k)[:, None] * BLOCK_N + n[None, :])
        if tl.load(flags + i // BLOCK_K) % 2 == 0:
            top = 1.0 + tl.max(tl.max(tl.abs(x.to(tl.float32)), 1), 0)
            x, y = (x / top).to(tl.bfloat16), (y * top).to(tl.bfloat16)
        acc = tl.dot(x, y, acc)
    tl.store(c + m[:, None] * BLOCK_N + n[None, :], acc)


@triton.jit
def tallied(a, b, c, sums, K, BLOCK_M: tl.constexpr, BLOCK_K: tl.constexpr):
    """c = a @ b.T, and the sums of the columns of a * b in every block of K, each added in bf16 and kept in float32: no
    value is narrowed, and another order of the additions rounds otherwise."""
    m, k = tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_K)
    acc, total = tl.zeros([BLOCK_M, BLOCK_M], tl.float32), tl.zeros([BLOCK_K], tl.float32)
    for i in range(0, K, BLOCK_K):
        x = tl.load(a + m[:, None] * K + (i + k)[None, :])
        y = tl.load(b + m[:, None] * K + (i + k)[None, :])
        total += tl.sum(x * y, 0).to(tl.float32)
        acc = tl.dot(x, y.T, acc)
    tl.store(c + m[:, None] * BLOCK_M + m[None, :], acc)
    tl.store(sums + k, total)


@triton.jit
def stepwise(a, b, rows, gates, g, c, n, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    """c = a @ b + the sum over j of gates[j] * rows[j] * g from row j on, in a loop of its own: its vectors become rows
    and columns of tiles, which are added to what an MMA made."""
    m, col, k = tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N), tl.arange(0, BLOCK_K)
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for i in range(0, K, BLOCK_K):
        x = tl.load(a + m[:, None] * K + (i + k)[None, :])
        y = tl.load(b + (i + k)[:, None] * BLOCK_N + col[None, :])
        acc = tl.dot(x, y, acc)
    factor = tl.load(g + m[:, None] * BLOCK_N + col[None, :])
    for j in range(n):
        row = tl.load(rows + j * BLOCK_N + col).to(tl.float32)
        gate = tl.load(gates + j * BLOCK_M + m)
        acc += tl.where((m >= j)[:, None], gate[:, None] * row[None, :] * factor, 0.0)
    tl.store(c + m[:, None] * BLOCK_N + col[None, :], acc)


@triton.jit
def kindred(a, b, c, heads, K, BLOCK_M: tl.constexpr, BLOCK_K: tl.constexpr):
    """c[h] = a[h] @ b[g].T for each head h, a program of the grid; the programs are divided among the `heads` of b."""
    head = tl.program_id(0)
    shared = head // (tl.num_programs(0) // heads)
    a_desc = tl.make_tensor_descriptor(a + head * BLOCK_M * K, [BLOCK_M, K], [K, 1], [BLOCK_M, BLOCK_K])
    b_desc = tl.make_tensor_descriptor(b + shared * BLOCK_M * K, [BLOCK_M, K], [K, 1], [BLOCK_M, BLOCK_K])
    m = tl.arange(0, BLOCK_M)
    acc = tl.zeros([BLOCK_M, BLOCK_M], tl.float32)
    for k in range(0, K, BLOCK_K):
        acc = tl.dot(a_desc.load([0, k]), b_desc.load([0, k]).T, acc)
    tl.store(c + head * BLOCK_M * BLOCK_M + m[:, None] * BLOCK_M + m[None, :], acc)


@triton.jit
def guarded(
    a, b, c, flags, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """c = a @ b.T over the blocks of K with an even flag; a's last block is loaded with a mask, the others without."""
    b_desc = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BLOCK_N, BLOCK_K])
    c_desc = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BLOCK_M, BLOCK_N])
    row, col = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N
    m, n = row + tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_K)
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for k in range(0, K, BLOCK_K):
        if k + BLOCK_K > K:
            x = tl.load(a + m[:, None] * K + (k + n)[None, :], (k + n < K)[None, :], other=0.0)
        else:
            x = tl.load(a + m[:, None] * K + (k + n)[None, :])
        if k >= 0:
            y = b_desc.load([col, k])
            if tl.load(flags + k // BLOCK_K) % 2 == 0:
                acc = tl.dot(x, y.T, acc)
    c_desc.store([row, col], acc.to(tl.float16))


@triton.jit
def skipping(
    q, k, v, o, flags, K, DIM: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """Attention without a maximum over the blocks with an even flag: what is loaded and computed for a block is in a branch."""
    q_desc = tl.make_tensor_descriptor(q, [BLOCK_K, DIM], [DIM, 1], [BLOCK_K, DIM])
    k_desc = tl.make_tensor_descriptor(k, [K, DIM], [DIM, 1], [BLOCK_K, DIM])
    o_desc = tl.make_tensor_descriptor(o, [BLOCK_K, DIM], [DIM, 1], [BLOCK_K, DIM])
    rows, columns = tl.arange(0, BLOCK_K), tl.arange(0, DIM)
    x = q_desc.load([0, 0])
    total = tl.full([BLOCK_K], 1.0, tl.float32)
    acc = tl.zeros([BLOCK_K, DIM], tl.float32)
    for i in range(0, K, BLOCK_K):
        if tl.load(flags + i // BLOCK_K) % 2 == 0:
            s = tl.dot(x, k_desc.load([i, 0]).T)
            z = tl.load(v + (i + rows)[:, None] * DIM + columns[None, :])
            p = tl.exp2(s * 0.125)
            total = total * 0.5 + tl.sum(p, 1)
            acc = tl.dot(p.to(tl.float16), z, acc * 0.5)
    o_desc.store([0, 0], (acc / total[:, None]).to(tl.float16))


@triton.jit
def gleaning(
    q, k, v, o, flags, K, DIM: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """The sum of w.T @ v over the blocks with an even flag, where w follows from q and k: it is turned in shared memory."""
    rows, columns = tl.arange(0, BLOCK_K), tl.arange(0, DIM)
    x = tl.load(q + rows[:, None] * DIM + columns[None, :])
    acc = tl.zeros([BLOCK_K, DIM], tl.float32)
    for i in range(0, K, BLOCK_K):
        at = (i + rows)[:, None] * DIM + columns[None, :]
        if tl.load(flags + i // BLOCK_K) % 2 == 0:
            s = tl.dot(x, tl.load(k + at).T)
            w = tl.exp2(s * 0.125).to(tl.float16)
            acc += tl.dot(w.T, tl.load(v + at))
    tl.store(o + rows[:, None] * DIM + columns[None, :], acc.to(tl.float16))


@triton.jit
def shelving(
    q, k, v, o, flags, K, DIM: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """As `gleaning`, with weights of the block's rows: the tile that stays the same is the second operand, which the branch brings to shared memory."""
    rows, columns = tl.arange(0, BLOCK_K), tl.arange(0, DIM)
    x = tl.load(q + rows[:, None] * DIM + columns[None, :])
    acc = tl.zeros([BLOCK_K, DIM], tl.float32)
    for i in range(0, K, BLOCK_K):
        at = (i + rows)[:, None] * DIM + columns[None, :]
        if tl.load(flags + i // BLOCK_K) % 2 == 0:
            s = tl.dot(tl.load(k + at), x.T)
            w = tl.exp2(s * 0.125).to(tl.float16)
            acc += tl.dot(w, tl.load(v + at))
    tl.store(o + rows[:, None] * DIM + columns[None, :], acc.to(tl.float16))


@triton.jit
def picking(
    q, k, v, o, flags, K, DIM: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """As `skipping`, over the blocks that a list names; places of the list may be empty."""
    q_desc = tl.make_tensor_descriptor(q, [BLOCK_K, DIM], [DIM, 1], [BLOCK_K, DIM])
    o_desc = tl.make_tensor_descriptor(o, [BLOCK_K, DIM], [DIM, 1], [BLOCK_K, DIM])
    rows, columns = tl.arange(0, BLOCK_K), tl.arange(0, DIM)
    x = q_desc.load([0, 0])
    total = tl.full([BLOCK_K], 1.0, tl.float32)
    acc = tl.zeros([BLOCK_K, DIM], tl.float32)
    for i in range(0, K, BLOCK_K):
        block = tl.load(flags + i // BLOCK_K)
        if block >= 0:
            at = (block * BLOCK_K + rows)[:, None] * DIM + columns[None, :]
            s = tl.dot(x, tl.load(k + at).T)
            p = tl.exp2(s * 0.125)
            total = total * 0.5 + tl.sum(p, 1)
            acc = tl.dot(p.to(tl.float16), tl.load(v + at), acc * 0.5)
    o_desc.store([0, 0], (acc / total[:, None]).to(tl.float16))


@triton.jit
def patchwork(
    q, k, v, o, flags, K, DIM: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """As `skipping`; in the branch of a block, the last block is masked in a branch of its own."""
    q_desc = tl.make_tensor_descriptor(q, [BLOCK_K, DIM], [DIM, 1], [BLOCK_K, DIM])
    k_desc = tl.make_tensor_descriptor(k, [K, DIM], [DIM, 1], [BLOCK_K, DIM])
    o_desc = tl.make_tensor_descriptor(o, [BLOCK_K, DIM], [DIM, 1], [BLOCK_K, DIM])
    rows, columns = tl.arange(0, BLOCK_K), tl.arange(0, DIM)
    x = q_desc.load([0, 0])
    acc = tl.zeros([BLOCK_K, DIM], tl.float32)
    for i in range(0, K, BLOCK_K):
        if tl.load(flags + i // BLOCK_K) % 2 == 0:
            s = tl.dot(x, k_desc.load([i, 0]).T) * 0.125
            if i + BLOCK_K >= K:
                s = tl.where((i + rows)[None, :] < K, s - tl.max(s, 1)[:, None], float("-inf"))
            z = tl.load(v + (i + rows)[:, None] * DIM + columns[None, :], mask=(i + rows)[:, None] < K)
            acc = tl.dot(tl.exp2(s).to(tl.float16), z, acc * 0.5)
    o_desc.store([0, 0], acc.to(tl.float16))


@triton.jit
def metered(
    q, k, v, o, flags, sums, K, DIM: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """As `skipping`, of all blocks; those with an even flag add what they find to a sum of their flag, in a branch without results."""
    q_desc = tl.make_tensor_descriptor(q, [BLOCK_K, DIM], [DIM, 1], [BLOCK_K, DIM])
    k_desc = tl.make_tensor_descriptor(k, [K, DIM], [DIM, 1], [BLOCK_K, DIM])
    v_desc = tl.make_tensor_descriptor(v, [K, DIM], [DIM, 1], [BLOCK_K, DIM])
    o_desc = tl.make_tensor_descriptor(o, [BLOCK_K, DIM], [DIM, 1], [BLOCK_K, DIM])
    rows = tl.arange(0, BLOCK_K)
    x = q_desc.load([0, 0])
    acc = tl.zeros([BLOCK_K, DIM], tl.float32)
    for i in range(0, K, BLOCK_K):
        s = tl.dot(x, k_desc.load([i, 0]).T)
        flag = tl.load(flags + i // BLOCK_K)
        if flag % 2 == 0:
            tl.atomic_add(sums + rows, tl.sum(s, 1), mask=rows >= 8)
            tl.atomic_add(sums + BLOCK_K, 1.0)
        acc = tl.dot((s * 0.125).to(tl.float16), v_desc.load([i, 0]), acc)
    o_desc.store([0, 0], acc.to(tl.float16))


@triton.jit
def rivals(
    a, b, c, flags, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """Several MMAs add to one accumulator: on both sides of a branch, and the larger of two sums; one adds to what is read behind it."""
    a_desc = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BLOCK_M, BLOCK_K])
    b_desc = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BLOCK_N, BLOCK_K])
    c_desc = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BLOCK_M, BLOCK_N])
    row, col = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for k in range(0, K, BLOCK_K):
        x, y = a_desc.load([row, k]), b_desc.load([col, k])
        if tl.load(flags + k // BLOCK_K) % 2 == 0:
            acc = tl.dot(x, y.T, acc)
        else:
            acc = tl.maximum(acc, tl.dot(x * 2, y.T, acc))
        half = acc * 0.5
        acc = tl.maximum(half, tl.dot(x, y.T, half))
    c_desc.store([row, col], acc)


@triton.jit
def grouped(
    a, b, c, sizes, groups, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """c = a @ b.T for groups of blocks of rows, whose numbers are loaded; the programs take the blocks of all groups alternately."""
    b_desc = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BLOCK_N, BLOCK_K])
    c_desc = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BLOCK_M, BLOCK_N])
    columns, m, n = tl.cdiv(N, BLOCK_N), tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_K)
    tile, begin = tl.program_id(0), 0
    for g in range(groups):
        count = tl.load(sizes + g) * columns
        while tile >= begin and tile < begin + count:
            row, col = tile // columns * BLOCK_M, tile % columns * BLOCK_N
            acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
            for k in range(0, K, BLOCK_K):
                x = tl.load(a + (row + m)[:, None] * K + (k + n)[None, :], (k + n < K)[None, :], other=0.0)
                acc = tl.dot(x, b_desc.load([col, k]).T, acc)
            c_desc.store([row, col], acc.to(tl.float16))
            tile += tl.num_programs(0)
        begin += count


@triton.jit
def taken(
    a, b, c, counter, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """c = a @ b.T by programs that take their next tile from a counter, which all groups of a program need to know."""
    a_desc = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BLOCK_M, BLOCK_K])
    b_desc = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BLOCK_N, BLOCK_K])
    c_desc = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BLOCK_M, BLOCK_N])
    columns = tl.cdiv(N, BLOCK_N)
    tile = tl.program_id(0)
    while tile < tl.cdiv(M, BLOCK_M) * columns:
        row, col = tile // columns * BLOCK_M, tile % columns * BLOCK_N
        acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
        for k in range(0, K, BLOCK_K):
            acc = tl.dot(a_desc.load([row, k]), b_desc.load([col, k]).T, acc)
        c_desc.store([row, col], acc.to(tl.float16))
        tile = tl.num_programs(0) + tl.atomic_add(counter, 1)


@triton.jit
def searched(
    a, b, c, starts, groups, M, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """c = (g + 1) * a @ b.T for the number g of the group that a program belongs to, found by bisection."""
    low, high = 0, groups + 1
    while low < high:
        middle = (low + high) // 2
        if tl.load(starts + middle) <= tl.program_id(0):
            low = middle + 1
        else:
            high = middle
    a_desc = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BLOCK_M, BLOCK_K])
    b_desc = tl.make_tensor_descriptor(b, [BLOCK_N, K], [K, 1], [BLOCK_N, BLOCK_K])
    c_desc = tl.make_tensor_descriptor(c, [M, BLOCK_N], [BLOCK_N, 1], [BLOCK_M, BLOCK_N])
    row = tl.program_id(0) * BLOCK_M
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for k in range(0, K, BLOCK_K):
        acc = tl.dot(a_desc.load([row, k]), b_desc.load([0, k]).T, acc)
    total = 0
    for g in range(low):
        total += tl.load(starts + g)
    c_desc.store([row, 0], (acc * (total + low + 1).to(tl.float32)).to(tl.float16))  # pyright: ignore


@triton.jit
def dequantized(
    a, b, c, scales, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """c = a @ (b * scales), with a scale for each block of rows of b and each column."""
    a_desc = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BLOCK_M, BLOCK_K])
    b_desc = tl.make_tensor_descriptor(b, [K, N], [N, 1], [BLOCK_K, BLOCK_N])
    c_desc = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BLOCK_M, BLOCK_N])
    row, col = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N
    n = col + tl.arange(0, BLOCK_N)
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for k in range(0, K, BLOCK_K):
        scale = tl.load(scales + k // BLOCK_K * N + n, mask=n < N, other=1.0)
        whole = (b_desc.load([k, col]).to(tl.int32) - 8).to(tl.float16) * scale[None, :]
        acc = tl.dot(a_desc.load([row, k]), whole, acc)
    c_desc.store([row, col], acc.to(c.dtype.element_ty))


@triton.jit
def rescaled_rows(
    a, b, c, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """c = a @ b.T in fp8: each row of a tile of a is scaled to what fp8 holds."""
    a_desc = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BLOCK_M, BLOCK_K])
    b_desc = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BLOCK_N, BLOCK_K])
    c_desc = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BLOCK_M, BLOCK_N])
    row, col = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for k in range(0, K, BLOCK_K):
        x = a_desc.load([row, k])
        scale = tl.maximum(tl.max(tl.abs(x), 1), 1e-6) / 448.0
        whole = tl.clamp(x.to(tl.float32) / scale[:, None], -448.0, 448.0).to(tl.float8e4nv)
        acc += tl.dot(whole, b_desc.load([col, k]).T) * scale[:, None]
    c_desc.store([row, col], acc.to(c.dtype.element_ty))


@triton.jit
def spaced(
    a, b, c, scales, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """c = a @ (b * scales) through pointers, with a scale for each block of rows of b and each column, that lie eight apart: rows of
    fewer elements than the threads that copy them have."""
    m, n = (
        tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M),
        tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N),
    )
    k = tl.arange(0, BLOCK_K)
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for i in range(0, K, BLOCK_K):
        x = tl.load(a + m[:, None] * K + (i + k)[None, :])
        y = tl.load(b + n[None, :] * K + (i + k)[:, None])
        scale = tl.load(scales + (i // BLOCK_K * N + n[None, :]) * 8)
        acc = tl.dot(x, (y.to(tl.float16) - 8.0) * scale, acc)
    tl.store(c + m[:, None] * N + n[None, :], acc.to(c.dtype.element_ty))


@triton.jit
def centered(
    a, b, c, scales, zeros, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """c = a @ (b * scales - zeros * scales) through pointers, with four bits of each number of b, and a scale and a zero point for each
    block of rows of b and each column: vectors of the type of a are multiplied."""
    m, n = (
        tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M),
        tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N),
    )
    k, column = tl.arange(0, BLOCK_K), tl.max_contiguous(tl.multiple_of(n % N, BLOCK_N), BLOCK_N)
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for i in range(K // BLOCK_K):
        rows = i * BLOCK_K + k
        x = tl.load(a + m[:, None] * K + rows[None, :], mask=(m < M)[:, None], other=0.0)
        y = tl.load(b + rows[:, None] * N + column[None, :]) >> (k % 8 * 4)[:, None] & 15
        scale = tl.load(scales + i * N + column)
        zero = tl.load(zeros + i * N + column) & 15
        whole = y.to(scale.dtype) * scale[None, :] - (zero.to(scale.dtype) * scale)[None, :]
        acc = tl.dot(x, whole, acc)
    tl.store(c + m[:, None] * N + n[None, :], acc.to(c.dtype.element_ty), mask=(m < M)[:, None] & (n < N)[None, :])


@triton.jit
def tilted(
    q, k, v, o, g, M, N, DIM: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """o = (q @ k.T * g) @ v, where the scores are scaled in their transposed form and turned back in registers."""
    q_desc = tl.make_tensor_descriptor(q, [M, DIM], [DIM, 1], [BLOCK, DIM])
    k_desc = tl.make_tensor_descriptor(k, [N, DIM], [DIM, 1], [BLOCK, DIM])
    v_desc = tl.make_tensor_descriptor(v, [N, DIM], [DIM, 1], [BLOCK, DIM])
    o_desc = tl.make_tensor_descriptor(o, [M, DIM], [DIM, 1], [BLOCK, DIM])
    row, column = tl.program_id(0) * BLOCK, tl.arange(0, BLOCK)
    x = q_desc.load([row, 0])
    acc = tl.zeros([BLOCK, DIM], tl.float32)
    for i in range(0, N, BLOCK):
        scale = tl.load(g + i + column, mask=i + column < N, other=0.0)
        scores = tl.trans(tl.trans(tl.dot(x, k_desc.load([i, 0]).T)) * scale[:, None])
        acc = tl.dot(scores.to(tl.float16), v_desc.load([i, 0]), acc)
    o_desc.store([row, 0], acc.to(tl.float16))


@triton.jit
def sieved(
    q, k, v, o, M, N, DIM: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """o = exp2(q @ k.T) @ v, where the scores of rows past the end begin at minus infinity in every iteration."""
    row, d, column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, DIM), tl.arange(0, BLOCK)
    x = tl.load(q + row[:, None] * DIM + d[None, :])
    x = (x * 0.5).to(tl.float16)
    inside = row[:, None] < M
    acc, top = tl.zeros([BLOCK, DIM], tl.float32), tl.full([BLOCK], float("-inf"), tl.float32)
    for i in range(0, N, BLOCK):
        y = tl.load(k + (i + column)[None, :] * DIM + d[:, None])
        z = tl.load(v + (i + column)[:, None] * DIM + d[None, :])
        scores = tl.where(inside, tl.zeros([BLOCK, BLOCK], tl.float32), float("-inf"))
        scores += tl.dot(x, y)
        new = tl.maximum(top, tl.max(scores, 1))
        acc = acc * tl.exp2(top - new)[:, None]
        acc += tl.dot(tl.exp2(scores - new[:, None]).to(tl.float16), z)
        top = new
    tl.store(o + row[:, None] * DIM + d[None, :], acc.to(tl.float16), mask=inside)


@triton.jit
def overturned(
    q, k, v, o, M, N, DIM: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """o = (k @ q.T).T @ v of float32, where scores of one warp's MMAs are computed in their transposed form."""
    row, d, column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, DIM), tl.arange(0, BLOCK)
    x = tl.load(q + row[:, None] * DIM + d[None, :])
    acc = tl.zeros([BLOCK, DIM], tl.float32)
    for i in range(0, N, BLOCK):
        y = tl.load(k + (i + column)[:, None] * DIM + d[None, :])
        z = tl.load(v + (i + column)[:, None] * DIM + d[None, :])
        scores = tl.dot(y, tl.trans(x))
        acc += tl.dot(tl.trans(scores), z)
    tl.store(o + row[:, None] * DIM + d[None, :], acc, mask=row[:, None] < M)


@triton.jit
def retained(q, k, v, o, M, N, DIM: tl.constexpr, BLOCK: tl.constexpr):
    """o = (q @ k.T / 8 * decay) @ v, where the decay of a score follows from its place (retention)."""
    q_desc = tl.make_tensor_descriptor(q, [M, DIM], [DIM, 1], [BLOCK, DIM])
    k_desc = tl.make_tensor_descriptor(k, [N, DIM], [DIM, 1], [BLOCK, DIM])
    v_desc = tl.make_tensor_descriptor(v, [N, DIM], [DIM, 1], [BLOCK, DIM])
    o_desc = tl.make_tensor_descriptor(o, [M, DIM], [DIM, 1], [BLOCK, DIM])
    row = tl.program_id(0) * BLOCK
    m, n = row + tl.arange(0, BLOCK), tl.arange(0, BLOCK)
    x = q_desc.load([row, 0])
    acc = tl.zeros([BLOCK, DIM], tl.float32)
    for i in range(0, N, BLOCK):
        far = m[:, None] - (i + n)[None, :]
        weights = tl.where(far >= 0, tl.exp(far.to(tl.float32) * -0.05), 0.0)
        scores = tl.dot(x, k_desc.load([i, 0]).T) * 0.125 * weights
        acc = tl.dot(scores.to(tl.float16), v_desc.load([i, 0]), acc)
    o_desc.store([row, 0], acc.to(tl.float16))


@triton.jit
def gauged(
    a, b, c, a_scales, b_scales, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """c = a @ b.T, both of fp8; a row of a has a scale for BLOCK_K numbers, b one for a whole block. Scales are
    spread over one more dimension for each of their own."""
    a_desc = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BLOCK_M, BLOCK_K])
    b_desc = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BLOCK_N, BLOCK_K])
    c_desc = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BLOCK_M, BLOCK_N])
    row, col, groups = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N, tl.cdiv(K, BLOCK_K)
    rows, one = row + tl.arange(0, BLOCK_M)[:, None], tl.arange(0, 1)
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for i in range(groups):
        own = tl.load(a_scales + rows * groups + i + one[None, :], mask=rows < M, other=0.0)
        whole = tl.load(b_scales + col // BLOCK_N * groups + i + one[:, None] + one[None, :])
        own = own[:, :, None].broadcast_to(BLOCK_M, 1, BLOCK_K).reshape(BLOCK_M, BLOCK_K)
        whole = whole[:, None, :, None].broadcast_to(1, BLOCK_N, 1, BLOCK_K).reshape(BLOCK_N, BLOCK_K)
        left = a_desc.load([row, i * BLOCK_K]).to(tl.float32) * own
        right = b_desc.load([col, i * BLOCK_K]).to(tl.float32) * whole
        acc = tl.dot(left, right.T, acc)
    c_desc.store([row, col], acc.to(c.dtype.element_ty))


@triton.jit
def paged(
    q, k, v, o, chosen, table, pages, DIM: tl.constexpr, COUNT: tl.constexpr, BLOCK: tl.constexpr, PAGE: tl.constexpr,
    WIDTH: tl.constexpr,
):  # fmt: skip
    """o = exp(q @ k[chosen].T) @ v[chosen], where a table of pages says where the chosen rows lie, if they do. It is
    read at what an arithmetic operation makes of the numbers of the rows."""
    row, d = tl.arange(0, 16), tl.arange(0, DIM)
    x = tl.load(q + row[:, None] * DIM + d[None, :])
    acc, total = tl.zeros([16, DIM], tl.float32), tl.zeros([16], tl.float32)
    for i in range(0, COUNT, BLOCK):
        place = i + tl.arange(0, BLOCK)
        number = tl.load(chosen + place)
        safe = tl.maximum(number, 0)
        page, inside = safe // PAGE, (number >= 0) & (safe // PAGE < WIDTH)
        physical = tl.load(table + tl.minimum(page, WIDTH - 1), mask=inside, other=-1)
        inside &= (physical >= 0) & (physical < pages)
        at = tl.maximum(physical, 0).to(tl.int64) * (PAGE * DIM)
        rows = at + safe % PAGE * DIM
        y = tl.load(k + rows[None, :] + d[:, None], mask=inside[None, :], other=0.0)
        z = tl.load(v + rows[:, None] + d[None, :], mask=inside[:, None], other=0.0)
        weights = tl.where(inside[None, :], tl.exp(tl.dot(x, y)), 0.0)
        total += tl.sum(weights, 1)
        acc += tl.dot(weights.to(tl.bfloat16), z)
    tl.store(o + row[:, None] * DIM + d[None, :], acc / total[:, None])


@triton.jit
def consulted(a, b, c, table, N, DIM: tl.constexpr, BLOCK: tl.constexpr, PAGE: tl.constexpr):
    """c = a @ b, whose rows lie in pages that a table names, in the order of the loop."""
    row, d = tl.arange(0, 64), tl.arange(0, DIM)
    acc = tl.zeros([64, DIM], tl.float32)
    for i in range(0, N, BLOCK):
        place = i + tl.arange(0, BLOCK)
        page = tl.load(table + place // PAGE, mask=place < N, other=0)
        rows = page.to(tl.int64) * PAGE + place % PAGE
        x = tl.load(a + row[:, None] * N + place[None, :])
        y = tl.load(b + rows[:, None] * DIM + d[None, :], mask=(place < N)[:, None], other=0.0)
        acc = tl.dot(x, y, acc)
    tl.store(c + row[:, None] * DIM + d[None, :], acc)


@triton.jit
def hopping(a, b, c, leaps, N, DIM: tl.constexpr, BLOCK: tl.constexpr):
    """c = a @ b, in whose rows a table leaps on from block to block."""
    row, d = tl.arange(0, 64), tl.arange(0, DIM)
    acc = tl.zeros([64, DIM], tl.float32)
    at = 0
    for i in range(0, N, BLOCK):
        x = tl.load(a + row[:, None] * N + (i + tl.arange(0, BLOCK))[None, :])
        y = tl.load(b + (at + tl.arange(0, BLOCK))[:, None] * DIM + d[None, :])
        acc = tl.dot(x, y, acc)
        at += BLOCK * tl.load(leaps + i // BLOCK)
    tl.store(c + row[:, None] * DIM + d[None, :], acc)


@triton.jit
def hopped(a, b, c, leaps, N, DIM: tl.constexpr, BLOCK: tl.constexpr):
    """c = the sum of the blocks of a @ b.T on which a table leaps, without what lies right of a slope."""
    row, d, column = tl.arange(0, 64), tl.arange(0, DIM), tl.arange(0, BLOCK)
    x = tl.load(a + row[:, None] * DIM + d[None, :])
    acc = tl.zeros([64, BLOCK], tl.float32)
    at = tl.load(leaps)
    for i in range(0, N, BLOCK):
        y = tl.load(b + (at + column)[None, :] * DIM + d[:, None])
        acc += tl.where(row[:, None] * 64 >= (at + column)[None, :], tl.dot(x, y), 0.5)
        at += BLOCK * tl.load(leaps + i // BLOCK)
    tl.store(c + row[:, None] * BLOCK + column[None, :], acc)


@triton.jit
def overtaken(a, b, c, leaps, N, DIM: tl.constexpr, BLOCK: tl.constexpr):
    """As `hopping`, but the number of the block is loaded between the loads of an iteration, so that one reads the new one."""
    row, d = tl.arange(0, 64), tl.arange(0, DIM)
    acc = tl.zeros([64, DIM], tl.float32)
    at = tl.load(leaps)
    for i in range(0, N, BLOCK):
        x = tl.load(a + row[:, None] * N + (at * BLOCK + tl.arange(0, BLOCK))[None, :])
        at = tl.load(leaps + i // BLOCK)
        y = tl.load(b + (at * BLOCK + tl.arange(0, BLOCK))[:, None] * DIM + d[None, :])
        acc = tl.dot(x, y, acc)
    tl.store(c + row[:, None] * DIM + d[None, :], acc)


@triton.jit
def weighed(a, b, w, c, table, N, DIM: tl.constexpr, BLOCK: tl.constexpr, PAGE: tl.constexpr):
    """c = the sum of the blocks of (a @ b.T) * w, whose rows and weights lie in pages that a table names."""
    row, d = tl.arange(0, 64), tl.arange(0, DIM)
    x = tl.load(a + row[:, None] * DIM + d[None, :])
    acc = tl.zeros([64, BLOCK], tl.float32)
    for i in range(0, N, BLOCK):
        place = i + tl.arange(0, BLOCK)
        page = tl.load(table + place // PAGE, mask=place < N, other=0)
        rows = page.to(tl.int64) * PAGE + place % PAGE
        y = tl.load(b + rows[None, :] * DIM + d[:, None], mask=(place < N)[None, :], other=0.0)
        weights = tl.load(w + rows, mask=place < N, other=0.0)
        acc += tl.dot(x, y) * weights[None, :]
    tl.store(c + row[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :], acc)


@triton.jit
def rationed(a, b, c, ends, N, DIM: tl.constexpr, BLOCK: tl.constexpr):
    """c = a @ b.T, of each row as many columns as a table says."""
    row, d = tl.arange(0, 64), tl.arange(0, DIM)
    x = tl.load(a + row[:, None] * DIM + d[None, :])
    end = tl.load(ends + row)
    for i in range(0, N, BLOCK):
        place = i + tl.arange(0, BLOCK)
        y = tl.load(b + place[None, :] * DIM + d[:, None])
        tl.store(c + row[:, None] * N + place[None, :], tl.dot(x, y), mask=place[None, :] < end[:, None])


@triton.jit
def curtailed(a, b, c, table, size, N, D, DIM: tl.constexpr, BLOCK: tl.constexpr):
    """c = a @ b, whose rows a table names, counted around, and whose columns end at any number."""
    row, d = tl.arange(0, 64), tl.arange(0, DIM)
    acc = tl.zeros([64, DIM], tl.float32)
    for i in range(0, N, BLOCK):
        place = i + tl.arange(0, BLOCK)
        number = (tl.load(table + place, mask=place < N, other=0).to(tl.int64) + size) % size
        x = tl.load(a + row[:, None] * N + place[None, :])
        y = tl.load(b + number[:, None] * DIM + d[None, :], mask=(place < N)[:, None] & (d < D)[None, :], other=0.0)
        acc = tl.dot(x, y, acc)
    tl.store(c + row[:, None] * DIM + d[None, :], acc)


@triton.jit
def thumbed(a, b, c, table, size, pitch, N, DIM: tl.constexpr, BLOCK: tl.constexpr):
    """c = a @ b, whose rows are columns of pages of any size, which a table names."""
    row, d = tl.arange(0, 64), tl.arange(0, DIM)
    acc = tl.zeros([64, DIM], tl.float32)
    for i in range(0, N, BLOCK):
        place = i + tl.arange(0, BLOCK)
        page = tl.load(table + place // size, mask=place < N, other=0)
        at = page[:, None] * pitch + d[None, :] * size + (place % size)[:, None]
        x = tl.load(a + row[:, None] * N + place[None, :])
        y = tl.load(b + at, mask=(place < N)[:, None], other=0.0)
        acc = tl.dot(x, y, acc)
    tl.store(c + row[:, None] * DIM + d[None, :], acc)


@triton.jit
def astride(q, k, o, p, N, DIM: tl.constexpr, BLOCK: tl.constexpr):
    """o = q @ k.T @ k for the blocks of k up to this one, and p = k @ q.T @ q for those of q from this one on:
    between the loops, one block is multiplied for both, and o is stored."""
    block, row, d = tl.program_id(0), tl.arange(0, BLOCK), tl.arange(0, DIM)
    own = (block * BLOCK + row[:, None]) * DIM + d[None, :]
    x = tl.load(q + own)
    acc = tl.zeros([BLOCK, DIM], tl.float32)
    for i in range(0, block * BLOCK, BLOCK):
        y = tl.load(k + (i + row[:, None]) * DIM + d[None, :])
        acc = tl.dot(tl.dot(x, tl.trans(y)).to(tl.float16), y, acc)
    y = tl.load(k + own)
    scores = tl.dot(x, tl.trans(y))
    acc = tl.dot(scores.to(tl.float16), y, acc)
    tl.store(o + own, acc)
    acc = tl.dot(tl.trans(scores).to(tl.float16), x)
    for i in range((block + 1) * BLOCK, N, BLOCK):
        x = tl.load(q + (i + row[:, None]) * DIM + d[None, :])
        acc = tl.dot(tl.dot(y, tl.trans(x)).to(tl.float16), x, acc)
    tl.store(p + own, acc)


@triton.jit
def apportioned(
    x, w, o, counts, E, N, K, EXPERTS: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):  # fmt: skip
    """o = x @ w[e].T for the rows of each expert e, one expert's behind the other's: a block finds its expert, and
    which rows that has, from how many rows each of them has."""
    block, expert = tl.program_id(0), tl.arange(0, EXPERTS)
    count = tl.load(counts + expert, mask=expert < E, other=0)
    blocks = (count + BLOCK_M - 1) // BLOCK_M
    ends = tl.cumsum(blocks, 0)
    if block < tl.sum(blocks, 0):
        own = tl.sum((ends <= block).to(tl.int32), 0)
        begin = tl.sum(tl.where(expert < own, count, 0), 0)
        first = block - tl.sum(tl.where(expert < own, blocks, 0), 0)
        end = begin + tl.sum(tl.where(expert == own, count, 0), 0)
        row = begin + first * BLOCK_M + tl.arange(0, BLOCK_M)
        column, step = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N), tl.arange(0, BLOCK_K)
        acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
        for i in range(0, K, BLOCK_K):
            left = tl.load(x + row[:, None] * K + (i + step)[None, :], mask=row[:, None] < end, other=0.0)
            right = tl.load(w + (own * N + column[None, :]) * K + (i + step)[:, None])
            acc = tl.dot(left, right, acc)
        tl.store(o + row[:, None] * N + column[None, :], acc.to(tl.float16), mask=row[:, None] < end)


@triton.jit
def marching(a, b, c, steps, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    """c = the sum of a @ b over some steps, in each of which the pointers to a walk on by whole blocks: the last block
    of a row is no block of a tensor map."""
    row, col = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M), tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    walk = a + row[:, None] * K + k[None, :]
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for _ in range(steps):
        for i in range(0, K, BLOCK_K):
            x = tl.load(walk, mask=i + k[None, :] < K, other=0.0)
            y = tl.load(b + (i + k)[:, None] * N + col[None, :], mask=i + k[:, None] < K, other=0.0)
            walk += BLOCK_K
            acc = tl.dot(x, y, acc)
    tl.store(c + row[:, None] * N + col[None, :], acc)


@triton.jit
def allotted(a, b, c, bounds, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    """c = the sum of a @ b for the matrices b that memory names for a block of rows: its first one, and the one behind its
    last one."""
    block = tl.program_id(0)
    row, col = block * BLOCK_M + tl.arange(0, BLOCK_M), tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for one in range(tl.load(bounds + 2 * block), tl.load(bounds + 2 * block + 1)):
        for i in range(0, K, BLOCK_K):
            x = tl.load(a + row[:, None] * K + (i + k)[None, :])
            y = tl.load(b + (one * K + i + k)[:, None] * N + col[None, :])
            acc = tl.dot(x, y, acc)
    tl.store(c + row[:, None] * N + col[None, :], acc)


@triton.jit
def edged(a, b, c, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    """c = a @ b, where blocks that K cuts off are loaded in a branch of their own, with masks."""
    row, col = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M), tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for i in range(tl.cdiv(K, BLOCK_K)):
        at = i * BLOCK_K + k
        if (i + 1) * BLOCK_K <= K:
            acc += tl.dot(tl.load(a + row[:, None] * K + at[None, :]), tl.load(b + at[:, None] * N + col[None, :]))
        else:
            x = tl.load(a + row[:, None] * K + at[None, :], mask=at[None, :] < K, other=0.0)
            acc += tl.dot(x, tl.load(b + at[:, None] * N + col[None, :], mask=at[:, None] < K, other=0.0))
    tl.store(c + row[:, None] * N + col[None, :], acc)


@triton.jit
def pacing(
    a, b, weights, c, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """c = the sum of a @ b.T, where every second block moves on in b, from its second number on, with a weight for each
    block whose pointer goes two numbers forward and one back."""
    row, col = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M), tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    walk, weight = b + 1 + col[:, None] * K + k[None, :], weights + 1
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for i in range(0, K, BLOCK_K):
        x = tl.load(a + row[:, None] * K + (i + k)[None, :])
        acc += tl.dot(x, tl.load(walk).T) * tl.load(weight)
        if (i // BLOCK_K) % 2 == 1:
            walk += BLOCK_K
            weight += 2
        else:
            weight -= 1
    tl.store(c + row[:, None] * N + col[None, :], acc)


@triton.jit
def circling(
    a, b, c, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """c += a @ b.T, beginning with another block of columns in each program and going around."""
    row, col, k = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N), tl.arange(0, BLOCK_K)
    x, blocks = tl.load(a + row[:, None] * BLOCK_K + k[None, :]), tl.cdiv(N, BLOCK_N)
    at = tl.program_id(0) % blocks
    of_b = b + (at * BLOCK_N + col)[:, None] * BLOCK_K + k[None, :]
    of_c = c + row[:, None] * N + (at * BLOCK_N + col)[None, :]
    for _ in range(blocks):
        made = tl.dot(x, tl.load(of_b).T)
        tl.atomic_add(of_c, made, (row < M)[:, None] & (at * BLOCK_N + col < N)[None, :], sem="relaxed")
        at += 1
        if at >= blocks:
            at = 0
            of_b -= (blocks - 1) * BLOCK_N * BLOCK_K
            of_c -= (blocks - 1) * BLOCK_N
        else:
            of_b += BLOCK_N * BLOCK_K
            of_c += BLOCK_N


@triton.jit
def distilled(
    a, b, w, c, K, BLOCK_M: tl.constexpr, BLOCK: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """c = the sum of (a @ b) @ w over the blocks of K: w is the same for all of them."""
    row, n = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, BLOCK)
    z = tl.load(w + n[:, None] * BLOCK + n[None, :])
    acc = tl.zeros([BLOCK_M, BLOCK], tl.float32)
    for k in range(0, K, BLOCK_K):
        kk = k + tl.arange(0, BLOCK_K)
        x = tl.load(a + row[:, None] * K + kk[None, :])
        y = tl.load(b + kk[:, None] * BLOCK + n[None, :])
        acc = tl.dot(tl.dot(x, y).to(tl.float16), z, acc)
    tl.store(c + row[:, None] * BLOCK + n[None, :], acc)


@triton.jit
def wandering(a, b, c, N, steps, DIM: tl.constexpr, BLOCK: tl.constexpr):
    """c = the sum of a @ b over some rounds. Every third block goes on in the rows of b, and so from round to round."""
    row, d = tl.arange(0, 64), tl.arange(0, DIM)
    acc = tl.zeros([64, DIM], tl.float32)
    at = 0
    for _ in range(steps):
        for i in range(0, N, BLOCK):
            x = tl.load(a + row[:, None] * N + (i + tl.arange(0, BLOCK))[None, :])
            y = tl.load(b + (at + tl.arange(0, BLOCK))[:, None] * DIM + d[None, :])
            acc = tl.dot(x, y, acc)
            at = tl.where(i % (3 * BLOCK) == 0, at + BLOCK, at)
    tl.store(c + row[:, None] * DIM + d[None, :], acc)


@triton.jit
def tolled(a, b, c, N, DIM: tl.constexpr, BLOCK: tl.constexpr):
    """c = a @ b and two numbers that the loop counts, one of which follows from the other."""
    row, d = tl.arange(0, 64), tl.arange(0, DIM)
    acc = tl.zeros([64, DIM], tl.float32)
    count, tolls = 0, 0
    for i in range(0, N, BLOCK):
        x = tl.load(a + row[:, None] * N + (i + tl.arange(0, BLOCK))[None, :])
        y = tl.load(b + (i + tl.arange(0, BLOCK))[:, None] * DIM + d[None, :])
        acc = tl.dot(x, y, acc)
        count += 1 + i // BLOCK
        tolls = tl.where(count % 3 == 0, tolls + count, tolls)
    tl.store(c + row[:, None] * DIM + d[None, :], acc + count - 8 * tolls)


@triton.jit
def streams(
    x, weights, b, c, M, row, BLOCK_M: tl.constexpr, BLOCK_K: tl.constexpr, PARTS: tl.constexpr, N: tl.constexpr
):  # fmt: skip
    """c = [weights[:, 0] * x, weights[:, 1] * x, ...] @ b: of each row of x, as many as it has weights."""
    m, part, k = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, PARTS), tl.arange(0, BLOCK_K)
    w = tl.load(weights + m[:, None] * PARTS + part[None, :], mask=(m < M)[:, None], other=0.0)
    tile = tl.load(x + m[:, None] * row + k[None, :], mask=(m < M)[:, None], other=0.0)
    made = (w[:, :, None] * tile[:, None, :].to(tl.float32)).to(tl.float16)
    every, n = tl.arange(0, PARTS * BLOCK_K), tl.arange(0, N)
    y = tl.load(b + every[:, None] * N + n[None, :])
    product = tl.dot(tl.reshape(made, [BLOCK_M, PARTS * BLOCK_K]), y)
    tl.store(c + m[:, None] * N + n[None, :], product, mask=(m < M)[:, None])


@triton.jit
def leftover(
    a, b, c, done, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """c = a @ b.T, of the tiles behind those that are done already."""
    tile = tl.program_id(0) + done
    row = tile // tl.cdiv(N, BLOCK_N) * BLOCK_M + tl.arange(0, BLOCK_M)
    col, k = tile % tl.cdiv(N, BLOCK_N) * BLOCK_N + tl.arange(0, BLOCK_N), tl.arange(0, BLOCK_K)
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for i in range(0, K, BLOCK_K):
        x = tl.load(a + (row % M)[:, None] * K + (i + k)[None, :])
        acc = tl.dot(x, tl.load(b + (col % N)[:, None] * K + (i + k)[None, :]).T, acc)
    tl.store(c + row[:, None] * N + col[None, :], acc, (row < M)[:, None] & (col < N)[None, :])


@triton.jit
def revolving(a, b, c, first, stride, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    """c = a @ b.T, the rows of b at any stride and beginning again after the last one."""
    row, k = tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_K)
    col = (tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N).to(tl.int64)) % N
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for i in range(0, K, BLOCK_K):
        x = tl.load(a + row[:, None] * K + (i + k)[None, :])
        acc = tl.dot(x, tl.load(b + first + col[:, None] * stride + (i + k)[None, :]).T, acc)
    tl.store(c + row[:, None] * N + col[None, :], acc)


@triton.jit
def amended(
    a, b, c, scales, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """c = (a @ b.T) * scales; the numbers of the scales begin again after the last one."""
    a_desc = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BLOCK_M, BLOCK_K])
    b_desc = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BLOCK_N, BLOCK_K])
    row, col = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N
    scale = tl.load(scales + ((col + tl.arange(0, BLOCK_N).to(tl.int64)) % N)[None, :])
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for k in range(0, K, BLOCK_K):
        acc = tl.dot(a_desc.load([row, k]), b_desc.load([col, k]).T, acc)
    m, n = row + tl.arange(0, BLOCK_M), col + tl.arange(0, BLOCK_N)
    inside = (m < M)[:, None] & (n < N)[None, :]
    tl.store(c + m[:, None] * N + n[None, :], (acc * scale).to(c.dtype.element_ty), inside)


@triton.jit
def amending(
    a, b, old, c, M, N, K, slope, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """c = a @ b.T + old * slope, one tile after the other, each with as many accumulators as a thread can hold."""
    a_desc = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BLOCK_M, BLOCK_K])
    b_desc = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BLOCK_N, BLOCK_K])
    columns = tl.cdiv(N, BLOCK_N)
    for tile in range(tl.program_id(0), tl.cdiv(M, BLOCK_M) * columns, tl.num_programs(0)):
        row, col = tile // columns * BLOCK_M, tile % columns * BLOCK_N
        acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
        for k in range(0, K, BLOCK_K):
            acc = tl.dot(a_desc.load([row, k]), b_desc.load([col, k]).T, acc)
        m, n = row + tl.arange(0, BLOCK_M), col + tl.arange(0, BLOCK_N)
        at, inside = m[:, None] * N + n[None, :], (m < M)[:, None] & (n < N)[None, :]
        acc += tl.load(old + at, inside, other=0.0).to(tl.float32) * slope
        tl.store(c + at, acc.to(c.dtype.element_ty), inside)


@triton.jit
def bytewise(a, b, other, c, which, N: tl.constexpr, K, BLOCK: tl.constexpr):
    """c = a @ b.T for b or the other, of fp8 that are loaded as bytes."""
    row, column, step = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, N), tl.arange(0, BLOCK)
    if which == 0:
        b = other
    left, right = a.to(tl.pointer_type(tl.uint8)), b.to(tl.pointer_type(tl.uint8))
    acc = tl.zeros([BLOCK, N], tl.float32)
    for i in range(0, K, BLOCK):
        x = tl.load(left + row[:, None] * K + i + step[None, :]).to(tl.float8e4nv, bitcast=True)
        y = tl.load(right + column[None, :] * K + i + step[:, None]).to(tl.float8e4nv, bitcast=True)
        acc = tl.dot(x, y, acc)
    tl.store(c + row[:, None] * N + column[None, :], acc)


@triton.jit
def halves(
    a, b, c, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """c = a @ b.T, stored as two halves of each tile's columns."""
    a_desc = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BLOCK_M, BLOCK_K])
    b_desc = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BLOCK_N, BLOCK_K])
    c_desc = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BLOCK_M, BLOCK_N // 2])
    row, col = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for k in range(0, K, BLOCK_K):
        acc = tl.dot(a_desc.load([row, k]), b_desc.load([col, k]).T, acc)
    left, right = tl.split(tl.permute(tl.reshape(acc, (BLOCK_M, 2, BLOCK_N // 2)), (0, 2, 1)))
    c_desc.store([row, col], left.to(tl.float16))
    c_desc.store([row, col + BLOCK_N // 2], right.to(tl.float16))


@triton.jit
def modulated(
    a, b, c, weights, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """c = (a @ b.T) * sqrt(abs(weights)), half of each tile's columns at a time; weights come by TMA."""
    a_desc = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BLOCK_M, BLOCK_K])
    b_desc = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BLOCK_N, BLOCK_K])
    c_desc = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BLOCK_M, BLOCK_N // 2])
    w_desc = tl.make_tensor_descriptor(weights, [M, N], [N, 1], [BLOCK_M, BLOCK_N // 2])
    row, col = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for k in range(0, K, BLOCK_K):
        acc = tl.dot(a_desc.load([row, k]), b_desc.load([col, k]).T, acc)
    left, right = tl.split(tl.permute(tl.reshape(acc, (BLOCK_M, 2, BLOCK_N // 2)), (0, 2, 1)))
    scale = tl.sqrt(tl.abs(w_desc.load([row, col]).to(tl.float32)))
    c_desc.store([row, col], (left * scale).to(tl.float16))
    scale = tl.sqrt(tl.abs(w_desc.load([row, col + BLOCK_N // 2]).to(tl.float32)))
    c_desc.store([row, col + BLOCK_N // 2], (right * scale).to(tl.float16))


@triton.jit
def peeked(
    a, b, c, pages, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """c = a @ b[pages]: which page comes next is loaded an iteration ahead, where there is one."""
    row, col, ks = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N, tl.arange(0, BLOCK_K)
    m, n = row + tl.arange(0, BLOCK_M), col + tl.arange(0, BLOCK_N)
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    page = tl.load(pages)
    for k in range(0, K, BLOCK_K):
        now = page
        if k + BLOCK_K < K:
            page = tl.load(pages + (k + BLOCK_K) // BLOCK_K)
        x = tl.load(a + m[:, None] * K + (k + ks)[None, :])
        y = tl.load(b + (now * BLOCK_K + ks)[:, None] * N + n[None, :])
        acc = tl.dot(x, y, acc)
    tl.store(c + m[:, None] * N + n[None, :], acc.to(tl.float16))


@triton.jit
def peeked_rows(
    a, b, c, rows, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """c = a @ b[rows]: the same with the number of each row."""
    row, col, ks = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N, tl.arange(0, BLOCK_K)
    m, n = row + tl.arange(0, BLOCK_M), col + tl.arange(0, BLOCK_N)
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    number = tl.load(rows + ks)
    for k in range(0, K, BLOCK_K):
        now = number
        if k + BLOCK_K < K:
            number = tl.load(rows + k + BLOCK_K + ks)
        x = tl.load(a + m[:, None] * K + (k + ks)[None, :])
        y = tl.load(b + now[:, None] * N + n[None, :])
        acc = tl.dot(x, y, acc)
    tl.store(c + m[:, None] * N + n[None, :], acc.to(tl.float16))


@triton.jit
def peeked_columns(q, k, o, rows, size, COUNT, DIM: tl.constexpr, BLOCK: tl.constexpr):
    """The sum over blocks of q @ k[rows].T, where the number of each row is loaded one iteration ahead and may be
    negative."""
    row, d, place = tl.arange(0, 16), tl.arange(0, DIM), tl.arange(0, BLOCK)
    x = tl.load(q + row[:, None] * DIM + d[None, :])
    acc = tl.zeros([16, BLOCK], tl.float32)
    number = tl.load(rows + place).to(tl.int64)
    for i in range(0, COUNT, BLOCK):
        now = number
        if i + BLOCK < COUNT:
            number = tl.load(rows + i + BLOCK + place).to(tl.int64)
        now = (now + size) % size
        y = tl.load(k + now[None, :] * DIM + d[:, None])
        acc = tl.dot(x, y, acc)
    tl.store(o + row[:, None] * BLOCK + place[None, :], acc)


@triton.jit
def rehearsed(q, k, o, N, DIM: tl.constexpr, BLOCK: tl.constexpr):
    """o = (q @ k.T / 16) @ k for 16 rows of q, of which every warp would keep all columns in registers."""
    row, d, place = tl.arange(0, 16), tl.arange(0, DIM), tl.arange(0, BLOCK)
    x = tl.load(q + row[:, None] * DIM + d[None, :])
    acc = tl.zeros([16, DIM], tl.float32)
    for i in range(0, N, BLOCK):
        y = tl.load(k + (i + place)[:, None] * DIM + d[None, :])
        scores = tl.dot(x, y.T) * 0.0625
        acc = tl.dot(scores.to(tl.float16), y, acc)
    tl.store(o + row[:, None] * DIM + d[None, :], acc.to(tl.float16))


@triton.jit
def confined(
    a, b, c, M, N, K, stride, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """c = a @ b.T in small tiles, whose last rows and columns are those of the matrix, in 64 bits."""
    row, col, ks = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N, tl.arange(0, BLOCK_K)
    m, n = row + tl.arange(0, BLOCK_M), col + tl.arange(0, BLOCK_N)
    last = tl.minimum(n, N - 1)
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for k in range(0, K, BLOCK_K):
        x = tl.load(a + m[:, None] * K + (k + ks)[None, :])
        y = tl.load(b + (k + ks)[:, None] + last[None, :] * K)
        acc = tl.dot(x, y, acc)
    to = c + tl.minimum(m[:, None].to(tl.int64), M - 1) * stride + last[None, :].to(tl.int64)
    tl.store(to, acc.to(tl.float16), (m < M)[:, None] & (n < N)[None, :])


@triton.jit
def leafed(
    a, b, c, pages, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """c = a @ b[pages]: which rows of b come next is loaded between the operands that share a slot."""
    row, col, ks = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N, tl.arange(0, BLOCK_K)
    m, n = row + tl.arange(0, BLOCK_M), col + tl.arange(0, BLOCK_N)
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.int32)
    for k in range(0, K, BLOCK_K):
        x = tl.load(a + m[:, None] * K + (k + ks)[None, :], (k + ks < K)[None, :], other=0)
        page = tl.load(pages + k // BLOCK_K)
        y = tl.load(b + (page * BLOCK_K + ks)[:, None] * N + n[None, :], (n < N)[None, :], other=0)
        acc = tl.dot(x, y, acc, out_dtype=tl.int32)
    tl.store(c + m[:, None] * N + n[None, :], acc, (m < M)[:, None] & (n < N)[None, :])


@triton.jit
def every_other(
    a, b, c, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """c = a[:, ::2] @ b.T: half of what is loaded is an operand."""
    b_desc = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BLOCK_N, BLOCK_K])
    row, col = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N
    m, n, j = row + tl.arange(0, BLOCK_M), col + tl.arange(0, BLOCK_N), tl.arange(0, 2 * BLOCK_K)
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for k in range(0, K, BLOCK_K):
        pairs = tl.load(a + m[:, None] * 2 * K + (2 * k + j)[None, :], ((2 * k + j) < 2 * K)[None, :], other=0.0)
        x, _ = tl.split(pairs.reshape(BLOCK_M, BLOCK_K, 2))
        acc = tl.dot(x, b_desc.load([col, k]).T, acc)
    tl.store(c + m[:, None] * N + n[None, :], acc)


@triton.jit
def spanned(a, b, c, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    """c = a @ b.T, of as many rows as there are programs for."""
    a_desc = tl.make_tensor_descriptor(a, [BLOCK_M * tl.num_programs(0), K], [K, 1], [BLOCK_M, BLOCK_K])
    b_desc = tl.make_tensor_descriptor(b, [BLOCK_N, K], [K, 1], [BLOCK_N, BLOCK_K])
    row = tl.program_id(0) * BLOCK_M
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for k in range(0, K, BLOCK_K):
        acc = tl.dot(a_desc.load([row, k]), b_desc.load([0, k]).T, acc)
    m, n = row + tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N)
    tl.store(c + m[:, None] * BLOCK_N + n[None, :], acc)


@triton.jit
def sought(a, b, weights, rows, c, N, DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """c = (weighted a @ b[rows].T, below the diagonal) @ b[rows]: numbers of rows say what is loaded, a tile and
    a vector of fewer elements than threads, and what counts."""
    m, n, d = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N), tl.arange(0, DIM)
    x = tl.load(a + m[:, None] * DIM + d[None, :])
    acc = tl.zeros([BLOCK_M, DIM], tl.float32)
    for i in range(tl.cdiv(N, BLOCK_N)):
        here = i * BLOCK_N + n
        row = tl.load(rows + here, here < N, other=0).to(tl.int64)
        y = tl.load(b + row[:, None] * DIM + d[None, :], (here < N)[:, None], other=0.0)
        y = (y * 0.5).to(y.dtype)
        w = tl.load(weights + row * 4, here < N, other=0.0)
        p = tl.dot(x, y.T) - w[None, :]
        p = tl.where((row[None, :] >= m[:, None]) & (here < N)[None, :], p, 0.0)
        acc += tl.dot(p.to(y.dtype), y)
    tl.store(c + m[:, None] * DIM + d[None, :], acc)


@triton.jit
def scant(
    a, b, c, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """c = a @ b.T, where a thread holds all of its elements along K side by side, since bytes became floats."""
    m, n = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M), tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for k in range(0, K, BLOCK_K):
        ks = k + tl.arange(0, BLOCK_K)
        x = tl.load(a + m[:, None] * K + ks[None, :], (ks < K)[None, :], other=0).to(tl.float32)
        y = tl.load(b + n[None, :] * K + ks[:, None], (ks < K)[:, None] & (n < N)[None, :], other=0.0)
        acc = tl.dot(x, y, acc)
    tl.store(c + m[:, None] * N + n[None, :], acc, (m < M)[:, None] & (n < N)[None, :])


@triton.jit
def odd_columns(
    a, b, c, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """c = a[:, 1::2] @ b.T: half of what is loaded changes threads on its way into tensor memory, and nothing else
    does."""
    b_desc = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BLOCK_N, BLOCK_K])
    c_desc = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BLOCK_M, BLOCK_N])
    row, col = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N
    m, j = row + tl.arange(0, BLOCK_M), tl.arange(0, 2 * BLOCK_K)
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for k in range(0, K, BLOCK_K):
        pairs = tl.load(a + m[:, None] * 2 * K + (2 * k + j)[None, :], ((2 * k + j) < 2 * K)[None, :], other=0.0)
        _, x = tl.split(pairs.reshape(BLOCK_M, BLOCK_K, 2))
        acc = tl.dot(x, b_desc.load([col, k]).T, acc)
    c_desc.store([row, col], acc)


@triton.jit
def distant(
    a, b, c, first, stride, M, N, K, BATCH: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """c[z] = a[z, :, first:] @ b.T, where batches of a are a fixed number of elements apart: in 64 bits."""
    row, col, z = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N, tl.program_id(2)
    m, n, ks = row + tl.arange(0, BLOCK_M), col + tl.arange(0, BLOCK_N), tl.arange(0, BLOCK_K)
    left = a + first + z.to(tl.int64) * BATCH
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for k in range(0, K, BLOCK_K):
        x = tl.load(left + m[:, None] * stride + (k + ks)[None, :])
        y = tl.load(b + n[:, None] * K + (k + ks)[None, :])
        acc = tl.dot(x, y.T, acc)
    tl.store(c + (z * M + m)[:, None] * N + n[None, :], acc)


@triton.jit
def bordered(
    a, b, c, lengths, M, apart, stride, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_D: tl.constexpr
):  # fmt: skip
    """c[h] = a @ b[:, h // 2], as many rows as a number in memory, with heads of D columns in wider tiles."""
    m, k, d = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_K), tl.arange(0, BLOCK_D)
    head, length = tl.program_id(1), tl.load(lengths)
    acc = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)
    for start in range(0, length, BLOCK_K):
        x = tl.load(a + m[:, None] * stride + (start + k)[None, :])
        at = b + (start + k)[:, None] * stride + head // 2 * apart + d[None, :]
        y = tl.load(at, (d[None, :] < D) & ((start + k)[:, None] < length), other=0.0)
        acc = tl.dot(x, y, acc)
    tl.store(c + (head * M + m)[:, None] * BLOCK_D + d[None, :], acc)


@triton.jit
def flattened(
    a, b, c, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """c = a @ b.T, several tiles by each program, in one loop that counts K again for each of them."""
    a_desc = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BLOCK_M, BLOCK_K])
    b_desc = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BLOCK_N, BLOCK_K])
    c_desc = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BLOCK_M, BLOCK_N])
    steps, across = tl.cdiv(K, BLOCK_K), tl.cdiv(N, BLOCK_N)
    tiles = tl.cdiv(tl.cdiv(M, BLOCK_M) * across - tl.program_id(0), tl.num_programs(0))
    tile, k, row, col = tl.program_id(0) - tl.num_programs(0), -1, 0, 0
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for _ in range(tiles * steps):
        k = tl.where(k == steps - 1, 0, k + 1)
        if k == 0:
            tile += tl.num_programs(0)
            row, col = tile // across * BLOCK_M, tile % across * BLOCK_N
        acc = tl.dot(a_desc.load([row, k * BLOCK_K]), b_desc.load([col, k * BLOCK_K]).T, acc)
        if k == steps - 1:
            c_desc.store([row, col], acc.to(tl.float16))
            acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)


@triton.jit
def nested(
    a, b, c, M, N, K, taps, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """c = the sum over taps t of a @ b[t].T, tile by tile of K within each tap; odd programs take the taps one by one, with a loop
    that ends by a condition."""
    a_desc = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BLOCK_M, BLOCK_K])
    b_desc = tl.make_tensor_descriptor(b, [taps * N, K], [K, 1], [BLOCK_N, BLOCK_K])
    c_desc = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BLOCK_M, BLOCK_N])
    row, col = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    if tl.program_id(0) % 2 == 0:
        for t in range(taps):
            for k in range(0, K, BLOCK_K):
                acc = tl.dot(a_desc.load([row, k]), b_desc.load([t * N + col, k]).T, acc)
    else:
        left = taps * K // BLOCK_K - 1
        while left >= 0:
            t, k = left * BLOCK_K // K, left * BLOCK_K % K
            acc = tl.dot(a_desc.load([row, k]), b_desc.load([t * N + col, k]).T, acc)
            left -= 1
    c_desc.store([row, col], acc.to(tl.float16))


@triton.jit
def handed_on(
    a, b, v, c, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """c = (a @ b.T) @ v, block by block of b: an MMA behind the inner loop adds to what the outer loop carries."""
    a_desc = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BLOCK_M, BLOCK_K])
    b_desc = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BLOCK_N, BLOCK_K])
    v_desc = tl.make_tensor_descriptor(v, [N, BLOCK_N], [BLOCK_N, 1], [BLOCK_N, BLOCK_N])
    c_desc = tl.make_tensor_descriptor(c, [M, BLOCK_N], [BLOCK_N, 1], [BLOCK_M, BLOCK_N])
    row = tl.program_id(0) * BLOCK_M
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for n in range(0, N, BLOCK_N):
        s = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
        for k in range(0, K, BLOCK_K):
            s = tl.dot(a_desc.load([row, k]), b_desc.load([n, k]).T, s)
        acc = tl.dot(s.to(tl.float16), v_desc.load([n, 0]), acc)
    c_desc.store([row, 0], acc.to(tl.float16))


@triton.jit
def resumed(
    q, k, v, o, K, DIM: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """o = q @ v.T + q @ (sums of k's blocks).T + a number that an outer loop carries, block by block; an MMA before the inner
    loop reads the same tile as those in it."""
    q_desc = tl.make_tensor_descriptor(q, [K, DIM], [DIM, 1], [BLOCK_K, DIM])
    k_desc = tl.make_tensor_descriptor(k, [K, DIM], [DIM, 1], [BLOCK_K, DIM])
    v_desc = tl.make_tensor_descriptor(v, [K, DIM], [DIM, 1], [BLOCK_K, DIM])
    o_desc = tl.make_tensor_descriptor(o, [K, DIM], [DIM, 1], [BLOCK_K, DIM])
    total = 0.0
    for t in range(tl.program_id(0), tl.cdiv(K, BLOCK_K), tl.num_programs(0)):
        x = q_desc.load([t * BLOCK_K, 0])
        acc = tl.dot(x, v_desc.load([t * BLOCK_K, 0]).T)
        for i in range(0, K, BLOCK_K):
            acc = tl.dot(x, k_desc.load([i, 0]).T, acc)
        total += t * 0.5
        o_desc.store([t * BLOCK_K, 0], (acc + total).to(tl.float16))


@triton.jit
def alternating(
    a, b, r, c, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """c = r + a @ b.T + half the number of tiles before it, where a is lower triangular by blocks: a loop over tiles with trip
    counts of their own, a tile loaded once for each, and a scalar that is carried from tile to tile."""
    a_desc = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BLOCK_M, BLOCK_K])
    b_desc = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BLOCK_N, BLOCK_K])
    r_desc = tl.make_tensor_descriptor(r, [M, N], [N, 1], [BLOCK_M, BLOCK_N])
    c_desc = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BLOCK_M, BLOCK_N])
    rows = tl.cdiv(M, BLOCK_M)
    before = 0.0
    for tile in range(tl.program_id(0), rows * tl.cdiv(N, BLOCK_N), tl.num_programs(0)):
        row, column = tile % rows * BLOCK_M, tile // rows * BLOCK_N
        acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
        for k in range(0, min(K, row + BLOCK_M), BLOCK_K):
            acc = tl.dot(a_desc.load([row, k]), b_desc.load([column, k]).T, acc)
        acc += r_desc.load([row, column]).to(tl.float32) + before
        before += 0.5
        c_desc.store([row, column], acc.to(tl.float16))


@triton.jit
def neighbours(
    a, b, r, c, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """c = r + a @ b.T: a loop over tiles, with a tile loaded once for each; programs that are neighbours take neighbouring rows of
    the same columns, where there is an even number of them."""
    a_desc = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BLOCK_M, BLOCK_K])
    b_desc = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BLOCK_N, BLOCK_K])
    r_desc = tl.make_tensor_descriptor(r, [M, N], [N, 1], [BLOCK_M, BLOCK_N])
    c_desc = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BLOCK_M, BLOCK_N])
    rows = tl.cdiv(M, BLOCK_M)
    for tile in range(tl.program_id(0), rows * tl.cdiv(N, BLOCK_N), tl.num_programs(0)):
        row, column = tile % rows * BLOCK_M, tile // rows * BLOCK_N
        acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
        for k in range(0, K, BLOCK_K):
            acc = tl.dot(a_desc.load([row, k]), b_desc.load([column, k]).T, acc)
        acc += r_desc.load([row, column]).to(tl.float32)
        c_desc.store([row, column], acc.to(tl.float16))


@triton.jit
def drained(
    q, k, v, o, K, DIM: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """o = the sum of k's blocks by q, less the maxima of the sums so far: a while loop around a loop of at most two blocks, whose
    accumulator is read between them; v is not read."""
    rows, columns = tl.arange(0, BLOCK_K), tl.arange(0, DIM)
    k_desc = tl.make_tensor_descriptor(k, [K, DIM], [DIM, 1], [BLOCK_K, DIM])
    x = tl.load(q + rows[:, None] * DIM + columns[None, :])
    at, left = 0, K // BLOCK_K
    acc = tl.zeros([BLOCK_K, DIM], tl.float32)
    best = tl.full([BLOCK_K], -1e30, tl.float32)
    while left > 0:
        count = tl.minimum(left, 2)
        for i in range(count):
            acc = tl.dot(x, k_desc.load([at + i * BLOCK_K, 0]).T, acc)
        best = tl.maximum(best, tl.max(acc, 1))
        at += count * BLOCK_K
        left -= count
    tl.store(o + rows[:, None] * DIM + columns[None, :], (acc - best[:, None]).to(tl.float16))


@triton.jit
def doubled(
    a, b, c, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """c = the sum of a @ b.T over blocks of K, in integers: from the last block to the first, each added to twice the sum so far; a
    loop that ends by a condition."""
    a_desc = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BLOCK_M, BLOCK_K])
    b_desc = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BLOCK_N, BLOCK_K])
    c_desc = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BLOCK_M, BLOCK_N])
    row, col = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.int32)
    left = tl.cdiv(K, BLOCK_K)
    while left > 0:
        left -= 1
        acc = acc * 2 + tl.dot(a_desc.load([row, left * BLOCK_K]), b_desc.load([col, left * BLOCK_K]).T, out_dtype=tl.int32)
    c_desc.store([row, col], acc)


@triton.jit
def overwritten(
    a, b, c, d, o, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """d = a @ b.T of the last block of K, and in its place a @ c.T where that is positive; o = the sums of a @ b.T along columns, and
    in their place the highest numbers of a @ c.T: each is stored over what was stored before."""
    a_desc = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BLOCK_M, BLOCK_K])
    b_desc = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BLOCK_N, BLOCK_K])
    c_desc = tl.make_tensor_descriptor(c, [N, K], [K, 1], [BLOCK_N, BLOCK_K])
    row, col = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N
    m, n = row + tl.arange(0, BLOCK_M), col + tl.arange(0, BLOCK_N)
    place = d + m[:, None] * N + n[None, :]
    total, highest = tl.zeros([BLOCK_N], tl.float32), tl.full([BLOCK_M], -1000.0, tl.float32)
    for k in range(0, K, BLOCK_K):
        x = a_desc.load([row, k])
        s = tl.dot(x, b_desc.load([col, k]).T)
        tl.store(place, s)
        total += tl.sum(s, 0)
        t = tl.dot(x, c_desc.load([col, k]).T)
        tl.store(place, t, t > 0)
        highest = tl.maximum(highest, tl.max(t, 1))
    tl.store(o + n, total)
    tl.store(o + m, highest)


@triton.jit
def continued(
    a, b, c, M, N, K, split, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, FACTOR: tl.constexpr
):  # fmt: skip
    """c = a[:, :split] @ b[:, :split].T * FACTOR + a[:, split:] @ b[:, split:].T: two loops with one accumulator."""
    a_desc = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BLOCK_M, BLOCK_K])
    b_desc = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BLOCK_N, BLOCK_K])
    c_desc = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BLOCK_M, BLOCK_N])
    row, col = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for k in range(0, split, BLOCK_K):
        acc = tl.dot(a_desc.load([row, k]), b_desc.load([col, k]).T, acc)
    if FACTOR != 1.0:
        acc *= FACTOR
    for k in range(split, K, BLOCK_K):
        acc = tl.dot(a_desc.load([row, k]), b_desc.load([col, k]).T, acc)
    c_desc.store([row, col], acc.to(c.dtype.element_ty))


@triton.jit
def matmul_outer(
    a, b, c, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """c = a.T @ b: neither operand is contiguous along K."""
    a_desc = tl.make_tensor_descriptor(a, [K, M], [M, 1], [BLOCK_K, BLOCK_M])
    b_desc = tl.make_tensor_descriptor(b, [K, N], [N, 1], [BLOCK_K, BLOCK_N])
    c_desc = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BLOCK_M, BLOCK_N])
    row, col = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for k in range(0, K, BLOCK_K):
        acc = tl.dot(a_desc.load([k, row]).T, b_desc.load([k, col]), acc)
    c_desc.store([row, col], acc)


@triton.jit
def matmul_scaled_outer(
    a, b, c, a_scales, M, N, K, pitch, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """c = (a * a_scales).T @ (b * right) of e4m3, as `matmul_scaled_loaded`: neither operand is contiguous along K."""
    a_desc = tl.make_tensor_descriptor(a, [K, M], [M, 1], [BLOCK_K, BLOCK_M])
    b_desc = tl.make_tensor_descriptor(b, [K, N], [N, 1], [BLOCK_K, BLOCK_N])
    c_desc = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BLOCK_M, BLOCK_N])
    row, col = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N
    m, n, k = row + tl.arange(0, BLOCK_M), col + tl.arange(0, BLOCK_N), tl.arange(0, BLOCK_K // 32)
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for i in range(tl.cdiv(K, BLOCK_K)):
        at = (i * (BLOCK_K // 32) + k)[None, :]
        left = tl.load(a_scales + m[:, None] * pitch + at, mask=m[:, None] < M)
        right = (127 + (n[:, None] + at) % 2).to(tl.uint8)
        x, y = a_desc.load([i * BLOCK_K, row]), b_desc.load([i * BLOCK_K, col])
        acc = tl.dot_scaled(x.T, left, "e4m3", y, right, "e4m3", acc)
    c_desc.store([row, col], acc)


@triton.jit
def matmul_scaled_turned(
    a, b, c, a_scales, M, N, K, pitch, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """c = (a * a_scales) @ (b * right) of e4m3 and e2m1, as `matmul_scaled_loaded`: two rows of b in a byte, which TMA loads."""
    a_desc = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BLOCK_M, BLOCK_K])
    b_desc = tl.make_tensor_descriptor(b, [K // 2, N], [N, 1], [BLOCK_K // 2, BLOCK_N])
    c_desc = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BLOCK_M, BLOCK_N])
    row, col = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N
    m, n, k = row + tl.arange(0, BLOCK_M), col + tl.arange(0, BLOCK_N), tl.arange(0, BLOCK_K // 32)
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for i in range(tl.cdiv(K, BLOCK_K)):
        at = (i * (BLOCK_K // 32) + k)[None, :]
        left = tl.load(a_scales + m[:, None] * pitch + at, mask=m[:, None] < M)
        right = (127 + (n[:, None] + at) % 2).to(tl.uint8)
        x, y = a_desc.load([row, i * BLOCK_K]), b_desc.load([i * (BLOCK_K // 2), col])
        acc = tl.dot_scaled(x, left, "e4m3", y, right, "e2m1", acc)
    c_desc.store([row, col], acc)


@triton.jit
def matmul_scaled_copied(
    a, b, c, a_scales, M, N, K, pitch, LEFT: tl.constexpr, RIGHT: tl.constexpr, LEFT_PACK: tl.constexpr,
    RIGHT_PACK: tl.constexpr, ACROSS: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """As `matmul_scaled_loaded`, of operands that pointers load, for whole tiles of K; with ACROSS b is contiguous along N."""
    c_desc = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BLOCK_M, BLOCK_N])
    row, col = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N
    m, n, k = row + tl.arange(0, BLOCK_M), col + tl.arange(0, BLOCK_N), tl.arange(0, BLOCK_K // 32)
    p, q = tl.arange(0, BLOCK_K // LEFT_PACK), tl.arange(0, BLOCK_K // RIGHT_PACK)
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for i in range(0, K, BLOCK_K):
        x = tl.load(a + m[:, None] * (K // LEFT_PACK) + (i // LEFT_PACK + p)[None, :], mask=m[:, None] < M)
        if ACROSS:
            y = tl.load(b + (i // RIGHT_PACK + q)[:, None] * N + n[None, :], mask=n[None, :] < N)
        else:
            y = tl.load(b + n[:, None] * (K // RIGHT_PACK) + (i // RIGHT_PACK + q)[None, :], mask=n[:, None] < N).T
        at = (i // 32 + k)[None, :]
        left = tl.load(a_scales + m[:, None] * pitch + at, mask=m[:, None] < M)
        right = (127 + (n[:, None] + at) % 2).to(tl.uint8)
        acc = tl.dot_scaled(x, left, LEFT, y, right, RIGHT, acc)
    c_desc.store([row, col], acc)


@triton.jit
def queries_scaled(q, k, v, v_scales, c, N, pitch, BLOCK: tl.constexpr):
    """c = relu(q @ k.T) @ (v * v_scales) of e4m3: what one dot gives, rounded, is A of a block-scaled one."""
    i, s = tl.arange(0, BLOCK), tl.arange(0, BLOCK // 32)
    x = tl.load(q + (tl.program_id(0) * BLOCK + i)[:, None] * BLOCK + i[None, :])
    ones = tl.full([BLOCK, BLOCK // 32], 127, tl.uint8)
    acc = tl.zeros([BLOCK, BLOCK], tl.float32)
    for j in range(0, N, BLOCK):
        y = tl.load(k + (j + i)[:, None] * BLOCK + i[None, :])
        z = tl.load(v + (j + i)[:, None] * BLOCK + i[None, :])
        w = tl.load(v_scales + i[:, None] * pitch + (j // 32 + s)[None, :])
        p = tl.maximum(tl.dot(x, y.T) * 0.0625, 0.0).to(tl.float8e4nv)
        acc = tl.dot_scaled(p, ones, "e4m3", z, w, "e4m3", acc)
    tl.store(c + (tl.program_id(0) * BLOCK + i)[:, None] * BLOCK + i[None, :], acc)


SIZES = {"M": "i32:16", "N": "i32:16", "K": "i32:16"}
STRIDES = {"a_stride": "i32:16", "b_stride": "i32:16"}
HALF = dict.fromkeys("abc", "*fp16:16")
TILE = {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "num_warps": 8}
STATE = {**dict.fromkeys("qkvo", "*fp16:16"), "K": "i32:16", "DIM": 64, "BLOCK_K": 64, "num_warps": 4}

@triton.jit
def veiled(
    a, b, v, c, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """The sum of (a @ b) * v for all blocks along K, with a tile v in 16 bits that no iteration changes."""
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    k, at = tl.arange(0, BLOCK_K), m[:, None] * N + n[None, :]
    veil, total = tl.load(v + at).to(tl.float32), tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for i in range(0, K, BLOCK_K):
        x = tl.load(a + m[:, None] * K + (i + k)[None, :])
        y = tl.load(b + (i + k)[:, None] * N + n[None, :])
        total += tl.dot(x, y) * veil
    tl.store(c + at, total)


@triton.jit
def graded(
    a, b, c, factors, totals, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """A matrix product with a factor for each column and block of K, and the sums of its columns: single rows through descriptors
    of two dimensions and of one, whose tiles have no swizzle."""
    a_desc = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BLOCK_M, BLOCK_K])
    b_desc = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BLOCK_N, BLOCK_K])
    c_desc = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BLOCK_M, BLOCK_N])
    factors_desc = tl.make_tensor_descriptor(factors, [tl.cdiv(K, BLOCK_K), N], [N, 1], [1, BLOCK_N])
    totals_desc = tl.make_tensor_descriptor(totals, [tl.cdiv(M, BLOCK_M) * N], [1], [BLOCK_N])
    row, col = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for k in range(0, K, BLOCK_K):
        part = tl.dot(a_desc.load([row, k]), b_desc.load([col, k]).T)
        acc += part * factors_desc.load([k // BLOCK_K, col])
    c_desc.store([row, col], acc.to(c.dtype.element_ty))
    totals_desc.store([tl.program_id(0) * N + col], tl.sum(acc, 0))


TWILL = {
    "matmul": {**HALF, **SIZES, **TILE},
    "with_bias": {**HALF, "bias": "*fp32:16", **SIZES, **TILE},
    "veiled": {**HALF, "v": "*bf16:16", "c": "*fp32:16", **SIZES, **TILE},
    "graded": {**HALF, **dict.fromkeys(("factors", "totals"), "*fp32:16"), **SIZES, **TILE},
    "matmul_into": {**HALF, **SIZES, **TILE, "BLOCK_N": 64, "num_warps": 4, "ACC": tl.float16},
    "matmul_outer": {**dict.fromkeys("ab", "*fp8e4nv:16"), "c": "*fp32:16", **SIZES, **TILE, "BLOCK_K": 128},
    "matmul_scaled_turned": {
        "a": "*fp8e4nv:16",
        "b": "*u8:16",
        "c": "*fp32:16",
        "a_scales": "*u8:16",
        **SIZES,
        "pitch": "i32:16",
        **TILE,
        "BLOCK_K": 128,
        "num_warps": 4,
    },
    "matmul_scaled_outer": {
        **dict.fromkeys("ab", "*fp8e4nv:16"),
        "c": "*fp32:16",
        "a_scales": "*u8:16",
        **SIZES,
        "pitch": "i32:16",
        **TILE,
        "BLOCK_K": 128,
    },
    "matmul_scaled": {
        **dict.fromkeys("ab", "*fp8e4nv:16"),
        "c": "*fp32:16",
        "a_scales": "*u8:16",
        "b_scales": "*u8:16",
        **SIZES,
        **TILE,
        "LEFT": "e4m3",
        "RIGHT": "e4m3",
        "VECTOR": 32,
        "LEFT_PACK": 1,
        "RIGHT_PACK": 1,
        "BLOCK_K": 128,
    },
    "matmul_scaled_loaded": {
        **dict.fromkeys("ab", "*fp8e4nv:16"),
        "c": "*fp32:16",
        "a_scales": "*u8:16",
        **SIZES,
        "pitch": "i32:16",
        **TILE,
        "LEFT": "e4m3",
        "RIGHT": "e4m3",
        "VECTOR": 32,
        "LEFT_PACK": 1,
        "RIGHT_PACK": 1,
        "BLOCK_K": 128,
    },
    "matmul_scaled_copied": {
        **dict.fromkeys("ab", "*u8:16"),
        "c": "*fp32:16",
        "a_scales": "*u8:16",
        **SIZES,
        "pitch": "i32:16",
        **TILE,
        "LEFT": "e4m3",
        "RIGHT": "e4m3",
        "LEFT_PACK": 1,
        "RIGHT_PACK": 1,
        "ACROSS": False,
        "BLOCK_K": 128,
    },
    "queries_scaled": {
        **dict.fromkeys("qkv", "*fp8e4nv:16"),
        "v_scales": "*u8:16",
        "c": "*fp32:16",
        "N": "i32:16",
        "pitch": "i32:16",
        "BLOCK": 128,
        "num_warps": 4,
    },
    "batched": {**HALF, "L": "i32", **SIZES, **TILE},
    "epilogue": {
        **HALF,
        **dict.fromkeys(["bias", "scale", "norms", "peaks"], "*fp32:16"),
        **SIZES,
        "slope": "fp32",
        **TILE,
    },
    "widened": {**HALF, "a": "*fp8e4nv:16", "scale": "*fp32:16", **SIZES, **TILE},
    "pointers": {**HALF, **SIZES, **TILE},
    "wrapped": {
        **HALF,
        **dict.fromkeys(("M", "N", "K", "a_stride", "b_stride"), "i32"),
        **TILE,
        "ACC": tl.float32,
    },
    "across": {**HALF, **SIZES, **TILE},
    "bumped": {**HALF, **SIZES, "stride": "i32:16", **TILE},
    "scaled": {**HALF, "left": "*fp32:16", "right": "*fp32:16", **SIZES, **TILE},
    "clamped": {**HALF, "bound": "*i32:16", **SIZES, **TILE},
    "offset": {**HALF, **SIZES, **TILE},
    "gathered": {**HALF, "rows": "*i32", "M": "i32", "N": "i32", "K": "i32", **TILE},
    "branching": {**HALF, "sizes": "*i32:16", **SIZES, **TILE},
    "split": {**HALF, "c": "*fp32:16", **SIZES, **TILE},
    "exclusive": {**HALF, "M": "i32:16", "K": "i32:16", **TILE},
    "prefixes": {**HALF, "last": "*fp16:16", "M": "i32:16", "K": "i32:16", **TILE},
    "recurrent": {**STATE, "DECAY": 0.5},
    "retyped": {
        **dict.fromkeys("qko", "*fp16:16"),
        **dict.fromkeys("rw", "*fp32:16"),
        "K": "i32:16",
        "DIM": 64,
        "BLOCK_K": 64,
        "num_warps": 4,
    },
    "chunked": STATE,
    "columns": {**HALF, "b": "*fp32:16", **SIZES, **TILE, "BLOCK_M": 64, "BLOCK_N": 64, "num_warps": 4},
    "turned": {
        **dict.fromkeys("xwy", "*fp16:16"),
        **dict.fromkeys("MNK", "i32"),
        "stride": "i32",
        "WIDE": 56,
        "BLOCK_M": 64,
        "BLOCK_N": 64,
        "BLOCK_K": 16,
        "num_warps": 4,
    },
    "decayed": {
        **dict.fromkeys(("k", "v", "h"), "*bf16:16"),
        "g": "*fp32:16",
        "K": "i32",
        "stride": "i32:16",
        "BLOCK_K": 64,
        "DIM": 64,
        "num_warps": 4,
    },
    "straight": STATE,
    "substituted": {"a": "*fp16:16", "o": "*fp32:16", "N": "i32", "BLOCK": 64, "num_warps": 4},
    "eliminated": {"a": "*fp32:16", "o": "*fp32:16", "N": "i32", "BLOCK": 64, "num_warps": 4},
    "sums_of_rows": {
        **dict.fromkeys("ab", "*fp16:16"),
        **dict.fromkeys("cde", "*fp32:16"),
        "N": "i32",
        "BLOCK": 64,
        "num_warps": 4,
    },
    "reflected": {"a": "*fp32:16", "b": "*bf16:16", "c": "*fp32:16", "N": "i32", "BLOCK": 64, "num_warps": 4},
    "recounted": {
        **dict.fromkeys("ab", "*bf16:16"),
        "c": "*fp32:16",
        "N": "i32",
        "BLOCK": 64,
        "PART": 16,
        "num_warps": 4,
    },
    "detoured": {
        **dict.fromkeys(("q", "k", "v", "o"), "*fp16:16"),
        **dict.fromkeys(("bias", "peaks"), "*fp32:16"),
        "DIM": 64,
        "BLOCK": 64,
    },
    "unrolled": {
        **HALF,
        "sums": "*fp32:16",
        **SIZES,
        "STEPS": 10,
        "BLOCK_M": 64,
        "BLOCK_N": 64,
        "BLOCK_K": 128,
        "num_warps": 4,
    },
    "strided": {**HALF, **SIZES, "STEPS": 10, "BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 128, "num_warps": 4},
    "bytes_ahead": {
        **HALF,
        "b": "*i8:16",
        "scales": "*fp16:16",
        "c": "*fp32:16",
        **SIZES,
        "BLOCK_M": 64,
        "BLOCK_N": 64,
        "BLOCK_K": 64,
        "num_warps": 4,
    },
    "ahead": {
        **HALF,
        **dict.fromkeys(("scales", "c"), "*fp32:16"),
        **SIZES,
        "BLOCK_M": 64,
        "BLOCK_N": 64,
        "BLOCK_K": 64,
        "num_warps": 4,
    },
    "heads_apart": {
        **HALF,
        "c": "*fp32:16",
        "N": "i32:16",
        "stride_h": "i32:16",
        "HEADS": 16,
        "DIM": 64,
        "BLOCK_N": 64,
        "num_warps": 4,
    },
    "slots_ahead": {
        **HALF,
        "slots": "*i32:16",
        "c": "*fp32:16",
        "N": "i32:16",
        "BLOCK_M": 64,
        "BLOCK_N": 64,
        "DIM": 64,
        "num_warps": 4,
    },
    "walled": {
        **HALF,
        "c": "*fp32:16",
        "N": "i32:16",
        "BLOCK_M": 64,
        "BLOCK_N": 64,
        "DIM": 64,
        "num_warps": 4,
    },
    "highest_bytes": {
        "a": "*i8:16",
        "b": "*i8:16",
        "c": "*i32:16",
        "M": "i32",
        "N": "i32",
        "BLOCK_M": 128,
        "BLOCK_N": 64,
        "DIM": 128,
        "num_warps": 8,
    },
    "quarters": {
        **dict.fromkeys(["a", "b", "left", "right"], "*u8:16"),
        "c": "*fp16:16",
        **SIZES,
        "BLOCK_M": 64,
        "BLOCK_N": 64,
        "BLOCK_K": 128,
        "num_warps": 4,
    },
    "quarters_and_whole": {
        "a": "*bf16:16", "b": "*u8:16", "scales": "*u8:16", "c": "*fp32:16",
        **SIZES,
        "BLOCK_M": 128,
        "BLOCK_N": 64,
        "BLOCK_K": 128,
        "num_warps": 4,
    },
    "packed_halves": {
        "a": "*fp16:16",
        "b": "*u8:16",
        "scales": "*fp16:16",
        "c": "*fp16:16",
        **SIZES,
        "BLOCK_M": 16,
        "BLOCK_N": 64,
        "BLOCK_K": 64,
        "num_warps": 4,
    },
    "nibbled": {
        "a": "*i8:16",
        "b": "*i8:16",
        "c": "*i32:16",
        **SIZES,
        "BLOCK_M": 64,
        "BLOCK_N": 64,
        "BLOCK_K": 64,
        "WIDE": tl.int32,
        "num_warps": 4,
    },
    "packed_rows": {
        "a": "*fp16:16",
        "b": "*i32:16",
        "scales": "*fp16:16",
        "c": "*fp16:16",
        **SIZES,
        "BLOCK_M": 16,
        "BLOCK_N": 64,
        "BLOCK_K": 64,
        "num_warps": 4,
    },
    "packed_columns": {
        "a": "*fp16:16",
        "b": "*i32:16",
        "scales": "*fp16:16",
        "c": "*fp16:16",
        **SIZES,
        "BLOCK_M": 16,
        "BLOCK_N": 64,
        "BLOCK_K": 64,
        "num_warps": 4,
    },
    "ranked": {
        **HALF,
        "v": "*fp32:16",
        "last": "*fp32:16",
        "bins": "*i32:16",
        **SIZES,
        "BLOCK_M": 64,
        "BLOCK_N": 64,
        "BLOCK_K": 64,
        "num_warps": 4,
    },
    "mapped": {
        "starts": "*i64:16",
        "sizes": "*i32:16",
        "b": "*fp16:16",
        "c": "*fp16:16",
        "groups": "i32",
        "N": "i32:16",
        "K": "i32:16",
        **TILE,
        "BLOCK_N": 64,
        "num_warps": 4,
    },
    "drawn": {
        **HALF,
        "counts": "*i64:16",
        "locks": "*i64:16",
        "marks": "*i32:16",
        "last": "*i32:16",
        **SIZES,
        "BLOCK_M": 64,
        "BLOCK_N": 64,
        "BLOCK_K": 64,
        "num_warps": 4,
    },
    "weighted": {
        **dict.fromkeys("abvc", "*fp32:16"),
        **SIZES,
        "BLOCK_M": 64,
        "BLOCK_N": 64,
        "BLOCK_K": 32,
        "num_warps": 4,
    },
    "exactly": {
        **dict.fromkeys("abc", "*fp32:16"),
        **SIZES,
        "BLOCK_M": 32,
        "BLOCK_N": 32,
        "BLOCK_K": 16,
        "num_warps": 4,
    },
    "both_ways": {**HALF, "N": "i32:16", "BLOCK": 64},
    "interrupted": {**HALF, "w": "*fp32:16", "N": "i32:16", "steps": "i32", "BLOCK": 64},
    "signalled": {**HALF, "flags": "*i32:16", "N": "i32:16", "BLOCK": 64},
    "forking": {**HALF, **SIZES, "BLOCK_M": 64, "BLOCK_N": 256, "BLOCK_K": 256, "num_warps": 4},
    "parting": {**HALF, **SIZES, "BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 64, "num_warps": 4},
    "mounting": {
        "a": "*fp16:16",
        "c": "*fp32:16",
        **{name: SIZES[name] for name in "MN"},
        "BLOCK_M": 64,
        "BLOCK_N": 128,
        "num_warps": 4,
    },
    "settled": {
        **HALF,
        "o": "*fp16:16",
        **SIZES,
        "BLOCK_M": 64,
        "BLOCK_N": 128,
        "BLOCK_K": 64,
        "num_warps": 4,
    },
    "lengths_of_rows": {
        **dict.fromkeys("ab", "*fp16:16"),
        **dict.fromkeys("cd", "*fp32:16"),
        "M": "i32:16",
        "K": "i32:16",
        "BLOCK_M": 64,
        "BLOCK_N": 64,
        "BLOCK_K": 64,
        "num_warps": 4,
    },
    "accrued": {
        **dict.fromkeys("ab", "*fp16:16"),
        "c": "*fp32:16",
        "lengths": "*i32:16",
        "M": "i32:16",
        "K": "i32:16",
        "BLOCK_M": 64,
        "BLOCK_K": 64,
        "num_warps": 4,
    },
    "upheld": {
        **dict.fromkeys("ab", "*fp16:16"), "rows": "*fp32:16", "c": "*fp32:16", **SIZES, **TILE, "BLOCK_M": 64,
        "num_warps": 8,
    },
    "reread": {**STATE, "sums": "*fp32:16"},
    "echoed": {**dict.fromkeys("xy", "*fp16:16"), **dict.fromkeys("po", "*fp32:16"), "BLOCK": 64, "num_warps": 4},
    "listed": {"starts": "*i64:16", "addresses": "*i64:16", "b": "*fp16:16", **SIZES, **TILE},
    "unaligned": {**HALF, "c": "*fp16", "pitch": "i32", **SIZES, **TILE, "BLOCK_M": 64, "num_warps": 4},
    "handed_on": {**HALF, "v": "*fp16:16", **SIZES, **TILE, "BLOCK_N": 64, "num_warps": 4},
    "resumed": STATE,
    "alternating": {**HALF, "r": "*fp16:16", **SIZES, **TILE, "num_warps": 4},
    "neighbours": {**HALF, "r": "*fp16:16", **SIZES, **TILE, "num_warps": 4},
    "drained": STATE,
    "doubled": {**dict.fromkeys("ab", "*i8:16"), "c": "*i32:16", **SIZES, **TILE, "BLOCK_M": 64, "BLOCK_N": 64, "num_warps": 4},
    "overwritten": {
        **HALF, **dict.fromkeys("do", "*fp32:16"), **SIZES, "BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 64, "num_warps": 4,
    },
    "continued": {**HALF, **SIZES, "split": "i32:16", **TILE, "FACTOR": 1.0},
    "halves": {**HALF, **SIZES, **TILE},
    "peeked": {**HALF, "pages": "*i32:16", **SIZES, **TILE, "num_warps": 4},
    "peeked_rows": {**HALF, "rows": "*i32:16", **SIZES, **TILE, "num_warps": 4},
    "peeked_columns": {
        **dict.fromkeys("qk", "*fp16:16"), "o": "*fp32:16", "rows": "*i32:16", "size": "i32", "COUNT": "i32:16", "DIM": 64,
        "BLOCK": 64, "num_warps": 4,
    },
    "rehearsed": {**dict.fromkeys("qko", "*fp16:16"), "N": "i32:16", "DIM": 512, "BLOCK": 16, "num_warps": 4},
    "confined": {**HALF, **SIZES, "stride": "i32:16", "BLOCK_M": 16, "BLOCK_N": 16, "BLOCK_K": 128, "num_warps": 4},
    "modulated": {**HALF, "weights": "*fp16:16", **SIZES, **TILE},
    "distant": {
        **dict.fromkeys("ab", "*fp16:16"), "c": "*fp32:16", "first": "i64", "stride": "i32:16", **SIZES,
        "BATCH": 65536, "BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 64, "num_warps": 4,
    },
    "rationed": {
        **dict.fromkeys("ab", "*fp16:16"), "c": "*fp32:16", "ends": "*i32:16", "N": "i32:16", "DIM": 64, "BLOCK": 64,
        "num_warps": 4,
    },
    "consulted": {
        **dict.fromkeys("ab", "*fp16:16"), "c": "*fp32:16", "table": "*i32:16", "N": "i32:16", "DIM": 64, "BLOCK": 64, "PAGE": 16,
        "num_warps": 4,
    },
    "overtaken": {
        **dict.fromkeys("ab", "*fp16:16"), "c": "*fp32:16", "leaps": "*i32:16", "N": "i32:16", "DIM": 64, "BLOCK": 64,
        "num_warps": 4,
    },
    "hopping": {
        **dict.fromkeys("ab", "*fp16:16"), "c": "*fp32:16", "leaps": "*i32:16", "N": "i32:16", "DIM": 64, "BLOCK": 64,
        "num_warps": 4,
    },
    "hopped": {
        **dict.fromkeys("ab", "*fp16:16"), "c": "*fp32:16", "leaps": "*i32:16", "N": "i32:16", "DIM": 64, "BLOCK": 64,
        "num_warps": 4,
    },
    "curtailed": {
        **dict.fromkeys("ab", "*fp16:16"), "c": "*fp32:16", "table": "*i32:16", "size": "i32", "N": "i32:16", "D": "i32",
        "DIM": 64, "BLOCK": 64, "num_warps": 4,
    },
    "thumbed": {
        **dict.fromkeys("ab", "*fp16:16"), "c": "*fp32:16", "table": "*i32:16", "size": "i32", "pitch": "i32:16", "N": "i32:16",
        "DIM": 64, "BLOCK": 64, "num_warps": 4,
    },
    "weighed": {
        **dict.fromkeys("ab", "*fp16:16"), **dict.fromkeys("wc", "*fp32:16"), "table": "*i32:16", "N": "i32:16", "DIM": 64,
        "BLOCK": 64, "PAGE": 16, "num_warps": 4,
    },
    "bordered": {
        **dict.fromkeys("ab", "*fp16:16"), "c": "*fp32:16", "lengths": "*i32:16", **dict.fromkeys(("M", "apart", "stride"), "i32:16"),
        "D": 48, "BLOCK_M": 64, "BLOCK_K": 64, "BLOCK_D": 64, "num_warps": 4,
    },
    "narrowed": {
        **dict.fromkeys("qkv", "*fp8e4nv:16"), "o": "*fp32:16", "N": "i32:16", "BLOCK_M": 128, "BLOCK_N": 64, "DIM": 64,
        "num_warps": 4,
    },
    "leafed": {
        **dict.fromkeys("ab", "*i8:16"), **dict.fromkeys(("c", "pages"), "*i32:16"), **SIZES, "BLOCK_M": 16, "BLOCK_N": 16,
        "BLOCK_K": 256, "num_warps": 4,
    },
    "odd_columns": {
        **dict.fromkeys("abc", "*fp32:16"), **SIZES, "BLOCK_M": 128, "BLOCK_N": 64, "BLOCK_K": 32, "num_warps": 4,
    },
    "every_other": {
        **dict.fromkeys("abc", "*fp32:16"), **SIZES, "BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32, "num_warps": 4,
    },
    "sought": {
        **dict.fromkeys("ab", "*fp16:16"), "weights": "*fp32:16", "rows": "*i32:16", "c": "*fp32:16", "N": "i32", "DIM": 64,
        "BLOCK_M": 64, "BLOCK_N": 64, "num_warps": 4,
    },
    "spanned": {**dict.fromkeys("ab", "*fp16:16"), "c": "*fp32:16", "K": "i32:16", "BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 64, "num_warps": 4},
    "scant": {
        **dict.fromkeys("bc", "*fp32:16"), "a": "*i8:16", **SIZES, "BLOCK_M": 32, "BLOCK_N": 64, "BLOCK_K": 16, "num_warps": 4,
    },
    "rescaled_rows": {**HALF, "b": "*fp8e4nv:16", **SIZES, "BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 64, "num_warps": 4},
    "dequantized": {**HALF, "b": "*i8:16", "scales": "*fp16:16", **SIZES, **TILE, "num_warps": 4},
    "spaced": {**HALF, "b": "*i8:16", "scales": "*fp16:16", **SIZES, "BLOCK_M": 16, "BLOCK_N": 64, "BLOCK_K": 128, "num_warps": 4},
    "joined": {**dict.fromkeys("abd", "*fp16:16"), **dict.fromkeys("gc", "*fp32:16"), "DIM": 128, "BLOCK": 64, "num_warps": 8},
    "foreseen": {**HALF, **SIZES, **TILE, "num_warps": 4},
    "guarded": {**HALF, "flags": "*i32:16", **SIZES, **TILE},
    "skipping": {**STATE, "flags": "*i32:16"},
    "picking": {**STATE, "flags": "*i32:16"},
    "gleaning": {**STATE, "flags": "*i32:16"},
    "shelving": {**STATE, "flags": "*i32:16"},
    "patchwork": {**STATE, "flags": "*i32:16"},
    "metered": {**STATE, "flags": "*i32:16", "sums": "*fp32:16"},
    "rivals": {
        **dict.fromkeys("ab", "*fp16:16"), "c": "*fp32:16", "flags": "*i32:16", **SIZES,
        "BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 64, "num_warps": 4,
    },
    "centered": {
        **HALF,
        **dict.fromkeys(("b", "zeros"), "*i32:16"),
        "scales": "*fp16:16",
        **SIZES,
        "BLOCK_M": 16,
        "BLOCK_N": 32,
        "BLOCK_K": 128,
        "num_warps": 4,
    },
    "tilted": {
        **dict.fromkeys("qkvo", "*fp16:16"), "g": "*fp32:16", "M": "i32", "N": "i32", "DIM": 64, "BLOCK": 64, "num_warps": 4,
    },
    "retained": {
        **dict.fromkeys("qkvo", "*fp16:16"), "M": "i32", "N": "i32", "DIM": 64, "BLOCK": 128, "num_warps": 4,
    },
    "sieved": {
        **dict.fromkeys("qkvo", "*fp16:16"), "M": "i32", "N": "i32", "DIM": 64, "BLOCK": 64, "num_warps": 4,
    },
    "overturned": {
        **dict.fromkeys("qkvo", "*fp32:16"), "M": "i32", "N": "i32", "DIM": 64, "BLOCK": 32, "num_warps": 4,
    },
    "gauged": {
        **dict.fromkeys("ab", "*fp8e4nv:16"), "c": "*bf16:16", **dict.fromkeys(("a_scales", "b_scales"), "*fp32:16"), **SIZES,
        **TILE, "BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 64, "num_warps": 4,
    },
    "paged": {
        **dict.fromkeys("qkv", "*bf16:16"), "o": "*fp32:16", **dict.fromkeys(("chosen", "table"), "*i32:16"), "pages": "i32",
        "DIM": 64, "COUNT": 256, "BLOCK": 64, "PAGE": 64, "WIDTH": 32, "num_warps": 4,
    },
    "astride": {
        **dict.fromkeys("qk", "*fp16:16"), **dict.fromkeys("op", "*fp32:16"), "N": "i32:16", "DIM": 64, "BLOCK": 64, "num_warps": 4,
    },
    "bytewise": {
        **dict.fromkeys(("a", "b", "other"), "*fp8e4nv:16"), "c": "*fp32:16", "which": "i32", "N": 64, "K": "i32:16", "BLOCK": 64,
        "num_warps": 4,
    },
    "apportioned": {
        **dict.fromkeys("xwo", "*fp16:16"), "counts": "*i32:16", "E": "i32", "N": "i32:16", "K": "i32:16", "EXPERTS": 64,
        "BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 64, "num_warps": 4,
    },
    "revolving": {
        **dict.fromkeys("ab", "*fp16:16"), "c": "*fp32:16", "first": "i32", "stride": "i32", "N": "i32", "K": "i32:16", "BLOCK_M": 64,
        "BLOCK_N": 64, "BLOCK_K": 32, "num_warps": 4,
    },
    "amended": {
        **dict.fromkeys("abc", "*fp16:16"), "scales": "*fp32:16", "M": "i32", "N": "i32:16", "K": "i32:16", "BLOCK_M": 128,
        "BLOCK_N": 128, "BLOCK_K": 64, "num_warps": 4,
    },
    "amending": {
        **dict.fromkeys(("a", "b", "old", "c"), "*fp16:16"), "M": "i32", "N": "i32:16", "K": "i32:16", "slope": "fp32",
        "BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "num_warps": 4,
    },
    "circling": {
        **dict.fromkeys("ab", "*fp16:16"), "c": "*fp32:16", "M": "i32:16", "N": "i32:16", "BLOCK_M": 64, "BLOCK_N": 64,
        "BLOCK_K": 64, "num_warps": 4,
    },
    "tolled": {
        **dict.fromkeys("ab", "*fp16:16"), "c": "*fp32:16", "N": "i32:16", "DIM": 64, "BLOCK": 64, "num_warps": 4,
    },
    "distilled": {
        **dict.fromkeys("abw", "*fp16:16"), "c": "*fp32:16", "K": "i32:16", "BLOCK_M": 64, "BLOCK": 64, "BLOCK_K": 32,
        "num_warps": 4,
    },
    "wandering": {
        **dict.fromkeys("ab", "*fp16:16"), "c": "*fp32:16", "N": "i32:16", "steps": "i32", "DIM": 64, "BLOCK": 64,
        "num_warps": 4,
    },
    "streams": {
        "x": "*fp16:16", "weights": "*fp32:16", "b": "*fp16:16", "c": "*fp32:16", "M": "i32", "row": "i32:16", "BLOCK_M": 16,
        "BLOCK_K": 64, "PARTS": 4, "N": 32, "num_warps": 4,
    },
    "leftover": {
        **dict.fromkeys("ab", "*fp16:16"), "c": "*fp32:16", "done": "i32", **SIZES, "BLOCK_M": 64, "BLOCK_N": 64,
        "BLOCK_K": 64, "num_warps": 4,
    },
    "pacing": {
        **dict.fromkeys("ab", "*fp16:16"), "weights": "*fp32:16", "c": "*fp32:16", **SIZES, "BLOCK_M": 64, "BLOCK_N": 64,
        "BLOCK_K": 64, "num_warps": 4,
    },
    "marching": {
        **dict.fromkeys("ab", "*fp16:16"), "c": "*fp32:16", "steps": "i32", "N": "i32:16", "K": "i32:16", "BLOCK_M": 16,
        "BLOCK_N": 64, "BLOCK_K": 64, "num_warps": 4,
    },
    "allotted": {
        **dict.fromkeys("ab", "*fp16:16"), "c": "*fp32:16", "bounds": "*i32:16", "N": "i32:16", "K": "i32:16",
        "BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32, "num_warps": 4,
    },
    "promoted": {
        **dict.fromkeys("ab", "*fp8e4nv:16"), "c": "*fp32:16", "N": "i32:16", "K": "i32:16", "BLOCK_M": 16,
        "BLOCK_N": 32, "BLOCK_K": 256, "num_warps": 4,
    },
    "edged": {
        **dict.fromkeys("ab", "*fp16:16"), "c": "*fp32:16", "N": "i32:16", "K": "i32:16", "BLOCK_M": 64,
        "BLOCK_N": 64, "BLOCK_K": 64, "num_warps": 4,
    },
    "flattened": {**HALF, **SIZES, **TILE},
    "nested": {**HALF, **SIZES, "taps": "i32", **TILE},
    "archived": {**HALF, "K": "i32:16", "BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 64, "num_warps": 4},
    "summed_transposed": {
        **HALF,
        **dict.fromkeys(("b", "sums", "c"), "*fp32:16"),
        **SIZES,
        "BLOCK_M": 64,
        "BLOCK_N": 64,
        "BLOCK_K": 64,
        "num_warps": 8,
    },
    "summed_columns": {
        **HALF,
        **dict.fromkeys(("sums", "c"), "*fp32:16"),
        **SIZES,
        "BLOCK_M": 64,
        "BLOCK_N": 64,
        "BLOCK_K": 32,
        "num_warps": 4,
    },
    "scored": {
        **dict.fromkeys("qkc", "*fp16:16"),
        "ends": "*i32:16",
        "N": "i32:16",
        "QUERIES": 4,
        "HEADS": 32,
        "BLOCK_N": 64,
        "DIM": 64,
        "num_warps": 4,
    },
    "scaled_columns": {
        **HALF,
        **dict.fromkeys(("scales", "c"), "*fp32:16"),
        **SIZES,
        "BLOCK_M": 64,
        "BLOCK_N": 64,
        "BLOCK_K": 64,
        "num_warps": 4,
    },
    "noted": {
        **HALF,
        **dict.fromkeys(("notes", "c"), "*fp32:16"),
        **SIZES,
        "BLOCK_M": 64,
        "BLOCK_N": 64,
        "BLOCK_K": 64,
        "num_warps": 4,
    },
    "strips": {
        **HALF,
        "c": "*fp32:16",
        **SIZES,
        "taps": "i32",
        "BLOCK_M": 64,
        "BLOCK_N": 64,
        "BLOCK_K": 64,
        "num_warps": 4,
    },
    "grouped": {**HALF, "sizes": "*i32:16", "groups": "i32", **SIZES, **TILE},
    "taken": {**HALF, "counter": "*i32:16", **SIZES, **TILE},
    "searched": {
        **HALF,
        "starts": "*i32:16",
        "groups": "i32",
        "M": "i32:16",
        "K": "i32:16",
        **TILE,
        "BLOCK_N": 64,
    },
    "surrounded": {**HALF, "v": "*fp16:16", "M": "i32:16", "K": "i32:16", **TILE, "BLOCK_N": 64},
    "biased": {**HALF, "M": "i32:16", "N": "i32:16", **TILE, "BLOCK_N": 64, "FILLED": False},
    "unpacked": {**HALF, "b": "*i8:16", **SIZES, **TILE},
    "crests": {"a": "*i8:16", "b": "*i8:16", "c": "*i32:16", **SIZES, **TILE, "BLOCK_K": 128},
    "rotated": {**HALF, "sums": "*fp32:16", **SIZES, **TILE},
    "panels": {**HALF, "M": "i32:16", "N": "i32:16", **TILE, "BLOCK_N": 64},
    "nearest": {**HALF, "c": "*fp32:16", "places": "*i32:16", "lengths": "*fp32:16", **SIZES, **TILE},
    "leaping": {**STATE, "steps": "*i32:16", "weights": "*fp32:16"},
    "jumping": {**HALF, "steps": "*i32:16", **SIZES, **TILE},
    "query_gradient": {
        **dict.fromkeys("qkvg", "*fp16:16"),
        "dq": "*fp32:16",
        "M": "i32:16",
        "N": "i32:16",
        "stride": "i32:16",
        "BLOCK_M": 128,
        "BLOCK_N": 16,
        "DIM": 64,
        "num_warps": 4,
    },
    "gram": {
        "a": "*bf16:16",
        "c": "*fp32:16",
        "M": "i32:16",
        "K": "i32:16",
        "BLOCK_M": 16,
        "BLOCK_K": 64,
        "num_warps": 4,
    },
    "recalled": {
        **dict.fromkeys("qkvo", "*bf16:16"), "N": "i32:16", "BLOCK_N": 64, "DIM": 64, "WIDTH": 32, "num_warps": 4,
    },
    "aged": {
        **dict.fromkeys("kvs", "*fp16:16"),
        "o": "*fp32:16",
        "N": "i32:16",
        "BLOCK_N": 64,
        "DIM": 64,
        "num_warps": 4,
    },
    "tempered": {
        **dict.fromkeys("ab", "*fp16:16"),
        **dict.fromkeys(("gates", "last", "shift", "c"), "*fp32:16"),
        **SIZES,
        "BLOCK_M": 64,
        "BLOCK_N": 64,
        "BLOCK_K": 64,
        "num_warps": 4,
    },
    "faded": {
        **dict.fromkeys("ab", "*fp16:16"),
        **dict.fromkeys(("w", "r", "s", "c", "sums"), "*fp32:16"),
        **SIZES,
        "BLOCK_M": 64,
        "BLOCK_N": 128,
        "BLOCK_K": 64,
        "num_warps": 4,
    },
    "deflated": {
        **dict.fromkeys("qkw", "*fp16:16"),
        **dict.fromkeys("ro", "*fp32:16"),
        "N": "i32:16",
        "BLOCK_M": 64,
        "BLOCK_N": 64,
        "DIM": 64,
        "num_warps": 4,
    },
    "masked": {
        **dict.fromkeys("qkvo", "*fp16:16"),
        "N": "i32:16",
        "BLOCK_M": 64,
        "BLOCK_N": 64,
        "DIM": 64,
        "num_warps": 4,
    },
    "balanced": {
        **dict.fromkeys("ab", "*bf16:16"), "c": "*fp32:16", "flags": "*i32:16", "K": "i32:16", "BLOCK_M": 16, "BLOCK_N": 64,
        "BLOCK_K": 64, "num_warps": 4,
    },
    "tallied": {
        **dict.fromkeys("ab", "*bf16:16"), **dict.fromkeys(("c", "sums"), "*fp32:16"), "K": "i32:16", "BLOCK_M": 64,
        "BLOCK_K": 64, "num_warps": 4,
    },
    "stepwise": {
        **dict.fromkeys(("a", "b", "rows"), "*bf16:16"), **dict.fromkeys(("gates", "g", "c"), "*fp32:16"), "n": "i32", "K": "i32:16",
        "BLOCK_M": 16, "BLOCK_N": 64, "BLOCK_K": 32, "num_warps": 2,
    },
    "kindred": {
        **dict.fromkeys("ab", "*fp16:16"), "c": "*fp32:16", "heads": "i32", "K": "i32:16", "BLOCK_M": 64, "BLOCK_K": 64,
        "num_warps": 4,
    },
    "chosen": {
        **dict.fromkeys("qkv", "*fp16:16"),
        "o": "*fp32:16",
        "scales": "*fp32:16",
        "blocks": "*i32:16",
        "N": "i32:16",
        "ROWS": 16,
        "BLOCK": 64,
        "DIM": 64,
        "num_warps": 4,
    },
    "windowed": {
        **dict.fromkeys(["q", "k", "rows", "columns"], "*fp16:16"),
        "o": "*fp32:16",
        "N": "i32",
        "BLOCK_M": 64,
        "BLOCK_N": 64,
        "DIM": 64,
        "num_warps": 4,
    },
    "stacked": {
        **dict.fromkeys("ab", "*fp16:16"),
        "c": "*fp32:16",
        "N": "i32",
        "BLOCK_M": 128,
        "BLOCK_N": 64,
        "DIM": 128,
        "HEADS": 4,
        "num_warps": 8,
    },
    "queries": {
        **dict.fromkeys("qkv", "*fp16:16"),
        "o": "*fp32:16",
        "N": "i32:16",
        "BLOCK_M": 128,
        "BLOCK_N": 128,
        "DIM": 128,
        "num_warps": 8,
    },
}

FOUR_BITS = {
    **dict.fromkeys("ab", "*u8:16"),
    "LEFT": "e2m1",
    "RIGHT": "e2m1",
    "LEFT_PACK": 2,
    "RIGHT_PACK": 2,
}

VARIANTS = {
    "matmul_bf16": ("matmul", {"a": "*bf16:16", "b": "*bf16:16", "c": "*bf16:16"}),
    "matmul_e4m3": ("matmul", {"a": "*fp8e4nv:16", "b": "*fp8e4nv:16", "c": "*fp8e4nv:16", "BLOCK_K": 128}),
    "matmul_e5m2_64": ("matmul", {"a": "*fp8e5:16", "b": "*fp8e4nv:16", "c": "*fp8e5:16"}),
    "matmul_e4m3_32": ("matmul", {"a": "*fp8e4nv:16", "b": "*fp8e4nv:16", "c": "*fp32:16", "BLOCK_K": 32}),
    "matmul_tf32": ("matmul", {"a": "*fp32:16", "b": "*fp32:16", "c": "*fp32:16", "BLOCK_K": 32}),
    "matmul_narrow": ("matmul", {"BLOCK_N": 32, "BLOCK_K": 32}),
    "matmul_bands": ("matmul", {"num_warps": 4}),
    "matmul_half": ("matmul_into", {}),
    "matmul_32_half": ("matmul_into", {"BLOCK_M": 32, "BLOCK_N": 64, "num_warps": 4}),
    "matmul_integer": (
        "matmul_into",
        {"a": "*i8:16", "b": "*i8:16", "c": "*i32:16", "BLOCK_K": 128, "ACC": tl.int32},
    ),
    "ahead": ("ahead", {}),
    "bytes_ahead": ("bytes_ahead", {}),
    "heads_apart": ("heads_apart", {}),
    "slots_ahead": ("slots_ahead", {}),
    "walled": ("walled", {}),
    "highest_bytes": ("highest_bytes", {}),
    "strips": ("strips", {}),
    "scaled_columns": ("scaled_columns", {}),
    "scored": ("scored", {}),
    "summed_columns": ("summed_columns", {}),
    "summed_columns_16": ("summed_columns", {"BLOCK_K": 16}),
    "archived": ("archived", {}),
    "summed_transposed": ("summed_transposed", {}),
    "noted": ("noted", {}),
    "matmul_mxfp8": ("matmul_scaled", {"b": "*fp8e5:16", "RIGHT": "e5m2", "BLOCK_N": 256}),
    "matmul_mxfp4": ("matmul_scaled", FOUR_BITS),
    "matmul_mxfp4_wide": (
        "matmul_scaled",
        {**FOUR_BITS, "c": "*fp16:16", "BLOCK_N": 256, "BLOCK_K": 256},
    ),
    "matmul_mxfp8_mxfp4": (
        "matmul_scaled",
        {"b": "*u8:16", "RIGHT": "e2m1", "RIGHT_PACK": 2, "BLOCK_K": 256},
    ),
    "matmul_mxfp4_mxfp8": ("matmul_scaled", {"a": "*u8:16", "LEFT": "e2m1", "LEFT_PACK": 2}),
    "matmul_mxfp8_loaded": ("matmul_scaled_loaded", {}),
    "matmul_nvfp4": (
        "matmul_scaled",
        {
            **FOUR_BITS,
            "a_scales": "*fp8e4nv:16",
            "b_scales": "*fp8e4nv:16",
            "VECTOR": 16,
            "BLOCK_N": 256,
            "BLOCK_K": 256,
        },
    ),
    "matmul_outer": ("matmul_outer", {}),
    "matmul_outer_tf32": ("matmul_outer", {**dict.fromkeys("ab", "*fp32:16"), "BLOCK_K": 32}),
    "matmul_mxfp8_mxfp4_turned": ("matmul_scaled_turned", {}),
    "matmul_mxfp8_outer": ("matmul_scaled_outer", {}),
    "matmul_mxfp4_mxfp8_copied": (
        "matmul_scaled_copied",
        {"b": "*fp8e4nv:16", "LEFT": "e2m1", "LEFT_PACK": 2},
    ),
    "matmul_mxfp8_mxfp4_across": (
        "matmul_scaled_copied",
        {"a": "*fp8e4nv:16", "RIGHT": "e2m1", "RIGHT_PACK": 2, "ACROSS": True},
    ),
    "queries_scaled": ("queries_scaled", {}),
    "matmul_across": ("matmul", {"BLOCK_M": 64, "BLOCK_N": 256}),
    "batched": ("batched", {}),
    "epilogue": ("epilogue", {}),
    "widened": ("widened", {}),
    "split": ("split", {}),
    "pointers": ("pointers", {}),
    "pointers_two_warps": ("pointers", {"BLOCK_M": 64, "BLOCK_N": 32, "BLOCK_K": 32, "num_warps": 2}),
    "pointers_one_warp": ("pointers", {"BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_K": 32, "num_warps": 1}),
    "pointers_few_tiles": (
        "pointers", {"M": 64, "N": 2048, "BLOCK_M": 16, "BLOCK_N": 64, "BLOCK_K": 64, "num_warps": 4},
    ),
    "pointers_into_bytes": ("pointers", {"c": "*fp8e4nv:16"}),
    "pointers_16": ("pointers", {"BLOCK_M": 16, "BLOCK_N": 64, "num_warps": 4}),
    "queries_across": ("queries", {"BLOCK_M": 64, "BLOCK_N": 64, "DIM": 128}),
    "queries_16": ("queries", {"BLOCK_M": 16, "BLOCK_N": 64, "DIM": 64, "num_warps": 4}),
    "matmul_32": ("matmul", {"BLOCK_M": 32, "BLOCK_N": 64, "num_warps": 4}),
    "matmul_32_tf32": (
        "matmul",
        {**dict.fromkeys("abc", "*fp32:16"), "BLOCK_M": 32, "BLOCK_N": 64, "BLOCK_K": 32, "num_warps": 4},
    ),
    "matmul_32_e4m3": (
        "matmul",
        {**dict.fromkeys("ab", "*fp8e4nv:16"), "BLOCK_M": 32, "BLOCK_N": 64, "BLOCK_K": 64, "num_warps": 4},
    ),
    "matmul_32_integer": (
        "matmul_into",
        {**dict.fromkeys("ab", "*i8:16"), "c": "*i32:16", "BLOCK_M": 32, "BLOCK_K": 64, "ACC": tl.int32},
    ),
    "wrapped": ("wrapped", {}),
    "wrapped_e4m3": (
        "wrapped",
        {**dict.fromkeys("ab", "*fp8e4nv:16"), "c": "*fp32:16", **SIZES, **STRIDES, "BLOCK_K": 128},
    ),
    "wrapped_integer": (
        "wrapped",
        {
            **dict.fromkeys("ab", "*i8:16"),
            "c": "*i32:16",
            **SIZES,
            **STRIDES,
            "BLOCK_N": 64,
            "num_warps": 4,
            "ACC": tl.int32,
        },
    ),
    "wrapped_bytes": ("wrapped", {**dict.fromkeys("ab", "*fp8e4nv:16"), "c": "*fp32:16", "BLOCK_K": 128}),
    "across": ("across", {"BLOCK_M": 16, "BLOCK_N": 64, "num_warps": 4, "K": "i32:16"}),
    "bumped": ("bumped", {}),
    "clamped": ("clamped", {}),
    "scaled": ("scaled", {}),
    "scaled_32": ("scaled", {"BLOCK_N": 32}),
    "offset": ("offset", {}),
    "gathered": ("gathered", {}),
    "gathered_rows": ("gathered", {"K": "i32:16", "N": "i32:16"}),
    "branching": ("branching", {}),
    "exclusive": ("exclusive", {}),
    "prefixes": ("prefixes", {}),
    "recurrent": ("recurrent", {}),
    "retyped": ("retyped", {}),
    "chunked": ("chunked", {}),
    "columns": ("columns", {}),
    "columns_bytes": ("columns", {"b": "*i8:16"}),
    "columns_bytes_16": ("columns", {"b": "*fp8e4nv:16", "BLOCK_M": 16, "BLOCK_K": 64}),
    "turned": ("turned", {}),
    "turned_32": ("turned", {"BLOCK_M": 32}),
    "decayed": ("decayed", {}),
    "panels": ("panels", {}),
    "panels_cut": ("panels", {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 64, "num_warps": 8}),
    "biased": ("biased", {}),
    "filled": ("biased", {"FILLED": True}),
    "unpacked": ("unpacked", {}),
    "rotated": ("rotated", {}),
    "crests": ("crests", {}),
    "surrounded": ("surrounded", {}),
    "straight": ("straight", {}),
    "detoured": ("detoured", {}),
    "eliminated": ("eliminated", {}),
    "reflected": ("reflected", {}),
    "sums_of_rows": ("sums_of_rows", {}),
    "recounted": ("recounted", {}),
    "substituted": ("substituted", {}),
    "unrolled": ("unrolled", {}),
    "strided": ("strided", {}),
    "reread": ("reread", {}),
    "upheld": ("upheld", {}),
    "echoed": ("echoed", {}),
    "settled": ("settled", {}),
    "accrued": ("accrued", {}),
    "lengths_of_rows": ("lengths_of_rows", {}),
    "exactly": ("exactly", {}),
    "exactly_deep": ("exactly", {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 64}),
    "mounting": ("mounting", {}),
    "both_ways": ("both_ways", {}),
    "interrupted": ("interrupted", {}),
    "forking": ("forking", {}),
    "signalled": ("signalled", {}),
    "parting": ("parting", {}),
    "weighted": ("weighted", {}),
    "weighted_integer": ("weighted", {**dict.fromkeys("abv", "*i8:16"), "c": "*i32:16", "BLOCK_K": 64}),
    "drawn": ("drawn", {}),
    "mapped": ("mapped", {}),
    "ranked": ("ranked", {}),
    "quarters": ("quarters", {}),
    "quarters_and_whole": ("quarters_and_whole", {}),
    "packed_halves": ("packed_halves", {}),
    "nibbled": ("nibbled", {}),
    "nibbled_e4m3": ("nibbled", {"b": "*fp8e4nv:16", "c": "*fp32:16", "WIDE": tl.float32}),
    "packed_rows": ("packed_rows", {}),
    "packed_columns": ("packed_columns", {}),
    "listed": ("listed", {}),
    "unaligned": ("unaligned", {}),
    "nearest": ("nearest", {}),
    "nearest_across": ("nearest", {"BLOCK_M": 64, "BLOCK_N": 128}),
    "nearest_32": ("nearest", {"BLOCK_M": 32, "BLOCK_N": 64, "num_warps": 4}),
    "jumping": ("jumping", {}),
    "leaping": ("leaping", {}),
    "query_gradient": ("query_gradient", {"BLOCK_N": 32}),
    "query_gradient_16": ("query_gradient", {"v": "*fp32:16"}),
    "deflated": ("deflated", {}),
    "tempered": ("tempered", {}),
    "faded": ("faded", {}),
    "aged": ("aged", {}),
    "recalled": ("recalled", {}),
    "gram": ("gram", {}),
    "queries": ("queries", {}),
    "stacked": ("stacked", {}),
    "windowed": ("windowed", {}),
    "masked": ("masked", {}),
    "balanced": ("balanced", {}),
    "tallied": ("tallied", {}),
    "kindred": ("kindred", {}),
    "stepwise": ("stepwise", {}),
    "chosen": ("chosen", {}),
    "guarded": ("guarded", {}),
    "skipping": ("skipping", {}),
    "picking": ("picking", {}),
    "gleaning": ("gleaning", {}),
    "shelving": ("shelving", {}),
    "patchwork": ("patchwork", {}),
    "metered": ("metered", {}),
    "rivals": ("rivals", {}),
    "handed_on": ("handed_on", {}),
    "resumed": ("resumed", {}),
    "alternating": ("alternating", {}),
    "neighbours": ("neighbours", {}),
    "drained": ("drained", {}),
    "doubled": ("doubled", {}),
    "overwritten": ("overwritten", {}),
    "continued": ("continued", {}),
    "matmul_low": ("matmul", {"BLOCK_M": 64}),
    "matmul_wide": ("matmul", {"BLOCK_N": 256, "num_warps": 4}),
    "matmul_half_low": ("matmul_into", {"BLOCK_M": 64, "num_warps": 4}),
    "matmul_integer_low": (
        "matmul_into",
        {"a": "*i8:16", "b": "*i8:16", "c": "*i32:16", "BLOCK_M": 64, "BLOCK_K": 128, "ACC": tl.int32},
    ),
    "biased_low": ("biased", {"BLOCK_M": 64, "num_warps": 4}),
    "queries_low": ("queries", {"BLOCK_M": 64, "num_warps": 4}),
    "continued_scaled": ("continued", {"FACTOR": 0.5}),
    "flattened": ("flattened", {}),
    "nested": ("nested", {}),
    "grouped": ("grouped", {}),
    "taken": ("taken", {}),
    "searched": ("searched", {}),
    "centered": ("centered", {}),
    "centered_brain": ("centered", dict.fromkeys(("a", "c", "scales"), "*bf16:16")),
    "tilted": ("tilted", {}),
    "sieved": ("sieved", {}),
    "retained": ("retained", {}),
    "overturned": ("overturned", {}),
    "gauged": ("gauged", {}),
    "halves": ("halves", {}),
    "modulated": ("modulated", {}),
    "confined": ("confined", {}),
    "peeked": ("peeked", {}),
    "paged": ("paged", {}),
    "peeked_columns": ("peeked_columns", {}),
    "rehearsed": ("rehearsed", {}),
    "astride": ("astride", {}),
    "bytewise": ("bytewise", {}),
    "marching": ("marching", {}),
    "allotted": ("allotted", {}),
    "edged": ("edged", {}),
    "promoted": ("promoted", {}),
    "circling": ("circling", {}),
    "distilled": ("distilled", {}),
    "tolled": ("tolled", {}),
    "wandering": ("wandering", {}),
    "streams": ("streams", {}),
    "leftover": ("leftover", {}),
    "pacing": ("pacing", {}),
    "revolving": ("revolving", {}),
    "amended": ("amended", {}),
    "amending": ("amending", {}),
    "apportioned": ("apportioned", {}),
    "every_other": ("every_other", {}),
    "every_other_half": ("every_other", dict.fromkeys("ab", "*fp16:16")),
    "scant": ("scant", {}),
    "spanned": ("spanned", {}),
    "sought": ("sought", {}),
    "odd_columns": ("odd_columns", {}),
    "leafed": ("leafed", {}),
    "narrowed": ("narrowed", {}),
    "distant": ("distant", {}),
    "bordered": ("bordered", {}),
    "consulted": ("consulted", {}),
    "rationed": ("rationed", {}),
    "overtaken": ("overtaken", {}),
    "hopping": ("hopping", {}),
    "hopped": ("hopped", {}),
    "curtailed": ("curtailed", {}),
    "thumbed": ("thumbed", {}),
    "weighed": ("weighed", {}),
    "dequantized": ("dequantized", {}),
    "rescaled_rows": ("rescaled_rows", {}),
    "spaced": ("spaced", {}),
    "joined": ("joined", {}),
    "foreseen": ("foreseen", {}),
    "with_bias": ("with_bias", {}),
    "graded": ("graded", {}),
    "veiled": ("veiled", {}),
}
"""Which kernels are compiled, with what changed in the table above."""
