# pyright: basic, reportArgumentType=false, reportMissingImports=false, reportGeneralTypeIssues=false, reportAssignmentType=false
"""Loops larger than any example, for benchmarks/speed.py: attention forward with four and eight query
sub-tiles that share every key and value, scores clipped and biased by key; and backward with eight blocks of
queries in each step.

    twill extract benchmarks/many_tiles.py:fa_fwd_four --arch sm100 > benchmarks/fa_fwd_four.sm100.ttgir
    twill extract benchmarks/many_tiles.py:fa_fwd_eight --arch sm100 > benchmarks/fa_fwd_eight.sm100.ttgir
    twill extract benchmarks/many_tiles.py:fa_bwd_eight --arch sm100 > benchmarks/fa_bwd_eight.sm100.ttgir

With a node for every operation (--no-rule) there are about 90 and 180; tiles are so small that all fit tensor
memory.
"""

import sys
from pathlib import Path

import triton
import triton.language as tl

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))
from kernels import BACKWARD, FORWARD, LOG2_E, softmax_step, store_rows, weights_and_slopes

CLIP = tl.constexpr(1024.0)


@triton.jit
def by_rows(tensor, rows, HEAD_DIM: tl.constexpr, BLOCK: tl.constexpr):
    """The descriptor of blocks of rows of all heads."""
    return tl.make_tensor_descriptor(tensor, [rows, HEAD_DIM], [HEAD_DIM, 1], [BLOCK, HEAD_DIM])


@triton.jit
def clip(scores, added):
    """Scores within +-CLIP, and a bias for every key."""
    return tl.minimum(tl.maximum(scores, -CLIP), CLIP) + added[None, :]


@triton.jit
def forward(
    q, k, v, o, lse, bias, scale, heads, length,
    HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, TILES: tl.constexpr
):  # fmt: skip
    """o = softmax(clip(q @ k.T) * scale + bias) @ v for TILES tiles of BLOCK_M queries of one head."""
    rows = heads * length
    q_desc = by_rows(q, rows, HEAD_DIM, BLOCK_M)
    k_desc = by_rows(k, rows, HEAD_DIM, BLOCK_N)
    v_desc = by_rows(v, rows, HEAD_DIM, BLOCK_N)
    o_desc = by_rows(o, rows, HEAD_DIM, BLOCK_M)
    first_key = tl.program_id(1) * length
    row = first_key + tl.program_id(0) * (TILES * BLOCK_M)
    scale2 = scale * LOG2_E

    x, acc, highest, total = (), (), (), ()
    for i in tl.static_range(TILES):
        x += (q_desc.load([row + i * BLOCK_M, 0]),)
        acc += (tl.zeros([BLOCK_M, HEAD_DIM], tl.float32),)
        highest += (tl.full([BLOCK_M], float("-inf"), tl.float32),)
        total += (tl.zeros([BLOCK_M], tl.float32),)
    for start in range(0, length, BLOCK_N):
        y = k_desc.load([first_key + start, 0])
        added = tl.load(bias + start + tl.arange(0, BLOCK_N))
        scores, steps, sums = (), (), ()
        for i in tl.static_range(TILES):
            scores += (tl.dot(x[i], y.T),)
        for i in tl.static_range(TILES):
            steps += (softmax_step(clip(scores[i], added), highest[i], total[i], scale2),)
        z = v_desc.load([first_key + start, 0])
        highest, total = (), ()
        for i in tl.static_range(TILES):
            weights, shrink, raised, summed = steps[i]
            sums += (tl.dot(weights.to(z.dtype), z, acc[i] * shrink[:, None]),)
            highest += (raised,)
            total += (summed,)
        acc = sums
    for i in tl.static_range(TILES):
        store_rows(o_desc, lse, row + i * BLOCK_M, acc[i], highest[i], total[i], BLOCK_M)


@triton.jit
def fa_fwd_four(
    q, k, v, o, lse, bias, scale, heads, length,
    HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    forward(q, k, v, o, lse, bias, scale, heads, length, HEAD_DIM, BLOCK_M, BLOCK_N, 4)


@triton.jit
def fa_fwd_eight(
    q, k, v, o, lse, bias, scale, heads, length,
    HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    forward(q, k, v, o, lse, bias, scale, heads, length, HEAD_DIM, BLOCK_M, BLOCK_N, 8)


@triton.jit
def fa_bwd_eight(
    q, k, v, do, dq, dk, dv, lse, delta, scale, heads, length,
    HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    """As the example `fa_bwd`, with eight blocks of BLOCK_M queries in each step."""
    rows = heads * length
    q_desc = by_rows(q, rows, HEAD_DIM, BLOCK_M)
    k_desc = by_rows(k, rows, HEAD_DIM, BLOCK_N)
    v_desc = by_rows(v, rows, HEAD_DIM, BLOCK_N)
    do_desc = by_rows(do, rows, HEAD_DIM, BLOCK_M)
    dq_desc = by_rows(dq, rows, HEAD_DIM, BLOCK_M)
    dk_desc = by_rows(dk, rows, HEAD_DIM, BLOCK_N)
    dv_desc = by_rows(dv, rows, HEAD_DIM, BLOCK_N)
    first_query = tl.program_id(1) * length
    key = first_query + tl.program_id(0) * BLOCK_N
    scale2 = scale * LOG2_E

    y = k_desc.load([key, 0])
    z = v_desc.load([key, 0])
    dy = tl.zeros([BLOCK_N, HEAD_DIM], tl.float32)
    dz = tl.zeros([BLOCK_N, HEAD_DIM], tl.float32)
    for start in range(0, length, 8 * BLOCK_M):
        row = first_query + start
        x, g, both = (), (), ()
        for i in tl.static_range(8):
            x += (q_desc.load([row + i * BLOCK_M, 0]),)
            g += (do_desc.load([row + i * BLOCK_M, 0]),)
        for i in tl.static_range(8):
            both += (weights_and_slopes(y, z, x[i], g[i], lse, delta, row + i * BLOCK_M, scale2, BLOCK_M),)
        for i in tl.static_range(8):
            dz = tl.dot(both[i][0], g[i], dz)
        for i in tl.static_range(8):
            dy = tl.dot(both[i][1], x[i], dy)
        for i in tl.static_range(8):
            dq_desc.atomic_add([row + i * BLOCK_M, 0], tl.dot(both[i][1].T, y))
    dv_desc.store([key, 0], dz.to(dv.dtype.element_ty))
    dk_desc.store([key, 0], (dy * scale).to(dk.dtype.element_ty))


FOUR = {"HEAD_DIM": 64, "BLOCK_M": 64, "BLOCK_N": 64, "num_warps": 4}
TWILL = {
    "fa_fwd_four": {**FORWARD, "bias": "*fp32:16", **FOUR},
    "fa_fwd_eight": {**FORWARD, "bias": "*fp32:16", **FOUR, "HEAD_DIM": 32, "BLOCK_N": 32},
    "fa_bwd_eight": {**BACKWARD, **FOUR},
}
