"""What is made of measurements: numbers of ncu, cycles per iteration, text."""

from dataclasses import replace
from math import isnan

import pytest

from twill.bench.measure import Spread, spread
from twill.bench.page import text
from twill.bench.profile import CYCLES, INSTRUCTIONS, TENSOR_ACTIVE, Counted, _sections
from twill.bench.run import Measured, Report, Sample, Steady, Timed, _steady
from twill.launch.manifest import Manifest, Predicted

MANIFEST = Manifest(
    "k", "k.ttgir", 384, 240, (), (Predicted("k/for.0", 1024, 1030.0), Predicted("k/for.1", 500, 510.0))
)


def samples(*iterations: tuple[int, int]) -> list[Sample]:
    return [Sample(dict(zip(("k/for.0", "k/for.1"), counts, strict=True))) for counts in iterations]


def row(name: str, cycles: str, tensor: str) -> dict[str, str]:
    return {"name": name, CYCLES: cycles, TENSOR_ACTIVE: tensor, INSTRUCTIONS: "1,000"}


def test_kernels_between_marks_are_added_up() -> None:
    mark = row("at::cuda::spin_kernel", "9", "0")
    alone, head, body, unknown = (
        row("k", *pair) for pair in (("1,000", "80"), ("100", "0"), ("300", "100"), ("7", "n/a"))
    )
    one, two, last = _sections([mark, alone, mark, head, body, mark, mark, unknown, mark])
    assert one == Counted(1000, 80.0, 1000)
    assert two == Counted(400, 75.0, 2000, main=300)
    assert isnan(last.tensor)


def test_cycles_per_iteration_are_a_difference() -> None:
    (loop,) = _steady(MANIFEST, samples((16, 1), (256, 1)), (20_000, 266_000))
    assert loop == Steady("k/for.0", 1024, 1030.0, 1025.0, (16, 256))


def test_whole_grids_have_average_thread_blocks() -> None:
    """Twice as many thread blocks with twice as many iterations, of 1,000 cycles each and 500 besides."""
    one, two = (
        replace(found, blocks=blocks)
        for found, blocks in zip(samples((8, 1), (16, 1)), (10, 20), strict=True)
    )
    (loop,) = _steady(MANIFEST, (one, two), (10 * 8_500, 20 * 16_500))
    assert loop == Steady("k/for.0", 1024, 1030.0, 1000.0, (8, 16), grid=True)


def test_two_loops_at_once_are_not_told_apart() -> None:
    assert _steady(MANIFEST, samples((16, 1), (256, 2)), (1, 2)) == ()
    assert _steady(MANIFEST, (Sample({}), Sample({})), (1, 2)) == ()


def test_trip_counts_that_differ_little_tell_nothing() -> None:
    """As with a sliding window, whose loop has 8 iterations in short sequences and 9 in long ones."""
    assert _steady(MANIFEST, samples((8, 1), (9, 1)), (8_500, 9_500)) == ()


def test_spread() -> None:
    assert spread([4.0]) == Spread(4.0, 4.0, 4.0, (4.0,))
    assert spread([1.0, 2.0, 3.0, 4.0, 9.0]) == Spread(3.0, 2.0, 4.0, (1.0, 2.0, 3.0, 4.0, 9.0))


def test_a_report_in_words() -> None:
    own = Timed("twill", Spread(2.0, 1.9, 2.1), 500.0, Counted(3_000_000, 80.0, 1))
    peer = Timed("cudnn", Spread(3.0, 2.9, 3.1), 333.3, None)
    shown = text(
        Report(
            "k",
            (Measured({"n": 8}, {"o": 2e-4}, (own, peer), None),),
            (Steady("k/for.0", 1024, 1030.0, 1100.0, (1, 9)),),
            ("spilled",),
        )
    )
    assert "k n = 8: relative errors o 2.0e-04" in shown
    assert "twill is 1.500 times as fast" in shown
    assert "3.000 M cycles, tensor core 80.0%" in shown
    assert "1100 cycles per iteration measured, 1030 predicted (-6.4%)" in shown
    assert "warning: spilled" in shown
    assert Measured({}, {}, (own, peer), None).ratio("cudnn") == pytest.approx(1.5)
