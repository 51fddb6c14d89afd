"""Channels that one group uses one after the other lie at the same addresses."""

import shutil
from dataclasses import replace
from functools import cache
from itertools import combinations

import pytest

from tests.kernels.programs import loops, program
from twill.emulate.check import check as executed
from twill.generation.generate import generate
from twill.generation.generated import Generated, GenerateOptions
from twill.inputs import Inputs
from twill.ir.channels import Channel
from twill.ir.program import Program
from twill.warp.footprint import Footprint
from twill.warp.plan import Options
from twill.warp.validate import complaints

SUCCEEDING, SIDES = "surrounded", "forking"
"""MMAs before a loop, in it, and behind it; two loops, of which a thread block executes one."""


@cache
def _made(kernel: str) -> Generated:
    inputs = Inputs(f"tests/kernels/ttgir/{kernel}.sm90.ttgir", arch="sm90")
    return generate(inputs, GenerateOptions(time_limit=4.0, check=False, lowering=Options(multistage=True)))


def _overlapping(made: Program) -> list[tuple[Channel, Channel]]:
    def end(one: Channel) -> int:
        return one.offset + one.depth * one.stride

    pairs = combinations(made.channels, 2)
    return [(one, other) for one, other in pairs if one.offset < end(other) and other.offset < end(one)]


def test_what_is_used_later_lies_where_the_first_was() -> None:
    made = _made(SUCCEEDING).program
    assert len(made.groups) == 1
    assert _overlapping(made)
    limits = loops(SUCCEEDING)[1][0].machine.limits
    assert list(complaints(made, limits)) == []
    again = replace(made.groups[0], body=made.groups[0].body * 2)
    assert any(
        "overlap in shared memory" in what for what, _ in complaints(replace(made, groups=(again,)), limits)
    )


def test_groups_beside_each_other_have_memory_of_their_own() -> None:
    made = program(SUCCEEDING)
    assert len(made.groups) > 1
    assert not _overlapping(made)


@pytest.mark.skipif(not shutil.which("nvcc"), reason="needs nvcc")
@pytest.mark.parametrize("kernel", [SUCCEEDING, SIDES])
def test_all_warps_have_read_what_lay_there(kernel: str) -> None:
    """A barrier stands before what fills the memory again, and the values are right."""
    made = _made(kernel)
    lines = [line.strip() for line in made.cuda.split("\n")]
    after = [lines[at + 1 : at + 3] for at, line in enumerate(lines) if line == "fence_async_shared();"]
    waits = [two for two in after if two[0].startswith("named_barrier_sync") and two[1] == "#pragma unroll 1"]
    assert waits
    assert executed(made.program, made.loops, made.cuda, lambda what: None).values > 1000


def test_each_lies_as_low_as_those_allow_that_are_in_use() -> None:
    times = {"a": (0, 5), "b": (1, 2), "c": (3, 4), "d": (6, 9), "e": (4, 8)}
    lying = Footprint(dict.fromkeys(times, ()), {}, times)
    begins, end = lying.addresses({"a": 8, "b": 16, "c": 4, "d": 2, "e": 4})
    assert begins == {"a": 0, "b": 8, "c": 8, "e": 12, "d": 0}
    assert end == 24
