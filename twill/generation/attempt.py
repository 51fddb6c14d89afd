"""One attempt at a kernel: schedules of its loops, the program that follows, and what is predicted of them.

`faster` takes the best attempt so far and the loops of another one, which is made where its lower bound does
not rule it out.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import inf
from operator import mul

from twill.diagnostics import TwillError
from twill.generation.choices.persistence import SHORT
from twill.generation.generated import Generated
from twill.inputs import Case, shares_of
from twill.ir.loop import shares
from twill.ir.machine import Residency
from twill.ir.problem import Problem
from twill.ir.program import Program
from twill.ir.schedule import Result
from twill.modulo.bounds import bounds, resource_bound
from twill.ops.table import role
from twill.warp import thread_block
from twill.warp.channels import constant_trips
from twill.warp.dataflow import read
from twill.warp.residency import continues
from twill.warp.tasks import Scheduled
from twill.warp.tiles_in_flight import tile_loop

SLACK = 1.3
"""How many times as long a schedule may take, at its lower bound, as what is predicted of the best so far. A
run may take fewer cycles than its schedule, which has the tensor core busy beside every operation: 0.83 of
the bound with waits inside of the exponentials of attention (simulated)."""


@dataclass(frozen=True, eq=False)
class Attempt:
    """Schedules of the loops, and the program that follows from them; predicted once, when first asked."""

    cases: tuple[Case, ...]
    program: Program
    loops: tuple[Scheduled, ...]
    results: Mapping[str, Result]
    dumps: Mapping[str, str]
    several: "Attempt | None" = None
    """The attempt with several groups that compute, in whose place this one has one group in each thread
    block; None where there is none."""
    least: Mapping[str, float] = field(default_factory=dict[str, float])
    """Machine cycles that an iteration of a loop takes at least, by its path, beside what is simulated."""

    @cached_property
    def intervals(self) -> Mapping[str, float]:
        """Predicted machine cycles of an iteration of each loop, by its path."""
        from twill.simulate.predict import intervals

        found = intervals(self.program, self.loops)
        return {path: max(cycles, self.least.get(path, 0.0)) for path, cycles in found.items()}

    def cycles(self) -> float:
        """Predicted machine cycles of an iteration of each loop, together, in their `shares`."""
        return sum(self.of_loops())

    def scheduled(self) -> float:
        """The same of the schedules."""
        intervals = [one.solution.interval * one.problem.resolution.cycles_per_unit for one in self.loops]
        return sum(self._shared(intervals))

    def of_loops(self) -> tuple[float, ...]:
        """What each loop adds to `cycles`."""
        return self._shared([self.intervals[one.loop.path] for one in self.loops])

    def _shared(self, cycles: Sequence[float]) -> tuple[float, ...]:
        return tuple(map(mul, shares([one.loop for one in self.loops]), cycles))

    def of_sm(self) -> float:
        """The same of an SM that several thread blocks share."""
        from twill.simulate.predict import shared_sm

        return shared_sm(self.intervals, self.program.resident_blocks, self.loops)

    def of_trips(self, trips: Mapping[int, int]) -> float:
        """Predicted machine cycles of an SM for a thread block whose loops have so many iterations, by the
        operation of the loop."""
        from twill.simulate.predict import time_of_sm

        return time_of_sm(self.program, self.loops, trips, self.intervals)


Solving = Callable[[Sequence[Case], int], Attempt]
"""Schedules loops and lowers them for so many thread blocks on an SM (`warp.plan.Options.room`). Raises
TwillError."""


def faster(
    best: tuple[Attempt, float],
    cases: Sequence[Case],
    attempt: Solving,
    cycles: Callable[[Attempt], float] = lambda one: one.cycles(),
    room: int = 1,
    limit: float = inf,
) -> tuple[Attempt, float]:
    """The best attempt so far, or one with these cases that is predicted to take fewer cycles, with these.
    What can hardly be faster, or take no more than `limit`, is not scheduled."""
    if cycles is Attempt.of_sm:
        least = least_of_sm(cases)
    else:
        least = in_shares(cases, list(map(_least_of_block, cases))) / SLACK
    if least > min(best[1], limit):
        return best
    try:
        other = attempt(cases, room)
        return min(best, (other, cycles(other)), key=lambda one: one[1])
    except TwillError:
        return best


def least_of_sm(cases: Sequence[Case]) -> float:
    """Machine cycles for which an iteration of each loop occupies the busiest unit of an SM at least, however
    its operations are implemented: a lower bound on `Attempt.of_sm`."""
    return in_shares(cases, [min(map(_busy, _variants(case))) for case in cases])


def in_shares(cases: Sequence[Case], cycles: Sequence[float]) -> float:
    """The sum of cycles of an iteration of each loop, in their `shares`."""
    return sum(map(mul, shares_of(cases), cycles))


def _variants(case: Case) -> tuple[Problem, ...]:
    """The problems that may be scheduled for a loop."""
    implemented = [case.problem.implemented(one.name) for one in case.problem.implementations]
    return (case.problem, *implemented, *([case.divided] if case.divided else []))


def _busy(problem: Problem) -> float:
    return resource_bound(problem).value * problem.resolution.cycles_per_unit


def _least_of_block(case: Case) -> float:
    """Machine cycles below which a loop has no schedule."""
    return bounds(case.problem).value * case.problem.resolution.cycles_per_unit


def time_of_sm(made: Generated) -> float:
    """Predicted machine cycles of an SM for a thread block of a kernel whose loops are known to be short,
    else for an iteration of each."""
    from twill.simulate import predict

    trips = trips_if_short(made.program, made.loops)
    return predict.time_of_sm(made.program, made.loops, trips, made.intervals)


def as_attempt(made: Generated) -> Attempt:
    """A kernel as the attempt that it comes from."""
    return Attempt(made.cases, made.program, made.loops, made.results, made.dumps)


def short_loops(first: Attempt) -> dict[int, int]:
    """The iterations of each loop, by its operation, where all are known to be short (at most so many); else
    none."""
    return trips_if_short(first.program, first.loops)


def trips_if_short(program: Program, loops: Sequence[Scheduled]) -> dict[int, int]:
    """The same of the loops of a program, where only the most is known as many."""
    code = read(program.module, program.function)
    trips = {
        one.loop.op.index: constant_trips(code, one.loop) or one.loop.most_trips or SHORT for one in loops
    }
    return trips if max(trips.values()) < SHORT else {}


def leaves_idle(one: Attempt, residency: Residency) -> bool:
    """Whether an SM is predicted to wait, rather than to have a unit that is always busy."""
    return one.of_sm() > residency.idle * busiest(one)


def busiest(one: Attempt) -> float:
    """Machine cycles for which an iteration of each loop occupies the busiest unit of an SM."""
    from twill.simulate.predict import busy, shared

    return shared(one.loops, list(map(busy, one.loops)))


def computing(first: Attempt) -> int:
    """Groups of a thread block that compute."""
    return sum(not thread_block.only_moves(group) for group in thread_block.granted(first.loops))


def walks(first: Attempt) -> bool:
    """Whether a thread block works on one tile after the other."""
    code = read(first.program.module, first.program.function)
    return tile_loop(code, first.loops) is not None and not continues(code, first.loops)


def mmas_of_warps_alone(one: Attempt) -> bool:
    """Whether it has MMAs of warps, and none of warpgroups."""
    roles = {role(op) for op in one.program.function.walk()}
    return "dot" in roles and "wgmma" not in roles
