# pyright: basic, reportMissingImports=false
"""Launches of kernels in more tiles, warps and widths than before."""

from collections.abc import Mapping, Sequence
from math import ceil

from benchmarks.launches import attention, cases
from benchmarks.launches.arrays import Case, bits, case, given
from benchmarks.launches.others.changed import holding, numbered, on
from benchmarks.launches.others.chunks import Shape
from benchmarks.launches.others.retiled import linear, narrow
from benchmarks.launches.others.routes import forward, grouped_gradient
from benchmarks.launches.others.wider import both, pairs
from benchmarks.launches.paged import unified
from benchmarks.launches.products import RAGGED, SQUARE, adapters, block_scaled, routed
from benchmarks.launches.spaces import BATCH, GROUPS, HEADS_OF, TOKENS, chunk_bmm, chunk_state

CHUNKS = (256, 160)
"""Tokens of a chunk of state space models."""


def few_bits(tokens: int, n: int, k: int, count: int = 16, top: int = 2, group: int = 128) -> Case:
    """Experts with weights of 4 bits, eight of a column in a word; results in the order of experts."""
    places, of_block = routed(tokens, count, top, 32)
    words, groups = k // 8 * n, ceil(k / group)
    scales, zeros = groups * n, groups * n // 8
    numbers = {"N": n, "K": k, "EM": len(places), "num_valid_tokens": tokens * top, "stride_am": k}
    numbers |= {"stride_be": words, "stride_bk": n, "stride_cm": n, "stride_scales_e": scales}
    numbers |= {"stride_scales_g": n, "stride_zeros_e": zeros, "stride_zeros_g": n // 8}
    return case(
        f"{tokens} tokens",
        (len(of_block) * ceil(n / 64),),
        numbers,
        a_ptr=("f16", tokens * k, 0.1),
        b_ptr=("i32", count * words, bits),
        c_ptr=("f16", len(places) * n, "zeros"),
        sorted_token_ids_ptr=("i32", len(places), given(places)),
        expert_ids_ptr=("i32", len(of_block), given(of_block)),
        num_tokens_post_padded_ptr=("i32", 1, given([len(places)])),
        scales_ptr=("f16", count * scales, 0.02),
        zeros_ptr=("i32", count * zeros, bits),
    )


def chunked_products(rows: int, columns: int) -> tuple[Case, Case]:
    full, odd = (
        on(
            chunk_bmm(chunk),
            ceil(chunk / rows) * ceil(chunk / columns),
            BATCH,
            ceil(TOKENS / chunk) * GROUPS,
        )
        for chunk in CHUNKS
    )
    return both(full, odd)


def chunked_states(tiles: int) -> tuple[Case, Case]:
    full, odd = (on(chunk_state(chunk), tiles, BATCH * ceil(TOKENS / chunk), HEADS_OF) for chunk in CHUNKS)
    return both(full, odd)


def in_four_parts(batch: int, tokens: int) -> Case:
    """Gradients of decays, one of each quarter of the keys."""
    one = attention.chunk_backward(batch, tokens)
    gradients = ("f32", 4 * batch * tokens * attention.HEADS, "zeros")
    return on(holding(one, dg=gradients), 4, ceil(tokens / 64), batch * attention.HEADS)


def shrunk(tokens: int, rank: int, k: int) -> Case:
    return on(adapters(tokens, rank=rank, k=k), 8 * ceil(tokens / 64) * ceil(rank / 32), 1, 4)


def twice_as_wide(one: Case) -> Case:
    """Attention with heads of 256."""
    arrays = {
        name: (kind, size * 2 if kind == "bf16" else size, begin)
        for name, (kind, size, begin) in one["arrays"].items()
    }
    strides = [
        name for name in one["numbers"] if name.startswith(("query_", "output_", "stride_k_", "stride_v_"))
    ]
    made = numbered(one, scale=256**-0.5, **{name: 2 * one["numbers"][name] for name in strides})
    return {**made, "arrays": arrays}


def between_chunks(s: Shape) -> Case:
    """Gradients of a linear attention whose first token has a factor of its own."""
    width = s.heads * s.keys
    return s.case(
        (ceil(s.keys / 32), s.chunks, s.pairs),
        {**s.keyed("q k"), **s.valued("v do"), **s.states("h dh", 0.3, "f32")},
        {**s.falling("gi", s.keys), **s.falling("ge", s.keys), "u": ("f32", width, 0.3)},
        {**s.keyed("dq dk", 0.3, "f32"), **s.keyed("dq2 dk2 dg", "zeros", "f32")},
        {**s.square("dA", 0.3, "f32"), "du": ("f32", s.batch * s.chunks * width, "zeros")},
    )


def scaled_blocks(shape: Sequence[int]) -> Case:
    return on(block_scaled(shape), ceil(shape[0] / 16) * ceil(shape[1] / 128))


CASES: Mapping[str, Sequence[Case]] = {
    "b_aa_w4a16_moe": both(few_bits(1024, 2816, 2048), few_bits(37, 384, 400, 5)),
    "b_bmm_w2": chunked_products(32, 64),
    "b_bmm_w8": chunked_products(128, 256),
    "b_dh_v64": linear(attention.gated_delta_h, lambda chunks, heads: (2 * heads,)),
    "b_dqkwg_w2": both(in_four_parts(4, 4096), in_four_parts(4, 1000)),
    "b_fla_attn_fwd_d64": both(narrow(attention.parallel(4, 4096)), narrow(attention.parallel(4, 1000))),
    "b_lora_n32": both(shrunk(1024, 64, 4096), shrunk(77, 48, 1024)),
    "b_rwkv_inter": pairs(between_chunks, heads=8, keys=64, values=64),
    "b_state_w2": chunked_states(4),
    "b_t06_bwd_128": both(
        attention.tutorial_backward(4, 16, 2048, 128), attention.tutorial_backward(1, 3, 640, 128)
    ),
    "b_ua_64": cases.CASES["vllm_unified_attention"],
    "b_ua_d256": both(
        twice_as_wide(unified((1,) * 64, (4000,) * 64, "64 tokens after 4000")),
        twice_as_wide(unified((300, 17, 64), (0, 500, 33), "3 sequences")),
    ),
    "b_uns_64": both(forward(1024, "f16"), forward(37, "f16")),
    "b_uns_dW_128": both(grouped_gradient(1024), grouped_gradient(37)),
    "b_w8a8_64": both(scaled_blocks(SQUARE), scaled_blocks(RAGGED)),
}
"""Launches by the kernel's name."""
