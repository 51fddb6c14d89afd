"""Every program keeps to the rules; a program that breaks one is refused, whichever it is."""

import re
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from tests.kernels.programs import CARRIED, EXAMPLES, FORMS, INVARIANT, loops, program
from twill.diagnostics import TwillError
from twill.ir.program import Program, WarpProgram
from twill.ir.statements import (
    SLICES,
    Compute,
    If,
    OrderBarrierArrive,
    OrderBarrierWait,
    Pipelined,
    ProducerLoad,
)
from twill.warp.validate import complaints, validate

KERNEL = "fa_fwd_subtiled"
"""It has channels of both kinds, hand-offs, and buffers of both kinds."""


@pytest.mark.parametrize("kernel", [*EXAMPLES, *FORMS, *CARRIED, *INVARIANT])
def test_generated_programs_keep_to_the_rules(kernel: str) -> None:
    limits = loops(kernel)[1][0].machine.limits
    assert list(complaints(program(kernel), limits)) == []


def channel(made: Program, at: int = 0, **changed: Any) -> Program:
    old = made.channels[at]
    return replace(made, channels=(*made.channels[:at], replace(old, **changed), *made.channels[at + 1 :]))


def group(made: Program, at: int = 1, **changed: Any) -> Program:
    return replace(
        made, groups=(*made.groups[:at], replace(made.groups[at], **changed), *made.groups[at + 1 :])
    )


def edited(made: Program, kind: type, edit: Callable[[Any], tuple[Any, ...]]) -> Program:
    """With `edit` applied to every statement of a kind."""

    def inside(statements: tuple[Any, ...]) -> tuple[Any, ...]:
        found = list[Any]()
        for one in statements:
            new = one
            if isinstance(one, Pipelined):
                new = replace(
                    one,
                    **{
                        part: inside(getattr(one, part))
                        for part in ("prologue", "steady", "epilogue", "short")
                    },
                )
            found += edit(new) if isinstance(new, kind) else [new]
        return tuple(found)

    return replace(made, groups=tuple(replace(one, body=inside(one.body)) for one in made.groups))


def order(made: Program, **changed: Any) -> Program:
    return replace(made, orders=(replace(made.orders[0], **changed), *made.orders[1:]))


MISTAKES: dict[str, tuple[Callable[[Program], Program], str]] = {
    "channels overlap": (lambda p: channel(p, 1, offset=p.channels[0].offset), "overlap in shared memory"),
    "a channel is too deep": (
        lambda p: channel(p, 0, depth=p.channels[0].depth + 40),
        "overlap|does not hold",
    ),
    "barriers in data": (
        lambda p: replace(p, shared=replace(p.shared, barriers=0)),
        "barriers and .* overlap|and the barriers overlap",
    ),
    "barriers out of memory": (
        lambda p: replace(p, shared=replace(p.shared, barriers=p.shared.bytes)),
        "does not hold the barriers",
    ),
    "too much memory": (
        lambda p: replace(p, shared=replace(p.shared, limit=p.shared.bytes + 1000)),
        "over the limit",
    ),
    "a buffer elsewhere": (
        lambda p: replace(
            p, buffers=tuple(replace(b, overlays=p.channels[-1].id, offset=1 << 20) for b in p.buffers)
        ),
        "is not in the slots of",
    ),
    "tiles overlap": (
        lambda p: channel(p, 0, tensors=(*p.channels[0].tensors, p.channels[0].tensors[0])),
        "tiles of channel .* overlap",
    ),
    "a tile too small": (
        lambda p: channel(p, 0, tensors=tuple(replace(t, bytes=t.bytes // 2) for t in p.channels[0].tensors)),
        "and needs",
    ),
    "not aligned": (lambda p: channel(p, 0, stride=p.channels[0].stride + 8), "not aligned"),
    "half the bytes": (
        lambda p: edited(p, ProducerLoad, lambda s: (replace(s, bytes=s.bytes // 2),)),
        "bytes are expected",
    ),
    "a load missing": (
        lambda p: edited(p, ProducerLoad, lambda s: (replace(s, loads=s.loads[1:]),)),
        "is not loaded whole",
    ),
    "nothing loaded": (lambda p: edited(p, ProducerLoad, lambda s: ()), "nothing fills channel"),
    "another producer": (lambda p: channel(p, 0, producer=1), "group 0 loads into channel"),
    "another consumer": (lambda p: channel(p, 0, consumers=(0,)), "consumes channel|never waits for channel"),
    "warps shared": (lambda p: group(p, first_warp=p.groups[2].first_warp), "share warps"),
    "no warpgroup": (
        lambda p: group(p, first_warp=p.groups[1].first_warp + 1),
        "share warps|begin and end with warpgroups",
    ),
    "too many threads": (
        lambda p: replace(p, launch=replace(p.launch, threads=1152, entry_registers=56)),
        "1152 threads, which are more than 1024",
    ),
    "too few threads": (
        lambda p: replace(p, launch=replace(p.launch, threads=p.launch.threads - 128)),
        "does not hold all groups",
    ),
    "too many registers": (lambda p: group(p, registers=256), "are granted"),
    "registers by ones": (lambda p: group(p, registers=p.groups[1].registers - 1), "are granted"),
    "registers beyond the thread block's": (
        lambda p: replace(p, launch=replace(p.launch, entry_registers=p.launch.entry_registers - 8)),
        "are granted, of",
    ),
    "entry registers": (
        lambda p: replace(p, launch=replace(p.launch, entry_registers=255)),
        "registers for each of",
    ),
    "the number of a hand-off": (lambda p: order(p, barrier=0), "have the numbers"),
    "a number twice": (lambda p: replace(p, orders=(p.orders[0],) * 2), "have the numbers"),
    "too many barriers": (
        lambda p: replace(
            p, orders=tuple(replace(p.orders[0], barrier=i + 1, id=f"o{i}") for i in range(13))
        ),
        "16 named barriers are needed",
    ),
    "roles exchanged": (
        lambda p: order(p, signaller=p.orders[0].waiter, waiter=p.orders[0].signaller),
        "has the role of group",
    ),
    "a hand-off to itself": (lambda p: order(p, signaller=p.orders[0].waiter), "is between groups"),
    "never signalled": (lambda p: edited(p, OrderBarrierArrive, lambda s: ()), "never signals"),
    "never waited for": (lambda p: edited(p, OrderBarrierWait, lambda s: ()), "never waits for"),
    "no such buffer": (lambda p: replace(p, buffers=()), "there is no buffer"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_program_that_breaks_a_rule_is_refused(mistake: str) -> None:
    change, complaint = MISTAKES[mistake]
    made, limits = program(KERNEL), loops(KERNEL)[1][0].machine.limits
    found = [what for what, _ in complaints(change(made), limits)]
    assert any(re.search(complaint, what) for what in found), found
    with pytest.raises(TwillError, match="the generated program is wrong"):
        validate(change(made), limits)


def test_a_tile_is_read_only_as_far_as_it_is_computed() -> None:
    made, limits = program("masked"), loops("masked")[1][0].machine.limits
    less = edited(made, Compute, lambda s: (s,) if s.end < SLICES or not s.begin else ())
    found = [what for what, _ in complaints(less, limits)]
    assert any("is read before all of its slices are computed" in what for what in found), found


@pytest.mark.parametrize(
    ("parts", "right"), [((0, 6, 7, SLICES), True), ((0, 6, SLICES), True), ((0, 6), False)]
)
def test_an_accumulator_may_be_overwritten_slice_by_slice(parts: tuple[int, ...], right: bool) -> None:
    """A slice reads what is not overwritten yet; an MMA needs all of them."""
    made, limits = program("masked"), loops("masked")[1][0].machine.limits
    changed = list[Compute]()

    def divided(it: Compute) -> tuple[Compute, ...]:
        own = {one.register for one in it.writes} & {one.location for one in it.reads}
        if not own or (it.begin, it.end) != (0, SLICES):
            return (it,)
        changed.append(it)
        return tuple(replace(it, begin=begin, end=end) for begin, end in pairwise(parts))

    found = [what for what, _ in complaints(edited(made, Compute, divided), limits)]
    assert changed
    assert any("is read before all of its slices are computed" in what for what in found) != right


def test_groups_are_what_the_test_above_takes_them_for() -> None:
    made = program(KERNEL)
    assert [isinstance(one, WarpProgram) and one.warps >= 4 for one in made.groups] == [False, True, True]
    assert made.orders


def test_channels_lie_over_each_other_on_two_sides_of_an_if_alone() -> None:
    made, limits = program("forking"), loops("forking")[1][0].machine.limits
    spans = sorted((one.offset, one.offset + one.depth * one.stride) for one in made.channels)
    assert any(begin < end for (_, end), (begin, _) in pairwise(spans))
    assert list(complaints(made, limits)) == []
    flat = replace(made, groups=tuple(replace(one, body=unbranched(one.body)) for one in made.groups))
    assert any("overlap in shared memory" in what for what, _ in complaints(flat, limits))


def unbranched(statements: tuple[Any, ...]) -> tuple[Any, ...]:
    """Both sides of each `if`, one after the other."""
    return tuple(
        part
        for one in statements
        for part in (unbranched((*one.then, *one.otherwise)) if isinstance(one, If) else (one,))
    )
