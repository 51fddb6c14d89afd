# pyright: basic, reportMissingImports=false
"""Launches of attention to some blocks of keys, or to keys that are listed, and of what chooses them."""

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any

from benchmarks.launches.arrays import Array, Case, by, case, given, positive, ragged, up
from benchmarks.launches.attention import sparse
from benchmarks.launches.others.changed import below, chosen, shaped, starts

BLOCK = 64
"""Keys of a block."""
SHORT = (300, 64, 77, 130)


def tokens_strides(names: str, heads: int, width: int) -> dict[str, int]:
    """Of tokens and heads, for names such as "qm kn"."""
    return {f"stride_{name}": heads * width for name in names.split()} | {
        f"stride_{name[0]}h": width for name in names.split()
    }


def keys_backward(lengths: Sequence[int], width: int, heads: int = 16) -> Case:
    """Gradients of keys and values, where a table says for each block of queries which blocks of keys it
    attends to."""
    tokens, batch, blocks = sum(lengths), len(lengths), ceil(max(lengths) / BLOCK)
    row = up(blocks, 16)
    mask = {"stride_bmask_z": heads * blocks * row, "stride_bmask_h": blocks * row, "stride_bmask_m": row}
    begins = ("i32", batch + 1, given(starts(lengths)))
    return shaped(
        f"{batch} sequences",
        (blocks, batch * heads),
        {
            "sm_scale": width**-0.5,
            "H": heads,
            "stride_lm": heads,
            "stride_deltam": heads,
            **tokens_strides("qm kn vn", heads, width),
            **mask,
        },
        "bf16",
        (tokens, heads, width),
        1.0,
        "Q K V DO",
        "DK DV",
        L=("f32", tokens * heads, positive),
        D=("f32", tokens * heads, 0.3),
        block_mask_ptr=("bool", batch * heads * blocks * row, chosen(0.5)),
        cu_seqlens_q=begins,
        cu_seqlens_k=begins,
    )


def queries_backward(lengths: Sequence[int], keys: int = 4, shared: int = 8, width: int = 128) -> Case:
    """Gradients of queries: a thread block for each token and all heads that share keys, with a row of the
    table for each token."""
    tokens, batch, heads, rows = sum(lengths), len(lengths), keys * shared, max(lengths)
    row = up(ceil(rows / BLOCK), 16)
    mask = {"stride_bmask_z": keys * rows * row, "stride_bmask_h": rows * row, "stride_bmask_m": row}
    small: Array = ("bf16", tokens * keys * width, 1.0)
    begins: Array = ("i32", batch + 1, given(starts(lengths)))
    return shaped(
        f"{batch} sequences",
        (rows, batch * keys),
        {
            "sm_scale": width**-0.5,
            "stride_lm": heads,
            "stride_deltam": heads,
            **tokens_strides("qm", heads, width),
            **tokens_strides("kn vn", keys, width),
            **mask,
        },
        "bf16",
        (tokens, heads, width),
        1.0,
        "Q DO",
        "DQ",
        K=small,
        V=small,
        L=("f32", tokens * heads, positive),
        D=("f32", tokens * heads, 0.3),
        block_mask_ptr=("bool", batch * keys * rows * row, chosen(0.5)),
        cu_seqlens_q=begins,
        cu_seqlens_k=begins,
    )


def blocks_forward(batch: int, heads: int, tokens: int, width: int = 128) -> Case:
    """Each block of queries attends to the block of its own and to half of those before it."""
    row = up(ceil(tokens / BLOCK), 16)
    numbers = {"sm_scale": width**-0.5, "H": heads, "N_CTX": tokens}
    for name, axis in zip("qkvo", "mnnm", strict=True):
        numbers |= {f"stride_{name}z": heads * tokens * width, f"stride_{name}h": tokens * width}
        numbers[f"stride_{name}{axis}"] = width
    numbers |= {"stride_bmz": heads * row**2, "stride_bmh": row**2, "stride_bmm": row}
    return shaped(
        by(batch, heads, tokens),
        (ceil(tokens / BLOCK), batch * heads),
        numbers,
        "bf16",
        (batch, heads, tokens, width),
        1.0,
        "Q K V",
        "Out",
        block_mask_ptr=("bool", batch * heads * row**2, chosen(0.5, row)),
    )


def split(lengths: Sequence[int], kept: int, shared: int = 8, keys: int = 8, width: int = 128) -> Case:
    """One query of each sequence attends to blocks of keys that are listed, which are divided among 16."""
    batch, longest, splits, heads = len(lengths), max(lengths), 16, keys * shared
    row = up(kept, 16)
    strides = {"stride_q_b": heads * width, "stride_q_h": width}
    for name in "kv":
        strides |= {f"stride_{name}_b": longest * keys * width, f"stride_{name}_s": keys * width}
        strides[f"stride_{name}_h"] = width
    strides |= {"stride_o_b": heads * splits * width, "stride_o_h": splits * width, "stride_o_split": width}
    strides |= {"stride_lse_b": heads * splits, "stride_lse_h": splits}
    strides |= {"stride_mask_b": keys * row, "stride_mask_h": row}
    counts = {"num_splits": splits, "gqa_group_size": shared, "max_selected_blocks": kept}
    return case(
        f"{batch} after {longest}",
        (batch, keys, splits),
        {"sm_scale": width**-0.5, **counts, **strides},
        q_ptr=("bf16", batch * heads * width, 1.0),
        k_cache_ptr=("bf16", batch * longest * keys * width, 1.0),
        v_cache_ptr=("bf16", batch * longest * keys * width, 1.0),
        cache_seqlens_ptr=("i32", batch, given(lengths)),
        o_partial_ptr=("f32", batch * heads * splits * width, "zeros"),
        lse_partial_ptr=("f32", batch * heads * splits, "zeros"),
        mask_ptr=("i32", batch * keys * row, below(ceil(min(lengths) / BLOCK))),
    )


# --- video: blocks of queries and keys by lists, tiles of a canvas ----------------------------------------


def heads_strides(names: str, heads: int, tokens: int, width: int) -> dict[str, int]:
    return {f"stride_{name}z": heads * tokens * width for name in names.split()} | {
        f"stride_{name}h": tokens * width for name in names.split()
    }


def listed(
    batch: int, heads: int, tokens: int, width: int, block: int, name: str, kept: int, sizes: int
) -> dict[str, Array]:
    """For each block of 64 the blocks (of `block` tokens) of the other side: `kept` at most; and how many
    tokens of a block are there, `sizes` at most."""
    rows = batch * heads * tokens // BLOCK
    tables: dict[str, Array] = {
        f"{name}_index": ("i32", rows * kept, below(tokens // block)),
        f"{name}_num": ("i32", rows, lambda size: below(kept)(size) + 1),
        "variable_block_sizes": ("i32", tokens // sizes, lambda size: sizes - below(sizes // 4)(size)),
    }
    state: dict[str, Array] = dict.fromkeys("DM", ("f32", batch * heads * tokens, 0.3))
    return {**tables, **state}


def list_keys(batch: int, heads: int, tokens: int, width: int, block: int, kept: int) -> Case:
    """Gradients of keys and values by lists of blocks of queries."""
    strides = heads_strides("q k v do dk dv", heads, tokens, width)
    counts = {"H": heads, "N_CTX_Q": tokens, "N_CTX_KV": tokens, "max_q_blks": kept, "stride_tok": width}
    return shaped(
        by(batch, heads, tokens, width),
        (tokens // BLOCK, 1, batch * heads),
        {"sm_scale": width**-0.5, **strides, **counts},
        "bf16",
        (batch, heads, tokens, width),
        1.0,
        "Q K V DO",
        "DK DV",
        **listed(batch, heads, tokens, width, block, "k2q", kept, BLOCK),
    )


def list_queries(batch: int, heads: int, tokens: int, width: int, block: int, kept: int) -> Case:
    """Gradients of queries by lists of blocks of keys."""
    strides = heads_strides("q k v do dq", heads, tokens, width)
    counts = {"H": heads, "N_CTX_Q": tokens, "max_kv_blks": kept, "stride_tok": width}
    return shaped(
        by(batch, heads, tokens, width),
        (tokens // BLOCK, 1, batch * heads),
        {"sm_scale": width**-0.5, **strides, **counts},
        "bf16",
        (batch, heads, tokens, width),
        1.0,
        "Q K V DO",
        "DQ",
        **listed(batch, heads, tokens, width, block, "q2k", kept, block),
    )


def crossed(batch: int, heads: int, queries: int, keys: int, width: int = 128) -> Case:
    """Gradients of queries, which attend to all keys of another array; whole blocks of keys."""
    strides = {"stride_z_q": heads * queries * width, "stride_h_q": queries * width, "stride_tok_q": width}
    strides |= {"stride_z_kv": heads * keys * width, "stride_h_kv": keys * width, "stride_tok_kv": width}
    other: Array = ("bf16", batch * heads * keys * width, 1.0)
    return shaped(
        by(batch, heads, queries, keys),
        (ceil(queries / BLOCK), 1, batch * heads),
        {"sm_scale": width**-0.5, **strides, "H": heads, "N_CTX_Q": queries, "N_CTX_KV": keys},
        "bf16",
        (batch, heads, queries, width),
        1.0,
        "Q DO",
        "DQ",
        K=other,
        V=other,
        M=("f32", batch * heads * queries, positive),
        D=("f32", batch * heads * queries, 0.3),
    )


def linear_keys(pairs: int, outputs: str, **more: Array) -> Case:
    """Of 4096 tokens in blocks of 64; `pairs`: of batches and heads."""
    return shaped(
        str(pairs),
        (64, pairs),
        {},
        "bf16",
        (pairs, 4096, 128),
        1.0,
        "Q K V DOS",
        outputs,
        LSE=("f32", pairs * 4096, positive),
        DELTAS=("f32", pairs * 4096, 0.3),
        **more,
    )


def by_table(pairs: int) -> Case:
    return linear_keys(pairs, "DQ", LUT=("i64", pairs * 64 * 16, below(64)))


def by_marks(pairs: int) -> Case:
    return linear_keys(pairs, "DK DV", KBID=("int8", pairs * 64 * 64, chosen(0.25)))


TILE = (6, 8, 8)
TILED = 6 * 8 * 8
"""Tokens of a tile."""


def canvas(
    batch: int,
    heads: int,
    tiles: Sequence[int],
    near: Sequence[int],
    text: int,
    width: int,
    block: int,
    of_text: bool,
) -> Case:
    """Tokens of an image, tile by tile, then those of a text in as many places as a tile has. Tokens of the
    image attend to `near` tiles each way and to the text, those of the text to everything."""
    count = tiles[0] * tiles[1] * tiles[2]
    image, tokens = count * TILED, (count + 1) * TILED
    numbers = {"batch_size": batch, "num_heads": heads, "seq_len": tokens, "head_dim": width}
    numbers |= {"img_seq_len": image, "text_length": text}
    for axis, many, size, kept in zip("thw", tiles, TILE, near, strict=True):
        numbers |= {f"canvas_{axis}": many * size, f"tile_{axis}": size, f"kernel_{axis}": kept}
    return shaped(
        by(batch, heads, *tiles),
        (batch, heads, (1 if of_text else count) * TILED // block),
        {**numbers, "scale": width**-0.5},
        "bf16",
        (batch, heads, tokens, width),
        1.0,
        "Q K V",
        "output",
    )


def nearest(type: str, block: int) -> Case:
    """The centroid next to each vector; squares of vectors are larger than their distances. Coordinates are
    whole numbers: the kernel adds squares in the type of the coordinates, and which centroid is next must not
    follow from the order of a sum in bfloat16."""

    def coordinates(size: int) -> Any:
        import torch

        return torch.randint(-1, 2, (size,)).float()

    def squares(size: int) -> Any:
        import torch

        return torch.rand(size) + 256

    return case(
        "32x32768",
        (32768 // block, 32),
        {},
        x_ptr=(type, 32 * 32768 * 128, coordinates),
        c_ptr=(type, 32 * 256 * 128, coordinates),
        x_sq_ptr=("f32", 32 * 32768, squares),
        out_ptr=("i32", 32 * 32768, "zeros"),
    )


def latent(queries: int, heads: int = 16, keys: int = 4096, kept: int = 256, row: int = 576) -> Case:
    """Each query has a list of keys, some of which come after it; the kernel was compiled for one head."""

    def drawn(size: int) -> Any:
        import torch

        token = torch.arange(size) // kept
        return torch.floor(torch.rand(size) * (1.25 * token + 1))

    strides = {"stride_qh": row, "stride_qm": heads * row, "stride_kvg": row, "stride_kvn": row}
    strides |= {"stride_tg": kept, "stride_tm": kept, "stride_oh": 512, "stride_om": heads * 512}
    return case(
        str(queries),
        (queries, 1),
        {**strides, "stride_mh": queries, "stride_lh": queries},
        q=("bf16", queries * heads * row, 1.0),
        kv=("bf16", keys * row, 1.0),
        indices=("i32", queries * kept, drawn),
        output=("bf16", queries * heads * 512, "zeros"),
        max_logits=("f32", queries * heads, "zeros"),
        lse=("f32", queries * heads, "zeros"),
    )


CASES: Mapping[str, Sequence[Case]] = {
    "fv_bs_dkdv": (list_keys(2, 12, 8192, 128, 128, 16), ragged(list_keys(1, 3, 384, 128, 128, 3))),
    "fv_bs_dq": (list_queries(2, 12, 8192, 128, 128, 16), ragged(list_queries(1, 3, 384, 128, 128, 3))),
    "fv_dkdv_d64": (list_keys(2, 12, 8192, 64, 64, 32), ragged(list_keys(1, 3, 320, 64, 64, 5))),
    "fv_qat_dq": (crossed(2, 16, 4096, 2048), ragged(crossed(1, 3, 400, 320))),
    "fv_sla_dkdv": (by_marks(32), ragged(by_marks(3))),
    "fv_sla_dq": (by_table(64), ragged(by_table(3))),
    "fv_sta": (
        canvas(1, 4, (3, 3, 5), (3, 3, 3), 256, 128, 64, False),
        ragged(canvas(1, 2, (2, 2, 3), (1, 1, 3), 80, 128, 64, False)),
    ),
    "fv_sta_d64": (
        canvas(2, 24, (3, 3, 5), (3, 3, 3), 256, 64, 128, True),
        ragged(canvas(1, 2, (2, 2, 3), (1, 1, 3), 80, 64, 128, True)),
    ),
    "gems_mla_sparse": (latent(2048), ragged(latent(80))),
    "seer_bs_fwd": (blocks_forward(2, 16, 4096), ragged(blocks_forward(1, 3, 1008))),
    "seer_dkdv": (keys_backward((4096, 3500), 128), ragged(keys_backward(SHORT, 128))),
    "seer_dkdv_64": (keys_backward((4096, 3500), 64), ragged(keys_backward(SHORT, 64))),
    "seer_gqa_dq": (queries_backward((2048, 1500)), ragged(queries_backward(SHORT))),
    "seer_split": (split((8192,) * 16, 64), ragged(split((500, 1000, 300), 20, 5))),
    "svg_euclid": (nearest("bf16", 128),),
    "svg_euclid_256": (nearest("f32", 64),),
    "x_nsa_g8": (sparse(2, 2048), ragged(sparse(1, 300))),
}
"""Launches by the kernel's name."""
