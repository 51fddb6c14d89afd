# pyright: basic, reportMissingImports=false
"""Launches of attention whose keys are transformed on the way, of decaying states, and of compressed keys:
what chunks give, and gradients."""

from collections.abc import Callable, Mapping, Sequence
from math import ceil

from benchmarks.launches.arrays import Array, Begin, Case, by, case, given, positive, ragged
from benchmarks.launches.others.breadth import loose
from benchmarks.launches.others.changed import around
from benchmarks.launches.others.chunks import Arrays, Shape
from benchmarks.launches.others.delta import whole
from benchmarks.launches.others.linear import both

NARROW = Shape(keys=64, values=64)


# --- the delta rule with gates of keys ----------------------------------------------------------------------


def solved(s: Shape) -> Case:
    """Inverts the parts on the diagonal too."""
    return whole(s, "Akkd", s.single("beta", positive))


def applied_backward(s: Shape) -> Case:
    keys = {**s.keyed("k dw dk"), **s.keyed("dk2", "zeros"), **s.falling("gk", s.keys)}
    values = {**s.valued("v du"), **s.valued("dv", "zeros")}
    gates = {**s.keyed("dg", 0.3, "f32"), **s.keyed("dg2", "zeros", "f32")}
    squares = {**s.square("A", 0.2), **s.square("dA", "zeros", "f32")}
    numbers = {**s.single("beta", positive), **s.single("db", "zeros")}
    return s.case((s.chunks, s.pairs), keys, values, gates, squares, numbers)


def tiles(s: Shape, begins: Mapping[str, Begin], gates: str) -> Arrays:
    """What is kept of each chunk; `gates`: the type of its decay."""
    count = s.batch * s.chunks * s.heads
    widths = {"ws_gt": s.keys, "ws_inv_mqk": 2 * s.chunk * s.chunk}
    return {
        name: (gates if name == "ws_gt" else "bf16", count * widths.get(name, s.chunk * s.keys), begin)
        for name, begin in begins.items()
    }


def prepared(s: Shape) -> Case:
    names = ("ws_kd", "ws_qd", "ws_kr", "ws_gt", "ws_inv_mqk")
    heads: dict[str, Array] = {"A_log": ("f32", s.heads, 0.3), "dt_bias": ("f32", s.heads * s.keys, 0.3)}
    numbers = {"NT": s.chunks, "TOTAL_TILES": s.batch * s.chunks, "lower_bound": -1.0}
    kept = tiles(s, dict.fromkeys(names, "zeros"), "bf16")
    inputs = {**s.keyed("q k", 0.5), **s.keyed("g_raw", 1.0), **s.single("beta_raw", 1.0, "bf16")}
    return s.case((s.chunks, s.pairs), inputs, heads, kept, **numbers)


def segments(s: Shape, each: int = 32) -> Case:
    """Sequences in segments of `each` chunks, whose states are given; 32 values of a thread block."""
    parts = [
        (one * s.chunks + first, min(each, s.chunks - first), one * s.tokens + first * s.chunk, one)
        for one in range(s.batch)
        for first in range(0, s.chunks, each)
    ]
    tables = {
        "seg_chunk_base": [base for base, _, _, _ in parts],
        "seg_nchunks": [count for _, count, _, _ in parts],
        "seg_tok_base": [token for _, _, token, _ in parts],
        "seg_tok_end": [min(token + count * s.chunk, (one + 1) * s.tokens) for _, count, token, one in parts],
        "seg_seq": [one for _, _, _, one in parts],
        "seg_is_last": [int(base + count == (one + 1) * s.chunks) for base, count, _, one in parts],
    }
    listed: dict[str, Array] = {name: ("i32", len(parts), given(of)) for name, of in tables.items()}
    states: dict[str, Array] = {"h_in": ("f32", len(parts) * s.heads * s.keys * s.values, 0.1)}
    begins = {"ws_kd": 0.05, "ws_qd": 0.05, "ws_kr": 0.05, "ws_gt": around(0.6), "ws_inv_mqk": 0.1}
    values = {**s.valued("v_input", 0.5), **s.valued("out", "zeros"), **s.single("beta_raw", 1.0, "bf16")}
    grid = s.values // 32, len(parts) * s.heads
    numbers = {"TOTAL_TILES": s.batch * s.chunks, "NUM_SEGS_CLASS": 2}
    return s.case(grid, tiles(s, begins, "f32"), values, states, listed, **numbers)


# --- states that decay --------------------------------------------------------------------------------------


def mesa_queries(s: Shape) -> Case:
    keys = {**s.keyed("q_star k"), **s.keyed("dq", "zeros"), **s.states("h_kv")}
    numbers = {
        **s.single("beta", positive),
        **s.falling("g"),
        **s.single("dg_prev"),
        **s.single("dg", "zeros"),
    }
    return s.case((s.chunks, s.pairs), keys, s.valued("v do"), numbers)


def mesa(s: Shape) -> Case:
    keys = {**s.keyed("q_star k"), **s.keyed("dq dk_beta", "zeros"), **s.states("h_kv dh_kv")}
    values = {**s.valued("v do"), **s.valued("dv", "zeros")}
    numbers = {**s.single("beta", positive), **s.falling("g"), **s.single("dg", "zeros")}
    return s.case((s.chunks, s.pairs), keys, values, numbers)


def rwkv_states(s: Shape) -> Case:
    decay = {**s.falling("gi", s.keys), **s.falling("ge", s.keys)}
    states = {**s.states("dh", "zeros"), **s.ends("dht", 0.3), **s.ends("dh0")}
    grid = s.keys // 64, s.values // 64, s.pairs
    return s.case(grid, s.keyed("q"), s.valued("do"), decay, states)


def rwkv_parts(s: Shape) -> Case:
    """16 tokens and 64 keys of a thread block."""
    decay = {**s.falling("gi", s.keys), **s.falling("ge", s.keys)}
    arrays = {**s.keyed("q k"), **s.keyed("dq dk", "zeros"), **s.square("dA", 0.3, "f32")}
    return s.case((s.keys // 64, s.chunks * s.chunk // 16, s.pairs), arrays, decay)


def sums(sequences: int, tokens: int) -> Case:
    """Logarithms of sums of exponentials of 64 columns."""
    size = sequences * tokens * 64
    arrays: dict[str, Array] = {"s": ("bf16", size, 1.0), "z": ("f32", size, "zeros")}
    return case(by(sequences, tokens), (sequences,), {"T": tokens}, **arrays)


# --- keys that are reflected from chunk to chunk ------------------------------------------------------------

SPLIT, SPLITS = 512, 8
"""Tokens of a part of a sequence, and how many parts there is room for."""


def transformed(s: Shape, name: str, begin: Begin) -> Arrays:
    """Queries as each part of a sequence sees them."""
    return {name: ("bf16", s.rows * s.heads * s.keys * SPLITS, begin)}


def reflections(s: Shape, name: str, begin: Begin, kind: str = "bf16") -> Arrays:
    """A matrix of each part of a sequence."""
    return {name: (kind, s.batch * ceil(s.tokens / SPLIT) * s.heads * s.keys**2, begin)}


def scored(s: Shape) -> Arrays:
    """What attention's gradients need of each query; decays of a whole sequence."""
    sums = {**s.single("L", around(4.0)), **s.single("D"), **s.single("dg_cumsum", "zeros")}
    return {**s.falling("g_cumsum", period=s.tokens), **sums}


def path_keys_backward(s: Shape) -> Case:
    keys = {**transformed(s, "q", 0.5), **s.keyed("k", 0.5), **s.keyed("dk", "zeros")}
    values = {**s.valued("v do"), **s.valued("dv", "zeros"), **reflections(s, "hc_whole", 0.03)}
    return s.case((ceil(s.tokens / 128), s.pairs), keys, values, scored(s))


def path_queries_backward(s: Shape) -> Case:
    keys = {**transformed(s, "q", 0.5), **s.keyed("k", 0.5), **s.keyed("dq", "zeros"), **s.valued("v do")}
    whole = {**reflections(s, "hc_whole", 0.03), **reflections(s, "dhc_whole", "zeros", "f32")}
    return s.case((ceil(s.tokens / 128), s.pairs), keys, whole, scored(s))


def path_parts_backward(s: Shape) -> Case:
    """Gradients of 16 bits that several thread blocks add to."""
    keys = {**s.keyed("q k", 0.5), **s.keyed("w1 w2", 0.05), **s.keyed("dq")}
    made = {**s.keyed("dq_new dk dv", "zeros"), **s.keyed("dw1 dw2", "zeros", "f32")}
    return loose(s.case((s.chunks, s.pairs), keys, made, s.valued("v do"), scored(s)))


def path_products_backward(s: Shape) -> Case:
    keys = {**s.keyed("k dk"), **s.keyed("w1 w2", 0.05), **s.states("hc_suffix", 0.05)}
    made = {**s.keyed("dk_new", "zeros"), **s.keyed("dw1 dw2", "zeros", "f32")}
    grid = s.batch * ceil(s.tokens / SPLIT), s.heads
    return s.case(grid, keys, made, reflections(s, "dhc_whole", 0.1, "f32"))


def path_keys(s: Shape) -> Case:
    return s.case((s.chunks, s.pairs), s.keyed("k", 0.5), s.keyed("w1 w2", 0.05), s.keyed("k_new", "zeros"))


def path_queries(s: Shape) -> Case:
    arrays = {**s.keyed("q", 0.5), **s.keyed("w1 w2", 0.05), **transformed(s, "q_new", "zeros")}
    return s.case((ceil(s.tokens / 128), s.pairs), arrays)


def in_splits(made: Callable[[Shape], Case]) -> tuple[Case, ...]:
    """A full launch, and a ragged one of sequences that end in their third part."""
    return made(NARROW), ragged(made(Shape(2, 1500, keys=64, values=64)))


# --- attention ----------------------------------------------------------------------------------------------


def parallax(s: Shape, outputs: Arrays) -> Case:
    """Gradients of attention with a second set of queries; 64 rows or columns of a thread block."""
    sums = {**s.single("d1", around(500.0)), **s.single("bart", kind="bf16"), **s.single("m", positive)}
    more = {**s.single("delta_t delta_b", 0.1), **s.keyed("grad_o"), **outputs}
    return s.case((s.chunks, s.pairs), s.keyed("q r k v", 0.5), sums, more)


def parallax_keys(s: Shape) -> Case:
    return parallax(s, s.keyed("grad_k grad_v", "zeros"))


def parallax_queries(s: Shape) -> Case:
    return parallax(s, {**s.keyed("grad_q", "zeros", "f32"), **s.keyed("grad_r", "zeros")})


def compressed(batch: int, tokens: int, of_keys: bool) -> Case:
    """Gradients of 64 heads of queries, in four groups, and of keys that stand for 64 tokens each."""
    rows, blocks, groups, width = batch * tokens, ceil(tokens / 64), 4, 64
    kinds: dict[str, Array] = {
        **dict.fromkeys(("q", "do"), ("bf16", rows * 16 * groups * width, 0.5)),
        **dict.fromkeys("kv", ("bf16", batch * blocks * groups * width, 0.5)),
        "lse": ("f32", rows * 16 * groups, around(4.0)),
        "delta": ("f32", rows * 16 * groups, 0.1),
    }
    made = {"dk": "k", "dv": "v"} if of_keys else {"dq": "q"}
    outputs: dict[str, Array] = {name: (*kinds[like][:2], "zeros") for name, like in made.items()}
    grid = (1, ceil(blocks / 64), batch * groups) if of_keys else (tokens, 1, batch * groups)
    numbers = {"scale": 0.125, "T": tokens, "TC": blocks}
    return case(by(batch, tokens), grid, numbers, **kinds, **outputs)


CASES: Mapping[str, Sequence[Case]] = {
    "v_kda_inter": both(solved, Shape()),
    "v_kda_prep": both(prepared, Shape(chunk=16)),
    "v_kda_seg": both(segments, Shape(chunk=16)),
    "v_kda_wy_bwd": both(applied_backward, Shape()),
    "v_lcse": (sums(512, 2048), ragged(sums(5, 1001))),
    "v_mesa_dq": both(mesa_queries, NARROW),
    "v_mesa_hkv": both(mesa, NARROW),
    "v_nsa_cdkv": (compressed(16, 1024, True), ragged(compressed(1, 5000, True))),
    "v_nsa_cdq": (compressed(4, 4096, False), ragged(compressed(1, 5001, False))),
    "v_path_dkv": in_splits(path_keys_backward),
    "v_path_dq": in_splits(path_queries_backward),
    "v_path_hh_bwd": in_splits(path_products_backward),
    "v_path_intra": in_splits(path_parts_backward),
    "v_path_kc": in_splits(path_keys),
    "v_path_tq": in_splits(path_queries),
    "v_plx_dkv": both(parallax_keys, Shape(2, keys=64, values=64)),
    "v_plx_dqr": both(parallax_queries, Shape(2, keys=64, values=64)),
    "v_rwkv_dh": both(rwkv_states, Shape()),
    "v_rwkv_intra": both(rwkv_parts, Shape()),
}
"""Launches by the kernel's name."""
