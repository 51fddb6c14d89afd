"""Rules SHARED and TENSOR: every value has fixed addresses, and no two that are live together overlap.

A value whose range fits one period may share its place with others at residues where it is dead. A longer one, a resident one and a
ring have places of their own. Addresses are order-encoded in units of `grain`, the greatest common divisor of all sizes.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from twill.ir.problem import Problem, Value
from twill.smt.boolean.formula import FALSE, TRUE, Addend, Formula, Lane
from twill.smt.boolean.groups import Groups
from twill.smt.boolean.ranges import Event, count, exceeds, latest_span
from twill.smt.boolean.starts import Starts

Memory = Literal["shared", "tensor"]


@dataclass(frozen=True, slots=True)
class Tenant:
    """One thing to place: a value, or the staging through which it passes to another group. Sizes in units of `grain`."""

    key: tuple[str, str, bool]
    """(value, memory, staging), as `twill.smt.decode` wants it."""
    grain: int
    size: int
    always: int
    """Places it takes whatever the schedule."""
    alive: int
    """Literal: it takes room at all."""
    alone: int
    """Literal: nothing shares its places."""
    live: Lane | None
    """Residues at which it is live; None where it is alone anyway."""
    extra: tuple[int, ...]
    """Chain: places beyond `always`."""
    address: Lane
    """address[k]: it lies at k * grain or higher; constants at both ends."""


def state(formula: Formula, problem: Problem, starts: Starts, groups: Groups) -> list[Tenant]:
    """Place everything in both memories."""
    return [
        *_allocate(formula, problem, starts, groups, "shared", problem.limits.shared),
        *_allocate(formula, problem, starts, groups, "tensor", problem.limits.tensor),
    ]


def read(tenants: list[Tenant], truth: NDArray[np.bool_]) -> dict[tuple[str, str, bool], int]:
    """Addresses of an assignment, in bytes or columns."""
    return {tenant.key: tenant.grain * int(truth[tenant.address[1:-1]].sum()) for tenant in tenants}


def _allocate(formula: Formula, problem: Problem, starts: Starts, groups: Groups, memory: Memory, capacity: int) -> list[Tenant]:
    wanted = list(_wanted(problem, memory))
    grain = math.gcd(*(size for _, size, _ in wanted)) or 1
    found = [
        _tenant(formula, problem, starts, groups, value, (value.id, memory, staging), grain, size // grain, capacity // grain)
        for value, size, staging in wanted
    ]
    tenants = [tenant for tenant in found if tenant is not None]
    _capacity(formula, tenants, capacity // grain)
    for i, above in enumerate(tenants):
        for below in tenants[:i]:
            _disjoint(formula, below, above)
    return tenants


def _wanted(problem: Problem, memory: Memory) -> Iterator[tuple[Value, int, bool]]:
    """Values with their sizes, and whether it is their staging."""
    for value in problem.values:
        if size := value.shared if memory == "shared" else value.tensor:
            yield value, size, False
        if memory == "shared" and value.staging:
            yield value, value.staging, True


def _tenant(
    formula: Formula,
    problem: Problem,
    starts: Starts,
    groups: Groups,
    value: Value,
    key: tuple[str, str, bool],
    grain: int,
    size: int,
    capacity: int,
) -> Tenant | None:
    """One tenant with its address; None where it does not fit, which its absence then has to prove."""
    src, staging = problem.index(value.src), key[2]
    ends = _ends(problem, starts, groups, value, staging)
    resident, slots = value.resident and not staging, 0 if staging else value.slots
    most = 1 + -(-latest_span(starts, [Event(src)], ends) // starts.interval)
    longer = [] if resident else [exceeds(formula, starts, src, ends, turn * starts.interval) for turn in range(most)]
    alive = TRUE if resident or slots else longer[0]
    always = slots or 1
    extra = [literal for literal in (longer if slots else longer[1:]) if literal != FALSE]
    for more, less in zip(extra[1:], extra, strict=False):
        formula.imply([more], less)
    if always * size > capacity:
        formula.imply([alive], FALSE)
        return None
    for literal in extra[capacity // size - always :]:
        formula.imply([literal], FALSE)
    extra = extra[: capacity // size - always]
    alone = TRUE if resident or slots else longer[1] if len(longer) > 1 else FALSE
    return Tenant(
        key, grain, size, always, alive, alone, None if alone == TRUE else _live(formula, starts, src, ends), tuple(extra),
        _address(formula, size, always, extra, capacity),
    )  # fmt: skip


def _ends(problem: Problem, starts: Starts, groups: Groups, value: Value, staging: bool) -> list[Event]:
    """Ends of the uses; of staging, those in another group."""
    src = problem.index(value.src)
    users = [(use, problem.index(use.op)) for use in value.uses]
    return [Event(op, use.distance * starts.interval + use.hold, (-groups.same(src, op),) if staging else ()) for use, op in users]


def _live(formula: Formula, starts: Starts, src: int, ends: list[Event]) -> Lane:
    lane = formula.fresh(starts.interval)
    count(formula, starts, [Event(src)], ends, [lane])
    return lane


def _address(formula: Formula, size: int, always: int, extra: list[int], capacity: int) -> Lane:
    highest = capacity - size * always
    line = np.concatenate(([TRUE], formula.fresh(highest), [FALSE])).astype(np.int32)
    formula.clause(-line[1:], line[:-1])
    for places, literal in enumerate(extra, 1):
        formula.imply([literal], int(-line[highest - size * places + 1]))
    return line


def _capacity(formula: Formula, tenants: list[Tenant], capacity: int) -> None:
    """What is live fits at every residue: implied by the addresses, and much sooner seen."""
    addends: list[Addend] = []
    for tenant in tenants:
        if tenant.live is None:
            capacity -= tenant.size * tenant.always
            addends.append(Addend((tenant.size,) * len(tenant.extra), tenant.extra))
        else:
            taken = formula.fresh(*tenant.live.shape)
            formula.imply([tenant.live], taken)
            formula.imply([tenant.alone], taken)
            addends.append(Addend((tenant.size,) * (1 + len(tenant.extra)), (taken, *tenant.extra)))
    formula.at_most(addends, capacity)


def _disjoint(formula: Formula, one: Tenant, other: Tenant) -> None:
    """Where both are live together, or one will not share, one lies below the other."""
    meets = formula.literal()
    if one.live is not None and other.live is not None:
        formula.imply([one.live, other.live], meets)
    formula.imply([one.alone, other.alive], meets)
    formula.imply([other.alone, one.alive], meets)
    below, above = formula.literal(), formula.literal()
    formula.imply([meets, -below], above)
    _below(formula, one, other, below)
    _below(formula, other, one, above)


def _below(formula: Formula, low: Tenant, high: Tenant, condition: int) -> None:
    """All places of `low` end where those of `high` begin, or sooner."""
    for places, taken in enumerate((TRUE, *low.extra), low.always):
        top = np.arange(len(low.address) - 1)
        clear = np.minimum(top + low.size * places, len(high.address) - 1)
        formula.imply([condition, taken, low.address[top]], high.address[clear])
