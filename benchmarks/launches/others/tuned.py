# pyright: basic, reportMissingImports=false
"""Launches of kernels in tiles, and with options, that their projects' tuning or checks choose."""

from collections.abc import Callable, Mapping, Sequence
from math import ceil
from typing import Any

from benchmarks.launches.arrays import Array, Case, by, case, nibbles, positive
from benchmarks.launches.others.changed import around, holding, numbered, on
from benchmarks.launches.others.chunks import Shape
from benchmarks.launches.others.dense import having
from benchmarks.launches.others.linear import both as lengths
from benchmarks.launches.others.linear import products as products_of_keys
from benchmarks.launches.others.other_tiles import CUBE, scans, tiles_of
from benchmarks.launches.others.quantized import dequantized
from benchmarks.launches.others.retiled import experts_by
from benchmarks.launches.others.symmetric import polynomial
from benchmarks.launches.others.wider import both
from benchmarks.launches.products import RAGGED, SQUARE, batched, block_scaled, packed, product

# --- products that are compared bit by bit ------------------------------------------------------------------


def gridded(shape: Sequence[int], side: int = 128, type: str = "f16", **more: Array) -> Case:
    """A thread block for each tile, by its row and its column; sizes are whole tiles."""
    m, n, _ = shape
    made = product(shape, (side, side), type, type, "{}_ptr", False, **more)
    return on(made, m // side, n // side)


def activated(m: int, n: int, k: int) -> Case:
    return numbered(gridded((m, n, k), bias_ptr=("f16", n, 5.0)), alpha=0.5)


def gradient(m: int, n: int, k: int) -> Case:
    """Of inputs: DX = DY B^T."""
    return case(
        by(m, n, k),
        (ceil(m / 128), ceil(k / 128)),
        {"M": m, "N": n, "K": k, "sdym": n, "sbk": n, "sdxm": k},
        dy_ptr=("f16", m * n, 0.5),
        b_ptr=("f16", k * n, 0.5),
        dx_ptr=("f16", m * k, "zeros"),
    )


def groups(count: int, k: int) -> Case:
    """Matrices of 8 by 8 tiles, of which the number is a constant."""
    m, n = 8 * 64, 8 * 128
    sizes = {"a": m * k, "b": k * n, "c": m * n}
    one = product((m, n, k), (64, 128))
    arrays: dict[str, Array] = {
        f"{name}_ptr": ("f16", count * size, 0.5 if name != "c" else "zeros") for name, size in sizes.items()
    }
    strides = {f"stride_{name}g": size for name, size in sizes.items()}
    return holding(having(one, (count * 64,), **strides), **arrays)


def divided(m: int, n: int, k: int, parts: int = 4) -> Case:
    """Parts of the sum over k are added to C."""
    shape = m, n, k
    one = product(shape, (128, 128), out="f32")
    return having(one, (tiles_of(shape, 128, 128), parts), sam=k, sbk=n, scm=n)


def halves_of_bytes(m: int, n: int, k: int) -> Case:
    """Weights of 4 bits, two rows in a byte, with a scale for each column."""
    return case(
        by(m, n, k),
        (ceil(m / 128), ceil(n / 128)),
        {"M": m, "N": n, "K": k},
        a_ptr=("f16", m * k, 0.1),
        bpacked_ptr=("int8", k // 2 * n, nibbles),
        scale_ptr=("f32", n, positive),
        c_ptr=("f16", m * n, "zeros"),
    )


def attention(batch: int, tokens: int, heads: int, few: int) -> Case:
    """Several heads share their keys and values; nothing is masked."""
    rows = batch * tokens * 128
    return case(
        by(batch, heads, tokens),
        (ceil(tokens / 128), batch * heads),
        {"scale": 128**-0.5, "S": tokens, "Hq": heads, "Hkv": few},
        q_ptr=("f16", rows * heads, 1.0),
        k_ptr=("f16", rows * few, 1.0),
        v_ptr=("f16", rows * few, 1.0),
        o_ptr=("f16", rows * heads, "zeros"),
    )


# --- other products -----------------------------------------------------------------------------------------


def batches(*shape: int) -> Case:
    """Tiles of 128 by 64."""
    return on(batched(*shape), shape[0], tiles_of(shape[1:], 128, 64))


def words(m: int, n: int, k: int) -> Case:
    """Tiles of 32 by 32."""
    return packed((tiles_of((m, n), 32, 32), 1), m, n, k)


def groups_of_rows(m: int, n: int, k: int) -> Case:
    """Sizes have other names."""
    return numbered(dequantized((m, n, k), (16, 64)), m=m, n=n, k=k)


def mirrored(batch: int, side: int) -> Case:
    """Of symmetric matrices, as both halves of the results on the diagonal are stored from either."""

    def begin(size: int) -> Any:
        import torch

        made = torch.randn(size).view(-1, side, side)
        return (0.25 * (made + made.mT)).flatten()

    return holding(polynomial(batch, side), A_ptr=("bf16", batch * side**2, begin))


def streams(tokens: int, count: int = 4, width: int = 4096, part: int = 64) -> Case:
    """A layer's output is mixed into the streams; what the next layer needs of them, in parts. Sizes but
    for the tokens are constants."""
    row, columns = count * width, 2 * count + count**2
    parts = width // part
    strides = {"stride_x_m": width, "stride_post_m": count, "stride_comb_m": count**2}
    strides |= {"stride_comb_src": count, "stride_acc_m": columns, "stride_acc_k": tokens * columns}
    strides |= {"stride_acc_sq_k": tokens}
    for name in ("resin", "resout"):
        strides |= {f"stride_{name}_m": row, f"stride_{name}_n": width}
    return case(
        f"{tokens} tokens",
        (ceil(tokens / 16), parts),
        {"M": tokens, **strides},
        layer_input_ptr=("bf16", tokens * width, 0.5),
        residual_in_ptr=("bf16", tokens * row, 0.5),
        post_mix_ptr=("f32", tokens * count, positive),
        comb_mix_ptr=("f32", tokens * count**2, around(0.25)),
        residual_out_ptr=("bf16", tokens * row, "zeros"),
        phi_ptr=("bf16", row * columns, 0.1),
        acc_ptr=("f32", parts * tokens * columns, "zeros"),
        acc_sq_ptr=("f32", parts * tokens, "zeros"),
    )


# --- linear attention ---------------------------------------------------------------------------------------


def states(s: Shape) -> Case:
    """Without decay; 64 keys and 64 values of a thread block."""
    vectors = {**s.keyed("k"), **s.valued("v"), **s.states("h", "zeros"), **s.ends("h0 ht")}
    return s.case((s.keys // 64, s.values // 64, s.pairs), vectors)


def outputs(s: Shape) -> Case:
    """Without decay."""
    values = {**s.valued("v"), **s.valued("o", "zeros"), **s.states("h")}
    return s.case((1, s.chunks, s.pairs), s.keyed("q k"), values)


def applied(s: Shape) -> Case:
    numbers = {**s.single("beta", positive, "bf16"), **s.falling("g"), **s.square("A")}
    vectors = {**s.keyed("k"), **s.keyed("w", "zeros"), **s.valued("v"), **s.valued("u", "zeros")}
    return s.case((s.chunks, s.pairs), vectors, numbers)


def causal(s: Shape) -> Case:
    """Attention; several heads share their keys and values."""
    vectors = {**s.keyed("q", 0.5), **s.shared("k v", 0.5), **s.valued("o", "zeros")}
    return s.case((1, s.chunks, s.pairs), vectors, s.single("lse", "zeros"))


def mesa(s: Shape) -> Case:
    """Gradients through the products of keys."""
    vectors = {**s.keyed("k q_star dq"), **s.keyed("dk", "zeros", "f32"), **s.keyed("dk_beta", 0.3, "f32")}
    numbers = {**s.single("beta", positive), **s.falling("g"), **s.single("dg dbeta", "zeros")}
    diagonal: dict[str, Array] = {"dlamb": ("f32", s.pairs * s.chunks * s.keys, "zeros")}
    return s.case((s.chunks, s.pairs), vectors, numbers, s.states("h dh"), diagonal)


MODES, SLOTS = 128, 64


def read_out(tokens: int, heads: int = 16, parts: int = 2) -> Case:
    """What is read is turned by an angle of the token, and stands for a mean of the table's rows; half of
    the modes, all that this kernel takes."""
    rows = tokens * heads
    return case(
        f"{tokens} tokens",
        (ceil(tokens / 32) * heads,),
        {"TOTAL": tokens},
        raw_partial=("f32", parts * rows * MODES, 0.5),
        lambda_trace=("bf16", rows, 10.0),
        readout_table=("bf16", heads * SLOTS * MODES, 0.3),
        slot_read_out=("bf16", rows * MODES, "zeros"),
    )


def table_gradient(tokens: int, heads: int = 16) -> Case:
    """In parts of the tokens."""
    rows, parts = tokens * heads, min(32, ceil(tokens / 128))
    left: dict[str, Array] = dict.fromkeys(("left_a", "left_b"), ("bf16", rows * SLOTS, 0.3))
    right: dict[str, Array] = dict.fromkeys(("right_a", "right_b"), ("bf16", rows * MODES, 0.3))
    return case(
        f"{tokens} tokens",
        (SLOTS // 64, MODES // 64, heads * parts),
        {"T": tokens},
        **left,
        **right,
        lambdas=("bf16", rows, 10.0),
        dtable=("f32", parts * heads * SLOTS * MODES, "zeros"),
    )


def sizes(made: Callable[..., Case], full: Sequence[int], odd: Sequence[int]) -> tuple[Case, Case]:
    return both(made(*full), made(*odd))


SMALL = (384, 256, 192)
"""Whole tiles."""
FEWER = (208, 400, 336)
"""Parts of tiles."""

CASES: Mapping[str, Sequence[Case]] = {
    "a_aiter_mhc_ppre": sizes(streams, (4096,), (78,)),
    "a_fla_mesa_kk": lengths(mesa, Shape(heads=8)),
    "u_aa_gptq_dp": sizes(groups_of_rows, (16, 11008, 4096), (48, 384, 640)),
    "u_awq_32": sizes(words, (256, 4096, 4096), (80, 400, 400)),
    "u_be_bias": sizes(activated, CUBE, SMALL),
    "u_be_dx": sizes(gradient, CUBE, FEWER),
    "u_be_gqa": sizes(attention, (2, 2048, 32, 8), (1, 1008, 6, 2)),
    "u_be_grouped": sizes(groups, (16, 4096), (3, 192)),
    "u_be_int4": sizes(halves_of_bytes, CUBE, (208, 400, 320)),
    "u_be_kgroup": both(gridded((2048, 2048, 1024), 64, "f32"), gridded(SMALL, 64, "f32")),
    "u_be_splitk": sizes(divided, (1024, 1024, 8192), FEWER),
    "u_be_tmast": both(gridded(CUBE), gridded(SMALL)),
    "u_bmm_bf16_w4": sizes(batches, (8, 2048, 2048, 1024), (3, 400, 304, 208)),
    "u_cyfa_read": sizes(read_out, (32768,), (1003,)),
    "u_cyfa_tgrad": sizes(table_gradient, (32768,), (1003,)),
    "u_dion_l2": sizes(mirrored, (8, 2048), (3, 336)),
    "u_fla_h_nog": lengths(states, Shape()),
    "u_fla_kkt_k128": lengths(products_of_keys, Shape()),
    "u_fla_o_nog": lengths(outputs, Shape()),
    "u_fla_pattn_d256": lengths(causal, Shape(tokens=2048, heads=32, keys=256, values=256, few=8)),
    "u_fla_wy_256": lengths(applied, Shape(keys=256, values=256)),
    "u_gems_w8a8": both(block_scaled(SQUARE), block_scaled(RAGGED)),
    "u_moe_16x32_w4": both(experts_by(256, "bf16", 16, 32), experts_by(77, "bf16", 16, 32)),
    "u_moe_fp8_128_w4": both(experts_by(256, "f8", 16, 128), experts_by(77, "f8", 16, 128)),
    "u_mscan_128x64_w8": scans(128, 64),
}
"""Launches by the kernel's name."""
