"""Rules SHARED and TENSOR, but for addresses: the memory in use fits at every residue.

A value whose range fits one period may share its address with others at residues where it is dead. A longer
one, a resident one and a multi-buffered one have slots of their own.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from twill.engine.boolean.formula import FALSE, TRUE, Addend, Formula, Lane
from twill.engine.boolean.groups import Groups
from twill.engine.boolean.ranges import Event, count, exceeds, latest_span
from twill.engine.boolean.starts import Starts
from twill.ir.problem import Problem, Value

Memory = Literal["shared", "tensor"]

Key: TypeAlias = tuple[str, str, bool]
"""(value, memory, staging), as `twill.engine.decode` wants it."""


@dataclass(frozen=True, slots=True)
class Tenant:
    """One thing to allocate: a value, or the staging through which it passes to another group."""

    key: Key
    size: int
    """Of one slot, in units of the `grain` of its memory."""
    always: int
    """Places it takes whatever the schedule."""
    alive: int
    """Literal: it takes storage at all."""
    alone: int
    """Literal: nothing shares its slots."""
    live: Lane | None
    """Residues at which it is live; None where it is alone anyway."""
    extra: tuple[int, ...]
    """Chain: slots beyond `always`."""


@dataclass(frozen=True, slots=True)
class Lodging:
    """All tenants of one memory. Sizes count in units of `grain`, the greatest common divisor of all
    sizes."""

    grain: int
    capacity: int
    tenants: tuple[Tenant, ...]


def state(formula: Formula, problem: Problem, starts: Starts, groups: Groups) -> tuple[Lodging, ...]:
    """What is live fits both memories at every residue."""
    shared = _lodging(formula, problem, starts, groups, "shared", problem.limits.shared)
    tensor = _lodging(formula, problem, starts, groups, "tensor", problem.limits.tensor)
    for lodging in (shared, tensor):
        _capacity(formula, lodging)
    return shared, tensor


def wanted(problem: Problem, memory: Memory) -> Iterator[tuple[Value, int, bool]]:
    """Values that may take storage there, with the size of one slot, and whether it is for their staging."""
    for value in problem.values:
        if size := value.shared if memory == "shared" else value.tensor:
            yield value, size, False
        if memory == "shared" and value.staging:
            yield value, value.staging, True


def _lodging(
    formula: Formula, problem: Problem, starts: Starts, groups: Groups, memory: Memory, capacity: int
) -> Lodging:
    grain = math.gcd(*(size for _, size, _ in wanted(problem, memory))) or 1
    tenants = [
        _Applicant(formula, problem, starts, groups, value, staging).admit(
            (value.id, memory, staging), size // grain, capacity // grain
        )
        for value, size, staging in wanted(problem, memory)
    ]
    return Lodging(grain, capacity // grain, tuple(tenant for tenant in tenants if tenant is not None))


@dataclass(frozen=True, slots=True)
class _Applicant:
    """A value, or its staging, of which it is open how many slots it takes."""

    formula: Formula
    problem: Problem
    starts: Starts
    groups: Groups
    value: Value
    staging: bool

    @property
    def src(self) -> int:
        return self.problem.index(self.value.src)

    @property
    def pinned(self) -> bool:
        """Takes storage whatever the schedule, and shares it with nothing."""
        return not self.staging and (self.value.resident or self.value.slots > 0)

    def admit(self, key: Key, size: int, capacity: int) -> Tenant | None:
        """The tenant; None where it does not fit, so that it must not be live."""
        ends = self.ends()
        longer = self.periods(ends)
        alive = TRUE if self.pinned else longer[0]
        always = 1 if self.staging else self.value.slots or 1
        most = capacity // size
        if always > most:
            self.formula.imply([alive], FALSE)
            return None
        extra = longer if self.pinned else longer[1:]
        for literal in extra[most - always :]:
            self.formula.imply([literal], FALSE)
        alone = TRUE if self.pinned else longer[1] if len(longer) > 1 else FALSE
        return Tenant(
            key,
            size,
            always,
            alive,
            alone,
            None if self.pinned else self.live(ends),
            tuple(extra[: most - always]),
        )

    def ends(self) -> list[Event]:
        """Ends of the uses; of staging, those in another group."""
        users = [(use, self.problem.index(use.op)) for use in self.value.uses]
        period = self.starts.interval
        return [
            Event(
                op,
                use.distance * period + use.hold,
                (-self.groups.same(self.src, op),) if self.staging else (),
            )
            for use, op in users
        ]

    def periods(self, ends: list[Event]) -> list[int]:
        """Chain: the range is longer than 0, 1, 2, ... periods; a resident value has one slot all the
        same."""
        if self.pinned and not self.value.slots:
            return []
        most = -(-latest_span(self.starts, [Event(self.src)], ends) // self.starts.interval)
        chain = [
            exceeds(self.formula, self.starts, self.src, ends, period * self.starts.interval)
            for period in range(most)
        ] or [FALSE]
        for more, less in zip(chain[1:], chain, strict=False):
            self.formula.imply([more], less)
        return chain

    def live(self, ends: list[Event]) -> Lane:
        lane = self.formula.fresh(self.starts.interval)
        count(self.formula, self.starts, [Event(self.src)], ends, [lane])
        return lane


def _capacity(formula: Formula, lodging: Lodging) -> None:
    """Implied by the addresses where there are some, and much sooner seen."""
    capacity, addends = lodging.capacity, list[Addend]()
    for tenant in lodging.tenants:
        if tenant.live is None:
            capacity -= tenant.size * tenant.always
            addends.append(Addend((tenant.size,) * len(tenant.extra), tenant.extra))
        else:
            taken = formula.fresh(*tenant.live.shape)
            formula.imply([tenant.live], taken)
            formula.imply([tenant.alone], taken)
            addends.append(Addend((tenant.size,) * (1 + len(tenant.extra)), (taken, *tenant.extra)))
    formula.at_most(addends, capacity)
