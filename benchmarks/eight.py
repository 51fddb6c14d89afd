# pyright: basic, reportArgumentType=false, reportMissingImports=false
"""Loops of about 180 operations, for benchmarks/speed.py: attention forward with eight query sub-tiles that
share every key and value, and backward with eight blocks of queries in each step.

    twill extract benchmarks/eight.py:fa_fwd_eight --arch sm100 > benchmarks/fa_fwd_eight.sm100.ttgir
    twill extract benchmarks/eight.py:fa_bwd_eight --arch sm100 > benchmarks/fa_bwd_eight.sm100.ttgir

With a node for every operation (--no-rule); tiles are so small that eight fit tensor memory.
"""

import sys
from pathlib import Path

import triton
import triton.language as tl

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))
sys.path.insert(0, str(Path(__file__).resolve().parent))
from four import clip
from kernels import BACKWARD, FORWARD, LOG2_E, softmax_step, store_rows, weights_and_slopes


@triton.jit
def fa_fwd_eight(
    q, k, v, o, lse, bias, scale, heads, length,
    HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    """o = softmax(clip(q @ k.T) * scale + bias) @ v for eight tiles of BLOCK_M queries of one head."""
    rows = heads * length
    q_desc = tl.make_tensor_descriptor(q, [rows, HEAD_DIM], [HEAD_DIM, 1], [BLOCK_M, HEAD_DIM])
    k_desc = tl.make_tensor_descriptor(k, [rows, HEAD_DIM], [HEAD_DIM, 1], [BLOCK_N, HEAD_DIM])
    v_desc = tl.make_tensor_descriptor(v, [rows, HEAD_DIM], [HEAD_DIM, 1], [BLOCK_N, HEAD_DIM])
    o_desc = tl.make_tensor_descriptor(o, [rows, HEAD_DIM], [HEAD_DIM, 1], [BLOCK_M, HEAD_DIM])
    first_key = tl.program_id(1) * length
    row = first_key + tl.program_id(0) * (8 * BLOCK_M)
    scale2 = scale * LOG2_E

    acc = tl.zeros([BLOCK_M, HEAD_DIM], tl.float32)
    highest = tl.full([BLOCK_M], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    x0 = q_desc.load([row + 0 * BLOCK_M, 0])
    x1 = q_desc.load([row + 1 * BLOCK_M, 0])
    x2 = q_desc.load([row + 2 * BLOCK_M, 0])
    x3 = q_desc.load([row + 3 * BLOCK_M, 0])
    x4 = q_desc.load([row + 4 * BLOCK_M, 0])
    x5 = q_desc.load([row + 5 * BLOCK_M, 0])
    x6 = q_desc.load([row + 6 * BLOCK_M, 0])
    x7 = q_desc.load([row + 7 * BLOCK_M, 0])
    acc0, acc1, acc2, acc3, acc4, acc5, acc6, acc7 = acc, acc, acc, acc, acc, acc, acc, acc
    highest0, highest1, highest2, highest3, highest4, highest5, highest6, highest7 = (
        highest,
        highest,
        highest,
        highest,
        highest,
        highest,
        highest,
        highest,
    )
    total0, total1, total2, total3, total4, total5, total6, total7 = (
        total,
        total,
        total,
        total,
        total,
        total,
        total,
        total,
    )
    for start in range(0, length, BLOCK_N):
        y = k_desc.load([first_key + start, 0])
        added = tl.load(bias + start + tl.arange(0, BLOCK_N))
        scores0 = tl.dot(x0, y.T)
        scores1 = tl.dot(x1, y.T)
        scores2 = tl.dot(x2, y.T)
        scores3 = tl.dot(x3, y.T)
        scores4 = tl.dot(x4, y.T)
        scores5 = tl.dot(x5, y.T)
        scores6 = tl.dot(x6, y.T)
        scores7 = tl.dot(x7, y.T)
        weights0, shrink0, highest0, total0 = softmax_step(clip(scores0, added), highest0, total0, scale2)
        weights1, shrink1, highest1, total1 = softmax_step(clip(scores1, added), highest1, total1, scale2)
        weights2, shrink2, highest2, total2 = softmax_step(clip(scores2, added), highest2, total2, scale2)
        weights3, shrink3, highest3, total3 = softmax_step(clip(scores3, added), highest3, total3, scale2)
        weights4, shrink4, highest4, total4 = softmax_step(clip(scores4, added), highest4, total4, scale2)
        weights5, shrink5, highest5, total5 = softmax_step(clip(scores5, added), highest5, total5, scale2)
        weights6, shrink6, highest6, total6 = softmax_step(clip(scores6, added), highest6, total6, scale2)
        weights7, shrink7, highest7, total7 = softmax_step(clip(scores7, added), highest7, total7, scale2)
        z = v_desc.load([first_key + start, 0])
        acc0 = tl.dot(weights0.to(z.dtype), z, acc0 * shrink0[:, None])
        acc1 = tl.dot(weights1.to(z.dtype), z, acc1 * shrink1[:, None])
        acc2 = tl.dot(weights2.to(z.dtype), z, acc2 * shrink2[:, None])
        acc3 = tl.dot(weights3.to(z.dtype), z, acc3 * shrink3[:, None])
        acc4 = tl.dot(weights4.to(z.dtype), z, acc4 * shrink4[:, None])
        acc5 = tl.dot(weights5.to(z.dtype), z, acc5 * shrink5[:, None])
        acc6 = tl.dot(weights6.to(z.dtype), z, acc6 * shrink6[:, None])
        acc7 = tl.dot(weights7.to(z.dtype), z, acc7 * shrink7[:, None])
    store_rows(o_desc, lse, row + 0 * BLOCK_M, acc0, highest0, total0, BLOCK_M)
    store_rows(o_desc, lse, row + 1 * BLOCK_M, acc1, highest1, total1, BLOCK_M)
    store_rows(o_desc, lse, row + 2 * BLOCK_M, acc2, highest2, total2, BLOCK_M)
    store_rows(o_desc, lse, row + 3 * BLOCK_M, acc3, highest3, total3, BLOCK_M)
    store_rows(o_desc, lse, row + 4 * BLOCK_M, acc4, highest4, total4, BLOCK_M)
    store_rows(o_desc, lse, row + 5 * BLOCK_M, acc5, highest5, total5, BLOCK_M)
    store_rows(o_desc, lse, row + 6 * BLOCK_M, acc6, highest6, total6, BLOCK_M)
    store_rows(o_desc, lse, row + 7 * BLOCK_M, acc7, highest7, total7, BLOCK_M)


@triton.jit
def fa_bwd_eight(
    q, k, v, do, dq, dk, dv, lse, delta, scale, heads, length,
    HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    """As the example `fa_bwd`, with eight blocks of BLOCK_M queries in each step."""
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
    for start in range(0, length, 8 * BLOCK_M):
        row = first_query + start
        x0 = q_desc.load([row + 0 * BLOCK_M, 0])
        g0 = do_desc.load([row + 0 * BLOCK_M, 0])
        x1 = q_desc.load([row + 1 * BLOCK_M, 0])
        g1 = do_desc.load([row + 1 * BLOCK_M, 0])
        x2 = q_desc.load([row + 2 * BLOCK_M, 0])
        g2 = do_desc.load([row + 2 * BLOCK_M, 0])
        x3 = q_desc.load([row + 3 * BLOCK_M, 0])
        g3 = do_desc.load([row + 3 * BLOCK_M, 0])
        x4 = q_desc.load([row + 4 * BLOCK_M, 0])
        g4 = do_desc.load([row + 4 * BLOCK_M, 0])
        x5 = q_desc.load([row + 5 * BLOCK_M, 0])
        g5 = do_desc.load([row + 5 * BLOCK_M, 0])
        x6 = q_desc.load([row + 6 * BLOCK_M, 0])
        g6 = do_desc.load([row + 6 * BLOCK_M, 0])
        x7 = q_desc.load([row + 7 * BLOCK_M, 0])
        g7 = do_desc.load([row + 7 * BLOCK_M, 0])
        weights0, slopes0 = weights_and_slopes(y, z, x0, g0, lse, delta, row + 0 * BLOCK_M, scale2, BLOCK_M)
        weights1, slopes1 = weights_and_slopes(y, z, x1, g1, lse, delta, row + 1 * BLOCK_M, scale2, BLOCK_M)
        weights2, slopes2 = weights_and_slopes(y, z, x2, g2, lse, delta, row + 2 * BLOCK_M, scale2, BLOCK_M)
        weights3, slopes3 = weights_and_slopes(y, z, x3, g3, lse, delta, row + 3 * BLOCK_M, scale2, BLOCK_M)
        weights4, slopes4 = weights_and_slopes(y, z, x4, g4, lse, delta, row + 4 * BLOCK_M, scale2, BLOCK_M)
        weights5, slopes5 = weights_and_slopes(y, z, x5, g5, lse, delta, row + 5 * BLOCK_M, scale2, BLOCK_M)
        weights6, slopes6 = weights_and_slopes(y, z, x6, g6, lse, delta, row + 6 * BLOCK_M, scale2, BLOCK_M)
        weights7, slopes7 = weights_and_slopes(y, z, x7, g7, lse, delta, row + 7 * BLOCK_M, scale2, BLOCK_M)
        dz = tl.dot(weights0, g0, dz)
        dz = tl.dot(weights1, g1, dz)
        dz = tl.dot(weights2, g2, dz)
        dz = tl.dot(weights3, g3, dz)
        dz = tl.dot(weights4, g4, dz)
        dz = tl.dot(weights5, g5, dz)
        dz = tl.dot(weights6, g6, dz)
        dz = tl.dot(weights7, g7, dz)
        dy = tl.dot(slopes0, x0, dy)
        dy = tl.dot(slopes1, x1, dy)
        dy = tl.dot(slopes2, x2, dy)
        dy = tl.dot(slopes3, x3, dy)
        dy = tl.dot(slopes4, x4, dy)
        dy = tl.dot(slopes5, x5, dy)
        dy = tl.dot(slopes6, x6, dy)
        dy = tl.dot(slopes7, x7, dy)
        dq_desc.atomic_add([row + 0 * BLOCK_M, 0], tl.dot(slopes0.T, y))
        dq_desc.atomic_add([row + 1 * BLOCK_M, 0], tl.dot(slopes1.T, y))
        dq_desc.atomic_add([row + 2 * BLOCK_M, 0], tl.dot(slopes2.T, y))
        dq_desc.atomic_add([row + 3 * BLOCK_M, 0], tl.dot(slopes3.T, y))
        dq_desc.atomic_add([row + 4 * BLOCK_M, 0], tl.dot(slopes4.T, y))
        dq_desc.atomic_add([row + 5 * BLOCK_M, 0], tl.dot(slopes5.T, y))
        dq_desc.atomic_add([row + 6 * BLOCK_M, 0], tl.dot(slopes6.T, y))
        dq_desc.atomic_add([row + 7 * BLOCK_M, 0], tl.dot(slopes7.T, y))
    dv_desc.store([key, 0], dz.to(dv.dtype.element_ty))
    dk_desc.store([key, 0], (dy * scale).to(dk.dtype.element_ty))


TILES = {"BLOCK_M": 64, "num_warps": 4}
TWILL = {
    "fa_fwd_eight": {**FORWARD, "bias": "*fp32:16", **TILES, "HEAD_DIM": 32, "BLOCK_N": 32},
    "fa_bwd_eight": {**BACKWARD, **TILES, "HEAD_DIM": 64, "BLOCK_N": 64},
}
