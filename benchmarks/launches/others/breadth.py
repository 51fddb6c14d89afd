# pyright: basic, reportMissingImports=false
"""Launches of kernels of other forms: of many projects, a few of each."""

import random
from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any

from benchmarks.launches.arrays import (
    Array,
    Case,
    bits,
    by,
    case,
    decays,
    described,
    given,
    positive,
    ragged,
    up,
)
from benchmarks.launches.others.changed import below, starts
from benchmarks.launches.others.everyday import small_integers

LOOSE = 2e-2
"""Where sums are added in any order and rounded in between."""


def loose(one: Case) -> Case:
    return {**one, "tolerance": LOOSE}


# --- layers -----------------------------------------------------------------------------------------------


def linear(m: int, n: int, k: int, tile: Sequence[int]) -> Case:
    numbers = {"batch_dim": m, "in_feat_dim": k, "out_feat_dim": n, "param": 0.0}
    numbers |= {"input_batch_stride": k, "weight_in_feat_stride": n}
    numbers |= {"pre_act_batch_stride": n, "output_batch_stride": n}
    return case(
        by(m, n, k),
        (ceil(m / tile[0]) * ceil(n / tile[1]),),
        numbers,
        input_pointer=("f32", m * k, 0.5),
        weight_pointer=("f32", k * n, 0.1),
        bias_pointer=("f32", n, 0.5),
        pre_act_pointer=("f32", m * n, "zeros"),
        output_pointer=("f32", m * n, "zeros"),
    )


def saved(m: int, n: int, k: int) -> Case:
    """With a bias; what is before the activation is stored too."""
    strides = {"output_m_stride": n, "act_inputs_m_stride": n, "a_m_stride": k, "b_n_stride": k}
    return case(
        by(m, n, k),
        (ceil(m / 128) * ceil(n / 128),),
        {"M": m, "N": n, "K": k, "CACHE_KEY_M": m, "CACHE_KEY_N": n, "CACHE_KEY_K": k, **strides},
        A=("f16", m * k, 0.5),
        B=("f16", k * n, 0.1),
        bias=("f16", n, 0.5),
        C=("f16", m * n, "zeros"),
        ACT_INPUTS=("f16", m * n, "zeros"),
    )


def tiled(m: Sequence[int], n: Sequence[int], k: Sequence[int]) -> Case:
    """Matrices in three by three parts."""
    three = range(3)
    arrays: dict[str, Array] = {}
    for i in three:
        for j in three:
            arrays[f"A{i + 1}{j + 1}"] = ("bf16", m[i] * k[j], 0.5)
            arrays[f"B{i + 1}{j + 1}"] = ("bf16", k[i] * n[j], 0.1)
            arrays[f"C{i + 1}{j + 1}"] = ("bf16", m[i] * n[j], "zeros")
    numbers = {f"{name}{i + 1}": sizes[i] for name, sizes in (("M", m), ("N", n), ("K", k)) for i in three}
    for i in three:
        numbers |= {f"stride_am{i + 1}": k[i], f"stride_bk{i + 1}": n[i], f"stride_cm{i + 1}": n[i]}
    tiles = sum(ceil(one / 128) for one in m) * sum(ceil(one / 128) for one in n)
    return case(by(sum(m), sum(n), sum(k)), (tiles, 1), numbers, **arrays)


def integers(m: int, n: int, k: int) -> Case:
    """With scales of rows and columns, and a residual."""
    return case(
        by(m, n, k),
        (ceil(m / 64) * ceil(n / 64),),
        {"M": m, "N": n, "K": k, "stride_am": k, "stride_bn": k, "stride_cm": n},
        A=("int8", m * k, small_integers),
        B=("int8", n * k, small_integers),
        C=("bf16", m * n, "zeros"),
        residual_ptr=("bf16", m * n, 1.0),
        rms_scale_ptr=("f32", m, positive),
        linear_scale_ptr=("f32", n, 0.01),
    )


def short_integers(m: int, n: int, k: int) -> Case:
    return case(
        by(m, n, k),
        (ceil(m / 128) * ceil(n / 256),),
        {"M": m, "N": n, "K": k, "stride_am": k, "stride_bk": n, "stride_cm": n},
        a_ptr=("bf16", m * k, 0.5),
        b_ptr=("int16", n * k, small_integers),
        c_ptr=("bf16", m * n, "zeros"),
    )


def streams(rows: int = 4096, width: int = 8192, mixed: int = 24) -> Case:
    """The sizes are constants."""
    return case(
        by(rows, width, mixed),
        (rows // 32, 1),
        {},
        x_ptr=("bf16", rows * width, 1.0),
        phi_ptr=("bf16", width * mixed, 0.02),
        mix_ptr=("f32", rows * mixed, "zeros"),
        invr_ptr=("f32", rows, "zeros"),
    )


def streams_backward(rows: int = 4096, width: int = 8192, mixed: int = 24) -> Case:
    one = streams(rows, width, mixed)
    arrays: dict[str, Array] = {
        **one["arrays"],
        "mix_ptr": ("f32", rows * mixed, 1.0),
        "invr_ptr": ("f32", rows, positive),
        "grad_mix_ptr": ("f32", rows * mixed, 1.0),
        "grad_x_ptr": ("bf16", rows * width, "zeros"),
        "grad_phi_ptr": ("f32", width * mixed, "zeros"),
    }
    return loose({**one, "grid": (rows // 64, width // 64), "arrays": arrays})


def gated(batch: int, tokens: int, width: int, hidden: int) -> Case:
    """Tokens of a batch in descriptors of three dimensions."""
    rows, made = batch * tokens, (1, 128, 128)
    one = case(
        by(batch, tokens, hidden, width),
        (ceil(tokens / 128) * ceil(hidden / 128), batch),
        {"S": tokens, "dim": width, "hidden_dim": hidden, "bucket_M": 1},
        input=("bf16", rows * width, 0.5),
        Wg=("bf16", hidden * width, 0.1),
        Wu=("bf16", hidden * width, 0.1),
        A=("bf16", rows * hidden, "zeros"),
        G=("bf16", rows * hidden, "zeros"),
        U=("bf16", rows * hidden, "zeros"),
    )
    return described(
        one,
        desc_input=("input", (batch, tokens, width), (1, 128, 64)),
        desc_Wg=("Wg", (hidden, width), (128, 64)),
        desc_Wu=("Wu", (hidden, width), (128, 64)),
        **{f"desc_{name}": (name, (batch, tokens, hidden), made) for name in "AGU"},
    )


# --- experts ----------------------------------------------------------------------------------------------


def groups(rows: Sequence[int], n: int = 4096, k: int = 2048) -> Case:
    """Experts with these rows; `n` and `k` are constants."""
    return case(
        by(sum(rows), n, k),
        (132,),
        {},
        a_desc_ptr=("bf16", sum(rows) * k, 0.5),
        b_desc_ptr=("bf16", len(rows) * n * k, 0.1),
        c_ptr=("bf16", sum(rows) * n, "zeros"),
        m_sizes=("i32", len(rows), given(rows)),
    )


def shares(total: int, count: int) -> list[int]:
    draw = random.Random(0)
    cuts = sorted(draw.randrange(total) for _ in range(count - 1))
    return [end - begin for begin, end in zip([0, *cuts], [*cuts, total], strict=True)]


# --- attention --------------------------------------------------------------------------------------------


def flash_backward(batch: int, heads: int, tokens: int, width: int = 64) -> Case:
    """Gradients of queries are added by atomic operations."""
    size = batch * tokens * heads * width
    strides = {
        f"stride_{name}{axis}": stride
        for name in ("q", "k", "v", "do", "dq", "dk", "dv")
        for axis, stride in (
            ("b", tokens * heads * width),
            ("h", width),
            ("n" if name[-1] in "kv" else "m", heads * width),
        )
    }
    sizes = {"nheads": heads, "seqlen_q": tokens, "seqlen_k": tokens, "seqlen_q_rounded": tokens}
    keys = {"CACHE_KEY_SEQLEN_Q": tokens // 32, "CACHE_KEY_SEQLEN_K": tokens // 32}
    inputs: dict[str, Array] = dict.fromkeys(("Q", "K", "V", "DO"), ("f16", size, 0.5))
    made: dict[str, Array] = dict.fromkeys(("DK", "DV"), ("f16", size, "zeros"))
    one = case(
        by(batch, heads, tokens),
        (tokens // 128, batch * heads),
        {"softmax_scale": 0.125, **sizes, **keys, "headdim": width, **strides},
        **inputs,
        **made,
        DQ=("f32", size, "zeros"),
        LSE=("f32", batch * heads * tokens, positive),
        D=("f32", batch * heads * tokens, 0.5),
    )
    return loose(one)


def cached(lengths: Sequence[int], before: Sequence[int], heads: int = 32, shared: int = 4) -> Case:
    """New tokens of sequences whose `before` first tokens are in the cache."""
    width, tokens, longest = 128, sum(lengths), max(map(sum, zip(lengths, before, strict=True)))
    keys, batch = heads // shared, len(lengths)
    strides = {f"stride_{one}bs": heads * width for one in "qo"}
    strides |= {f"stride_{one}h": width for one in "qo"}
    for one in "kv":
        strides |= {f"stride_{one}b": keys * longest * width, f"stride_{one}h": longest * width}
        strides |= {f"stride_{one}s": width}
    pairs = zip(lengths, before, strict=True)
    return case(
        f"{batch} sequences",
        (ceil(max(lengths) / 128), batch * heads),
        {"sm_scale": 0.1275, "kv_group_num": shared, **strides},
        Q=("bf16", tokens * heads * width, 1.0),
        K=("bf16", batch * keys * longest * width, 1.0),
        V=("bf16", batch * keys * longest * width, 1.0),
        Out=("bf16", tokens * heads * width, "zeros"),
        B_Start_Loc=("i32", batch, given(starts(lengths)[:-1])),
        B_Seqlen=("i32", batch, given([one + more for one, more in pairs])),
        b_prompt_cache_len=("i32", batch, given(before)),
    )


def latent(lengths: Sequence[int], block: int = 256) -> Case:
    """Blocks of all sequences are taken by so many thread blocks; a sequence's keys are anywhere."""
    batch, longest, heads, slots = len(lengths), up(max(lengths), 16), 16, sum(lengths)
    places = random.Random(0).sample(range(slots), slots)
    table = list[int]()
    for begin, length in zip(starts(lengths), lengths, strict=False):
        table += places[begin : begin + length] + [0] * (longest - length)
    blocks = sum(ceil(length / block) for length in lengths)
    numbers = {"sm_scale": 0.07, "stride_req_to_tokens_b": longest, "num_sm": 132, "head_group_num": 1}
    numbers |= {"stride_q_bs": heads * 512, "stride_q_h": 512, "stride_q_rope_bs": heads * 64}
    numbers |= {"stride_q_rope_h": 64, "stride_kv_bs": 512, "stride_kv_h": 512, "stride_kv_rope_bs": 64}
    numbers |= {"stride_kv_rope_h": 64, "stride_mid_oh": blocks * 512, "stride_mid_os": 512}
    numbers |= {"stride_mid_o_eh": blocks, "head_num": heads, "batch_size": batch}
    return case(
        f"{batch} sequences",
        (132,),
        numbers,
        Q_nope=("bf16", batch * heads * 512, 0.5),
        Q_rope=("bf16", batch * heads * 64, 0.5),
        KV_nope=("bf16", slots * 512, 0.5),
        KV_rope=("bf16", slots * 64, 0.5),
        Req_to_tokens=("i32", batch * longest, given(table)),
        B_req_idx=("i32", batch, given(range(batch))),
        B_Seqlen=("i32", batch, given(lengths)),
        Mid_O=("f32", heads * blocks * 512, "zeros"),
        Mid_O_LogExpSum=("f32", heads * blocks, "zeros"),
        block_size_ptr=("i32", 1, given([block])),
    )


def latent_pages(batch: int, length: int, heads: int = 128) -> Case:
    """Pages of 64 keys."""
    pages = ceil(length / 64)
    return case(
        f"{batch} sequences of {length}",
        (heads // 16, batch),
        {"sm_scale": 0.07, "head_num": heads, "stride_q_bs": heads * 576, "stride_q_h": 576}
        | {"stride_kv_bs": 576, "stride_req_to_tokens_bs": pages}
        | {"stride_o_b": heads * 512, "stride_o_h": 512},
        Q_ptr=("bf16", batch * heads * 576, 0.5),
        Kv_cache=("bf16", batch * pages * 64 * 576, 0.5),
        Req_to_tokens=("i32", batch * pages, given(range(batch * pages))),
        B_seq_len=("i32", batch, given([length] * batch)),
        O=("bf16", batch * heads * 512, "zeros"),
    )


def sparse(heads: int, tokens: int, most: int) -> Case:
    """Each tile of 64 queries has `most` of the blocks of 64 keys, not all of them full."""
    tiles, size, width = tokens // 64, heads * tokens, 128
    return case(
        by(heads, tokens),
        (tiles, heads),
        {"sm_scale": width**-0.5, "max_kv_blks": most, "H": heads, "N_CTX_Q": tokens},
        Q=("bf16", size * width, 1.0),
        K=("bf16", size * width, 1.0),
        V=("bf16", size * width, 1.0),
        O=("bf16", size * width, "zeros"),
        q2k_index=("i32", heads * tiles * most, below(tiles)),
        q2k_num=("i32", heads * tiles, given([most - one % 3 for one in range(heads * tiles)])),
        variable_block_sizes=("i32", tiles, given([64 - one % 8 for one in range(tiles)])),
    )


def neighbourhood(batch: int = 2, heads: int = 8, tokens: int = 2048, width: int = 64) -> Case:
    """The sizes are constants."""
    size = batch * heads * tokens
    numbers = {"grad_attn_batch_stride": heads * tokens**2, "grad_attn_head_stride": tokens**2}
    numbers |= {"grad_attn_seq_stride": tokens}
    for name in ("k", "grad_q"):
        numbers |= {f"{name}_batch_stride": heads * tokens * width, f"{name}_head_stride": tokens * width}
        numbers |= {f"{name}_seq_stride": width}
    return case(
        by(batch, heads, tokens),
        (batch * heads, tokens // 64, width // 32),
        numbers,
        grad_attn_ptr=("bf16", size * tokens, 0.5),
        K_ptr=("bf16", size * width, 0.5),
        grad_Q_ptr=("bf16", size * width, "zeros"),
    )


def template() -> Case:
    """The sizes are constants."""
    size, tokens, heads = 16 * 16 * 4096 * 64, 4096, 256
    inputs: dict[str, Array] = dict.fromkeys(("arg_Q", "arg_K", "arg_V"), ("f16", size, 0.3))
    return case(by(heads, tokens), (tokens // 128, heads), {}, **inputs, out_ptr0=("f16", size, "zeros"))


def stay(batch: int, heads: int, tokens: int) -> Case:
    width, size = 64, batch * heads * tokens * 64
    strides = {f"stride_{one}s": width for one in "qkvo"}
    inputs: dict[str, Array] = dict.fromkeys(("q_ptr", "k_ptr", "v_ptr"), ("f16", size, 0.5))
    numbers = {"seq_len": tokens, "head_dim": width, "sm_scale": 0.125}
    numbers |= {"stride_b": heads * tokens * width, "stride_nh": tokens * width, **strides}
    return case(by(batch, heads, tokens), (batch, heads, 16), numbers, **inputs, o_ptr=("f16", size, "zeros"))


# --- parts of a sum ---------------------------------------------------------------------------------------


def streamed(m: int, n: int, k: int, programs: int = 132) -> Case:
    """Steps of all tiles are divided over the programs; those that end in a tile add to it."""
    tiles, steps = ceil(m / 128) * ceil(n / 128), ceil(k / 64)
    streamed_tiles = tiles % programs or programs
    total = streamed_tiles * steps
    numbers = {"M": m, "N": n, "K": k, "stride_am": k, "stride_bk": n, "stride_cm": n}
    numbers |= {"iters_per_pid": total // programs, "iters_remaining": total % programs}
    one = case(
        by(m, n, k),
        (programs,),
        numbers | {"iters_per_tile": steps},
        A=("f16", m * k, 0.5),
        B=("f16", k * n, 0.1),
        C=("f32", m * n, "zeros"),
        locks=("i32", tiles, "zeros"),
    )
    return ragged(one)


def packed_words(m: int, n: int = 4096, k: int = 4096, parts: int = 4) -> Case:
    """4-bit weights, eight of a row in a word, in groups of 128 rows; `n` and `k` are constants."""
    one = case(
        by(m, n, k),
        (ceil(m / 16) * ceil(n / 64), parts),
        {"M": m, "stride_am": k, "stride_cm": n},
        a_ptr=("f16", m * k, 0.5),
        qw_ptr=("i32", k * n // 8, bits),
        s_ptr=("f16", k // 128 * n, 0.01),
        qz_ptr=("i32", k // 128 * n // 8, bits),
        c_ptr=("f16", m * n, "zeros"),
    )
    return loose(one)


def halves_of_bytes(m: int, n: int, k: int, type: str, transposed: bool = False) -> Case:
    """4-bit weights, two in a byte, in groups of 128 rows. Transposed, the sum goes over the columns."""
    rows, columns = (n, k) if transposed else (k, n)
    return case(
        by(m, n, k),
        (ceil(m / 64) * ceil(n / 64), 1),
        {"M": m, "N": n, "K": k, "stride_am": k, "stride_bk": columns, "stride_cm": n}
        | {"stride_scale_k": columns},
        A=(type, m * k, 0.5),
        B=("int8", rows * columns // 2, below(128)),
        C=(type, m * n, "zeros"),
        scales_ptr=(type, (ceil(rows / 128) + 1) * columns, 0.05),
        zeros_ptr=(type, (ceil(rows / 128) + 1) * columns, 1.0),
    )


# --- scores of an index -----------------------------------------------------------------------------------


def paged_scores(lengths: Sequence[int], splits: int = 16) -> Case:
    """A query of 64 heads for each sequence, keys in pages of 64 with their scales behind them."""
    batch, longest = len(lengths), up(max(lengths), 16)
    pages = ceil(longest / 64)
    return case(
        f"{batch} sequences",
        (batch, splits),
        {"stride_boff0": pages, "stride_om": longest, "max_q_seqlen": 1, "num_split": splits},
        q_ptr=("f8", batch * 8192, 0.5),
        q_s_ptr=("f32", batch * 64, positive),
        k_cache_ptr=("f8", batch * pages * 8448, 0.5),
        k_s_cache_ptr=("f32", batch * pages * 2112, positive),
        cu_seqlen_q_ptr=("i32", batch + 1, given(range(batch + 1))),
        k_seqlen_ptr=("i32", batch, given(lengths)),
        block_offset_ptr=("i32", batch * pages, given(range(batch * pages))),
        out_ptr=("f32", batch * longest, "zeros"),
    )


def scores(tokens: int, heads: int = 64, width: int = 128) -> Case:
    """Each token has the keys before it."""
    row = up(tokens, 16)
    return case(
        f"{tokens} tokens",
        (tokens,),
        {"seq_len": tokens, "seq_len_kv": tokens, "stride_q_s": heads * width, "stride_kv_s": width}
        | {"stride_w_s": heads, "stride_logits_s": row},
        Q_ptr=("f8", tokens * heads * width, 0.5),
        KV_ptr=("f8", (tokens + 128) * width, 0.5),
        kv_scales_ptr=("f32", tokens + 128, positive),
        weights_ptr=("f32", tokens * heads, 1.0),
        cu_start_ptr=("i32", tokens, "zeros"),
        cu_end_ptr=("i32", tokens, given(range(1, tokens + 1))),
        logits_ptr=("f32", tokens * row, "zeros"),
    )


# --- linear attention and state spaces --------------------------------------------------------------------


def last_states(lengths: Sequence[int], chunk: int, tile: Sequence[int]) -> Case:
    """The state at the end of each sequence; sequences begin anywhere in a chunk."""
    heads, width, states, groups = 64, 64, 128, 8
    tokens, batch = sum(lengths), len(lengths)
    chunks = ceil(tokens / chunk)
    strides = {"stride_x_seqlen": heads * width, "stride_x_head": width, "stride_b_seqlen": groups * states}
    strides |= {"stride_b_head": states, "stride_chunk_states_chunk": heads * width * states}
    strides |= {"stride_chunk_states_head": width * states, "stride_chunk_states_hdim": states}
    strides |= {"stride_states_batch": heads * width * states, "stride_states_head": width * states}
    strides |= {"stride_states_hdim": states}
    for name in ("dt", "dA_cs"):
        strides |= {f"stride_{name}_chunk": chunk, f"stride_{name}_head": chunks * chunk}
    numbers = {"hdim": width, "dstate": states, "chunk_size": chunk, "seqlen": tokens}
    return case(
        f"{batch} sequences, chunk {chunk}",
        (ceil(width / tile[0]) * ceil(states / tile[1]), batch, heads),
        {**numbers, "nheads_ngroups_ratio": heads // groups, **strides},
        x_ptr=("bf16", tokens * heads * width, 0.5),
        b_ptr=("bf16", tokens * groups * states, 0.5),
        dt_ptr=("f32", heads * chunks * chunk, positive),
        dA_cumsum_ptr=("f32", heads * chunks * chunk, decays(chunk)),
        chunk_states_ptr=("bf16", chunks * heads * width * states, 0.5),
        cu_seqlens_ptr=("i32", batch + 1, given(starts(lengths))),
        states_ptr=("bf16", batch * heads * width * states, "zeros"),
    )


def rows_of_state(batch: int, heads: int, tokens: int) -> Case:
    """What the state before each block adds to its output; batch and heads are constants."""
    blocks, size = tokens // 256, batch * heads * tokens * 128
    return case(
        by(batch, heads, tokens),
        (batch * heads, blocks * 4, 2),
        {"n": tokens, "NUM_BLOCK": blocks},
        Q=("bf16", size, 0.5),
        Out=("bf16", size, 0.5),
        S=("f32", heads, 0.01),
        KV=("f32", batch * heads * blocks * 128 * 128, 0.5),
    )


def breaking_sticks(batch: int, tokens: int, heads: int = 16, shared: int = 4, width: int = 64) -> Case:
    """The heads are constants."""
    size = batch * tokens * width
    return case(
        by(batch, tokens),
        (1, batch * heads, ceil(tokens / 64)),
        {"scale": width**-0.5, "T": tokens},
        q=("bf16", size * heads, 1.0),
        k=("bf16", size * heads // shared, 1.0),
        v=("bf16", size * heads // shared, 1.0),
        o=("bf16", size * heads, "zeros"),
        rem=("f32", batch * tokens * heads, "zeros"),
    )


def squared(tokens: int, batch: int = 2, heads: int = 8) -> Case:
    """Squares of products; keys of 16, values of 128."""
    rows = batch * heads * tokens
    return case(
        by(batch, heads, tokens),
        (1, ceil(tokens / 128), batch * heads),
        {"scale": 0.25, "T": tokens},
        q=("bf16", rows * 16, 1.0),
        k=("bf16", rows * 16, 1.0),
        v=("bf16", rows * 128, 1.0),
        o=("bf16", rows * 128, "zeros"),
        z=("f32", rows, "zeros"),
    )


def segments(lengths: Sequence[int], heads: int = 16, width: int = 128) -> Case:
    """Each program has 32 rows and 64 columns of a state, and stores its part of the output."""
    tokens, batch = sum(lengths), len(lengths)
    size = tokens * heads * width
    inputs: dict[str, Array] = dict.fromkeys("QKV", ("bf16", size, 0.5))
    return case(
        f"{batch} sequences",
        (batch, heads, 8),
        {"softmax_scale": width**-0.5, "stride_s": heads * width**2, "stride_o": size}
        | {f"stride_{one}": heads * width for one in "qkv"},
        **inputs,
        S=("f32", batch * heads * width**2, 0.5),
        Out=("bf16", 4 * size, "zeros"),
        s_offsets=("i32", batch, given(range(batch))),
        q_offsets=("i32", batch, given(starts(lengths)[:-1])),
        q_lengths=("i32", batch, given(lengths)),
        s_scales=("f32", batch, positive),
        decay_scales=("f32", heads, tenths),
    )


def tenths(size: int) -> Any:
    """Between 0.01 and 0.1."""
    import torch

    return 0.01 + 0.09 * torch.rand(size)


def volumes(count: int, side: int, channels: int = 32, out: int = 64) -> Case:
    """Three by three by three pixels; the sizes of the weights are constants."""
    volume = side**3
    numbers = {f"{which}_{axis}": side for which in ("input", "out") for axis in ("depth", "height", "width")}
    for which, many in (("input", channels), ("output", out)):
        numbers |= {f"{which}_n_stride": many * volume, f"{which}_c_stride": volume}
        numbers |= {f"{which}_depth_stride": side**2, f"{which}_height_stride": side}
    numbers |= {"weight_n_stride": channels * 27, "weight_c_stride": 27}
    numbers |= {"weight_depth_stride": 9, "weight_height_stride": 3, "in_n": count, "out_c": out}
    return case(
        by(count, channels, side, out),
        (ceil(count * volume / 128), ceil(out / 64), 1),
        numbers,
        input_pointer=("f16", count * channels * volume, 0.5),
        weight_pointer=("f16", out * channels * 27, 0.1),
        output_pointer=("f16", count * out * volume, "zeros"),
        bias_pointer=("f16", out, 0.5),
    )


def weight_gradients(count: int, channels: int, side: int, out: int) -> Case:
    """Of three by three pixels."""
    pixels = side**2
    numbers = {f"{which}_{axis}": side for which in ("input", "out") for axis in ("height", "width")}
    numbers |= {"input_n_stride": channels * pixels, "input_c_stride": pixels, "input_height_stride": side}
    numbers |= {"output_n_stride": out * pixels, "output_c_stride": pixels, "output_height_stride": side}
    numbers |= {"weight_n_stride": channels * 9, "weight_c_stride": 9, "weight_height_stride": 3}
    for which, value in (("stride", 1), ("padding", 1), ("dilation", 1), ("weight", 3)):
        numbers |= {f"{which}_height": value, f"{which}_width": value}
    return case(
        by(count, channels, side, out),
        (ceil(channels * 9 / 64), 1, ceil(out / 32)),
        {**numbers, "input_c": channels, "in_n": count, "out_c": out},
        input_pointer=("f16", count * channels * pixels, 0.5),
        out_grad_pointer=("f16", count * out * pixels, 0.5),
        weight_pointer=("f16", out * channels * 9, "zeros"),
    )


CASES: Mapping[str, Sequence[Case]] = {
    "y_sg_seg_la": (segments([4096] * 4), ragged(segments([1000, 77, 513]))),
    "y_sg_lightning_none": (rows_of_state(2, 32, 4096),),
    "y_mamba_varlen_w2": (
        last_states([500] * 8, 256, (32, 64)),
        ragged(last_states([300, 77, 1000], 160, (32, 64))),
    ),
    "y_mamba_varlen": (
        last_states([500] * 8, 256, (64, 128)),
        ragged(last_states([300, 77, 1000], 160, (64, 128))),
    ),
    "y_lmd_ds_index": (paged_scores([8192] * 32), ragged(paged_scores([1000, 77, 513, 64]))),
    "y_lmd_awq": (packed_words(16), ragged(packed_words(77))),
    "y_gems_streamk": (streamed(4096, 4096, 4096), streamed(1408, 1408, 2048)),
    "y_gems_conv3d": (volumes(2, 32),),
    "y_gems_conv2d_dw": (weight_gradients(64, 64, 28, 128), ragged(weight_gradients(48, 16, 12, 48))),
    "y_fla_stick": (breaking_sticks(2, 4096), ragged(breaking_sticks(2, 1000))),
    "y_fla_rebased": (squared(4096), ragged(squared(1000))),
    "y_aiter_mqa_logits": (scores(4096), ragged(scores(208))),
    "y_ao_hqq_t": (halves_of_bytes(4096, 4096, 4096, "f16", transposed=True),),
    "y_ao_hqq": (halves_of_bytes(4096, 4096, 4096, "bf16"),),
    "y_aa_grouped_gemm": (groups(shares(16384, 16)), ragged(groups(shares(1000, 16)))),
    "y_aa_stay": (stay(4, 16, 1024),),
    "y_attorch_linear_64": (linear(4096, 4096, 2048, (64, 128)), ragged(linear(400, 528, 208, (64, 128)))),
    "y_attorch_linear_w2": (linear(4096, 2048, 2048, (32, 32)), ragged(linear(400, 528, 208, (32, 32)))),
    "y_fa_triton_bwd": (flash_backward(2, 16, 2048), ragged(flash_backward(1, 16, 384))),
    "y_gems_mla": (latent_pages(32, 4096), ragged(latent_pages(3, 1000))),
    "y_kernl_fma": (saved(4096, 4096, 4096),),
    "y_liger_mhc_bwd": (streams_backward(),),
    "y_liger_mhc_fwd": (streams(),),
    "y_liger_na_gq": (neighbourhood(),),
    "y_liger_swiglu": (gated(4, 2048, 4096, 11008),),
    "y_ll_int8kv": (cached([2048] * 4, [2048] * 4), ragged(cached([100, 333], [50, 0]))),
    "y_ll_mla_stage1": (latent([8192] * 32), ragged(latent([1000, 77, 513]))),
    "y_lmd_linear_add": (integers(4096, 4096, 4096), ragged(integers(77, 528, 400))),
    "y_sg_vsa_ptr": (sparse(24, 8192, 20),),
    "y_tb_bf16xint16": (short_integers(4096, 4096, 4096), ragged(short_integers(400, 528, 208))),
    "y_tb_template": (template(),),
    "y_xf_tiled": (
        tiled((2048, 1024, 1024), (2048, 1024, 1024), (2048, 1024, 1024)),
        ragged(tiled((400, 128, 64), (160, 400, 128), (64, 128, 96))),
    ),
}
"""Launches by the kernel's name."""
