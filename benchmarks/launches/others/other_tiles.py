# pyright: basic, reportMissingImports=false
"""Launches of kernels of the list and of others in other tiles, types and forms."""

from collections.abc import Callable, Mapping, Sequence
from math import ceil

from benchmarks.launches import attention, cases, products
from benchmarks.launches.arrays import (
    Array,
    Case,
    bits,
    by,
    case,
    decays,
    described,
    exponents,
    given,
    nibbles,
    positive,
    up,
)
from benchmarks.launches.attention import linear as each_chunk
from benchmarks.launches.others import (
    assorted,
    breadth,
    configured,
    every_key,
    everyday,
    further,
    linear,
    pages,
    quantized,
    retiled,
    routes,
    states,
    wider,
)
from benchmarks.launches.others.changed import holding, on, shuffled, typed, within
from benchmarks.launches.others.chunks import Shape, several
from benchmarks.launches.others.wider import both, chunked, of_chunks, pairs
from benchmarks.launches.paged import flexible
from benchmarks.launches.products import RAGGED, SMS, SQUARE, adapters, product, split
from benchmarks.launches.spaces import STATE, chunk_scan

CUBE = (4096, 4096, 4096)
FULL, ODD = 256, 160
"""Tokens of a chunk of state space models."""


def tiles_of(shape: Sequence[int], rows: int, columns: int) -> int:
    return ceil(shape[0] / rows) * ceil(shape[1] / columns)


def each(made: Callable[[Sequence[int]], Case], full: Sequence[int] = CUBE) -> tuple[Case, Case]:
    return both(made(full), made(RAGGED))


# --- products -----------------------------------------------------------------------------------------------


def by_descriptors(
    shape: Sequence[int], columns: int, kind: str, persistent: bool = False, step: int = 128
) -> Case:
    """C = A B^T by descriptors that the host makes, `step` columns of A at a time."""
    m, n, k = shape
    one = described(
        product(shape, (128, columns), kind, kind, names="{}", persistent=persistent),
        a_desc=("a", (m, k), (128, step)),
        b_desc=("b", (n, k), (columns, step)),
        c_desc=("c", (m, n), (128, columns)),
    )
    return within(one, 3e-2) if kind == "f8" else one


def eighths(shape: Sequence[int], tile: Sequence[int]) -> Case:
    """With results of 8 bits, by a fixed number of thread blocks."""
    return within(product(shape, tile, "f8", "f8", persistent=True), 3e-2)


def microscaled(packed: bool, m: int = 8192, n: int = 8192, k: int = 8192) -> Case:
    """A of 8-bit floats, B too or `packed` in 4 bits; scales in blocks of 128 rows x 4."""
    arrays: dict[str, Array] = {"c": ("f16", m * n, "zeros"), "a": ("f8", m * k, 0.5)}
    arrays["b"] = ("uint8", n * k // 2, nibbles) if packed else ("f8", n * k, 0.5)
    arrays |= {f"{name}_scale": ("uint8", rows * k // 32, exponents) for name, rows in (("a", m), ("b", n))}
    row, step = (k // 2, 64) if packed else (k, 128)
    return described(
        case(by(m, n, k), (ceil(m / 128) * ceil(n / 256),), {}, **arrays),
        a_desc=("a", (m, k), (128, 128)),
        b_desc=("b", (n, row), (256, step)),
        a_scale_desc=("a_scale", (1, m // 128, k // 128, 2, 256), (1, 1, 1, 2, 256)),
        b_scale_desc=("b_scale", (1, n // 128, k // 128, 2, 256), (1, 2, 1, 2, 256)),
        c_desc=("c", (m, n), (128, 256)),
    )


def divided(m: int, n: int, k: int) -> Case:
    return on(split(m, n, k), tiles_of((m, n), 32, 64), 4)


def fixed(kind: str, tile: Sequence[int] = (128, 128)) -> tuple[Case, ...]:
    """By a fixed number of thread blocks, with a bias."""
    shape = CUBE if kind == "f32" else SQUARE
    bias: Array = (kind, shape[1], 0.5)
    return both(
        product(shape, tile, kind, kind, persistent=True, bias_ptr=bias),
        product(RAGGED, tile, kind, kind, persistent=True, bias_ptr=bias),
    )


def batches(kind: str, side: int) -> tuple[Case, Case]:
    sizes = (8, 2048, 2048, 1024), (3, 400, 304, 208)
    full, odd = (
        typed(on(products.batched(*one), one[0], tiles_of(one[1:], side, side)), kind) for one in sizes
    )
    return both(full, odd)


def scaled_integers(shape: Sequence[int]) -> Case:
    m, n, k = shape
    sides: dict[str, Array] = {"a_ptr": ("int8", m * k, 20.0), "b_ptr": ("int8", n * k, 20.0)}
    scales: dict[str, Array] = {f"scale_{one}_ptr": ("f32", size, 0.02) for one, size in (("a", m), ("b", n))}
    return holding(products.scaled(shape), **sides, **scales)


def biased(tokens: int) -> Case:
    one = typed(retiled.experts_by(tokens, "f16", 64, 64), "f16")
    return holding(one, b_bias_ptr=("f16", 64 * 2048 + 16 * 2048, 0.5))


def whole_words(m: int, n: int = 4096, k: int = 4096) -> Case:
    """The sum over k is not divided; scales and zeros for each 32 rows, as many as a block has."""
    one = holding(
        breadth.packed_words(m, n, k),
        s_ptr=("f16", k // 32 * n, 0.01),
        qz_ptr=("i32", k // 32 * n // 8, bits),
    )
    return on(one, tiles_of((m, n), 64, 128), 1)


def added_input(m: int, n: int, k: int) -> Case:
    """An activation of alpha A B + beta I."""
    more: dict[str, Array] = dict.fromkeys(("alpha", "beta"), ("f32", 1, positive))
    return holding(products.fla_matmul(m, n, k), input=("bf16", m * n, 1.0), **more)


# --- attention ----------------------------------------------------------------------------------------------


def bytes_of_pages(one: Case) -> Case:
    size = one["arrays"]["key_cache_ptr"][1]
    cache: Array = ("f8", size, 1.0)
    scale: Array = ("f32", 1, positive)
    return holding(one, key_cache_ptr=cache, value_cache_ptr=cache, k_scale=scale, v_scale=scale)


def latent(
    lengths: Sequence[int], heads: int = 16, keys: int = 576, values: int = 512, splits: int = 8
) -> Case:
    """One query of each sequence; all heads share keys, of which the first are values too."""
    page, batch, out = 16, len(lengths), values + 16
    row = up(ceil(max(lengths) / page), 16)
    numbers = {"sm_scale": 192**-0.5, "stride_req_to_tokens_b": row, "stride_qbs": heads * keys}
    numbers |= {"stride_qh": keys, "stride_mid_ob": heads * splits * out, "stride_mid_oh": splits * out}
    for name in "kv":
        numbers |= {f"stride_buf_{name}pbs": page * keys, f"stride_buf_{name}bs": keys}
        numbers[f"stride_buf_{name}h"] = keys
    return case(
        f"{batch} after {max(lengths)}",
        (batch, 1, splits),
        {**numbers, "stride_mid_os": out},
        Q=("bf16", batch * heads * keys, 1.0),
        **dict.fromkeys(("K_Buffer", "V_Buffer"), ("bf16", batch * row * page * keys, 1.0)),
        Req_to_tokens=("i32", batch * row, shuffled),
        B_Seqlen=("i32", batch, given(lengths)),
        Att_Out=("f32", batch * heads * splits * out, "zeros"),
        k_scale=("f32", 1, positive),
        v_scale=("f32", 1, positive),
    )


def gated(one: Case, heads: int, backward: bool = False) -> Case:
    """With sums of logarithms of gates of all tokens before."""
    tokens = one["numbers"]["T"]
    size = 4 * tokens * heads
    more: dict[str, Array] = {"g_cumsum": ("f32", size, decays(tokens, heads, tokens))}
    if backward:
        more["dg_cumsum"] = ("f32", size, "zeros")
    return holding(one, **more)


def sequences(*lengths: int) -> Case:
    """One behind the other; 32 heads, four of which share keys."""
    s = several(*lengths, heads=32, few=8, chunk=128)
    arrays = {**s.keyed("q", 1.0), **s.shared("k v", 1.0), **s.keyed("o", "zeros")}
    return s.case((1, s.chunks, 32), arrays, s.single("lse", "zeros"), s.places("chunk_indices"))


def wide_query_gradient(tokens: int) -> Case:
    one = wider.query_gradient(4, tokens)
    arrays = {
        name: (kind, 2 * size if kind == "bf16" else size, begin)
        for name, (kind, size, begin) in one["arrays"].items()
    }
    return {**one, "arrays": arrays, "numbers": {**one["numbers"], "scale": 128**-0.5}}


def counted(batch: int, tokens: int) -> Case:
    count = batch * tokens * 4
    return holding(attention.sparse(batch, tokens), block_counts=("i32", count, given([16] * count)))


# --- linear attention ---------------------------------------------------------------------------------------


def kept(made: Callable[[int, int], Case], change: Callable[[Case], Case]) -> tuple[Case, Case]:
    return both(change(made(4, 4096)), change(made(2, 1000)))


def fixed_decay(one: Case) -> Case:
    """A factor of each head for all tokens."""
    return holding(one, g_gamma=linear.keyed_by(attention.HEADS))


def by_keys(b: int, t: int) -> Mapping[str, Array]:
    return {"gk": attention.gate(b, t, width=attention.WIDTH)}


def delta_by_keys(b: int, t: int) -> Case:
    return holding(attention.gated_delta_h(b, t), **by_keys(b, t))


def states_by_keys(s: Shape) -> Case:
    return holding(wider.state_backward(s), **s.falling("gk", s.keys))


def delta_backward_by_keys(s: Shape) -> Case:
    return holding(linear.delta_states_backward(s), **s.falling("gk", s.keys))


def half_as_many(s: Shape) -> Case:
    """64 values in a thread block."""
    return on(linear.delta_states_backward(s), s.values // 64 * s.pairs)


def gradients_of_sequences(*lengths: int) -> Case:
    s = several(*lengths)
    one = linear.chunk_backward(s, 64, gated=True)
    return holding(one, dg=("f32", 2 * s.rows * s.heads, "zeros"), **s.places("chunk_indices"))


def first_gradients(s: Shape) -> Case:
    return on(wider.state_backward(s), s.keys // 32, s.values // 32, s.pairs)


def simple_gla_64(b: int, t: int) -> Case:
    return each_chunk(
        b, t, lambda _, heads: (1, ceil(t / 64), heads), "q k v", "o", {"g": attention.gate(b, t, 64)}
    )


def narrower_values(s: Shape) -> Case:
    return on(wider.value_gradient(s), s.values // 32, s.chunks, s.pairs)


def values_of(tile: int) -> Callable[[Shape], Case]:
    return lambda s: on(wider.simple_value_gradient(s), s.values // tile, s.chunks, s.pairs)


def with_queries(s: Shape) -> Case:
    return holding(wider.recomputed(s), **s.keyed("qg", "zeros"))


# --- state space models -------------------------------------------------------------------------------------


def scans(rows: int, columns: int) -> tuple[Case, Case]:
    full, odd = (
        on(chunk_scan(chunk), *of_chunks(chunk, ceil(chunk / rows) * (64 // columns)))
        for chunk in (FULL, ODD)
    )
    return both(full, odd)


def wide_b_by_states(chunk: int) -> Case:
    tiles = ceil(chunk / 128) * STATE // 64
    one = wider.b_by_states(chunk, 64)
    return on(one, tiles, *one["grid"][1:])


def wide_c_backward(chunk: int) -> Case:
    tiles = ceil(chunk / 128) * STATE // 64
    one = states.c_backward(chunk, 1)
    return on(one, tiles, *one["grid"][1:])


def halves(chunk: int) -> Case:
    """Tiles of 128 by 128 of a chunk's products."""
    one = assorted.products_gradient(chunk)
    return on(one, ceil(chunk / 128) ** 2, *one["grid"][1:])


SAME = {
    "n_tut06_bwd_w8": "tut06_attn_bwd",
    "n_tut08_128x64": "tut08_grouped",
    "n_tut08_tma_64": "tut08_grouped_tma",
    "n_prefill_full": "vllm_prefill_attention",
    "n_prefix_w8": "vllm_prefix_prefill",
    "n_ua_tile64": "vllm_unified_attention",
    "n_fla_h_w2": "fla_chunk_fwd_h",
    "n_fla_delta_vf": "fla_gated_delta_h",
    "n_fla_kkt_128_w8": "fla_kkt",
    "n_fla_kkt_nog": "fla_kkt",
    "n_fla_wy_nog": "fla_wy_recompute",
    "n_fla_attn_win": "fla_parallel_attn_fwd",
    "n_dg_grouped_nk": "deepgemm_m_grouped",
}
"""Kernels that differ from those of the list only in warps, or in what a thread block does of the same."""

CASES: Mapping[str, Sequence[Case]] = {
    **{name: cases.CASES[other] for name, other in SAME.items()},
    "n_tut03_128x32": products.products((128, 32)),
    "n_tut03_bt_128x64": products.products((128, 64)),
    "n_tut03_fp8_128x32": products.products((128, 32), "f8"),
    "n_tut03_fp8_256x64": products.products((256, 64), "f8"),
    "n_tut03_fp8_64x128": products.products((64, 128), "f8"),
    "n_tut03_fp8_128x128": products.products((128, 128), "f8"),
    "n_tut06_c64x32": both(every_key.forward(4, 16, 4096, 128, 64), every_key.forward(1, 2, 320, 128, 64)),
    "n_tut06_128x64_w4": both(every_key.forward(4, 16, 4096, 128), every_key.forward(1, 2, 384, 128)),
    "n_tut06_64x128_w4": both(every_key.forward(4, 16, 4096, 128, 64), every_key.forward(1, 2, 384, 128, 64)),
    "n_tut06_64x64_w8": both(every_key.forward(4, 16, 4096, 128, 64), every_key.forward(1, 2, 320, 128, 64)),
    "n_tut06_fp8_128": both(
        within(every_key.forward(4, 16, 4096, 128, 128, "float8_e5m2"), 2e-2),
        within(every_key.forward(1, 1, 384, 128, 128, "float8_e5m2"), 2e-2),
    ),
    "n_tut09_tma_128": both(
        by_descriptors(SQUARE, 128, "f16", step=64), by_descriptors(RAGGED, 128, "f16", step=64)
    ),
    "n_tut09_tma_fp8": both(by_descriptors(SQUARE, 256, "f8"), by_descriptors(RAGGED, 256, "f8")),
    "n_tut09_tmap_fp8": both(
        by_descriptors(SQUARE, 256, "f8", True), by_descriptors(RAGGED, 256, "f8", True)
    ),
    "n_tut09_persist_fp8": both(eighths(SQUARE, (128, 256)), eighths(RAGGED, (128, 256))),
    "n_tut09_desc_fp8": both(eighths(SQUARE, (128, 256)), eighths(RAGGED, (128, 256))),
    "n_tut09_persist_128": products.products((128, 128), persistent=True),
    "n_tut09_desc_128": products.products((128, 128), persistent=True),
    "n_tut12_32": both(divided(1024, 1024, 8192), divided(400, 528, 2112)),
    "n_tut10_mxfp8": (microscaled(False),),
    "n_tut10_mixed": (microscaled(True),),
    "n_ds_64x64_w8": both(quantized.deepseek_tiles(4096, (64, 64)), quantized.deepseek_tiles(1008, (64, 64))),
    "n_ds_16x128_w8": both(
        quantized.deepseek_tiles(1024, (16, 128)), quantized.deepseek_tiles(112, (16, 128))
    ),
    "n_ds_32x128_w8": both(
        quantized.deepseek_tiles(1024, (32, 128)), quantized.deepseek_tiles(112, (32, 128))
    ),
    "n_w8a8_16x128": both(
        quantized.blocks_scaled((64, 8192, 7168), (16, 128)),
        quantized.blocks_scaled((48, 1040, 1104), (16, 128)),
    ),
    "n_w8a8_32x64": both(
        quantized.blocks_scaled((512, 8192, 4096), (32, 64)), quantized.blocks_scaled(RAGGED, (32, 64))
    ),
    "n_moe_32x128": both(retiled.experts_by(2048, "bf16", 32, 128), retiled.experts_by(77, "bf16", 32, 128)),
    "n_moe_128x256_w8": both(
        retiled.experts_by(8192, "bf16", 128, 256), retiled.experts_by(77, "bf16", 128, 256)
    ),
    "n_moe_fp8_16x64": both(retiled.experts_by(256, "f8", 16, 64), retiled.experts_by(77, "f8", 16, 64)),
    "n_moe_f16_bias": both(biased(2048), biased(77)),
    "n_prefill_64_w4": both(
        every_key.prefilled(every_key.LENGTHS, 64, 128), every_key.prefilled(every_key.SHORT, 64, 128)
    ),
    "n_prefill_f16_d64": both(
        every_key.prefilled(every_key.LENGTHS, 128, 64, "f16"),
        every_key.prefilled(every_key.SHORT, 128, 64, "f16"),
    ),
    "n_scaled_int8": both(scaled_integers(SQUARE), scaled_integers(RAGGED)),
    "n_scaled_64x64": each(lambda shape: on(products.scaled(shape), tiles_of(shape, 64, 64))),
    "n_w4a16_32x64": (products.packed((64, 64), 2048, 4096, 4096),),
    "n_bi_matmul_f16": fixed("f16"),
    "n_bi_matmul_f32": fixed("f32"),
    "n_bi_bmm_f32": batches("f32", 128),
    "n_bi_bmm_f16_64": batches("f16", 64),
    "n_prefix_64_w4": both(
        pages.prefix(pages.AFTER, pages.BEFORE, 128, 64), pages.prefix(pages.SHORT, pages.EARLIER, 128, 64)
    ),
    "n_decode_mla": both(latent((4000,) * 64), latent((500, 1000, 300))),
    "n_decode_cap": both(
        pages.decoded((4000,) * 64, 128, "bf16", 8), pages.decoded((500, 1000, 300), 128, "bf16", 8)
    ),
    "n_ua_fp8kv": tuple(map(bytes_of_pages, cases.CASES["vllm_unified_attention"])),
    "n_shrink_32": both(configured.shrunk(1024, 32, 4096), configured.shrunk(77, 32, 4096)),
    "n_shrink_k64_w8": both(on(adapters(1024), 8 * 32, 1, 4), on(adapters(77), 8 * 3, 1, 4)),
    "n_sg_extend_128": both(
        pages.extended(pages.AFTER, pages.BEFORE, 128, 128, 128),
        pages.extended(pages.SHORT, pages.EARLIER, 128, 128, 128),
    ),
    "n_sg_block_mask": both(everyday.by_groups(4096), everyday.by_groups(1008, 1040, 1152)),
    "n_sg_block_m16": both(everyday.by_groups(64, rows=16), everyday.by_groups(48, 1040, 1152, 16)),
    "n_sg_int8_128": each(lambda shape: on(further.blocks_of_integers(*shape), tiles_of(shape, 128, 128))),
    "n_sg_lora_b_64": both(
        retiled.adapted((256,) * 8, 4096, 16, 64), retiled.adapted((100, 1, 37), 1040, 16, 64)
    ),
    "n_fla_h_32_w2": retiled.linear(attention.chunk_h, lambda chunks, heads: (4, 2, heads)),
    "n_fla_h_gamma": kept(attention.chunk_h, fixed_decay),
    "n_fla_dh_32_w2": pairs(first_gradients),
    "n_fla_dh_gk": pairs(states_by_keys),
    "n_fla_dv_w2": pairs(values_of(64)),
    "n_fla_dv_128": pairs(values_of(128)),
    "n_fla_dqkwg_gamma": both(
        fixed_decay(attention.chunk_backward(4, 4096)), fixed_decay(attention.chunk_backward(4, 1000))
    ),
    "n_fla_dqkwg_vl": both(
        gradients_of_sequences(4096, 3500, 3000, 2049), gradients_of_sequences(300, 1, 77)
    ),
    "n_fla_delta_w2": retiled.linear(attention.gated_delta_h, lambda chunks, heads: (4 * heads,)),
    "n_fla_delta_gk": both(delta_by_keys(4, 4096), delta_by_keys(2, 1000)),
    "n_fla_dhu_128": pairs(half_as_many, heads=8),
    "n_fla_dhu_gk_w2": pairs(delta_backward_by_keys, heads=8),
    "n_fla_gla_128": retiled.linear(attention.gla_o, lambda chunks, heads: (1, chunks, heads)),
    "n_fla_gla_32_w2": retiled.linear(attention.gla_o, lambda chunks, heads: (2, chunks, heads)),
    "n_fla_attn_g": both(gated(attention.parallel(4, 4096), 32), gated(attention.parallel(4, 1000), 32)),
    "n_fla_attn_vl": both(sequences(4096, 3500, 3000, 2049), sequences(300, 1, 77, 130)),
    "n_fla_attn_64_w4": both(
        on(attention.parallel(4, 4096), 1, 64, 128), on(attention.parallel(4, 1000), 1, 16, 128)
    ),
    "n_fla_dkv_g": both(
        gated(attention.parallel_backward(4, 4096), 8, True),
        gated(attention.parallel_backward(4, 1000), 8, True),
    ),
    "n_fla_dq_128": both(wide_query_gradient(4096), wide_query_gradient(1000)),
    "n_fla_sgla_64": both(simple_gla_64(4, 4096), simple_gla_64(4, 1000)),
    "n_fla_matmul_in": both(added_input(*SQUARE), added_input(*RAGGED)),
    "n_fla_nsa_g16_cnt": (counted(2, 2048),),
    "n_fla_gla_dv_w2": pairs(narrower_values, heads=8),
    "n_fla_dvl_w2": pairs(wider.local_value_gradient),
    "n_fla_kda_wu_w8": pairs(with_queries),
    "n_fla_gla_A_64": pairs(wider.between_parts, heads=8),
    "n_mamba_bmm_64x256": configured.chunked_products(64, 256),
    "n_mamba_bmm_32x64_w2": configured.chunked_products(64, 32),
    "n_mamba_scan_128x64": scans(128, 64),
    "n_mamba_scan_64x32": scans(64, 32),
    "n_mamba_scan_noD": scans(128, 32),
    "n_mamba_state_128x64": configured.chunked_states(2),
    "n_mamba_state_128_w8": configured.chunked_states(1),
    "n_mamba_dstates_128": chunked(wider.state_gradients, 128, 64),
    "n_mamba_db_128": chunked(wide_b_by_states),
    "n_mamba_dc_128": chunked(wide_c_backward),
    "n_mamba_dcb_128": chunked(halves),
    "n_mamba_dx_128x64": both(
        states.input_backward(FULL, 128, wide=False), states.input_backward(ODD, 128, wide=False)
    ),
    "n_mamba_comb_128": chunked(wider.inputs_of_both, 128, 64),
    "n_ind_mm_256": (products.inductor("4096", (512,), "AB", 4096**2),),
    "n_ind_mm_64x128": (products.inductor("4096", (2048,), "AB", 4096**2),),
    "n_ind_flex_64": (on(flexible(), 64, 4, 32),),
    "n_ind_flex_128x32": (flexible(),),
    "n_ind_tma_256": (products.inductor("4096", (SMS,), "AB", 4096**2),),
    "n_ind_plus_64": (products.inductor("4096", (4096,), "ABCD", 4096**2),),
    "n_ind_bmm_64x128": (products.inductor("16x1024", (128, 16), "AB", 16 * 1024**2),),
    "n_ind_persist_256": (products.inductor("4096", (SMS,), "AB", 4096**2),),
    "n_liger_down_128": both(everyday.down_projected(4096), everyday.down_projected(100)),
    "n_liger_dX_64": both(wider.token_gradient(4096, 64), wider.token_gradient(100, 64)),
    "n_uns_fwd_128": both(
        routes.forward(1024, "bf16", permuted=False), routes.forward(37, "bf16", permuted=False)
    ),
    "n_uns_fwd_tma3": both(
        routes.forward(1024, "f16", permuted=False), routes.forward(37, "f16", permuted=False)
    ),
    "n_uns_dW_tma": both(routes.grouped_gradient(1024), routes.grouped_gradient(37)),
    "n_uns_dX_tma": both(routes.inputs_gradient(1024), routes.inputs_gradient(37)),
    "n_gems_mm_256": each(lambda shape: everyday.product(shape, (128, 256)), SQUARE),
    "n_gems_mm_32": each(lambda shape: everyday.product(shape, (32, 64), "bf16", "bf16")),
    "n_gems_bmm_64": both(
        on(everyday.batched(16, (1024, 1024, 1024)), 16, 16, 16),
        on(everyday.batched(3, (384, 384, 208)), 6, 6, 3),
    ),
    "n_gems_addmm_128": each(lambda shape: everyday.added(shape, 128, 256)),
    "n_gemlite_int4_128": both(
        quantized.gemlite(CUBE, (128, 128), 4, 32, ("bf16", "bf16")),
        quantized.gemlite((112, 384, 640), (128, 128), 4, 32, ("bf16", "bf16")),
    ),
    "n_gemlite_splitk_32": both(
        quantized.gemlite((64, 8192, 8192), (32, 128), 4, 64, parts=4),
        quantized.gemlite((48, 768, 1280), (32, 128), 4, 64, parts=4),
    ),
    "n_ao_int8_64": each(lambda shape: on(everyday.of_integers(shape), tiles_of(shape, 64, 64))),
    "n_ao_int8_256": both(
        on(everyday.of_integers(SQUARE), tiles_of(SQUARE, 128, 256)),
        on(everyday.of_integers((1008, 1040, 1152)), tiles_of(RAGGED, 128, 256)),
    ),
    "n_tb_w8a8_128": each(lambda shape: quantized.integers(shape, (128, 128))),
    "n_lmd_fp8_16": both(routes.compact(1024, 16), routes.compact(37, 16)),
    "n_lmd_awq_64": both(whole_words(2048), whole_words(77)),
}
"""Launches by the kernel's name."""
