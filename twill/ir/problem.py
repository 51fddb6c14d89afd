"""The scheduling problem: what every engine solves and the verifier checks.

A `Problem` is one loop with all costs included: operations with reservation tables, latencies and issue
times; dependence edges; values with footprints and live ranges; the machine's units and limits. Times are
integers in one unit, `Resolution.cycles_per_unit` machine cycles long. It is self-contained: no stage below
it reads TTGIR or a machine file again.

The meaning of a solution (`twill.ir.schedule.Solution`: interval I, a start s(v) >= 0 and a group g(v) for
every operation v) is defined by the docstrings here; `twill.verify` checks exactly these rules and every
engine encodes exactly these rules.

**Steady state.** Instance k of v starts at s(v) + k*I. All rules hold for the infinite repetition of the loop
body, so they are stated modulo I, never on an unrolled program (Twill's Figure 5 liveness is unsound there).

**Monotone.** If every `Reservation.offset` is 0, a problem feasible at I with n = ceil(L / I) iterations in
flight is feasible at I + 1 with n: put one idle unit of time at the end of every period. So a refutation at I
refutes every smaller interval (docs/formulation.md).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from twill.diagnostics import Location

Time = int
"""A duration or a point in time, in units of `Resolution.cycles_per_unit` machine cycles."""


@dataclass(frozen=True, slots=True)
class Unit:
    """A functional unit of one SM.

    Rule UNITS: at every residue r in [0, I) the amounts reserved by all instances sum to at most `capacity`.
    An `aggregate` unit (issue slots, shared memory bandwidth) bounds only the sum over an iteration: sum of
    amount * cycles <= capacity * I.
    """

    name: str
    capacity: int = 1
    aggregate: bool = False


PARTS = 8
"""Into which the elements of an operation are divided that has two ways to compute them."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """One rectangle of an operation's reservation table: `amount` of `unit` during [s + offset, s + offset +
    cycles)."""

    unit: str
    cycles: Time
    offset: Time = 0
    amount: int = 1


@dataclass(frozen=True, slots=True)
class Operation:
    """A tile-level operation."""

    id: str
    """Unique, stable and readable, such as `qk0` or `exp2.1`."""
    name: str
    """What it is: the TTGIR operation name, or any word in a graph file."""
    reservations: tuple[Reservation, ...] = ()
    latency: Time = 0
    """Start to result usable by an ordinary reader; edges carry their own delays, `length` counts this."""
    issue: Time = 0
    """How long the warp's instruction issue is held: all of a synchronous operation, the launch of an
    asynchronous one."""
    warps: int = 1
    """Least width of a group that runs it: 1, 4 or 8."""
    variable: bool = False
    """Variable latency (a load from global memory). Rule VARIABLE: these and only these are in group 0."""
    streaming: bool = False
    """Variable, and needs nothing computed in the loop: it runs ahead, so its consumers never wait for it."""
    polynomial: int = 0
    """So many of `PARTS` of its elements are computed by a polynomial, which the other units do."""
    divisible: bool = False
    """Its group may wait for another operation between two slices of it."""
    location: Location | None = None

    @property
    def undivided(self) -> Time:
        """For how long after its start its group must not wait: while it issues, unless it is divisible."""
        return 0 if self.divisible else self.issue

    @property
    def duration(self) -> Time:
        """Start to the end of all it does: latency or the last reserved unit time. Length L = max of s +
        duration."""
        return max([self.latency, *(r.offset + r.cycles for r in self.reservations)])

    @property
    def unit(self) -> str | None:
        """The unit it keeps longest, None where it takes none."""
        longest = max(self.reservations, key=lambda r: r.cycles, default=None)
        return longest.unit if longest else None


@dataclass(frozen=True, slots=True)
class Edge:
    """`dst`, `distance` iterations on, starts at least `delay` after `src` starts.

    Rule DEPENDENCE: s(dst) + distance * I >= s(src) + delay if g(src) = g(dst), else + cross_delay.
    """

    src: str
    dst: str
    delay: Time
    distance: int = 0
    cross_delay: Time | None = None
    """The delay when the ends are in different groups (through shared memory and a barrier); None: `delay`
    again."""
    blocking: bool = False
    """In one group too, `dst` needs a blocking wait for `src` (an asynchronous operation's result)."""
    kind: str = "data"
    """data, carried, token, raw, war, waw or order: why the edge exists; no rule depends on it."""

    @property
    def crossing(self) -> Time:
        """The delay between different groups."""
        return self.delay if self.cross_delay is None else self.cross_delay


@dataclass(frozen=True, slots=True)
class Use:
    """A reader of a value: instance k of the value is read by instance k + distance of `op`.

    The value is needed until s(op) + distance * I + hold. `hold` is 0 for a reader whose result overwrites
    the value's storage (an elementwise operation in registers), the reading time for any other (an MMA until
    it has read its operand).
    """

    op: str
    distance: int = 0
    hold: Time = 0


@dataclass(frozen=True, slots=True)
class Value:
    """A result and the storage it takes, in one or more memories.

    Live range: [s(src), max over uses of s(op) + distance * I + hold), at least [s(src), s(src)) (empty).

    Rule REGISTERS, per group g and residue: the sum of `registers` over live instances held by g is at most
    the group's peak p(g). The producing group holds v from s(src) to the end of its last use by an operation
    of that group and, if some use is in another group, at least until s(src) + latency(src). Another group
    that uses v holds it from the start of its first use there (s(op) + distance * I) to the end of its last
    use there.

    Rule SHARED: `shared` bytes during the live range, and `staging` bytes during [s(src), end of the last use
    in another group) if there is such a use. Rule TENSOR: `tensor` columns during the live range. Both
    memories are allocated at fixed addresses: a value whose range lasts at most I gets one slot, which
    another value may share at residues where this one is dead; a longer one gets ceil(range / I) slots of its
    own, adjacent, that nothing else shares. Empty ranges take no storage.
    """

    id: str
    src: str
    uses: tuple[Use, ...] = ()
    registers: int = 0
    """32-bit registers per thread of a group of the producer's width."""
    shared: int = 0
    tensor: int = 0
    staging: int = 0
    """Bytes of shared memory through which it passes to another group (0 for a value that already lies in
    memory)."""
    resident: bool = False
    """Updated in place in every iteration: takes its storage at every residue, whatever the schedule, and one
    slot."""
    slots: int = 0
    """Slots of a streaming load's channel beyond those in use: how many iterations it may run ahead. Takes
    slots * (shared, tensor) at every residue; the value then has ceil(range / I) + slots slots that nothing
    else shares."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What the machine grants one thread block.

    Rule GROUPS: at most `groups` groups are used, counting group 0. A group's width is the widest
    `Operation.warps` in it. Groups of 1 warp share warpgroups, four to one. Rule THREADS: wide groups' warps
    + 4 * ceil(narrow groups / 4) <= `warps`. Rule REGISTERS: a wide group of w warps with peak p is granted R
    = the least multiple of `register_step` >= register_base + p, and R <= registers_per_thread; a warpgroup
    of narrow groups takes `narrow_registers`. Sum of 32 * warps * R over groups and narrow warpgroups <=
    registers_total. What a narrow group holds is not limited: one warp issues asynchronous work, whose
    results lie in memory, and `Value.registers` of what it loads are those of the readers.
    """

    groups: int = 8
    warps: int = 32
    registers_per_thread: int = 255
    registers_total: int = 65536
    register_step: int = 8
    register_base: int = 0
    narrow_registers: int = 24
    shared: int = 0
    """Bytes of shared memory."""
    tensor: int = 0
    """Columns of tensor memory."""


@dataclass(frozen=True, slots=True)
class Resolution:
    """How times relate to machine cycles."""

    cycles_per_unit: float = 1.0
    worst_error: float = 0.0
    """Largest relative error that rounding made in any cost; 0 on exact cycles."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where the loop comes from."""

    file: str
    function: str
    line: int
    loop: str = ""


@dataclass(frozen=True, slots=True)
class OperationTimes:
    """What an operation takes in one implementation."""

    op: str
    reservations: tuple[Reservation, ...] = ()
    latency: Time = 0
    issue: Time = 0
    polynomial: int = 0


@dataclass(frozen=True, slots=True)
class EdgeTimes:
    """The delays of the edge at a position of `Problem.edges` in one implementation."""

    edge: int
    delay: Time
    cross_delay: Time | None = None


@dataclass(frozen=True, slots=True)
class ValueUses:
    """Who reads a value in one implementation, and for how long."""

    value: str
    uses: tuple[Use, ...] = ()


@dataclass(frozen=True, slots=True)
class Implementation:
    """One of the ways to compute a loop: the times of all that does not take the same in every one."""

    name: str
    operations: tuple[OperationTimes, ...] = ()
    edges: tuple[EdgeTimes, ...] = ()
    values: tuple[ValueUses, ...] = ()


@dataclass(frozen=True, slots=True)
class Problem:
    """A loop ready to be scheduled; see the module's docstring for the rules.

    Rule IMPLEMENTATION: where there are `implementations`, an answer is one of them together with a solution
    that keeps every rule under its times, and no other implementation has a smaller interval.

    Rule CONCURRENCY: v *waits* if some edge into it is blocking with both ends in one group, or crosses
    groups from an operation that is not streaming. If v waits, every other operation o of its group must not
    be issuing then, unless o is divisible: (s(v) - s(o)) mod I >= issue(o). Operations with issue 0 never
    conflict.
    """

    name: str
    machine: str
    units: tuple[Unit, ...]
    operations: tuple[Operation, ...]
    edges: tuple[Edge, ...]
    values: tuple[Value, ...] = ()
    limits: Limits = Limits()
    resolution: Resolution = Resolution()
    source: Source | None = None
    together: tuple[tuple[str, ...], ...] = ()
    """Rule TOGETHER: the operations of each tuple are in one group."""
    apart: tuple[tuple[str, str], ...] = ()
    """Rule APART: the two operations are in different groups."""
    starts: tuple[tuple[str, Time], ...] = ()
    """Rule PINNED: these operations start exactly then."""
    implementations: tuple[Implementation, ...] = ()
    """The choice that a search has; empty for none. Every one names the same operations, edges and values."""
    implementation: str = ""
    """The one whose times `operations`, `edges` and `values` have."""
    _index: Mapping[str, int] = field(init=False, repr=False, compare=False, default_factory=dict[str, int])

    def __post_init__(self) -> None:
        object.__setattr__(self, "_index", {op.id: i for i, op in enumerate(self.operations)})

    @property
    def title(self) -> str:
        """The loop, and the machine that it is costed for; a graph may have costs of its own."""
        return f"{self.name} on {self.machine}" if self.machine else self.name

    def index(self, op: str) -> int:
        """Position of an operation in `operations`."""
        return self._index[op]

    def operation(self, op: str) -> Operation:
        return self.operations[self._index[op]]

    def implemented(self, name: str) -> "Problem":
        """The problem with the times of that implementation. Raises StopIteration where there is none."""
        if name == self.implementation:
            return self
        one = next(one for one in self.implementations if one.name == name)
        times = {found.op: found for found in one.operations}
        delays = {found.edge: found for found in one.edges}
        uses = {found.value: found.uses for found in one.values}
        return replace(
            self,
            operations=tuple(_timed(op, times.get(op.id)) for op in self.operations),
            edges=tuple(_delayed(edge, delays.get(i)) for i, edge in enumerate(self.edges)),
            values=tuple(replace(v, uses=uses[v.id]) if v.id in uses else v for v in self.values),
            implementation=name,
        )

    def held(self, op: Operation) -> Time:
        """For how long an operation keeps its group from issuing others in order: until it is issued. One
        that a wait divides: until the operation that waits. One that goes slice by slice with a divided one
        behind it: until that starts."""
        waiting = {edge.dst for edge in self.edges if edge.blocking}
        inside = {(e.src, e.dst): e.delay for e in self.edges if e.kind == "order" and e.dst in waiting}
        divided = {src for src, _ in inside}
        cut = [delay for (src, _), delay in inside.items() if src == op.id]
        cut += [e.delay for e in self.edges if e.src == op.id and e.dst in divided and not e.distance]
        return min([op.issue, *cut]) if op.divisible else op.issue

    def unit(self, op: Operation) -> str | None:
        """The unit that an operation keeps longest, of those that are no aggregates; None where it takes none
        of these."""
        shared = {unit.name for unit in self.units if unit.aggregate}
        longest = max(
            (r for r in op.reservations if r.unit not in shared), key=lambda r: r.cycles, default=None
        )
        return longest.unit if longest else None

    @property
    def monotone(self) -> bool:
        """Feasibility at I implies feasibility at I + 1 (see the module's docstring)."""
        return not self.starts and all(r.offset == 0 for op in self.operations for r in op.reservations)


def _timed(op: Operation, times: OperationTimes | None) -> Operation:
    if times is None:
        return op
    return replace(
        op,
        reservations=times.reservations,
        latency=times.latency,
        issue=times.issue,
        polynomial=times.polynomial,
    )


def _delayed(edge: Edge, times: EdgeTimes | None) -> Edge:
    return edge if times is None else replace(edge, delay=times.delay, cross_delay=times.cross_delay)


def choice(problems: Mapping[str, Problem]) -> Problem:
    """One problem of several that differ in times alone, by the names of the implementations: the first one,
    with the choice of all."""
    first, *others = problems.values()
    if not others:
        return first
    ops = _differing(one.operations for one in problems.values())
    edges = _differing(one.edges for one in problems.values())
    values = _differing(one.values for one in problems.values())

    def implementation(name: str, one: Problem) -> Implementation:
        operations = (one.operations[i] for i in ops)
        return Implementation(
            name,
            tuple(
                OperationTimes(op.id, op.reservations, op.latency, op.issue, op.polynomial)
                for op in operations
            ),
            tuple(EdgeTimes(i, one.edges[i].delay, one.edges[i].cross_delay) for i in edges),
            tuple(ValueUses(one.values[i].id, one.values[i].uses) for i in values),
        )

    made = tuple(implementation(name, one) for name, one in problems.items())
    return replace(first, implementations=made, implementation=made[0].name)


def _differing(rows: Iterable[Sequence[object]]) -> list[int]:
    """The positions at which rows of the same length differ."""
    return [i for i, column in enumerate(zip(*rows, strict=True)) if any(one != column[0] for one in column)]
