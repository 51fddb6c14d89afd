# pyright: basic, reportMissingImports=false
"""Launches of PyTorch's templates as a compiler renders them for static shapes: in the tiles that it tries on
this GPU, with what it appends to a product, and with scores and masks of attention."""

from collections.abc import Callable, Mapping, Sequence
from math import ceil

from benchmarks.launches.arrays import Array, Case, given
from benchmarks.launches.others.changed import holding, on, typed
from benchmarks.launches.others.dense import template
from benchmarks.launches.others.wider import convolved, flexible_decode, multiplied, scaled_bytes
from benchmarks.launches.paged import flexible
from benchmarks.launches.products import SMS, inductor

SIZE, TOKENS, BLOCK = 4096, 4096, 128
"""Of square matrices, of sequences, and of a block of a mask."""
BIAS: Array = ("bf16", SIZE, 0.5)
MATRIX: Array = ("bf16", SIZE**2, 0.5)
"""Added to a product, or multiplied with it."""

# --- products -----------------------------------------------------------------------------------------------


def tiled(rows: int, columns: int, **more: Array) -> tuple[Case]:
    """A square product; a thread block has one tile."""
    tiles = ceil(SIZE / rows) * ceil(SIZE / columns)
    return (holding(multiplied(SIZE, SIZE, SIZE, (tiles,)), **more),)


def walked(**more: Array) -> tuple[Case]:
    """A square product; thread blocks walk over tiles."""
    return (holding(multiplied(SIZE, SIZE, SIZE, (SMS,)), **more),)


def skinny(rows: int, columns: int) -> tuple[Case]:
    """As many rows as a tile has."""
    return (multiplied(rows, SIZE, SIZE, (SIZE // columns,)),)


def of_groups(sizes: Sequence[int], n: int = 2048, k: int = 4096) -> tuple[Case]:
    """Rows by group, each with a matrix of its own."""
    m, groups = sum(sizes), len(sizes)
    one = multiplied(m, n, k, (SMS,))
    ends = [sum(sizes[: i + 1]) for i in range(groups)]
    arrays: dict[str, Array] = {
        "arg_a_ptr": ("bf16", m * k, 0.5),
        "arg_b_ptr": ("bf16", groups * n * k, 0.1),
        "arg_offsets_ptr": ("i32", groups, given(ends)),
        "out_ptr": one["arrays"]["out_ptr"],
    }
    return ({**one, "label": f"{m} rows", "arrays": arrays},)


UNEVEN = (1500, 700, 1024, 333, 2048, 0, 1500, 1087)
"""Rows of groups."""

# --- attention ----------------------------------------------------------------------------------------------

Kept = Callable[[int, int], str]
"""Of a block of queries and one of keys: "part", "full" or nothing."""


def blocks(kept: Kept) -> dict[str, Array]:
    """How many blocks of keys are masked and how many are full, and which, of each block of queries."""
    count = TOKENS // BLOCK
    arrays: dict[str, Array] = {}
    for name, kind in (("KV", "part"), ("FULL_KV", "full")):
        rows = [[key for key in range(count) if kept(row, key) == kind] for row in range(count)]
        flat = [one for row in rows for one in (*row, *[0] * (count - len(row)))]
        arrays[f"arg_{name}_NUM_BLKS"] = ("i32", count, given([len(row) for row in rows]))
        arrays[f"arg_{name}_IDX"] = ("i32", count**2, given(flat))
    return arrays


def in_window(row: int, key: int, width: int = 1024) -> str:
    """Queries see themselves and so many tokens before."""
    nearest, farthest = BLOCK * (row - key) - BLOCK + 1, BLOCK * (row - key) + BLOCK - 1
    if key > row or nearest > width:
        return ""
    return "full" if key < row and farthest <= width else "part"


def in_document(row: int, key: int, width: int = 1000) -> str:
    """Queries see what is before them in their document; documents have `width` tokens."""
    of = [{BLOCK * one // width, (BLOCK * one + BLOCK - 1) // width} for one in (row, key)]
    if key > row or not of[0] & of[1]:
        return ""
    return "full" if key < row and of[0] == of[1] and len(of[0]) == 1 else "part"


def attended(**more: Array) -> tuple[Case]:
    """Causal, with heads of 128 or fewer elements."""
    return (holding(flexible(), **more),)


SHARED: Array = ("bf16", 4 * 8 * TOKENS * 128, 1.0)
"""Keys or values of 8 heads."""
DOCUMENTS: Array = ("i32", TOKENS, given([token // 1000 for token in range(TOKENS)]))

CASES: Mapping[str, Sequence[Case]] = {
    "w_ind_addmm_gelu": tiled(128, 256, arg_bias=BIAS),
    "w_ind_addmm_relu": tiled(128, 128, arg_bias=BIAS),
    "w_ind_blockwise_x3": (scaled_bytes(32 * SIZE, 32 * 32),),
    "w_ind_bmm_nn_w4": (multiplied(2048, 128, 2048, (16 * 2, 32), batch=32),),
    "w_ind_bmm_t": (multiplied(2048, 2048, 128, (16 * 16, 32), "f16", batch=32),),
    "w_ind_conv_1x1": (convolved(32, 256, 56, 64, 1, "bf16", 64, 128),),
    "w_ind_conv_w8": (convolved(32, 128, 28, 128, 1, "bf16", 128, 128),),
    "w_ind_decode_mha": (flexible_decode(4, 32, 2),),
    "w_ind_decode_split2": (flexible_decode(parts=2),),
    "w_ind_decode_tma": (flexible_decode(parts=2),),
    "w_ind_flex_alibi": attended(arg_slopes=("f32", 32, 0.01)),
    "w_ind_flex_d256": (on(flexible(), 64, 4, 16),),
    "w_ind_flex_d64": attended(),
    "w_ind_flex_doc": attended(arg_doc=DOCUMENTS, **blocks(in_document)),
    "w_ind_flex_gqa": attended(arg_K=SHARED, arg_V=SHARED),
    "w_ind_flex_softcap": attended(),
    "w_ind_flex_window": (holding(typed(flexible(), "f16"), **blocks(in_window)),),
    "w_ind_grouped_ptr": of_groups(UNEVEN),
    "w_ind_grouped_tma": of_groups(UNEVEN),
    "w_ind_int8_256": (template("4096", (512,), "AB", SIZE**2, "int8", "i32", 20.0),),
    "w_ind_mm_128x128_w4": tiled(128, 128),
    "w_ind_mm_128x128x128": tiled(128, 128),
    "w_ind_mm_128x64_w8": tiled(128, 64),
    "w_ind_mm_32x32x128": skinny(32, 32),
    "w_ind_mm_32x64_w8": tiled(32, 64),
    "w_ind_mm_64x128x128": tiled(64, 128),
    "w_ind_mm_64x32_w8": tiled(64, 32),
    "w_ind_mm_64x32x128": tiled(64, 32),
    "w_ind_mm_64x64_w8": tiled(64, 64),
    "w_ind_mm_64x64x128": tiled(64, 64),
    "w_ind_mm_add": tiled(128, 128, arg_R=MATRIX),
    "w_ind_mm_gate": tiled(64, 128, arg_R=MATRIX),
    "w_ind_mm_nn": tiled(128, 128),
    "w_ind_mm_skinny": skinny(16, 32),
    "w_ind_plus_w8": (inductor("4096", (64 * 64,), "ABCD", SIZE**2),),
    "w_ind_rowwise_256": (scaled_bytes(SIZE, SIZE),),
    "w_ind_scaled_64x256": (on(scaled_bytes(SIZE, SIZE), 64 * 16),),
    "w_ind_scaled_mm": (on(scaled_bytes(SIZE, SIZE), 32 * 32),),
    "w_ind_tensorwise": (scaled_bytes(16, 16),),
    "w_ind_tma_128_w4": walked(),
    "w_ind_tma_256x128": walked(),
    "w_ind_tma_bias": walked(arg_bias=BIAS),
    "w_ind_tma_nn": walked(),
}
"""Launches by the kernel's name."""
