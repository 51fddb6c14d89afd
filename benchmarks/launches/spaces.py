# pyright: basic, reportMissingImports=false
"""Launches of state space models' kernels: tokens in chunks."""

from collections.abc import Mapping, Sequence
from math import ceil

from benchmarks.launches.arrays import Array, Case, case, decays, positive

BATCH, TOKENS, HEADS_OF, WIDTH_OF, GROUPS, STATE = 2, 4096, 64, 64, 8, 128
"""Heads of a width; groups of heads share B and C, which have a number for each state."""


def strides(array: str, **axes: int) -> dict[str, int]:
    return {f"stride_{array}_{axis}": stride for axis, stride in axes.items()}


def sequence(array: str, count: int, width: int) -> dict[str, int]:
    """Of batches of tokens with `count` vectors each."""
    return strides(array, batch=TOKENS * count * width, seqlen=count * width, head=width)


def tiled(array: str, chunk: int, count: int, size: int) -> dict[str, int]:
    """Of batches of chunks with `count` matrices each."""
    chunks = ceil(TOKENS / chunk)
    return strides(array, batch=chunks * count * size, chunk=count * size, head=size)


def steps(array: str, chunk: int) -> dict[str, int]:
    """Of batches of heads with a number for each token."""
    chunks = ceil(TOKENS / chunk)
    return strides(array, batch=HEADS_OF * chunks * chunk, chunk=chunk, head=chunks * chunk)


def space(chunk: int, grid: Sequence[int], numbers: Mapping[str, int], **more: Array) -> Case:
    """What the kernels have in common; a stride of no array is zero."""
    tokens = BATCH * ceil(TOKENS / chunk) * chunk
    sizes = {"chunk_size": chunk, "seqlen": TOKENS, "batch": BATCH, "hdim": WIDTH_OF, "dstate": STATE}
    sizes |= {"nheads_ngroups_ratio": HEADS_OF // GROUPS} | strides("seq_idx", batch=0, seqlen=0)
    arrays: dict[str, Array] = {
        "x_ptr": ("bf16", BATCH * TOKENS * HEADS_OF * WIDTH_OF, 0.5),
        "b_ptr": ("bf16", BATCH * TOKENS * GROUPS * STATE, 0.5),
        "dt_ptr": ("f32", tokens * HEADS_OF, positive),
        "dA_cumsum_ptr": ("f32", tokens * HEADS_OF, decays(chunk)),
    }
    numbers = sizes | sequence("x", HEADS_OF, WIDTH_OF) | sequence("b", GROUPS, STATE) | dict(numbers)
    numbers |= steps("dt", chunk) | steps("dA_cs", chunk)
    return case(f"chunk {chunk}", grid, numbers, **{**arrays, **more})


def chunk_bmm(chunk: int) -> Case:
    chunks, size = ceil(TOKENS / chunk), chunk**2
    numbers = {"K": STATE, "ngroups": GROUPS, "stride_outm": chunk}
    numbers |= sequence("a", GROUPS, STATE) | tiled("out", chunk, GROUPS, size)
    return space(
        chunk,
        (ceil(chunk / 128) ** 2, BATCH, chunks * GROUPS),
        numbers,
        a_ptr=("bf16", BATCH * TOKENS * GROUPS * STATE, 0.5),
        out_ptr=("f32", BATCH * chunks * GROUPS * size, "zeros"),
    )


def chunk_state(chunk: int) -> Case:
    chunks, size = ceil(TOKENS / chunk), WIDTH_OF * STATE
    return space(
        chunk,
        (1, BATCH * chunks, HEADS_OF),
        tiled("states", chunk, HEADS_OF, size) | {"stride_states_hdim": STATE},
        states_ptr=("f32", BATCH * chunks * HEADS_OF * size, "zeros"),
    )


def chunk_scan(chunk: int) -> Case:
    chunks, heads = ceil(TOKENS / chunk), BATCH * TOKENS * HEADS_OF * WIDTH_OF
    numbers = tiled("cb", chunk, GROUPS, chunk**2) | tiled("states", chunk, HEADS_OF, WIDTH_OF * STATE)
    numbers |= {"stride_cb_csize_m": chunk, "stride_states_hdim": STATE, "stride_D_head": 16}
    for array in ("z", "out"):
        numbers |= sequence(array, HEADS_OF, WIDTH_OF)
    return space(
        chunk,
        (ceil(chunk / 128), BATCH * chunks, HEADS_OF),
        numbers | sequence("C", GROUPS, STATE),
        cb_ptr=("f32", BATCH * chunks * GROUPS * chunk**2, 0.5),
        z_ptr=("bf16", 16, "zeros"),
        out_ptr=("bf16", heads, "zeros"),
        out_x_ptr=("bf16", 16, "zeros"),
        C_ptr=("bf16", BATCH * TOKENS * GROUPS * STATE, 0.5),
        prev_states_ptr=("f32", BATCH * chunks * HEADS_OF * WIDTH_OF * STATE, 0.5),
        D_ptr=("f32", HEADS_OF * 16, 0.5),
    )
