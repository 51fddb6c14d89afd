# pyright: basic, reportArgumentType=false, reportAssignmentType=false, reportAttributeAccessIssue=false
# pyright: reportCallIssue=false, reportGeneralTypeIssues=false, reportIndexIssue=false, reportOptionalSubscript=false
"""Kernels in Gluon, whose PTX for sm_100a and sm_103a the machine is tried on: CTA pairs, copies into tensor
memory, cluster launch control. Triton compiles them with no GPU."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.blackwell import (
    TensorMemoryLayout,
    TensorMemoryScalesLayout,
    allocate_tensor_memory,
    clc,
    fence_async_shared,
    mbarrier,
    tcgen05_commit,
    tcgen05_copy,
    tcgen05_mma,
    tcgen05_mma_scaled,
    tma,
)


@gluon.jit
def pair_gemm(a, b, c, M: gl.constexpr, N: gl.constexpr, K: gl.constexpr):
    """One tile of M x N by a pair of CTAs: each holds half of A's rows and half of B's columns."""
    across: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0], [[1, 0]])
    along: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0], [[0, 1]])
    a_shared: gl.constexpr = gl.NVMMASharedLayout(128, 16, 2, cga_layout=[[1, 0]])
    b_shared: gl.constexpr = gl.NVMMASharedLayout(128, 16, 2, cga_layout=[[0, 1]])
    layout: gl.constexpr = TensorMemoryLayout((M // 2, N), 1, cga_layout=[[1, 0]], two_ctas=True)
    am, ak = gl.arange(0, M, gl.SliceLayout(1, across)), gl.arange(0, K, gl.SliceLayout(0, across))
    bk, bn = gl.arange(0, K, gl.SliceLayout(1, along)), gl.arange(0, N, gl.SliceLayout(0, along))
    left = gl.allocate_shared_memory(a.dtype.element_ty, [M, K], a_shared)
    right = gl.allocate_shared_memory(b.dtype.element_ty, [K, N], b_shared)
    left.store(gl.load(a + am[:, None] * K + ak[None, :]))
    right.store(gl.load(b + bk[:, None] * N + bn[None, :]))
    sums = allocate_tensor_memory(gl.float32, [M, N], layout)
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    fence_async_shared(cluster=True)
    gl.nvidia.hopper.cluster.barrier()
    tcgen05_mma(left, right, sums, use_acc=False, mbarriers=[bar])
    mbarrier.wait(bar, 0)
    found = gl.convert_layout(sums.load(), across)
    mbarrier.invalidate(bar)
    cn = gl.arange(0, N, gl.SliceLayout(0, across))
    gl.store(c + am[:, None] * N + cn[None, :], found)


@gluon.jit
def loaded_by_pairs(a, b, c, M: gl.constexpr, N: gl.constexpr, K: gl.constexpr, BK: gl.constexpr):
    """One tile of M x N by a pair of CTAs, step after step along K: loads of both arrive on the mbarrier of
    the first, whose MMA then arrives on one of each."""
    across: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0], [[1, 0]])
    a_shared: gl.constexpr = gl.NVMMASharedLayout(128, 16, 2, cga_layout=[[1, 0]])
    b_shared: gl.constexpr = gl.NVMMASharedLayout(128, 16, 2, cga_layout=[[0, 1]])
    layout: gl.constexpr = TensorMemoryLayout((M // 2, N), 1, cga_layout=[[1, 0]], two_ctas=True)
    a_desc = tma.make_tensor_descriptor(a, [M, K], [K, 1], [M, BK], a_shared)
    b_desc = tma.make_tensor_descriptor(b, [K, N], [N, 1], [BK, N], b_shared)
    left = gl.allocate_shared_memory(a.dtype.element_ty, [M, BK], a_shared)
    right = gl.allocate_shared_memory(b.dtype.element_ty, [BK, N], b_shared)
    sums = allocate_tensor_memory(gl.float32, [M, N], layout)
    full, done = mbarrier.allocate_mbarrier(two_ctas=True), mbarrier.allocate_mbarrier()
    mbarrier.init(full, count=1)
    mbarrier.init(done, count=1)
    gl.nvidia.hopper.cluster.barrier()
    for step in range(K // BK):
        mbarrier.expect(full, a_desc.nbytes_per_cta + b_desc.nbytes_per_cta)
        tma.async_load(a_desc, [0, step * BK], full, left)
        tma.async_load(b_desc, [step * BK, 0], full, right)
        mbarrier.wait(full, step & 1)
        tcgen05_mma(left, right, sums, use_acc=step > 0, mbarriers=[done])
        mbarrier.wait(done, step & 1)
    found = gl.convert_layout(sums.load(), across)
    mbarrier.invalidate(full)
    mbarrier.invalidate(done)
    m, n = gl.arange(0, M, gl.SliceLayout(1, across)), gl.arange(0, N, gl.SliceLayout(0, across))
    gl.store(c + m[:, None] * N + n[None, :], found)


@gluon.jit
def added_to(x, y, M: gl.constexpr, N: gl.constexpr):
    """y += x, by one TMA reduction."""
    layout: gl.constexpr = gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0])
    shared: gl.constexpr = gl.NVMMASharedLayout(128, 32, 2)
    m, n = gl.arange(0, M, gl.SliceLayout(1, layout)), gl.arange(0, N, gl.SliceLayout(0, layout))
    to = tma.make_tensor_descriptor(y, [M, N], [N, 1], [M, N], shared)
    tile = gl.allocate_shared_memory(gl.float32, [M, N], shared)
    tile.store(gl.load(x + m[:, None] * N + n[None, :]))
    fence_async_shared()
    tma.async_atomic_add(to, [0, 0], tile)
    tma.store_wait(0)


@gluon.jit
def handed_over(x, y, BLOCK: gl.constexpr):
    """y = x, after the first CTA of a pair has arrived on the mbarriers of both."""
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0], [[1]])
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    gl.nvidia.hopper.cluster.barrier()
    at = gl.arange(0, BLOCK, layout)
    for step in range(3):
        mbarrier.arrive(bar, from_cta=0)
        mbarrier.wait(bar, step & 1)
        gl.store(y + step * BLOCK + at, gl.load(x + step * BLOCK + at))
        gl.nvidia.hopper.cluster.barrier()
    mbarrier.invalidate(bar)


@gluon.jit
def taken_over(x, y, BLOCK: gl.constexpr):
    """y = x + 1 by blocks; a running CTA takes the blocks of CTAs that have not started."""
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    response = gl.allocate_shared_memory(gl.int64, [2], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    at = gl.arange(0, BLOCK, layout)
    block = gl.program_id(0)
    phase = 0
    more = True
    while more:
        mbarrier.expect(bar, 16)
        clc.try_cancel(response, bar)
        gl.store(y + block * BLOCK + at, gl.load(x + block * BLOCK + at) + 1)
        mbarrier.wait(bar, phase)
        phase ^= 1
        found = clc.load_result(response)
        more = found.is_canceled()
        if more:
            block = found.program_id(0)
    mbarrier.invalidate(bar)


@gluon.jit
def copied_scales(a, a_scales, b, b_scales, c, M: gl.constexpr, N: gl.constexpr, K: gl.constexpr):
    """One tile of an mxfp8 GEMM whose scale factors go through shared memory to tensor memory."""
    layout: gl.constexpr = gl.BlockedLayout([1, 16], [8, 4], [4, 1], [1, 0])
    flat: gl.constexpr = gl.BlockedLayout([1, 1, 1, 1, 4], [1, 1, 32, 1, 1], [1, 1, 1, 4, 1], [4, 3, 2, 1, 0])
    shared: gl.constexpr = gl.NVMMASharedLayout(128, 8, 2)
    plain: gl.constexpr = gl.NVMMASharedLayout(0, 8, 5)
    m, n = gl.arange(0, M, gl.SliceLayout(1, layout)), gl.arange(0, N, gl.SliceLayout(1, layout))
    k = gl.arange(0, K, gl.SliceLayout(0, layout))
    left = gl.allocate_shared_memory(gl.float8e4nv, [M, K], shared)
    right = gl.allocate_shared_memory(gl.float8e4nv, [N, K], shared)
    left.store(gl.load(a + m[:, None] * K + k[None, :]))
    right.store(gl.load(b + n[:, None] * K + k[None, :]))
    left_scales = staged(a_scales, M, K, flat, plain)
    right_scales = staged(b_scales, N, K, flat, plain)
    scales_layout: gl.constexpr = TensorMemoryScalesLayout()
    left_memory = allocate_tensor_memory(gl.uint8, [M, K // 32], scales_layout)
    right_memory = allocate_tensor_memory(gl.uint8, [N, K // 32], scales_layout)
    sums = allocate_tensor_memory(gl.float32, [M, N], TensorMemoryLayout((M, N), 1))
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    fence_async_shared()
    gl.barrier()
    tcgen05_copy(left_scales, left_memory)
    tcgen05_copy(right_scales, right_memory)
    tcgen05_mma_scaled(
        left, right.permute((1, 0)), sums, left_memory, right_memory, "e4m3", "e4m3", use_acc=False
    )
    tcgen05_commit(bar)
    mbarrier.wait(bar, 0)
    mbarrier.invalidate(bar)
    found = gl.convert_layout(sums.load(), layout)
    cn = gl.arange(0, N, gl.SliceLayout(0, layout))
    gl.store(c + m[:, None] * N + cn[None, :], found)


@gluon.jit
def pair_scaled(a, a_scales, b, b_scales, c, M: gl.constexpr, N: gl.constexpr, K: gl.constexpr):
    """One tile of an mxfp8 GEMM by a pair of CTAs: each has the scale factors of its rows, and all of B's."""
    across: gl.constexpr = gl.BlockedLayout([1, 16], [8, 4], [4, 1], [1, 0], [[1, 0]])
    flat: gl.constexpr = gl.BlockedLayout(
        [1, 1, 1, 1, 4], [1, 1, 32, 1, 1], [1, 1, 1, 4, 1], [4, 3, 2, 1, 0], [[1, 0, 0, 0, 0]]
    )
    whole: gl.constexpr = gl.BlockedLayout(
        [1, 1, 1, 1, 4], [1, 1, 32, 1, 1], [1, 1, 1, 4, 1], [4, 3, 2, 1, 0], [[0, 0, 0, 0, 0]]
    )
    shared: gl.constexpr = gl.NVMMASharedLayout(128, 8, 2, cga_layout=[[1, 0]])
    m, n = gl.arange(0, M, gl.SliceLayout(1, across)), gl.arange(0, N, gl.SliceLayout(1, across))
    k = gl.arange(0, K, gl.SliceLayout(0, across))
    left = gl.allocate_shared_memory(gl.float8e4nv, [M, K], shared)
    right = gl.allocate_shared_memory(gl.float8e4nv, [N, K], shared)
    left.store(gl.load(a + m[:, None] * K + k[None, :]))
    right.store(gl.load(b + n[:, None] * K + k[None, :]))
    left_scales = staged(
        a_scales, M, K, flat, gl.NVMMASharedLayout(0, 8, 5, cga_layout=[[1, 0, 0, 0, 0]]), [[1]]
    )
    right_scales = staged(
        b_scales, N, K, whole, gl.NVMMASharedLayout(0, 8, 5, cga_layout=[[0, 0, 0, 0, 0]]), [[0]]
    )
    left_memory = allocate_tensor_memory(gl.uint8, [M, K // 32], TensorMemoryScalesLayout([[1, 0]]))
    right_memory = allocate_tensor_memory(gl.uint8, [N, K // 32], TensorMemoryScalesLayout([[0, 0]]))
    layout: gl.constexpr = TensorMemoryLayout((M // 2, N), 1, cga_layout=[[1, 0]], two_ctas=True)
    sums = allocate_tensor_memory(gl.float32, [M, N], layout)
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    fence_async_shared(cluster=True)
    gl.nvidia.hopper.cluster.barrier()
    tcgen05_copy(left_scales, left_memory)
    tcgen05_copy(right_scales, right_memory)
    tcgen05_mma_scaled(
        left, right.permute((1, 0)), sums, left_memory, right_memory, "e4m3", "e4m3", use_acc=False,
        mbarriers=[bar],
    )  # fmt: skip
    mbarrier.wait(bar, 0)
    mbarrier.invalidate(bar)
    found = gl.convert_layout(sums.load(), across)
    cn = gl.arange(0, N, gl.SliceLayout(0, across))
    gl.store(c + m[:, None] * N + cn[None, :], found)


@gluon.jit
def staged(
    scales,
    rows: gl.constexpr,
    K: gl.constexpr,
    layout: gl.constexpr,
    shared: gl.constexpr,
    ctas: gl.constexpr = (),
):
    """Scale factors (rows / 128, K / 128, 32, 4, 4) as they lie in memory, in shared memory as (rows, K /
    32)."""
    count: gl.constexpr = rows * K // 32
    at = gl.arange(0, count, gl.BlockedLayout([4], [32], [4], [0], ctas))
    held = gl.load(scales + at).reshape(rows // 128, K // 128, 32, 4, 4)
    tile = gl.allocate_shared_memory(gl.uint8, [rows // 128, K // 128, 32, 4, 4], shared)
    tile.store(gl.convert_layout(held, layout))
    return tile.reshape((rows // 128, K // 128, 32, 4, 4)).permute((0, 3, 2, 1, 4)).reshape((rows, K // 32))


@gluon.jit
def through_tensor_memory(
    x, y, M: gl.constexpr, N: gl.constexpr, STRIDE: gl.constexpr, VARIANT: gl.constexpr
):
    """y = x, stored to tensor memory in one shape and loaded in another."""
    layout: gl.constexpr = gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0])
    m, n = gl.arange(0, M, gl.SliceLayout(1, layout)), gl.arange(0, N, gl.SliceLayout(0, layout))
    held = allocate_tensor_memory(x.dtype.element_ty, [M, N], TensorMemoryLayout((M, N), STRIDE))
    values = gl.load(x + m[:, None] * N + n[None, :])
    held.store(gl.convert_layout(values, held.get_reg_layout()))
    found = held.load(held.get_reg_layout(instr_variant=VARIANT))
    held.store(found + 1)
    gl.store(y + m[:, None] * N + n[None, :], gl.convert_layout(held.load(), layout))


@gluon.jit
def highest_of_rows(x, y, M: gl.constexpr, N: gl.constexpr):
    """Each row's highest number, found while it is loaded from tensor memory."""
    layout: gl.constexpr = gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0])
    m, n = gl.arange(0, M, gl.SliceLayout(1, layout)), gl.arange(0, N, gl.SliceLayout(0, layout))
    held = allocate_tensor_memory(gl.float32, [M, N], TensorMemoryLayout((M, N), 1))
    held.store(gl.convert_layout(gl.load(x + m[:, None] * N + n[None, :]), held.get_reg_layout()))
    _, highest = held.load_max()
    gl.store(y + m, gl.convert_layout(highest, gl.SliceLayout(1, layout)))


@gluon.jit
def copied(x, y, M: gl.constexpr, N: gl.constexpr, SWIZZLE: gl.constexpr):
    """y = x, through shared memory and a copy to tensor memory."""
    layout: gl.constexpr = gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0])
    m, n = gl.arange(0, M, gl.SliceLayout(1, layout)), gl.arange(0, N, gl.SliceLayout(0, layout))
    tile = gl.allocate_shared_memory(gl.float32, [M, N], gl.NVMMASharedLayout(SWIZZLE, 32, 2))
    tile.store(gl.load(x + m[:, None] * N + n[None, :]))
    held = allocate_tensor_memory(gl.float32, [M, N], TensorMemoryLayout((M, N), 1))
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    fence_async_shared()
    gl.barrier()
    tcgen05_copy(tile, held)
    tcgen05_commit(bar)
    mbarrier.wait(bar, 0)
    mbarrier.invalidate(bar)
    gl.store(y + m[:, None] * N + n[None, :], gl.convert_layout(held.load(), layout))
