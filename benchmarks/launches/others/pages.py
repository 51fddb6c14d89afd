# pyright: basic, reportMissingImports=false
"""Launches of attention to keys and values in pages or slots, of several projects."""

from collections.abc import Callable, Mapping, Sequence
from math import ceil
from typing import Any

from benchmarks.launches.arrays import Array, Case, case, given, positive, ragged, up
from benchmarks.launches.others.changed import (
    around,
    below,
    chosen,
    holding,
    numbered,
    shaped,
    shuffled,
    starts,
    within,
)
from benchmarks.launches.paged import PAGE, tables

HEADS = 32
AFTER, BEFORE = (1024, 512, 700, 2048), (1024, 2000, 333, 64)
"""Queries of sequences, and tokens before them."""
SHORT, EARLIER = (130, 1, 77, 64), (100, 300, 0, 33)
"""The same of ragged launches."""
LONG = (8192,) * 64
ODD = (500, 1000, 300)
"""Tokens of sequences with one query each."""


def strides(names: str, heads: int, width: int, token: str = "bs") -> dict[str, int]:
    """Of tokens and heads, for arrays such as "q o"."""
    return {f"stride_{one}{token}": heads * width for one in names.split()} | {
        f"stride_{one}h": width for one in names.split()
    }


def label(queries: Sequence[int], before: Sequence[int]) -> str:
    return f"{sum(queries)} tokens after {sum(before)}"


# --- prefixes in pages ------------------------------------------------------------------------------------


def prefix(
    queries: Sequence[int], before: Sequence[int], width: int, block: int = 64, pack: int = 8, keys: int = 8
) -> Case:
    """Queries attend to the pages of what was there before and to keys that are given; `pack` elements of a
    key lie behind one another, and the tokens of a page behind one another in values. `block`: queries of a
    thread block."""
    row, lengths, begins = tables(queries, before)
    pages, page, tokens = row * len(queries), keys * width * PAGE, begins[-1]
    numbers = {"sm_scale": width**-0.5, "stride_b_loc_b": row}
    numbers |= {**strides("q o", HEADS, width), **strides("k v", keys, width)}
    for name, axis in (("k", PAGE * pack), ("v", PAGE)):
        numbers |= {f"stride_{name}_cache_bs": page, f"stride_{name}_cache_h": width * PAGE}
        numbers[f"stride_{name}_cache_d"] = axis
    small: Array = ("bf16", tokens * keys * width, 1.0)
    return case(
        label(queries, before),
        (len(queries), HEADS, ceil(max(queries) / block)),
        numbers,
        Q=("bf16", tokens * HEADS * width, 1.0),
        K=small,
        V=small,
        K_cache=("bf16", pages * page, 1.0),
        V_cache=("bf16", pages * page, 1.0),
        Out=("bf16", tokens * HEADS * width, "zeros"),
        B_Loc=("i32", pages, shuffled),
        B_Start_Loc=("i32", len(begins), given(begins)),
        B_Seqlen=("i32", len(lengths), given(lengths)),
    )


def prefix_bytes(queries: Sequence[int], before: Sequence[int]) -> Case:
    """Pages of 8-bit floats."""
    one = prefix(queries, before, 128)
    scale: Array = ("f32", 1, positive)
    size = one["arrays"]["K_cache"][1]
    cache: Array = ("f8", size, 1.0)
    return holding(one, K_cache=cache, V_cache=cache, k_scale=scale, v_scale=scale)


def prefix_sinks(queries: Sequence[int], before: Sequence[int]) -> Case:
    return holding(prefix(queries, before, 96), sink_ptr=("f32", HEADS, 1.0))


def prefix_of_sizes(queries: Sequence[int], before: Sequence[int], width: int, block: int) -> Case:
    """Sizes of pages are arguments."""
    one = prefix(queries, before, width, block, pack=16)
    sizes = {"block_size": PAGE, "x": 16, "stride_k_cache_bl": 16, "num_queries_per_kv": 4}
    return numbered(one, **sizes, k_scale=1.0, v_scale=1.0)


# --- all keys in pages --------------------------------------------------------------------------------------


def unified(
    queries: Sequence[int], before: Sequence[int], heads: int, shared: int, width: int, segments: int = 0
) -> Case:
    """Blocks of 16 queries of the heads that share keys; with `segments` of the keys, each of which has a
    result."""
    row, lengths, begins = tables(queries, before)
    keys, tokens, block = heads // shared, begins[-1], 16 // shared
    pages, page = row * len(queries), keys * width * PAGE
    numbers = {"scale": width**-0.5, "block_table_stride": row, "num_seqs": len(queries)}
    for name in ("query", "output"):
        numbers |= {f"{name}_stride_0": heads * width, f"{name}_stride_1": width}
    for name in "kv":
        sizes = (page, keys * width, width)
        numbers |= {f"stride_{name}_cache_{i}": one for i, one in enumerate(sizes)}
        numbers |= {f"stride_{name}s_{one}": 0 for one in ("blk", "slot", "head")}
    grid = tokens // block + len(queries), keys, *([segments] if segments else [])
    parts, arrays = tokens * heads * segments, dict[str, Array]()
    if segments:
        arrays = {f"segm_{name}_ptr": ("f32", parts, "zeros") for name in ("max", "expsum")}
        arrays["segm_output_ptr"] = ("f32", parts * width, "zeros")
    return case(
        label(queries, before),
        grid,
        {**numbers, "qq_bias_stride_0": 0},
        query_ptr=("bf16", tokens * heads * width, 1.0),
        output_ptr=("bf16", tokens * heads * width, "zeros"),
        key_cache_ptr=("bf16", pages * page, 1.0),
        value_cache_ptr=("bf16", pages * page, 1.0),
        block_tables_ptr=("i32", pages, shuffled),
        seq_lens_ptr=("i32", len(lengths), given(lengths)),
        query_start_len_ptr=("i32", len(begins), given(begins)),
        **arrays,
    )


def with_sinks(queries: Sequence[int], before: Sequence[int]) -> Case:
    return holding(unified(queries, before, HEADS, 4, 64, 16), sink_ptr=("bf16", HEADS, 1.0))


def with_slopes(queries: Sequence[int], before: Sequence[int]) -> Case:
    return holding(unified(queries, before, 16, 1, 80), alibi_slopes_ptr=("f32", 16, around(0.01)))


def with_cap(queries: Sequence[int], before: Sequence[int]) -> Case:
    return numbered(unified(queries, before, HEADS, 8, 256), softcap=30.0)


def halves(size: int) -> Any:
    """Two packed integers of 4 bits."""
    import torch

    return torch.randint(-128, 128, (size,))


def packed(queries: Sequence[int], before: Sequence[int], keys: int = 8, row: int = 16) -> Case:
    """Keys and values of 4 bits, with a scale for each token and head, whose lowest bits are the zero; scales
    of a token lie in a row."""
    one = unified(queries, before, HEADS, 4, 128, 16)
    size = one["arrays"]["key_cache_ptr"][1] // 2
    scales: Array = ("f32", size // (keys * 64) * row, around(0.1))
    numbers = {"out_scale": 1.0, "softcap": 0.0}
    for name in "kv":
        numbers |= {
            f"stride_{name}_cache_{i}": part for i, part in enumerate((PAGE * keys * 64, keys * 64, 64))
        }
        numbers |= {f"stride_{name}s_blk": PAGE * row, f"stride_{name}s_slot": row}
    return holding(
        numbered(one, **numbers),
        key_cache_ptr=("int8", size, halves),
        value_cache_ptr=("int8", size, halves),
        k_scale_cache_ptr=scales,
        v_scale_cache_ptr=scales,
    )


def decoded(lengths: Sequence[int], width: int, kind: str, keys: int = 4, splits: int = 8) -> Case:
    """One query of each sequence; the sum's logarithm lies behind each part's result."""
    batch, row, out = len(lengths), up(ceil(max(lengths) / PAGE), 16), width + 16
    numbers = {"sm_scale": width**-0.5, "stride_req_to_tokens_b": row}
    numbers |= {"stride_qbs": HEADS * width, "stride_qh": width}
    for name in "kv":
        numbers |= {f"stride_buf_{name}pbs": PAGE * keys * width, f"stride_buf_{name}bs": keys * width}
        numbers[f"stride_buf_{name}h"] = width
    numbers |= {"stride_mid_ob": HEADS * splits * out, "stride_mid_oh": splits * out, "stride_mid_os": out}
    size = batch * row * PAGE * keys * width
    return case(
        f"{batch} after {max(lengths)}",
        (batch, keys, splits),
        numbers,
        Q=("bf16", batch * HEADS * width, 1.0),
        K_Buffer=(kind, size, 1.0),
        V_Buffer=(kind, size, 1.0),
        Req_to_tokens=("i32", batch * row, shuffled),
        B_Seqlen=("i32", batch, given(lengths)),
        Att_Out=("f32", batch * HEADS * splits * out, "zeros"),
        k_scale=("f32", 1, positive),
        v_scale=("f32", 1, positive),
    )


# --- keys in slots ------------------------------------------------------------------------------------------


def extended(
    queries: Sequence[int],
    before: Sequence[int],
    width: int,
    values: int,
    block: int,
    kind: str = "bf16",
    keys: int = 8,
) -> Case:
    """Queries attend to slots that are listed and to keys that are given; `kind`: elements of slots."""
    batch, tokens, slots = len(queries), sum(queries), sum(before)
    numbers = {"sm_scale": width**-0.5, "k_scale": 1.0, "v_scale": 1.0, "kv_group_num": HEADS // keys}
    numbers |= {**strides("q", HEADS, width), **strides("o", HEADS, values), "stride_lse_bs": HEADS}
    numbers |= {**strides("k buf_k", keys, width), **strides("v buf_v", keys, values)}
    numbers |= {f"stride_buf_{name}{one}": 0 for name in "kv" for one in ("page", "tok")}
    numbers |= {"compact_batch_size": batch, "aux0_stride_t": 0, "aux0_stride_h": 0, "aux0_len": 0}
    return case(
        label(queries, before),
        (batch, HEADS, ceil(max(queries) / block)),
        numbers,
        Q_Extend=("bf16", tokens * HEADS * width, 1.0),
        K_Extend=("bf16", tokens * keys * width, 1.0),
        V_Extend=("bf16", tokens * keys * values, 1.0),
        O_Extend=("bf16", tokens * HEADS * values, "zeros"),
        LSE_Extend=("f32", tokens * HEADS, "zeros"),
        K_Buffer=(kind, slots * keys * width, 1.0),
        V_Buffer=(kind, slots * keys * values, 1.0),
        qo_indptr=("i32", batch + 1, given(starts(queries))),
        kv_indptr=("i32", batch + 1, given(starts(before))),
        kv_indices=("i64", slots, shuffled),
        window_kv_offset_ptr=("i32", batch, "zeros"),
    )


def extended_sinks(queries: Sequence[int], before: Sequence[int], block: int, kind: str = "bf16") -> Case:
    return holding(extended(queries, before, 64, 64, block, kind), sink_ptr=("f32", HEADS, 1.0))


def extended_mask(queries: Sequence[int], before: Sequence[int]) -> Case:
    """With a mask for each sequence, of queries by all its keys."""
    sizes = starts([one * (one + other) for one, other in zip(queries, before, strict=True)])
    return holding(
        extended(queries, before, 128, 128, 64),
        mask_ptr=("bool", sizes[-1], chosen(0.5)),
        mask_indptr=("i64", len(sizes), given(sizes)),
    )


def dense(queries: Sequence[int], before: Sequence[int], width: int, kind: str, keys: int = 8) -> Case:
    """All keys are given, one sequence's behind the other's; the number of thread blocks is a constant."""
    lengths = [one + other for one, other in zip(queries, before, strict=True)]
    batch, tokens, all_keys = len(queries), sum(queries), sum(lengths)
    numbers = {"sm_scale": width**-0.5, "k_scale": 1.0, "v_scale": 1.0, "stride_lse_bs": HEADS}
    numbers |= {**strides("q", HEADS, width), **strides("k", keys, width)}
    numbers |= {**strides("o", HEADS, 128), **strides("v", keys, 128)}
    return case(
        label(queries, before),
        (batch, HEADS, 64),
        numbers,
        Q=(kind, tokens * HEADS * width, 1.0),
        K=(kind, all_keys * keys * width, 1.0),
        V=(kind, all_keys * keys * 128, 1.0),
        O=("bf16", tokens * HEADS * 128, "zeros"),
        Lse=("f32", tokens * HEADS, "zeros"),
        qo_indptr=("i32", batch + 1, given(starts(queries))),
        kv_indptr=("i32", batch + 1, given(starts(lengths))),
    )


def slots_of(row: int, page: int) -> Callable[[int], Any]:
    """Slots of each sequence's tokens: pages in any order, the tokens of a page behind one another."""

    def begin(size: int) -> Any:
        import torch

        assert size % row == row % page == 0
        pages = torch.randperm(size // page).repeat_interleave(page)
        return pages * page + torch.arange(size) % page

    return begin


def slots(
    lengths: Sequence[int], width: int, page: int, keys: int = 4, shared: int = 16
) -> tuple[dict[str, float], dict[str, Array], int]:
    """What kernels have in common that find the slots of a sequence's tokens in a table: numbers, arrays and
    heads."""
    batch, row, heads = len(lengths), up(max(lengths), 128), keys * shared
    counts = {"max_slots": batch * row, "batch_size": batch, "gqa_group_size": shared, "head_dim": width}
    numbers = {**counts, "sm_scale": width**-0.5, "k_scale": 1.0, "stride_r2t_b": row}
    numbers |= {"stride_q_b": heads * width, "stride_q_h": width}
    numbers |= {"stride_k_s": keys * width, "stride_k_h": width}
    arrays: dict[str, Array] = {
        "q_ptr": ("bf16", batch * heads * width, 1.0),
        "k_cache_ptr": ("bf16", batch * row * keys * width, 1.0),
        "req_to_token_ptr": ("i32", batch * row, slots_of(row, page)),
        "seq_lens": ("i32", batch, given(lengths)),
        "slot_ids": ("i32", batch, shuffled),
    }
    return numbers, arrays, heads


def scores(lengths: Sequence[int], keys: int = 4) -> Case:
    """The largest product in each block of 64 keys."""
    numbers, arrays, heads = slots(lengths, 128, 1, keys)
    batch, blocks = len(lengths), up(ceil(max(lengths) / 64), 16)
    made = {"stride_s_h": batch * blocks, "stride_s_b": blocks}
    return case(
        f"{batch} after {max(lengths)}",
        (batch * 4, keys),
        {**numbers, **made, "init_blocks": 0, "local_blocks": 0},
        score_ptr=("f32", heads * batch * blocks, "zeros"),
        **arrays,
    )


def chosen_blocks(
    lengths: Sequence[int], width: int, block: int, page: int, kept: int = 16, keys: int = 4
) -> Case:
    """Each head of keys has a list of `kept` blocks of each sequence, in four parts."""
    numbers, arrays, heads = slots(lengths, width, page, keys)
    batch, parts = len(lengths), 4
    strides = {"stride_v_s": keys * width, "stride_v_h": width, "stride_ti_h": batch * 16, "stride_ti_b": 16}
    strides |= {"stride_o_c": batch * heads * width, "stride_o_b": heads * width, "stride_o_h": width}
    strides |= {"stride_l_c": batch * heads, "stride_l_b": heads, "stride_sink_h": width, "stride_sink_d": 1}
    counts = {"max_topk": kept, "max_kv_len": max(lengths)}
    counts |= {"hisparse_slots_stride_h": 0, "hisparse_slots_stride_b": 0}
    return case(
        f"{batch} after {max(lengths)}",
        (batch * parts, keys),
        {**numbers, **strides, **counts, "v_scale": 1.0},
        idx_ptr=("i32", keys * batch * 16, below(ceil(min(lengths) / block))),
        v_cache_ptr=arrays["k_cache_ptr"],
        o_ptr=("bf16", parts * batch * heads * width, "zeros"),
        lse_ptr=("f32", parts * batch * heads, "zeros"),
        **arrays,
    )


def chosen_pages(lengths: Sequence[int], kept: int = 16) -> Case:
    """Blocks are pages of 128; with a vector of each head for what is not there."""
    return holding(chosen_blocks(lengths, 64, 128, 128, kept), sink_ptr=("f32", 64 * 64, 1.0))


# --- others -------------------------------------------------------------------------------------------------


def recommended(
    lengths: Sequence[int], targets: Sequence[int], width: int, block: int, heads: int = 8, first: int = 10
) -> Case:
    """Attention without a softmax; the last tokens are targets, which do not see one another."""
    tokens = sum(lengths)
    numbers = {"alpha": width**-0.5, "H": heads, "MAX_SEQ_LEN": max(lengths), "DeltaSize": 0}
    numbers |= {f"stride_{name}h": width for name in "qkvo"}
    numbers |= {f"stride_{name}": heads * width for name in ("qm", "kn", "vn", "om")}
    return shaped(
        f"{len(lengths)} sequences",
        (ceil(max(lengths) / block), len(lengths) * heads),
        {**numbers, "contextual_seq_len": first, "max_attn_len": 0},
        "bf16",
        (tokens, heads, width),
        1.0,
        "Q K V",
        "Out",
        seq_offsets=("i64", len(lengths) + 1, given(starts(lengths))),
        num_targets=("i32", len(targets), given(targets)),
    )


def clusters(count: int, row: int, tokens: int) -> Callable[[int], Any]:
    """Where each of so many clusters begins, in rows; some are empty."""

    def begin(size: int) -> Any:
        import torch

        made = torch.full((size // row, row), tokens)
        made[:, :count] = torch.randint(0, tokens + 1, (size // row, count)).sort(1).values
        made[:, 0] = 0
        return made.flatten()

    return begin


def clustered(batch: int, heads: int, tokens: int, share: float, width: int = 128) -> Case:
    """100 clusters of queries, each of which attends to this share of 500 clusters of keys."""
    pairs, numbers = batch * heads, {"B": batch, "H": heads, "S": tokens, "D": width, "scale": width**-0.5}
    for name in "qkvo":
        numbers |= {f"stride_{name}b": heads * tokens * width, f"stride_{name}h": tokens * width}
        numbers[f"stride_{name}s"] = width
    numbers |= {"stride_dmap_b": heads * 100 * 512, "stride_dmap_h": 100 * 512, "stride_dmap_qc": 512}
    for name, row in (("q", 112), ("k", 512)):
        numbers |= {f"stride_{name}cs_b": heads * row, f"stride_{name}cs_h": row}
    return shaped(
        f"{batch}x{heads}x{tokens}",
        (pairs * 100,),
        numbers,
        "bf16",
        (batch, heads, tokens, width),
        1.0,
        "Q K V",
        "Out",
        dynamic_map=("bool", pairs * 100 * 512, chosen(share)),
        qc_cum_size=("i32", pairs * 112, clusters(100, 112, tokens)),
        kc_cum_size=("i32", pairs * 512, clusters(500, 512, tokens)),
    )


USERS, TARGETS = (4096, 3500, 3000, 2049), (300, 20, 100, 0)
FEW, ONES = (300, 64, 77, 130), (20, 5, 0, 64)
DECODED = (1,) * 64, (4000,) * 64
PARTS = (256, 200, 256, 256), (1000, 500, 2000, 0)

CASES: Mapping[str, Sequence[Case]] = {
    "aiter_hstu_d64": (recommended(USERS, TARGETS, 64, 128), ragged(recommended(FEW, ONES, 64, 128))),
    "aiter_hstu_fwd": (recommended(USERS, TARGETS, 128, 64), ragged(recommended(FEW, ONES, 128, 64))),
    "aiter_pa_prefill": (
        prefix_of_sizes(AFTER, BEFORE, 128, 64),
        ragged(prefix_of_sizes(SHORT, EARLIER, 128, 64)),
    ),
    "aiter_pa_win": (
        prefix_of_sizes(AFTER, BEFORE, 96, 32),
        ragged(prefix_of_sizes(SHORT, EARLIER, 96, 32)),
    ),
    "sg_dense_prefill2": (
        dense((4096, 2000), (0, 1000), 192, "bf16"),
        ragged(dense(SHORT, EARLIER, 192, "bf16")),
    ),
    "sg_extend_sink_win": (extended_sinks(AFTER, BEFORE, 128), ragged(extended_sinks(SHORT, EARLIER, 128))),
    "sg_m3_decode_score": (scores(LONG), ragged(scores(ODD))),
    "sg_m3_sink": (chosen_pages(LONG), ragged(chosen_pages(ODD, 10))),
    "sg_m3_topk_sparse": (
        chosen_blocks(LONG, 128, 64, 1),
        ragged(chosen_blocks(ODD, 128, 64, 1, 10)),
    ),
    "svg_dynamic": (clustered(1, 4, 16384, 0.15), ragged(clustered(1, 2, 1008, 0.15))),
    "vllm_decode_bf16": (decoded((4000,) * 64, 64, "bf16"), ragged(decoded(ODD, 64, "bf16"))),
    "vllm_decode_fp8": (decoded((4000,) * 64, 128, "f8", 8), ragged(decoded(ODD, 128, "f8", 8))),
    "vllm_int4_3d": (packed(*PARTS), ragged(packed(SHORT, EARLIER))),
    "vllm_prefix_fp8": (prefix_bytes(AFTER, BEFORE), ragged(prefix_bytes(SHORT, EARLIER))),
    "vllm_prefix_window": (prefix(AFTER, BEFORE, 64), ragged(prefix(SHORT, EARLIER, 64))),
    "vllm_ua_3d_sinks": (with_sinks(*DECODED), ragged(with_sinks(SHORT, EARLIER))),
    "vllm_ua_h80_alibi": (with_slopes(AFTER, BEFORE), ragged(with_slopes(SHORT, EARLIER))),
    "vllm_ua_softcap_win": (with_cap(AFTER, BEFORE), ragged(with_cap(SHORT, EARLIER))),
    "x_sg_dense_fp8": (
        within(dense((4096, 2000), (0, 1000), 128, "f8"), 2e-2),
        ragged(within(dense(SHORT, EARLIER, 128, "f8"), 2e-2)),
    ),
    "x_sg_extend_fp8": (
        within(extended_sinks(AFTER, BEFORE, 64, "f8"), 2e-2),
        ragged(within(extended_sinks(SHORT, EARLIER, 64, "f8"), 2e-2)),
    ),
    "x_sg_extend_mask": (extended_mask(AFTER, BEFORE), ragged(extended_mask(SHORT, EARLIER))),
    "x_sg_extend_mla": (
        extended(AFTER, BEFORE, 192, 128, 64),
        ragged(extended(SHORT, EARLIER, 192, 128, 64)),
    ),
    "x_vllm_prefix_sink": (prefix_sinks(AFTER, BEFORE), ragged(prefix_sinks(SHORT, EARLIER))),
}
"""Launches by the kernel's name."""
