# pyright: basic, reportMissingImports=false
"""Launches of kernels that serve models, and of layers' gradients: pages of keys, adapters, products."""

from collections.abc import Mapping, Sequence
from math import ceil

from benchmarks.launches.arrays import (
    Array,
    Case,
    by,
    case,
    described,
    given,
    pointing,
    positive,
    ragged,
    up,
)
from benchmarks.launches.others.adapters import choices
from benchmarks.launches.others.changed import around, below, shuffled, starts

# --- pages of keys ------------------------------------------------------------------------------------------


def chosen_pages(lengths: Sequence[int], groups: int = 4, pool: int = 1024, most: int = 16) -> Case:
    """Each sequence's query attends to up to `most` blocks of 128 keys, four of them in a thread block; of
    short sequences some places are empty."""
    count, heads, parts = len(lengths), groups * 16, 4
    blocks = [ceil(one / 128) for one in lengths]
    kept = [
        (7 * place + group) % own if place < min(own, most) and (own > most or place % 3 != 1) else -1
        for group in range(groups)
        for own in blocks
        for place in range(most)
    ]
    width = up(max(blocks), 16)
    numbers = {"total_q": count, "gqa_group_size": 16, "head_dim": 128, "max_topk": most, "sm_scale": 0.088}
    numbers |= {"stride_qn": heads * 128, "stride_qh": 128, "stride_th": count * most, "stride_tn": most}
    numbers |= {"stride_kv_blk": groups * 128 * 256, "stride_kv_h": 128 * 256, "stride_kv_pos": 256}
    numbers |= {"stride_o_c": count * heads * 128, "stride_o_b": heads * 128, "stride_o_h": 128}
    numbers |= {"stride_l_c": count * heads, "stride_l_b": heads, "stride_bt_b": width}
    return case(
        f"{count} sequences",
        (count * parts, groups),
        numbers,
        q_ptr=("bf16", count * heads * 128, 0.5),
        kv_cache_ptr=("bf16", pool * groups * 128 * 256, 0.5),
        t_ptr=("i32", len(kept), given(kept)),
        o_ptr=("f32", parts * count * heads * 128, "zeros"),
        lse_ptr=("f32", parts * count * heads, "zeros"),
        block_table_ptr=("i32", count * width, below(pool)),
        seq_lens=("i32", count, given(lengths)),
    )


def index_scores(visible: Sequence[int]) -> Case:
    """Two queries of a request, 8 heads, and 128 pages of 64 keys, as far as they are visible."""
    rows, pages, width = len(visible), len(visible) // 2 * 128, 128
    numbers = {"stride_q_row": 8 * width, "stride_q_head": width, "stride_cache_block": 64 * width}
    numbers |= {"stride_cache_token": width, "stride_table_req": 128, "stride_logits_row": 128 * 64}
    return case(
        f"{rows // 2} requests",
        (rows // 2, 32),
        numbers,
        q_ptr=("bf16", rows * 8 * width, 0.5),
        k_cache_ptr=("bf16", pages * 64 * width, 0.5),
        page_table_ptr=("i32", pages, shuffled),
        visible_blocks_ptr=("i32", rows, given(visible)),
        logits_ptr=("f32", rows * 128 * 64, "zeros"),
    )


def latent(new: Sequence[int], cached: Sequence[int], heads: int = 16) -> Case:
    """Latent keys in 8-bit floats, with a scale for each; causal."""
    count, total = len(new), sum(new)
    lengths = [one + before for one, before in zip(new, cached, strict=True)]
    pool, room = sum(lengths), up(max(lengths), 16)
    numbers = {"sm_scale": 0.04, "kv_group_num": heads, "stride_req_to_tokens_b": room}
    numbers |= {"stride_q_bs": heads * 512, "stride_q_h": 512, "stride_kv_bs": 512, "stride_kv_h": 512}
    numbers |= {"stride_q_rope_bs": heads * 64, "stride_q_rope_h": 64}
    numbers |= {"stride_kv_rope_bs": 64, "stride_kv_rope_h": 64}
    numbers |= {"stride_kv_scale_bs": 16, "stride_kv_scale_h": 16}
    numbers |= {"stride_obs": heads * 512, "stride_oh": 512}
    return case(
        f"{count} sequences",
        (count, heads, ceil(max(new) / 64)),
        numbers,
        Q_nope=("bf16", total * heads * 512, 0.3),
        Q_rope=("bf16", total * heads * 64, 0.3),
        KV_nope=("f8", pool * 512, 0.5),
        KV_rope=("f8", pool * 64, 0.5),
        KV_scale=("bf16", pool * 16, positive),
        B_Start_Loc=("i32", count, given(starts(new)[:-1])),
        B_Seqlen=("i32", count, given(lengths)),
        Out=("bf16", total * heads * 512, "zeros"),
        Req_to_tokens=("i32", count * room, below(pool)),
        B_req_idx=("i32", count, given(range(count))),
        b_prompt_cache_len=("i32", count, given(cached)),
    )


# --- states -------------------------------------------------------------------------------------------------


def mamba(batch: int, tokens: int, heads: int, few: int) -> Case:
    """Mamba 3: states of 128 by 64 of each head, chunks of 64 tokens; rows of numbers are padded."""
    width, values, angles = 128, 64, 64
    row, chunks = up(tokens, 16), ceil(tokens / 64)
    numbers = {"seqlen": tokens, "nheads_qk": few}
    numbers |= {"headdim_qk": width, "headdim_v": values, "headdim_angles": angles}
    arrays: dict[str, Array] = {}

    def vectors(argument: str, name: str, of: int, wide: int, begin, kind: str = "bf16") -> None:
        """Of each token and head."""
        arrays[argument] = (kind, batch * tokens * of * wide, begin)
        numbers.update({f"stride_{name}_batch": tokens * of * wide, f"stride_{name}_head": wide})
        numbers[f"stride_{name}_seqlen"] = of * wide

    def rows(argument: str, name: str, begin, long: int = row) -> None:
        """Numbers of each head, in a row."""
        arrays[argument] = ("f32", batch * heads * long, begin)
        numbers.update({f"stride_{name}_batch": heads * long, f"stride_{name}_head": long})

    vectors("Q", "q", few, width, 0.3)
    vectors("K", "k", few, width, 0.3)
    vectors("V", "v", heads, values, 0.5)
    vectors("Angles", "angles", heads, angles, 1.0, "f32")
    vectors("Out", "o", heads, values, "zeros")
    vectors("Out_v", "o_v", heads, values, "zeros")
    vectors("Q_store", "q_store", heads, width, "zeros")
    vectors("K_store", "k_store", heads, width, "zeros")
    rows("ADT", "adt", around(-0.05))
    rows("DT", "dt", positive)
    rows("Trap", "trap", 1.0)
    rows("DA_CS_Store", "da_cs_store", "zeros")
    rows("DA_CS_SUM_Store", "da_cs_sum_store", "zeros", up(chunks, 16))
    for name in ("QK", "Scale", "Gamma"):
        rows(f"{name}_store", f"{name.lower()}_store", "zeros")
    rows("SSM_States", "ssm_states", "zeros", values * chunks * width)
    numbers |= {"stride_ssm_states_vdim": chunks * width}
    numbers |= {"stride_q_bias_head": width, "stride_k_bias_head": width}
    biases: dict[str, Array] = dict.fromkeys(("Q_bias", "K_bias"), ("f32", heads * width, 0.3))
    return case(by(batch, tokens, heads), (heads, batch), numbers, **arrays, **biases, D=("f32", heads, 0.5))


# --- adapters -----------------------------------------------------------------------------------------------


def one_shot(
    tokens: int, n: int, k: int, loras: int = 4, count: int = 32, top: int = 8, slices: int = 2
) -> Case:
    """Both matrices, of rank 16, of adapters and experts, in blocks of 16 places; adds to what is there."""
    rank, block, nobody = 16, 16, tokens * top
    of = [
        [one + [nobody] * (-len(one) % block) for one in experts]
        for experts in choices(tokens, loras, count, top)
    ]
    filled = [sum(map(len, experts)) for experts in of]
    places = up(max(filled), block * 16)
    ids, named = list[int](), list[int]()
    for experts, number in zip(of, filled, strict=True):
        ids += [place for one in experts for place in one] + [nobody] * (places - number)
        named += [expert for expert, one in enumerate(experts) for _ in range(len(one) // block)]
        named += [-1] * ((places - number) // block)
    numbers = {"N": n, "K": k, "num_valid_tokens": nobody, "top_k_num": top, "max_loras": loras}
    numbers |= {"stride_xm": k, "stride_A_lora": count * rank * k, "stride_A_expert": rank * k}
    numbers |= {"stride_A_r": k, "stride_B_lora": count * n * rank, "stride_B_expert": n * rank}
    numbers |= {"stride_B_n": rank, "stride_om": slices * n, "slice_n_offset": n}
    firsts: dict[str, Array] = {f"a{i}": ("bf16", loras * count * rank * k, 0.1) for i in range(slices)}
    seconds: dict[str, Array] = {f"b{i}": ("bf16", loras * count * n * rank, 0.3) for i in range(slices)}
    one = case(
        f"{tokens} tokens",
        (places // block, slices, loras),
        {**numbers, "stride_tl_": places, "stride_el": places // block},
        **firsts,
        **seconds,
        x_ptr=("bf16", tokens * k, 0.5),
        out_ptr=("bf16", nobody * slices * n, 0.5),
        topk_weights_ptr=("f32", nobody, positive),
        sorted_token_ids_ptr=("i32", len(ids), given(ids)),
        expert_ids_ptr=("i32", len(named), given(named)),
        num_tokens_post_padded_ptr=("i32", loras, given(filled)),
        token_lora_mapping_ptr=("i32", tokens, "zeros"),
        lora_ids_ptr=("i32", loras, given(range(loras))),
        adapter_enabled_ptr=("i32", loras, given([1] * loras)),
    )
    return pointing(one, A_ptrs=list(firsts), B_ptrs=list(seconds))


def shrunk(lengths: Sequence[int], ranks: Sequence[int], beyond: int = 0) -> Case:
    """Segments of up to 16 tokens of an adapter, in three slices of its rank; `beyond`: thread blocks past
    the last."""
    tokens, count, n, k = sum(lengths), len(lengths), 48, 4096
    return case(
        f"{count} segments",
        (n // 16, count + beyond),
        {"num_segs": count},
        x=("bf16", tokens * k, 0.5),
        weights=("bf16", len(ranks) * n * k, 0.1),
        output=("bf16", tokens * n, "zeros"),
        seg_indptr=("i32", count + 1, given(starts(lengths))),
        weight_indices=("i32", count, given([5 * i % len(ranks) for i in range(count)])),
        lora_ranks=("i32", len(ranks), given(ranks)),
        permutation=("i32", tokens, shuffled),
    )


# --- products -----------------------------------------------------------------------------------------------


def batched(batch: int, m: int, n: int, k: int, programs: int = 132) -> Case:
    """Programs that stay, for all products."""
    strides = {"stride_ab": m * k, "stride_am": k, "stride_bb": k * n, "stride_bk": n}
    strides |= {"stride_cb": m * n, "stride_cm": n}
    return case(
        by(batch, m, n, k),
        (min(programs, batch * ceil(m / 128) * ceil(n / 128)),),
        {"B": batch, "M": m, "N": n, "K": k, **strides},
        a_ptr=("bf16", batch * m * k, 0.5),
        b_ptr=("bf16", batch * k * n, 0.1),
        c_ptr=("bf16", batch * m * n, "zeros"),
    )


def inputs_gradient(batch: int, tokens: int, width: int, hidden: int) -> Case:
    """The sum of two products; tiles of three dimensions by descriptors."""
    sides = (batch, tokens, hidden), (batch, tokens, width)
    one = case(
        by(batch * tokens, width, hidden),
        (ceil(tokens / 128) * ceil(width / 128), batch),
        {"S": tokens, "dim": width, "hidden_dim": hidden, "bucket_M": up(batch * tokens, 128)},
        **dict.fromkeys(("dG", "dU"), ("bf16", batch * tokens * hidden, 0.5)),
        **dict.fromkeys(("Wg", "Wu"), ("bf16", hidden * width, 0.1)),
        dI=("bf16", batch * tokens * width, "zeros"),
    )
    weights = (hidden, width), (64, 128)
    return described(
        one,
        desc_dG=("dG", sides[0], (1, 128, 64)),
        desc_dU=("dU", sides[0], (1, 128, 64)),
        desc_Wg=("Wg", *weights),
        desc_Wu=("Wu", *weights),
        desc_dI=("dI", sides[1], (1, 128, 128)),
    )


def neighbourhood(pieces: int, arrays: Mapping[str, tuple[str, float | str]], between: bool) -> Case:
    """2 sequences of 2048 tokens and 16 heads of 128: a weight for each pair of tokens, and vectors by the
    names of their strides; `between`: heads lie between tokens. `pieces`: tiles of columns."""
    heads, tokens, width = 32, 2048, 128
    numbers, kinds = dict[str, int](), dict[str, Array]()
    for name, (argument, begin) in arrays.items():
        row = tokens if name == "grad_attn" else width
        strides = (width, 16 * width) if between and row == width else (tokens * row, row)
        kinds[argument] = ("bf16", heads * tokens * row, begin)
        numbers |= {f"{name}_batch_stride": 16 * tokens * row}
        numbers |= {f"{name}_head_stride": strides[0], f"{name}_seq_stride": strides[1]}
    label = "heads between" if between else "heads apart"
    return case(label, (heads, tokens // 64, pieces), numbers, **kinds)


WEIGHTS = {
    "grad_out": ("grad_output_ptr", 0.5),
    "v": ("V_ptr", 0.5),
    "grad_attn": ("grad_attn_ptr", "zeros"),
}
KEYS = {"grad_attn": ("grad_attn_ptr", 0.1), "q": ("Q_ptr", 0.5), "grad_k": ("grad_K_ptr", "zeros")}

CASES: Mapping[str, Sequence[Case]] = {
    "v_liger_dI": (inputs_gradient(4, 2048, 2048, 4096), ragged(inputs_gradient(2, 208, 272, 336))),
    "v_liger_na_ga": (neighbourhood(32, WEIGHTS, False), ragged(neighbourhood(32, WEIGHTS, True))),
    "v_liger_na_gk": (neighbourhood(2, KEYS, False), ragged(neighbourhood(2, KEYS, True))),
    "v_ll_mla_fp8": (latent([512] * 4, [512] * 4), ragged(latent([77, 1, 200], [100, 33, 0], 5))),
    "v_lora_oneshot": (one_shot(1024, 2048, 2048), ragged(one_shot(77, 1040, 512, slices=3))),
    "v_m3_fwd": (mamba(4, 2048, 32, 4), ragged(mamba(2, 1000, 6, 3))),
    "v_m3_sparse_dec": (chosen_pages([8192] * 128), ragged(chosen_pages([5000, 1, 700, 129, 2049]))),
    "v_qsa_uniform": (
        index_scores([8191, 8192] * 64),
        ragged(index_scores([1, 2, 700, 701, 5000, 4097, 65, 0, 333, 8192])),
    ),
    "v_sg_bi_bmm": (batched(16, 2048, 2048, 2048), ragged(batched(3, 304, 272, 208))),
    "v_sg_chunk_shrink": (
        shrunk([16] * 1024, [16] * 8),
        ragged(shrunk([16, 3, 0, 1, 11, 16, 7, 16, 16], [16, 8, 0, 5, 16, 12, 1], 2)),
    ),
}
"""Launches by the kernel's name."""
