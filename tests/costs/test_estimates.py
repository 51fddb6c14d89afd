"""Ranges of estimates in machine files, machines at their ends, and predictions that they allow."""

import re
from dataclasses import replace

import pytest

from tests.kernels.programs import loops, program
from twill.costs import machine as machines
from twill.costs.estimates import ends
from twill.diagnostics import TwillError
from twill.simulate.predict import allowed, predict

TEXT = (machines.folder() / "b200.toml").read_text(encoding="utf-8")
UNCOSTED = ("limits", "residency", "copies", "loads", "control")
"""Tables whose numbers are no time of an operation: they decide what is tried."""
GUESSED = r"estimate|taken over|to be calibrated|not measured"


@pytest.mark.parametrize("name", ["b200", "h200"])
def test_every_estimate_has_a_range(name: str) -> None:
    text = (machines.folder() / f"{name}.toml").read_text(encoding="utf-8")
    sections = re.findall(r"(?ms)^\[([\w.]+)\]\n(.*?)(?=^\[|\Z)", text)
    guessed = {
        name
        for name, text in sections
        if re.search(rf'(?m)^source = ".*({GUESSED})', text) and name not in UNCOSTED
    }
    assert len(guessed) > 20
    assert guessed == {name for name, text in sections if name in guessed and "\nbetween = {" in text}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("barrier = [46, 184]", "barrier = [100, 184]", "barrier = 92 must lie between"),
        ("barrier = [46, 184]", "barrier = [46]", "must lie between two numbers"),
        ("barrier = [46, 184]", "barriers = [46, 184]", "has no number 'barriers'"),
        ('"rate.tmem" = [64, 341.4]', '"rate.tmem" = [0, 341.4]', "above 0"),
        ('"rate.tmem" = [64, 341.4]', '"rate.alu" = [64, 341.4]', "has no number 'rate.alu'"),
    ],
)
def test_wrong_ranges_are_mistakes_at_their_place(old: str, new: str, message: str) -> None:
    with pytest.raises(TwillError, match=message) as error:
        machines.parse(TEXT.replace(old, new), "m.toml")
    assert error.value.location
    assert error.value.location.line == TEXT[: TEXT.index(old)].count("\n") + 1


def test_a_number_that_is_given_anew_has_no_range() -> None:
    text = 'schema = "twill.machine/1"\nbase = "b200"\nname = "mine"\n[handover]\npoll = 500\n'
    mine, base = machines.parse(text, "mine.toml"), machines.load("b200")
    assert set(base.between) - set(mine.between) == {("handover", "poll")}


def test_slow_is_more_cycles_and_fewer_things_per_cycle() -> None:
    slow, fast, *others = ends(machines.load("b200"))
    assert (slow.handover.poll, fast.handover.poll) == (110, 27)
    store, other = slow.costs["tmem_store"], fast.costs["tmem_store"]
    assert (store.rate["tmem"], other.rate["tmem"]) == (64, 341.4)
    assert (store.latency_rate, other.latency_rate) == (53.9, 170.7)
    assert (slow.units["issue"].capacity, fast.units["issue"].capacity) == (8, 10)
    one = next(found for found in others if found.handover == slow.handover)
    assert one.costs == machines.load("b200").costs


@pytest.mark.parametrize(
    ("kernel", "least", "most"),
    [("gemm.sm100", 512, 768), ("gemm_pairs.sm100", 512, 512), ("pointers.sm100", 512, 512)],
)
def test_what_estimates_allow(kernel: str, least: int, most: int) -> None:
    """A GEMM's 96 bytes per cycle may be more than L2 gives an SM; a pair needs 64 for each block."""
    ((_, found),) = allowed(program(kernel), loops(kernel)[1]).items()
    assert found == pytest.approx((least, most), rel=0.01)


def test_an_interval_contains_the_prediction() -> None:
    kernel = "biased.sm100"
    scheduled = loops(kernel)[1]
    ((path, (least, most)),) = allowed(program(kernel), scheduled).items()
    assert least < predict(program(kernel), scheduled).loops[path].interval < most


def test_no_prediction_beats_the_tensor_core() -> None:
    """A run whose middle begins late and ends early in an iteration: 492 cycles of MMAs that take 512."""
    kernel = "gemm_reduction_pairs.sm100"
    (one,) = loops(kernel)[1]
    slower = replace(one.machine.handover, barrier=184, poll=110)
    scheduled = replace(one, machine=replace(one.machine, handover=slower))
    assert predict(program(kernel), (scheduled,)).loops[one.loop.path].interval >= 512
