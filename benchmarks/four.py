# pyright: basic, reportArgumentType=false, reportMissingImports=false
"""A loop larger than any example, for benchmarks/speed.py: attention forward with four query sub-tiles that share every
key and value, scores clipped and biased by key.

    twill extract benchmarks/four.py:fa_fwd_four --arch sm100 > benchmarks/fa_fwd_four.sm100.ttgir

With a node for every operation (--no-rule) there are about 90; tiles and head dim are 64, so that four fit tensor memory.
"""

import sys
from pathlib import Path

import triton
import triton.language as tl

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))
from kernels import FORWARD, LOG2_E, softmax_step, store_rows

CLIP = tl.constexpr(1024.0)


@triton.jit
def clip(scores, added):
    """Scores within +-CLIP, and a bias for every key."""
    return tl.minimum(tl.maximum(scores, -CLIP), CLIP) + added[None, :]


@triton.jit
def fa_fwd_four(
    q, k, v, o, lse, bias, scale, heads, length, HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    """o = softmax(clip(q @ k.T) * scale + bias) @ v for four tiles of BLOCK_M queries of one head."""
    rows = heads * length
    q_desc = tl.make_tensor_descriptor(q, [rows, HEAD_DIM], [HEAD_DIM, 1], [BLOCK_M, HEAD_DIM])
    k_desc = tl.make_tensor_descriptor(k, [rows, HEAD_DIM], [HEAD_DIM, 1], [BLOCK_N, HEAD_DIM])
    v_desc = tl.make_tensor_descriptor(v, [rows, HEAD_DIM], [HEAD_DIM, 1], [BLOCK_N, HEAD_DIM])
    o_desc = tl.make_tensor_descriptor(o, [rows, HEAD_DIM], [HEAD_DIM, 1], [BLOCK_M, HEAD_DIM])
    first_key = tl.program_id(1) * length
    row = first_key + tl.program_id(0) * (4 * BLOCK_M)
    scale2 = scale * LOG2_E

    x0 = q_desc.load([row, 0])
    x1 = q_desc.load([row + BLOCK_M, 0])
    x2 = q_desc.load([row + 2 * BLOCK_M, 0])
    x3 = q_desc.load([row + 3 * BLOCK_M, 0])
    acc0 = tl.zeros([BLOCK_M, HEAD_DIM], tl.float32)
    acc1, acc2, acc3 = acc0, acc0, acc0
    highest0 = tl.full([BLOCK_M], float("-inf"), tl.float32)
    highest1, highest2, highest3 = highest0, highest0, highest0
    total0 = tl.zeros([BLOCK_M], tl.float32)
    total1, total2, total3 = total0, total0, total0
    for start in range(0, length, BLOCK_N):
        y = k_desc.load([first_key + start, 0])
        added = tl.load(bias + start + tl.arange(0, BLOCK_N))
        scores0 = tl.dot(x0, y.T)
        scores1 = tl.dot(x1, y.T)
        scores2 = tl.dot(x2, y.T)
        scores3 = tl.dot(x3, y.T)
        weights0, shrink0, highest0, total0 = softmax_step(clip(scores0, added), highest0, total0, scale2)
        weights1, shrink1, highest1, total1 = softmax_step(clip(scores1, added), highest1, total1, scale2)
        weights2, shrink2, highest2, total2 = softmax_step(clip(scores2, added), highest2, total2, scale2)
        weights3, shrink3, highest3, total3 = softmax_step(clip(scores3, added), highest3, total3, scale2)
        z = v_desc.load([first_key + start, 0])
        acc0 = tl.dot(weights0.to(z.dtype), z, acc0 * shrink0[:, None])
        acc1 = tl.dot(weights1.to(z.dtype), z, acc1 * shrink1[:, None])
        acc2 = tl.dot(weights2.to(z.dtype), z, acc2 * shrink2[:, None])
        acc3 = tl.dot(weights3.to(z.dtype), z, acc3 * shrink3[:, None])
    store_rows(o_desc, lse, row, acc0, highest0, total0, BLOCK_M)
    store_rows(o_desc, lse, row + BLOCK_M, acc1, highest1, total1, BLOCK_M)
    store_rows(o_desc, lse, row + 2 * BLOCK_M, acc2, highest2, total2, BLOCK_M)
    store_rows(o_desc, lse, row + 3 * BLOCK_M, acc3, highest3, total3, BLOCK_M)


TWILL = {"fa_fwd_four": {**FORWARD, "bias": "*fp32:16", "HEAD_DIM": 64, "BLOCK_M": 64, "BLOCK_N": 64, "num_warps": 4}}
