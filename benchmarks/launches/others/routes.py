# pyright: basic, reportMissingImports=false
"""Launches of mixtures of experts: each token's row is multiplied by the matrices of some experts."""

import random
from collections.abc import Mapping, Sequence
from itertools import accumulate
from math import ceil

from benchmarks.launches.arrays import Array, Case, bits, case, given, positive
from benchmarks.launches.others.dense import both, having
from benchmarks.launches.products import SMS, routed

# --- places of tokens in whole blocks ---------------------------------------------------------------------


def placed(tokens: int, count: int, top: int, block: int) -> Mapping[str, Array]:
    """For each place the number of a token's turn, by experts that are padded to whole blocks."""
    places, of_block = routed(tokens, count, top, block)
    return {
        "topk_weights_ptr": ("f32", tokens * top, positive),
        "sorted_token_ids_ptr": ("i32", len(places), given(places)),
        "expert_ids_ptr": ("i32", len(of_block), given(of_block)),
        "num_tokens_post_padded_ptr": ("i32", 1, given([len(places)])),
    }


def sizes(arrays: Mapping[str, Array]) -> tuple[int, int]:
    """Blocks, and places in them."""
    return arrays["expert_ids_ptr"][1], arrays["sorted_token_ids_ptr"][1]


def moe(
    tokens: int,
    type: str,
    tile: Sequence[int],
    out: str = "bf16",
    count: int = 64,
    n: int = 2048,
    k: int = 2048,
    top: int = 8,
) -> Case:
    """`tile`: places and columns."""
    arrays = placed(tokens, count, top, tile[0])
    blocks, places = sizes(arrays)
    pairs, scale = tokens * top, 20.0 if type == "int8" else 0.5
    strides = {"stride_am": k, "stride_be": n * k, "stride_bn": k, "stride_cm": n}
    return case(
        f"{tokens} tokens",
        (blocks * ceil(n / tile[1]),),
        {"N": n, "K": k, "EM": places, "num_valid_tokens": pairs, **strides},
        **arrays,
        a_ptr=(type, tokens * k, scale),
        b_ptr=(type, count * n * k, scale),
        c_ptr=(out, pairs * n, "zeros"),
    )


def quantized(
    tokens: int,
    type: str,
    tile: Sequence[int],
    count: int = 64,
    n: int = 2048,
    k: int = 2048,
    top: int = 8,
) -> Case:
    """With places for scales and a bias, where a kernel has them: a scale for each token, and both for each
    column of an expert, every one 16 elements behind the one before."""
    one = moe(tokens, type, tile, count=count, n=n, k=k, top=top)
    strides = dict.fromkeys(("asm", "ask", "bsk", "bsn", "bbn"), 16) | {"bse": n * 16, "bbe": n * 16}
    one["numbers"] |= {f"stride_{name}": stride for name, stride in strides.items()}
    begin = 0.02 if type == "int8" else positive
    one["arrays"] |= {
        "a_scale_ptr": ("f32", tokens * 16, begin),
        "b_scale_ptr": ("f32", count * n * 16, begin),
        "b_bias_ptr": ("bf16", count * n * 16, 0.5),
    }
    return one


def square(tokens: int, tile: Sequence[int], type: str, k: int, count: int = 8, top: int = 2) -> Case:
    """As many blocks of columns as of places, which this kernel takes for granted."""
    blocks, _ = sizes(placed(tokens, count, top, tile[0]))
    return moe(tokens, type, tile, type, count, blocks * tile[1], k, top)


def gated(tokens: int, count: int = 64, n: int = 2048, k: int = 2048) -> Case:
    """Half of the columns are gates of the other half."""
    one = moe(tokens, "bf16", (64, 128), count=count, n=n, k=k)
    one["arrays"]["c_ptr"] = ("bf16", tokens * 8 * n // 2, "zeros")
    strides = {"stride_asm": 1, "stride_ask": 1, "stride_bse": 1, "stride_bsk": 1, "stride_bsn": 1}
    return having({**one, "numbers": one["numbers"] | strides}, (SMS,), stride_cm=n // 2)


# --- tokens sorted by expert ------------------------------------------------------------------------------


def by_expert(tokens: int, count: int, top: int) -> list[list[int]]:
    """The numbers of tokens' turns, of each expert."""
    draw = random.Random(0)
    of: list[list[int]] = [[] for _ in range(count)]
    for token in range(tokens):
        for turn, expert in enumerate(draw.sample(range(count), top)):
            of[expert].append(token * top + turn)
    return of


def ends(of: Sequence[Sequence[int]]) -> list[int]:
    return list(accumulate(map(len, of)))


def starts(of: Sequence[Sequence[int]]) -> list[int]:
    return [end - len(one) for end, one in zip(ends(of), of, strict=True)]


def together(of: Sequence[Sequence[int]]) -> list[int]:
    return [turn for one in of for turn in one]


def compact(tokens: int, block: int, count: int = 64, n: int = 2048, k: int = 4096, top: int = 8) -> Case:
    """Blocks of rows of one expert each; 8-bit floats with scales. Some programs have no block."""
    of = by_expert(tokens, count, top)
    blocks = [ceil(len(one) / block) for one in of]
    experts = [expert for expert, number in enumerate(blocks) for _ in range(number)]
    offsets = [
        start + block * i for start, number in zip(starts(of), blocks, strict=True) for i in range(number)
    ]
    return case(
        f"{tokens} tokens",
        (len(experts) + 3, n // 128),
        {"stride_asm": k // 128, "stride_cm": n},
        A=("f8", tokens * k, 0.5),
        A_scale=("f32", tokens * k // 128, positive),
        B=("f8", count * n * k, 0.5),
        B_scale=("f32", count * (n // 128) * (k // 128), positive),
        C=("bf16", tokens * top * n, "zeros"),
        SortedIdx=("i64", tokens * top, given(together(of))),
        ExpEnd=("i64", count, given(ends(of))),
        BlockEnd=("i32", count, given(list(accumulate(blocks)))),
        BlockExpertIds=("i32", len(experts), given(experts)),
        BlockOffsets=("i32", len(experts), given(offsets)),
    )


def integers(tokens: int, columns: int, count: int = 64, n: int = 2048, k: int = 4096, top: int = 8) -> Case:
    """8-bit integers; no expert has more rows than one block, which holds as many as there are tokens."""
    of = by_expert(tokens, count, top)
    return case(
        f"{tokens} tokens",
        (n // columns, count),
        {},
        A=("int8", tokens * k, 20.0),
        A_scale=("f32", tokens, 0.02),
        B=("int8", count * n * k, 20.0),
        B_scale=("f32", count * n, 0.02),
        C=("f16", tokens * top * n, "zeros"),
        SortedIdx=("i64", tokens * top, given(together(of))),
        ExpStart=("i64", count, given(starts(of))),
        ExpEnd=("i64", count, given(ends(of))),
    )


def each_route(
    tokens: int, columns: int, count: int = 64, n: int = 2048, k: int = 4096, top: int = 8
) -> Case:
    """A program for each token's turn and some columns; weights of 4 bits. One turn has no expert."""
    draw = random.Random(0)
    experts = [draw.randrange(count) for _ in range(tokens * top)]
    experts[3] = -1
    return case(
        f"{tokens} tokens",
        (tokens * top, n // columns),
        {},
        A=("bf16", tokens * k, 0.5),
        B=("i32", count * n * k // 8, bits),
        S=("bf16", count * n * k // 128, 0.01),
        C=("bf16", tokens * top * n, "zeros"),
        RouteExpertIds=("i64", tokens * top, given(experts)),
    )


def lengths(rows: int, count: int) -> list[int]:
    """Rows of experts, of which one has none."""
    draw = random.Random(0)
    cuts = sorted(draw.randrange(rows + 1) for _ in range(count - 2))
    found = [end - start for start, end in zip([0, *cuts], [*cuts, rows], strict=True)]
    return [*found[:1], 0, *found[1:]]


def tiles(rows: int, block: int, grid: int = 0, count: int = 16, n: int = 2048, k: int = 4096) -> Case:
    """Rows sorted by expert; by tile the expert, its first row, its tiles, and tiles up to its last one.
    `grid`: programs, if they take several tiles each."""
    of = lengths(rows, count)
    number = [ceil(one / block) for one in of]
    total = sum(number)
    first = [end - one for end, one in zip(accumulate(of), of, strict=True)]
    experts = [expert for expert, one in enumerate(number) for _ in range(one)]
    until = list(accumulate(number))
    columns = 256 if block == 64 else 128
    return case(
        f"{rows} rows",
        (grid or total * n // columns,),
        {"M": rows},
        a_ptr=("bf16", rows * k, 0.5),
        b_ptr=("bf16", count * n * k, 0.5),
        c_ptr=("bf16", rows * n, "zeros"),
        expert_ids_ptr=("i32", total, given(experts)),
        split_size_ptr=("i32", count, given(of)),
        split_size_cum_ptr=("i32", total, given([first[one] for one in experts])),
        tile_num_ptr=("i32", total, given([number[one] for one in experts])),
        tile_num_cum_ptr=("i32", total, given([until[one] for one in experts])),
        num_total_tiles_ptr=("i32", 1, given([total])),
    )


def weights_gradient(rows: int, count: int = 64, n: int = 2048, k: int = 4096) -> Case:
    """Of each expert, from its rows of inputs and of gradients."""
    of = lengths(rows, count)
    first = [end - one for end, one in zip(accumulate(of), of, strict=True)]
    return case(
        f"{rows} rows",
        (SMS,),
        {"M": rows},
        grad_output_ptr=("bf16", rows * n, 0.5),
        orig_input_ptr=("bf16", rows * k, 0.5),
        grad_weight_ptr=("bf16", count * n * k, "zeros"),
        split_size_ptr=("i32", count, given(of)),
        split_size_cum_per_expert_ptr=("i32", count, given(first)),
    )


# --- forward and backward of one library: 64 experts, 8 for each token ------------------------------------


def gathered(tokens: int, type: str, inputs: Mapping[str, int], outputs: Mapping[str, int]) -> Case:
    """By array its elements for each token's turn; weights' are given for all experts. Indices have some
    elements more than are used."""
    of, pairs = by_expert(tokens, 64, 8), tokens * 8
    arrays: dict[str, Array] = {name: (type, size, 0.5) for name, size in inputs.items()}
    arrays |= {name: (type, size, "zeros") for name, size in outputs.items()}
    return case(
        f"{tokens} tokens",
        (SMS,),
        {"NUM_TOKENS": tokens, "NUM_SMS": SMS},
        **arrays,
        m_sizes_ptr=("i32", 64, given([len(one) for one in of])),
        gather_indices_ptr=("i32", pairs + 256, given([*together(of), *([0] * 256)])),
    )


N, K = 2048, 1024
"""Columns of the results, and of the inputs, of that library's kernels."""
WEIGHTS = 64 * N * K


def forward(tokens: int, type: str, weights: str = "", permuted: bool = True) -> Case:
    """`permuted`: inputs in the order of tokens, else of turns."""
    rows = tokens if permuted else tokens * 8
    one = gathered(tokens, type, {"x_ptr": rows * K, "w_ptr": WEIGHTS}, {"y_ptr": tokens * 8 * N})
    one["arrays"]["topk_weights_ptr"] = (weights or type, tokens * 8, positive)
    return one


def inputs_gradient(tokens: int) -> Case:
    pairs = tokens * 8
    return gathered(tokens, "bf16", {"dY_ptr": pairs * N, "w_ptr": WEIGHTS}, {"dX_ptr": pairs * K})


def grouped_gradient(tokens: int) -> Case:
    pairs = tokens * 8
    return gathered(tokens, "f16", {"x_ptr": pairs * K, "dY_ptr": pairs * N}, {"dW_ptr": WEIGHTS})


# --- another library --------------------------------------------------------------------------------------


def scattered(
    tokens: int,
    tile: Sequence[int],
    used: int,
    side: int,
    step: int = 0,
    top: int = 2,
    experts: int = 0,
    grouped: bool = False,
) -> Case:
    """Square matrices of `used` experts, `step` elements apart, if all of them are read `experts`; inputs in
    the order of experts if `grouped`, else results."""
    of, pairs = by_expert(tokens, used, top), tokens * top
    step = step or side**2
    of_row = [expert for expert, one in enumerate(of) for _ in one]
    return case(
        f"{tokens} tokens",
        (ceil(pairs / tile[0]) * ceil(side / tile[1]),),
        {"stride_xm": side, "stride_we": step, "stride_wk": side, "stride_ym": side}
        | {"FAN_OUT": top, "M": tokens},
        X_ptr=("bf16", (pairs if grouped else tokens) * side, 0.5),
        W_ptr=("bf16", ((experts or used) - 1) * step + side**2, 0.5),
        Y_ptr=("bf16", pairs * side, "zeros"),
        grouped_idx_ptr=("i32", pairs, given(together(of))),
        expert_idxs_ptr=("i32", pairs, given(of_row)),
    )


def transposed(rows: int, tile: Sequence[int], type: str, count: int = 8, side: int = 4096) -> Case:
    """Gradients of experts' weights; `tile`: their rows and columns."""
    of = lengths(rows, count)
    strides = {"stride_dym": side, "stride_xm": side, "stride_dwe": side**2, "stride_dwk": side}
    return case(
        f"{rows} rows",
        (count * side // tile[0], side // tile[1]),
        strides,
        DY_ptr=(type, rows * side, 0.5),
        X_ptr=(type, rows * side, 0.5),
        DW_ptr=(type, count * side**2, "zeros"),
        expert_offsets_ptr=("i32", count, given(list(accumulate(of)))),
    )


SMALL = {"count": 8, "n": 400, "k": 336}

CASES: Mapping[str, Sequence[Case]] = {
    "aa_moe_v2": both(square(2048, (64, 64), "bf16", 4096), square(77, (64, 64), "bf16", 336)),
    "aa_moe_v2_m16": both(square(256, (16, 128), "f16", 4096), square(37, (16, 128), "f16", 336)),
    "aiter_moe_silu_persist": both(gated(2048), gated(77, 8, 416, 320)),
    "lmd_fp8_transp": both(compact(1024, 32), compact(37, 32)),
    "lmd_moe_fp8_compact": both(compact(1024, 64), compact(37, 64)),
    "lmd_moe_w8a8": both(integers(64, 128), integers(37, 128)),
    "lmd_w4a16_m64": both(each_route(8, 128), each_route(1, 128)),
    "lmd_w4a16_route": both(each_route(8, 64), each_route(1, 64)),
    "lmd_w8a8_m16": both(integers(16, 64), integers(11, 64)),
    "td_gg_persist": both(tiles(8192, 64, SMS), tiles(517, 64, SMS)),
    "td_group_gemm": both(tiles(8192, 128), tiles(517, 128)),
    "td_group_gemm_t": both(weights_gradient(8192), weights_gradient(517)),
    "uns_dW_f16": both(grouped_gradient(1024), grouped_gradient(37)),
    "uns_dX_w8": both(inputs_gradient(1024), inputs_gradient(37)),
    "uns_fwd_post": both(forward(1024, "bf16", permuted=False), forward(37, "bf16", permuted=False)),
    "uns_fwd_small": both(forward(1024, "f16"), forward(37, "f16")),
    "vllm_moe_fp8_channel": both(quantized(2048, "f8", (64, 128)), quantized(77, "f8", (64, 128), **SMALL)),
    "vllm_moe_fp8_tensor": both(quantized(2048, "f8", (32, 256)), quantized(77, "f8", (32, 256), **SMALL)),
    "vllm_moe_m16_routed": both(
        quantized(2048, "bf16", (16, 32), top=1), quantized(77, "bf16", (16, 32), top=1, **SMALL)
    ),
    "x_uns_dX_py": both(inputs_gradient(1024), inputs_gradient(37)),
    "x_uns_fwd_f32": both(forward(1024, "f32", "f16"), forward(37, "f32", "f16")),
    "x_uns_fwd_tma": both(forward(1024, "f16", permuted=False), forward(37, "f16", permuted=False)),
    "x_vllm_moe_int8": both(quantized(2048, "int8", (32, 64)), quantized(77, "int8", (32, 64), **SMALL)),
    "xma_group_xty": both(transposed(4096, (128, 128), "bf16"), transposed(333, (128, 128), "bf16", 3)),
    "xma_scatter": both(
        scattered(2048, (128, 128), 16, 4096),
        scattered(77, (128, 128), 64, 4096, step=4096, experts=64),
    ),
    "xma_scatter_odd": both(
        scattered(1024, (64, 64), 8, 4000, grouped=True), scattered(77, (64, 64), 8, 4000, grouped=True)
    ),
    "xma_xty_f32": both(transposed(2048, (64, 64), "f32"), transposed(333, (64, 64), "f32", 3)),
}
"""Launches by the kernel's name."""
