# pyright: basic, reportMissingImports=false
"""Launches of kernels that were chosen, and measured first, after everything that they need was written."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import ceil

from benchmarks.launches import attention, cases
from benchmarks.launches.arrays import Array, Case, by, case, decays, described, given, positive, ragged, up
from benchmarks.launches.others import (
    breadth,
    configured,
    every_key,
    everyday,
    linear,
    pages,
    per_chunk,
    quantized,
    retiled,
    routes,
    states,
    tuned,
    wider,
)
from benchmarks.launches.others.changed import around, holding, numbered, on, shuffled
from benchmarks.launches.others.chunked import reflections
from benchmarks.launches.others.chunks import Shape
from benchmarks.launches.others.other_tiles import CUBE, scans, tiles_of
from benchmarks.launches.others.singular import four_bits
from benchmarks.launches.others.wider import both, chunked, pairs
from benchmarks.launches.products import RAGGED, SQUARE, packed, product, products
from benchmarks.launches.spaces import GROUPS, HEADS_OF, STATE, WIDTH_OF

# --- products -----------------------------------------------------------------------------------------------

SMALL = (2048, 2048, 2048)
EVEN = everyday.RAGGED
"""With k in whole blocks of 128."""


def each(
    made: Callable[[Sequence[int]], Case],
    tile: Sequence[int],
    full: Sequence[int] = CUBE,
    odd: Sequence[int] = RAGGED,
) -> tuple[Case, Case]:
    """In tiles of these rows and columns."""
    return both(*(on(made(shape), tiles_of(shape, *tile)) for shape in (full, odd)))


def few_rows(m: int, n: int, k: int) -> Case:
    """Packed by columns, in tiles of 16 by 64."""
    return packed((tiles_of((m, n), 16, 64), 1), m, n, k)


def few_aligned(m: int, n: int, k: int) -> Case:
    """The same with aligned rows of weights."""
    return on(four_bits(m, n, k), ceil(m / 16), ceil(n / 64))


def gptq(shape: Sequence[int], odd: Sequence[int], tile: Sequence[int]) -> tuple[Case, Case]:
    """Columns in whole tiles."""
    return both(quantized.gptq(shape, tile), quantized.gptq(odd, tile))


def added(shape: Sequence[int], tile: Sequence[int]) -> tuple[Case, Case]:
    return both(everyday.added(shape, *tile), everyday.added(RAGGED, *tile))


def renamed(m: int, n: int, k: int) -> Case:
    """Scales have longer names."""
    one = retiled.by_blocks_of(m, n, k, (64, 128), "stride_Ascale_m stride_Bscale_n")
    return holding(one, Ascale=one["arrays"]["As"], Bscale=one["arrays"]["Bs"])


def hosted(m: int, n: int, k: int) -> Case:
    """By descriptors that the host makes, with a scale for each 128 columns."""
    return described(
        retiled.by_blocks_of(m, n, k, (64, 128)),
        a_desc=("A", (m, k), (64, 128)),
        b_desc=("B", (n, k), (128, 128)),
        c_desc=("C", (m, n), (64, 128)),
    )


def half_hosted(m: int, n: int = 4096, k: int = 7168) -> Case:
    """Without a descriptor of the result; `n` and `k` are constants. Scales of A lie by columns."""
    one = case(
        by(m, n, k),
        (tiles_of((m, n), 128, 64),),
        {"M": m, "stride_ask": m, "stride_cm": n},
        A=("f8", m * k, 0.5),
        B=("f8", n * k, 0.5),
        C=("bf16", m * n, "zeros"),
        a_scale_ptr=("f32", m * k // 128, positive),
        b_scale_ptr=("f32", n // 128 * k // 128, positive),
    )
    return described(one, desc_a=("A", (m, k), (128, 128)), desc_b=("B", (n, k), (64, 128)))


def biased(m: int, n: int, k: int) -> Case:
    """8-bit floats with a scale for each row and column, and a bias. Tiles are numbered for 2048 of them."""
    tiles = tiles_of((m, n), 64, 128)
    assert tiles == 2048
    return case(
        by(m, n, k),
        (tiles,),
        {"M": m, "N": n, "K": k, "stride_am": k, "stride_bn": k, "stride_ck": m * n, "stride_cm": n},
        a_ptr=("f8", m * k, 0.5),
        b_ptr=("f8", n * k, 0.5),
        c_ptr=("bf16", m * n, "zeros"),
        a_scale_ptr=("f32", m, around(0.1)),
        b_scale_ptr=("f32", n, around(0.1)),
        bias_ptr=("bf16", n, 1.0),
    )


def gated(m: int, n: int, k: int) -> Case:
    """A half of the columns gates the other."""
    return numbered(product((m, n, k), (128, 128), "bf16", "bf16"), stride_cm=n // 2)


def in_parts(m: int, n: int, k: int = 8192) -> Case:
    """Four parts of the sum over k, as long as this, are added by atomic operations."""
    return on(product((m, n, k), (64, 64), "bf16", "f32"), 4 * tiles_of((m, n), 64, 64))


def wide_integers(m: int, n: int, k: int) -> Case:
    one = holding(breadth.integers(m, n, k), C=("f16", m * n, "zeros"))
    return on(one, tiles_of((m, n), 128, 256))


def experts(tokens: int, type: str, tile: Sequence[int]) -> tuple[Case, Case]:
    return both(retiled.experts_by(tokens, type, *tile), retiled.experts_by(77, type, *tile))


def turns(tokens: int, type: str, tile: Sequence[int], top: int) -> tuple[Case, Case]:
    """With scales of tensors, a bias, and weights of experts where a kernel has them."""
    return both(
        routes.quantized(tokens, type, tile, top=top),
        routes.quantized(77, type, tile, top=top, **routes.SMALL),
    )


# --- attention ----------------------------------------------------------------------------------------------


def in_one_row(lengths: Sequence[int], width: int = 128, heads: int = 32) -> Case:
    """Heads of sequences follow one another in the grid."""
    one = every_key.prefilled(lengths, 128, width)
    return on(numbered(one, H=heads, kv_group_num=4), ceil(max(lengths) / 128), len(lengths) * heads, 1)


def in_slots(queries: Sequence[int], before: Sequence[int], width: int = 64, heads: int = 8) -> Case:
    """All keys lie in slots, which a table lists for every sequence."""
    lengths = [one + other for one, other in zip(queries, before, strict=True)]
    row, batch = up(max(lengths), 16), len(lengths)
    cache: Array = ("bf16", row * batch * heads * width, 1.0)
    return holding(
        numbered(in_one_row(queries, width), stride_req_to_tokens_b=row),
        K=cache,
        V=cache,
        Req_to_tokens=("i32", row * batch, shuffled),
        B_req_idx=("i32", batch, shuffled),
        B_Seqlen=("i32", batch, given(lengths)),
        b_prompt_cache_len=("i32", batch, given(before)),
    )


def bytes_of(batch: int, tokens: int, width: int, heads: int = 32, few: int = 8) -> Case:
    """Queries and keys of 8 bits, with a scale for each 128 queries and 64 keys; sequences of one length."""
    strides = {f"stride_mask{axis}": 0 for axis in "zhm"}
    for names, count in (("qo", heads), ("kv", few)):
        for name in names:
            strides |= {f"stride_{name}z": tokens * count * width, f"stride_{name}h": width}
            strides[f"stride_{name}n"] = count * width
    rows = batch * tokens * width
    return case(
        by(batch, tokens, width),
        (ceil(tokens / 128), heads, batch),
        {"qo_len": tokens, "kv_len": tokens, **strides},
        Q=("int8", rows * heads, 25.0),
        K=("int8", rows * few, 25.0),
        V=("f16", rows * few, 0.5),
        Out=("f16", rows * heads, "zeros"),
        Q_scale=("f32", batch * heads * ceil(tokens / 128), around(0.015)),
        K_scale=("f32", batch * few * ceil(tokens / 64), around(0.015)),
        Lse=("f32", batch * heads * tokens, "zeros"),
    )


def before(tokens: int, block: int, heads: int = 16, width: int = 64) -> Case:
    """What `block` of the tokens get from those before them."""
    few: Array = ("bf16", block * heads * width, 0.5)
    size = tokens * heads * width
    return case(
        by(tokens, block),
        (ceil(block / 64), heads),
        {"H": heads, "T": tokens, "C": block, "fa_scale": 0.18},
        q_ptr=few,
        o_ptr=(*few[:2], "zeros"),
        k_ptr=("bf16", size, 0.5),
        v_ptr=("bf16", size, 0.5),
        lse_ptr=("f32", tokens * heads, around(4.0)),
        beta_ptr=("bf16", tokens * heads, positive),
    )


# --- linear attention and state space models ----------------------------------------------------------------

NARROW = Shape(keys=64, values=64)


def all_values(s: Shape) -> Case:
    """All values of a head in a thread block."""
    return on(linear.delta_states(s), s.pairs)


def all_value_gradients(s: Shape) -> Case:
    return on(wider.value_gradient(s), 1, s.chunks, s.pairs)


def wide_states(chunk: int) -> Case:
    """Tiles of 32 tokens and all states."""
    one = states.c_backward(chunk, 1)
    return on(one, ceil(chunk / 32), *one["grid"][1:])


def parts_of(s: Shape, size: int = 512) -> Case:
    """States of parts of a sequence, each of which begins anew."""
    count = s.batch * ceil(s.tokens / size) * s.heads
    parts: dict[str, Array] = dict.fromkeys(("hs", "hr"), ("f32", count * s.keys * s.values, "zeros"))
    return s.case((s.keys // 64, s.values // 64, count), s.keyed("k"), s.valued("v"), s.falling("g"), parts)


def reflected(s: Shape, size: int = 512) -> Case:
    """Products of reflections in parts of a sequence, whose length is a constant."""
    keys = {**s.keyed("k", 0.5), **s.keyed("w1 w2", 0.05), **s.keyed("k_new", "zeros")}
    made = {**s.states("hc_suffix", "zeros"), **reflections(s, "hc_whole", "zeros")}
    return s.case((s.batch * ceil(s.tokens / size), s.heads), keys, made)


def delta_gradients(s: Shape) -> Case:
    keys = {**s.keyed("k dw"), **s.keyed("dk", "zeros"), **s.square("A", 0.2)}
    values = {**s.valued("v du"), **s.valued("dv", "zeros")}
    numbers = {**s.single("beta", positive, "bf16"), **s.single("dbeta", "zeros")}
    return s.case((s.chunks, s.pairs), keys, values, numbers)


def memory_gradients() -> Case:
    """Keys of 128 in two parts, and memory of 64; sequences of 4096."""
    names = "q k v h do dh dq dk dv dA"
    grid = 2, per_chunk.CHUNKS, per_chunk.SEQUENCES
    return per_chunk.chunked(grid, names, "z A", wide="h dh", zeros="dq dk dv A", scale=128**-0.5)


def behind_one_another(lengths: Sequence[int], chunk: int = 256) -> Case:
    """States of chunks of sequences of these lengths; the last chunk of each has fewer tokens."""
    ends = [0]
    for length in lengths:
        first = ends[-1]
        ends += [first + min(one + chunk, length) for one in range(0, length, chunk)]
    chunks, tokens = len(ends) - 1, ends[-1]
    numbers = {"stride_x_seqlen": HEADS_OF * WIDTH_OF, "stride_x_head": WIDTH_OF}
    numbers |= {"stride_b_seqlen": GROUPS * STATE, "stride_b_head": STATE, "stride_states_hdim": STATE}
    numbers |= {"stride_states_chunk": HEADS_OF * WIDTH_OF * STATE, "stride_states_head": WIDTH_OF * STATE}
    for name in ("dt", "dA_cs"):
        numbers |= {f"stride_{name}_head": chunks * chunk, f"stride_{name}_chunk": chunk}
    steps = HEADS_OF * chunks * chunk
    return case(
        f"{len(lengths)} sequences",
        (1, chunks, HEADS_OF),
        numbers,
        x_ptr=("bf16", tokens * HEADS_OF * WIDTH_OF, 0.5),
        b_ptr=("bf16", tokens * GROUPS * STATE, 0.5),
        states_ptr=("f32", chunks * HEADS_OF * WIDTH_OF * STATE, "zeros"),
        dt_ptr=("f32", steps, positive),
        dA_cumsum_ptr=("f32", steps, decays(chunk)),
        cu_chunk_seqlens_ptr=("i32", len(ends), given(ends)),
    )


CASES: Mapping[str, Sequence[Case]] = {
    "w_ai_a8w8": both(biased(4096, 4096, 4096), biased(4048, 4000, 1152)),
    "w_ai_gated": both(gated(*CUBE), gated(1008, 1056, 1104)),
    "w_ai_splitk": both(in_parts(1024, 1024), in_parts(112, 208)),
    "w_ao_int8_256x64": each(everyday.of_integers, (256, 64), odd=EVEN),
    "w_ao_int8_64x128_w8": each(everyday.of_integers, (64, 128), odd=EVEN),
    "w_awq_16x64": both(few_rows(16, 28672, 8192), few_rows(48, 384, 640)),
    "w_decode_n64": both(
        pages.decoded((4000,) * 64, 128, "bf16", 8), pages.decoded((500, 1000, 300), 128, "bf16", 8)
    ),
    "w_fla_abc_bwd_K": (memory_gradients(),),
    "w_fla_delta_d64": linear.both(all_values, replace(NARROW, batch=8)),
    "w_fla_delta_wu": linear.both(tuned.applied, Shape()),
    "w_fla_delta_wy_bwd": linear.both(delta_gradients, Shape()),
    "w_fla_df_u": both(before(4096, 4096), before(1008, 80)),
    "w_fla_gla_32x128": retiled.linear(attention.gla_o, lambda chunks, heads: (1, chunks, heads)),
    "w_fla_gla_dv_128": pairs(all_value_gradients, heads=8),
    "w_fla_h_64x32_w8": retiled.linear(attention.chunk_h, lambda chunks, heads: (2, 4, heads)),
    "w_fla_h_split": linear.both(parts_of, Shape()),
    "w_fla_hh_fwd": (reflected(NARROW), ragged(reflected(replace(NARROW, batch=1)))),
    "w_fla_o_vf": linear.both(linear.outputs, Shape(), 128),
    "w_fla_sgla_d64": both(every_key.lightning(4, 4096), every_key.lightning(4, 1000)),
    "w_fla_wy_d64_w2": linear.both(tuned.applied, NARROW),
    "w_gems_addmm_32x64_w2": added(SMALL, (32, 64)),
    "w_gems_attn_128x128": both(every_key.causal(2, 32, 8, 4096, 4096), every_key.causal(1, 8, 8, 300, 300)),
    "w_gems_bmm_128x32": both(
        on(everyday.batched(16, (1024, 1024, 1024)), 8, 32, 16),
        on(everyday.batched(3, (384, 384, 192)), 3, 12, 3),
    ),
    "w_gems_fp8_tma": both(hosted(4096, 4096, 7168), hosted(1008, 1040, 1152)),
    "w_gems_mm_128_k32": each(everyday.product, (128, 128), SQUARE),
    "w_gems_mm_32x64_k256": each(everyday.product, (32, 64), (256, 8192, 8192)),
    "w_gl_64x256": both(
        quantized.gemlite(quantized.WEIGHTS, (64, 256), 8, 128),
        quantized.gemlite((112, 512, 640), (64, 256), 8, 128),
    ),
    "w_gl_64x64_k128": both(
        quantized.gemlite(quantized.WEIGHTS, (64, 64), 4, 32, ("bf16", "bf16")),
        quantized.gemlite((112, 192, 640), (64, 64), 4, 32, ("bf16", "bf16")),
    ),
    "w_lig_dW2_w4": both(
        wider.weight_gradient(4096, True, 128, 64), wider.weight_gradient(100, True, 128, 64)
    ),
    "w_lig_infer": (breadth.gated(4, 2048, 4096, 11008),),
    "w_lig_up_k32": both(everyday.up_projected(4096, columns=128), everyday.up_projected(100, columns=128)),
    "w_ll_fp8_block": both(renamed(4096, 4096, 7168), renamed(1008, 1040, 1152)),
    "w_ll_llama": both(in_slots(pages.AFTER, pages.BEFORE), in_slots(pages.SHORT, pages.EARLIER)),
    "w_ll_llama_new": both(in_one_row(every_key.LENGTHS), in_one_row(every_key.SHORT)),
    "w_lmd_fp8_tma": both(half_hosted(4096), half_hosted(1008)),
    "w_lmd_linear": both(wide_integers(*CUBE), wide_integers(77, 528, 400)),
    "w_mb_comb_64x32": chunked(wider.inputs_of_both, 64, 32),
    "w_mb_dc_32x128": chunked(wide_states),
    "w_mb_dstates_64x32_w2": chunked(wider.state_gradients, 64, 32),
    "w_mb_scan_64x64_w2": scans(64, 64),
    "w_mb_state_64x64_w2": configured.chunked_states(2),
    "w_moe_16x64": experts(32, "bf16", (16, 64)),
    "w_moe_fp8_tensor_16x64": turns(32, "f8", (16, 64), 8),
    "w_moe_routed_64": turns(4096, "bf16", (64, 128), 1),
    "w_prefill_f16_d64_w4": both(
        every_key.prefilled(every_key.LENGTHS, 64, 64, "f16"),
        every_key.prefilled(every_key.SHORT, 64, 64, "f16"),
    ),
    "w_sage_causal": both(bytes_of(4, 4096, 128), bytes_of(2, 1000, 128)),
    "w_sage_full": both(bytes_of(4, 4096, 64), bytes_of(2, 1000, 64)),
    "w_sg_block_64x64": both(
        on(everyday.by_groups(1024), tiles_of((1024, 4096), 64, 64)),
        on(everyday.by_groups(112, 1040, 1152), tiles_of((112, 1040), 64, 64)),
    ),
    "w_sg_extend_64": both(
        pages.extended(pages.AFTER, pages.BEFORE, 128, 128, 64),
        pages.extended(pages.SHORT, pages.EARLIER, 128, 128, 64),
    ),
    "w_sg_hopper_swap": both(
        on(everyday.by_groups(64, 8192, rows=16), 4 * 64, 1),
        on(everyday.by_groups(48, 1040, 1152, 16), 3 * 9, 1),
    ),
    "w_sg_moe": both(
        routes.moe(1024, "bf16", (64, 64)), routes.moe(77, "bf16", (64, 64), count=8, n=400, k=352)
    ),
    "w_sg_prefill": both(
        every_key.prefilled(every_key.LENGTHS, 128, 128), every_key.prefilled(every_key.SHORT, 128, 128)
    ),
    "w_t03_128x128": products((128, 128)),
    "w_t03_bf16_64x128": products((64, 128), "bf16", "bf16"),
    "w_t03_fp8_128x64": products((128, 64), "f8"),
    "w_t06_64x32": both(every_key.forward(4, 16, 4096, 128, 64), every_key.forward(1, 2, 320, 128, 64)),
    "w_t06_c_d128_128x32": both(every_key.forward(4, 16, 4096, 128), every_key.forward(1, 2, 384, 128)),
    "w_t06_d64_128x32": both(every_key.forward(4, 32, 4096, 64), every_key.forward(1, 2, 384, 64)),
    "w_t08_64x128": cases.CASES["tut08_grouped"],
    "w_t08_tma_k128": cases.CASES["tut08_grouped_tma"],
    "w_t09_desc_k128": products((128, 128), persistent=True),
    "w_t09_persist_k128": products((128, 128), persistent=True),
    "w_t12_stock_128": products((128, 128)),
    "w_tgi_32x32": gptq((512, 4096, 4096), (112, 384, 640), (32, 32)),
    "w_tgi_64x256": gptq(quantized.WEIGHTS, (112, 512, 640), (64, 256)),
    "w_uns_dW_64x256": both(routes.grouped_gradient(1024), routes.grouped_gradient(37)),
    "w_uns_dX_128": both(routes.inputs_gradient(1024), routes.inputs_gradient(37)),
    "w_uns_fwd_64x256": both(
        routes.forward(1024, "bf16", permuted=False), routes.forward(37, "bf16", permuted=False)
    ),
    "w_vllm_state": both(
        behind_one_another((4096, 3000, 777, 300) * 4), behind_one_another((300, 1, 77, 256))
    ),
    "w_w4a16_16x64": both(few_aligned(16, 28672, 8192), few_aligned(48, 400, 640)),
    "w_w8a8_64x128": both(
        quantized.blocks_scaled(CUBE, (64, 128)), quantized.blocks_scaled(RAGGED, (64, 128))
    ),
}
"""Launches by the kernel's name."""
