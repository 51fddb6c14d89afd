# pyright: basic, reportMissingImports=false
"""Launches of kernels in other tiles than before, and of more products and attention."""

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any

from benchmarks.launches import attention, cases
from benchmarks.launches.arrays import Case, bits, by, case, given, positive, ragged, up
from benchmarks.launches.others.changed import below, holding, numbered, on
from benchmarks.launches.others.chunks import Shape
from benchmarks.launches.others.wider import around_eight, both, pairs
from benchmarks.launches.paged import PAGE, permuted, tables
from benchmarks.launches.products import RAGGED, experts, packed, products, routed, split

# --- products -----------------------------------------------------------------------------------------------


def experts_by(tokens: int, type: str, rows: int, columns: int) -> Case:
    """`experts` in other tiles."""
    one = experts(tokens, type)
    places, of_block = routed(tokens, 64, 8, rows)
    made = holding(
        numbered(one, EM=len(places)),
        sorted_token_ids_ptr=("i32", len(places), given(places)),
        expert_ids_ptr=("i32", len(of_block), given(of_block)),
        num_tokens_post_padded_ptr=("i32", 1, given([len(places)])),
    )
    return on(made, len(of_block) * ceil(2048 / columns))


def few_bits(tokens: int, kind: str, width: int, tile: tuple[int, int], n: int = 2816, k: int = 2048) -> Case:
    """Experts with weights of 4 or 8 bits; a scale for each 128 rows."""
    rows, columns = tile
    count, top = 16, 8
    places, of_block = routed(tokens, count, top, rows)
    row, groups = k * width // 8, k // 128
    strides = {"stride_am": k, "stride_be": n * row, "stride_bn": row, "stride_cm": n}
    strides |= {"stride_bse": n * groups, "stride_bsn": groups, "stride_bze": 0, "stride_bzn": 0}
    return case(
        f"{tokens} tokens",
        (len(of_block) * ceil(n / columns),),
        {"EM": len(places), "num_valid_tokens": tokens * top, **strides},
        a_ptr=(kind, tokens * k, 0.5),
        b_ptr=("int8", count * n * row, bits),
        c_ptr=(kind, tokens * top * n, "zeros"),
        b_scale_ptr=(kind, count * n * groups, 0.02),
        b_zp_ptr=("uint8", 16, bits),
        topk_weights_ptr=("f32", tokens * top, positive),
        sorted_token_ids_ptr=("i32", len(places), given(places)),
        expert_ids_ptr=("i32", len(of_block), given(of_block)),
        num_tokens_post_padded_ptr=("i32", 1, given([len(places)])),
    )


def activated(m: int, n: int, k: int) -> Case:
    """With a bias, an activation, and its input kept."""
    return case(
        by(m, n, k),
        (ceil(m / 128) * ceil(n / 256),),
        {"M": m, "N": n, "K": k, "stride_cm": n, "stride_am": k, "stride_bn": k}
        | {f"CACHE_KEY_{one}": 1 for one in "MNK"},
        C=("f16", m * n, "zeros"),
        ACT_INPUT=("f16", m * n, "zeros"),
        A=("f16", m * k, 0.5),
        B=("f16", n * k, 0.1),
        bias=("f16", n, 1.0),
    )


def heads_of_bytes(heads: int, m: int, n: int, k: int) -> Case:
    """A product for each head, with a scale for each row and column."""
    return case(
        by(heads, m, n, k),
        (ceil(m / 128) * ceil(n / 64), heads),
        {"M": m, "N": n, "K": k, "stride_ah": m * k, "stride_am": k, "stride_bh": n * k, "stride_bn": k}
        | {"stride_ch": m * n, "stride_cm": n, "stride_scale_ah": m, "stride_scale_bh": n},
        a_ptr=("f8", heads * m * k, 0.5),
        b_ptr=("f8", heads * n * k, 0.5),
        c_ptr=("bf16", heads * m * n, "zeros"),
        a_scale_ptr=("f32", heads * m, positive),
        b_scale_ptr=("f32", heads * n, positive),
    )


def by_groups_of_columns(m: int, n: int = 4096, k: int = 7168) -> Case:
    """8-bit floats; the scales of a group of columns lie behind one another."""
    return case(
        by(m, n, k),
        (ceil(m / 64) * ceil(n / 128),),
        {"M": m, "stride_am": k, "stride_cm": n},
        A=("f8", m * k, 0.5),
        B=("f8", n * k, 0.5),
        C=("bf16", m * n, "zeros"),
        a_scale_ptr=("f32", m * k // 128, positive),
        b_scale_ptr=("f32", n // 128 * k // 128, positive),
    )


def packed_parts(m: int, n: int = 4096, k: int = 4096) -> Case:
    """Weights of 4 bits, of which parts of the sum are added by atomic operations."""
    return case(
        by(m, n, k),
        (ceil(m / 16) * n // 32, 4),
        {"m": m, "n": n, "k": k, "groupsize": 128, "stride_am": k, "stride_bk": n, "stride_cm": n}
        | {"stride_scales_g": n, "stride_zeros_g": n // 8},
        a_ptr=("f16", m * k, 0.1),
        b_ptr=("i32", k // 8 * n, bits),
        c_ptr=("f16", m * n, "zeros"),
        scales_ptr=("f16", k // 128 * n, 0.02),
        zeros_ptr=("i32", k // 128 * n // 8, bits),
    )


def plain(m: int, n: int, k: int) -> Case:
    return case(
        by(m, n, k),
        (ceil(m / 128) * ceil(n / 128),),
        {"M": m, "N": n, "K": k, "stride_am": k, "stride_bk": n, "stride_cm": n, "total_tiles_streamk": 0},
        A=("bf16", m * k, 0.5),
        B=("bf16", k * n, 0.1),
        C=("bf16", m * n, "zeros"),
    )


# --- attention ----------------------------------------------------------------------------------------------


def neighbours(product_of_values: bool) -> Case:
    """2 by 8 heads of 1024 tokens; sizes are constants."""
    pairs, tokens, width = 16, 1024, 64
    square, wide = pairs * tokens**2, pairs * tokens * width
    names = (
        {"v": width, "out": width, "attn": tokens}
        if product_of_values
        else {"q": width, "k": width, "qk": tokens}
    )
    numbers = {}
    for name, row in names.items():
        numbers |= {f"{name}_batch_stride": 8 * tokens * row, f"{name}_head_stride": tokens * row}
        numbers |= {f"{name}_seq_stride": row}
    if product_of_values:
        arrays = {
            "Attn_ptr": ("bf16", square, 0.03),
            "V_ptr": ("bf16", wide, 0.5),
            "Out_ptr": ("bf16", wide, "zeros"),
        }
        return case("2x8x1024", (pairs, tokens // 64, 1), numbers, **arrays)
    arrays = dict.fromkeys(("Q_ptr", "K_ptr"), ("f32", wide, 0.5))
    arrays |= {"QK_ptr": ("f32", square, "zeros"), "mask_ptr": ("f32", tokens**2, banded)}
    return case("2x8x1024", (pairs, tokens // 64, tokens // 64), numbers, **arrays)


def banded(size: int) -> Any:
    """Ones near the diagonal."""
    import torch

    rows = torch.arange(int(size**0.5))
    return ((rows[:, None] - rows[None, :]).abs() <= 3).flatten().float()


def latent_prefill(lengths: Sequence[int], heads: int = 16) -> Case:
    """Keys of 128 and 64 elements, of which the first are values too; all heads share them."""
    tokens, starts = sum(lengths), [sum(lengths[:one]) for one in range(len(lengths))]
    strides = {
        "stride_q_bs": heads * 128,
        "stride_q_h": 128,
        "stride_q_rope_bs": heads * 64,
        "stride_q_rope_h": 64,
    }
    strides |= {"stride_kv_bs": 128, "stride_kv_h": 128, "stride_kv_rope_bs": 64, "stride_kv_rope_h": 64}
    return case(
        f"{len(lengths)} sequences",
        (len(lengths), heads, ceil(max(lengths) / 64)),
        {
            "sm_scale": 192**-0.5,
            "kv_group_num": heads,
            "stride_obs": heads * 128,
            "stride_oh": 128,
            **strides,
        },
        Q_nope=("bf16", tokens * heads * 128, 0.5),
        Q_rope=("bf16", tokens * heads * 64, 0.5),
        KV_nope=("bf16", tokens * 128, 0.5),
        KV_rope=("bf16", tokens * 64, 0.5),
        Out=("bf16", tokens * heads * 128, "zeros"),
        B_Start_Loc=("i32", len(lengths), given(starts)),
        B_Seqlen=("i32", len(lengths), given(list(lengths))),
    )


def split_decode(sequences: int, tokens: int, few: int = 8, shared: int = 16) -> Case:
    """In parts of 256 keys."""
    heads, width, parts = few * shared, 128, ceil(tokens / 256)
    keys = sequences * tokens
    return case(
        f"{sequences} after {tokens}",
        (sequences, few, parts),
        {"sm_scale": width**-0.5, "gqa_group_size": shared, "stride_req_to_tokens_b": tokens}
        | {"stride_qbs": heads * width, "stride_qh": width, "stride_kbs": few * width, "stride_kh": width}
        | {"stride_vbs": few * width, "stride_vh": width, "stride_mid_ob": heads * parts * width}
        | {"stride_mid_oh": parts * width, "stride_mid_os": width, "stride_mid_o_eb": heads * parts}
        | {"stride_mid_o_eh": parts},
        Q=("bf16", sequences * heads * width, 0.5),
        K=("bf16", keys * few * width, 0.5),
        V=("bf16", keys * few * width, 0.5),
        Req_to_tokens=("i32", keys, given(list(range(keys)))),
        B_req_idx=("i32", sequences, given(list(range(sequences)))),
        B_Seqlen=("i32", sequences, given([tokens] * sequences)),
        Mid_O=("f32", sequences * heads * parts * width, "zeros"),
        Mid_O_LogExpSum=("f32", sequences * heads * parts, "zeros"),
    )


def chosen_blocks(batch: int, tokens: int) -> Case:
    """Gradient of queries that attend to blocks of keys before them."""
    one = attention.sparse(batch, tokens)
    rows = batch * tokens * 64
    arrays = {name: one["arrays"][name] for name in ("q", "k", "v", "block_indices")}
    return case(
        one["label"],
        one["grid"],
        {**one["numbers"], "T": tokens},
        **arrays,
        block_counts=("i32", rows // 16, given([16] * (rows // 16))),
        lse=("f32", rows, around_eight),
        delta=("f32", rows, 0.1),
        do=("bf16", rows * 128, 0.5),
        dq=("bf16", rows * 128, "zeros"),
    )


def compressed(batch: int, tokens: int) -> Case:
    """Attention to a mean of each block of 64 keys before."""
    blocks = ceil(tokens / 64)
    return case(
        by(batch, tokens),
        (tokens, 1, batch * 4),
        {"scale": 128**-0.5, "TQ": tokens, "TK": tokens},
        q=("bf16", batch * tokens * 64 * 128, 0.5),
        k=("bf16", batch * blocks * 4 * 128, 0.5),
        v=("bf16", batch * blocks * 4 * 128, 0.5),
        o=("bf16", batch * tokens * 64 * 128, "zeros"),
        lse=("f32", batch * tokens * 64, "zeros"),
    )


def narrow(one: Case, width: int = 64) -> Case:
    """Linear attention with heads of 64 in arrays for heads of 128."""
    return numbered(one, scale=width**-0.5)


def linear(made: Any, grid: Any) -> tuple[Case, Case]:
    """In other tiles: the grid by chunks and heads."""
    full, odd = (
        on(narrow(made(batch, tokens)), *grid(ceil(tokens / 64), batch * attention.HEADS))
        for batch, tokens in ((4, 4096), (2, 1000))
    )
    return both(full, odd)


# --- adapters, and experts with tokens of their own ---------------------------------------------------------


def adapted(lengths: Sequence[int], n: int, k: int, tile: int, parts: int = 0, rank: int = 16) -> Case:
    """Segments of tokens with an adapter each: by its first matrix, where `k` is wide, or by its second;
    `parts`: results behind one another, which are no wider than `n`."""
    tokens, count, wide = sum(lengths), 4, n * (parts or 1)
    first = k > rank
    grid = (ceil(max(lengths) / 16) * ceil(n / tile), *((parts,) if parts else ()), len(lengths))
    inputs = k if first else rank * (parts or 1)
    numbers = {"N": n, "K": k, "stack_num": 1, "max_qkv_out_dim": n, "x_stride_0": inputs}
    numbers |= {"w_stride_0": wide * k, "w_stride_1": k, "output_stride_0": wide}
    tables = {"n_offs": [n * part for part in range(parts + 1)]} if parts else {}
    tables |= {
        "seg_lens": list(lengths),
        "seg_indptr": [sum(lengths[:one]) for one in range(len(lengths) + 1)],
    }
    tables |= {"weight_indices": [one % count for one in range(len(lengths))], "lora_ranks": [rank] * count}
    return case(
        f"{len(lengths)} sequences",
        grid,
        numbers,
        **{name: ("i32", len(values), given(values)) for name, values in tables.items()},
        x=("bf16", tokens * inputs, 0.5),
        weights=("bf16", count * wide * k, 0.1),
        output=("bf16", tokens * wide, "zeros" if first else 0.5),
        scalings=("f32", count, 0.5),
    )


def crowds(tokens: Sequence[int], kind: str, tile: tuple[int, int], n: int = 2048, k: int = 2048) -> Case:
    """For each expert room for as many tokens as the fullest has."""
    count, most = len(tokens), max(tokens)
    blocks = k // 128
    scales = {"stride_ase": most * blocks, "stride_asm": blocks, "stride_bse": n // 128 * blocks}
    scales |= {"stride_bsn": blocks} if kind == "f8" else {}
    numbers = {"max_num_tokens": most, "K": k, "N": n, "stride_ae": most * k, "stride_am": k}
    numbers |= {"stride_be": n * k, "stride_bn": k, "stride_ce": most * n, "stride_cm": n}
    return case(
        f"{sum(tokens)} tokens",
        (count, ceil(most / tile[0]) * ceil(n / tile[1])),
        {**numbers, **(scales if kind == "f8" else {})},
        a_ptr=(kind, count * most * k, 0.5),
        b_ptr=(kind, count * n * k, 0.1),
        c_ptr=("bf16", count * most * n, "zeros"),
        expert_num_tokens=("i32", count, given(list(tokens))),
        a_scale_ptr=("f32", count * most * blocks, positive),
        b_scale_ptr=("f32", count * n // 128 * blocks, positive),
    )


def by_blocks_of(
    m: int, n: int, k: int, tile: tuple[int, int], names: str = "stride_As_m stride_Bs_n"
) -> Case:
    """8-bit floats with a scale for each 128 columns, in rows that are aligned."""
    rows, columns = names.split()
    row = up(k // 128, 16)
    return case(
        by(m, n, k),
        (ceil(m / tile[0]) * ceil(n / tile[1]),),
        {
            "M": m,
            "N": n,
            "K": k,
            "group_n": 128,
            "group_k": 128,
            "stride_am": k,
            "stride_bn": k,
            "stride_cm": n,
        }
        | {rows: row, columns: row},
        A=("f8", m * k, 0.5),
        B=("f8", n * k, 0.5),
        C=("bf16", m * n, "zeros"),
        As=("f32", m * row, positive),
        Bs=("f32", ceil(n / 128) * row, positive),
    )


def squared(m: int, k: int) -> Case:
    """A A^T, of which a half is computed."""
    tiles = ceil(m / 128)
    return case(
        by(m, k),
        (tiles * (tiles + 1) // 2,),
        {"M": m, "K": k, "stride_am": k, "stride_cm": m},
        A=("bf16", m * k, 0.5),
        C=("bf16", m * m, "zeros"),
    )


def chosen_tokens(batch: int, tokens: int, top: int = 2048) -> Case:
    """16 heads of 512, which share the chosen tokens."""
    heads, width, keys = 16, 512, 4096
    return case(
        by(batch, tokens),
        (tokens, batch),
        {"scale": width**-0.5, "topk": top, "stride_qb": tokens * heads * width, "stride_qm": heads * width}
        | {
            "stride_qh": width,
            "stride_kvb": keys * width,
            "stride_kvn": width,
            "stride_ob": tokens * heads * width,
        }
        | {"stride_om": heads * width, "stride_oh": width, "stride_idxb": tokens * top, "stride_idxm": top},
        Q=("bf16", batch * tokens * heads * width, 0.5),
        KV=("bf16", batch * keys * width, 0.5),
        O=("bf16", batch * tokens * heads * width, "zeros"),
        attn_sink=("f32", heads, 0.5),
        topk_idxs=("i32", batch * tokens * top, below(keys)),
    )


def different_widths(queries: Sequence[int], before: Sequence[int], label: str) -> Case:
    """Keys of 192 and values of 128, in pages; 8 heads share keys, and a block has 2 queries of them."""
    heads, few, keys, values = 32, 4, 192, 128
    row, lengths, starts = tables(queries, before)
    pages, tokens = row * len(queries), starts[-1]
    numbers = {"scale": keys**-0.5, "block_table_stride": row, "num_seqs": len(queries)}
    for name, width in (("query", keys), ("output", values)):
        numbers |= {f"{name}_stride_0": heads * width, f"{name}_stride_1": width}
    for name, width in (("k", keys), ("v", values)):
        strides = (few * width * PAGE, few * width, width)
        numbers |= {f"stride_{name}_cache_{i}": one for i, one in enumerate(strides)}
    return case(
        label,
        (tokens // 2 + len(queries), few),
        numbers,
        query_ptr=("bf16", tokens * heads * keys, 0.5),
        output_ptr=("bf16", tokens * heads * values, "zeros"),
        key_cache_ptr=("bf16", pages * few * keys * PAGE, 0.5),
        value_cache_ptr=("bf16", pages * few * values * PAGE, 0.5),
        sink_ptr=("bf16", heads, 0.5),
        block_tables_ptr=("i32", pages, permuted),
        seq_lens_ptr=("i32", len(lengths), given(lengths)),
        query_start_len_ptr=("i32", len(starts), given(starts)),
    )


def paged_decode(sequences: int, tokens: int) -> Case:
    """8 elements of a key behind one another, and the tokens of a page behind one another in values."""
    heads, few, width = 32, 8, 128
    row, lengths, starts = tables((1,) * sequences, (tokens - 1,) * sequences)
    page = few * width * PAGE
    numbers = {"scale": width**-0.5, "out_scale_inv": 1.0, "block_table_stride": row}
    for name in ("query", "output"):
        numbers |= {f"{name}_stride_0": heads * width, f"{name}_stride_1": width}
    numbers |= {"stride_k_cache_0": page, "stride_k_cache_1": width * PAGE, "stride_k_cache_2": 8 * PAGE}
    numbers |= {"stride_v_cache_0": page, "stride_v_cache_1": width * PAGE, "stride_v_cache_2": PAGE}
    return case(
        f"{sequences} after {tokens}",
        (sequences, few),
        numbers,
        query_ptr=("bf16", sequences * heads * width, 0.5),
        output_ptr=("bf16", sequences * heads * width, "zeros"),
        key_cache_ptr=("bf16", sequences * row * page, 0.5),
        value_cache_ptr=("bf16", sequences * row * page, 0.5),
        block_tables_ptr=("i32", sequences * row, permuted),
        seq_lens_ptr=("i32", sequences, given(lengths)),
        query_start_len_ptr=("i32", sequences + 1, given(starts)),
    )


def block_sparse(batch: int, tokens: int, few: int = 4, shared: int = 16) -> Case:
    """One sequence after another; a page holds 128 keys with their values, and each query has 16 pages."""
    heads, width, top = few * shared, 128, 16
    pages, rows = max(16, tokens // 128), batch * tokens
    starts = [tokens * one for one in range(batch + 1)]
    return case(
        by(batch, tokens),
        (tokens, few, batch),
        {"num_kv_heads": few, "gqa_group_size": shared, "head_dim": width, "max_topk": top, "num_q_loop": 1}
        | {
            "sm_scale": width**-0.5,
            "stride_qn": heads * width,
            "stride_qh": width,
            "stride_on": heads * width,
        }
        | {"stride_oh": width, "stride_kv_blk": few * 256 * width, "stride_kv_h": 256 * width}
        | {"stride_kv_pos": 2 * width, "stride_th": rows * top, "stride_tn": top, "stride_bt_b": pages},
        q_ptr=("bf16", rows * heads * width, 0.5),
        kv_cache_ptr=("bf16", batch * pages * few * 256 * width, 0.5),
        k_scale_ptr=("f32", 16, 1.0),
        v_scale_ptr=("f32", 16, 1.0),
        t_ptr=("i32", few * rows * top, below(tokens // 128)),
        o_ptr=("bf16", rows * heads * width, "zeros"),
        block_table_ptr=("i32", batch * pages, permuted),
        cu_seqlens_q=("i32", batch + 1, given(starts)),
        cu_seqblocks_q=("i32", batch + 1, given(starts)),
        seq_lens=("i32", batch, given([tokens] * batch)),
        prefix_lens=("i32", batch, given([0] * batch)),
    )


def path(s: Shape) -> Case:
    """Attention along a path of reflections: what a chunk of queries has with itself is given."""
    arrays = {**s.keyed("q k w1 w2", 0.1), **s.valued("v o"), **s.valued("o_new", "zeros")}
    sums = {**s.single("L", positive), **s.single("M", 0.3), **s.single("L_new", "zeros")}
    return s.case((s.chunks, s.pairs), arrays, sums)


def triangles(s: Shape) -> Case:
    """Inverses of triangles of 32 rows."""
    return s.case((s.chunks, s.pairs), s.square("A", 0.1, "f32"), s.square("Ai", "zeros"))


SAME = {
    "b_nsa_w1": "fla_nsa_fwd",
    "b_h_w8": "fla_chunk_fwd_h",
    "b_kkt_w2": "fla_kkt",
    "b_kkt_w8": "fla_kkt",
    "b_wy_w2": "fla_wy_recompute",
    "b_wy_w8": "fla_wy_recompute",
    "b_dqkwg_w8": "fla_chunk_bwd_dqkwg",
    "b_o_w8": "fla_chunk_fwd_o",
    "b_attn_w8": "fla_parallel_attn_fwd",
    "b_dkv_w8": "fla_parallel_attn_bwd_dkv",
    "b_ua_w8": "vllm_unified_attention",
    "b_t08_64": "tut08_grouped",
}
"""Kernels that differ from others only in warps, or in what a fixed number of thread blocks walks over."""

CASES: Mapping[str, Sequence[Case]] = {
    "b_vllm_moe_64x256": both(experts_by(2048, "bf16", 64, 256), experts_by(77, "bf16", 64, 256)),
    "b_vllm_moe_fp8_64": both(experts_by(2048, "f8", 64, 128), experts_by(77, "f8", 64, 128)),
    "b_vllm_moe_awq": both(few_bits(64, "bf16", 4, (16, 128)), few_bits(7, "bf16", 4, (16, 128))),
    "b_vllm_moe_w8": both(few_bits(1024, "f16", 8, (64, 64)), few_bits(33, "f16", 8, (64, 64))),
    "b_fa_linear_fwd": (activated(8192, 4096, 4096),),
    "b_ll_bmm_fp8": both(heads_of_bytes(16, 2048, 512, 128), heads_of_bytes(3, 80, 512, 128)),
    "b_lmd_gemm_fp8": both(by_groups_of_columns(4096), by_groups_of_columns(1008)),
    "b_aa_splitk_dequant": both(packed_parts(16), packed_parts(48, 384, 1024)),
    "b_awq_w8": both(packed((32 * 64, 1), 2048, 4096, 4096), packed((2 * 7, 1), 80, 400, 400)),
    "b_nsa_w2": both(attention.sparse(2, 2048), attention.sparse(2, 1000)),
    "b_t12_w8": both(split(1024, 1024, 8192), split(400, 528, 2112)),
    "b_gems_classic": both(plain(4096, 4096, 4096), plain(*RAGGED)),
    "b_tut03_64x256": products((64, 256)),
    "b_tut03_32x64": products((32, 64)),
    "b_tut03_fp8_256": products((256, 128), "f8"),
    "b_tut03_fp8_64x256": products((64, 256), "f8"),
    "b_tut06_causal_32": (
        attention.tutorial_forward(4, 16, 4096),
        ragged(attention.tutorial_forward(1, 2, 1024)),
    ),
    "b_liger_na_qk": (neighbours(False),),
    "b_liger_na_av": (neighbours(True),),
    "b_ll_mla_prefill": both(latent_prefill((4096, 3000)), latent_prefill((100, 777, 1))),
    "b_ll_gqa_stage1": both(split_decode(16, 8192), split_decode(3, 1008)),
    "b_nsa_dq": (chosen_blocks(2, 2048),),
    "b_nsa_comp": both(compressed(2, 4096), compressed(2, 1000)),
    "b_fla_o_64": linear(attention.chunk_o, lambda chunks, heads: (1, chunks, heads)),
    "b_fla_h_k64": linear(attention.chunk_h, lambda chunks, heads: (4, 2, heads)),
    "b_vllm_diffkv": both(
        different_widths((1,) * 64, (4000,) * 64, "64 tokens after 4000"),
        different_widths((300, 17, 64), (0, 500, 33), "3 sequences"),
    ),
    "b_vllm_paged2d": both(paged_decode(64, 4000), paged_decode(3, 77)),
    "b_m3_sparse_fwd": both(block_sparse(2, 4096), block_sparse(3, 128)),
    "b_path_fwd": pairs(path, heads=8, keys=64, values=64),
    "b_vllm_tril32": pairs(triangles, heads=8, chunk=32),
    "b_h_w1": linear(attention.chunk_h, lambda chunks, heads: (4, 4, heads)),
    "b_dh_w2": linear(attention.gated_delta_h, lambda chunks, heads: (4 * heads,)),
    "b_o_w2": linear(attention.chunk_o, lambda chunks, heads: (4, chunks, heads)),
    "b_gla_w2": linear(attention.gla_o, lambda chunks, heads: (2, chunks, heads)),
    **{name: cases.CASES[other] for name, other in SAME.items()},
    "b_sg_lora_a": both(adapted((256,) * 8, 16, 4096, 16), adapted((100, 1, 37), 16, 4096, 16)),
    "b_sg_lora_b": both(adapted((256,) * 8, 4096, 16, 256), adapted((100, 1, 37), 1040, 16, 256)),
    "b_sg_qkv_b": both(adapted((256,) * 8, 1024, 16, 64, 3), adapted((100, 1, 37), 272, 16, 64, 3)),
    "b_sg_fp8_x4": both(by_blocks_of(4096, 4096, 7168, (64, 128)), by_blocks_of(1008, 1040, 1536, (64, 128))),
    "b_gems_w8a8": both(by_blocks_of(4096, 4096, 7168, (64, 64)), by_blocks_of(1008, 1040, 1152, (64, 64))),
    "b_gems_fp8": both(
        by_blocks_of(4096, 4096, 7168, (128, 128), "stride_as_m stride_bs_n"),
        by_blocks_of(1008, 1024, 1152, (128, 128), "stride_as_m stride_bs_n"),
    ),
    "b_gems_syrk": both(squared(4096, 4096), squared(1008, 1104)),
    "b_gems_sparse": both(chosen_tokens(4, 256), chosen_tokens(2, 5, 112)),
    "b_vllm_batched_moe": both(
        crowds((256, 100, 7, 0) * 16, "bf16", (64, 64)), crowds((33, 0, 80), "bf16", (64, 64))
    ),
    "b_vllm_batched_fp8": both(
        crowds((256, 100, 7, 0) * 16, "f8", (64, 128)), crowds((33, 0, 80), "f8", (64, 128))
    ),
}
"""Launches by the kernel's name."""
