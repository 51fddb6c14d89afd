"""The evidence of a `Result`: bounds computed again, and a status that its refutations carry.

Takes a `Result`; yields BOUNDS and STATUS violations. A refutation itself is an engine's claim; what is
checked is that the claims cover every interval that the status speaks of, for schedules at least as long as
the answer.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from twill.ir.problem import Edge, Problem, Reservation, Time, Unit
from twill.ir.schedule import Considered, Refutation, Result
from twill.verify.capacity import PREFIX, excludes
from twill.verify.check import check
from twill.verify.violation import Violation

ENGINES = ("cpsat", "sat", "yices", "cbc", "scip", "benders")

EXACT = 5000
"""Operations above which a recurrence bound may be less than the largest: to find that may take too long."""

MONOTONE = "cpsat on the projection without pins and offsets"
"""A relaxation that a longer interval never hurts, whatever the problem: a refutation covers all below."""

PROJECTIONS = (
    MONOTONE,
    "cpsat on the tensor memory projection",
    "cpsat on the registers projection",
    "cpsat on the dependences projection",
    "cpsat on the units projection",
    "cpsat on the projection to independent parts",
    "cpsat on the projections to numbers of slots",
)


def check_result(
    result: Result, *, joint: bool = True, in_flight: int | None = None
) -> tuple[Violation, ...]:
    """The solution by `check`, the bounds and the status; `in_flight` is how long the search promised to look
    (default: the answer's)."""
    answer = () if result.solution is None else check(result.problem, result.solution, joint=joint)
    return (
        *answer,
        *bounds(result, joint=joint),
        *status(result, in_flight),
        *implementations(result, joint=joint),
    )


def implementations(result: Result, *, joint: bool = True) -> Iterator[Violation]:
    """IMPLEMENTATION: an answer that is called the best is no worse than what is known of every other
    implementation; what a bound shows of one is computed again."""
    problem, solution = result.problem, result.solution
    known_of = {one.implementation: one for one in result.considered}
    names = [one.name for one in problem.implementations]
    if unknown := sorted(set(known_of) - set(names)):
        yield Violation("IMPLEMENTATION", f"there is no implementation {unknown[0]!r}")
        return
    for one in result.considered:
        yield from _considered(problem.implemented(one.implementation), one, joint)
    if solution is None or result.status != "optimal":
        return
    for name in names:
        proved = known_of[name].proved if name in known_of else 0
        if name != problem.implementation and proved < solution.interval:
            text = f"{result.status}, and nothing shows that {name} is not better"
            yield Violation("IMPLEMENTATION", text, needs=solution.interval, has=proved)


def _considered(problem: Problem, one: Considered, joint: bool) -> Iterator[Violation]:
    """Violations of what is said of another implementation."""
    if not known(one.by):
        yield Violation("IMPLEMENTATION", f"{one.by!r} is no engine and no bound of Twill's")
        return
    if not one.by.startswith(("ResMII ", "RecMII ")):
        return
    resource = max((_need(problem, unit) for unit in problem.units), default=0)
    ops = [op.id for op in problem.operations]
    arcs = [
        _Arc(e.src, e.dst, min(e.delay, e.crossing) if joint else e.delay, e.distance) for e in problem.edges
    ]
    if one.proved > resource and _feasible(ops, arcs, one.proved - 1):
        text = f"{one.by} of {one.implementation} does not force that interval"
        yield Violation("IMPLEMENTATION", text, needs=one.proved, has=resource)


def bounds(result: Result, *, joint: bool = True) -> Iterator[Violation]:
    """BOUNDS: each bound is what its unit or its circuit forces, and no less than the plain definition
    gives."""
    problem, resource, recurrence = result.problem, result.bounds.resource, result.bounds.recurrence
    named = {unit.name: unit for unit in problem.units}
    if resource.unit is not None and resource.unit not in named:
        yield Violation("BOUNDS", f"there is no unit {resource.unit}")
        return
    forced = 0 if resource.unit is None else _need(problem, named[resource.unit])
    if resource.value > forced:
        yield Violation(
            "BOUNDS", f"{resource.unit} does not force that interval", needs=resource.value, has=forced
        )
    least = max((_average(problem, unit) for unit in problem.units), default=0)
    if resource.value < least:
        yield Violation("BOUNDS", "a unit forces a larger interval", needs=least, has=resource.value)
    yield from _recurrence(problem, recurrence.value, recurrence.ops, joint)
    yield from _shortages(result, joint)
    for refutation in result.refuted:
        has = {"ResMII": resource.value, "RecMII": recurrence.value}.get(refutation.by.split(" ")[0])
        if has is not None and refutation.interval >= has:
            yield Violation(
                "BOUNDS",
                f"{refutation.by} refutes no interval of {refutation.interval}",
                needs=refutation.interval + 1,
                has=has,
            )


def _shortages(result: Result, joint: bool) -> Iterator[Violation]:
    """A refutation by capacity is one at its interval."""
    for refutation in result.refuted:
        limit = refutation.by.removeprefix(PREFIX)
        if limit != refutation.by and not excludes(result.problem, limit, refutation.interval, joint=joint):
            yield Violation("BOUNDS", f"the {refutation.by} does not exclude interval {refutation.interval}")


def _average(problem: Problem, unit: Unit) -> Time:
    """Work of one iteration over capacity, rounded up."""
    return -(-sum(r.amount * r.cycles for r in _reservations(problem, unit)) // unit.capacity)


def _need(problem: Problem, unit: Unit) -> Time:
    """That, and the time after which any one reservation fits beside its own next instances."""
    if unit.aggregate:
        return _average(problem, unit)
    fitting = (r for r in _reservations(problem, unit) if 0 < r.amount <= unit.capacity)
    return max([_average(problem, unit), *(-(-r.cycles // (unit.capacity // r.amount)) for r in fitting)])


def _reservations(problem: Problem, unit: Unit) -> Iterator[Reservation]:
    return (r for op in problem.operations for r in op.reservations if r.unit == unit.name)


def _recurrence(problem: Problem, value: Time, circuit: tuple[str, ...], joint: bool) -> Iterator[Violation]:
    """The circuit exists and is too long for `value` - 1; no other is too long for `value`, where there are
    at most `EXACT` operations."""
    if value > 0 and not circuit:
        yield Violation("BOUNDS", "a recurrence bound without its circuit", needs=value, has=0)
    elif value > 0 and not _refutes(_along(problem, circuit, joint), circuit, value - 1):
        text = f"the circuit {' -> '.join(circuit)} does not force that interval"
        yield Violation("BOUNDS", text, circuit, needs=value)
    if len(problem.operations) > EXACT:
        return
    weak = [
        _Arc(e.src, e.dst, min(e.delay, e.crossing) if joint else e.delay, e.distance) for e in problem.edges
    ]
    if not _feasible([op.id for op in problem.operations], weak, value):
        yield Violation(
            "BOUNDS", "some circuit forces a larger interval than the recurrence bound", has=value
        )


@dataclass(frozen=True, slots=True)
class _Arc:
    src: str
    dst: str
    delay: Time
    distance: int


def _along(problem: Problem, circuit: Sequence[str], joint: bool) -> list[_Arc]:
    """The edges of the steps of a circuit, each with its delay where the rules fix whether it crosses."""
    steps = set(zip(circuit, [*circuit[1:], *circuit[:1]], strict=True))
    apart = {frozenset(pair) for pair in problem.apart}
    sets: dict[str, set[int]] = {op: set() for op in circuit}
    for number, ops in enumerate(problem.together):
        for op in ops:
            sets.get(op, set[int]()).add(number)

    def delay(edge: Edge) -> Time:
        a, b = problem.operation(edge.src), problem.operation(edge.dst)
        if not joint:
            return edge.delay
        if a.variable != b.variable or frozenset((a.id, b.id)) in apart:
            return edge.crossing
        return edge.delay if a.variable or sets[a.id] & sets[b.id] else min(edge.delay, edge.crossing)

    chosen = (e for e in problem.edges if (e.src, e.dst) in steps)
    return [_Arc(e.src, e.dst, delay(e), e.distance) for e in chosen]


def _refutes(arcs: Sequence[_Arc], circuit: Sequence[str], interval: Time) -> bool:
    """Every step of the circuit is an edge, and its delays exceed its distances times the interval."""
    heaviest: dict[tuple[str, str], Time] = {}
    for arc in arcs:
        weight = arc.delay - arc.distance * interval
        heaviest[arc.src, arc.dst] = max(weight, heaviest.get((arc.src, arc.dst), weight))
    steps = list(zip(circuit, [*circuit[1:], *circuit[:1]], strict=True))
    return all(step in heaviest for step in steps) and sum(heaviest[step] for step in steps) > 0


def _feasible(ops: Sequence[str], arcs: Sequence[_Arc], interval: Time) -> bool:
    """Starts that satisfy all arcs exist: relaxation settles (Bellman-Ford). What was pushed waits in line; a
    start that is pushed more often than there are operations is on, or behind, a circuit that never
    settles."""
    start, pushed = dict.fromkeys(ops, 0), dict.fromkeys(ops, 0)
    leaving: dict[str, list[_Arc]] = {op: [] for op in ops}
    for arc in arcs:
        leaving[arc.src].append(arc)
    line, waiting = deque(ops), set(ops)
    while line:
        op = line.popleft()
        waiting.discard(op)
        for arc in leaving[op]:
            time = start[op] + arc.delay - arc.distance * interval
            if time <= start[arc.dst]:
                continue
            start[arc.dst] = time
            if arc.dst in waiting:
                continue
            pushed[arc.dst] += 1
            if pushed[arc.dst] > len(start):
                return False
            line.append(arc.dst)
            waiting.add(arc.dst)
    return True


def status(result: Result, in_flight: int | None = None) -> Iterator[Violation]:
    """STATUS: the status is what solution, bounds and refutations amount to."""
    solution = result.solution
    if (solution is not None) != (result.status in ("optimal", "feasible")):
        yield Violation("STATUS", f"{result.status} {'with' if solution else 'without'} a solution")
        return
    long = in_flight or (1 if solution is None else solution.in_flight(result.problem))
    if solution is not None and result.proved > solution.interval:
        yield Violation(
            "STATUS",
            "smaller intervals than the answer's own are called impossible",
            needs=result.proved,
            has=solution.interval,
        )
    if solution is not None and (result.status == "optimal") != (result.proved >= solution.interval):
        text = f"{result.status}, with every interval below {result.proved} refuted"
        yield Violation("STATUS", text, needs=solution.interval, has=result.proved)
    if solution is not None and solution.length(result.problem) > long * solution.interval:
        text = f"the answer is longer than {long} iterations in flight"
        yield Violation("STATUS", text, needs=solution.length(result.problem), has=long * solution.interval)
    last = _last_interval(result)
    if result.status == "infeasible" and result.proved <= last:
        text = f"infeasible, but intervals from {result.proved} to {last} could work and nothing refutes them"
        yield Violation("STATUS", text, needs=last + 1, has=result.proved)
    yield from _unknown_engines(result)
    gap = _uncovered(result, long)
    if gap is not None:
        text = (
            f"interval {gap} is below the proved {result.proved} and nothing refutes it for {long} iterations"
            " in flight"
        )
        yield Violation("STATUS", text, needs=result.proved, has=gap)


def _last_interval(result: Result) -> Time:
    """An interval that works if any larger one does: beyond the sum of all that keeps operations apart, and
    the last pin, an idle unit of time can be cut out of the period (docs/formulation.md)."""
    problem = result.problem
    spans = [op.duration for op in problem.operations] + [op.issue for op in problem.operations]
    spans += [max(edge.delay, edge.crossing) for edge in problem.edges]
    spans += [use.hold for value in problem.values for use in value.uses]
    return max(result.bounds.value, sum(spans) + max((time for _, time in problem.starts), default=0) + 1)


def _unknown_engines(result: Result) -> Iterator[Violation]:
    """Every refutation names an engine or a bound that there is."""
    for refutation in result.refuted:
        if not known(refutation.by):
            yield Violation(
                "STATUS",
                f"{refutation.by!r} is no engine and no bound of Twill's",
                needs=0,
                has=refutation.interval,
            )


def known(by: str) -> bool:
    """What may refute an interval."""
    return by in ENGINES or by in PROJECTIONS or by.startswith(("ResMII ", "RecMII ", PREFIX))


def _uncovered(result: Result, in_flight: int) -> Time | None:
    """The smallest interval below `proved` that neither bounds nor refutations exclude."""
    wide = [r for r in result.refuted if r.max_in_flight is None or r.max_in_flight >= in_flight]
    time = max(_below(result, wide), result.bounds.value)
    while time < result.proved and any(r.interval == time for r in wide):
        time += 1
    return time if time < result.proved else None


def _below(result: Result, refuted: Iterable[Refutation]) -> Time:
    """All intervals below this one are excluded by refutations that reach down: by capacity, or where the
    problem, or its relaxation, is monotone."""
    monotone = result.problem.monotone
    reaching = (r for r in refuted if r.below and (monotone or r.by == MONOTONE or r.by.startswith(PREFIX)))
    return max((r.interval + 1 for r in reaching), default=1)
