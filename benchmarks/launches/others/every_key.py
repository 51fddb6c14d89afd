# pyright: basic, reportMissingImports=false
"""Launches of attention of every query to all keys or to those before it, of several projects."""

from collections.abc import Mapping, Sequence
from math import ceil

from benchmarks.launches.arrays import Array, Case, by, case, decays, given, positive, ragged, up
from benchmarks.launches.attention import prefill
from benchmarks.launches.others.changed import (
    around,
    below,
    holding,
    numbered,
    on,
    shaped,
    starts,
    typed,
    within,
)
from benchmarks.launches.paged import flexible
from benchmarks.launches.products import product

LENGTHS = (4096, 3500, 3000, 2049)
SHORT = (300, 1, 77, 130)
"""Tokens of sequences, the second of ragged launches."""


def forward(batch: int, heads: int, tokens: int, width: int, block: int = 128, inputs: str = "f16") -> Case:
    """Descriptors are made by the kernel; with 8-bit floats it reads values of most heads past the end of
    one, which gives zeros."""
    rows = batch * heads * tokens
    return shaped(
        by(batch, heads, tokens, width),
        (tokens // block, batch * heads),
        {"sm_scale": 0.5, "Z": batch, "H": heads, "N_CTX": tokens},
        inputs,
        (rows, width),
        0.4,
        "desc_q desc_k desc_v",
        "",
        desc_o=("f16", rows * width, "zeros"),
        M=("f32", rows, "zeros"),
    )


def backward(batch: int, heads: int, tokens: int, width: int, block: int = 128) -> Case:
    """`block`: keys of a thread block, and then as many queries."""
    rows = batch * heads * tokens
    strides = {"stride_z": heads * tokens * width, "stride_h": tokens * width, "stride_tok": width}
    return shaped(
        by(batch, heads, tokens, width),
        (tokens // block, 1, batch * heads),
        {"sm_scale": 0.5, "H": heads, "N_CTX": tokens, **strides},
        "f16",
        (rows, width),
        0.3,
        "Q K V DO",
        "DQ DK DV",
        M=("f32", rows, positive),
        D=("f32", rows, 0.3),
    )


def backward_keys(batch: int, heads: int, queries: int, keys: int, width: int = 64) -> Case:
    """The same with another number of keys, which are stored with as many rows as the queries."""
    one = backward(batch, heads, queries, width, 64)
    kv = {"kv_stride_z": heads * queries * width, "kv_stride_h": queries * width}
    return numbered(one, Q_CTX=queries, KV_CTX=keys, kv_head_num=heads, **kv)


def rows_of(name: str, heads: int, tokens: int, row: int) -> Mapping[str, int]:
    """Strides of batches of heads' rows."""
    sizes = {"batch": heads * tokens * row, "head": tokens * row, "seqlen": row}
    return {f"stride_{name}_{axis}": size for axis, size in sizes.items()}


def grouped(
    batch: int, heads: int, shared: int, queries: int, keys: int, width: int, block: int, mask: bool
) -> Case:
    """`shared` heads have the same keys; with a mask that is added to the products."""
    few, row = heads // shared, up(keys, 16)
    numbers = {"sm_scale": width**-0.5, "Z": batch, "q_head_num": heads, "kv_head_num": few}
    for name in "qo":
        numbers |= rows_of(name, heads, queries, width)
    for name in "kv":
        numbers |= rows_of(name, few, keys, width)
    added = rows_of("attn_mask", heads, queries, row)
    numbers |= {name.replace("mask_seqlen", "mask_q_seqlen"): size for name, size in added.items()}
    arrays: dict[str, Array] = dict.fromkeys(("K", "V"), ("bf16", batch * few * keys * width, 1.0))
    if mask:
        arrays["attn_mask"] = ("bf16", batch * heads * queries * row, 1.0)
    return shaped(
        by(batch, heads, queries, keys),
        (ceil(queries / block), batch * heads),
        {**numbers, "Q_CTX": queries, "KV_CTX": keys},
        "bf16",
        (batch, heads, queries, width),
        1.0,
        "Q",
        "Out",
        M=("f32", batch * heads * queries, "zeros"),
        **arrays,
    )


def masked(*sizes: int) -> Case:
    return typed(grouped(*sizes, width=64, block=64, mask=True), "f16")


def causal(*sizes: int) -> Case:
    return grouped(*sizes, width=128, block=128, mask=False)


def prefilled(lengths: Sequence[int], block: int, width: int, type: str = "bf16") -> Case:
    """`block`: queries of a thread block."""
    one = typed(prefill(lengths, width=width), type)
    return on(one, len(lengths), 32, ceil(max(lengths) / block))


def windowed(lengths: Sequence[int], window: int) -> Case:
    """Queries attend to this many keys before them."""
    one = prefilled(lengths, 128, 128, "f16")
    return numbered(one, sm_scale=128**-0.5, kv_group_num=4, sliding_window=window)


def bytes_of(lengths: Sequence[int], width: int, block: int, heads: int = 32, shared: int = 4) -> Case:
    """Queries and keys of 8 bits, with a scale for each block of queries and of 64 keys. The last block of a
    sequence's queries may read the scale behind the sequence's last."""
    tokens, few = sum(lengths), heads // shared
    scales, key_scales = (starts([ceil(one / size) for one in lengths]) for size in (block, 64))
    strides = {f"stride_{name}n": heads * width for name in "qo"}
    strides |= {f"stride_{name}n": few * width for name in "kv"}
    strides |= {f"stride_{name}h": width for name in "qkvo"}
    tables = {
        "cu_seqlens_q": starts(lengths),
        "cu_seqlens_k": starts(lengths),
        "cu_seqlens_q_scale": scales,
        "cu_seqlens_k_scale": key_scales,
    }
    return case(
        f"{len(lengths)} sequences",
        (ceil(max(lengths) / block), heads, len(lengths)),
        strides,
        Q=("int8", tokens * heads * width, 25.0),
        K=("int8", tokens * few * width, 25.0),
        V=("f16", tokens * few * width, 0.5),
        Out=("f16", tokens * heads * width, "zeros"),
        Q_scale=("f32", scales[-1] * heads, around(0.015)),
        K_scale=("f32", (key_scales[-1] + 1) * few, around(0.015)),
        **{name: ("i32", len(of), given(of)) for name, of in tables.items()},
    )


def flexible_narrow(type: str) -> Case:
    """Heads of 64 in rows of 128; thread blocks of 64 queries."""
    return on(typed(flexible(), type), 64, 4, 32)


def flexible_masked() -> Case:
    """All blocks are masked, those before the diagonal too."""
    rows = [column if column <= row else 0 for row in range(32) for column in range(32)]
    count: Array = ("i32", 32, given(range(1, 33)))
    return holding(flexible_narrow("bf16"), arg_KV_NUM_BLKS=count, arg_KV_IDX=("i32", 1024, given(rows)))


def activated(shape: Sequence[int], tile: int) -> Case:
    """A product times the gradient of an activation."""
    one = product(shape, (tile, tile), names="{}")
    arrays = {name.upper(): array for name, array in one["arrays"].items()}
    keys = {f"CACHE_KEY_{axis}": size // 32 for axis, size in zip("MNK", shape, strict=True)}
    act: Array = ("f16", shape[0] * shape[1], 1.0)
    return holding(numbered({**one, "arrays": arrays}, **keys), ACT_INPUT=act)


def lightning(batch: int, tokens: int, heads: int = 16, width: int = 64) -> Case:
    """Linear attention with decays."""
    return shaped(
        by(batch, tokens),
        (1, ceil(tokens / 128), batch * heads),
        {"scale": width**-0.5, "T": tokens},
        "bf16",
        (batch, tokens, heads, width),
        0.3,
        "q k v",
        "o",
        g=("f32", batch * tokens * heads, decays(128, heads, tokens)),
    )


def tokens_of(lengths: Sequence[int], heads: int = 32, keys: int = 4, width: int = 128) -> Case:
    """One query of each sequence; its keys are divided among 8, and the sum's logarithm lies behind each
    result. Every token is a page."""
    row, splits, out = up(max(lengths), 16), 8, width + 16
    tokens, batch = row * len(lengths), len(lengths)
    strides = {f"stride_{name}_cache_bs": keys * width for name in "kv"}
    strides |= {f"stride_{name}_cache_h": width for name in "kv"}
    strides |= {"stride_q_bs": heads * width, "stride_q_h": width, "stride_table_bs": row}
    strides |= {"stride_o_bs": heads * splits * out, "stride_o_h": splits * out, "stride_o_split": out}
    return case(
        f"{batch} after {max(lengths)}",
        (batch, keys, splits),
        {"sm_scale": width**-0.5, "batch": batch, **strides},
        q_ptr=("bf16", batch * heads * width, 1.0),
        k_cache_ptr=("bf16", tokens * keys * width, 1.0),
        v_cache_ptr=("bf16", tokens * keys * width, 1.0),
        output_ptr=("f32", batch * heads * splits * out, "zeros"),
        block_table_ptr=("i32", tokens, below(tokens)),
        kv_length_ptr=("i32", batch, given(lengths)),
    )


def pieces(lengths: Sequence[int], block: int, heads: int, width: int) -> Mapping[str, float]:
    """What a launch of pooled attention has of sequences' strides."""
    blocks = up(ceil(max(lengths) / block), 16)
    tokens = {"stride_qt": heads * width, "stride_qh": width}
    return {**tokens, "stride_pz": heads * blocks**2, "stride_ph": blocks**2, "stride_pm": blocks}


def pooled(lengths: Sequence[int], heads: int = 32, shared: int = 4, width: int = 128) -> Case:
    """The largest weight of each block of 64 keys, for every query (in an array for each sequence) and for
    each block of 64 queries."""
    tokens, few, sizes = sum(lengths), heads // shared, list[int]()
    rows = dict[str, Array]()
    for i, length in enumerate(lengths):
        blocks = ceil(length / 64)
        rows[f"r{i}"] = ("bf16", heads * length * blocks, "zeros")
        sizes += [length * blocks, blocks, 1]
    numbers = pieces(lengths, 64, heads, width)
    keys = {"stride_kt": few * width, "stride_kh": width}
    one = case(
        f"{len(lengths)} sequences",
        (ceil(max(lengths) / 64), heads),
        {**numbers, **keys, "sm_scale": width**-0.5, "q_k_ratio": shared, "batch_size": len(lengths)},
        Q=("bf16", tokens * heads * width, 1.0),
        K=("bf16", tokens * few * width, 1.0),
        Po=("bf16", len(lengths) * int(numbers["stride_pz"]), "zeros"),
        cu_seqlens=("i32", len(lengths) + 1, given(starts(lengths))),
        d_R_sizes=("i32", len(sizes), given(sizes)),
        **rows,
    )
    return {**one, "pointers": {"d_R_ptrs": list(rows)}}


SQUARE, ODD = (4096, 4096, 4096), (1008, 1040, 1104)
EVEN = (1008, 1040, 1120)

CASES: Mapping[str, Sequence[Case]] = {
    "fa_linear_bwd": (activated(SQUARE, 128), ragged(activated(EVEN, 128))),
    "fa_linear_bwd_odd": (activated(SQUARE, 64), ragged(activated(ODD, 64))),
    "gems_attn_bwd": (backward_keys(4, 16, 2048, 2048), ragged(backward_keys(1, 2, 320, 300))),
    "gems_attn_mask": (masked(2, 16, 4, 2048, 2048), ragged(masked(1, 4, 4, 200, 333))),
    "ind_flex_d64": (flexible_masked(),),
    "ind_flex_f32": (flexible_narrow("f32"),),
    "sage_causal_varlen": (bytes_of((4096,) * 4, 128, 128), ragged(bytes_of(SHORT, 128, 128))),
    "sage_d64": (bytes_of((4096,) * 4, 64, 64), ragged(bytes_of(SHORT, 64, 64))),
    "seer_pool": (pooled((4096, 3500)), ragged(pooled(SHORT))),
    "tb_mistral": (windowed(LENGTHS, 1024), ragged(windowed(SHORT, 100))),
    "td_flash_decode": (tokens_of((8192,) * 16), ragged(tokens_of((100, 700, 333)))),
    "tut06_bwd128_small": (backward(4, 16, 2048, 128, 64), ragged(backward(1, 2, 384, 128, 64))),
    "tut06_bwd128_t": (backward(4, 16, 2048, 128), ragged(backward(1, 2, 384, 128))),
    "tut06_bwd_noncausal": (backward(4, 16, 2048, 64), ragged(backward(1, 2, 384, 64))),
    "tut06_causal_d64": (forward(4, 32, 4096, 64, 64), ragged(forward(1, 2, 320, 64, 64))),
    "tut06_fp8_d64_causal": (
        within(forward(4, 32, 4096, 64, 128, "float8_e5m2"), 2e-2),
        ragged(within(forward(1, 1, 384, 64, 128, "float8_e5m2"), 2e-2)),
    ),
    "tut06_full_d256": (forward(2, 16, 4096, 256), ragged(forward(1, 2, 384, 256))),
    "vllm_prefill_f32": (prefilled(LENGTHS, 32, 64, "f32"), ragged(prefilled(SHORT, 32, 64, "f32"))),
    "vllm_prefill_h96": (prefilled(LENGTHS, 64, 96), ragged(prefilled(SHORT, 64, 96))),
    "vllm_prefill_window": (prefilled(LENGTHS, 128, 64), ragged(prefilled(SHORT, 128, 64))),
    "x_gems_attn_128": (causal(2, 32, 8, 4096, 4096), ragged(causal(1, 8, 8, 300, 300))),
    "x_lightning": (lightning(4, 4096), ragged(lightning(4, 1000))),
}
"""Launches by the kernel's name."""
