# pyright: basic, reportMissingImports=false
"""Launches of kernels of forms that were not tried before."""

import random
from collections.abc import Mapping, Sequence
from math import ceil

from benchmarks.launches.arrays import Case, bits, by, case, described, given, positive, ragged
from benchmarks.launches.others.everyday import small_integers

# --- products -------------------------------------------------------------------------------------------


def winograd() -> Case:
    """36 products; the sizes are constants."""
    tiles, out, channels = 6272, 256, 128
    return case(
        by(36, tiles, out, channels),
        (ceil(tiles / 128) * ceil(out / 128), 36),
        {},
        V=("f16", 36 * tiles * channels, 0.5),
        U=("f16", 36 * out * channels, 0.1),
        M_out=("f16", 36 * tiles * out, "zeros"),
    )


def scaled_rows(m: int, n: int, k: int) -> Case:
    """Of bytes, with a scale for each row, and a bias."""
    return case(
        by(m, n, k),
        (ceil(m / 128) * ceil(n / 64),),
        {"M": m, "N": n, "K": k, "stride_am": k, "stride_bn": k, "stride_cm": n},
        c_ptr=("bf16", m * n, "zeros"),
        a_ptr=("int8", m * k, small_integers),
        b_ptr=("int8", n * k, small_integers),
        a_scale_ptr=("f32", m, positive),
        b_scale_ptr=("f32", 1, 0.01),
        bias_ptr=("bf16", n, 1.0),
    )


def gated_pair(m: int, n: int, k: int) -> Case:
    """Two products gate each other and are multiplied again; tiles of the result are added by atomic
    operations."""
    return case(
        by(m, n, k),
        (m // 64 * (n // 128),),
        {"M": m, "N": n, "K": k, "stride_xm": k, "stride_w1n": k, "stride_w2n": k, "stride_ym": k},
        x_ptr=("bf16", m * k, 0.5),
        w1_ptr=("bf16", n * k, 0.1),
        w2_ptr=("bf16", n // 2 * k, 0.1),
        y_ptr=("bf16", m * k, "zeros"),
    )


def half_bytes(m: int, n: int, k: int) -> Case:
    return case(
        by(m, n, k),
        (ceil(m / 64) * ceil(n / 128),),
        {"M": m, "N": n, "K": k, "stride_am": k, "stride_bk": n, "stride_cm": n},
        a_ptr=("bf16", m * k, 0.5),
        b_ptr=("int8", k // 2 * n, bits),
        c_ptr=("bf16", m * n, "zeros"),
    )


def added(batch: int, m: int, n: int, k: int) -> Case:
    return case(
        by(batch, m, n, k),
        (ceil(m / 64), n // 64, batch),
        {"alpha": 0.5, "beta": 2.0, "M": m, "N": n, "K": k},
        A=("f16", batch * m * k, 0.5),
        B=("f16", batch * k * n, 0.1),
        O=("f16", batch * m * n, "zeros"),
        bias=("f16", n, 1.0),
    )


def hosted(m: int, n: int, k: int) -> Case:
    one = case(
        by(m, n, k),
        (ceil(m / 128) * ceil(n / 128),),
        {"M": m, "N": n, "K": k, "stride_am": k, "stride_bk": n, "stride_cm": n},
        a=("f16", m * k, 0.5),
        b=("f16", k * n, 0.1),
        c=("f16", m * n, "zeros"),
    )
    return described(
        one,
        a_desc=("a", (m, k), (128, 64)),
        b_desc=("b", (k, n), (64, 128)),
        c_desc=("c", (m, n), (128, 128)),
    )


def routed(tokens: int) -> Case:
    """A router of 128 experts, the weights in three parts, in four parts along K."""
    experts, width, parts = 128, 4096, 4
    return case(
        f"{tokens} tokens",
        (1, parts, ceil(tokens / 64)),
        {"M": tokens},
        x_ptr=("bf16", tokens * width, 1.0),
        w_ptr=("bf16", 3 * experts * width, 0.02),
        part_ptr=("f32", parts * tokens * experts, "zeros"),
    )


def along_k(shares: Sequence[int]) -> Case:
    """Grouped along K, with the rows of one operand given; some are missing."""
    m, n, total = 4096, 2048, sum(shares)
    ends = [sum(shares[: i + 1]) for i in range(len(shares))]
    chosen = random.Random(1)
    rows = [chosen.randrange(total) if chosen.random() < 0.95 else -1 for _ in range(total)]
    return case(
        by(len(shares), m, n, total),
        (len(shares) * ceil(m / 64) * ceil(n / 128),),
        {"K": total},
        a_ptr=("bf16", total * m, 0.5),
        b_ptr=("bf16", total * n, 0.1),
        d_ptr=("f32", len(shares) * m * n, 1.0),
        k_indices_ptr=("i32", total, given(rows)),
        k_start_ptr=("i32", len(shares), given([0, *ends[:-1]])),
        k_end_ptr=("i32", len(shares), given(ends)),
    )


def hadamard(m: int, n: int) -> Case:
    """Only the largest values are kept."""
    return case(
        by(m, n),
        (132,),
        {"M": m, "N": n},
        a_ptr=("bf16", m * n, 1.0),
        b_ptr=("bf16", 256, 0.25),
        global_rht_amax_ptr=("f32", 1, "zeros"),
        global_a_amax_ptr=("f32", 1, "zeros"),
    )


# --- attention ------------------------------------------------------------------------------------------


def chosen_blocks(heads: int) -> Case:
    """32 of 128 blocks of keys for each block of queries."""
    length, width, kept, block = 8192, 128, 32, 64
    blocks, draw = length // block, random.Random(1)
    table = [one for _ in range(heads * blocks) for one in draw.sample(range(blocks), kept)]
    return case(
        by(heads, length, kept),
        (blocks, heads),
        {},
        **dict.fromkeys("QKV", ("bf16", heads * length * width, 0.5)),
        LUT=("i32", len(table), given(table)),
        LSE=("f32", heads * length, "zeros"),
        OS=("bf16", heads * length * width, "zeros"),
    )


def given_keys(counts: Sequence[int], heads: int = 64, width: int = 512, pool: int = 65536) -> Case:
    """Each query has its own keys, some missing; keys are values too."""
    draw, total = random.Random(1), sum(counts)
    begins = [sum(counts[:i]) for i in range(len(counts) + 1)]
    keys = [draw.randrange(pool) if draw.random() < 0.95 else -1 for _ in range(total)]
    strides = {"q_stride_t": heads * width, "q_stride_h": width, "kv_stride_n": width}
    strides |= {"out_stride_t": heads * width, "out_stride_h": width}
    return case(
        f"{len(counts)} queries, {total} keys",
        (len(counts), heads // 16),
        {"num_heads": heads, "head_dim": width, "num_kv": pool, "scale": width**-0.5, **strides},
        q_ptr=("bf16", len(counts) * heads * width, 0.5),
        kv_ptr=("bf16", pool * width, 0.5),
        kv_indices_ptr=("i32", total, given(keys)),
        kv_indptr_ptr=("i32", len(begins), given(begins)),
        attn_sink_ptr=("f32", heads, 1.0),
        out_ptr=("bf16", len(counts) * heads * width, "zeros"),
    )


CASES: Mapping[str, Sequence[Case]] = {
    "a_wino_f4x3": (winograd(),),
    "a_gems_token_smm": (scaled_rows(4096, 4096, 4096), ragged(scaled_rows(400, 528, 208))),
    "a_tb_int4": (half_bytes(4096, 4096, 4096), ragged(half_bytes(400, 528, 192))),
    "a_gems_baddbmm": (added(16, 1024, 1024, 1024), ragged(added(3, 208, 192, 96))),
    "a_gems_host_tma": (hosted(4096, 4096, 4096), ragged(hosted(400, 528, 208))),
    "a_vllm_bf16x3": (routed(4096), ragged(routed(77))),
    "a_dg_k_grouped": (along_k([1024, 512, 2048, 0, 512]), ragged(along_k([64, 0, 192]))),
    "a_ao_hadamard": (hadamard(8192, 8192), ragged(hadamard(400, 528))),
    "a_sg_sla_fwd": (chosen_blocks(24),),
    "a_aiter_ff_gated": (gated_pair(1024, 4096, 2048),),
    "a_aiter_dsv4": (given_keys([2048] * 128), ragged(given_keys([1000, 77, 0, 33]))),
}
"""Launches by the kernel's name."""
