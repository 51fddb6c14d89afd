# pyright: basic, reportMissingImports=false
"""Launches of the products of optimizers that make matrices orthogonal: a matrix by its own transpose, of
which half is computed, and polynomials of it."""

from collections.abc import Mapping, Sequence
from math import ceil

from benchmarks.launches.arrays import Case, by, case, ragged, up


def transposed(batch: int, m: int, k: int, tile: int, type: str, columns: bool = False) -> Case:
    """C = A A^T, or A^T A of `columns`."""
    side = k if columns else m
    numbers = {"a_stride_b": m * k, "a_stride_r": k, "c_stride_b": side**2, "c_stride_r": side}
    return case(
        by(batch, m, k),
        (batch * ceil(side / tile) ** 2,),
        {"M": m, "K": k, **numbers},
        A_ptr=(type, batch * m * k, 0.5),
        C_ptr=(type, batch * side**2, "zeros"),
    )


def polynomial(batch: int, m: int) -> Case:
    """C = beta A + alpha A A^T."""
    one = transposed(batch, m, m, 128, "bf16")
    one["numbers"] |= {"alpha": 0.05, "beta": 2.0}
    return one


def added(batch: int, m: int, n: int, tile: Sequence[int]) -> Case:
    """C = alpha X + B X. Rows of B and columns of X are read to the end of a tile."""
    row, wide, rows = up(m, 16), up(n, tile[1]), up(m, tile[0])
    numbers = {"b_stride_b": rows * row, "b_stride_r": row, "x_stride_b": rows * wide, "x_stride_r": wide}
    numbers |= {"c_stride_b": rows * wide, "c_stride_r": wide}
    return case(
        by(batch, m, n),
        (batch * ceil(m / tile[0]) * ceil(n / tile[1]),),
        {"M": m, "N": n, "alpha": 0.5, **numbers},
        B_ptr=("bf16", batch * rows * row, 0.1),
        X_ptr=("bf16", batch * rows * wide, 0.5),
        C_ptr=("bf16", batch * rows * wide, "zeros"),
    )


CASES: Mapping[str, Sequence[Case]] = {
    "dion_ns1": (transposed(4, 2048, 4096, 128, "bf16"), ragged(transposed(3, 336, 208, 128, "bf16"))),
    "dion_ns1_f32": (transposed(4, 2048, 2048, 64, "f32"), ragged(transposed(3, 208, 176, 64, "f32"))),
    "dion_ns3": (added(4, 2048, 4096, (128, 128)), ragged(added(3, 208, 336, (128, 128)))),
    "dion_ns3_tail": (added(4, 1999, 3001, (64, 128)), ragged(added(3, 203, 331, (64, 128)))),
    "nano_ba_caa": (polynomial(8, 2048), ragged(polynomial(3, 336))),
    "nano_xtx": (
        transposed(4, 4096, 2048, 128, "bf16", columns=True),
        ragged(transposed(3, 208, 336, 128, "bf16", columns=True)),
    ),
    "nano_xxt": (transposed(4, 2048, 4096, 128, "bf16"), ragged(transposed(3, 336, 208, 128, "bf16"))),
    "nano_xxt_f16s": (transposed(4, 2048, 2048, 64, "f16"), ragged(transposed(3, 208, 176, 64, "f16"))),
}
"""Launches by the kernel's name."""
