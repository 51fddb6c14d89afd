# pyright: basic, reportMissingImports=false
"""Launches of adapters of low rank: small matrices that differ from token to token, and in mixtures of
experts from expert to expert."""

import random
from collections.abc import Mapping, Sequence
from math import ceil

from benchmarks.launches.arrays import Array, Case, case, given, pointing, positive
from benchmarks.launches.others.dense import both, having
from benchmarks.launches.others.routes import placed, sizes
from benchmarks.launches.products import adapters

# --- adapters of experts ----------------------------------------------------------------------------------


def choices(tokens: int, loras: int, count: int, top: int) -> list[list[list[int]]]:
    """The numbers of tokens' choices of experts, of each adapter and expert."""
    draw = random.Random(0)
    of: list[list[list[int]]] = [[[] for _ in range(count)] for _ in range(loras)]
    for token in range(tokens):
        lora = draw.randrange(loras)
        for choice, expert in enumerate(draw.sample(range(count), top)):
            of[lora][expert].append(token * top + choice)
    return of


def table(tokens: int, loras: int, count: int, top: int, block: int) -> tuple[int, Mapping[str, Array]]:
    """Places of each adapter, by experts that are padded to whole blocks and then to as many as the adapter
    with most has, and what is at them."""
    nobody = tokens * top
    of = [
        [one + [nobody] * (-len(one) % block) for one in experts]
        for experts in choices(tokens, loras, count, top)
    ]
    filled = [sum(map(len, experts)) for experts in of]
    places = max(filled)
    ids, experts = list[int](), list[int]()
    for one, number in zip(of, filled, strict=True):
        ids += [choice for choices in one for choice in choices] + [nobody] * (places - number)
        experts += [expert for expert, choices in enumerate(one) for _ in range(len(choices) // block)]
        experts += [-1] * ((places - number) // block)
    return places, {
        "topk_weights_ptr": ("f32", nobody, positive),
        "sorted_token_ids_ptr": ("i32", len(ids), given(ids)),
        "expert_ids_ptr": ("i32", len(experts), given(experts)),
        "num_tokens_post_padded_ptr": ("i32", loras, given(filled)),
        "lora_ids": ("i32", loras, given(range(loras))),
        "adapter_enabled": ("i32", loras, given([1] * loras)),
    }


def of_experts(
    tokens: int,
    tile: Sequence[int],
    type: str,
    n: int,
    k: int,
    rows: int,
    parts: int = 1,
    slices: int = 1,
    loras: int = 4,
    count: int = 32,
    top: int = 8,
) -> Case:
    """`rows` of inputs, `tile`: places and columns. The sum over k may be in parts, which are added to C;
    there is a result for each slice."""
    places, arrays = table(tokens, loras, count, top, tile[0])
    pairs = tokens * top
    numbers = {"N": n, "K": k, "EM": places, "num_valid_tokens": pairs, "num_experts": count}
    numbers |= {"stride_am": k, "stride_bl": count * n * k, "stride_be": n * k, "stride_bn": k}
    numbers |= {"stride_cm": n, "stride_tl": places, "stride_el": places // tile[0]}
    weights: dict[str, Array] = {f"b{one}": (type, loras * count * n * k, 0.5) for one in range(slices)}
    one = case(
        f"{tokens} tokens",
        (parts * places // tile[0] * ceil(n / tile[1]), slices, loras),
        numbers | {"slice_a_size": rows * k, "slice_c_size": pairs * n},
        **arrays,
        **weights,
        a_ptr=(type, rows * k, 0.5),
        c_ptr=(type, slices * pairs * n, "zeros"),
    )
    one = one if parts == 1 else {**one, "tolerance": 2e-2}
    return pointing(one, b_ptr=list(weights))


def slices(tokens: int, tile: Sequence[int], type: str, n: int, k: int, parts: int = 1) -> Case:
    return of_experts(tokens, tile, type, n, k, tokens, parts, slices=2)


def turned(tokens: int, tile: Sequence[int], n: int, k: int, parts: int = 1) -> Case:
    """With a row of inputs for each choice, and places for scales that are not read."""
    one = of_experts(tokens, tile, "bf16", n, k, tokens * 8, parts)
    scale: Array = ("f32", 16, positive)
    one["arrays"] |= {"a_scale_ptr": scale, "b_scale_ptr": scale}
    one["arrays"]["token_lora_mapping_ptr"] = ("i32", tokens, "zeros")
    unused = dict.fromkeys(("asm", "ask", "bsl", "bse", "bsk", "bsn"), 1)
    numbers = {f"stride_{name}": stride for name, stride in unused.items()}
    return {**one, "numbers": one["numbers"] | numbers | {"top_k_num": 8, "max_loras": 4}}


def expanded(tokens: int, n: int, count: int = 64, rank: int = 16, top: int = 8) -> Case:
    """The second matrix of each adapter and expert, in blocks of 16 places."""
    arrays = placed(tokens, count, top, 16)
    blocks, _ = sizes(arrays)
    pairs = tokens * top
    strides = {"stride_am": rank, "stride_be": n * rank, "stride_bn": rank, "stride_cm": n}
    return case(
        f"{tokens} tokens",
        (blocks * ceil(n / 128),),
        {"N": n, "num_valid_tokens": pairs, **strides},
        **arrays,
        a_ptr=("bf16", pairs * rank, 0.5),
        b_ptr=("bf16", count * n * rank, 0.5),
        c_ptr=("bf16", pairs * n, "zeros"),
    )


def each_turn(tokens: int, count: int = 64, rank: int = 16, k: int = 2048, top: int = 8) -> Case:
    """A program for each choice of a token; of four adapters one is off, some tokens have none."""
    draw = random.Random(0)
    choices = tokens * top
    strides = {"stride_xq": k, "stride_as": count * rank * k, "stride_ae": rank * k, "stride_ar": k}
    return case(
        f"{tokens} tokens",
        (choices,),
        {**strides, "stride_oq": rank},
        activation_ptr=("bf16", choices * k, 0.5),
        down_a_ptr=("bf16", 4 * count * rank * k, 0.5),
        topk_ids_ptr=("i32", choices, given([draw.randrange(count) for _ in range(choices)])),
        token_lora_mapping_ptr=("i32", tokens, given([draw.randrange(-1, 4) for _ in range(tokens)])),
        adapter_enabled_ptr=("i32", 4, given([1, 1, 0, 1])),
        output_ptr=("bf16", choices * rank, "zeros"),
    )


# --- adapters of tokens -----------------------------------------------------------------------------------


def shrunk(tokens: int, rank: int, k: int) -> Case:
    one = adapters(tokens, rank=rank, k=k)
    return having(one, (ceil(tokens / 16) * ceil(rank / 32), 1, 4))


def segments(lengths: Sequence[int], heads: int = 16, k: int = 512, n: int = 64) -> Case:
    """Tokens in segments, each with an adapter; adapters differ in rank."""
    tokens = sum(lengths)
    numbers = {"x_stride_s": heads * k, "x_stride_h": k, "w_stride_l": n * k, "w_stride_n": k}
    return case(
        f"{tokens} tokens",
        (ceil(max(lengths) / 16) * ceil(n / 16), heads, len(lengths)),
        {"S": tokens, "K": k, "N": n, "num_segments": len(lengths), **numbers}
        | {"out_stride_s": heads * n, "out_stride_h": n},
        x=("bf16", tokens * heads * k, 0.5),
        w=("bf16", 4 * n * k, 0.5),
        out=("bf16", tokens * heads * n, "zeros"),
        seg_indptr=(
            "i32",
            len(lengths) + 1,
            given([sum(lengths[:one]) for one in range(len(lengths) + 1)]),
        ),
        weight_indices=("i32", len(lengths), given([one % 4 for one in range(len(lengths))])),
        lora_ranks=("i32", 4, given([n, n // 2, n - 8, 0])),
        sorted_token_ids=("i64", tokens, given(range(tokens))),
    )


CASES: Mapping[str, Sequence[Case]] = {
    "sg_down_shrink": both(each_turn(1024), each_turn(19, count=8)),
    "sg_lora_expand_add": both(expanded(2048, 4096), expanded(77, 400, 8)),
    "sg_lora_step_a_v": both(
        segments((1024, 900, 1500, 672, 1000)), segments((5, 130, 0, 64, 77), 2, 400, 48)
    ),
    "sg_moe_lora": both(slices(2048, (64, 64), "bf16", 64, 2048), slices(77, (64, 64), "bf16", 80, 336)),
    "sg_moe_lora_add": both(
        slices(2048, (16, 128), "f16", 64, 2048, 4), slices(77, (16, 128), "f16", 144, 400, 4)
    ),
    "vllm_lora_shrink_odd": both(shrunk(16381, 64, 4112), shrunk(77, 48, 336)),
    "vllm_moe_lora_fp8": both(turned(4096, (64, 64), 64, 2048), turned(77, (64, 64), 80, 336)),
    "vllm_moe_lora_split": both(turned(4096, (32, 16), 16, 2048, 4), turned(77, (32, 16), 48, 400, 4)),
}
"""Launches by the kernel's name."""
