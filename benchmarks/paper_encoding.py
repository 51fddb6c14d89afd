"""The paper's encoding to the letter: figures 4, 5 and 6 on the unrolled program Q, and Algorithm 1 from I =
1.

For the benchmark only, to compare with: Booleans op[v, i, t] and live[v, i, t] in Yices with integer
arithmetic for the sums, modulo schedules by CBC. It keeps the printed model's defects (docs/formulation.md):
its liveness misses values carried into Q, constraints that reach outside Q are dropped, a blocking wait
forbids all execution instead of issue, and only one number of iterations in flight is tried.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from benchmarks.yices_terms import Session, Terms
from twill.engine.probe import Budget
from twill.engine.subprocess_engine import elsewhere
from twill.ir.problem import Edge, Operation, Problem, Time
from twill.modulo import cbc


@dataclass(frozen=True, slots=True)
class Printed:
    """What Algorithm 1 found, and where its time went."""

    interval: Time | None
    """None where the time limit came first."""
    start: tuple[Time, ...]
    group: tuple[int, ...]
    reached: Time
    """The last interval tried."""
    modulo_seconds: float
    build_seconds: float
    solve_seconds: float


def algorithm1(problem: Problem, time_limit: float) -> Printed | None:
    """Algorithm 1 in a process of its own; None where the limit struck inside a solver."""
    found = elsewhere(lambda: (search, (problem, time_limit), {}), Budget(time_limit + 1))
    return found if isinstance(found, Printed) else None


def search(problem: Problem, time_limit: float) -> Printed:
    """Intervals upward from 1; at each, lengths upward from the shortest modulo schedule's with as many
    iterations in flight."""
    clock, end = Clock(), time.monotonic() + time_limit
    interval = 0
    while time.monotonic() < end:
        interval += 1
        shortest = clock.modulo(problem, interval, end - time.monotonic())
        if shortest is None:
            continue
        in_flight = -(-shortest // interval)
        for length in range(shortest, in_flight * interval + 1):
            if time.monotonic() > end:
                break
            answer = clock.joint(problem, interval, length)
            if answer:
                return Printed(
                    interval,
                    *answer,
                    interval,
                    clock.modulo_seconds,
                    clock.build_seconds,
                    clock.solve_seconds,
                )
    return Printed(None, (), (), interval, clock.modulo_seconds, clock.build_seconds, clock.solve_seconds)


@dataclass
class Clock:
    """Runs the steps of the search and adds up what each kind takes."""

    modulo_seconds: float = 0.0
    build_seconds: float = 0.0
    solve_seconds: float = 0.0

    def modulo(self, problem: Problem, interval: Time, time_limit: float) -> Time | None:
        """OPTIMAL-MODULO-SCHEDULE: the least length, None where there is no schedule (or no answer in
        time)."""
        begin = time.monotonic()
        longest = sum(op.duration for op in problem.operations) + max(
            (edge.delay for edge in problem.edges), default=0
        )
        decision = cbc.shortest(problem, interval, -(-longest // interval), time_limit=time_limit)
        self.modulo_seconds += time.monotonic() - begin
        return decision.solution.length(problem) if decision.solution else None

    def joint(
        self, problem: Problem, interval: Time, length: Time
    ) -> tuple[tuple[Time, ...], tuple[int, ...]] | None:
        """SWP-AND-WS: starts and groups of a solution of this length."""
        begin, session = time.monotonic(), Session()
        try:
            program = Unrolled(session, problem, interval, length)
            for figure in (figure4, figure5, figure6):
                figure(program)
            built = time.monotonic()
            self.build_seconds += built - begin
            satisfiable = session.check()
            self.solve_seconds += time.monotonic() - built
            return program.answer() if satisfiable else None
        finally:
            session.close()


@dataclass
class Unrolled:
    """The straight-line program Q of `in_flight` overlapped iterations, `total` units of time long, and its
    unknowns."""

    session: Session
    problem: Problem
    interval: Time
    length: Time

    @property
    def in_flight(self) -> int:
        return -(-self.length // self.interval)

    @property
    def total(self) -> Time:
        """T."""
        return self.length + (self.in_flight - 1) * self.interval

    @cached_property
    def op(self) -> Terms:
        """op[v, i, t]: instance i of v starts at t."""
        return self.session.booleans(len(self.problem.operations), self.in_flight, self.total)

    @cached_property
    def live(self) -> Terms:
        """live[v, i, t], t up to and including T."""
        return self.session.booleans(len(self.problem.operations), self.in_flight, self.total + 1)

    @cached_property
    def opw(self) -> Terms:
        """opw[v, w]: v runs on group w; group 0 is that of variable latency."""
        return self.session.booleans(len(self.problem.operations), self.problem.limits.groups)

    def edges(self) -> Iterator[tuple[Edge, int, int]]:
        """Edges with the positions of their ends."""
        for edge in self.problem.edges:
            yield edge, self.problem.index(edge.src), self.problem.index(edge.dst)

    def answer(self) -> tuple[tuple[Time, ...], tuple[int, ...]]:
        """M* and A*."""
        starts, groups = self.session.values(self.op[:, 0, :]), self.session.values(self.opw)
        return tuple(int(t) for t in starts.argmax(axis=1)), tuple(int(w) for w in groups.argmax(axis=1))


def cycles(operation: Operation) -> Time:
    """cycles(v): the rows of its reservation table."""
    return max((use.offset + use.cycles for use in operation.reservations), default=0)


def figure4(q: Unrolled) -> None:
    """A valid modulo schedule."""
    for v, operation in enumerate(q.problem.operations):
        for i in range(q.in_flight):
            q.session.exactly(q.session.sum((term, 1) for term in q.op[v, i]), 1)  # UNIQUENESS
            for t in range(max(0, q.total - cycles(operation) + 1), q.total):
                q.session.holds(q.session.negate(q.op[v, i, t]))  # COMPLETION
        for i in range(1, q.in_flight):
            for t in range(q.total):
                later = t + i * q.interval  # CONSISTENCY
                q.session.rule([q.op[v, 0, t]], q.op[v, i, later] if later < q.total else q.session.false)
    _dependence(q)
    _capacity(q)


def _dependence(q: Unrolled) -> None:
    for edge, u, v in q.edges():
        for i in range(q.in_flight - edge.distance):
            for t in range(q.total):
                too_early = q.op[v, i + edge.distance, : t + edge.delay]
                q.session.rule([q.op[u, i, t]], q.session.negate(q.session.any_of(too_early)))


def _capacity(q: Unrolled) -> None:
    for unit in q.problem.units:
        uses = [
            (v, use)
            for v, op in enumerate(q.problem.operations)
            for use in op.reservations
            if use.unit == unit.name
        ]
        if unit.aggregate or not uses:
            continue
        for t in range(q.total):
            held = (
                (term, use.amount)
                for v, use in uses
                for i in range(q.in_flight)
                for term in q.op[v, i, max(0, t - use.offset - use.cycles + 1) : max(0, t - use.offset + 1)]
            )
            q.session.at_most(q.session.sum(held), unit.capacity)


def figure5(q: Unrolled) -> None:
    """Memory: liveness by backward data flow over Q, and its capacity."""
    last = q.in_flight - 1
    for v in range(len(q.problem.operations)):
        uses = [(u, edge.distance) for edge, src, u in q.edges() if src == v]
        carried = any(distance for _, distance in uses)
        for i in range(q.in_flight):
            initial = q.live[v, i, q.total]
            q.session.holds(initial if carried and i == last else q.session.negate(initial))  # INIT
            for t in range(1, q.total + 1):
                _propagate(
                    q, v, i, t, [q.op[u, i + d, t] for u, d in uses if i + d < q.in_flight and t < q.total]
                )
    for memory, capacity in (("shared", q.problem.limits.shared), ("tensor", q.problem.limits.tensor)):
        sizes = _footprints(q, memory)
        for t in range(q.total + 1 if sizes else 0):
            held = ((q.live[v, i, t], size) for v, size in sizes.items() for i in range(q.in_flight))
            q.session.at_most(q.session.sum(held), capacity)  # MEMORY CAPACITY


def _propagate(q: Unrolled, v: int, i: int, t: Time, used: list[int]) -> None:
    live, before = q.live[v, i, t], q.live[v, i, t - 1]
    starts = q.op[v, i, t] if t < q.total else q.session.false
    reader = q.session.any_of(used)
    q.session.rule([live, starts], q.session.negate(before))  # LIVEPROP-1
    q.session.rule([live, q.session.negate(starts)], before)  # LIVEPROP-2
    q.session.rule([q.session.negate(live), reader], before)  # DEADPROP-1
    q.session.rule([q.session.negate(live), q.session.negate(reader)], q.session.negate(before))  # DEADPROP-2


def _footprints(q: Unrolled, memory: str) -> dict[int, int]:
    """footprint(v, m) of every operation that has one."""
    sizes: dict[int, int] = {}
    for value in q.problem.values:
        size = {"shared": value.shared, "tensor": value.tensor, "registers": value.registers}[memory]
        if size:
            sizes[q.problem.index(value.src)] = sizes.get(q.problem.index(value.src), 0) + size
    return sizes


def figure6(q: Unrolled) -> None:
    """Warp assignment."""
    for v, operation in enumerate(q.problem.operations):
        q.session.exactly(q.session.sum((term, 1) for term in q.opw[v]), 1)  # WARP UNIQUENESS
        q.session.holds(
            q.opw[v, 0] if operation.variable else q.session.negate(q.opw[v, 0])
        )  # VARIABLE LATENCY
    sizes = _footprints(q, "registers")
    for w in range(q.problem.limits.groups):
        for t in range(q.total + 1 if sizes else 0):
            held = (
                (_both(q, q.live[v, i, t], q.opw[v, w]), size)
                for v, size in sizes.items()
                for i in range(q.in_flight)
            )
            q.session.at_most(q.session.sum(held), q.problem.limits.registers_per_thread)  # REGISTER LIMIT
    for edge, u, v in q.edges():
        _spill(q, edge, u, v)
    _concurrency(q)


def _both(q: Unrolled, a: int, b: int) -> int:
    return q.session.negate(q.session.any_of([q.session.negate(a), q.session.negate(b)]))


def _apart(q: Unrolled, u: int, v: int) -> int:
    """The two run on different groups."""
    return q.session.negate(q.session.any_of(_both(q, x, y) for x, y in zip(q.opw[u], q.opw[v], strict=True)))


def _spill(q: Unrolled, edge: Edge, u: int, v: int) -> None:
    """CROSS-WARP SPILLS, with spillcost(u) the extra delay of the edge."""
    if edge.crossing <= edge.delay:
        return
    apart = _apart(q, u, v)
    for i in range(q.in_flight - edge.distance):
        for t in range(q.total):
            too_early = q.op[v, i + edge.distance, t + edge.delay : t + edge.crossing]
            q.session.rule([q.op[u, i, t], apart], q.session.negate(q.session.any_of(too_early)))


def _concurrency(q: Unrolled) -> None:
    """CONCURRENCY, and the like constraint for what arrives from another warp; streaming loads excepted."""
    for v in range(len(q.problem.operations)):
        incoming = [(edge, u) for edge, u, dst in q.edges() if dst == v]
        waits = [q.session.negate(q.session.false)] if any(edge.blocking for edge, _ in incoming) else []
        waits += [_apart(q, u, v) for _, u in incoming if u != v and not q.problem.operations[u].streaming]
        waiting = q.session.any_of(waits)
        for o, other in enumerate(q.problem.operations):
            if waits and o != v and cycles(other):
                _alone(q, v, o, _both(q, waiting, q.session.negate(_apart(q, v, o))))


def _alone(q: Unrolled, v: int, o: int, condition: int) -> None:
    """No instance of `o` runs where one of `v` starts."""
    window = cycles(q.problem.operations[o])
    for t in range(q.total):
        running = np.concatenate([q.op[o, i, max(0, t - window + 1) : t + 1] for i in range(q.in_flight)])
        clear = q.session.negate(q.session.any_of(running))
        for i in range(q.in_flight):
            q.session.rule([q.op[v, i, t], condition], clear)
