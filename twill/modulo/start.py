"""What is known of a problem before any solver runs: lower bounds, and limits that no schedule respects."""

from dataclasses import dataclass

from twill.ir.problem import Problem, Time
from twill.ir.schedule import Bounds, Reason, Refutation, Result, Solution
from twill.ir.search import IN_FLIGHT, Options
from twill.modulo.bounds import bounds, largest_needed, shortest_iteration
from twill.modulo.capacity import Shortage, shortages

MOST = 64
"""Iterations in flight beyond which the number is not raised by itself."""


@dataclass(frozen=True, slots=True)
class Start:
    """Intervals below `low` are refuted for any number of iterations in flight; if `top` does not work, no
    interval does."""

    bounds: Bounds
    low: Time
    top: Time
    refuted: tuple[Refutation, ...]
    shortages: tuple[Shortage, ...]
    shortest: Time
    """Cycles that the shortest possible iteration takes at `low`, and at most at larger intervals."""

    def max_in_flight(self, options: Options) -> int:
        """How many iterations in flight are considered at first."""
        return options.max_in_flight or max(IN_FLIGHT, min(-(-self.shortest // self.low) + 1, MOST))

    @property
    def infeasible(self) -> bool:
        return self.low > self.top

    def met(self, problem: Problem, options: Options, solution: Solution) -> Result:
        """The answer where a schedule is at `low`."""
        most = max(self.max_in_flight(options), solution.in_flight(problem))
        return Result(problem, "optimal", self.bounds, self.low, solution, self.refuted, max_in_flight=most)

    def undecided(self, problem: Problem, options: Options, note: str) -> Result:
        """The bounds alone."""
        most = self.max_in_flight(options)
        return Result(
            problem, "unknown", self.bounds, self.low, None, self.refuted, (), (note,), max_in_flight=most
        )

    def result(self, problem: Problem, options: Options) -> Result:
        """The answer where no interval works."""
        reasons = tuple(
            Reason(shortage.limit, shortage.text) for shortage in self.shortages if shortage.least is None
        )
        return Result(
            problem,
            "infeasible",
            self.bounds,
            self.low,
            None,
            self.refuted,
            reasons[:1],
            max_in_flight=self.max_in_flight(options),
        )


def start(problem: Problem, *, joint: bool = True) -> Start:
    """The bounds as refutations; without `joint`, those of plain modulo scheduling."""
    lower, short = bounds(problem, joint=joint), shortages(problem, joint=joint)
    low, top = lower.value, largest_needed(problem, lower.value)
    refuted: list[Refutation] = []
    if low > 1:
        refuted.append(Refutation(low - 1, None, bound_name(lower), 0.0, below=True))
    for shortage in short:
        excluded = top if shortage.least is None else shortage.least - 1
        if excluded >= low:
            refuted.append(Refutation(excluded, None, shortage.by, 0.0, below=True))
            low = excluded + 1
    shortest = shortest_iteration(problem, low, joint=joint)
    return Start(lower, low, top, tuple(refuted), short, shortest)


def bound_name(found: Bounds) -> str:
    """The bound that refutes everything below it."""
    if found.recurrence.value > found.resource.value:
        return f"RecMII {found.recurrence.circuit}"
    return f"ResMII {found.resource.unit}"
