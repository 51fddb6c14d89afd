"""What-if questions change what they say and nothing else."""

from dataclasses import replace

import pytest

from tests.samples import attention
from twill import whatif
from twill.diagnostics import TwillError
from twill.whatif import Pins, read_pins

PROBLEM = attention().problem


def test_limits() -> None:
    changed = whatif.limited(PROBLEM, groups=2, registers=128)
    assert (changed.limits.groups, changed.limits.registers_per_thread) == (2, 128)
    assert replace(changed, limits=PROBLEM.limits) == PROBLEM
    assert whatif.limited(PROBLEM) == PROBLEM
    assert whatif.limited(PROBLEM, tensor=0).limits.tensor == 0


def test_without_cross_group_each_sub_tile_stays_together_and_the_loads_apart() -> None:
    together = whatif.without_cross_group(PROBLEM).together
    assert sorted(map(len, together)) == [11, 11]
    assert {op for group in together for op in group} == {op.id for op in PROBLEM.operations} - {"k", "v"}


def test_latency_moves_the_readers_by_as_much() -> None:
    changed = whatif.with_latency(PROBLEM, "qk*", 600)
    assert [changed.operation(op).latency for op in ("qk0", "qk1", "pv0")] == [600, 600, 572]
    delays = {(e.src, e.dst): e.delay for e in changed.edges}
    assert delays["qk0", "rowmax0"] == 600
    assert delays["rowmax0", "m0"] == 110


def test_latency_by_name_reaches_all_of_a_kind() -> None:
    changed = whatif.with_latency(PROBLEM, "ttng.warp_group_dot", 512)
    assert {op.latency for op in changed.operations if op.name == "ttng.warp_group_dot"} == {512}


def test_unknown_operations_are_refused_with_a_suggestion() -> None:
    with pytest.raises(TwillError) as caught:
        whatif.with_latency(PROBLEM, "qk2", 1)
    assert "qk1" in str(caught.value)
    with pytest.raises(TwillError):
        whatif.pinned(PROBLEM, Pins({"nothing": 3}, ()))


def test_pins() -> None:
    pins = read_pins('{"starts": {"qk0": 7}, "groups": [["qk0", "p0"], ["qk1"]]}', "pins.json")
    changed = whatif.pinned(PROBLEM, pins)
    assert (changed.starts, changed.together, changed.apart) == (
        (("qk0", 7),),
        (("qk0", "p0"),),
        (("qk0", "qk1"),),
    )


@pytest.mark.parametrize("text", ['{"start": {}}', '{"starts": {"a": "x"}}', '{"groups": [1]}', "[]", "{"])
def test_malformed_pins_point_at_their_place(text: str) -> None:
    with pytest.raises(TwillError) as caught:
        read_pins(text, "pins.json")
    assert caught.value.location is not None
