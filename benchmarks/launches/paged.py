# pyright: basic, reportMissingImports=false
"""Launches of attention whose keys and values lie in pages, or are listed block by block."""

from collections.abc import Sequence
from math import ceil
from typing import Any

from benchmarks.launches.arrays import Array, Case, by, case, given, up

PAGE = 16
"""Tokens of a page."""
WIDTH, HEADS, KEYS = 128, 32, 8
"""Of a head, and how many there are of queries and of keys."""


def permuted(size: int) -> Any:
    """Each page once, in any order."""
    import torch

    return torch.randperm(size)


def tables(queries: Sequence[int], before: Sequence[int]) -> tuple[int, list[int], list[int]]:
    """Pages of the longest sequence, tokens of each, and where its queries begin. `before`: tokens that were
    there before its queries."""
    lengths = [one + other for one, other in zip(queries, before, strict=True)]
    starts = [sum(queries[:one]) for one in range(len(queries) + 1)]
    return up(ceil(max(lengths) / PAGE), 16), lengths, starts


def vectors(tokens: int, heads: int, begin: str | float = 1.0) -> Array:
    return "bf16", tokens * heads * WIDTH, begin


def strides(names: str, heads: int) -> dict[str, int]:
    """Of tokens and heads, for arrays such as "q o"."""
    return {f"stride_{one}bs": heads * WIDTH for one in names.split()} | {
        f"stride_{one}h": WIDTH for one in names.split()
    }


def prefix(queries: Sequence[int], before: Sequence[int]) -> Case:
    """Queries attend to the pages of what was there before and to keys that are given, 8 elements of a key
    behind one another and the tokens of a page behind one another in values."""
    row, lengths, starts = tables(queries, before)
    pages, page = row * len(queries), KEYS * WIDTH * PAGE
    cached = {f"stride_{one}_cache_bs": page for one in "kv"} | {
        f"stride_{one}_cache_h": WIDTH * PAGE for one in "kv"
    }
    numbers = {
        "sm_scale": WIDTH**-0.5,
        "stride_b_loc_b": row,
        **strides("q o", HEADS),
        **strides("k v", KEYS),
    }
    return case(
        f"{len(queries)} sequences",
        (len(queries), HEADS, ceil(max(queries) / 128)),
        {**numbers, **cached, "stride_k_cache_d": PAGE * 8, "stride_v_cache_d": PAGE},
        Q=vectors(starts[-1], HEADS),
        K=vectors(starts[-1], KEYS),
        V=vectors(starts[-1], KEYS),
        K_cache=("bf16", pages * page, 1.0),
        V_cache=("bf16", pages * page, 1.0),
        Out=vectors(starts[-1], HEADS, "zeros"),
        B_Loc=("i32", pages, permuted),
        B_Start_Loc=("i32", len(starts), given(starts)),
        B_Seqlen=("i32", len(lengths), given(lengths)),
    )


def unified(queries: Sequence[int], before: Sequence[int], label: str) -> Case:
    """All keys in pages; blocks of 16 queries of the heads that share keys."""
    row, lengths, starts = tables(queries, before)
    pages, page = row * len(queries), KEYS * WIDTH * PAGE
    numbers = {
        "scale": WIDTH**-0.5,
        "block_table_stride": row,
        "num_seqs": len(queries),
        "qq_bias_stride_0": 0,
    }
    for name in ("query", "output"):
        numbers |= {f"{name}_stride_0": HEADS * WIDTH, f"{name}_stride_1": WIDTH}
    for name in "kv":
        numbers |= {f"stride_{name}_cache_{i}": one for i, one in enumerate((page, KEYS * WIDTH, WIDTH))}
        numbers |= {f"stride_{name}s_{one}": 0 for one in ("blk", "slot", "head")}
    return case(
        label,
        (starts[-1] // 16 + len(queries), KEYS),
        numbers,
        query_ptr=vectors(starts[-1], HEADS),
        output_ptr=vectors(starts[-1], HEADS, "zeros"),
        key_cache_ptr=("bf16", pages * page, 1.0),
        value_cache_ptr=("bf16", pages * page, 1.0),
        block_tables_ptr=("i32", pages, permuted),
        seq_lens_ptr=("i32", len(lengths), given(lengths)),
        query_start_len_ptr=("i32", len(starts), given(starts)),
    )


def flexible(batch: int = 4, heads: int = 32, tokens: int = 4096, block: int = 128) -> Case:
    """Causal: of each row of blocks the one on the diagonal is masked, those before it are full. The sizes
    are constants of the kernel."""
    blocks, rows = tokens // block, batch * heads * tokens
    inputs: dict[str, Array] = {f"arg_{one}": ("bf16", rows * WIDTH, 1.0) for one in "QKV"}
    full = [column if column < row else 0 for row in range(blocks) for column in range(blocks)]
    masked = [row for row in range(blocks) for _ in range(blocks)]
    return case(
        by(batch, heads, tokens),
        (blocks, batch, heads),
        {},
        **inputs,
        arg_LSE=("f32", rows, "zeros"),
        arg_MAX=("f32", rows, "zeros"),
        arg_KV_NUM_BLKS=("i32", blocks, given([1] * blocks)),
        arg_KV_IDX=("i32", blocks**2, given(masked)),
        arg_FULL_KV_NUM_BLKS=("i32", blocks, given(range(blocks))),
        arg_FULL_KV_IDX=("i32", blocks**2, given(full)),
        out_ptr=("bf16", rows * WIDTH, "zeros"),
    )
