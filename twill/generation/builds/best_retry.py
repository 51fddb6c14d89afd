"""The best of the kernels that are tried in place of one that ptxas warns of.

`best_retry` takes that kernel and what `retries` gives; returns the first without warnings that is about as
fast, or the best that it finds in its time.
"""

from collections.abc import Callable, Iterable
from math import inf

from twill.diagnostics import TwillError
from twill.engine.clock import own_clock
from twill.generation.builds.retries import (
    LONGEST,
    Retry,
)
from twill.generation.builds.spills import (
    COST_OF_LITTLE,
    Compiled,
    compiled,
    least_spilled,
    spills_little,
)
from twill.generation.generated import Generated, pace_of_sm
from twill.launch.build import severity, unbuilt

RETRIES = 5
"""Time limits for each loop after which no other kernel is searched for ..."""


FOUND = 2
"""... and the same where there is one without warnings, which may take longer than the kernel with them."""


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
) -> Generated | None:
    """The first kernel without warnings that takes about as many simulated cycles as `first`, which has them;
    otherwise the fastest that is found in FOUND, or else RETRIES, times so many seconds. What needs no
    search is tried in any case. If all have warnings, that which spills least of those as fast as `first`, if
    that is at most half (LESS), or of all if `first` is not built. Given schedules are not replaced where a
    kernel with them has no warnings; other ones are searched for as long as for one loop. Only what may be
    taken is checked."""
    clock, before, found = own_clock(), pace_of_sm(first.made), list[tuple[float, Compiled]]()
    began, spilling, sources = clock.mark(), list[Compiled](), set[str]()
    for retry in retries:
        if retry.replaces and any(not (built.said or built.made.replaced) for _, built in found):
            break
        limit = seconds * (FOUND if found else RETRIES)
        limit = min(limit, FOUND * LONGEST) if retry.replaces else limit
        if retry.searches and clock.left(limit, began) <= 0:
            continue
        report(retry.what)
        clock.count(BUILT)
        built = tried(retry, min((pace for pace, _ in found), default=inf), sources, first)
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
    least = sorted(spilling, key=lambda one: severity(one.said))
    in_order = [*(one for _, one in sorted(found, key=lambda one: one[0])), *least]
    return next((right_one for one in in_order if (right_one := checked(one))), None)


def _far_less(built: Compiled, first: Compiled) -> bool:
    """Whether a kernel with warnings has so few that it comes before another one: as many as that one has are
    no reason to take it. Any kernel comes before one that ptxas does not build."""
    if unbuilt(first.said):
        return not unbuilt(built.said)
    (others, spilled), (others_of_first, spilled_by_first) = severity(built.said), severity(first.said)
    fewer = others < others_of_first or spilled < spilled_by_first
    return fewer and others <= others_of_first and LESS * spilled <= spilled_by_first


def tried(
    retry: Retry, fastest: float, sources: set[str] | None = None, instead_of: Compiled | None = None
) -> Compiled | None:
    """The kernel in the way that ptxas spills least; None where that is not possible, it is not faster, or
    without given schedules its source is one of those tried before, to which it is added. What is tried
    briefly has no other registers where several groups spill more than the kernel `instead_of` which they
    are: they hardly spill less than half of it then. (fla's parallel linear attention: 188 bytes for 12, and
    seven runs of nvcc.)"""
    before = set[str]() if sources is None else sources
    try:
        other = retry.make(min(retry.slowest, fastest))
        pace = pace_of_sm(other)
        again = retry.replaces and other.cuda in before
        if pace > retry.slowest or pace >= fastest or again:
            return None
        before.add(other.cuda)
        built = compiled(other, (retry.why,), retry.what)
        brief = retry.briefly and instead_of is not None and _hopeless(built, instead_of)
        return built if brief else least_spilled(built)
    except TwillError:
        return None


def _hopeless(built: Compiled, first: Compiled) -> bool:
    """Whether several groups spill more than a kernel that spills, and ptxas builds that."""
    worse = severity(built.said) > severity(first.said)
    return worse and len(built.made.program.groups) > 1 and not unbuilt(first.said)
