# pyright: basic, reportMissingImports=false
"""Launches of the delta rule's kernels: the matrices of chunks, their inverses, what is made of them."""

from collections.abc import Mapping, Sequence

from benchmarks.launches.arrays import Case, positive, ragged
from benchmarks.launches.others.changed import typed
from benchmarks.launches.others.chunks import Arrays, Shape, several
from benchmarks.launches.others.linear import FEW, SEQUENCES, both

PART = 16
"""Tokens of a chunk's part."""


# --- inverses -----------------------------------------------------------------------------------------------


def inverse(s: Shape, kind: str) -> Case:
    """Of triangular matrices with ones on the diagonal."""
    tables = s.places("chunk_indices") if s.lengths else {}
    grid = s.chunks, s.heads if s.lengths else s.pairs
    return s.case(grid, s.square("A", 0.1, kind), s.square("Ai", "zeros"), tables)


def representation(s: Shape, kind: str) -> Case:
    """The inverse that belongs to products of two arrays."""
    return s.case((s.chunks, s.pairs), s.keyed("a b", 0.1), s.square("A", "zeros", kind))


def parts(s: Shape, *more: Arrays, kind: str = "bf16") -> Case:
    """Inverses of the parts on the diagonal; `kind`: of the products of queries and keys."""
    squares = {**s.square("Aqk", "zeros", kind), **s.square("Akk", "zeros", "f32", PART)}
    arrays = {**s.keyed("q"), **s.keyed("k", 0.1), **s.falling("g", s.keys)}
    return s.case((s.chunks, s.chunk // PART, s.pairs), arrays, squares, *more)


def gated_parts(s: Shape) -> Case:
    return parts(s, s.keyed("b", positive))


def precond_parts(s: Shape) -> Case:
    return parts(s, s.keyed("k_precond", 0.1), s.single("beta", positive), kind="f32")


def whole(s: Shape, diagonal: str, *more: Arrays) -> Case:
    """The inverse of a chunk from those of its parts."""
    squares = {**s.square("Aqk Akk", "zeros"), **s.square(diagonal, 0.3, "f32", PART)}
    arrays = {**s.keyed("q"), **s.keyed("k", 0.1), **s.falling("g", s.keys)}
    return s.case((s.chunks, s.pairs), arrays, squares, *more)


def gated_whole(s: Shape) -> Case:
    return whole(s, "Akkd", s.keyed("b", positive))


def precond_whole(s: Shape) -> Case:
    return whole(s, "Akk_diag", s.keyed("k_precond", 0.1), s.single("beta", positive))


def between(s: Shape) -> Case:
    """Products of parts that are not on the diagonal."""
    squares = {**s.square("A Aqk", "zeros", "f32"), **s.single("beta", positive)}
    grid = s.chunks, (s.chunk // PART) ** 2, s.pairs
    return s.case(grid, s.keyed("q k"), s.falling("g", s.keys), squares)


# --- what is made of them -----------------------------------------------------------------------------------


def applied(s: Shape) -> Case:
    values = {**s.valued("v"), **s.valued("u", "zeros"), **s.square("A")}
    return s.case((s.chunks, s.pairs), s.keyed("a k"), s.keyed("w", "zeros"), values)


def gated_applied(s: Shape) -> Case:
    keys = {**s.keyed("q k"), **s.keyed("qg kg w", "zeros"), **s.falling("gk", s.keys)}
    values = {**s.valued("v"), **s.valued("u", "zeros"), **s.square("A"), **s.single("beta", positive)}
    return s.case((s.chunks, s.pairs), keys, values)


def decayed(s: Shape) -> Case:
    """Queries and keys with decays, and all their products in a chunk."""
    keys = {**s.keyed("q k a b"), **s.keyed("qg kg ag bg", "zeros")}
    decay = {**s.falling("gi", s.keys), **s.falling("ge", s.keys)}
    grid = s.chunks, s.batch, s.heads
    return s.case(grid, keys, decay, s.square("Aqk Aqb Aab Aak", "zeros", "f32"))


# --- gradients ----------------------------------------------------------------------------------------------


def applied_backward(s: Shape, kind: str = "bf16") -> Case:
    keys = {**s.keyed("ag dw"), **s.keyed("dag", "zeros", "f32")}
    values = {**s.valued("v du dv0"), **s.valued("dv", "zeros")}
    squares = {**s.square("A_ab_inv A_ak", 0.3, "f32"), **s.square("dAak dAab", "zeros", "f32")}
    return typed(s.case((s.chunks, s.pairs), keys, values, squares), kind)


def gated_backward(s: Shape) -> Case:
    keys = {**s.shared("k"), **s.keyed("dw"), **s.keyed("dk", "zeros")}
    values = {**s.valued("v du"), **s.valued("dv", "zeros"), **s.square("A", 0.2)}
    numbers = {**s.falling("g"), **s.single("beta", positive), **s.single("db dg", "zeros")}
    return s.case((s.chunks, s.pairs), keys, values, numbers)


def all_backward(s: Shape, *more: Arrays) -> Case:
    keys = {**s.keyed("q k"), **s.keyed("dq dk dg", "zeros", "f32"), **s.falling("g", s.keys)}
    values = {**s.valued("v v_new do dv"), **s.valued("dv2", "zeros"), **s.states("h dh")}
    squares = {**s.square("A", 0.2), **s.square("dA", "zeros", "f32")}
    numbers = {**s.single("beta", positive), **s.single("db", "zeros")}
    return s.case((s.chunks, s.pairs), keys, values, squares, numbers, *more)


def precond_backward(s: Shape) -> Case:
    return all_backward(s, s.keyed("k_precond"), s.keyed("dkg", "zeros", "f32"))


def parts_backward(s: Shape, *more: Arrays) -> Case:
    """64 keys of a part in a thread block."""
    keys = {**s.keyed("q k"), **s.keyed("dq dk dg", 0.3, "f32"), **s.keyed("dq2 dk2 dg2", "zeros", "f32")}
    squares = {**s.square("dAqk dAkk", 0.3, "f32"), **s.falling("g", s.keys)}
    grid = s.keys // 64 * (s.chunk // PART), s.chunks, s.pairs
    return s.case(grid, keys, squares, *more, B=s.batch)


def gated_parts_backward(s: Shape) -> Case:
    return parts_backward(s, s.keyed("b", positive), s.keyed("db", "zeros", "f32"))


def precond_parts_backward(s: Shape) -> Case:
    precond = {**s.keyed("k_precond"), **s.keyed("dk_precond", 0.3, "f32")}
    precond |= s.keyed("dk_precond2", "zeros", "f32")
    size = s.keys // 64 * s.rows * s.heads
    return parts_backward(s, precond, s.single("beta", positive), {"db": ("f32", size, "zeros")})


def path_backward(s: Shape) -> Case:
    keys = {**s.keyed("q k w w2 dq dk", 0.2), **s.keyed("dq_new dk_new", "zeros")}
    wide = {**s.keyed("dw1 dw2", 0.2, "f32"), **s.keyed("dw", "zeros", "f32")}
    squares = {**s.square("AT dA_local", 0.2), **s.single("beta", positive), **s.single("dbeta", "zeros")}
    return s.case((s.chunks, s.pairs), keys, wide, squares)


NARROW = Shape(keys=64, values=64)
LONG = Shape(32, heads=4)
"""Of which there are only matrices of chunks."""

CASES: Mapping[str, Sequence[Case]] = {
    "fla_dplr_A_fwd": both(decayed, Shape(keys=64, values=64, chunk=16)),
    "fla_dplr_wy_bwd": both(applied_backward, Shape(chunk=16)),
    "fla_dplr_wy_bwd64": both(applied_backward, Shape()),
    "fla_dplr_wy_bwd_f16": both(applied_backward, Shape(keys=64, values=64, chunk=32), "f16"),
    "fla_gdn2_bwd_intra": both(gated_parts_backward, Shape(2)),
    "fla_gdn2_inter_solve": both(gated_whole, Shape()),
    "fla_gdn2_intra_sub": both(gated_parts, Shape()),
    "fla_gdn2_solve_tf32": both(gated_whole, NARROW),
    "fla_gdr_wy_bwd32": both(gated_backward, Shape(keys=64, values=64, chunk=32, few=8)),
    "fla_iplr_wu": both(applied, Shape()),
    "fla_iplr_wy32": both(representation, Shape(chunk=32), "f32"),
    "fla_iplr_wy64": both(representation, Shape(), "bf16"),
    "fla_kda_wy_dqkg32": both(all_backward, Shape(heads=8, keys=64, values=64, chunk=32)),
    "fla_path_intra_bwd": both(path_backward, NARROW),
    "fla_precond_kda_bwd": both(precond_backward, Shape()),
    "fla_precond_kda_bwd_intra": both(precond_parts_backward, Shape(2)),
    "fla_precond_kda_solve": both(precond_whole, Shape()),
    "fla_precond_sub": both(precond_parts, Shape()),
    "fla_tril64_ieee": both(inverse, Shape(), "f32"),
    "fla_tril64_x3_vl": (
        inverse(several(*SEQUENCES * 8, heads=4), "bf16"),
        ragged(inverse(several(*FEW, heads=4), "bf16")),
    ),
    "kda_pre_solve_x3": both(precond_whole, Shape()),
    "vllm_glm_kkt": both(between, Shape()),
    "vllm_kimi_wu": both(gated_applied, Shape()),
    "x_fla_tril_16b": both(inverse, LONG, "bf16"),
}
"""Launches by the kernel's name."""
