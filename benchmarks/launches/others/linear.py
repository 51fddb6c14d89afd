# pyright: basic, reportMissingImports=false
"""Launches of linear attention: what chunks give, states that pass from chunk to chunk, gradients."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import ceil
from typing import Any

from benchmarks.launches.arrays import Array, Case, by, case, given, positive, ragged
from benchmarks.launches.others.changed import around, shaped, typed, within
from benchmarks.launches.others.chunks import Arrays, Shape, several

ODD = {"batch": 2, "tokens": 1000}
"""Sequences of ragged launches."""
SEQUENCES = (4096, 2048, 3000, 1024, 2500, 777, 1500, 64)
FEW = (300, 64, 1, 130)


def keyed_by(heads: int) -> Array:
    """Decays of heads that do not change."""
    return "f32", heads, around(-0.02)


# --- what a chunk gives -------------------------------------------------------------------------------------


def products(s: Shape) -> Case:
    """Keys' products in a chunk with decays."""
    beta = s.single("beta", positive, "bf16")
    square = s.square("A", "zeros", "f32")
    return s.case((s.chunks, s.pairs), s.keyed("k"), s.falling("g"), beta, square)


def outputs(s: Shape, tile: int, kind: str = "bf16", fixed: bool = False) -> Case:
    """`tile`: values of a thread block; `fixed`: decays of heads."""
    keys = s.shared("q k") if s.few else s.keyed("q k")
    decay = {"g_gamma": keyed_by(s.heads)} if fixed else s.falling("g")
    tables = s.places("chunk_indices") if s.lengths else {}
    values = {**s.valued("v"), **s.valued("o", "zeros"), **s.states("h")}
    grid = ceil(s.values / tile), s.chunks, s.heads if s.lengths else s.pairs
    return typed(s.case(grid, keys, values, decay, tables), kind)


def gated_outputs(s: Shape, tile: int) -> Case:
    """With a decay for each key."""
    values = {**s.valued("v"), **s.valued("o", "zeros"), **s.states("h"), **s.square("A")}
    grid = s.values // tile, s.chunks, s.pairs
    return s.case(grid, s.keyed("q"), values, s.falling("g", s.keys))


def inner_outputs(s: Shape) -> Case:
    """Of 16 tokens and 64 values, where values decay."""
    values = {**s.valued("v"), **s.valued("o", "zeros"), **s.square("A")}
    grid = s.values // 64, s.chunks * s.chunk // 16, s.pairs
    return s.case(grid, values, s.falling("gv", s.values))


def sums(s: Shape) -> Case:
    """Sums over the tokens of a chunk, with and without the last."""
    arrays = {**s.keyed("s", 0.3, "f32"), **s.keyed("oi oe", "zeros", "f32")}
    return s.case((s.keys // 64 * s.chunks, s.pairs), arrays)


def gates(s: Shape) -> Case:
    """Sums of gates, which are made of their inputs."""
    arrays = {**s.keyed("g", 0.5), **s.keyed("y", "zeros", "f32")}
    few: dict[str, Array] = {"A": ("f32", s.heads, 0.3), "g_bias": ("f32", s.heads * s.keys, 0.3)}
    numbers = {"cumsum_scale": 1.4426950408889634, "lower_bound": -5.0, "beta": 1.0, "threshold": 20.0}
    return s.case((1, s.chunks, s.pairs), arrays, few, **numbers)


def conjugate(s: Shape) -> Case:
    """A system for each token, solved by conjugate gradients; it is near to a multiple of the identity."""
    arrays = {**s.keyed("dq"), **s.keyed("dq_final", "zeros"), **s.keyed("k", 0.1), **s.states("h", 0.01)}
    numbers = {**s.falling("g"), **s.single("beta", positive)}
    diagonal: dict[str, Array] = {"lamb": ("f32", s.heads * s.keys, positive)}
    return s.case((s.chunks, s.pairs), arrays, numbers, diagonal)


# --- states -------------------------------------------------------------------------------------------------


def fused(s: Shape, fixed: bool = False) -> Case:
    """States stay in the kernel; 32 values of a thread block."""
    decay = {"g_gamma": keyed_by(s.heads)} if fixed else s.falling("g")
    values = {**s.valued("v"), **s.valued("o", "zeros"), **s.ends("h0", 0.3), **s.ends("ht")}
    return s.case((s.values // 32, 1, s.pairs), s.keyed("q k"), values, decay)


def gated_states(s: Shape) -> Case:
    """Keys and values decay; 32 of each in a thread block."""
    decay = {**s.falling("gk", s.keys), **s.falling("gv", s.values)}
    arrays = {**s.keyed("k"), **s.valued("v"), **s.states("h", "zeros"), **s.ends("h0", 0.3), **s.ends("ht")}
    grid = s.keys // 32, s.values // 32, s.pairs
    return s.case(grid, arrays, decay, s.places(offsets="split_offsets"))


def delta_states(s: Shape, gated: bool = False) -> Case:
    """The delta rule; 32 values of a thread block."""
    keys = {**s.keyed("k", 0.1), **s.keyed("w", 0.01)}
    values = {**s.valued("v"), **s.valued("v_new", "zeros"), **s.states("h", "zeros")}
    decay = {**s.falling("g"), **(s.falling("gk", s.keys) if gated else {})}
    tables = s.places(offsets="chunk_offsets") if s.lengths else {}
    ends = {**s.ends("h0", 0.3), **s.ends("ht")}
    return s.case((s.values // 32 * s.pairs,), keys, values, decay, tables, ends)


def delta_states_backward(s: Shape) -> Case:
    keys = {**s.keyed("q"), **s.keyed("k", 0.1), **s.keyed("w", 0.01)}
    values = {**s.valued("do dv"), **s.valued("dv2", "zeros"), **s.states("dh", "zeros")}
    ends = {**s.ends("dht", 0.3), **s.ends("dh0")}
    return s.case((s.values // 32 * s.pairs,), keys, values, s.falling("g"), ends)


def passed_on(s: Shape, tile: int, gated: bool = False) -> Case:
    """Of one sequence: what its gradient of states is, and the matrix by which it multiplies the one behind
    it; `tile`: columns of a thread block."""
    arrays = {**s.keyed("q"), **s.keyed("k", 0.1), **s.keyed("w", 0.02), **s.valued("do dv")}
    decay = s.falling("gk", s.keys) if gated else s.falling("g")
    made: dict[str, Array] = {
        "dhm": ("f32", s.heads * s.keys * (s.keys + s.values), "zeros"),
        "cu_seqlens": ("i32", 2, given([0, s.tokens])),
    }
    return s.case(((s.keys + s.values) // tile, s.heads), arrays, decay, made)


def merged(ranks: int, heads: int = 16, width: int = 128) -> Case:
    """What all ranks before this one passed on."""
    return case(
        f"{ranks} ranks",
        (width // 64, heads),
        {"pre_or_post_num_ranks": ranks, "rank": ranks, "NUM_SEQ_ENTRIES": 0},
        h=("f32", heads * width**2, "zeros"),
        ag_hm=("f32", ranks * heads * width * 2 * width, 0.04),
        h0=("f32", heads * width**2, "zeros"),
    )


def trained(s: Shape) -> Case:
    """States are trained while they pass (TTT)."""
    vectors = {**s.keyed("k"), **s.valued("v do"), **s.valued("v2 x y", "zeros")}
    vectors |= {
        **s.keyed("dq", "zeros", "f32"),
        **s.single("r", "zeros"),
        **s.single("eta", around(0.05), "bf16"),
    }
    of_heads: dict[str, Array] = {
        "w": ("f32", s.heads * s.values, positive),
        "b": ("f32", s.heads * s.values, 0.1),
        "hb0": ("f32", s.pairs * s.values, "zeros"),
    }
    states = {**s.states("h", "zeros"), **s.ends("h0")}
    return within(s.case((s.pairs,), vectors, of_heads, states, eps=0.1), 2e-2)


# --- gradients ----------------------------------------------------------------------------------------------


def chunk_backward(s: Shape, tile: int, gated: bool = False) -> Case:
    """`tile`: keys of a thread block."""
    arrays = {**s.keyed("q k"), **s.keyed("dq dk dw", "zeros"), **s.valued("v do dv"), **s.states("h dh")}
    decay = {**s.falling("g"), **s.single("dg", "zeros")} if gated else {}
    return s.case((s.keys // tile, s.chunks, s.pairs), arrays, decay)


def value_backward(s: Shape) -> Case:
    """Values decay; 64 of them in a thread block."""
    arrays = {**s.keyed("k dk"), **s.valued("v"), **s.valued("dw dv", "zeros"), **s.states("h dh")}
    decay = {**s.falling("gv", s.values), **s.valued("dgv_last", "zeros", "f32")}
    return s.case((s.values // 64, s.chunks, s.pairs), arrays, decay)


def mesa_backward(s: Shape) -> Case:
    arrays = {**s.keyed("q_star k"), **s.keyed("dk_beta", "zeros"), **s.valued("v do")}
    arrays |= {**s.valued("dv", "zeros"), **s.states("h_kv dh_kv")}
    numbers = {**s.falling("g"), **s.single("beta", positive), **s.single("dg", "zeros")}
    return s.case((s.chunks, s.pairs), arrays, numbers)


def parallel_backward(s: Shape) -> Case:
    """Without states; decays begin anew with each chunk."""
    arrays = {**s.keyed("q k"), **s.valued("v do"), **s.keyed("dq dk", "zeros"), **s.valued("dv", "zeros")}
    decay = {**s.falling("g"), **s.single("dg", "zeros")}
    tables = s.places("chunk_indices") if s.lengths else {}
    grid = 1, s.chunks, s.heads if s.lengths else s.pairs
    return typed(s.case(grid, arrays, decay, tables), "f16")


# --- log-linear attention: heads share queries and keys -----------------------------------------------------

LEVELS, WIDTH, CHUNK = 8, 64, 64


def levels(batch: int, tokens: int, heads: int = 16) -> tuple[Shape, Arrays]:
    """Sizes, and what all kernels have: a weight of each token, head and level."""
    s = Shape(batch, tokens, heads, WIDTH, WIDTH, CHUNK)
    size = s.rows * heads * LEVELS
    weights: dict[str, Array] = {"l": ("f32", size, positive), "dl": ("f32", size, "zeros")}
    common: dict[str, Array] = dict.fromkeys(("q", "k"), ("bf16", s.rows * WIDTH, 0.3))
    return s, {**weights, **common, **s.valued("v do"), **s.falling("g")}


def level_states(batch: int, tokens: int) -> Case:
    """Of one level; chunks of a sequence are at most 16."""
    s, arrays = levels(batch, tokens)
    states: Array = ("bf16", batch * 16 * s.heads * WIDTH**2, "zeros")
    gradients = {**s.keyed("dq"), **s.single("dg", 0.3), "h_l": states}
    return s.case((s.pairs,), arrays, gradients, ell=0)


def level_squares(batch: int, tokens: int) -> Case:
    """In a chunk, where the level is that of the highest bit in which two positions differ."""
    s, arrays = levels(batch, tokens)
    table = [(row ^ column).bit_length() for row in range(CHUNK) for column in range(CHUNK)]
    marks = [int(level == one) for level in range(LEVELS - 1) for one in table]
    gradients = {**s.keyed("dq dk"), **s.valued("dv"), **s.single("dg", 0.3)}
    tables: dict[str, Array] = {
        "llut": ("i32", len(table), given(table)),
        "mask": ("f32", len(marks), given(marks)),
    }
    return s.case((s.chunks, s.pairs), arrays, gradients, tables)


# --- attention of the same projects -------------------------------------------------------------------------


def decoded(batch: int, queries: int, keys: int, heads: int = 16, few: int = 4, width: int = 128) -> Case:
    """The last queries of a sequence; a second vector of each changes the values' weights."""
    small: Array = ("bf16", batch * keys * few * width, 1.0)
    return shaped(
        by(batch, queries, keys),
        (ceil(queries / 16) * batch * heads,),
        {"scale": width**-0.5, "Sq": queries, "Skv": keys},
        "bf16",
        (batch, queries, heads, width),
        1.0,
        "q",
        "o",
        r=("bf16", batch * queries * heads * width, 0.1),
        k=small,
        v=small,
        cache_start=("i32", batch, "zeros"),
    )


def best(batch: int, tokens: int, width: int, heads: int = 64, few: int = 4) -> Case:
    """The 16 blocks of 64 keys that matter most to each token; equal ones may change places."""
    return within(
        case(
            by(batch, tokens),
            (tokens, batch * few),
            {"scale": width**-0.5, "TQ": tokens, "TK": tokens},
            q=("bf16", batch * tokens * heads * width, 1.0),
            k=("bf16", batch * ceil(tokens / 64) * few * width, 1.0),
            lse=("f32", batch * tokens * heads, around(3.0)),
            block_indices=("i32", batch * tokens * few * 16, "zeros"),
        ),
        5e-2,
    )


def both(made: Callable[..., Case], shape: Shape, *more: Any, **named: Any) -> tuple[Case, ...]:
    """A full launch and a ragged one."""
    return made(shape, *more, **named), ragged(made(replace(shape, **ODD), *more, **named))


CASES: Mapping[str, Sequence[Case]] = {
    "fla_cp_merge": (merged(64), ragged(merged(3))),
    "fla_cp_pre_bwd": (passed_on(Shape(1), 64), ragged(passed_on(Shape(1, 300), 64))),
    "fla_delta_h_256": both(delta_states, Shape(keys=256), gated=True),
    "fla_delta_h_vl": (
        delta_states(several(*SEQUENCES, keys=64, values=64)),
        ragged(delta_states(several(*FEW, keys=64, values=64))),
    ),
    "fla_dhu_256": both(delta_states_backward, Shape(heads=8, keys=256, values=256)),
    "fla_dqkwg_32": both(chunk_backward, Shape(chunk=32), 32),
    "fla_dqkwg_dw": both(chunk_backward, Shape(keys=64, values=64), 64, gated=True),
    "fla_fused_chunk": both(fused, Shape(8, heads=8, keys=64)),
    "fla_fwd_h_gk": (gated_states(several(*SEQUENCES)), ragged(gated_states(several(*FEW)))),
    "fla_fwd_o_256": both(outputs, Shape(keys=256, values=256), 64),
    "fla_fwd_o_32": both(outputs, Shape(keys=64, values=64, chunk=32), 32, "f16"),
    "fla_fwd_o_f32": both(outputs, Shape(keys=100, values=100), 32, "f32"),
    "fla_fwd_o_vl": (
        outputs(several(*SEQUENCES, heads=32, few=16), 64, fixed=True),
        ragged(outputs(several(*FEW, heads=32, few=16), 64, fixed=True)),
    ),
    "fla_gla_o_f32": both(gated_outputs, Shape(chunk=32), 32),
    "fla_kkt_32": both(products, Shape(chunk=32)),
    "fla_loglin_diag": (level_squares(4, 4096), ragged(level_squares(2, 1000))),
    "fla_loglin_hdqgl": (level_states(16, 1024), ragged(level_states(2, 1000))),
    "fla_mesa_cg64": both(conjugate, Shape(keys=64, values=64)),
    "fla_mesa_kv_dkv": both(mesa_backward, Shape()),
    "fla_nsa_topk": (best(2, 4096, 128), ragged(best(1, 300, 128))),
    "fla_nsa_topk_64": (best(2, 4096, 64), ragged(best(1, 300, 64))),
    "fla_oja_dvwg": both(value_backward, Shape()),
    "fla_oja_fwd_intra": both(inner_outputs, Shape()),
    "fla_parallax": (decoded(32, 16, 4096), ragged(decoded(3, 5, 333))),
    "fla_rwkv6_cumsum": both(sums, Shape(chunk=32)),
    "fla_sgla_par_bwd64": both(parallel_backward, Shape(heads=8, keys=64, values=64)),
    "fla_ttt_bwd_h": (
        trained(Shape(16, 2048, keys=64, values=64, chunk=16)),
        ragged(trained(Shape(2, 200, keys=64, values=64, chunk=16))),
    ),
    "vllm_kda_gate_cumsum": both(gates, Shape()),
    "x_fla_cpb_gk": (
        passed_on(Shape(1, keys=64, values=64), 32, gated=True),
        ragged(passed_on(Shape(1, 300, keys=64, values=64), 32, gated=True)),
    ),
    "x_fla_fused_w1": (
        fused(Shape(32, heads=8, keys=32, values=32, chunk=16), fixed=True),
        ragged(fused(Shape(2, 1000, 8, 32, 32, 16), fixed=True)),
    ),
    "x_fla_sgla_vl": (
        parallel_backward(several(*SEQUENCES, heads=8, keys=64, values=64, chunk=128)),
        ragged(parallel_backward(several(*FEW, heads=8, keys=64, values=64, chunk=128))),
    ),
}
"""Launches by the kernel's name."""
