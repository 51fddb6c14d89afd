"""The best of the kernels that are tried in place of one that ptxas warns of.

`best_retry` takes that kernel and what `retries` gives; returns the first without warnings that is about as
fast, or the best that it finds in its time.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import takewhile
from math import inf

from twill.diagnostics import TwillError
from twill.engine.clock import own_clock
from twill.generation.builds.retries import Retry
from twill.generation.builds.spills import (
    COST_OF_LITTLE,
    Compiled,
    compiled,
    in_fewer_registers,
    least_spilled,
    spills_little,
    with_tiles_in_shared,
)
from twill.generation.generated import Generated, pace_of_sm
from twill.launch.build import severity, unbuilt

RETRIES = 5
"""Time limits for each loop after which no other kernel is searched for ..."""


FOUND = 2
"""... and the same where there is one without warnings, which may take longer than the kernel with them."""


NEAR = 1.5
"""How many times as long that one takes at most (estimate)."""


BUILT = 3.0
"""Seconds that lowering, simulating and building another kernel count for (about what they take)."""


LESS = 2
"""How many times as much a kernel must spill for another one that spills too, and is as fast, to be taken."""


def best_retry(
    first: Compiled,
    retries: Iterable[Retry],
    seconds: float,
    report: Callable[[str], None],
    checked: Callable[[Compiled], Generated | None],
    roomy: Callable[[Compiled], Compiled] = lambda built: built,
    in_shared: Callable[[Compiled], Compiled] = with_tiles_in_shared,
) -> Generated | None:
    """The first kernel without warnings that takes about as many simulated cycles as `first`, which has them;
    otherwise the fastest that is found in FOUND, or else RETRIES, times so many seconds. What needs no
    search is tried in any case. So is the kernel itself with tiles `in_shared` memory, in place of those that
    take longer or spill. If all have warnings, that which spills least of those as fast as `first`, if
    that is at most half (LESS), or of all if `first` is not built. Only what may be taken is checked."""
    clock, before, found = own_clock(), pace_of_sm(first.made), list[tuple[float, Compiled]]()
    began, spilling = clock.mark(), list[Compiled]()
    for retry in retries:
        near = any(pace <= NEAR * before for pace, _ in found)
        limit = seconds * (FOUND if near else RETRIES)
        if retry.searches and clock.left(limit, began) <= 0:
            continue
        report(retry.what)
        clock.count(BUILT)
        built = tried(retry, min((pace for pace, _ in found), default=inf))
        if built is None:
            continue
        built = roomy(built)
        pace = retry.counted * pace_of_sm(built.made)
        if spills_little(built) and _far_less(built, first):
            found.append((COST_OF_LITTLE * pace, built))
        elif built.said:
            spilling += [built] if (pace <= before or unbuilt(first.said)) and _far_less(built, first) else []
        elif pace > retry.close * before:
            found.append((pace, built))
        elif right_one := checked(built):
            return right_one
    kept = in_shared(first)
    found += [] if kept.said else [(pace_of_sm(kept.made), kept)]
    least = sorted(spilling, key=lambda one: severity(one.said))
    in_order = [*(one for _, one in sorted(found, key=lambda one: one[0])), *least]
    picks = _without_spills(first, kept, in_order)
    return next((right_one for one in picks if (right_one := checked(one))), None)


def _without_spills(first: Compiled, kept: Compiled, in_order: Sequence[Compiled]) -> Iterator[Compiled]:
    """The kernels in their order. Where the first of them spills, those that spill `LITTLE` and do not in
    fewer registers come before it, `first` too; it is `kept` with tiles in shared memory otherwise."""
    if in_order and not in_order[0].said:
        yield from in_order
        return
    spilling, spared = list(takewhile(lambda one: one.said, in_order)), list[Compiled]()
    for one in (first, *spilling):
        other = in_fewer_registers(one) if spills_little(one) else kept if one is first else one
        if not other.said:
            yield other
        spared.append(other)
    again, *others = spared
    yield from others
    yield from in_order[len(spilling) :]
    if again is not first:
        yield again


def _far_less(built: Compiled, first: Compiled) -> bool:
    """Whether a kernel with warnings has so few that it comes before another one: as many as that one has are
    no reason to take it. Any kernel comes before one that ptxas does not build."""
    if unbuilt(first.said):
        return not unbuilt(built.said)
    (others, spilled), (others_of_first, spilled_by_first) = severity(built.said), severity(first.said)
    fewer = others < others_of_first or spilled < spilled_by_first
    return fewer and others <= others_of_first and LESS * spilled <= spilled_by_first


def tried(retry: Retry, fastest: float) -> Compiled | None:
    """The kernel in the way that ptxas spills least; None where that is not possible, or it is not faster."""
    try:
        other = retry.make(min(retry.slowest, fastest))
        pace = pace_of_sm(other)
        if pace > retry.slowest or pace >= fastest:
            return None
        return least_spilled(compiled(other, (retry.why,), retry.what))
    except TwillError:
        return None
