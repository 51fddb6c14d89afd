# pyright: basic, reportMissingImports=false
"""Launches of kernels that were sought in parts of projects that had not been read for any."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from benchmarks.launches.arrays import Array, Case, by, case, given, nibbles, positive, up
from benchmarks.launches.others import linear, routes, wider
from benchmarks.launches.others.changed import around, holding, on, shuffled
from benchmarks.launches.others.chunks import Shape
from benchmarks.launches.others.wider import both

WIDE = Shape(heads=8)
NARROW = replace(WIDE, keys=64, values=64)


# --- states of linear attention -----------------------------------------------------------------------------


def states_apart(s: Shape) -> Case:
    """What each chunk adds to the state; chunks do not wait for each other."""
    ends = {**s.ends("h0", 0.3), **s.ends("ht")}
    arrays = {**s.keyed("k"), **s.valued("v"), **s.falling("g"), **s.states("h", "zeros")}
    return s.case((s.keys // 64 * s.values // 64, s.chunks, s.pairs), arrays, ends)


def state_gradients_apart(s: Shape) -> Case:
    """With a decay for each key; all values in a thread block."""
    ends = {**s.ends("dht", 0.3), **s.ends("dh0")}
    arrays = {**s.keyed("q"), **s.valued("do"), **s.falling("gk", s.keys), **s.states("dh", "zeros")}
    return s.case((s.keys // 64, s.chunks, s.pairs), arrays, ends)


def products_of_rules(s: Shape) -> Case:
    """A state is stored for every other chunk: tokens have two updates each."""
    return on(linear.delta_states(s), s.values // 32, s.pairs)


def products_of_rules_backward(s: Shape) -> Case:
    return on(linear.delta_states_backward(s), s.values // 32, s.pairs)


def transposed_rule(s: Shape) -> Case:
    """Keys are corrected by the state, and values decay (Oja)."""
    keys = {**s.keyed("u", 0.1), **s.keyed("k_new", "zeros")}
    values = {**s.valued("v", 0.1), **s.valued("w", 0.02), **s.falling("gv", s.values)}
    made = {**s.states("h", "zeros"), **s.ends("ht")}
    return s.case((s.keys // 64, s.pairs), keys, values, made)


def transposed_rule_backward(s: Shape) -> Case:
    keys = {**s.keyed("q dk"), **s.keyed("dk2", "zeros")}
    values = {**s.valued("vg", 0.1), **s.valued("w", 0.02), **s.valued("do"), **s.falling("gv", s.values)}
    return s.case((s.keys // 64, s.pairs), keys, values, s.states("dh", "zeros"))


# --- chunks of linear attention -----------------------------------------------------------------------------


def below_the_diagonal(s: Shape) -> Case:
    """Products of keys of 16 tokens with those of 16 before them, in a chunk."""
    arrays = {**s.keyed("k"), **s.falling("g", s.keys), **s.square("A", "zeros", "f32")}
    return s.case((s.chunks, 16, s.pairs), arrays, s.single("beta", positive, "bf16"))


def queries_below_the_diagonal(s: Shape) -> Case:
    """The same of queries and keys, with sums of gates that include a token and that do not."""
    arrays = {**s.keyed("q k"), **s.falling("gi", s.keys), **s.falling("ge", s.keys)}
    return s.case((s.chunks, 16, s.pairs), arrays, s.square("A", "zeros", "f32"))


def inner_slots(s: Shape) -> Case:
    """Of 16 tokens and 64 slots of memory; added to what chunks before gave."""
    arrays = {**s.valued("v o"), **s.falling("g", s.values), **s.square("A")}
    return s.case((s.values // 64, s.chunks * 4, s.pairs), arrays)


def trained_value_gradients(s: Shape) -> Case:
    """With a learning rate for each token (TTT)."""
    arrays = {**s.keyed("q k"), **s.valued("do"), **s.valued("dv", "zeros")}
    return s.case((s.chunks, s.pairs), arrays, s.single("eta", positive, "bf16"))


def transformed(s: Shape) -> Case:
    """Queries and keys of a chunk, transformed by its reflections, and its part of the outputs (PaTH)."""
    keys = {**s.keyed("q k"), **s.keyed("w", 0.05), **s.keyed("w2 q_new k_new", "zeros")}
    values = {**s.valued("v"), **s.valued("o", "zeros"), **s.square("A", 0.2)}
    numbers = {**s.single("beta", positive, "bf16"), **s.falling("g_cumsum"), **s.single("L M", "zeros")}
    return s.case((s.chunks, s.pairs), keys, values, numbers)


# --- attention ----------------------------------------------------------------------------------------------


def two_sums(s: Shape) -> Case:
    """Attention whose outputs are corrected by a second product of the keys (parallax)."""
    arrays = {**s.keyed("q r k v"), **s.keyed("o barv", "zeros"), **s.single("d1 bart m", "zeros")}
    return s.case((s.chunks, s.pairs), arrays)


def row_sums(tokens: int, heads: int, width: int = 128) -> Case:
    """Of the gradients of scores, for tokens before each one."""
    size = tokens * heads * width
    wide: dict[str, Array] = dict.fromkeys(("q_ptr", "k_ptr", "grad_v_ptr", "u_ptr"), ("bf16", size, 0.3))
    return case(
        by(tokens, heads),
        (-(-tokens // 64), heads),
        {"H": heads, "T": tokens, "fa_scale": width**-0.5},
        row_dot_ptr=("f32", tokens * heads, "zeros"),
        lse_ptr=("f32", tokens * heads, around(8.0)),
        **wide,
    )


def squared_scores(tokens: int, keys: int, heads: int = 8, batch: int = 4) -> Case:
    """Gradients of attention by squares of scores, or by their series of two terms: first those of queries,
    then, in the same thread block, those of keys and values."""
    rows = batch * heads * tokens
    wide: dict[str, Array] = dict.fromkeys("qk", ("bf16", rows * keys, 0.3))
    wide |= dict.fromkeys(("v", "do"), ("bf16", rows * 64, 0.3))
    wide |= dict.fromkeys(("dq", "dk"), ("bf16", rows * keys, "zeros"))
    return case(
        by(batch, tokens, keys),
        (1, -(-tokens // 128), batch * heads),
        {"T": tokens, "scale": keys**-0.5},
        dz=("bf16", rows, 0.3),
        dv=("bf16", rows * 64, "zeros"),
        **wide,
    )


def slots_by_head(s: Shape) -> Case:
    """Heads of a sequence lie behind one another; 4096 tokens, a constant."""
    keys = {**s.keyed("q k"), **s.states("h")}
    values = {**s.valued("z"), **s.valued("o", "zeros"), **s.square("A", "zeros", "f32")}
    return s.case((s.values // 64, s.chunks, s.pairs), keys, values)


def with_zeros(lengths: Sequence[int], heads: int = 32, few: int = 8, width: int = 128) -> Case:
    """Decoding from pages of 64 keys of 8 bits with a scale and a zero each; eight thread blocks divide the
    keys of a sequence."""
    row = up(-(-max(lengths) // 64), 16)
    pages, batch = row * len(lengths), len(lengths)
    cache: Array = ("uint8", pages * 64 * few * width, nibbles)
    scales: Array = ("bf16", pages * 64 * few * 2, around(0.01))
    return case(
        f"{batch} of {max(lengths)}",
        (few, 8, batch),
        {"sm_scale": width**-0.5, "stride_boffb": row},
        q_ptr=("bf16", batch * heads * width, 0.5),
        k_ptr=cache,
        v_ptr=cache,
        KScalesZeros=scales,
        VScalesZeros=scales,
        cache_seqlens_ptr=("i32", batch, given(lengths)),
        page_table_ptr=("i32", pages, shuffled),
        acc_out_ptr=("f32", batch * heads * 8 * (width + 2), "zeros"),
    )


# --- products -----------------------------------------------------------------------------------------------


def of_groups(rows: Sequence[int], n: int, k: int) -> Case:
    """Thread blocks walk over the tiles of all groups, each of which has its rows and its matrix."""
    m = sum(rows)
    return case(
        f"{len(rows)} groups",
        (132,),
        {"M": m, "K": k, "N": n},
        lhs_ptr=("bf16", m * k, 0.3),
        rhs_ptr=("bf16", len(rows) * k * n, 0.3),
        out_ptr=("bf16", m * n, "zeros"),
        group_sizes_ptr=("i32", len(rows), given(rows)),
        tile_counter_ptr=("i32", 1, "zeros"),
    )


def two_weights(rows: int, count: int = 16, n: int = 4096, k: int = 4096) -> Case:
    """One half of an expert's columns comes from one matrix, the other from another."""
    half: Array = ("bf16", count * n // 2 * k, 0.5)
    one = holding(routes.tiles(rows, 128, count=count, n=n, k=k), b1_ptr=half, b2_ptr=half)
    return {**one, "arrays": {name: array for name, array in one["arrays"].items() if name != "b_ptr"}}


SMALL = replace(WIDE, batch=2, tokens=1000)
"""Of ragged launches."""
FEW = replace(NARROW, batch=2, tokens=1000)

CASES: Mapping[str, Sequence[Case]] = {
    "s_abc_K": (slots_by_head(WIDE),),
    "s_ai_gmm": both(
        of_groups((512,) * 16, 4096, 2048),
        of_groups((0, 1, 77, 300, 128, 5, 0, 64, 130, 12, 0, 99, 256, 3, 40, 17), 384, 192),
    ),
    "s_based_pbwd": (squared_scores(4096, 16), squared_scores(1024, 16)),
    "s_df_rowsum": both(row_sums(8192, 16), row_sums(1000, 8)),
    "s_dh_par": both(state_gradients_apart(WIDE), state_gradients_apart(SMALL)),
    "s_dp_dhu": both(products_of_rules_backward(WIDE), products_of_rules_backward(SMALL)),
    "s_dp_h": both(products_of_rules(WIDE), products_of_rules(SMALL)),
    "s_gsa_intra": both(inner_slots(WIDE), inner_slots(SMALL)),
    "s_h_par": both(states_apart(WIDE), states_apart(SMALL)),
    "s_lmd_split8": both(with_zeros((4000,) * 32), with_zeros((500, 1000, 300))),
    "s_oja_dhu": both(transposed_rule_backward(WIDE), transposed_rule_backward(SMALL)),
    "s_oja_h": both(transposed_rule(WIDE), transposed_rule(SMALL)),
    "s_oja_kkt": both(below_the_diagonal(WIDE), below_the_diagonal(SMALL)),
    "s_path_intra": both(transformed(NARROW), transformed(FEW)),
    "s_pc_dAv": both(wider.both_gradients(WIDE), wider.both_gradients(SMALL)),
    "s_plx_fwd": both(two_sums(NARROW), two_sums(FEW)),
    "s_rebased_bwd": (squared_scores(4096, 64), squared_scores(1024, 64)),
    "s_rwkv6_sub": both(queries_below_the_diagonal(WIDE), queries_below_the_diagonal(SMALL)),
    "s_td_two": both(two_weights(8192), two_weights(517)),
    "s_ttt_dvl": both(trained_value_gradients(WIDE), trained_value_gradients(SMALL)),
}
"""Launches by the kernel's name."""
