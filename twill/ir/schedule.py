"""Answers: a solution (numbers alone), and the result of a search with its evidence."""

from dataclasses import dataclass, field
from typing import Literal

from twill.ir.problem import Problem, Time

Status = Literal["optimal", "feasible", "infeasible", "unknown"]
"""optimal: the interval is the smallest, every smaller one refuted. feasible: an answer, a smaller interval
not excluded. infeasible: proven that no interval up to the search's end works. unknown: stopped at a limit
with no answer."""

WARPGROUP = 4
"""Warps that issue an MMA, change their registers and reach all lanes of tensor memory together (PTX ISA:
wgmma, setmaxnreg, tcgen05.ld)."""


@dataclass(frozen=True, slots=True)
class Group:
    """A set of warps running one program; `registers` per thread is what `setmaxnreg` grants."""

    id: int
    warps: int
    registers: int


@dataclass(frozen=True, slots=True)
class Allocation:
    """Where a value lies: `slots` adjacent slots of `size` from `address` on (bytes or columns); `staging`
    for a hand-off buffer."""

    value: str
    memory: Literal["shared", "tensor"]
    address: int
    size: int
    slots: int = 1
    staging: bool = False


@dataclass(frozen=True, slots=True)
class Solution:
    """Start times, group of every operation (parallel to `Problem.operations`), and where values lie.

    Without the joint rules (`--modulo-only`) `group` is all 0 and `groups`, `allocations` are empty.
    """

    interval: Time
    start: tuple[Time, ...]
    group: tuple[int, ...]
    groups: tuple[Group, ...] = ()
    allocations: tuple[Allocation, ...] = ()

    @property
    def stages(self) -> int:
        """Intervals in which operations of one iteration start."""
        return 1 + max(self.start, default=0) // self.interval

    def length(self, problem: Problem) -> Time:
        """L: from the first start to the end of the last operation of one iteration."""
        ends = (s + op.duration for s, op in zip(self.start, problem.operations, strict=True))
        return max(ends, default=0)

    def in_flight(self, problem: Problem) -> int:
        """n = ceil(L / I): iterations in flight."""
        return max(1, -(-self.length(problem) // self.interval))


@dataclass(frozen=True, slots=True)
class ResourceBound:
    """ResMII: no interval below `value`, because of `unit`."""

    unit: str | None
    value: Time


@dataclass(frozen=True, slots=True)
class RecurrenceBound:
    """RecMII: no interval below `value`, because of the circuit through `ops`."""

    value: Time
    ops: tuple[str, ...] = ()

    @property
    def circuit(self) -> str:
        """The circuit in words, back to its first operation; the middle of a long one is left out."""
        closed = (*self.ops, *self.ops[:1])
        if len(self.ops) <= SHOWN:
            return " -> ".join(closed)
        half = SHOWN // 2
        return " -> ".join((*closed[:half], f"({len(self.ops) - 2 * half + 1} more)", *closed[-half:]))


SHOWN = 24
"""Operations of a circuit that texts name."""


@dataclass(frozen=True, slots=True)
class Bounds:
    resource: ResourceBound
    recurrence: RecurrenceBound

    @property
    def value(self) -> Time:
        """The larger of both; at least 1."""
        return max(1, self.resource.value, self.recurrence.value)


@dataclass(frozen=True, slots=True)
class Refutation:
    """Proof by `by` (an engine or a bound) that no schedule of length <= max_in_flight * interval exists at
    `interval`.

    `max_in_flight` None: whatever the length. `below` says that every smaller interval is refuted by it too
    (monotone problems).
    """

    interval: Time
    max_in_flight: int | None
    by: str
    seconds: float
    below: bool = False


@dataclass(frozen=True, slots=True)
class Considered:
    """Another implementation than the answer's: no interval below `proved` works, as `by` shows."""

    implementation: str
    proved: Time
    by: str


@dataclass(frozen=True, slots=True)
class Reason:
    """A constraint family that keeps the interval above the bound, as text with numbers."""

    family: str
    text: str

    @property
    def way_out(self) -> str | None:
        """What makes room where it excludes every interval; None where nothing general does."""
        return _WAYS_OUT.get(self.family)


_WAYS_OUT = {
    "registers": "make the kernel's tiles smaller, or give it more warps (num_warps)",
    "shared memory": "make the tiles that are loaded smaller",
    "tensor memory": "make the accumulators smaller",
}
"""By the family of a reason."""


@dataclass(frozen=True, slots=True)
class Result:
    """The answer of a search, with its evidence."""

    problem: Problem
    status: Status
    bounds: Bounds
    proved: Time
    """No interval below this one works (for up to the iterations in flight that `refuted` states)."""
    solution: Solution | None = None
    refuted: tuple[Refutation, ...] = ()
    reasons: tuple[Reason, ...] = ()
    notes: tuple[str, ...] = ()
    seconds: tuple[tuple[str, float], ...] = field(default=())
    considered: tuple[Considered, ...] = ()
    """The other implementations that the problem has."""
    max_in_flight: int = 4
    """Schedules of up to this many iterations in flight were considered."""
