# pyright: basic, reportMissingImports=false
"""Launches of products inside other kernels: of losses, scores of keys, projections and recurrences."""

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any

from benchmarks.launches.arrays import Array, Case, by, case, described, given, positive, ragged
from benchmarks.launches.others.dense import both
from benchmarks.launches.paged import permuted
from benchmarks.launches.products import SMS, product


def lowest(size: int) -> Any:
    """Logarithms of nothing."""
    import torch

    return torch.full((size,), -float("inf"))


def entropy(rows: int, vocabulary: int, width: int) -> Case:
    """The logarithm of each row's sum of exponentials, over blocks of columns, in order by locks."""
    locks = ceil(rows / 64)
    numbers = {"B": rows, "V": vocabulary, "D": width, "BMax": rows, "B_BIN": 1, "num_locks": locks}
    return case(
        by(rows, vocabulary, width),
        (locks * ceil(vocabulary / 128),),
        {"softcap": 30.0, "stride_eb": width, "stride_cv": width, **numbers},
        E=("bf16", rows * width, 0.5),
        C=("bf16", vocabulary * width, 0.05),
        Bias=("bf16", vocabulary, 0.5),
        LSE=("f32", rows, lowest),
        LA=("f32", 16, "zeros"),
        Locks=("i32", locks, "zeros"),
        Valids=("i32", 16, "zeros"),
    )


def stream(m: int, n: int, k: int) -> Case:
    """The last tiles are divided among programs along k, which add to C; where the tiles are a whole number
    for each program, or fewer than programs, each has one of its own."""
    tiles = ceil(m / 128) * ceil(n / 128)
    divided = tiles > SMS and tiles % SMS > 0
    one = product((m, n, k), (128, 128), names="{}")
    return described(
        {**one, "grid": (tiles // SMS * SMS if divided else tiles,)},
        a_desc=("a", (m, k), (128, 64)),
        b_desc=("b", (n, k), (128, 64)),
        a_desc_sk=("a", (m, k), (128, 128)),
        b_desc_sk=("b", (n, k), (128, 128)),
        c_desc=("c", (m, n), (128, 128)),
    )


def scores(lengths: Sequence[int], most: int, heads: int = 64, width: int = 128, page: int = 64) -> Case:
    """Scores of all keys of each sequence, in pages of 8-bit floats with their scales behind them."""
    rows, row = len(lengths), most // page
    bytes_of = page * (width + 4)
    numbers = {"stride_q_b": heads * width, "stride_q_n": heads * width, "stride_q_h": width}
    numbers |= {"stride_kvblk_fp8": bytes_of, "stride_kvblk_f32": bytes_of // 4}
    numbers |= {"stride_w_row": heads, "stride_bt_b": row, "stride_logits_row": most}
    return case(
        f"{rows} sequences",
        (rows, 4),
        {"scale_region_off": page * width // 4, "max_blocks": row, "max_model_len": most, **numbers},
        q_ptr=("f8", rows * heads * width, 0.5),
        kv_val_ptr=("f8", rows * row * bytes_of, 0.5),
        kv_scale_ptr=("f32", rows * row * bytes_of // 4, positive),
        weights_ptr=("f32", rows * heads, 0.5),
        ctx_lens_ptr=("i32", rows, given(lengths)),
        block_tables_ptr=("i32", rows * row, permuted),
        logits_ptr=("f32", rows * most, "zeros"),
    )


def pages(size: int) -> Any:
    """Pages of 64 keys: 64 bytes of each, then four exponents of each."""
    import torch

    found = torch.randint(-128, 128, (size // (64 * 68), 64 * 68))
    found[:, 64 * 64 :] = torch.randint(124, 128, (size // (64 * 68), 64 * 4))
    return found.flatten()


def fourths(size: int) -> Any:
    """For every fourth token a key anywhere; the three behind it follow."""
    import torch

    return (4 * torch.randperm(size // 4)[:, None] + torch.arange(4)).flatten()


def indexed(lengths: Sequence[int], most: int, heads: int = 64, width: int = 128, page: int = 64) -> Case:
    """Scores of keys of 4-bit floats, one for four tokens."""
    rows = len(lengths)
    numbers = {"row_stride": page * 68, "req_stride": 4 * most, "mask_stride": 0, "out_stride": most}
    numbers |= {"stride_qb": heads * width, "stride_qh": width, "stride_wb": heads}
    return case(
        f"{rows} sequences",
        (rows, min(ceil(most / 64), ceil(4 * SMS / rows))),
        {"L": most, "page_size": page, **numbers},
        q_ptr=("bf16", rows * heads * width, 0.5),
        w_ptr=("f32", rows * heads, 0.5),
        req_ptr=("i32", rows, permuted),
        req_table_ptr=("i32", rows * most * 4, fourths),
        lens_ptr=("i32", rows, given(lengths)),
        table_ptr=("int8", rows * most // page * page * 68, pages),
        out_ptr=("f32", rows * most, "zeros"),
    )


def gathered(tokens: int, heads: int = 16, width: int = 128, latent: int = 512, more: int = 64) -> Case:
    """Keys and values of all heads from one latent vector of each token, anywhere in a buffer."""
    return case(
        f"{tokens} tokens",
        (heads * ceil(tokens / 16),),
        {"total_kv": tokens},
        k_buffer=("bf16", tokens * (latent + more), 0.5),
        k_scale=("f32", 16, positive),
        kv_indices=("i32", tokens, permuted),
        kv_proj_weight=("bf16", heads * 2 * width * latent, 0.1),
        kv_proj_scale=("f32", 16, positive),
        k_prefix=("bf16", tokens * heads * (width + more), "zeros"),
        v_prefix=("bf16", tokens * heads * width, "zeros"),
    )


def recurrence(heads: int = 32, frames: int = 16, width: int = 64) -> Case:
    """States of matrices and vectors, forward and backward; sizes are constants, with few programs."""
    matrices, vectors = heads * frames * width**2, heads * frames * width
    inputs: dict[str, Array] = dict.fromkeys(("I_P_kv_ptr", "I_P_z_ptr"), ("f32", matrices, 0.05))
    states: dict[str, Array] = dict.fromkeys(("M_fwd_ptr", "M_rev_ptr"), ("f32", matrices, "zeros"))
    states |= dict.fromkeys(("z_fwd_ptr", "z_rev_ptr"), ("f32", vectors, "zeros"))
    ends = [f"{end}_state_{one}_ptr" for end in ("init", "final") for one in ("kv", "z")]
    unused: dict[str, Array] = dict.fromkeys(ends, ("f32", heads * width**2, "zeros"))
    return case(
        by(heads, frames),
        (heads, 1),
        {},
        **inputs,
        **states,
        **unused,
        A_ptr=("f32", matrices, 0.5),
        B_ptr=("f32", vectors, 0.5),
        decay_ptr=("f32", heads * frames, positive),
    )


def attention_gradients(batch: int, tokens: int, heads: int = 16, keys: int = 4, width: int = 64) -> Case:
    """Causal, with dropout; groups of heads add to the gradients of keys that they share."""
    blocks, numbers = ceil(tokens / 64), dict[str, float]()
    for array, axis, count in (
        ("q", "m", heads),
        ("do", "m", heads),
        ("dq", "m", heads),
        ("k", "n", keys),
        ("v", "n", keys),
        ("dk", "n", keys),
    ):
        strides = {"b": tokens * count * width, "h": width, axis: count * width}
        numbers |= {f"stride_{array}_{one}_in": stride for one, stride in strides.items()}
    numbers |= {"stride_delta_b_in": heads * tokens, "stride_delta_h_in": tokens}
    dropout = {"b": heads * tokens**2, "h": tokens**2, "m": tokens, "n": 1}
    numbers |= {f"stride_dropout_{axis}_in": stride for axis, stride in dropout.items()}
    numbers |= {f"stride_descale_{one}_z_in": 0 for one in ("q", "k", "v", "do")}
    queries: Array = ("bf16", batch * tokens * heads * width, 0.5)
    pairs: Array = ("bf16", batch * tokens * keys * width, 0.5)
    one = case(
        by(batch, tokens),
        (batch * blocks * heads,),
        {"sm_scale": width**-0.5, "dropout_p": 0.1, "philox_seed": 1234, "philox_offset_base_in": 5}
        | {"max_seqlen_q": tokens, "max_seqlen_k": tokens, "BATCH": batch, "NUM_K_PIDS": blocks}
        | numbers,
        q_ptr=queries,
        k_ptr=pairs,
        v_ptr=pairs,
        do_ptr=queries,
        dk_ptr=("bf16", pairs[1], "zeros"),
        dv_ptr=("bf16", pairs[1], "zeros"),
        dq_ptr=("f32", queries[1], "zeros"),
        m_ptr=("f32", batch * heads * tokens, positive),
        delta_ptr=("f32", batch * heads * tokens, 0.3),
        dropout_mask=("bool", 16, "zeros"),
    )
    return {**one, "tolerance": 2e-2}


LENGTHS = tuple(8192 - 61 * one for one in range(64))
"""Keys of sequences."""

CASES: Mapping[str, Sequence[Case]] = {
    "aiter_gather_kv": both(gathered(8192), gathered(1003)),
    "aiter_mha_fused_bwd": both(attention_gradients(4, 2048), attention_gradients(2, 352)),
    "cce_lse_fwd": both(entropy(2048, 32000, 2048), entropy(208, 1008, 192)),
    "sg_fp4_index": both(indexed(LENGTHS, 8192), indexed((500, 77, 1, 512, 130), 512)),
    "sg_sana_phase_b": (ragged(recurrence()),),
    "tb_streamk_cuda": (
        stream(4096, 4096, 4096),
        ragged(stream(1552, 1680, 400)),
        ragged(stream(1008, 1040, 1104)),
    ),
    "vllm_paged_mqa_logits": both(scores(LENGTHS, 8192), scores((1000, 77, 1, 1024, 130), 1024)),
}
"""Launches by the kernel's name."""
