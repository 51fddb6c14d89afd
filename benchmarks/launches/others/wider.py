# pyright: basic, reportMissingImports=false
"""Launches of kernels whose projects have other kernels here: gradients of state space models, experts and
linear attention, and PyTorch's templates."""

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any

from benchmarks.launches.arrays import Array, Case, by, case, given, positive, ragged
from benchmarks.launches.others.changed import numbered, on, typed
from benchmarks.launches.others.chunks import Shape
from benchmarks.launches.others.everyday import down_projected, up_projected
from benchmarks.launches.others.states import VECTORS, in_sequences, of_steps, products
from benchmarks.launches.spaces import (
    BATCH,
    GROUPS,
    HEADS_OF,
    STATE,
    TOKENS,
    WIDTH_OF,
    chunk_scan,
    chunk_state,
    sequence,
    space,
    steps,
    tiled,
)


def both(full: Case, odd: Case) -> tuple[Case, Case]:
    return full, ragged(odd)


# --- gradients of state space models ------------------------------------------------------------------------

EACH = WIDTH_OF * STATE
"""Elements of a head's state."""


def of_chunks(chunk: int, tiles: int, heads: int = HEADS_OF) -> tuple[int, int, int]:
    return tiles, BATCH * ceil(TOKENS / chunk), heads


def states_of(chunk: int, name: str) -> dict[str, int]:
    return tiled(name, chunk, HEADS_OF, EACH) | {f"stride_{name}_hdim": STATE}


def every_state(chunk: int, begin: Any = 0.5) -> Array:
    return "f32", BATCH * ceil(TOKENS / chunk) * HEADS_OF * EACH, begin


def state_gradients(chunk: int, rows: int, columns: int) -> Case:
    """Of the states before each chunk."""
    return space(
        chunk,
        of_chunks(chunk, ceil(WIDTH_OF / rows) * ceil(STATE / columns)),
        {
            "nchunks": ceil(TOKENS / chunk),
            **sequence("dout", HEADS_OF, WIDTH_OF),
            **sequence("c", GROUPS, STATE),
        }
        | states_of(chunk, "dprev_states"),
        dout_ptr=("bf16", VECTORS, 0.5),
        c_ptr=("bf16", BATCH * TOKENS * GROUPS * STATE, 0.5),
        dprev_states_ptr=every_state(chunk, "zeros"),
    )


def decays_by_pairs(chunk: int, rows: int) -> Case:
    """Of the decays, for every row of tiles."""
    strides, cb = products(chunk)
    tiles = ceil(chunk / rows)
    made = tiled("ddA_cs", chunk, HEADS_OF, tiles * chunk) | {"stride_ddA_cs_csize_m": chunk}
    return space(
        chunk,
        of_chunks(chunk, tiles),
        {**strides, **made, **sequence("dout", HEADS_OF, WIDTH_OF)},
        dout_ptr=("bf16", VECTORS, 0.5),
        cb_ptr=cb,
        ddA_cumsum_ptr=of_steps(chunk, tiles),
    )


def decays_by_states(chunk: int, tile: int) -> Case:
    """Of the decays, by the states before each chunk."""
    return space(
        chunk,
        of_chunks(chunk, ceil(chunk / tile) * ceil(STATE / tile)),
        {
            "nchunks": ceil(TOKENS / chunk),
            **sequence("dout", HEADS_OF, WIDTH_OF),
            **sequence("C", GROUPS, STATE),
        }
        | states_of(chunk, "prev_states")
        | steps("ddA_cs", chunk),
        dout_ptr=("bf16", VECTORS, 0.5),
        prev_states_ptr=every_state(chunk),
        C_ptr=("bf16", BATCH * TOKENS * GROUPS * STATE, 0.5),
        ddA_cumsum_ptr=of_steps(chunk),
    )


def given_states(chunk: int) -> dict[str, int]:
    """The states' gradients; two of their strides have other names in some kernels."""
    named = states_of(chunk, "dstates")
    return named | {f"stride_states_{axis}": named[f"stride_dstates_{axis}"] for axis in ("head", "hdim")}


def inputs_by_states(chunk: int, rows: int, columns: int) -> Case:
    return space(
        chunk,
        of_chunks(chunk, ceil(chunk / rows) * ceil(WIDTH_OF / columns)),
        {
            **given_states(chunk),
            **sequence("dx", HEADS_OF, WIDTH_OF),
            **steps("ddt", chunk),
            **steps("ddA_cs", chunk),
        },
        dstates_ptr=every_state(chunk),
        dx_ptr=("bf16", VECTORS, "zeros"),
        ddt_ptr=of_steps(chunk),
        ddA_cumsum_ptr=of_steps(chunk),
    )


def b_by_states(chunk: int, tile: int) -> Case:
    """Half of a group's heads in a thread block."""
    split = 2 * GROUPS * STATE
    made = {"stride_db_batch": TOKENS * split, "stride_db_seqlen": split, "stride_db_split": GROUPS * STATE}
    counts = {"nheads": HEADS_OF, "nheads_per_program": HEADS_OF // GROUPS // 2, "ngroups": GROUPS}
    return space(
        chunk,
        of_chunks(chunk, ceil(chunk / tile) * ceil(STATE / tile), 2 * GROUPS),
        {**counts, **given_states(chunk), **made, "stride_db_group": STATE, **steps("ddA_cs", chunk)},
        dstates_ptr=every_state(chunk),
        db_ptr=("f32", BATCH * TOKENS * split, "zeros"),
        ddA_cumsum_ptr=of_steps(chunk),
    )


def decays_at_ends(chunk: int, columns: int) -> Case:
    return space(
        chunk,
        of_chunks(chunk, ceil(WIDTH_OF / columns)),
        {**given_states(chunk), **steps("ddA_cs", chunk)},
        dstates_ptr=every_state(chunk),
        ddA_cumsum_ptr=of_steps(chunk),
    )


def inputs_of_both(chunk: int, rows: int, columns: int) -> Case:
    """By what a chunk gives and by its state."""
    strides, cb = products(chunk)
    tiles = ceil(chunk / rows)
    numbers = {
        **strides,
        **given_states(chunk),
        **sequence("dout", HEADS_OF, WIDTH_OF),
        **steps("ddt", chunk),
    }
    chunks = BATCH * ceil(TOKENS / chunk)
    numbers |= sequence("dx", HEADS_OF, WIDTH_OF) | {"stride_D_head": 1, "stride_dD_head": 16}
    numbers |= {"stride_dD_batch": ceil(TOKENS / chunk) * tiles * HEADS_OF * 16}
    numbers |= {"stride_dD_chunk": tiles * HEADS_OF * 16, "stride_dD_csize": HEADS_OF * 16}
    return space(
        chunk,
        of_chunks(chunk, tiles * ceil(WIDTH_OF / columns)),
        numbers,
        dout_ptr=("bf16", VECTORS, 0.5),
        cb_ptr=cb,
        D_ptr=("f32", HEADS_OF, 0.5),
        dstates_ptr=every_state(chunk),
        dx_ptr=("bf16", VECTORS, "zeros"),
        ddt_ptr=of_steps(chunk),
        dD_ptr=("f32", chunks * tiles * HEADS_OF * 16, "zeros"),
    )


def b_of_products(chunk: int, rows: int, columns: int) -> Case:
    """Of the products of C and B in a chunk, added to what is there."""
    size = BATCH * TOKENS * GROUPS * STATE
    numbers = {"K": STATE, "ngroups": GROUPS, "stride_dout_csize_m": chunk}
    for name in ("a", "db", "res"):
        numbers |= sequence(name, GROUPS, STATE)
    return space(
        chunk,
        (ceil(chunk / rows) * ceil(STATE / columns), BATCH, ceil(TOKENS / chunk) * GROUPS),
        numbers | tiled("dout", chunk, GROUPS, chunk**2),
        a_ptr=("bf16", size, 0.5),
        dout_ptr=("f32", BATCH * ceil(TOKENS / chunk) * GROUPS * chunk**2, 0.5),
        db_ptr=("bf16", size, "zeros"),
        res_ptr=("bf16", size, 0.5),
    )


# --- gradients of experts -----------------------------------------------------------------------------------

HIDDEN, INNER, EXPERTS = 2048, 1408, 8


def down_gradient(tokens: int, columns: int = 128) -> Case:
    one = up_projected(tokens, columns=columns)
    kept = ("expert_start_ptr", "tile_row_start_ptr", "tile_expert_ptr", "x_gather_idx_ptr")
    return case(
        one["label"],
        one["grid"],
        {"stride_dO_T": HIDDEN, "stride_w_E": HIDDEN * INNER, "stride_w_H": INNER, "stride_pre_TK": 2 * INNER}
        | {"stride_d_pre_TK": 2 * INNER, "stride_wact_TK": INNER},
        **{name: one["arrays"][name] for name in kept},
        dO_ptr=("bf16", tokens * HIDDEN, 0.5),
        s_scatter_idx_ptr=("i32", tokens, given([row * 19 % tokens for row in range(tokens)])),
        topk_weights_ptr=("bf16", tokens, positive),
        down_proj_ptr=("bf16", EXPERTS * HIDDEN * INNER, 0.05),
        pre_act_ptr=("bf16", tokens * 2 * INNER, 0.5),
        d_pre_act_ptr=("bf16", tokens * 2 * INNER, "zeros"),
        weighted_act_ptr=("bf16", tokens * INNER, "zeros"),
        dS_ptr=("f32", tokens, "zeros"),
    )


def weight_gradient(tokens: int, down: bool, rows: int, columns: int) -> Case:
    """Of the second projection, or of the first."""
    one = up_projected(tokens)
    tall, wide = (HIDDEN, INNER) if down else (2 * INNER, HIDDEN)
    grid = EXPERTS * ceil(wide / rows), ceil(tall / columns)
    arrays = {name: one["arrays"][name] for name in ("expert_start_ptr", "x_gather_idx_ptr")}
    if down:
        numbers = {"stride_wact_TK": INNER, "stride_dout_T": HIDDEN, "stride_dW2_E": tall * wide}
        arrays["weighted_act_ptr"] = ("bf16", tokens * INNER, 0.5)
        arrays["dout_ptr"] = ("bf16", tokens * HIDDEN, 0.5)
        return case(
            one["label"],
            grid,
            numbers | {"stride_dW2_H": wide},
            **arrays,
            dW2_ptr=("bf16", EXPERTS * tall * wide, "zeros"),
        )
    numbers = {
        "stride_x_T": HIDDEN,
        "stride_d_pre_TK": tall,
        "stride_dW1_E": tall * wide,
        "stride_dW1_N": wide,
    }
    arrays["x_ptr"] = ("bf16", tokens * HIDDEN, 0.5)
    arrays["d_pre_act_ptr"] = ("bf16", tokens * tall, 0.5)
    return case(one["label"], grid, numbers, **arrays, dW1_ptr=("bf16", EXPERTS * tall * wide, "zeros"))


def token_gradient(tokens: int, columns: int = 128) -> Case:
    one = down_projected(tokens, columns=columns)
    kept = ("expert_start_ptr", "tile_row_start_ptr", "tile_expert_ptr")
    return case(
        one["label"],
        one["grid"],
        {
            "stride_d_pre_TK": 2 * INNER,
            "stride_w_E": 2 * INNER * HIDDEN,
            "stride_w_N": HIDDEN,
            "stride_dxe_TK": HIDDEN,
        },
        **{name: one["arrays"][name] for name in kept},
        d_pre_act_ptr=("bf16", tokens * 2 * INNER, 0.5),
        gate_up_proj_ptr=("bf16", EXPERTS * 2 * INNER * HIDDEN, 0.05),
        dx_expanded_ptr=("bf16", tokens * HIDDEN, "zeros"),
    )


# --- linear attention ---------------------------------------------------------------------------------------


def pairs(made: Any, **sizes: Any) -> tuple[Case, Case]:
    return both(made(Shape(4, 4096, **sizes)), made(Shape(2, 1000, **sizes)))


def between_parts(s: Shape) -> Case:
    arrays = {**s.keyed("q k"), **s.falling("g", s.keys), **s.square("A", "zeros", "f32")}
    return s.case((s.chunks, 16, s.pairs), arrays)


def matrix_gradient(s: Shape) -> Case:
    return s.case((s.chunks, s.pairs), s.valued("v do"), s.square("dA", "zeros", "f32"))


def value_gradient(s: Shape) -> Case:
    arrays = {**s.keyed("k"), **s.falling("g", s.keys), **s.square("A", 0.3, "f32"), **s.valued("do")}
    return s.case(
        (ceil(s.values / 64), s.chunks, s.pairs), arrays, s.states("dh", 0.3, "f32"), s.valued("dv", "zeros")
    )


def key_gradient(s: Shape) -> Case:
    arrays = {**s.keyed("q k"), **s.valued("v do"), **s.falling("g", s.keys), **s.states("h dh", 0.3, "f32")}
    given_before = s.keyed("dq dk", 0.3, "f32")
    return s.case(
        (ceil(s.keys / 32), s.chunks, s.pairs), arrays, given_before, s.keyed("dq2 dk2 dg", "zeros", "f32")
    )


def inner_gradient(s: Shape) -> Case:
    arrays = {**s.keyed("q k"), **s.falling("g", s.keys), **s.square("dA", 0.3, "f32")}
    return s.case((ceil(s.keys / 64) * 4, s.chunks, s.pairs), arrays, s.keyed("dq dk", "zeros", "f32"))


def state_backward(s: Shape) -> Case:
    arrays = {**s.keyed("q", 0.1), **s.falling("g"), **s.valued("do"), **s.states("dh", "zeros")}
    return s.case((ceil(s.keys / 64), ceil(s.values / 64), s.pairs), arrays)


def simple_value_gradient(s: Shape) -> Case:
    arrays = {
        **s.keyed("q k"),
        **s.falling("g"),
        **s.valued("do"),
        **s.states("dh"),
        **s.valued("dv", "zeros"),
    }
    return s.case((ceil(s.values / 64), s.chunks, s.pairs), arrays)


def local_value_gradient(s: Shape) -> Case:
    arrays = {**s.keyed("q k"), **s.falling("g"), **s.valued("do"), **s.valued("dv", "zeros")}
    return s.case((s.chunks, s.pairs), arrays)


def slots(s: Shape) -> Case:
    arrays = {**s.keyed("q k"), **s.states("h"), **s.falling("g", s.values)}
    return s.case(
        (1, s.chunks, s.pairs), arrays, s.valued("o", "zeros", "f32"), s.square("A", "zeros", "f32")
    )


def both_gradients(s: Shape) -> Case:
    arrays = {**s.keyed("q k"), **s.valued("v do"), **s.square("A"), **s.valued("dv", "zeros")}
    return s.case((s.chunks, s.pairs), arrays, s.square("dA", "zeros", "f32"))


def recomputed(s: Shape) -> Case:
    arrays = {**s.keyed("q k"), **s.valued("v"), **s.single("beta", positive, "bf16"), **s.square("A")}
    made = {**s.keyed("kg w", "zeros"), **s.valued("u", "zeros"), **s.falling("gk", s.keys)}
    return s.case((s.chunks, s.pairs), arrays, made)


def generalized_states(s: Shape) -> Case:
    arrays = {**s.keyed("kg w bg", 0.1), **s.valued("v u"), **s.falling("gk", s.keys)}
    return s.case((1, 1, s.pairs), arrays, s.valued("v_new", "zeros"), s.states("h", "zeros"))


def generalized_outputs(s: Shape) -> Case:
    arrays = {**s.keyed("qg"), **s.valued("v v_new"), **s.square("A_qk A_qb"), **s.states("h")}
    return s.case((1, s.chunks, s.pairs), arrays, s.valued("o", "zeros"))


def solved(s: Shape) -> Case:
    arrays = {**s.keyed("k", 0.1), **s.falling("g"), **s.single("beta", positive), **s.square("A", "zeros")}
    return s.case((s.chunks, s.pairs), arrays)


def query_gradient(batch: int, tokens: int) -> Case:
    """Of attention with four queries' heads for one of keys; the batch is a constant."""
    queries, keys = batch * tokens * 32, batch * tokens * 8
    return case(
        by(batch, tokens),
        (1, ceil(tokens / 128), batch * 32),
        {"scale": 0.125, "T": tokens},
        **dict.fromkeys(("q", "do"), ("bf16", queries * 64, 0.5)),
        **dict.fromkeys(("k", "v"), ("bf16", keys * 64, 0.5)),
        lse=("f32", queries, around_eight),
        delta=("f32", queries, 0.1),
        dq=("bf16", queries * 64, "zeros"),
    )


def around_eight(size: int) -> Any:
    """Logarithms of sums of exponents."""
    return positive(size) + 7.5


def diagonal(batch: int, tokens: int) -> Case:
    """Lightning attention inside of blocks of 256 tokens, of which a thread block has 32."""
    heads = batch * 16
    return case(
        by(batch, tokens),
        (heads * ceil(tokens / 256), 8),
        {"n": tokens, "NUM_BLOCK": ceil(tokens / 256)},
        **dict.fromkeys(("Q", "K", "V"), ("bf16", heads * tokens * 128, 0.3)),
        Out=("bf16", heads * tokens * 128, "zeros"),
        S=("f32", 16, 0.05),
    )


# --- PyTorch's templates ------------------------------------------------------------------------------------


def halves(count: int) -> dict[str, Array]:
    """For each block of rows or columns, how many blocks there are of a causal mask, and which: one on the
    diagonal; the others are full."""
    rows = range(count)
    before = [[*range(row), *range(row, count)] for row in rows]
    after = [[*range(row + 1, count), *range(row + 1)] for row in rows]
    flat = lambda lists: [one for row in lists for one in row]  # noqa: E731
    alone = [[row, *(one for one in rows if one != row)] for row in rows]
    return {
        "arg_KV_NUM_BLKS": ("i32", count, given([1] * count)),
        "arg_KV_IDX": ("i32", count**2, given(flat(alone))),
        "arg_Q_NUM_BLKS": ("i32", count, given([1] * count)),
        "arg_Q_IDX": ("i32", count**2, given(flat(alone))),
        "arg_FULL_KV_NUM_BLKS": ("i32", count, given(list(rows))),
        "arg_FULL_KV_IDX": ("i32", count**2, given(flat(before))),
        "arg_FULL_Q_NUM_BLKS": ("i32", count, given([count - 1 - row for row in rows])),
        "arg_FULL_Q_IDX": ("i32", count**2, given(flat(after))),
    }


def flexible_backward(batch: int, heads: int, few: int, width: int, columns: int, rows: int) -> Case:
    """4096 tokens. Blocks of keys come first, those of queries behind them."""
    tokens = 4096
    queries, keys = batch * heads * tokens, batch * few * tokens
    grid = tokens // columns + tokens // rows * (heads // few), batch, few
    return case(
        by(batch, heads, tokens),
        grid,
        {},
        **{f"arg_{name}": ("bf16", queries * width, 0.5) for name in ("Q", "DO")},
        **{f"arg_{name}": ("bf16", keys * width, 0.5) for name in ("K", "V")},
        arg_LSE=("f32", queries, around_eight),
        arg_DELTA=("f32", queries, 0.1),
        arg_DQ=("bf16", queries * width, "zeros"),
        arg_DV=("bf16", keys * width, "zeros"),
        DK=("bf16", keys * width, "zeros"),
        **halves(tokens // 128),
    )


def flexible_decode(batch: int = 16, few: int = 8, parts: int = 8) -> Case:
    """32 queries' heads for `few` keys' heads, whose tokens are divided; the last two blocks have a mask."""
    heads, tokens, width = 32, 4096, 128
    blocks = tokens // 128
    one = ("f32", batch * parts * heads, "zeros")
    return case(
        by(batch, heads, tokens),
        (1, batch * few, parts),
        {},
        arg_Q=("bf16", batch * heads * width, 0.5),
        **{f"arg_{name}": ("bf16", batch * few * tokens * width, 0.5) for name in ("K", "V")},
        arg_M=one,
        arg_L=one,
        out_ptr=("f32", batch * parts * heads * width, "zeros"),
        arg_KV_NUM_BLKS=("i32", 1, given([2])),
        arg_KV_IDX=("i32", blocks, given([blocks - 2, blocks - 1, *range(blocks - 2)])),
        arg_FULL_KV_NUM_BLKS=("i32", 1, given([blocks - 2])),
        arg_FULL_KV_IDX=("i32", blocks, given(list(range(blocks)))),
    )


def convolved(n: int, c: int, size: int, out: int, stride: int, kind: str, rows: int, columns: int) -> Case:
    """3 by 3; images and filters with the channels last."""
    made = (size - 1) // stride + 1
    return case(
        by(n, c, size, out),
        (ceil(n * made * made / rows), ceil(out / columns), 1),
        {},
        arg_X=(kind, n * c * size * size, 0.5),
        arg_W=(kind, out * c * 9, 0.05),
        out_ptr=(kind, n * out * made * made, "zeros"),
    )


def multiplied(m: int, n: int, k: int, grid: Sequence[int], kind: str = "bf16", batch: int = 1) -> Case:
    return case(
        by(m, n, k),
        grid,
        {},
        arg_A=(kind, batch * m * k, 0.5),
        arg_B=(kind, batch * k * n, 0.1),
        out_ptr=(kind, batch * m * n, "zeros"),
    )


def scaled_bytes(rows: int, columns: int) -> Case:
    """By so many scales; 4096 by 4096 by 4096."""
    size = 4096**2
    return case(
        "4096",
        (132,),
        {},
        arg_A=("f8", size, 0.5),
        arg_B=("f8", size, 0.5),
        arg_A_inverse_scale=("f32", rows, positive),
        arg_B_inverse_scale=("f32", columns, positive),
        out_ptr=("bf16", size, "zeros"),
    )


FULL, ODD = 256, 160
"""Tokens of a chunk; the last chunk of ragged launches has fewer."""


def chunked(made: Any, *tiles: int) -> tuple[Case, Case]:
    return both(made(FULL, *tiles), made(ODD, *tiles))


CASES: Mapping[str, Sequence[Case]] = {
    "b_mamba_dstates": chunked(state_gradients, 64, 128),
    "b_mamba_dstates_idx": both(
        typed(in_sequences(numbered(state_gradients(FULL, 64, 64)), 1), "f16"),
        typed(in_sequences(numbered(state_gradients(ODD, 64, 64)), 1), "f16"),
    ),
    "b_mamba_ddAcs": chunked(decays_by_pairs, 64),
    "b_mamba_ddAcs_prev": chunked(decays_by_states, 64),
    "b_mamba_state_dx": chunked(inputs_by_states, 128, 64),
    "b_mamba_state_db": chunked(b_by_states, 64),
    "b_mamba_state_ddAcs": chunked(decays_at_ends, 32),
    "b_mamba_combined_dx": chunked(inputs_of_both, 64, 64),
    "b_mamba_bmm_bwd": chunked(b_of_products, 64, 128),
    "b_mamba_scan_64x64": both(
        on(chunk_scan(FULL), *of_chunks(FULL, 4)), on(chunk_scan(ODD), *of_chunks(ODD, 3))
    ),
    "b_mamba_scan_128x256": (chunk_scan(FULL), ragged(chunk_scan(ODD))),
    "b_mamba_state_256": (chunk_state(FULL), ragged(chunk_state(ODD))),
    "b_liger_down_bwd": both(down_gradient(4096), down_gradient(100)),
    "b_liger_dW2": both(weight_gradient(4096, True, 64, 128), weight_gradient(100, True, 64, 128)),
    "b_liger_dW1": both(weight_gradient(4096, False, 128, 64), weight_gradient(100, False, 128, 64)),
    "b_liger_dX": both(token_gradient(4096), token_gradient(100)),
    "b_vllm_diag": both(diagonal(2, 4096), diagonal(2, 1008)),
    "b_gla_A_inter": pairs(between_parts, heads=8),
    "b_gla_bwd_dA": pairs(matrix_gradient, heads=8),
    "b_gla_bwd_dv": pairs(value_gradient, heads=8),
    "b_gla_bwd_inter": pairs(key_gradient, heads=8),
    "b_gla_bwd_intra": pairs(inner_gradient, heads=8),
    "b_fla_bwd_dh": pairs(state_backward),
    "b_fla_bwd_dv": pairs(simple_value_gradient),
    "b_fla_dv_local": pairs(local_value_gradient),
    "b_gsa_inter": pairs(slots, heads=8, values=64),
    "b_kda_dAv": pairs(both_gradients),
    "b_kda_wu": pairs(recomputed),
    "b_dplr_h": pairs(generalized_states, keys=64, values=64),
    "b_dplr_o": pairs(generalized_outputs, keys=64, values=64),
    "b_gdr_solve": pairs(solved, heads=8),
    "b_fla_attn_dq": both(query_gradient(4, 4096), query_gradient(4, 1000)),
    "b_flex_bwd": (flexible_backward(4, 16, 16, 64, 128, 128),),
    "b_flex_bwd_gqa": (flexible_backward(2, 32, 8, 128, 64, 64),),
    "b_flex_decode": (flexible_decode(),),
    "b_ind_conv": (convolved(16, 128, 56, 256, 1, "f16", 128, 128),),
    "b_ind_conv_w8": (convolved(16, 256, 28, 256, 2, "bf16", 64, 256),),
    "b_ind_mm_64": (multiplied(4096, 4096, 4096, (64 * 32,)),),
    "b_ind_mm_odd": (multiplied(1000, 1111, 1003, (16 * 18,)),),
    "b_ind_mm_tf32": (multiplied(2048, 2048, 2048, (16 * 32,), "f32"),),
    "b_ind_mm_m16": (multiplied(16, 4096, 4096, (64,)),),
    "b_ind_bmm_64": (multiplied(512, 512, 512, (64, 32), batch=32),),
    "b_ind_scaled": (scaled_bytes(32 * 4096, 32 * 32),),
    "b_ind_rowwise": (scaled_bytes(4096, 4096),),
}
"""Launches by the kernel's name."""
