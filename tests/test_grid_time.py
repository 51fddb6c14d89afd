"""The predicted time of a whole grid: worked out by hand for a GEMM."""

import pytest

from twill.diagnostics import TwillError
from twill.grid_time import Launch, Paced, evaluated, grid_cycles
from twill.inputs import Inputs, cases

GRID = "cdiv(M, 128) * cdiv(N, 256)"


def gemm(m: int, n: int, k: int, interval: float = 1000, length: float = 3000) -> float:
    (case,) = cases(Inputs("examples/ttgir/gemm.sm90.ttgir", arch="sm90"))
    assert case.machine
    return grid_cycles([Paced(case, interval, length)], Launch({"M": m, "N": n, "K": k}, GRID), {})


def test_one_thread_block() -> None:
    """64 iterations of the loop, the first load's arrival, and 128 x 256 f16 twice through shared memory."""
    (case,) = cases(Inputs("examples/ttgir/gemm.sm90.ttgir", arch="sm90"))
    assert case.machine
    assert case.machine.shared
    stored = 2 * 128 * 256 * 2 / case.machine.shared.bytes_per_cycle
    assert gemm(128, 256, 4096) == 3000 + 63 * 1000 + case.machine.loads.arrival + stored


def test_a_tail_costs_a_whole_wave() -> None:
    one = gemm(128, 256, 512)
    assert gemm(128 * 132, 256, 512) == one, "132 SMs"
    assert gemm(128 * 133, 256, 512) == 2 * one


def test_short_loops_pay_for_their_prologue() -> None:
    deep, shallow = (gemm(128, 256, 128, length=length) for length in (9000, 3000))
    assert deep - shallow == 6000


def test_grids_are_expressions() -> None:
    names = {"M": 1000, "BLOCK_M": 128, "heads": 3}
    assert evaluated("cdiv(M, BLOCK_M) * heads", names) == 24
    assert evaluated("max(M // BLOCK_M, 1) + 2 - 1 % 2", names) == 8
    for wrong in ("cdiv(M, K)", "M /", "open('x')", "M / 2", "1.5", "M // (heads - 3)"):
        with pytest.raises(TwillError, match="can not be evaluated"):
            evaluated(wrong, names)


def test_an_empty_grid_is_an_error() -> None:
    with pytest.raises(TwillError, match="0 thread blocks"):
        gemm(0, 256, 512)
