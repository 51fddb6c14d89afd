# pyright: basic, reportMissingImports=false
"""Launches of states that are trained while tokens pass, of attention whose keys decay each at its own pace,
and of products in parts."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import ceil

from benchmarks.launches.arrays import Array, Begin, Case, by, case, positive, ragged, up
from benchmarks.launches.others.breadth import loose
from benchmarks.launches.others.changed import around
from benchmarks.launches.others.chunks import Arrays, Shape
from benchmarks.launches.others.linear import both
from benchmarks.launches.others.per_chunk import product

# --- trained states: 64 keys and values, chunks of 16 tokens ------------------------------------------------

STEPS = around(0.005)
"""How fast states learn."""


def biases(s: Shape, names: str, begin: Begin = 0.3) -> Arrays:
    """A row of each chunk's state."""
    return dict.fromkeys(names.split(), ("bf16", sum(s.counts) * s.heads * s.values, begin))


def ends(s: Shape, *states: str, rows: str) -> Arrays:
    """States at the ends of sequences, which are not used, and their rows."""
    row: Array = ("f32", s.pairs * s.values, "zeros")
    return {**s.ends(" ".join(states)), **dict.fromkeys(rows.split(), row)}


def norms(s: Shape) -> Arrays:
    """Of each head."""
    width = s.heads * s.values
    return {"w": ("bf16", width, positive), "b": ("bf16", width, 0.1)}


def trained(s: Shape) -> Case:
    """The state before each chunk."""
    arrays = {**s.keyed("k"), **s.valued("v"), **s.valued("v_new", "zeros"), **norms(s)}
    states = {**s.states("h", "zeros"), **biases(s, "hb", "zeros")}
    steps = s.single("eta", STEPS, "bf16")
    return loose(s.case((1, 1, s.pairs), arrays, states, steps, ends(s, "h0 ht", rows="hb0 hbt"), eps=0.1))


def trained_outputs(s: Shape) -> Case:
    arrays = {**s.keyed("q k"), **s.valued("v"), **s.valued("o", "zeros")}
    states = {**s.states("h", 0.1), **biases(s, "hb", 0.1), **s.single("eta", 0.1, "bf16")}
    return s.case((1, s.chunks, s.pairs), arrays, states)


def trained_at_once(s: Shape) -> Case:
    arrays = {**s.keyed("q k"), **s.valued("v"), **s.valued("o", "zeros"), **norms(s)}
    steps = s.single("eta", STEPS, "bf16")
    return loose(s.case((s.pairs,), arrays, steps, ends(s, "h0 ht", rows="hb0 hbt"), eps=0.1))


def trained_backward(s: Shape) -> Case:
    """Gradients of what a chunk's outputs are made of."""
    arrays = {**s.keyed("q k"), **s.keyed("dq dk", "zeros"), **s.valued("v do")}
    states = {**s.states("h dh", 0.1), **biases(s, "dhb", 0.1)}
    steps = {**s.single("e", 0.1, "bf16"), **s.single("de", "zeros", "bf16")}
    return s.case((1, s.chunks, s.pairs), arrays, states, steps)


def trained_backward_at_once(s: Shape) -> Case:
    """Gradients of a whole sequence, whose sums over tokens are rounded to 16 bits after each chunk."""
    width = s.pairs * s.values
    arrays = {**s.keyed("q k"), **s.keyed("dk", "zeros"), **s.valued("v v2 y do"), **s.valued("dv", "zeros")}
    normed = {**s.valued("x", 1.0), **s.single("r", positive, "bf16"), **norms(s), **s.states("h", 0.1)}
    steps = {**s.single("eta", STEPS, "bf16"), **s.single("de", "zeros", "bf16")}
    made: dict[str, Array] = {"dw": ("bf16", width, "zeros"), "db": ("f32", width, "zeros")}
    return loose(
        s.case((s.pairs,), arrays, normed, steps, made, ends(s, "dht dh0", rows="dhbt dhb0")),
    )


SMALL = Shape(keys=64, values=64, chunk=16)
IN_TURN = replace(SMALL, batch=8, tokens=2048)
"""A thread block for each head of a sequence."""

# --- decaying keys ------------------------------------------------------------------------------------------


def decaying(s: Shape, inputs: str, outputs: str, *more: Arrays) -> Case:
    """Exponents of two fall along the whole sequence; `chunk` rows in a thread block."""
    given = {**s.keyed(inputs), **s.keyed(outputs, "zeros"), **s.falling("g_cumsum", s.keys, s.tokens)}
    numbers = {"T_BUCKET": 1 << (s.tokens - 1).bit_length()}
    return s.case((1, s.chunks, s.pairs), given, s.single("g_scalar_cumsum", 0.1), *more, **numbers)


def forward(s: Shape) -> Case:
    return decaying(s, "q k v", "o", s.single("lse", "zeros"))


def backward(s: Shape, outputs: str) -> Case:
    sums = {**s.single("lse", around(8.0)), **s.single("delta", 0.3)}
    made = {**s.keyed("dg_cumsum", "zeros", "f32"), **s.single("dg_scalar_cumsum", "zeros", "bf16")}
    return decaying(s, "q k v do", outputs, sums, made)


def decoded(batch: int, new: int, tokens: int, heads: int = 16, few: int = 4, width: int = 128) -> Case:
    """The last queries; keys decay from the beginning of their chunk of 64."""
    chunks = ceil(tokens / 64)
    rows = batch * new * heads
    numbers = {"scale": width**-0.5, "T_q": new, "T_kv": tokens, "NC": chunks, "KV_CHUNKS_BUCKET": chunks}
    return case(
        by(batch, new, tokens),
        (ceil(new / 16) * batch * heads,),
        numbers,
        q=("bf16", rows * width, 1.0),
        k_tilde=("bf16", batch * tokens * heads * width, 1.0),
        v=("bf16", batch * tokens * few * width, 1.0),
        o=("bf16", rows * width, "zeros"),
        p_curr=("bf16", rows * width, 0.3),
        r_cache=("bf16", batch * chunks * heads * width, 0.3),
        g_scalar_cumsum=("f32", batch * tokens * heads, 0.1),
        lse=("f32", rows, "zeros"),
    )


# --- products -----------------------------------------------------------------------------------------------


def in_parts(m: int, n: int, k: int, parts: int = 4) -> Case:
    """Each part of K has its own sums."""
    return product(
        m,
        n,
        k,
        (64, 64),
        types=("f16", "f16", "f32"),
        names=("a_ptr", "b_ptr", "scratch_ptr"),
        grid=(ceil(m / 64) * ceil(n / 64), parts),
        strides=("stride_am", "stride_bk", "stride_sm"),
        more={"scratch_ptr": ("f32", parts * m * n, "zeros")},
        K_PER_SPLIT=up(ceil(k / parts), 64),
        stride_sk=m * n,
    )


def of_tiles(m: int, n: int, k: int) -> Case:
    """Tiles by descriptors of three dimensions that the kernel makes."""
    return product(m, n, k, (128, 128), grid=(132,), strides=("", "", ""))


CASES: Mapping[str, Sequence[Case]] = {
    "v_tc_rankred": (of_tiles(4096, 4096, 2048), ragged(of_tiles(1104, 1360, 336))),
    "v_ttt_dqke": both(trained_backward, SMALL),
    "v_ttt_fdh": both(trained_backward_at_once, IN_TURN),
    "v_ttt_ff": both(trained_at_once, IN_TURN),
    "v_ttt_h": both(trained, IN_TURN),
    "v_ttt_o": both(trained_outputs, SMALL),
    "v_tut12_twopass": (in_parts(2048, 2048, 8192), ragged(in_parts(208, 336, 1104))),
    "v_wall_dec": (decoded(16, 1, 4096), ragged(decoded(3, 5, 1000))),
    "v_wall_dkv": both(backward, Shape(tokens=2048, keys=64, values=64), "dk dv"),
    "v_wall_dq": both(backward, Shape(tokens=2048, keys=64, values=64), "dq"),
    "v_wall_fwd": both(forward, Shape(keys=64, values=64, chunk=128)),
}
"""Launches by the kernel's name."""
