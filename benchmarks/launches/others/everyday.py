# pyright: basic, reportMissingImports=false
"""Launches of products that many programs call: of 8-bit and 16-bit matrices, and those of experts."""

from collections.abc import Mapping, Sequence
from itertools import accumulate
from math import ceil

from benchmarks.launches.arrays import Array, Case, by, case, given, positive
from benchmarks.launches.others.dense import both, having
from benchmarks.launches.products import product as plain

TILE = 128
SQUARE_TILE = (TILE, TILE)
RAGGED = (1008, 1040, 1152)


def product(
    shape: Sequence[int],
    tile: Sequence[int] = SQUARE_TILE,
    type: str = "f16",
    out: str = "f16",
    names: str = "{}",
) -> Case:
    """C = A B, with arrays by capital letters."""
    one = plain(shape, tile, type, out, "{}")
    return {**one, "arrays": {names.format(name.upper()): array for name, array in one["arrays"].items()}}


# --- 8-bit floats with scales of blocks ---------------------------------------------------------------------


def by_blocks(m: int, columns: bool, n: int = 4096, k: int = 4096) -> Case:
    """A scale for each row and 128 columns of A, of B for each column or for 128 of them (torchao). `n` and
    `k` are constants."""
    blocks = k // TILE
    return case(
        by(m, n, k),
        (ceil(m / TILE), n // TILE),
        {"M": m, "a_stride_dim_0": k, "b_stride_dim_1": k, "c_stride_dim_0": n}
        | {"a_s_stride_dim_1": m, "b_s_stride_dim_0": n, "b_s_stride_dim_1": blocks},
        a_ptr=("f8", m * k, 0.5),
        b_ptr=("f8", k * n, 0.5),
        c_ptr=("bf16" if columns else "f32", m * n, "zeros"),
        a_s_ptr=("f32", m * blocks, positive),
        b_s_ptr=("f32", blocks * (n if columns else n // TILE), positive),
    )


def by_groups(m: int, n: int = 4096, k: int = 7168, rows: int = TILE) -> Case:
    """The same with the number of rows and columns of a scale as arguments (SGLang)."""
    blocks = k // TILE
    one = product((m, n, k), (rows, TILE), "f8", "bf16")
    scales = {"stride_As_m": blocks, "stride_Bs_n": blocks, "group_n": TILE, "group_k": TILE}
    arrays: dict[str, Array] = {
        "As": ("f32", m * blocks, positive),
        "Bs": ("f32", ceil(n / TILE) * blocks, positive),
    }
    return having({**one, "arrays": one["arrays"] | arrays}, (), **scales)


# --- integers ---------------------------------------------------------------------------------------------


def small_integers(size: int):
    import torch

    return torch.randint(-8, 8, (size,))


def of_integers(shape: Sequence[int]) -> Case:
    """Scales for rows and columns."""
    m, n, k = shape
    one = product(shape, SQUARE_TILE, "int8", "bf16", "{}_ptr")
    arrays: dict[str, Array] = {
        "A_ptr": ("int8", m * k, small_integers),
        "B_ptr": ("int8", k * n, small_integers),
        "row_scale_ptr": ("bf16", m, 0.01),
        "col_scale_ptr": ("bf16", n, 0.01),
    }
    return {**one, "arrays": one["arrays"] | arrays}


# --- libraries of operators -------------------------------------------------------------------------------


def added(shape: Sequence[int], m: int = TILE, n: int = TILE) -> Case:
    """C = alpha A B + beta I."""
    rows, columns, _ = shape
    one = plain(shape, (m, n), "bf16", "bf16", i_ptr=("bf16", rows * columns, 1.0))
    return having(one, (ceil(rows / m), ceil(columns / n)), alpha=1.5, beta=0.5, stride_im=columns)


def batched(batch: int, shape: Sequence[int]) -> Case:
    m, n, k = shape
    return case(
        by(batch, *shape),
        (ceil(m / TILE), ceil(n / TILE), batch),
        {"M": m, "N": n, "K": k},
        A=("f16", batch * m * k, 0.5),
        B=("f16", batch * k * n, 0.5),
        O=("f16", batch * m * n, "zeros"),
    )


# --- experts ----------------------------------------------------------------------------------------------


def experts(tokens: int, experts: int, tile: int, step: int = 7) -> Mapping[str, Sequence[int]]:
    """Rows sorted by expert, of unequal numbers, and where each tile of rows begins."""
    shares = [1 + (i * step) % experts for i in range(experts)]
    begins = [0, *(tokens * one // sum(shares) for one in accumulate(shares))]
    parts = [
        (row, expert) for expert in range(experts) for row in range(begins[expert], begins[expert + 1], tile)
    ]
    return {
        "starts": begins,
        "rows": [row for row, _ in parts],
        "experts": [expert for _, expert in parts],
    }


def up_projected(
    tokens: int, tile: int = 64, columns: int = 64, count: int = 8, h: int = 2048, i: int = 1408
) -> Case:
    """Tokens gathered, projected twice, and gated (Liger). `h` and `i` are constants."""
    routed = experts(tokens, count, tile)
    return case(
        f"{tokens} tokens",
        (len(routed["rows"]), ceil(i / columns)),
        {"stride_x_T": h, "stride_w_E": 2 * i * h, "stride_w_N": h, "stride_pre_TK": 2 * i}
        | {"stride_post_TK": i},
        x_ptr=("bf16", tokens * h, 0.5),
        gate_up_proj_ptr=("bf16", count * 2 * i * h, 0.05),
        x_gather_idx_ptr=("i32", tokens, given([row * 17 % tokens for row in range(tokens)])),
        expert_start_ptr=("i32", count + 1, given(routed["starts"])),
        tile_row_start_ptr=("i32", len(routed["rows"]), given(routed["rows"])),
        tile_expert_ptr=("i32", len(routed["rows"]), given(routed["experts"])),
        pre_act_ptr=("bf16", tokens * 2 * i, "zeros"),
        post_act_ptr=("bf16", tokens * i, "zeros"),
    )


def down_projected(
    tokens: int, tile: int = 64, columns: int = 128, count: int = 8, h: int = 2048, i: int = 1408
) -> Case:
    routed = experts(tokens, count, tile)
    return case(
        f"{tokens} tokens",
        (len(routed["rows"]), ceil(h / columns)),
        {"stride_post_TK": i, "stride_w_E": h * i, "stride_w_H": i, "stride_Y_TK": h},
        post_act_ptr=("bf16", tokens * i, 0.5),
        down_proj_ptr=("bf16", count * h * i, 0.05),
        expert_start_ptr=("i32", count + 1, given(routed["starts"])),
        tile_row_start_ptr=("i32", len(routed["rows"]), given(routed["rows"])),
        tile_expert_ptr=("i32", len(routed["rows"]), given(routed["experts"])),
        Y_ptr=("bf16", tokens * h, "zeros"),
    )


CASES: Mapping[str, Sequence[Case]] = {
    "ao_fp8_1x128_128x1": both(by_blocks(4096, True), by_blocks(1008, True)),
    "ao_fp8_1x128_128x128": both(by_blocks(4096, False), by_blocks(1008, False)),
    "ao_int8_mm": both(of_integers((8192, 8192, 4096)), of_integers(RAGGED)),
    "sg_fp8_block": both(by_groups(4096), by_groups(1008, 1040, 1152)),
    "sg_fp8_block_m64": both(by_groups(64, rows=64), by_groups(33, 1040, 1152, 64)),
    "gems_mm": both(product((8192, 8192, 4096)), product(RAGGED)),
    "gems_mm_64": both(product((2048, 2048, 2048), (64, 64)), product(RAGGED, (64, 64))),
    "gems_addmm": both(added((4096, 4096, 4096)), added(RAGGED)),
    "gems_addmm_64": both(added((2048, 2048, 2048), 64, 64), added(RAGGED, 64, 64)),
    "gems_bmm": both(batched(16, (1024, 1024, 1024)), batched(3, (384, 384, 192))),
    "liger_moe_up": both(up_projected(4096), up_projected(100)),
    "liger_moe_up_128": both(up_projected(4096, columns=128), up_projected(100, columns=128)),
    "liger_moe_down": both(down_projected(4096), down_projected(100)),
}
