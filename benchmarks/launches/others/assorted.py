# pyright: basic, reportMissingImports=false
"""Launches of kernels of many forms: experts, few bits, attention's scores, gradients, adapters."""

import random
from collections.abc import Mapping, Sequence
from math import ceil

from benchmarks.launches.arrays import (
    Array,
    Case,
    bits,
    by,
    case,
    exponents,
    given,
    nibbles,
    positive,
    ragged,
    up,
)
from benchmarks.launches.others.breadth import loose
from benchmarks.launches.others.changed import around, shuffled, starts, within
from benchmarks.launches.others.chunks import Shape
from benchmarks.launches.others.everyday import small_integers
from benchmarks.launches.others.states import VECTORS
from benchmarks.launches.others.wider import both, pairs
from benchmarks.launches.products import SMS, routed
from benchmarks.launches.spaces import BATCH, GROUPS, HEADS_OF, TOKENS, WIDTH_OF, sequence, space, tiled

# --- products of few bits -----------------------------------------------------------------------------------


def halves(m: int, n: int, k: int = 4096) -> Case:
    """Floats that the kernel rounds to 4 bits, by floats of 4 bits, with a scale for each 32; `k` is a
    constant."""
    strides = {"stride_am": k, "stride_bn": k // 2, "stride_ck": 0, "stride_cm": n, "stride_bsn": k // 32}
    return case(
        by(m, n, k),
        (ceil(m / 64) * ceil(n / 128),),
        {"M": m, "N": n, "K": k // 2, **strides},
        a_ptr=("bf16", m * k, 1.0),
        b_ptr=("uint8", n * k // 2, nibbles),
        c_ptr=("bf16", m * n, "zeros"),
        b_scales_ptr=("uint8", n * k // 32, exponents),
    )


def dealt(m: int, n: int, k: int, group: int = 128) -> Case:
    """Weights of 4 bits, eight of a column in a word; tiles of 16 by 64 are dealt to programs, half of a
    sum each."""
    return loose(
        case(
            by(m, n, k),
            (SMS, 2),
            {"M": m, "N": n, "K": k, "M_CLOSEST": m, "stride_am": k, "stride_bn": k // 8}
            | {"stride_cm": n, "stride_meta_g": n},
            a_ptr=("f16", m * k, 0.1),
            b_ptr=("i32", n * k // 8, bits),
            c_ptr=("f16", m * n, "zeros"),
            scales_ptr=("f16", k // group * n, 0.01),
            zeros_ptr=("f16", k // group * n, around(8)),
            scales_a_ptr=("f16", 16, 1.0),
        )
    )


def experts_of_halves(tokens: int, count: int = 16, top: int = 8) -> Case:
    """Bytes by floats of 4 bits, eight in a word; an expert has 256 rows at most, the sizes are constants."""
    n, k = 4096, 2048
    draw = random.Random(0)
    chosen = [
        (expert, token * top + turn)
        for token in range(tokens)
        for turn, expert in enumerate(draw.sample(range(count - 1), top))
    ]
    rows = sorted(chosen)
    begins = [sum(expert < one for expert, _ in rows) for one in range(count + 1)]
    return case(
        f"{tokens} tokens",
        (4 * ceil(n / 128), count),
        {"stride_asm": k // 128, "stride_cm": n},
        A=("f8", tokens * k, 0.5),
        A_scale=("f32", tokens * k // 128, positive),
        B=("i32", count * n * k // 8, bits),
        B_scale=("uint8", count * n * k // 32, exponents),
        C=("bf16", len(rows) * n, "zeros"),
        SortedIdx=("i64", len(rows), given([row for _, row in rows])),
        ExpStart=("i64", count, given(begins[:-1])),
        ExpEnd=("i64", count, given(begins[1:])),
    )


def scaled_rows(m: int, n: int, k: int) -> Case:
    """Of bytes, with a scale for each row."""
    return case(
        by(m, n, k),
        (ceil(m / 128) * ceil(n / 128),),
        {"M": m, "N": n, "K": k, "stride_am": k, "stride_bk": n, "stride_cm": n},
        a_ptr=("int8", m * k, small_integers),
        b_ptr=("int8", k * n, small_integers),
        c_ptr=("bf16", m * n, "zeros"),
        s1_ptr=("bf16", m, positive),
    )


# --- experts ------------------------------------------------------------------------------------------------


def stolen(rows: Sequence[int], n: int, k: int, programs: int = 0) -> Case:
    """Experts with these rows and a bias. Each thread block takes one tile more after another; by default
    there are as many as tiles."""
    tiles = sum(ceil(one / 128) for one in rows) * ceil(n / 128)
    programs, count = programs or tiles, len(rows)
    return case(
        by(sum(rows), n, k),
        (programs,),
        {"K": k, "N": n, "G": count, "num_n_tiles": ceil(n / 128)},
        lhs_ptr=("bf16", sum(rows) * k, 0.5),
        rhs_ptr=("bf16", count * k * n, 0.1),
        group_sizes_ptr=("i32", count, given(rows)),
        out_ptr=("bf16", sum(rows) * n, "zeros"),
        bias_ptr=("bf16", count * n, 1.0),
        tile_counter_ptr=("i32", 1, given([programs])),
    )


def weights_and_bias(rows: Sequence[int], n: int, k: int) -> Case:
    """Gradients of experts' weights and biases."""
    count = len(rows)
    return case(
        by(sum(rows), n, k),
        (2 * SMS,),
        {"M": sum(rows), "K": k, "N": n, "G": count},
        lhs_ptr=("bf16", sum(rows) * k, 0.5),
        rhs_ptr=("bf16", sum(rows) * n, 0.1),
        group_sizes_ptr=("i32", count, given(rows)),
        out_ptr=("bf16", count * k * n, "zeros"),
        bias_grad_ptr=("f32", count * k, "zeros"),
    )


def router(tokens: int) -> Case:
    """The two best of 64 experts; two that are nearly equal may change places."""
    width, count = 4096, 64
    one = case(
        f"{tokens} tokens",
        (ceil(tokens / 32),),
        {"bs": tokens},
        a_ptr=("bf16", tokens * width, 1.0),
        b_ptr=("bf16", count * width, 0.02),
        topk_weights_ptr=("f32", tokens * 2, "zeros"),
        topk_ids_ptr=("i32", tokens * 2, "zeros"),
    )
    return within(one, 5e-2)


# --- adapters -----------------------------------------------------------------------------------------------


def three_parts(lengths: Sequence[int], n: int = 6144, rank: int = 64) -> Case:
    """The second matrices of adapters, added in three parts of the columns; segments of 16 tokens at most,
    which lie anywhere. `n` and `rank` are constants."""
    tokens, count = sum(lengths), 4
    return case(
        f"{len(lengths)} segments",
        (n // 64, len(lengths)),
        {"num_segs": len(lengths), "output_stride_0": n},
        x=("bf16", tokens * 3 * rank, 0.5),
        weights=("bf16", count * n * rank, 0.1),
        output=("bf16", tokens * n, 0.5),
        seg_indptr=("i32", len(lengths) + 1, given(starts(lengths))),
        weight_indices=("i32", len(lengths), given([one % count for one in range(len(lengths))])),
        lora_ranks=("i32", count, given([rank, rank // 2, 24, 0])),
        permutation=("i32", tokens, shuffled),
        scalings=("f32", count, positive),
        slice_offsets=("i32", 4, given([0, n // 3, 2 * n // 3, n])),
    )


def counted(tokens: int, slots: int = 2, experts: int = 64, top: int = 8) -> Case:
    """The first matrices of adapters of experts, in four parts of the sum; the last part of a tile adds them
    up. Some tiles have no adapter."""
    n, k, parts, pairs = 32, 2048, 4, tokens * top
    places, of_block = routed(tokens, slots * experts, top, 16)
    tiles = [-1 if one % 17 == 5 else bucket for one, bucket in enumerate(of_block)]
    strides = {"stride_im": k, "stride_we": n * k, "stride_wn": k, "stride_om": n}
    strides |= {"stride_pp": pairs * n, "stride_pm": n}
    return case(
        f"{tokens} tokens",
        (len(tiles), parts),
        {"num_input_rows": tokens, "num_pairs": pairs, "num_m_blocks": len(tiles), **strides},
        input_ptr=("bf16", tokens * k, 0.5),
        weight_ptr=("bf16", slots * experts * n * k, 0.1),
        output_ptr=("bf16", pairs * n, "zeros"),
        partial_ptr=("f32", parts * pairs * n, "zeros"),
        counter_ptr=("i32", len(tiles), "zeros"),
        sorted_pair_ids_ptr=("i32", len(places), given(places)),
        block_bucket_ids_ptr=("i32", len(tiles), given(tiles)),
        num_pairs_post_padded_ptr=("i32", 1, given([len(places)])),
        lora_ranks_ptr=("i32", slots, given([16, 12][:slots])),
    )


# --- attention ----------------------------------------------------------------------------------------------


def biased(lengths: Sequence[int], before: Sequence[int], heads: int = 16, width: int = 64) -> Case:
    """New tokens of sequences whose `before` first tokens are in the cache, keys and values anywhere; the
    score falls with the distance."""
    totals = [one + more for one, more in zip(lengths, before, strict=True)]
    batch, tokens, slots, row = len(lengths), sum(lengths), sum(totals), up(max(totals), 16)
    places, table = random.Random(0).sample(range(slots), slots), list[int]()
    for begin, total in zip(starts(totals), totals, strict=False):
        table += places[begin : begin + total] + [0] * (row - total)
    strides = {f"stride_{one}bs": heads * width for one in "qkvo"}
    strides |= {f"stride_{one}h": width for one in "qkvo"}
    return case(
        f"{batch} sequences",
        (batch, heads, ceil(max(lengths) / 64)),
        {"sm_scale": width**-0.5, "stride_req_to_tokens_b": row, **strides},
        Q=("f16", tokens * heads * width, 1.0),
        K=("f16", slots * heads * width, 1.0),
        V=("f16", slots * heads * width, 1.0),
        Alibi=("f32", heads, around(0.02)),
        B_Start_Loc=("i32", batch, given(starts(lengths)[:-1])),
        B_Seqlen=("i32", batch, given(totals)),
        Out=("f16", tokens * heads * width, "zeros"),
        Req_to_tokens=("i32", batch * row, given(table)),
        B_req_idx=("i32", batch, given(range(batch))),
        b_ready_cache_len=("i32", batch, given(before)),
    )


def scores(begin: int, end: int, queries: int = 4096, heads: int = 64, keys: int = 4096) -> Case:
    """Of the first query by these keys; the sizes are constants, with a range for one query only."""
    one = case(
        f"keys {begin} to {end}",
        (queries // 2, keys // 512),
        {"stride_qh": 128, "stride_kn": 128, "stride_wh": 16, "stride_lm": keys},
        q_index=("bf16", queries * heads * 128, 0.5),
        k_index=("bf16", keys * 128, 0.5),
        cu_bg_seqlens=("i32", 1, given([begin])),
        cu_ed_seqlens=("i32", 1, given([end])),
        weights=("f32", queries * heads * 16, positive),
        logits=("f32", queries * keys, "zeros"),
    )
    return loose(one)


def best_of_pages(lengths: Sequence[int], before: Sequence[int], heads: int = 4) -> Case:
    """Of each page of 128 keys the largest score, for each new token."""
    totals = [one + more for one, more in zip(lengths, before, strict=True)]
    batch, tokens, width, row = len(lengths), sum(lengths), 128, up(ceil(max(totals) / 128), 16)
    return case(
        f"{batch} sequences",
        (ceil(max(lengths) / 64), batch * heads),
        {"num_idx_heads": heads, "stride_q_n": heads * width, "stride_q_h": width, "stride_bt_b": row}
        | {"stride_ik_blk": 128 * width, "stride_ik_pos": width}
        | {"stride_s_h": tokens * row, "stride_s_n": row},
        q_ptr=("bf16", tokens * heads * width, 0.5),
        ik_cache_ptr=("bf16", batch * row * 128 * width, 0.5),
        score_ptr=("f32", heads * tokens * row, "zeros"),
        block_table_ptr=("i32", batch * row, shuffled),
        cu_seqlens=("i32", batch + 1, given(starts(lengths))),
        seq_lens=("i32", batch, given(totals)),
        prefix_lens=("i32", batch, given(before)),
    )


def absorbed(tokens: int, heads: int = 16) -> Case:
    """A product for each head, and behind it what is turned by position, as bytes; the widths are
    constants."""
    k, n, rope = 128, 512, 64
    strides = {"qout_s0": heads * (n + rope), "qout_s1": n + rope, "a_s0": heads * k, "a_s1": k}
    strides |= {"b_s0": k * n, "b_s1": n, "rope_s0": heads * rope, "rope_s1": rope}
    one = case(
        f"{tokens} tokens",
        (ceil(tokens / 64), heads),
        {"T": tokens, **strides},
        qout_ptr=("f8", tokens * heads * (n + rope), "zeros"),
        a_ptr=("bf16", tokens * heads * k, 1.0),
        b_ptr=("bf16", heads * k * n, 0.1),
        rope_ptr=("bf16", tokens * heads * rope, 1.0),
    )
    return loose(one)


def turned(batch: int) -> Case:
    """Linear attention of frames: queries by the state of their frame; the sizes are constants."""
    heads, frames, tokens, width, block = 20, 8, 8192, 112, 128
    states = batch * heads * frames
    return case(
        f"{batch} videos",
        (states,),
        {},
        qkv_ptr=("bf16", batch * tokens * 3 * heads * width, 1.0),
        q_inv_rms_ptr=("f32", batch * tokens, positive),
        q_norm_w_ptr=("bf16", heads * width, positive),
        rope_cos_ptr=("f32", tokens * width, 0.7),
        rope_sin_ptr=("f32", tokens * width, 0.7),
        M_ptr=("f32", states * block**2, 0.3),
        z_ptr=("f32", states * block, positive),
        num_ptr=("bf16", batch * tokens * heads * width, "zeros"),
        den_ptr=("bf16", batch * heads * tokens, "zeros"),
    )


# --- linear attention ---------------------------------------------------------------------------------------


def states_gradient(s: Shape) -> Case:
    """From the last chunk to the first."""
    return s.case(
        (s.pairs,),
        {**s.keyed("qg"), **s.keyed("bg", 0.1), **s.keyed("w", 0.02), **s.falling("gk", s.keys)},
        {**s.ends("dht", 0.3), **s.ends("dh0"), **s.valued("do dv"), **s.valued("dv2", "zeros")},
        s.states("dh", "zeros"),
    )


def vectors_gradient(s: Shape) -> Case:
    last: Array = ("f32", s.batch * s.chunks * s.heads * s.keys, "zeros")
    return s.case(
        (s.keys // 64 * s.chunks, s.pairs),
        {**s.valued("v v_new do dv"), **s.states("h dh"), **s.keyed("w k b")},
        {**s.keyed("dk db dq dw", "zeros"), **s.falling("gk", s.keys), "dgk_last": last},
    )


def reflected_twice(s: Shape) -> Case:
    """Two keys and values for each token."""
    more = Shape(s.batch, 2 * s.tokens, s.heads, s.keys, s.values)
    return s.case(
        (s.values // 64 * s.chunks, s.pairs),
        {**s.keyed("q"), **more.keyed("k"), **more.valued("v"), **s.states("h")},
        {**s.falling("g"), **s.valued("o", "zeros")},
    )


def modes(s: Shape) -> Case:
    """What is read is turned by an angle of the token, and stands for a mean of the table's rows."""
    width = s.values
    one = s.case(
        (1, s.chunks, s.pairs),
        {**s.keyed("q k"), **s.valued("write"), **s.valued("weights", "zeros"), **s.states("h")},
        {**s.falling("g"), **s.single("lambdas", 10.0), **s.single("q_rstd", positive)},
        {"q_weight": ("bf16", s.keys, positive), "table": ("bf16", s.heads * width**2, 1.0)},
    )
    return loose(one)


# --- gradients of state space models ------------------------------------------------------------------------


def products_gradient(chunk: int, each: int = 4) -> Case:
    """Of C and B in a chunk, summed over `each` heads of a group, and of the decays by tiles of 64 rows."""
    chunks, rows, parts = ceil(TOKENS / chunk), ceil(chunk / 64), HEADS_OF // GROUPS // each
    square = chunk**2
    made = {"stride_dcb_batch": chunks * parts * GROUPS * square, "stride_dcb_group": square}
    made |= {"stride_dcb_chunk": parts * GROUPS * square, "stride_dcb_split": GROUPS * square}
    numbers = {"nheads": HEADS_OF, "nheads_per_program": each, "ngroups": GROUPS, "stride_dcb_csize_m": chunk}
    numbers |= tiled("cb", chunk, GROUPS, square) | {"stride_cb_csize_m": chunk}
    numbers |= tiled("ddA_cs", chunk, HEADS_OF, rows * chunk) | {"stride_ddA_cs_csize_m": chunk}
    return space(
        chunk,
        (rows**2, BATCH * chunks, parts * GROUPS),
        {**numbers, **made, **sequence("dout", HEADS_OF, WIDTH_OF)},
        dout_ptr=("bf16", VECTORS, 0.5),
        cb_ptr=("bf16", BATCH * chunks * GROUPS * square, 0.5),
        dcb_ptr=("f32", BATCH * chunks * parts * GROUPS * square, "zeros"),
        ddA_cumsum_ptr=("f32", BATCH * chunks * HEADS_OF * rows * chunk, "zeros"),
    )


CASES: Mapping[str, Sequence[Case]] = {
    "a_aiter_a16wfp4": both(halves(4096, 4096), halves(400, 528)),
    "a_aiter_gmm_steal": (
        stolen([1024, 512, 2048, 0, 1500, 77, 1011, 2020], 4096, 2048),
        ragged(stolen([100, 0, 333, 7, 1, 580], 528, 320, 8)),
    ),
    "a_aiter_tgmm": both(
        weights_and_bias([1024, 512, 2048, 0, 1500, 77, 1011, 2020], 2048, 2048),
        weights_and_bias([100, 0, 333, 64, 15], 336, 400),
    ),
    "a_fla_dplr_dhu": pairs(states_gradient, heads=8, keys=64, values=64, chunk=32),
    "a_fla_dplr_o": pairs(vectors_gradient, heads=8, chunk=32),
    "a_fla_product_o": pairs(reflected_twice, heads=8),
    "a_gemlite_persist": both(dealt(64, 4096, 4096), dealt(48, 192, 768)),
    "a_gems_indexer": both(scores(0, 4096), scores(100, 3001)),
    "a_ll_bloom": both(biased([2048] * 4, [2048] * 4), biased([100, 333, 1], [50, 0, 700])),
    "a_lmd_v4fp4": both(experts_of_halves(256), experts_of_halves(19)),
    "a_m3_block_score": both(
        best_of_pages([2048] * 4, [2048] * 4), best_of_pages([100, 333, 1], [50, 0, 700])
    ),
    "a_sg_qk_prep": both(absorbed(4096), absorbed(77)),
    "a_sg_router_tc": both(router(2048), router(77)),
    "a_sg_sgmv_expand": both(three_parts([16] * 128), three_parts([5, 16, 0, 1, 13, 16, 8])),
    "a_tb_scaled_bp": both(scaled_rows(4096, 4096, 4096), scaled_rows(400, 528, 192)),
    "y_fla_cyfa_readout": pairs(modes, heads=8, values=64),
    "y_mamba_dcb": both(products_gradient(256), products_gradient(160, 3)),
    "y_sg_grouped_lora_a": both(counted(1024), counted(77)),
    "z_sg_sana_c": (turned(2), ragged(turned(1))),
}
"""Launches by the kernel's name."""
