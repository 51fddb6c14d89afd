# pyright: basic, reportMissingImports=false
"""Launches of matrix products: plain, batched, divided over k, of quantized matrices and of experts' tokens.

Strides that are 1 are constants of every kernel, so where a matrix may be either way round both of its
strides are given, and a launch takes the one that is an argument.
"""

import random
from collections.abc import Sequence
from math import ceil
from typing import Any

from benchmarks.launches.arrays import (
    Array,
    Case,
    bits,
    by,
    case,
    described,
    exponents,
    given,
    nibbles,
    pointing,
    positive,
    ragged,
    up,
)

SMS = 132
"""Thread blocks of persistent kernels, as these were compiled."""
SQUARE = (8192, 8192, 4096)
RAGGED = (1008, 1040, 1104)


def product(
    shape: Sequence[int],
    tile: Sequence[int],
    type: str = "f16",
    out: str = "f16",
    names: str = "{}_ptr",
    persistent: bool = False,
    **more: Array,
) -> Case:
    """C = A B; `tile`: its rows and columns."""
    m, n, k = shape
    a, b, c = (names.format(one) for one in "abc")
    tiles = ceil(m / tile[0]) * ceil(n / tile[1])
    numbers = {"M": m, "N": n, "K": k, "stride_am": k, "stride_bk": n, "stride_bn": k, "stride_cm": n}
    arrays: dict[str, Array] = {a: (type, m * k, 0.5), b: (type, k * n, 0.5), c: (out, m * n, "zeros")}
    return case(by(*shape), (min(tiles, SMS) if persistent else tiles,), numbers, **arrays, **more)


def products(*args: Any, **named: Any) -> tuple[Case, ...]:
    return product(SQUARE, *args, **named), ragged(product(RAGGED, *args, **named))


def descriptors(shape: Sequence[int], stored: int, persistent: bool = False) -> Case:
    """C = A B^T by descriptors that the host makes; `stored`: columns of a block of C."""
    m, n, k = shape
    one = product(shape, (128, 256), names="{}", persistent=persistent)
    return described(
        one,
        a_desc=("a", (m, k), (128, 64)),
        b_desc=("b", (n, k), (256, 64)),
        c_desc=("c", (m, n), (128, stored)),
    )


def microscaled(m: int, n: int, k: int) -> Case:
    """C = A B^T of 4-bit floats, two to a byte, by descriptors that the host makes: of 32 each along k with a
    scale, in blocks of 128 rows x 4 (512 bytes)."""
    arrays: dict[str, Array] = {"c": ("f16", m * n, "zeros")}
    for name, rows in (("a", m), ("b", n)):
        arrays |= {
            name: ("uint8", rows * k // 2, nibbles),
            f"{name}_scale": ("uint8", rows * k // 32, exponents),
        }
    grid = (ceil(m / 128) * ceil(n / 256),)
    one = case(by(m, n, k), grid, {}, **arrays)
    return described(
        one,
        a_desc=("a", (m, k // 2), (128, 128)),
        b_desc=("b", (n, k // 2), (256, 128)),
        a_scale_desc=("a_scale", (1, m // 128, k // 128, 2, 256), (1, 1, 2, 2, 256)),
        b_scale_desc=("b_scale", (1, n // 128, k // 128, 2, 256), (1, 2, 2, 2, 256)),
        c_desc=("c", (m, n), (128, 256)),
    )


def grouped(shapes: Sequence[Sequence[int]], transposed: bool = False) -> Case:
    """Products of several shapes in one launch, through arrays of addresses."""
    arrays, leading = dict[str, Array](), list[int]()
    for i, (m, n, k) in enumerate(shapes):
        arrays |= {
            f"a{i}": ("f16", m * k, 0.5),
            f"b{i}": ("f16", k * n, 0.5),
            f"c{i}": ("f16", m * n, "zeros"),
        }
        leading += [k, k if transposed else n, n]
    one = case(
        f"{len(shapes)} products",
        (SMS,),
        {"group_size": len(shapes)},
        **arrays,
        group_gemm_sizes=("i32", len(leading), given([size for shape in shapes for size in shape])),
        g_lds=("i32", len(leading), given(leading)),
    )
    return pointing(one, **{f"group_{m}_ptrs": [f"{m}{i}" for i in range(len(shapes))] for m in "abc"})


def contiguous(m: int, empty: int, experts: int = 8, n: int = 4096, k: int = 7168) -> Case:
    """Rows sorted by expert, in whole blocks of 128; the last `empty` belong to none."""
    blocks = (m - empty) // 128
    expert = [i * experts // blocks for i in range(blocks) for _ in range(128)]
    return case(
        f"{m} rows",
        (m // 128 * n // 128,),
        {"M": m},
        a_ptr=("bf16", m * k, 0.5),
        b_ptr=("bf16", experts * n * k, 0.5),
        d_ptr=("bf16", m * n, 1.0),
        m_indices_ptr=("i32", m, given([*expert, *([-1] * empty)])),
    )


def scaled(shape: Sequence[int]) -> Case:
    """8-bit floats with a scale for each row and each column."""
    scales: dict[str, Array] = {f"scale_{one}_ptr": ("f32", shape[i], positive) for i, one in enumerate("ab")}
    one = product(shape, (128, 128), "f8", "bf16")
    one["arrays"] |= scales
    return one


def block_scaled(shape: Sequence[int]) -> Case:
    """8-bit floats with a scale for each block of 128 columns (of B 128 by 128), in rows that are aligned."""
    m, n, k = shape
    row = up(ceil(k / 128), 16)
    arrays: dict[str, Array] = {
        "A": ("f8", m * k, 0.5),
        "B": ("f8", k * n, 0.5),
        "C": ("bf16", m * n, "zeros"),
        "As": ("f32", m * row, positive),
        "Bs": ("f32", ceil(n / 128) * row, positive),
    }
    strides = {"stride_am": k, "stride_bn": k, "stride_cm": n, "stride_As_m": row, "stride_Bs_n": row}
    tiles = ceil(m / 128) * ceil(n / 128)
    return case(by(*shape), (tiles,), {"M": m, "N": n, "K": k, **strides}, **arrays)


def deepseek(m: int, n: int = 4096, k: int = 7168) -> Case:
    blocks = k // 128
    return case(
        str(m),
        (ceil(m / 64), n // 128),
        {"M": m},
        a_ptr=("f8", m * k, 0.5),
        b_ptr=("f8", k * n, 0.5),
        c_ptr=("bf16", m * n, "zeros"),
        a_s_ptr=("f32", m * blocks, positive),
        b_s_ptr=("f32", n // 128 * blocks, positive),
    )


def batched(batch: int, m: int, n: int, k: int) -> Case:
    numbers = {"B": batch, "M": m, "N": n, "K": k, "stride_am": k, "stride_bk": n, "stride_cm": n}
    return case(
        by(batch, m, n, k),
        (batch, ceil(m / 128) * ceil(n / 128)),
        numbers | {"stride_ab": m * k, "stride_bb": k * n, "stride_cb": m * n},
        a_ptr=("bf16", batch * m * k, 0.5),
        b_ptr=("bf16", batch * k * n, 0.5),
        c_ptr=("bf16", batch * m * n, "zeros"),
    )


def fla_matmul(m: int, n: int, k: int) -> Case:
    one = product((m, n, k), (128, 128), "bf16", "bf16", "{}")
    one["numbers"] |= {"stride_ab": m * k, "stride_cb": m * n}
    return {**one, "grid": (1, ceil(m / 128), ceil(n / 128))}


def split(m: int, n: int, k: int, parts: int = 4) -> Case:
    """The sum over k is divided among programs, which add to C."""
    one = product((m, n, k), (64, 128), out="f32")
    one["numbers"]["K_PER_SPLIT"] = k // parts
    return {**one, "grid": (*one["grid"], parts)}


def inductor(label: str, grid: Sequence[int], inputs: str, size: int) -> Case:
    """Sizes are constants; `size` elements of every matrix."""
    arrays: dict[str, Array] = {f"arg_{one}": ("bf16", size, 0.5) for one in inputs}
    return case(label, grid, {}, **arrays, out_ptr=("bf16", size, "zeros"))


def packed(grid: Sequence[int], m: int, n: int, k: int, group: int = 128) -> Case:
    """Weights of 4 bits, eight in a number, with a scale for each group of rows; zeros where a kernel has
    them."""
    return case(
        by(m, n, k),
        grid,
        {"M": m, "N": n, "K": k, "stride_am": k, "stride_bk": n // 8, "stride_cm": n},
        a_ptr=("f16", m * k, 0.1),
        b_ptr=("i32", k * n // 8, bits),
        zeros_ptr=("i32", k // group * n // 8, bits),
        scales_ptr=("f16", k // group * n, 0.01),
        c_ptr=("f16", m * n, "zeros"),
    )


def unpacked(
    m: int, tile: Sequence[int], parts: int = 0, n: int = 4096, k: int = 4096, group: int = 128
) -> Case:
    """Weights of 4 bits, eight rows in a number, with a scale and a zero for each group of rows (gemlite);
    `n` and `k` are constants, `tile`: rows and columns. With `parts` the sum over k is divided, and added to
    C."""
    tiles = ceil(m / tile[0]) * n // tile[1]
    strides = {"stride_am": k, "stride_bk": n, "stride_cm": n, "stride_meta_g": n}
    return case(
        str(m),
        (tiles, parts) if parts else (tiles,),
        {"M": m, "M_CLOSEST": m, "load_scales_as_block": 0, **strides},
        a_ptr=("f16", m * k, 0.1),
        b_ptr=("i32", k // 8 * n, bits),
        scales_ptr=("f16", k // group * n, 0.01),
        zeros_ptr=("f16", k // group * n, 0.01),
        c_ptr=("f16", m * n, "zeros"),
    )


def divided(m: int, tile: Sequence[int], parts: int = 8, n: int = 4096, k: int = 4096) -> Case:
    """`packed` with a result for each part of the sum over k; `tile`: rows and columns."""
    one = packed((ceil(m / tile[0]) * n // tile[1], parts), m, n, k)
    return {**one, "arrays": {**one["arrays"], "c_ptr": ("f16", parts * m * n, "zeros")}}


# --- tokens of experts and adapters -----------------------------------------------------------------------


def routed(tokens: int, experts: int, top: int, block: int) -> tuple[list[int], list[int]]:
    """For each place the token's number, by experts that are padded to whole blocks, and the expert of each
    block. A number past the end is padding."""
    draw = random.Random(0)
    of: list[list[int]] = [[] for _ in range(experts)]
    for token in range(tokens):
        for turn, expert in enumerate(draw.sample(range(experts), top)):
            of[expert].append(token * top + turn)
    padded = [one + [tokens * top] * (-len(one) % block) for one in of]
    places = [place for one in padded for place in one]
    return places, [expert for expert, one in enumerate(padded) for _ in range(len(one) // block)]


def experts(tokens: int, type: str, count: int = 64, n: int = 2048, k: int = 2048, top: int = 8) -> Case:
    """A mixture of experts' product; with 8-bit floats a scale for each block of 128 by 128."""
    places, of_block = routed(tokens, count, top, 128)
    pairs, blocks = tokens * top, k // 128
    strides = {"stride_am": k, "stride_be": n * k, "stride_bn": k, "stride_cm": n}
    scales = {"stride_asm": blocks * 16, "stride_ask": 16, "stride_bbe": n, "stride_bbn": 16}
    scales |= {"stride_bse": n // 128 * blocks * 16, "stride_bsn": blocks * 16, "stride_bsk": 16}
    return case(
        f"{tokens} tokens",
        (len(of_block) * ceil(n / 128),),
        {"N": n, "K": k, "EM": len(places), "num_valid_tokens": pairs, **strides, **scales},
        a_ptr=(type, tokens * k, 0.5),
        b_ptr=(type, count * n * k, 0.5),
        c_ptr=("bf16", pairs * n, "zeros"),
        b_bias_ptr=("bf16", 16, "zeros"),
        a_scale_ptr=("f32", tokens * blocks * 16, positive),
        b_scale_ptr=("f32", count * n // 128 * blocks * 16, positive),
        topk_weights_ptr=("f32", pairs, positive),
        sorted_token_ids_ptr=("i32", len(places), given(places)),
        expert_ids_ptr=("i32", len(of_block), given(of_block)),
        num_tokens_post_padded_ptr=("i32", 1, given([len(places)])),
    )


def adapters(tokens: int, count: int = 4, rank: int = 16, k: int = 4096, parts: int = 8) -> Case:
    """The product with the first matrix of each token's adapter (LoRA), divided over k."""
    draw = random.Random(0)
    of = [draw.randrange(count) for _ in range(tokens)]
    each = [of.count(one) for one in range(count)]
    strides = {"input_d0_stride": k, "lora_d0_stride": rank * k, "lora_d1_stride": k}
    strides |= {"output_d0_stride": tokens * rank, "output_d1_stride": rank, "output_split_stride": 0}
    return case(
        f"{tokens} tokens",
        (parts * ceil(tokens / 64), 1, count),
        {"M": tokens, "N": rank, "K": k, "scaling": 0.5, **strides},
        input_ptr=("bf16", tokens * k, 0.5),
        lora_ptr=("bf16", count * rank * k, 0.5),
        out_ptr=("f32", tokens * rank, "zeros"),
        token_indices_sorted_by_lora_ids=("i32", tokens, given(sorted(range(tokens), key=of.__getitem__))),
        num_tokens_per_lora=("i32", count, given(each)),
        lora_token_start_loc=("i32", count, given([sum(each[:one]) for one in range(count)])),
        lora_ids=("i32", count, given(range(count))),
    )
