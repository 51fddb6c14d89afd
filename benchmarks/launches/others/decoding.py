# pyright: basic, reportMissingImports=false
"""Launches of kernels that decode, whose strides are mostly constants: latent keys, regions, windows."""

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks.launches.arrays import Case, case, positive, ragged
from benchmarks.launches.others.changed import below, starts
from benchmarks.launches.others.served import listed, spread


def spread_at_end(counts: Sequence[int], kept: int, width: int) -> Callable[[int], Any]:
    """The last `kept` places: as `spread`, backwards, with -1 before them; then -1 up to `width`."""

    def begin(size: int) -> Any:
        import torch

        made = spread(counts, kept)(len(counts) * kept).view(-1, kept).flip(1)
        return torch.nn.functional.pad(made, (0, width - kept), value=-1).flatten()

    return begin


def some_below(limit: int) -> Callable[[int], Any]:
    """Indices below this, and about one in nine -1."""

    def begin(size: int) -> Any:
        import torch

        return torch.randint(-(limit // 8), limit, (size,)).clamp_min(-1)

    return begin


def latents(tokens: int, slots: int = 32768, heads: int = 128, parts: int = 4) -> Case:
    """Each token attends to 2048 latent keys, in four parts."""
    return case(
        f"{tokens} tokens",
        (tokens, heads // 16, parts),
        {"qk_scale": 0.06, "fp8_max": 448.0},
        q_nope_ptr=("bf16", tokens * heads * 512, 1.0),
        q_rope_ptr=("bf16", tokens * heads * 64, 1.0),
        kv_ptr=("bf16", slots * 576, 1.0),
        idx_ptr=("i32", tokens * 2048, some_below(slots)),
        lse_partial_ptr=("f32", tokens * parts * heads, "zeros"),
        acc_partial_ptr=("f32", tokens * parts * heads * 512, "zeros"),
    )


def latents_at_once(tokens: int, slots: int = 32768, heads: int = 128) -> Case:
    numbers = {"seq_q": tokens, "seq_kv": slots, "h_q": heads, "dim_qk": 576, "dim_v": 512, "sm_scale": 0.06}
    numbers |= {"stride_lse": heads, "stride_indices_token": 2048, "stride_indices_head": 2048}
    numbers |= {"stride_q_token": heads * 576, "stride_q_head": 576, "stride_k_token": 576}
    numbers |= {"stride_k_head": 576, "stride_v_token": 512, "stride_v_head": 512}
    numbers |= {"stride_out_token": heads * 512, "stride_out_head": 512}
    return case(
        f"{tokens} tokens",
        (tokens, heads // 16),
        numbers,
        q_buffer=("bf16", tokens * heads * 576, 1.0),
        k_buffer=("bf16", slots * 576, 1.0),
        v_buffer=("bf16", slots * 512, 1.0),
        indices_ptr=("i32", tokens * 2048, some_below(slots)),
        out_ptr=("bf16", tokens * heads * 512, "zeros"),
        **dict.fromkeys(("softmax_lse_ptr", "max_logits_ptr"), ("f32", tokens * heads, "zeros")),
    )


def with_sink(counts: Sequence[int], slots: int = 32768, heads: int = 64) -> Case:
    """Each token has its own list of keys of 512, which are the values too."""
    tokens = len(counts)
    strides = {f"{one}_stride_t": heads * 512 for one in ("q", "out")}
    strides |= {f"{one}_stride_h": 512 for one in ("q", "out")}
    return case(
        f"{tokens} tokens",
        (tokens, heads // 16),
        {"qk_scale": 0.06, "kv_stride_n": 512, **strides},
        q_ptr=("bf16", tokens * heads * 512, 1.0),
        unified_kv_ptr=("bf16", slots * 512, 1.0),
        kv_indices_ptr=("i32", sum(counts), below(slots)),
        kv_indptr_ptr=listed(starts(counts)),
        attn_sink_ptr=("f32", heads, 1.0),
        out_ptr=("bf16", tokens * heads * 512, "zeros"),
    )


def regions(positions: Sequence[int], pages: int, parts: int = 4) -> Case:
    """32 regions of 8 tokens for each row, keys of 192 before their values; rows of 32 heads overlap, as a
    head is wider than its stride, and so do tokens, beyond the last by 128."""
    rows = len(positions)
    return case(
        f"{rows} rows",
        (rows, parts),
        {"SCALE": 0.07},
        Q=("bf16", rows * 8192, 1.0),
        Cache=("bf16", pages * 32768 + 128, 1.0),
        Regions=("i32", rows * 64, spread_at_end([one // 8 + 1 for one in positions], 32, 64)),
        Table=("i32", rows * 512, below(pages)),
        Positions=listed(positions, "i64"),
        Active=listed([int(row % 7 != 3) for row in range(rows)]),
        **dict.fromkeys(("KScale", "VScale"), ("f32", 16, positive)),
        Partial=("f32", rows * parts * 32 * 192, "zeros"),
        Lse=("f32", rows * parts * 32, "zeros"),
        Output=("bf16", rows * 8192, "zeros"),
        Gate=("bf16", 16, 1.0),
    )


def windows(lengths: Sequence[int], pages: int, parts: int = 4) -> Case:
    """The last 512 keys of each sequence; heads of 192 overlap, beyond the last by 64."""
    tokens = len(lengths)
    return case(
        f"{tokens} tokens",
        (tokens * 8, parts),
        {"SCALE": 0.07},
        Q=("bf16", tokens * 8192 + 64, 1.0),
        **dict.fromkeys(("KCache", "VCache"), ("bf16", pages * 65536 + 64, 1.0)),
        Table=("i32", tokens * 512, below(pages)),
        SeqLens=listed(lengths),
        Partial=("f32", tokens * 64 * parts * 192, "zeros"),
        Lse=("f32", tokens * 64 * parts, "zeros"),
        Gate=("bf16", 16, 1.0),
        Output=("bf16", tokens * 8192 + 64, "zeros"),
    )


DRAW = random.Random(0)

CASES: Mapping[str, Sequence[Case]] = {
    "v_sg_mla_split_k": (latents(128), ragged(latents(5, 4000))),
    "v_sg_v4_decode": (with_sink([1152] * 128), ragged(with_sink([41, 1, 300, 16, 77], 4000))),
    "v_step5_split": (
        regions([DRAW.randrange(4096, 32768) for _ in range(1024)], 2048),
        ragged(regions([0, 7, 8, 300, 255, 256, 1000, 77], 64)),
    ),
    "v_swa_split": (
        windows([DRAW.randrange(2048, 32768) for _ in range(128)], 2048),
        ragged(windows([1, 37, 513, 600, 127], 64)),
    ),
    "v_xpu_mla": (latents_at_once(64), ragged(latents_at_once(5, 4000))),
}
"""Launches by the kernel's name."""
