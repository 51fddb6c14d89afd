"""Profiles against counting instances one by one; and what a solution takes against what the verifier says it
needs."""

import random

import pytest

from tests.samples import attention, figure1
from twill.report import facts
from twill.report.facts import Live


@pytest.mark.parametrize("seed", range(30))
def test_a_profile_counts_live_instances(seed: int) -> None:
    random.seed(seed)
    interval = random.randint(1, 12)
    ranges = [
        Live("v", None, start, start + random.randint(0, 3 * interval), random.randint(1, 9))
        for start in (random.randint(0, 2 * interval) for _ in range(5))
    ]
    curve = facts.profile("all", ranges, interval, 0)
    ends = (*curve.times[1:], interval)
    for start, end, level in zip(curve.times, ends, curve.levels, strict=True):
        for time in range(start, end):
            assert level == sum(
                item.size * sum(item.start <= time + k * interval < item.end for k in range(-10, 20))
                for item in ranges
            )


def test_registers_are_what_the_groups_are_granted() -> None:
    result = attention()
    assert result.solution
    needed = {p.name: p.peak for p in facts.register_profiles(result.problem, result.solution)}
    assert needed == {"group 0": 0, "group 1": 160, "group 2": 160}


def test_a_ring_takes_its_slots_all_the_time() -> None:
    result = attention()
    assert result.solution
    (shared,) = facts.memory_profiles(result.problem, result.solution)
    assert shared.peak == 32768 * 4  # one K in use and one ahead, two V
    assert min(shared.levels) >= 32768


def test_utilization_of_figure_1() -> None:
    result = figure1()
    assert result.solution
    used = {u.unit: u.fraction for u in facts.utilization(result.problem, result.solution)}
    assert used == {"TC": 1.0, "SFU": 0.5}
    assert result.solution.stages == 2
