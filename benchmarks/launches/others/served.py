# pyright: basic, reportMissingImports=false
"""Launches of kernels that serve models: attention on pages and on what was selected, adapters, experts."""

from collections.abc import Callable, Mapping, Sequence
from math import ceil
from typing import Any

from benchmarks.launches.arrays import Array, Case, by, case, given, nibbles, positive, ragged, up
from benchmarks.launches.others.breadth import shares
from benchmarks.launches.others.changed import below, holding, shuffled, starts

WIDTH = 128
"""Elements of a head."""


# --- what arrays hold -------------------------------------------------------------------------------------


def spread(counts: Sequence[int], kept: int, width: int = 0) -> Callable[[int], Any]:
    """For each count, in order, `kept` indices below it at equal distances, or all; -1 up to `width`."""

    def begin(size: int) -> Any:
        import torch

        below_these, i = torch.tensor(counts)[:, None], torch.arange(width or kept)
        made = torch.where(below_these > kept, i * below_these // kept, i)
        made = made.masked_fill(i >= below_these.clamp_max(kept), -1).flatten()
        assert len(made) == size
        return made

    return begin


def halves(size: int) -> Any:
    """The bits of numbers of 16 bits from 1/2 to 3/2."""
    import torch

    return positive(size).half().view(torch.int16)


def small_bytes(size: int) -> Any:
    """8-bit floats (e4m3) between -2 and 2."""
    import torch

    return torch.randint(0, 64, (size,)) + 128 * torch.randint(0, 2, (size,))


def listed(values: Sequence[int], type: str = "i32") -> Array:
    return type, len(values), given(values)


# --- attention on pages -----------------------------------------------------------------------------------


def sums(one: Sequence[int], other: Sequence[int]) -> list[int]:
    return [a + b for a, b in zip(one, other, strict=True)]


def paged(new: Sequence[int], before: Sequence[int], keys: int, **numbers: float) -> Case:
    """New tokens of sequences whose `before` first tokens are cached: what is common to two kernels."""
    batch, totals = len(new), sums(new, before)
    longest = up(max(totals), 16)
    slots = batch * longest
    scales = {"sm_scale": WIDTH**-0.5, "k_scale": 1.0, "v_scale": 1.0}
    return case(
        f"{batch} sequences",
        (),
        {"max_slots": slots, "stride_r2t_b": longest, **scales, **numbers},
        **dict.fromkeys(("k_cache_ptr", "v_cache_ptr"), ("bf16", slots * keys * WIDTH, 1.0)),
        req_to_token_ptr=("i32", slots, shuffled),
        seq_lens=listed(totals),
        prefix_lens=listed(before),
        slot_ids=listed([*reversed(range(batch))], "i64"),
    )


def scored(new: Sequence[int], before: Sequence[int], heads: int = 4, shared: int = 2) -> Case:
    """With the largest score of each 64 keys."""
    tokens, keys = sum(new), heads // shared
    blocks = up(ceil(max(sums(new, before)) / 64), 16)
    numbers = {"num_heads": heads, "gqa_group_size": shared, "qk_head_dim": WIDTH, "v_head_dim": WIDTH}
    numbers |= {"stride_s_h": tokens * blocks, "stride_s_q": blocks}
    for one in "qo":
        numbers |= {f"stride_{one}_n": heads * WIDTH, f"stride_{one}_h": WIDTH}
    for one in "kv":
        numbers |= {f"stride_{one}_s": keys * WIDTH, f"stride_{one}_h": WIDTH}
    one = holding(
        paged(new, before, keys, **numbers),
        cu_seqlens=listed(starts(new)),
        q_ptr=("bf16", tokens * heads * WIDTH, 1.0),
        o_ptr=("bf16", tokens * heads * WIDTH, "zeros"),
        score_ptr=("f32", heads * tokens * blocks, "zeros"),
    )
    return {**one, "grid": (ceil(max(new) / 64), len(new) * heads)}


def by_blocks(new: Sequence[int], before: Sequence[int], keys: int = 4, kept: int = 16) -> Case:
    """Each token's 16 heads of a group attend to 16 blocks of 128 keys."""
    tokens, heads = sum(new), 16 * keys
    numbers = {"num_kv_heads": keys, "stride_th": tokens * kept, "stride_tn": kept}
    for one in "qo":
        numbers |= {f"stride_{one}n": heads * WIDTH, f"stride_{one}h": WIDTH}
    for one in "kv":
        numbers |= {f"stride_{one}s": keys * WIDTH, f"stride_{one}h": WIDTH}
    seen = [(first + i) // 128 + 1 for first, count in zip(before, new, strict=True) for i in range(count)]
    one = holding(
        paged(new, before, keys, **numbers),
        cu_seqlens_q=listed(starts(new)),
        cu_seqblocks_q=listed(starts(new)),
        t_ptr=("i32", keys * tokens * kept, spread(seen * keys, kept)),
        q_ptr=("bf16", tokens * heads * WIDTH, 1.0),
        o_ptr=("bf16", tokens * heads * WIDTH, "zeros"),
    )
    return {**one, "grid": (max(new), keys, len(new))}


def selected(new: Sequence[int], kept: int, keys: int = 2, width: int = 2048) -> Case:
    """Each token attends to `kept` of those up to it; all strides are constants."""
    tokens = sum(new)
    seen = [i + 1 for count in new for i in range(count) for _ in range(keys)]
    return case(
        f"{tokens} tokens",
        (max(new), len(new) * keys),
        {"scale": WIDTH**-0.5, "topk": kept},
        q=("bf16", tokens * 16 * keys * WIDTH, 1.0),
        **dict.fromkeys("kv", ("bf16", tokens * keys * WIDTH, 1.0)),
        out=("bf16", tokens * 16 * keys * WIDTH, "zeros"),
        indices=("i32", tokens * keys * width, spread(seen, kept, width)),
        cu_seqlens=listed(starts(new)),
    )


def unified(new: Sequence[int], before: Sequence[int], heads: int = 32, shared: int = 4) -> Case:
    tokens, totals, keys = sum(new), sums(new, before), heads // shared
    slots = sum(totals)
    numbers = {"sm_scale_withk": WIDTH**-0.5, "v_scale": 1.0}
    numbers |= {f"stride_{one}bs": heads * WIDTH for one in "qo"} | {f"stride_{one}h": WIDTH for one in "qo"}
    for one in "kv":
        numbers |= {f"stride_buf_{one}bs": keys * WIDTH, f"stride_buf_{one}h": WIDTH}
    return case(
        f"{len(new)} sequences",
        (len(new), heads, ceil(max(new) / 128)),
        numbers,
        Q=("bf16", tokens * heads * WIDTH, 1.0),
        O=("bf16", tokens * heads * WIDTH, "zeros"),
        **dict.fromkeys(("K_Buffer", "V_Buffer"), ("bf16", slots * keys * WIDTH, 1.0)),
        qo_indptr=listed(starts(new)),
        kv_indptr=listed(starts(totals)),
        kv_indices=("i64", slots, shuffled),
        prefix_lens=listed(before),
    )


def verified(new: Sequence[int], before: Sequence[int], heads: int = 64, shared: int = 8) -> Case:
    """Up to four drafted tokens and what is before them, in 16 parts; rows of sums are padded to 16."""
    batch, tokens, slots, keys, parts = len(new), sum(new), sum(before), heads // shared, 16
    numbers = {"sm_scale": WIDTH**-0.5, "k_scale": 1.0, "v_scale": 1.0}
    numbers |= {"stride_qbs": heads * WIDTH, "stride_qh": WIDTH}
    for one in "kv":
        numbers |= {f"stride_buf_{one}bs": keys * WIDTH, f"stride_buf_{one}h": WIDTH}
    numbers |= {"stride_ob": heads * parts * 4 * WIDTH, "stride_oh": parts * 4 * WIDTH}
    numbers |= {"stride_os": 4 * WIDTH, "stride_ol": WIDTH}
    numbers |= {"stride_lb": heads * parts * 16, "stride_lh": parts * 16, "stride_ls": 16}
    return case(
        f"{batch} sequences",
        (batch, heads, parts),
        numbers,
        Q=("bf16", tokens * heads * WIDTH, 1.0),
        **dict.fromkeys(("K_Buffer", "V_Buffer"), ("bf16", slots * keys * WIDTH, 1.0)),
        qo_indptr=listed(starts(new)),
        kv_indptr=listed(starts(before)),
        kv_indices=("i64", slots, shuffled),
        Att_Out=("f32", batch * heads * parts * 4 * WIDTH, "zeros"),
        Att_Lse=("f32", batch * heads * parts * 16, "zeros"),
    )


def packed(new: Sequence[int], before: Sequence[int], rows: int, floats: bool, parts: int = 0) -> Case:
    """Keys as 8-bit floats or as numbers of four bits of 16 values, values of four bits; behind the data of
    32 tokens are their scales. `rows`: tokens of a thread block."""
    batch, tokens, totals, heads, keys = len(new), sum(new), sums(new, before), 32, 8
    data = 32 * keys * (WIDTH + 64 if floats else 64 + 64)
    page = data + 3 * 32 * keys * 2
    table = up(ceil(max(totals) / 32), 16)
    pages = sum(ceil(one / 32) for one in totals)
    numbers = {"scale": WIDTH**-0.5, "block_table_stride": table, "stride_cache_block": page}
    numbers |= {"query_stride_0": heads * WIDTH, "query_stride_1": WIDTH}
    numbers |= {"pit_stride_0": WIDTH, "num_seqs": batch}
    sums_of: dict[str, Array] = {
        "segm_output_ptr": ("f32", tokens * heads * parts * WIDTH, "zeros"),
        **dict.fromkeys(("segm_max_ptr", "segm_expsum_ptr"), ("f32", tokens * heads * parts, "zeros")),
    }
    whole: dict[str, Array] = {"output_ptr": ("bf16", tokens * heads * WIDTH, "zeros")}
    strides = {"output_stride_0": heads * WIDTH, "output_stride_1": WIDTH}
    grid = tokens // rows + batch, keys
    return case(
        f"{batch} sequences",
        (*grid, parts) if parts else grid,
        numbers if parts else numbers | strides,
        **(sums_of if parts else whole),
        query_ptr=("bf16", tokens * heads * WIDTH, 1.0),
        KV_cache_ptr=("uint8", pages * page, small_bytes if floats else nibbles),
        KV_cache_u16_ptr=("int16", pages * page // 2, halves),
        Centroids_ptr=("f32", 16, 1.0),
        Pair_lut_ptr=("f32", 512, 1.0),
        PiT_ptr=("f32", WIDTH * WIDTH, 0.1),
        block_tables_ptr=("i32", batch * table, below(pages)),
        seq_lens_ptr=listed(totals),
        query_start_len_ptr=listed(starts(new)),
    )


# --- adapters and experts ---------------------------------------------------------------------------------


def segments(lengths: Sequence[int], ranks: Sequence[int]) -> Mapping[str, Array]:
    """The adapter of each sequence."""
    return {
        "seg_indptr": listed(starts(lengths)),
        "weight_indices": listed([i % len(ranks) for i in range(len(lengths))]),
        "lora_ranks": listed(ranks),
    }


def gate_and_up(lengths: Sequence[int], ranks: Sequence[int], n: int) -> Case:
    """Adds to what is there."""
    tokens, k = sum(lengths), max(ranks)
    strides = {"x_stride_0": 2 * k, "w_stride_0": 2 * n * k, "w_stride_1": k, "output_stride_0": 2 * n}
    return case(
        by(tokens, n, k),
        (ceil(max(lengths) / 16) * ceil(n / 64), 2, len(lengths)),
        {"K": k, "output_dim": n, **strides},
        x=("bf16", tokens * 2 * k, 0.5),
        weights=("bf16", len(ranks) * 2 * n * k, 0.1),
        output=("bf16", tokens * 2 * n, 0.5),
        seg_lens=listed(lengths),
        scalings=("f32", len(ranks), positive),
        **segments(lengths, ranks),
    )


def absorbed(lengths: Sequence[int], ranks: Sequence[int], heads: int) -> Case:
    """The part of queries that an adapter of rank 16 makes; 128 of a head's 256 rows."""
    tokens, k, n = sum(lengths), 128, 16
    numbers = {"S": tokens, "H_FULL_K": heads * 256, "K": k, "N": n, "num_segments": len(lengths)}
    numbers |= {"x_stride_s": heads * k, "x_stride_h": k, "w_stride_l": heads * 256 * n, "w_stride_n": n}
    return case(
        by(tokens, heads),
        (ceil(max(lengths) / 16), heads, len(lengths)),
        {**numbers, "out_stride_s": heads * n, "out_stride_h": n},
        x=("bf16", tokens * heads * k, 0.5),
        w=("bf16", len(ranks) * heads * 256 * n, 0.1),
        out=("bf16", tokens * heads * n, "zeros"),
        **segments(lengths, ranks),
    )


def grouped(rows: Sequence[int], n: int = 1024, k: int = 2048, spare: int = 3) -> Case:
    """64 experts with these rows; the schedule has `spare` places more than blocks. `n` and `k` are
    constants."""
    blocks = [ceil(one / 64) for one in rows]
    places = [expert | block << 16 for expert, count in enumerate(blocks) for block in range(count)]
    return case(
        by(sum(rows), n, k),
        ((len(places) + spare) * n // 128,),
        {"grid_m": len(places) + spare},
        A=("bf16", (sum(rows) + 64) * k, 0.5),
        B=("bf16", len(rows) * n * k, 0.1),
        C=("bf16", sum(rows) * n, "zeros"),
        NumTokensPerExpert=listed(rows),
        ExpertTokenOffs=listed(starts(rows)),
        ExpertBlockOffs=listed(starts(blocks)),
        ExpertBlockSchedule=listed(places + [0] * spare),
    )


FEW, BEFORE = (70, 1, 133), (300, 65, 0)

CASES: Mapping[str, Sequence[Case]] = {
    "v_sg_gate_up_b": (
        gate_and_up([512] * 8, [64, 16, 32], 14336),
        ragged(gate_and_up([33, 0, 1, 70, 16], [0, 16, 48, 8], 208)),
    ),
    "v_sg_inkling_gg": (grouped(shares(16384, 64)), ragged(grouped([0, 1, 65, 64, 7] * 12 + [3] * 4))),
    "v_sg_m3_score": (scored([2048] * 4, [4096] * 4), ragged(scored(FEW, BEFORE))),
    "v_sg_m3_share": (by_blocks([512] * 2, [8192] * 2), ragged(by_blocks(FEW, BEFORE))),
    "v_sg_qsa_prefill": (selected([2048] * 2, 2048), ragged(selected([300, 1, 77], 128))),
    "v_sg_step_a_q": (absorbed([512] * 8, [16, 8, 16], 128), ragged(absorbed([33, 0, 1, 70], [0, 16, 5], 6))),
    "v_sg_unified": (unified([1024] * 4, [1024] * 4), ragged(unified(FEW, BEFORE))),
    "v_sg_verify": (verified([4] * 16, [4096] * 16), ragged(verified([4, 3, 1], [37, 1000, 5]))),
    "v_tq_2d_fp8": (
        packed([1024] * 4, [1024] * 4, 32, floats=True),
        ragged(packed(FEW, BEFORE, 32, floats=True)),
    ),
    "v_tq_3d": (
        packed([1] * 32, [4095] * 32, 4, floats=False, parts=16),
        ragged(packed([1, 3, 5, 1], [1000, 300, 17, 0], 4, floats=False, parts=16)),
    ),
}
"""Launches by the kernel's name."""
