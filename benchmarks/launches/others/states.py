# pyright: basic, reportMissingImports=false
"""More launches of state space models' kernels: other types, sequences in a batch, gradients."""

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any

from benchmarks.launches.arrays import Array, Case, ragged
from benchmarks.launches.others.changed import holding, numbered, on, typed
from benchmarks.launches.spaces import (
    BATCH,
    GROUPS,
    HEADS_OF,
    STATE,
    TOKENS,
    WIDTH_OF,
    chunk_bmm,
    chunk_scan,
    chunk_state,
    sequence,
    space,
    steps,
    tiled,
)

VECTORS = BATCH * TOKENS * HEADS_OF * WIDTH_OF
STRIDE = 16
"""Between the numbers of two tokens' sequences."""


def numbers_of(stride: int) -> Array:
    """Of the sequence of each token: 1500 tokens, and what is left."""

    def begin(size: int) -> Any:
        import torch

        return torch.arange(size) // stride % TOKENS // 1500

    return "i32", BATCH * TOKENS * stride, begin


def in_sequences(one: Case, stride: int = STRIDE) -> Case:
    strides = {"stride_seq_idx_batch": TOKENS * stride, "stride_seq_idx_seqlen": stride}
    return holding(numbered(one, **strides), seq_idx_ptr=numbers_of(stride))


def tiles(chunk: int, rows: int, columns: int = 1) -> tuple[int, int, int]:
    """Thread blocks of `rows` of a chunk, and in how many columns; for every chunk and head."""
    return ceil(chunk / rows) * columns, BATCH * ceil(TOKENS / chunk), HEADS_OF


def bmm(chunk: int) -> Case:
    grid = ceil(chunk / 64) ** 2, BATCH, ceil(TOKENS / chunk) * GROUPS
    return typed(in_sequences(on(chunk_bmm(chunk), *grid)), "f32")


def state(chunk: int) -> Case:
    grid = STATE // 64, BATCH * ceil(TOKENS / chunk), HEADS_OF
    return typed(in_sequences(on(chunk_state(chunk), *grid)), "f32")


def scan(chunk: int) -> Case:
    """Tiles of 32 by 32; states of 64."""
    return typed(numbered(on(chunk_scan(chunk), *tiles(chunk, 32, 2)), dstate=64), "f32")


def gated_scan(chunk: int) -> Case:
    one = in_sequences(on(chunk_scan(chunk), *tiles(chunk, 64)))
    return holding(
        numbered(one, stride_D_head=WIDTH_OF),
        D_ptr=("f32", HEADS_OF * WIDTH_OF, 0.5),
        z_ptr=("bf16", VECTORS, 1.0),
        out_x_ptr=("bf16", VECTORS, "zeros"),
    )


# --- gradients ----------------------------------------------------------------------------------------------


def products(chunk: int) -> tuple[Mapping[str, int], Array]:
    """Of C and B in a chunk."""
    strides = tiled("cb", chunk, GROUPS, chunk**2) | {"stride_cb_csize_m": chunk}
    return strides, ("f32", BATCH * ceil(TOKENS / chunk) * GROUPS * chunk**2, 0.5)


def of_steps(chunk: int, parts: int = 1) -> Array:
    """A number for each step of every head, in `parts`."""
    return "f32", parts * BATCH * HEADS_OF * ceil(TOKENS / chunk) * chunk, "zeros"


def decay_backward(chunk: int, block: int = 64) -> Case:
    rows, (strides, cb) = ceil(chunk / block), products(chunk)
    made = tiled("ddAcs", chunk, HEADS_OF, rows * chunk) | {"stride_ddAcs_csize_m": chunk}
    count = BATCH * ceil(TOKENS / chunk) * HEADS_OF * rows * chunk
    return space(
        chunk,
        (rows**2, BATCH * ceil(TOKENS / chunk), HEADS_OF),
        {**strides, **made, **sequence("dout", HEADS_OF, WIDTH_OF)},
        dout_ptr=("bf16", VECTORS, 0.5),
        cb_ptr=cb,
        ddAcs_ptr=("f32", count, "zeros"),
    )


def input_backward(chunk: int, rows: int, wide: bool) -> Case:
    """`wide`: a factor for each element of a head. Steps' gradients are added by atomic operations, of
    which there is one for each here."""
    strides, cb = products(chunk)
    numbers = {**strides, **steps("ddt", chunk), "stride_ddt_tile": 0}
    numbers |= {**sequence("dout", HEADS_OF, WIDTH_OF), **sequence("dx", HEADS_OF, WIDTH_OF)}
    return space(
        chunk,
        tiles(chunk, rows),
        {**numbers, "stride_D_head": WIDTH_OF if wide else STRIDE},
        dout_ptr=("bf16", VECTORS, 0.5),
        dx_ptr=("bf16", VECTORS, "zeros"),
        cb_ptr=cb,
        D_ptr=("f32", HEADS_OF * WIDTH_OF, 0.5),
        ddt_ptr=of_steps(chunk),
    )


def c_backward(chunk: int, parts: int) -> Case:
    """Half of a group's heads in a thread block; decays' gradients of 64 states each are added (1 part) or
    stored in `parts`."""
    chunks, each = ceil(TOKENS / chunk), HEADS_OF // GROUPS // 2
    ddt = of_steps(chunk, parts)
    counts = {"nheads": HEADS_OF, "nheads_per_program": each, "ngroups": GROUPS}
    states = tiled("prev_states", chunk, HEADS_OF, WIDTH_OF * STATE) | {"stride_prev_states_hdim": STATE}
    made = {"stride_dc_split": GROUPS * STATE, "stride_dc_group": STATE}
    made |= {"stride_dc_batch": TOKENS * 2 * GROUPS * STATE, "stride_dc_seqlen": 2 * GROUPS * STATE}
    made |= steps("ddA_cs", chunk) | {"stride_ddA_tile": ddt[1] // parts if parts > 1 else 0}
    vectors = sequence("dout", HEADS_OF, WIDTH_OF) | sequence("C", GROUPS, STATE)
    return space(
        chunk,
        (ceil(chunk / 64) * STATE // 64, BATCH * chunks, 2 * GROUPS),
        {**counts, **states, **made, **vectors},
        dout_ptr=("bf16", VECTORS, 0.5),
        prev_states_ptr=("f32", BATCH * chunks * HEADS_OF * WIDTH_OF * STATE, 0.5),
        C_ptr=("bf16", BATCH * TOKENS * GROUPS * STATE, 0.5),
        dc_ptr=("f32", BATCH * TOKENS * 2 * GROUPS * STATE, "zeros"),
        ddA_cumsum_ptr=ddt,
    )


def c_backward_in_sequences(chunk: int) -> Case:
    return in_sequences(c_backward(chunk, 1), 1)


def c_backward_floats(chunk: int) -> Case:
    """Heads of 32 in rows of 64."""
    return typed(numbered(c_backward(chunk, STATE // 64), hdim=32), "f32")


def input_backward_halves(chunk: int) -> Case:
    return typed(input_backward(chunk, 32, wide=True), "f16")


FULL, ODD = 256, 160
"""Tokens of a chunk; the last chunk of ragged launches has fewer."""

CASES: Mapping[str, Sequence[Case]] = {
    "mamba_bmm_f32": (bmm(FULL), ragged(bmm(ODD))),
    "mamba_bwd_dc_idx": (c_backward_in_sequences(FULL), ragged(c_backward_in_sequences(ODD))),
    "mamba_bwd_dx_f16": (input_backward_halves(FULL), ragged(input_backward_halves(ODD))),
    "mamba_ddAcs_old": (decay_backward(FULL), ragged(decay_backward(ODD))),
    "mamba_scan_f32": (scan(FULL), ragged(scan(ODD))),
    "mamba_scan_z_idx": (gated_scan(FULL), ragged(gated_scan(ODD))),
    "mamba_state_idx_f32": (state(FULL), ragged(state(ODD))),
    "x_mamba_dc_f32": (c_backward_floats(FULL), ragged(c_backward_floats(ODD))),
    "x_mamba_dx_w8": (
        input_backward(FULL, 128, wide=False),
        ragged(input_backward(ODD, 128, wide=False)),
    ),
}
"""Launches by the kernel's name."""
