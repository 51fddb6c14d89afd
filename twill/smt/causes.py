"""What alone keeps the interval above its bound, proven: a memory, or the registers, in numbers.

Takes projections that refuted an interval (`twill.smt.relax`); each speaks of one resource. Given more and
more of it, until the projection allows the bound, it says how much the bound needs at least: less is refuted
for every schedule, whatever the rest.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from twill.engine.probe import FEW
from twill.ir.problem import Limits, Problem, Time
from twill.ir.schedule import Reason
from twill.smt.relax import Projection

Refuted = Callable[[Problem, Time, int], bool]
"""Whether a problem is proven, in a share of work, to have no schedule of so many iterations in flight at an
interval."""

STEPS = 32
"""The most steps of more that are tried."""


@dataclass(frozen=True, slots=True)
class Amount:
    """One number of `Limits`, and its text."""

    field: str
    text: str
    step: Callable[[Limits], int]
    """A meaningful difference."""

    def has(self, limits: Limits) -> int:
        return getattr(limits, self.field)

    def more(self, problem: Problem, steps: int) -> Problem:
        limits = problem.limits
        return replace(
            problem, limits=replace(limits, **{self.field: self.has(limits) + steps * self.step(limits)})
        )


AMOUNTS = {
    "tensor memory": (Amount("tensor", "columns of tensor memory", lambda limits: limits.tensor // 16),),
    "registers": (
        Amount("registers_per_thread", "registers per thread", lambda limits: limits.register_step),
        Amount("registers_total", "registers per SM", lambda limits: limits.registers_total // 32),
    ),
}
"""What each projection is about."""


def cause(projection: Projection, worst: Time, target: Time, in_flight: int, refuted: Refuted) -> Reason:
    """Why `target` does not work with up to `in_flight` iterations in flight, of a projection that refutes
    all up to `worst`."""
    small = projection.at(target)
    limits = small.limits
    alone = f"alone excludes every interval up to {worst}"
    for amount in AMOUNTS[projection.name]:
        least = _least(small, target, amount, in_flight, refuted)
        if least:
            more = amount.has(amount.more(small, least).limits)
            return Reason(
                projection.name,
                f"{alone}: {target} needs at least {more} {amount.text}, has {amount.has(limits)}",
            )
    has = " or ".join(f"the {amount.has(limits)} {amount.text}" for amount in AMOUNTS[projection.name])
    return Reason(projection.name, f"{alone}; a little more than {has} would not be enough for {target}")


def _least(small: Problem, target: Time, amount: Amount, in_flight: int, refuted: Refuted) -> int | None:
    """Steps more, one less than which is refuted; None where all within reach are.

    Few iterations in flight, which are decided soon, locate the probe for all.
    """

    def below(high: int, flights: int) -> int:
        low = 0
        while low + 1 < high:
            middle = (low + high) // 2
            low, high = (
                (middle, high) if refuted(amount.more(small, middle), target, flights) else (low, middle)
            )
        return high

    few = min(FEW, in_flight)
    if refuted(amount.more(small, STEPS), target, few):
        return None if refuted(amount.more(small, STEPS), target, in_flight) else below(STEPS, in_flight)
    guess = below(STEPS, few)
    proven = guess == 1 or refuted(amount.more(small, guess - 1), target, in_flight)
    return guess if proven else below(guess - 1, in_flight)
