# pyright: basic, reportMissingImports=false
"""Launches of single kernels of many projects: products, adapters of low rank, attention, chunks of linear
attention."""

import random
from collections.abc import Mapping, Sequence
from math import ceil

from benchmarks.launches.arrays import Array, Case, bits, by, case, given, positive, up
from benchmarks.launches.others.breadth import loose
from benchmarks.launches.others.changed import around, holding, numbered, on, shuffled, starts
from benchmarks.launches.others.chunks import Shape
from benchmarks.launches.others.configured import chunked_states
from benchmarks.launches.others.delta import parts_backward
from benchmarks.launches.others.dense import CUBE, both
from benchmarks.launches.others.every_key import backward, forward
from benchmarks.launches.others.everyday import RAGGED as WHOLE
from benchmarks.launches.others.linear import both as of_shape
from benchmarks.launches.others.pages import AFTER, BEFORE, EARLIER, HEADS, SHORT, prefix
from benchmarks.launches.products import RAGGED, SMS, adapters, packed, product, products, routed

# --- products ---------------------------------------------------------------------------------------------


def cube(tile: Sequence[int], type: str = "f16") -> tuple[Case, Case]:
    """A smaller square than that of others, as tiles are small."""
    return both(product(CUBE, tile, type, type), product(RAGGED, tile, type, type))


def parts_of_heads(tokens: int, n: int, k: int, heads: int, parts: int = 4) -> Case:
    """A product of each head, with a result for each part of the sum over k; `n` in whole tiles, `k` in
    whole blocks of 64 of each part."""
    tiles = ceil(tokens / 64)
    strides = {"stride_ab": k, "stride_am": heads * k, "stride_bb": n * k, "stride_bn": k}
    return case(
        by(heads, tokens, n, k),
        (heads, tiles * n // 64, parts),
        {"M": tokens, "N": n, "K": k, **strides},
        a_ptr=("bf16", tokens * heads * k, 0.5),
        b_ptr=("bf16", heads * n * k, 0.1),
        part_ptr=("f32", heads * parts * tiles * 64 * n, "zeros"),
    )


def scaled(shape: Sequence[int]) -> Case:
    """8-bit floats with a scale for each row and column, and a bias; k in whole blocks of 128."""
    m, n, _ = shape
    return holding(
        product(shape, (128, 128), "f8", "bf16"),
        a_scale_ptr=("f32", m, positive),
        b_scale_ptr=("f32", n, positive),
        bias_ptr=("bf16", n, 1.0),
    )


def four_bits(m: int, n: int, k: int) -> Case:
    """Rows of weights are aligned."""
    row = up(n // 8, 16)
    one = packed((ceil(m / 128), ceil(n / 128)), m, n, k)
    return holding(numbered(one, stride_bk=row), b_ptr=("i32", k * row, bits))


def described_batch(batch: int, m: int, n: int, k: int) -> Case:
    """Descriptors of three dimensions, made by the kernel."""
    return case(
        by(batch, m, n, k),
        (SMS,),
        {"B": batch, "M": m, "N": n, "K": k},
        a_ptr=("f16", batch * m * k, 0.5),
        b_ptr=("f16", batch * n * k, 0.5),
        c_ptr=("f16", batch * m * n, "zeros"),
    )


def broadcast(candidates: int, users: int, m: int = 256, n: int = 128, k: int = 1024) -> Case:
    """To each candidate's product its user's is added; the sizes are constants."""
    draw = random.Random(0)
    user = sorted(draw.randrange(users) for _ in range(candidates))
    strides = {"b_stride_batch": k * n, "b_stride_k": n, "out_stride_batch": m * n, "out_stride_m": n}
    return case(
        by(candidates, m, n, k),
        (candidates * ceil(m / 128) * ceil(n / 128),),
        strides,
        a_ptr=("bf16", m * k, 0.1),
        b_ptr=("bf16", candidates * k * n, 0.5),
        cand_to_user_index_ptr=("i32", candidates, given(user)),
        user_res_ptr=("bf16", users * m * n, 1.0),
        out_ptr=("bf16", candidates * m * n, "zeros"),
    )


# --- experts ----------------------------------------------------------------------------------------------


def rows_of(tokens: int, count: int, top: int, block: int) -> tuple[list[int], list[int]]:
    """For each place its token, by experts in whole blocks; -1 is padding. And the expert of each block."""
    places, of_block = routed(tokens, count, top, block)
    return [place // top if place < tokens * top else -1 for place in places], of_block


def of_rows(tokens: int, count: int, top: int, n: int = 4096, k: int = 2048, empty: int = 2) -> Case:
    """Rows of tokens by their numbers, the last blocks of no expert; `n` and `k` are constants."""
    rows, of_block = rows_of(tokens, count, top, 128)
    rows += [-1] * 128 * empty
    experts = [expert for expert in of_block + [-1] * empty for _ in range(128)]
    return case(
        f"{tokens} tokens",
        (len(rows) // 128 * n // 128,),
        {"M": len(rows)},
        a_ptr=("bf16", tokens * k, 0.5),
        b_ptr=("bf16", count * n * k, 0.1),
        d_ptr=("bf16", len(rows) * n, 1.0),
        m_indices_ptr=("i32", len(rows), given(experts)),
        m_row_indices_ptr=("i32", len(rows), given(rows)),
    )


def of_sums(tokens: int, count: int, top: int, m: int = 2048, n: int = 1024) -> Case:
    """Gradients of weights: sums over each expert's tokens, of which the last has none; `m` and `n` are
    constants."""
    rows, of_block = rows_of(tokens, count, top, 128)
    begins = starts([128 * of_block.count(expert) for expert in range(count)] + [0])
    return case(
        f"{tokens} tokens",
        ((count + 1) * m // 128 * n // 128,),
        {"K": len(rows)},
        a_ptr=("bf16", tokens * m, 0.5),
        b_ptr=("bf16", len(rows) * n, 0.5),
        d_ptr=("bf16", (count + 1) * m * n, 1.0),
        k_indices_ptr=("i32", len(rows), given(rows)),
        k_start_ptr=("i32", count + 1, given(begins[:-1])),
        k_end_ptr=("i32", count + 1, given(begins[1:])),
    )


# --- adapters of low rank ---------------------------------------------------------------------------------


def expanded(tokens: int, experts: int = 64, slots: int = 8, width: int = 1024, rank: int = 16) -> Case:
    """A program for each choice of a token and 64 columns; of eight adapters one is off, some tokens have
    none. The width and the rank are constants."""
    draw = random.Random(0)
    choices, step = tokens * 8, 16
    enabled = [int(one != 5 * step) for one in range(slots * step)]
    strides = {"stride_as": tokens * 2 * rank, "stride_am": 2 * rank, "stride_bn": rank, "stride_oq": width}
    return case(
        f"{tokens} tokens",
        (choices, width // 64),
        {
            **strides,
            "stride_bs": experts * width * rank,
            "stride_be": width * rank,
            "stride_enabled": step,
        },
        shared_a_ptr=("bf16", slots * tokens * 2 * rank, 0.5),
        gate_b_ptr=("bf16", slots * experts * width * rank, 0.5),
        topk_ids_ptr=("i32", choices, given([draw.randrange(experts) for _ in range(choices)])),
        token_lora_mapping_ptr=("i32", tokens, given([draw.randrange(-1, slots) for _ in range(tokens)])),
        adapter_enabled_ptr=("i32", len(enabled), given(enabled)),
        output_ptr=("bf16", choices * width, 0.5),
    )


def added_values(lengths: Sequence[int], heads: int, n: int, rank: int) -> Case:
    """What adapters of segments add to heads' values, tokens in any order; adapters differ in rank. A head
    has 256 rows of weights, the last 128 of them for values."""
    tokens, count = sum(lengths), 4
    weights = heads * 256 * rank
    strides = {"x_stride_s": heads * rank, "x_stride_h": rank, "w_stride_l": weights, "w_stride_n": rank}
    return case(
        f"{tokens} tokens",
        (ceil(max(lengths) / 16) * ceil(n / 64), heads, len(lengths)),
        {"S": tokens, "K": rank, "N": n, "num_segments": len(lengths), **strides}
        | {"b_stride_s": heads * n, "b_stride_h": n},
        x=("bf16", tokens * heads * rank, 0.5),
        w=("bf16", count * weights, 0.3),
        base=("bf16", tokens * heads * n, 0.5),
        seg_indptr=("i32", len(lengths) + 1, given(starts(lengths))),
        weight_indices=("i32", len(lengths), given([one % count for one in range(len(lengths))])),
        lora_ranks=("i32", count, given([rank, rank // 2, rank - 8, 0])),
        sorted_token_ids=("i32", tokens, shuffled),
        scalings=("f32", count, positive),
    )


def shrunk(tokens: int, k: int, rank: int = 64) -> Case:
    """Tiles of 32 tokens; `k` in whole blocks of 32 of each of eight parts."""
    return on(adapters(tokens, rank=rank, k=k), 8 * ceil(tokens / 32) * ceil(rank / 64), 1, 4)


# --- attention --------------------------------------------------------------------------------------------


def slopes(queries: Sequence[int], before: Sequence[int], keys: int = 8, width: int = 128) -> Case:
    """8 elements of a key and a gap of as many, for every token of a page; values of a token behind one
    another."""
    one = prefix(queries, before, width)
    size, head = one["arrays"]["K_cache"][1], 16 * 2 * width
    strides = {"bs": keys * head, "h": head, "d": 16 * 16, "bl": 16}
    numbers = {f"stride_k_cache_{axis}": stride for axis, stride in strides.items()}
    return holding(
        numbered(one, **numbers, k_scale=1.0, v_scale=1.0),
        K_cache=("bf16", 2 * size, 1.0),
        Alibi_slopes=("f32", HEADS, around(0.01)),
    )


def relative(queries: Sequence[int], before: Sequence[int], keys: int = 8) -> Case:
    """With a number for each query, head and distance up to 64; pages of 64 tokens."""
    width, heads, page, extent = 128, 4 * keys, 64, 64
    lengths = [one + other for one, other in zip(queries, before, strict=True)]
    begins, row = starts(queries), up(ceil(max(lengths) / page), 16)
    pages, tokens = row * len(queries), begins[-1]
    numbers = {"gqa_group_size": 4, "head_dim": width, "softmax_scale": width**-0.5, "stride_bt_b": row}
    for name in "qo":
        numbers |= {f"stride_{name}_t": heads * width, f"stride_{name}_h": width}
    for name in "kv":
        numbers |= {f"stride_{name}_b": page * keys * width, f"stride_{name}_p": keys * width}
        numbers |= {f"stride_{name}_h": width}
    cache: Array = ("bf16", pages * page * keys * width, 1.0)
    return case(
        f"{tokens} tokens after {sum(before)}",
        (ceil(max(queries) / 16), keys, len(queries)),
        {**numbers, "stride_r_t": heads * extent, "stride_r_h": extent},
        q_ptr=("bf16", tokens * heads * width, 1.0),
        k_ptr=cache,
        v_ptr=cache,
        rel_ptr=("bf16", tokens * heads * extent, 1.0),
        out_ptr=("bf16", tokens * heads * width, "zeros"),
        block_table_ptr=("i32", pages, shuffled),
        cache_seqlens=("i32", len(lengths), given(lengths)),
        cu_seqlens_q=("i32", len(begins), given(begins)),
    )


def in_window(heads: int, document: int, tokens: int = 8192, window: int = 128, width: int = 64) -> Case:
    """Documents of one length, the number of tokens is a constant; numbers of heads lie 16 apart. Gradients
    of keys are added by atomic operations."""
    step = 16
    single: Array = ("bf16", tokens * heads * step, positive)
    numbers = {"scaling": width**-0.5, "stride_at": window}
    for name in ("qt", "kt", "dq_t", "dk_t"):
        numbers |= {f"stride_{name}": heads * width, f"stride_{name[:-1]}h": width}
    for name in ("w", "sd", "l"):
        numbers |= {f"stride_{name}t": heads * step, f"stride_{name}h": step}
    begins = [token // document * document for token in range(tokens)]
    vectors: dict[str, Array] = dict.fromkeys("QK", ("bf16", tokens * heads * width, 0.5))
    made: dict[str, Array] = dict.fromkeys(("DQ", "DK"), ("bf16", tokens * heads * width, "zeros"))
    one = case(
        f"{heads} heads, documents of {document}",
        (tokens // 32, heads),
        numbers,
        **vectors,
        **made,
        POST_W1=single,
        LSE=single,
        SOFT_DOT=("f32", tokens * heads * step, 0.3),
        DA_BUF=("bf16", tokens * window, 0.5),
        DOC_START_TABLE=("i32", tokens, given(begins)),
        DOC_END_TABLE=("i32", tokens, given([min(begin + document, tokens) for begin in begins])),
    )
    return loose(one)


# --- linear attention -------------------------------------------------------------------------------------


def fused_backward(s: Shape) -> Case:
    """Both directions in one program, for every head; four sequences are a constant."""
    keys = {**s.keyed("q k"), **s.keyed("dq dk", "zeros")}
    values = {**s.valued("v do"), **s.valued("dv", "zeros")}
    return s.case((1, 1, s.pairs), keys, values, s.falling("g"), s.single("dg", "zeros"))


def in_parallel(s: Shape) -> Case:
    """The delta rule without chunks' states; only the first halves of keys and values are used."""
    keys = {**s.keyed("q"), **s.keyed("k k2", 0.05), **s.single("beta", positive)}
    values = {**s.valued("v o"), **s.valued("o_new", "zeros")}
    attention: dict[str, Array] = {"attn": ("bf16", 16, "zeros")}
    return s.case((s.chunks, s.pairs), keys, values, attention)


def deltaformer_backward(s: Shape) -> Case:
    """Of one sequence; values of whole blocks are read."""
    single = {**s.single("lse_ptr beta_ptr", positive), **s.single("row_dot_ptr")}
    single["beta_ptr"] = ("bf16", s.rows * s.heads, positive)
    values = {"u_ptr": ("bf16", up(s.tokens, 64) * s.heads * s.values, 0.3)}
    keys = {**s.keyed("q_ptr k_ptr grad_v_ptr"), **s.keyed("grad_q_ptr grad_k_ptr", "zeros")}
    return s.case((s.chunks, s.heads), keys, values, single)


def shared_states(s: Shape) -> Case:
    """The delta rule; two heads have the same keys, tokens of a head behind one another."""
    keys = {**s.shared("k", 0.1), **s.keyed("w", 0.03), **s.falling("g")}
    values = {**s.valued("v"), **s.valued("v_new", "zeros"), **s.states("h", "zeros")}
    return s.case((s.values // 64, s.pairs), keys, values, T_flat=s.tokens)


def steady_parts_backward(s: Shape) -> Case:
    """With a number of each token that scales keys."""
    made = {**s.keyed("dq dk"), **s.keyed("dq2 dk2", "zeros"), **s.single("beta", positive)}
    db: dict[str, Array] = {"db": ("f32", s.keys // 64 * s.rows * s.heads, "zeros")}
    return parts_backward(s, made, db)


NARROW = Shape(keys=64, values=64)

CASES: Mapping[str, Sequence[Case]] = {
    "u_mstate_32x64_w2": chunked_states(4),
    "u_sg_bsplitk": both(parts_of_heads(256, 128, 512, 128), parts_of_heads(80, 192, 256, 3)),
    "u_sg_fp8_mm": both(scaled((8192, 8192, 4096)), scaled(WHOLE)),
    "u_sg_gate_exp": both(expanded(1024), expanded(19, 8)),
    "u_sg_step_b_v": both(
        added_values((2048, 1900, 1500, 672, 2072), 32, 128, 64), added_values((5, 130, 0, 64, 77), 2, 80, 48)
    ),
    "u_shrink_16": both(shrunk(16384, 4096), shrunk(77, 512)),
    "u_t03_32x64_w2": cube((32, 64)),
    "u_t03_64x32_w2": cube((64, 32)),
    "u_t03_fp8_128x256": products((128, 256), "f8"),
    "u_t03_lrelu_bf16": products((128, 256), "bf16", "bf16"),
    "u_t06_bwd_d32": both(backward(4, 16, 2048, 32), backward(1, 2, 384, 32)),
    "u_t06_c_64x64": both(forward(4, 16, 4096, 128, 64), forward(1, 2, 320, 128, 64)),
    "u_w4a16_128_w8": both(four_bits(2048, 4096, 4096), four_bits(208, 400, 640)),
    "v_alibi": both(slopes(AFTER, BEFORE), slopes(SHORT, EARLIER)),
    "v_b3d_tma": both(described_batch(16, 2048, 2048, 1024), described_batch(3, 208, 272, 336)),
    "v_common_fused_bwd": both(fused_backward(NARROW), fused_backward(Shape(4, 1000, keys=64, values=64))),
    "v_dc_qk": both(in_window(32, 256), in_window(3, 97)),
    "v_delta_par": of_shape(in_parallel, Shape(2)),
    "v_df_bwd_qk": both(
        deltaformer_backward(Shape(1, keys=64, values=64)),
        deltaformer_backward(Shape(1, 1000, keys=64, values=64)),
    ),
    "v_dg_ak_grouped": both(of_sums(8192, 16, 4), of_sums(77, 3, 2)),
    "v_dg_am_grouped": both(of_rows(1024, 16, 6), of_rows(77, 3, 2)),
    "v_h_opt": of_shape(shared_states, Shape(few=8)),
    "v_ikbo": both(broadcast(1024, 64), broadcast(37, 5)),
    "v_inkling_rel": both(
        relative((512, 300, 700, 512), (1536, 1000, 333, 64)),
        relative(SHORT, EARLIER, 2),
    ),
    "v_kda_bwd_intra": of_shape(steady_parts_backward, Shape(2)),
}
"""Launches by the kernel's name."""
