# pyright: basic, reportMissingImports=false
"""Launches of kernels of further forms: rerankers, routers, indexers and grouped products."""

import random
from collections.abc import Mapping, Sequence
from math import ceil

from benchmarks.launches.arrays import Array, Case, by, case, given, positive, ragged, up
from benchmarks.launches.others.breadth import loose
from benchmarks.launches.others.changed import below, starts
from benchmarks.launches.others.everyday import small_integers


def places(count: int, most: int) -> list[int]:
    """Different numbers below `most`, in any order."""
    return random.Random(0).sample(range(most), count)


# --- scores -----------------------------------------------------------------------------------------------


def largest_of_documents(lengths: Sequence[int], queries: int = 64, width: int = 128) -> Case:
    """Of each query the largest product with a vector of the document; at most 512 vectors each."""
    return case(
        f"{len(lengths)} documents",
        (len(lengths),),
        {"B": len(lengths), "Lq": queries, "stride_q_t": width, "stride_d_t": width},
        Q_ptr=("f16", queries * width, 0.3),
        D_ptr=("f16", (sum(lengths) + 512) * width, 0.3),
        doc_offsets_ptr=("i32", len(lengths), given(starts(lengths)[:-1])),
        doc_lengths_ptr=("i32", len(lengths), given(lengths)),
        scores_ptr=("f32", len(lengths), "zeros"),
    )


def scores_of_parts(heads: int, queries: int, keys: int, width: int = 128) -> Case:
    """The logarithm of the sum of each 2 by 4 exponentials."""
    rows, columns = ceil(queries / 2), ceil(keys / 4)
    wide = up(columns, 16)
    return case(
        by(heads, queries, keys),
        (ceil(queries / 128), ceil(keys / 128), heads),
        {"stride_qm": width, "stride_ql": queries * width, "stride_kn": width, "stride_kl": keys * width}
        | {"stride_om": wide, "stride_ol": rows * wide, "M": queries, "M_VALID": queries - 3}
        | {"N_VALID": keys - 5, "NOUT": columns, "MOUT": rows},
        Q=("bf16", heads * queries * width, 0.3),
        K=("bf16", heads * keys * width, 0.3),
        O=("bf16", heads * rows * wide, "zeros"),
    )


def scores_of_pages(lengths: Sequence[int], new: int = 64, heads: int = 16, width: int = 128) -> Case:
    """`new` tokens of each sequence at its end, keys in pages of 64; sums of what is positive."""
    batch, pages = len(lengths), ceil(max(lengths) / 64)
    rows, columns = batch * new, pages * 64
    visible = [length - new + 1 + one for length in lengths for one in range(new)]
    return case(
        f"{batch} sequences",
        (batch, ceil(new / 4), ceil(pages / 8)),
        {"stride_q_row": heads * width, "stride_q_head": width, "stride_cache_block": 64 * width}
        | {"stride_cache_token": width, "stride_table_req": pages, "stride_logits_row": columns}
        | {"num_rows": rows, "query_offset": 0, "page_table_width": pages},
        q_ptr=("bf16", rows * heads * width, 0.3),
        k_cache_ptr=("bf16", batch * pages * 64 * width, 0.3),
        page_table_ptr=("i32", batch * pages, given(places(batch * pages, batch * pages))),
        query_start_loc_ptr=("i32", batch + 1, given([new * one for one in range(batch + 1)])),
        visible_blocks_ptr=("i32", rows, given(visible)),
        logits_ptr=("f32", rows * columns, "zeros"),
    )


# --- attention --------------------------------------------------------------------------------------------


def latent_rows(tokens: int, keys: int, most: int) -> Case:
    """Each of the tokens has its own rows of the keys, some fewer than `most`."""
    draw = random.Random(0)
    rows = [draw.randrange(keys) for _ in range(tokens * most)]
    return case(
        by(tokens, most),
        (tokens,),
        {"sm_scale": 0.04, "topk": most},
        q_ptr=("bf16", tokens * 16 * 576, 0.5),
        kv_ptr=("bf16", keys * 576, 0.5),
        idx_ptr=("i32", tokens * most, given(rows)),
        len_ptr=("i32", tokens, given([most - one % 7 for one in range(tokens)])),
        o_ptr=("bf16", tokens * 16 * 512, "zeros"),
    )


def positions_of_images(batch: int, heads: int = 12, tokens: int = 4096, width: int = 64) -> Case:
    """Images of 64 columns, with a bias for each distance of rows and of columns."""
    size = batch * heads * tokens
    numbers = {"scale": width**-0.5}
    for name in ("q", "k", "v", "o"):
        row = "n" if name in "kv" else "m"
        numbers |= {f"stride_{name}b": heads * tokens * width, f"stride_{name}h": tokens * width}
        numbers |= {f"stride_{name}{row}": width}
    for name in ("rh", "rw"):
        numbers |= {f"stride_{name}b": heads * tokens * 64, f"stride_{name}h": tokens * 64}
        numbers |= {f"stride_{name}m": 64}
    inputs: dict[str, Array] = dict.fromkeys(("q_ptr", "k_ptr", "v_ptr"), ("bf16", size * width, 0.5))
    biases: dict[str, Array] = dict.fromkeys(("rel_h_ptr", "rel_w_ptr"), ("bf16", size * 64, 0.5))
    return case(
        by(batch, heads, tokens),
        (tokens // 64, batch * heads),
        numbers,
        **inputs,
        **biases,
        out_ptr=("bf16", size * width, "zeros"),
    )


def deltas(tokens: int, block: int, heads: int = 16, width: int = 128) -> Case:
    """The last `block` of the tokens, whose values follow from those before them."""
    size = tokens * heads * width
    return case(
        by(tokens, block),
        (ceil(block / 64), heads),
        {"H": heads, "T": tokens, "C": block, "qk_scale": 0.1275},
        q_ptr=("bf16", block * heads * width, 0.5),
        k_ptr=("bf16", size, 0.5),
        v_ptr=("bf16", block * heads * width, 0.5),
        u_ptr=("bf16", size, 0.5),
        w_ptr=("bf16", block * heads * block, "zeros"),
        lse_ptr=("f32", block * heads, "zeros"),
        beta_ptr=("bf16", block * heads, positive),
    )


def inner_gradients(tokens: int, batch: int = 8, width: int = 64) -> Case:
    """Chunks of 64 tokens in four parts; columns in two."""
    size = batch * tokens * width
    inputs: dict[str, Array] = dict.fromkeys(("q", "k", "z"), ("f32", size, 0.5))
    made: dict[str, Array] = dict.fromkeys(("dq", "dk"), ("f32", size, "zeros"))
    return case(
        by(batch, tokens, width),
        (2, ceil(tokens / 64) * 4, batch),
        {"T": tokens},
        **inputs,
        dA=("f32", batch * tokens * 64, 0.5),
        **made,
    )


# --- states -----------------------------------------------------------------------------------------------


def products_of_blocks(tokens: int, batch: int = 2, heads: int = 32, width: int = 128) -> Case:
    """Blocks of 256 tokens, each a product of keys and values."""
    blocks, size = ceil(tokens / 256), batch * heads * tokens * width
    return case(
        by(batch, heads, tokens),
        (batch * heads, blocks),
        {"n": tokens, "NUM_BLOCK": blocks},
        K=("bf16", size, 0.5),
        V=("bf16", size, 0.5),
        K_decay=("bf16", heads * 256, positive),
        KV=("f32", batch * heads * blocks * width * width, "zeros"),
    )


# --- layers -----------------------------------------------------------------------------------------------


def drafts(blocks: int, rank: int = 128, hidden: int = 1024, tokens: int = 32000) -> Case:
    """Blocks of eight tokens."""
    return case(
        f"{blocks} blocks",
        (blocks,),
        {},
        blk_ptr=("i64", blocks * 8, below(tokens)),
        am1_ptr=("i64", blocks, below(tokens)),
        xh_ptr=("bf16", blocks * 8 * rank, 0.5),
        lat_out_ptr=("bf16", blocks * 7 * rank, "zeros"),
        w1_ptr=("bf16", tokens * rank, 0.5),
        wlat_ptr=("bf16", rank * rank, 0.1),
        mixl_ptr=("bf16", 64 * rank, 0.3),
        wg_ptr=("bf16", rank * hidden, 0.1),
        wu_ptr=("bf16", rank * hidden, 0.1),
        wd_ptr=("bf16", hidden * rank, 0.1),
    )


def three_parts(rows: int, width: int = 16384, mixed: int = 24) -> Case:
    """The matrix in three parts of bf16; sixteen slices of the sum."""
    parts: dict[str, Array] = dict.fromkeys(("W_HI", "W_MID", "W_LO"), ("bf16", mixed * width, 0.02))
    return case(
        by(rows, width, mixed),
        (ceil(rows / 64), 16),
        {"M": rows},
        X=("bf16", rows * width, 1.0),
        **parts,
        MIX=("f32", 16 * rows * mixed, "zeros"),
        SQ=("f32", 16 * rows, "zeros"),
    )


def blocks_of_integers(m: int, n: int, k: int) -> Case:
    """With scales of 128 columns and of 128 by 128 weights."""
    return case(
        by(m, n, k),
        (ceil(m / 64) * ceil(n / 128),),
        {"M": m, "N": n, "K": k, "group_n": 128, "group_k": 128, "stride_am": k, "stride_bn": k}
        | {"stride_cm": n, "stride_As_m": ceil(k / 128), "stride_Bs_n": ceil(k / 128)},
        A=("int8", m * k, small_integers),
        B=("int8", n * k, small_integers),
        C=("bf16", m * n, "zeros"),
        As=("f32", m * ceil(k / 128), positive),
        Bs=("f32", ceil(n / 128) * ceil(k / 128), positive),
    )


def rows_of_experts(rows: int, experts: int = 8, n: int = 4096, k: int = 7168) -> Case:
    """Each 128 rows have an expert, or none; `n` and `k` are constants."""
    chosen = [one % (experts + 1) - 1 for one in range(rows // 128) for _ in range(128)]
    return case(
        by(rows, n, k),
        (rows // 128 * (n // 128),),
        {"M": rows},
        a_ptr=("bf16", rows * k, 0.3),
        b_ptr=("bf16", experts * n * k, 0.1),
        d_ptr=("bf16", rows * n, "zeros"),
        m_indices_ptr=("i32", rows, given(chosen)),
    )


def positions_of_heads(tokens: int, heads: int = 32, extent: int = 1024) -> Case:
    """Sixteen numbers for each head, behind the queries, keys and values."""
    row = 6144 + heads * 16
    return case(
        by(tokens, heads, extent),
        (ceil(tokens * heads / 256), extent // 128),
        {"rows": tokens * heads, "stride_x_t": row},
        qkvr_ptr=("bf16", tokens * row, 0.5),
        rel_proj_ptr=("bf16", 16 * extent, 0.3),
        rel_out_ptr=("bf16", tokens * heads * extent, "zeros"),
        log_scaling_ptr=("f32", tokens, positive),
    )


def gates_of_modalities(tokens: int = 4096, valid: int = 4000, experts: int = 128, width: int = 4096) -> Case:
    """Each 64 tokens have a modality; the sizes are constants."""
    gates: dict[str, Array] = {}
    for name in ("text", "image", "audio"):
        gates[f"{name}_gate_ptr"] = ("bf16", experts * width, 0.1)
        gates[f"{name}_bias_ptr"] = ("f32", experts, 1.0)
    return case(
        by(tokens, experts, width),
        (tokens // 64 * (experts // 64),),
        {},
        hidden_states_ptr=("bf16", tokens * width, 0.5),
        router_logits_ptr=("f32", tokens * experts, "zeros"),
        expert_bias_ptr=("f32", tokens * experts, "zeros"),
        **gates,
        token_indices_ptr=("i64", tokens, given(places(tokens, tokens))),
        modality_ids_ptr=("i64", tokens // 64, below(3)),
    )


CASES: Mapping[str, Sequence[Case]] = {
    "y_fla_abc_intraV": (inner_gradients(4096), ragged(inner_gradients(1000))),
    "y_fla_deltaformer": (loose(deltas(4096, 512)), ragged(loose(deltas(1040, 80)))),
    "z_sg_hc_bf16x3": (three_parts(4096), ragged(three_parts(77))),
    "z_sg_int8_block": (blocks_of_integers(4096, 4096, 4096), ragged(blocks_of_integers(77, 528, 400))),
    "z_sg_lightning_kvp": (products_of_blocks(4096), ragged(products_of_blocks(1000))),
    "z_sg_mla_prefill": (latent_rows(1024, 8192, 2048), ragged(latent_rows(77, 1000, 128))),
    "z_sg_multi_gate": (gates_of_modalities(),),
    "z_sg_subblock_score": (scores_of_parts(16, 4096, 4096), ragged(scores_of_parts(3, 400, 328))),
    "z_vllm_deepencoder": (positions_of_images(2),),
    "z_vllm_m_grouped": (rows_of_experts(4096),),
    "z_vllm_maxsim": (
        largest_of_documents([512] * 1000),
        ragged(largest_of_documents([77, 512, 1, 300], queries=50)),
    ),
    "z_vllm_qsa_prefill": (scores_of_pages([8192] * 8), ragged(scores_of_pages([1000, 77, 513], new=50))),
    "z_vllm_rel_proj": (positions_of_heads(2048), ragged(positions_of_heads(77))),
    "z_vllm_xpress": (loose(drafts(256)),),
}
"""Launches by the kernel's name."""
