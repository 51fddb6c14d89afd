# pyright: basic, reportMissingImports=false
"""Launches of products of quantized matrices: packed integers, and 8-bit integers and floats with scales."""

import random
from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any

from benchmarks.launches.arrays import Array, Case, bits, by, case, given, positive, ragged, up
from benchmarks.launches.others.dense import both, having, retyped
from benchmarks.launches.products import RAGGED, block_scaled, deepseek, divided, packed, product, unpacked

GROUP = 128
"""Rows of weights that share scales, where a kernel does not say otherwise."""


def exponents(size: int) -> Any:
    """Powers of two as 8-bit exponents: 127 is 1."""
    import torch

    return torch.randint(124, 128, (size,))


# --- packed integers --------------------------------------------------------------------------------------


def gemlite(
    shape: Sequence[int],
    tile: Sequence[int],
    number_bits: int,
    group: int,
    types: Sequence[str] = ("f16", "f16"),
    parts: int = 1,
) -> Case:
    """Weights stored by columns, several rows in a number; `types` of activations and of scales. Columns and
    rows of weights are in whole tiles. With `parts` the sum over k is divided, and added to C."""
    m, n, k = shape
    each = 32 // number_bits if number_bits < 8 else 1
    tiles = ceil(m / tile[0]) * ceil(n / tile[1])
    weights: Array = ("i32", k // each * n, bits) if each > 1 else ("int8", k * n, 40.0)
    strides = {"stride_am": k, "stride_bn": k // each, "stride_cm": n, "stride_meta_g": n}
    return case(
        by(m, n, k),
        (tiles, parts) if parts > 1 else (tiles,),
        {"M": m, "N": n, "K": k, "M_CLOSEST": m, "stride_meta_a_m": 1, "stride_meta_a_g": 1, **strides},
        a_ptr=(types[0], m * k, 0.1),
        b_ptr=weights,
        c_ptr=(types[0], m * n, "zeros"),
        scales_ptr=(types[1], k // group * n, 0.01),
        zeros_ptr=(types[1], k // group * n, positive),
    )


def five_bits(shape: Sequence[int], tile: Sequence[int]) -> Case:
    """Four bits of each weight in one matrix, the fifth in another."""
    m, n, k = shape
    strides = {"stride_am": k, "stride_bn_1": k // 8, "stride_bn_2": k // 32, "stride_cm": n}
    return case(
        by(m, n, k),
        (ceil(m / tile[0]) * ceil(n / tile[1]),),
        {"M": m, "N": n, "K": k, "stride_meta": n, **strides},
        a_ptr=("f16", m * k, 0.1),
        b_1_ptr=("i32", k // 8 * n, bits),
        b_2_ptr=("i32", k // 32 * n, bits),
        c_ptr=("f16", m * n, "zeros"),
        scales_ptr=("f16", k // GROUP * n, 0.01),
        zeros_ptr=("f16", k // GROUP * n, positive),
    )


def rows_packed(shape: Sequence[int], tile: Sequence[int], number_bits: int = 4) -> Case:
    """Several rows of weights in a number, several zeros of a group in another."""
    m, n, k = shape
    each, groups = 32 // number_bits, k // GROUP
    return case(
        by(m, n, k),
        (ceil(m / tile[0]) * ceil(n / tile[1]),),
        {"M": m, "N": n, "K": k, "stride_am": k, "stride_bk": n, "stride_cm": n},
        a_ptr=("f16", m * k, 0.1),
        b_ptr=("i32", k // each * n, bits),
        c_ptr=("f16", m * n, "zeros"),
        scales_ptr=("f16", groups * n, 0.01 if number_bits == 4 else 0.001),
        zeros_ptr=("i32", groups * (n // each), bits),
    )


def dequantized(shape: Sequence[int], tile: Sequence[int]) -> Case:
    n = shape[1]
    return having(rows_packed(shape, tile), stride_scales_g=n, stride_zeros_g=n // 8, groupsize=GROUP)


def gptq(shape: Sequence[int], tile: Sequence[int], number_bits: int = 4) -> Case:
    """Rows belong to groups in any order."""
    _, n, k = shape
    order = [row // GROUP for row in range(k)]
    random.Random(0).shuffle(order)
    one = rows_packed(shape, tile, number_bits)
    one["arrays"]["g_ptr"] = ("i32", k, given(order))
    return having(one, stride_scales=n, stride_zeros=n * number_bits // 32)


def columns_packed(shape: Sequence[int], tile: Sequence[int]) -> Case:
    """Eight columns of weights in a number."""
    m, n, k = shape
    return retyped(packed((ceil(m / tile[0]), ceil(n / tile[1])), m, n, k), "f16", "bf16")


def by_output(shape: Sequence[int]) -> Case:
    """Weights, scales and zeros by output: eight weights of an output in a number, eight outputs' zeros."""
    m, n, k = shape
    groups = k // GROUP
    numbers = {"K8": k // 8, "num_groups": groups, "group_size": GROUP}
    return case(
        by(m, n, k),
        (ceil(m / 32), ceil(n / 64)),
        {"M": m, "N": n, "K": k, "stride_sn": groups, "stride_bn": k // 8, "stride_am": k, **numbers},
        a_ptr=("f16", m * k, 0.1),
        b_ptr=("i32", n * (k // 8), bits),
        scales_ptr=("f16", n * groups, 0.01),
        zp_ptr=("i32", n // 8 * groups, bits),
        c_ptr=("f16", m * n, "zeros"),
    )


# --- 8-bit integers and floats ----------------------------------------------------------------------------


def integers(shape: Sequence[int], tile: Sequence[int], parts: int = 1) -> Case:
    """8-bit integers with a scale for each row of A and each column of B."""
    m, n, k = shape
    one = product(shape, tile)
    one["arrays"] |= {
        "a_ptr": ("int8", m * k, 20.0),
        "as_ptr": ("f32", m, 0.02),
        "b_ptr": ("int8", k * n, 20.0),
        "bs_ptr": ("f32", n, 0.02),
    }
    return having(one, (*one["grid"], parts))


def split_floats(shape: Sequence[int], tile: Sequence[int], parts: int) -> Case:
    """8-bit floats; the sum over k is divided among programs, which add to C. Rows of A and columns of B are
    read to the end of a tile."""
    m, n, k = shape
    return case(
        by(m, n, k),
        (ceil(m / tile[0]) * ceil(n / tile[1]), parts),
        {"m": m, "n": n, "k": k, "stride_am": k, "stride_bn": k, "stride_cm": n},
        a_ptr=("f8", up(m, tile[0]) * k, 0.5),
        b_ptr=("f8", up(n, tile[1]) * k, 0.5),
        c_ptr=("f16", m * n, "zeros"),
    )


def one_scale(shape: Sequence[int]) -> Case:
    """One scale for each matrix, and a bias for each column."""
    bias: Array = ("bf16", shape[1], 0.5)
    scale: Array = ("f32", 1, positive)
    return product(shape, (64, 128), "f8", bias_ptr=bias, scale_a_ptr=scale, scale_b_ptr=scale)


def blocks_scaled(shape: Sequence[int], tile: Sequence[int]) -> Case:
    one = block_scaled(shape)
    return having(one, (ceil(shape[0] / tile[0]) * ceil(shape[1] / tile[1]),))


def deepseek_tiles(m: int, tile: Sequence[int]) -> Case:
    return having(deepseek(m), (ceil(m / tile[0]), 4096 // tile[1]))


def quantizing(batch: int, m: int, n: int, k: int) -> Case:
    """Activations are quantized in blocks of 128 as they are read; sizes in whole tiles."""
    numbers = {"stride_in_ab": m * k, "stride_in_bb": n * k, "stride_in_cb": m * n, "stride_in_biasb": n}
    return case(
        by(batch, m, n, k),
        (batch, (m // 64) * (n // 64)),
        {"M": m, "N": n, "K": k, "stride_in_am": k, "stride_in_bn": k, "stride_in_cm": n, **numbers},
        a_ptr=("bf16", batch * m * k, 0.5),
        b_ptr=("f8", batch * n * k, 0.5),
        c_ptr=("bf16", batch * m * n, "zeros"),
        b_scale_ptr=("f32", 1, positive),
        bias_ptr=("bf16", batch * n, 0.5),
    )


K_OF_PART = 4096
"""Of the kernels whose loop has a constant length."""


def blockwise(m: int, n: int) -> Mapping[str, Array]:
    """8-bit floats with a scale for each block of 128 columns (of B 128 by 128)."""
    k, blocks = K_OF_PART, K_OF_PART // 128
    return {
        "a_ptr": ("f8", m * k, 0.5),
        "b_ptr": ("f8", n * k, 0.5),
        "a_scale_ptr": ("f32", m * blocks, positive),
        "b_scale_ptr": ("f32", ceil(n / 128) * blocks, positive),
    }


def multiplied(m: int, n: int) -> Case:
    """C = A B times one matrix, plus another."""
    k, blocks = K_OF_PART, K_OF_PART // 128
    strides = {"stride_am": k, "stride_bn": k, "stride_ck": m * n, "stride_cm": n, "stride_cam": n}
    strides |= {"stride_cbm": n, "stride_ascale_m": blocks, "stride_bscale_n": blocks}
    return case(
        by(m, n, k),
        (ceil(m / 64) * ceil(n / 128),),
        {"M": m, "N": n, "K": k, **strides},
        **blockwise(m, n),
        c_ptr=("bf16", m * n, "zeros"),
        c_a_ptr=("bf16", m * n, 0.5),
        c_b_ptr=("bf16", m * n, 0.5),
    )


def split_and_joined(m: int, heads: int = 16, first: int = 128, second: int = 128, more: int = 64) -> Case:
    """Each head's columns go to two arrays, the first part with `more` columns of another array behind."""
    n, k, blocks = heads * (first + second), K_OF_PART, K_OF_PART // 128
    joined = first + more
    strides = {"stride_a_m": k, "stride_b_n": k, "stride_y_m": heads * more, "stride_y_d": more}
    strides |= {"stride_c1_m": heads * joined, "stride_c1_k": joined}
    strides |= {"stride_c2_m": heads * second, "stride_c2_d": second}
    strides |= {"stride_ascale_m": blocks, "stride_bscale_n": blocks}
    return case(
        by(m, n, k),
        (ceil(m / 64) * ceil(n / 128),),
        {"M": m, "N": n, "K": k, "D": heads, "S1": first, "S2": second, "S3": more, **strides},
        **blockwise(m, n),
        y_ptr=("bf16", m * heads * more, 0.5),
        c1_ptr=("bf16", m * heads * joined, "zeros"),
        c2_ptr=("bf16", m * heads * second, "zeros"),
    )


def microscaled(tokens: int, groups: int = 8, rows: int = 1024, k: int = 4096) -> Case:
    """A product for each group of columns; an exponent for each 32 elements."""
    row = groups * k
    strides = {"stride_at": row, "stride_ast": row // 32, "stride_wn": k, "stride_wsn": k // 32}
    return case(
        f"{tokens} tokens",
        (groups * rows // 64, ceil(tokens / 64)),
        {"num_tokens": tokens, "stride_out": groups * rows, **strides},
        a_ptr=("f8", tokens * row, 0.5),
        as_ptr=("int8", tokens * row // 32, exponents),
        w_ptr=("f8", groups * rows * k, 0.5),
        ws_ptr=("int8", groups * rows * k // 32, exponents),
        out_ptr=("bf16", tokens * groups * rows, "zeros"),
    )


WEIGHTS = (2048, 4096, 4096)
FEW = (16, 8192, 8192)
"""Rows of a batch that is decoded."""

CASES: Mapping[str, Sequence[Case]] = {
    "gemlite_int4": (unpacked(2048, (64, 128)), ragged(unpacked(112, (64, 128)))),
    "gemlite_splitK_n64": (unpacked(16, (16, 64), 4), ragged(unpacked(7, (16, 64), 4))),
    "vllm_awq_default": (divided(16, (32, 32)), ragged(divided(7, (32, 32)))),
    "vllm_awq_m16_splitk": (divided(16, (16, 64)), ragged(divided(7, (16, 64)))),
    "aa_splitk_fp8": both(split_floats(WEIGHTS, (64, 64), 4), split_floats((112, 208, 1040), (64, 64), 4)),
    "aa_splitk_m16": both(split_floats(FEW, (16, 32), 8), split_floats((48, 208, 4112), (16, 32), 8)),
    "aiter_blockscale_mul_add": both(multiplied(4096, 4096), multiplied(208, 400)),
    "aiter_prequant_bmm": both(quantizing(8, 2048, 2048, 1024), quantizing(3, 192, 128, 384)),
    "aiter_split_cat": both(split_and_joined(4096), split_and_joined(208)),
    "ds_fp8_m16": both(deepseek_tiles(1024, (16, 64)), deepseek_tiles(112, (16, 64))),
    "ds_fp8_m32n32": both(deepseek_tiles(1024, (32, 32)), deepseek_tiles(112, (32, 32))),
    "gemlite_a16w5": both(five_bits(WEIGHTS, (64, 64)), five_bits((112, 192, 1024), (64, 64))),
    "gemlite_a16w5_m16": both(five_bits((64, 8192, 8192), (16, 128)), five_bits((48, 384, 1024), (16, 128))),
    "gemlite_int1_mode1": both(
        gemlite((32, 16384, 16384), (16, 64), 1, 64, parts=2),
        gemlite((48, 192, 1024), (16, 64), 1, 64, parts=2),
    ),
    "gemlite_int2": both(gemlite(WEIGHTS, (32, 64), 2, 64), gemlite((112, 192, 768), (32, 64), 2, 64)),
    "gemlite_int8_mode4": both(
        gemlite(WEIGHTS, (64, 128), 8, 128, ("bf16", "f16")),
        gemlite((112, 384, 640), (64, 128), 8, 128, ("bf16", "f16")),
    ),
    "gemlite_splitk_n256": both(
        gemlite((64, 8192, 8192), (16, 256), 4, 64, parts=4),
        gemlite((48, 768, 1280), (16, 256), 4, 64, parts=4),
    ),
    "tb_dequant4": both(dequantized(WEIGHTS, (64, 128)), dequantized((112, 384, 640), (64, 128))),
    "tb_dequant4_m16": both(dequantized((64, 8192, 8192), (16, 64)), dequantized((48, 384, 640), (16, 64))),
    "tb_w8a8": both(integers((4096, 4096, 4096), (64, 128)), integers(RAGGED, (64, 128))),
    "tb_w8a8_m16": both(integers(FEW, (16, 64), 4), integers((48, 208, 1040), (16, 64), 4)),
    "tgi_gptq": both(gptq(WEIGHTS, (64, 64)), gptq((112, 384, 640), (64, 64))),
    "tgi_gptq_8bit": both(gptq((512, 4096, 4096), (32, 128), 8), gptq((112, 384, 640), (32, 128), 8)),
    "vllm_awq_128": tuple(
        {**one, "tolerance": 2e-2}
        for one in both(divided(1024, (128, 64), 4), divided(112, (128, 64), 4, n=1152, k=1280))
    ),
    "vllm_mxfp8_woa": both(microscaled(1024), microscaled(112)),
    "vllm_scaled_scalar": both(one_scale((4096, 4096, 4096)), one_scale(RAGGED)),
    "vllm_w4a16_skinny": both(by_output((512, 4096, 4096)), by_output((48, 208, 2048))),
    "vllm_w4a16_zp_256": both(
        columns_packed((512, 4096, 4096), (32, 256)), columns_packed((48, 640, 384), (32, 256))
    ),
    "vllm_w8a8_block_256": both(
        blocks_scaled((4096, 4096, 4096), (256, 64)), blocks_scaled(RAGGED, (256, 64))
    ),
    "x_gemlite_int4_bf16": both(
        gemlite(WEIGHTS, (64, 32), 4, 32, ("bf16", "bf16")),
        gemlite((112, 96, 640), (64, 32), 4, 32, ("bf16", "bf16")),
    ),
    "x_gemlite_int8_chan": both(
        gemlite(WEIGHTS, (128, 64), 8, 128), gemlite((112, 192, 640), (128, 64), 8, 128)
    ),
}
"""Launches by the kernel's name."""
