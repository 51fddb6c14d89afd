"""Whether a kernel's rows are divided into sub-tiles, where the user does not say.

Takes `Inputs` and the loops with whole tiles; gives the loops with sub-tiles where their lower bounds allow
fewer cycles, or searches for both (`searched`). Registers are what whole tiles lack most often: an
accumulator and scores of 128 rows leave no room for a second iteration.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import compress
from math import ceil, floor, inf, isfinite

from twill.diagnostics import TwillError
from twill.engine.clock import Mark, own_clock
from twill.engine.probe import Feasible, Refuted, Unknown
from twill.explain import Change
from twill.extract.rewrite.text.makers import Makers, makers_of
from twill.inputs import Case, Inputs, cases, shares_of
from twill.ir.loop import Tensor, Value
from twill.ir.schedule import WARPGROUP, Result, Solution
from twill.ir.search import Options, Progress
from twill.modulo.bounds import bounds
from twill.ops.table import role
from twill.pipeline import Begun, begun, soon, up_to

COUNT = 2
"""Sub-tiles that are tried."""
MORE_WARPS = 8
"""Warps that hold tiles where four have too few registers: two warpgroups."""
SPILLS = (2, 4, 16)
"""How many times the registers of a thread tiles may take where no loop has a schedule with less, in this
order."""
GAIN = 0.98
"""Sub-tiles are taken where the loops take at most this part of the cycles: a further group has barriers of
its own, which the schedule does not count (estimate)."""


REACHING = 0.25
"""Part of the time limit for whether whole tiles can be as fast as sub-tiles."""

OTHER = 0.5
"""Part of what is left of the time limit for the form that is searched last."""

Solve = Callable[[Case, Options, Begun | None], Result]
"""The search for one loop, from what is known of it."""

Told = Callable[[str, Progress], None]
"""Takes the events of all searches, with the names of the loops."""


@dataclass(frozen=True, slots=True)
class Searched:
    """The form of a kernel that takes fewer cycles."""

    subtile: int | None
    """Sub-tiles; None for what the inputs say."""
    results: tuple[Result, ...]
    note: str = ""
    alone: bool = False
    """The other form was not searched: it is proven to be slower."""


@dataclass(frozen=True, slots=True)
class _Search:
    """How the loops of both forms are searched, within one time limit for each loop."""

    options: Options
    solve: Solve
    told: Told
    counted: tuple[bool, ...]
    """Whether the cycles of each loop count."""
    began: Mark

    @property
    def spent(self) -> float:
        """Seconds of each loop's time limit that are gone."""
        return own_clock().since(self.began) / len(self.counted)

    def within(self, seconds: float) -> Options:
        """The options of a search that ends when so much of each loop's time limit is gone."""
        return replace(self.options, reserved=max(0.0, self.options.time_limit - seconds))

    def solved(self, found: Sequence[Case], known: Sequence[Begun], seconds: float) -> tuple[Result, ...]:
        """The results of all loops when so much of each one's time limit is gone."""
        options, spent = self.within(seconds), self.spent
        return tuple(
            self.solve(case, case.searched(options), replace(one, spent=spent))
            for case, one in zip(found, known, strict=True)
        )


def searched(inputs: Inputs, whole: Sequence[Case], options: Options, solve: Solve, told: Told) -> Searched:
    """Schedules for whole tiles or for sub-tiles, whichever take fewer cycles.

    Where no whole tiles are soon found that are as fast as sub-tiles at their lower bounds, sub-tiles are
    searched first. All there is to prove of whole tiles then is that they take too long beside what was
    found, if that is not at its bound; their best schedule is only looked for where that is not proven.
    """
    search = _Search(options, solve, told, _counted(whole), own_clock().mark())
    known = _begun(whole, search)
    parts = () if _met(known, search) else _parts(inputs, whole)
    if parts:
        known = _soon(whole, known, search)
    if not parts or _met(known, search):
        return Searched(None, search.solved(whole, known, options.time_limit))
    fast = _fast(whole, _bounded(parts), search)
    if isinstance(fast, tuple):
        return _whole_first(whole, parts, list(map(_from, known, fast)), search)
    left = 1 - REACHING if isinstance(fast, Refuted) else OTHER
    return _sub_tiles_first(whole, parts, known, search, left)


def _whole_first(
    whole: Sequence[Case], parts: Sequence[Case], known: Sequence[Begun], search: _Search
) -> Searched:
    """Both forms are searched for their best schedules, sub-tiles where their bounds allow fewer cycles."""
    results = search.solved(whole, known, _shared(search, OTHER))
    if not _worth_it(parts, results):
        return Searched(None, results)
    divided = search.solved(parts, _begun(parts, search), search.options.time_limit)
    return _taken(results, divided, search.counted)


def _sub_tiles_first(
    whole: Sequence[Case], parts: Sequence[Case], known: Sequence[Begun], search: _Search, left: float
) -> Searched:
    """Whole tiles are only searched where they may be faster than the sub-tiles that were found. `left`: part
    of what is left of the time limit for sub-tiles."""
    at_bound = _soon(parts, _begun(parts, search), search)
    if _met(at_bound, search):  # nothing is faster
        left = 1
    divided = search.solved(parts, at_bound, _shared(search, left))
    taken = cycles(divided, search.counted)
    sure = all(result.status == "optimal" for result in compress(divided, search.counted))
    fast = _fast(whole, taken, search) if _bounded(parts) < taken < inf else Unknown()
    if taken < inf and not isinstance(fast, tuple) and (sure or isinstance(fast, Refuted)):
        said = note(taken, inf, within=_within(taken))
        return Searched(COUNT, divided, said, alone=True)
    known = list(map(_from, known, fast)) if isinstance(fast, tuple) else known
    results = search.solved(whole, known, search.options.time_limit)
    return _taken(results, divided, search.counted)


def _taken(whole: tuple[Result, ...], divided: tuple[Result, ...], counted: Sequence[bool]) -> Searched:
    fewer, before = cycles(divided, counted), cycles(whole, counted)
    if not better(fewer, before):
        return Searched(None, whole)
    return Searched(COUNT, divided, note(fewer, before))


def _shared(search: _Search, part: float) -> float:
    """What is gone of each loop's time limit when this part of what is left is."""
    return search.spent + part * max(0.0, search.options.time_limit - search.spent)


def _from(known: Begun, found: Solution | None) -> Begun:
    return known if known.made or found is None else replace(known, made=found)


def _begun(found: Sequence[Case], search: _Search) -> list[Begun]:
    return [
        begun(case.problem, case.searched(search.options), partial(search.told, case.name), search.spent)
        for case in found
    ]


def _soon(found: Sequence[Case], known: Sequence[Begun], search: _Search) -> list[Begun]:
    """What is known with what is found at once, up to the first loop without a schedule at its bound."""
    more = list(known)
    for i, case in enumerate(found):
        options = case.searched(search.options)
        more[i] = soon(case.problem, options, partial(search.told, case.name), known[i])
        if not more[i].at_bound:
            break
    return more


def _counted(found: Sequence[Case]) -> tuple[bool, ...]:
    """Whether the cycles of each loop decide on the form: not those of a loop with few iterations beside
    others, whose time is mostly that of one iteration, not of intervals."""
    return tuple(share == 1 for share in shares_of(found))


def _met(known: Sequence[Begun], search: _Search) -> bool:
    """Whether all loops that count are at their lower bounds."""
    return all(one.at_bound for one in compress(known, search.counted))


def _bounded(parts: Sequence[Case]) -> float:
    """Cycles of an iteration of each loop at the lower bounds."""
    return sum(bounds(part.problem).value * _unit(part) for part in compress(parts, _counted(parts)))


def _within(divided: float) -> int:
    """Cycles that whole tiles may take to be taken instead of sub-tiles."""
    return ceil(divided / GAIN) - 1


def divided(inputs: Inputs, whole: Sequence[Case], results: Sequence[Result]) -> tuple[Case, ...]:
    """The loops with sub-tiles; none where the user has decided, rows can not be divided, or whole tiles are
    as good by the bounds."""
    met = _at_bounds(results, _counted(whole))
    found = () if met else _parts(inputs, whole)
    return found if _worth_it(found, results) else ()


def _at_bounds(results: Iterable[Result], counted: Sequence[bool]) -> bool:
    """The same as `_met` of what was found."""
    return all(
        result.solution and result.solution.interval <= result.bounds.value
        for result in compress(results, counted)
    )


def _worth_it(parts: Sequence[Case], results: Sequence[Result]) -> bool:
    """Whether sub-tiles may be faster than what was found of whole tiles."""
    counted = _counted(parts)
    return not _at_bounds(results, counted) and better(_bounded(parts), cycles(results, counted))


def _parts(inputs: Inputs, whole: Sequence[Case]) -> tuple[Case, ...]:
    """The loops with sub-tiles; none where the user has decided, rows can not be divided, or dividing them
    has no sense."""
    if inputs.subtile is not None or inputs.pins is not None or any(case.module is None for case in whole):
        return ()
    if any(map(apart_already, whole)):
        return ()
    try:
        return cases(replace(inputs, subtile=COUNT))
    except TwillError:
        return ()


def apart_already(case: Case) -> bool:
    """Whether the rows of whole tiles are gathered by threads for as many warpgroups as there would be
    sub-tiles. These run apart as they are, which no interval counts, and sub-tiles would make the threads
    fill more channels. (Fused MoE in fp8 on an H200: 0.464 ms, 0.504 with sub-tiles, whose interval is 660
    instead of 945.)"""
    if case.loop is None or case.module is None or case.module.num_warps < WARPGROUP * COUNT:
        return False
    makers = makers_of(case.loop.function.walk())
    loads = (op for op in case.loop.op.inner() if role(op) == "pointer_load")
    tiles = (op for op in loads if isinstance(op.result.type, Tensor) and len(op.result.type.shape) == 2)
    return any(_indexed(makers, op.operands[0]) for op in tiles)


def _indexed(makers: Makers, pointer: Value) -> bool:
    """Whether addresses follow from a tile that is loaded."""
    waiting, seen = [pointer], set[int]()
    while waiting:
        op = makers.by_value.get(waiting.pop().id)
        if op is None or op.index in seen:
            continue
        if role(op) == "pointer_load" and isinstance(op.result.type, Tensor):
            return True
        seen.add(op.index)
        waiting += op.operands
    return False


def _unit(case: Case) -> float:
    return case.problem.resolution.cycles_per_unit


def _fast(
    whole: Sequence[Case], divided: float, search: _Search
) -> tuple[Solution | None, ...] | Refuted | Unknown:
    """Schedules of whole tiles that are taken instead of sub-tiles that take `divided` cycles, all loops that
    count together; None for others."""
    options = search.within(REACHING * max(0.0, search.options.time_limit - search.spent))
    spare, fast = _within(divided) - _bounded(whole), list[Solution | None]()
    last = next(compress(reversed(whole), reversed(search.counted)))
    for case, counts in zip(whole, search.counted, strict=True):
        if not counts:
            fast.append(None)
            continue
        low, unit = bounds(case.problem).value, _unit(case)
        best, highest = case is not last, low + floor(spare / unit)
        told = partial(search.told, case.name)
        found = up_to(case.problem, highest, case.searched(options), told, best=best)
        if not isinstance(found, Feasible):
            return found
        fast.append(found.solution)
        spare -= (found.solution.interval - low) * unit
    return tuple(fast)


def change(inputs: Inputs, case: Case) -> tuple[Change, ...]:
    """Sub-tiles as a change that `twill explain` tries; none where rows can not be divided."""
    if inputs.subtile is not None or inputs.pins is not None or case.module is None:
        return ()
    try:
        found = {one.name: one.problem for one in cases(replace(inputs, subtile=COUNT))}
    except TwillError:
        return ()
    return (Change(f"whole tiles (--subtile {COUNT})", lambda problem: found[problem.name]),)


def cycles(results: Sequence[Result], counted: Sequence[bool]) -> float:
    """Of an iteration of each loop that counts, together; infinite where any loop has no schedule."""
    if any(result.solution is None for result in results):
        return inf
    return sum(
        result.solution.interval * result.problem.resolution.cycles_per_unit
        for result in compress(results, counted)
        if result.solution
    )


def better(divided: float, whole: float) -> bool:
    """Whether sub-tiles are taken, by the cycles of both; infinite where there is no schedule."""
    return isfinite(divided) and divided <= GAIN * whole


def note(divided: float, whole: float, *, within: float | None = None) -> str:
    """What is said of a kernel with sub-tiles; `within`: whole tiles were only tried up to so many cycles."""
    few = "" if within is None else f" of at most {within:.0f} cycles"
    before = f" instead of {whole:.0f}" if whole < inf else f", and none{few} was found for whole tiles"
    return (
        f"rows are divided into {COUNT} sub-tiles: {divided:.0f} cycles an iteration{before}"
        " (--subtile 1 keeps them whole)"
    )
