# pyright: basic, reportMissingImports=false
"""Launches of kernels whose forms are unlike the others: attention with bounded memory, sums that several
thread blocks complete, groups of tokens that share what they attend to."""

from math import ceil

from benchmarks.launches.arrays import Array, Case, by, case, decays, described, given, nibbles, positive
from benchmarks.launches.products import routed

# --- attention with bounded memory: 64 chunks of 64 tokens, keys and values of 128, cut into halves ---------

TOKENS, CHUNK, WIDTH, HALF = 4096, 64, 128, 64


def _memory(batch: int, grid: tuple[int, ...], names: str, numbers: dict[str, float]) -> Case:
    """Arrays by their names in the source."""
    rows, states = batch * TOKENS, batch * (TOKENS // CHUNK) * WIDTH * WIDTH
    kinds: dict[str, Array] = {
        **dict.fromkeys(("q", "k", "v", "do"), ("bf16", rows * WIDTH, 0.5)),
        "z": ("f32", rows * WIDTH, decays(TOKENS, WIDTH)),
        "h": ("bf16", states, 0.1),
        "dh": ("bf16", states, 0.1),
        "A": ("f32", rows * CHUNK, 0.1),
        "dA": ("f32", rows * CHUNK, "zeros"),
        **dict.fromkeys(("o", "dq", "dk"), ("bf16", rows * WIDTH, "zeros")),
        "dv": ("bf16", 2 * rows * WIDTH, "zeros"),
        **dict.fromkeys(("h0", "ht"), ("f32", batch * WIDTH * WIDTH, "zeros")),
    }
    arrays = {name: kinds[name] for name in names.split()}
    return case(f"{batch}x{TOKENS}", grid, {"T": TOKENS, **numbers}, **arrays)


def memory_states(batch: int) -> Case:
    return _memory(batch, (2, 2, batch), "k v z h h0 ht", {})


def memory_gradients(batch: int) -> Case:
    return _memory(batch, (2, 2, batch), "q z do dh", {"scale": 0.088})


def memory_values(batch: int) -> Case:
    return _memory(batch, (2, TOKENS // CHUNK, batch), "q v z h o A", {"scale": 0.088})


def memory_backward(batch: int) -> Case:
    return _memory(batch, (2, TOKENS // CHUNK, batch), "k v z h A do dh dq dk dv dA", {"scale": 0.088})


def reversed_sums(batch: int) -> Case:
    size = batch * TOKENS * 64
    return case(
        f"{batch}x{TOKENS}",
        (1, TOKENS // 16, batch),
        {"T": TOKENS},
        s=("bf16", size, 0.1),
        z=("f32", size, decays(TOKENS, 64)),
        ss=("bf16", size, 0.5),
        doo=("bf16", size, 0.5),
    )


def taylor(batch: int, heads: int, tokens: int) -> Case:
    """exp(q k) by its first three terms; the batch and heads are constants."""
    rows = batch * heads
    return case(
        by(batch, tokens),
        (128 // 32, 1, rows),
        {"scale": 0.25, "T": tokens},
        **dict.fromkeys("qk", ("bf16", rows * tokens * 16, 0.5)),
        v=("bf16", rows * tokens * 128, 0.5),
        o=("bf16", rows * tokens * 128, "zeros"),
        z=("f32", rows * tokens, "zeros"),
    )


# --- decoding -----------------------------------------------------------------------------------------------


def speculated(sequences: int, heads: int, tokens: int) -> Case:
    """Drafts of up to 16 tokens on states of linear attention; a lower triangle says which see which."""
    width, parts = 128, 2
    rows = sequences * tokens
    triangle = [int(j <= i) for _ in range(sequences) for i in range(tokens) for j in range(tokens)]
    return case(
        f"{sequences} sequences",
        (sequences, heads, parts * 4),
        {
            "softmax_scale": 0.088,
            **dict.fromkeys(("stride_q", "stride_k", "stride_v"), heads * width),
            "stride_s": heads * width * width,
            "stride_o": rows * heads * width,
        },
        **dict.fromkeys("QKV", ("bf16", rows * heads * width, 0.5)),
        S=("f32", sequences * heads * width * width, 0.1),
        Out=("bf16", parts * rows * heads * width, "zeros"),
        Mask=("i32", len(triangle), given(triangle)),
        s_offsets=("i32", sequences, given(range(sequences))),
        q_offsets=("i32", sequences, given(range(0, rows, tokens))),
        q_lengths=("i32", sequences, given([tokens] * sequences)),
        s_scales=("f32", sequences, positive),
        decay_scales=("f32", heads, 0.05),
    )


def router(tokens: int, experts: int, width: int) -> Case:
    """The last of four thread blocks adds what all four have stored, and clears their counter."""
    return case(
        by(tokens, experts, width),
        (experts // 16, ceil(tokens / 16), 4),
        {
            "M": tokens,
            "K": width,
            "N": experts,
            "stride_xm": width,
            "stride_wn": width,
            "stride_om": experts,
        },
        x_ptr=("bf16", tokens * width, 0.5),
        w_ptr=("bf16", experts * width, 0.1),
        out_ptr=("f32", tokens * experts, "zeros"),
        partials_ptr=("f32", 4 * ceil(tokens / 16) * 16 * experts, "zeros"),
        counter_ptr=("i32", experts // 16 * ceil(tokens / 16), "zeros"),
    )


def hadamard(rows: int) -> Case:
    return case(
        f"{rows} rows",
        (ceil(rows / 64),),
        {"n_rows": rows, "stride_x_row": 128, "stride_o_row": 128},
        x_ptr=("bf16", rows * 128, 0.5),
        h_ptr=("bf16", 128 * 128, 0.1),
        out_ptr=("bf16", rows * 128, "zeros"),
    )


def unions(groups: int, kept: int) -> Case:
    """Four tokens of 16 heads walk along the union of the keys that each attends to."""
    keys = 8192
    return case(
        f"{groups} groups",
        (groups,),
        {"sm_scale": 0.04, "U_STRIDE": kept},
        q_ptr=("bf16", groups * 64 * 576, 0.3),
        kv_ptr=("bf16", keys * 576, 0.3),
        uidx_ptr=("i32", groups * kept, given([(7 * i + i // kept) % keys for i in range(groups * kept)])),
        ubits_ptr=("i32", groups * kept, given([1 + i % 15 for i in range(groups * kept)])),
        ulen_ptr=("i32", groups, given([kept - i % 40 for i in range(groups)])),
        o_ptr=("bf16", groups * 64 * 512, "zeros"),
    )


def gathered(tokens: int, kept: int, own: int, keys: int = 16384) -> Case:
    """64 heads of 512: keys of pages by their indices, then keys of the sequence; no argument is a number."""
    pages = [(13 * i + i // kept) % keys for i in range(tokens * kept)]
    return case(
        f"{tokens} tokens",
        (tokens, 4),
        {},
        q_ptr=("bf16", tokens * 64 * 512, 0.3),
        unified_kv_ptr=("bf16", keys * 512, 0.3),
        kv_indices_prefix_ptr=("i32", tokens * kept, given(pages)),
        kv_indptr_prefix_ptr=("i32", tokens + 1, given(range(0, (tokens + 1) * kept, kept))),
        kv_ptr=("bf16", tokens * 512, 0.3),
        kv_indices_extend_ptr=(
            "i32",
            tokens * own,
            given([(i // own + i) % tokens for i in range(tokens * own)]),
        ),
        kv_indptr_extend_ptr=("i32", tokens + 1, given(range(0, (tokens + 1) * own, own))),
        attn_sink_ptr=("f32", 64, 1.0),
        out_ptr=("bf16", tokens * 64 * 512, "zeros"),
    )


def selected_by(batch: int, each: int, tokens: int = 1024, groups: int = 4) -> Case:
    """Blocks of 64 keys and the queries that selected them, 16 heads for each group of keys."""
    blocks = tokens // 64
    count = batch * blocks * groups
    found = [
        one // groups // blocks * tokens + (one // groups % blocks * 64 + 11 * i) % tokens
        for one in range(count)
        for i in range(each)
    ]
    rows = batch * tokens
    return case(
        by(batch, tokens, each),
        (1, count),
        {"scale": 0.125, "T": tokens},
        **dict.fromkeys(("q", "do"), ("bf16", rows * 16 * groups * 64, 0.3)),
        **dict.fromkeys("kv", ("bf16", rows * groups * 64, 0.3)),
        lse=("f32", rows * 16 * groups, 1.0),
        delta=("f32", rows * 16 * groups, 0.1),
        **dict.fromkeys(("dk", "dv"), ("bf16", rows * groups * 64, "zeros")),
        csr_indices=("i32", len(found), given(found)),
        csr_offsets=("i32", count + 1, given(range(0, (count + 1) * each, each))),
    )


# --- products -------------------------------------------------------------------------------------------


def gradients_of_gates(batch: int, tokens: int, width: int, hidden: int) -> Case:
    """Two gradients from one product; tiles of three dimensions by descriptors."""
    rows = batch * tokens
    one = case(
        by(rows, hidden, width),
        (ceil(tokens / 64) * ceil(hidden / 64), batch),
        {"S": tokens, "dim": width, "hidden_dim": hidden},
        dO=("bf16", rows * width, 0.5),
        Wd=("bf16", width * hidden, 0.1),
        G=("bf16", rows * hidden, 1.0),
        U=("bf16", rows * hidden, 1.0),
        dG=("bf16", rows * hidden, "zeros"),
        dU=("bf16", rows * hidden, "zeros"),
    )
    wide = ((batch, tokens, hidden), (1, 64, 64))
    return described(
        one,
        desc_dO=("dO", (batch, tokens, width), (1, 64, 64)),
        desc_Wd=("Wd", (width, hidden), (64, 64)),
        **{f"desc_{name}": (name, *wide) for name in ("G", "U", "dG", "dU")},
    )


def mixed(tokens: int, width: int) -> Case:
    """24 columns in tf32, and the squares of rows, in 16 parts along K."""
    parts = 16
    return case(
        by(tokens, 24, width),
        (ceil(tokens / 16), parts),
        {"M": tokens, "K": width, "x_stride_m": width, "w_stride_n": width},
        x_ptr=("bf16", tokens * width, 0.5),
        w_ptr=("f32", 24 * width, 0.1),
        part_mix_ptr=("f32", parts * tokens * 24, "zeros"),
        part_sq_ptr=("f32", parts * tokens, "zeros"),
    )


def shared_tiles(size: int, blocks: int = 132) -> Case:
    """Stream-K: the tiles beyond whole waves, cut evenly among all thread blocks, which add their parts."""
    each = size // 64
    iterations = (size // 128) ** 2 % blocks * each
    return case(
        by(size, size, size),
        (blocks,),
        {
            **dict.fromkeys(("M", "N", "K", "stride_am", "stride_bk", "stride_cm"), size),
            "iters_per_pid": iterations // blocks,
            "iters_remaining": iterations % blocks,
            "iters_per_tile": each,
        },
        A=("f16", size * size, 0.5),
        B=("f16", size * size, 0.1),
        C=("f16", size * size, "zeros"),
        locks=("i32", 1024, "zeros"),
    )


def emulated(tokens: int, n: int = 2048, k: int = 4096) -> Case:
    """Experts with weights of 4 bits and a scale in e4m3 for each 16 of a row; the sizes are constants."""
    count, top = 16, 8
    places, of_block = routed(tokens, count, top, 64)
    strides = {"stride_am": k, "stride_be": n * k // 2, "stride_bn": k // 2, "stride_cm": n}
    return case(
        f"{tokens} tokens",
        (len(of_block) * ceil(n / 64),),
        {
            "EM": len(places),
            "num_valid_tokens": tokens * top,
            "stride_bse": n * k // 16,
            "stride_bsn": k // 16,
            **strides,
        },
        a_ptr=("bf16", tokens * k, 0.5),
        b_ptr=("uint8", count * n * k // 2, nibbles),
        c_ptr=("bf16", tokens * top * n, "zeros"),
        b_scale_ptr=("f8", count * n * k // 16, positive),
        w_global_scale_ptr=("f32", count, 0.02),
        topk_weights_ptr=("f32", tokens * top, positive),
        sorted_token_ids_ptr=("i32", len(places), given(places)),
        expert_ids_ptr=("i32", len(of_block), given(of_block)),
        num_tokens_post_padded_ptr=("i32", 1, given([len(places)])),
    )


CASES = {
    "v_abc_fwd_h": [memory_states(64)],
    "v_abc_bwd_dh": [memory_gradients(64)],
    "v_abc_fwd_V": [memory_values(64)],
    "v_abc_bwd_V": [memory_backward(64)],
    "v_abc_rcum": [reversed_sums(64)],
    "v_based_fwd": [taylor(4, 16, 2048)],
    "v_sg_seg_s": [speculated(64, 32, 8), speculated(5, 32, 11)],
    "v_sg_router": [router(128, 256, 7168), router(77, 128, 2048)],
    "v_hadamard": [hadamard(131072), hadamard(1000)],
    "v_liger_dGU": [gradients_of_gates(4, 2048, 4096, 4096), gradients_of_gates(2, 208, 272, 336)],
    "v_sg_mhc_stats": [mixed(1024, 28672), mixed(77, 4096)],
    "v_gems_wave": [shared_tiles(4096)],
    "v_nvfp4_moe": [emulated(1024), emulated(34)],
    "v_sg_v4_prefill": [gathered(1024, 512, 128), gathered(17, 41, 7)],
    "v_nsa_dkv": [selected_by(4, 256), selected_by(4, 7)],
    "v_sg_mla_union": [unions(512, 2048)],
}
