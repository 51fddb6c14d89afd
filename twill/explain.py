"""What bounds a loop, and what would move the bound: the query behind `twill explain`.

Takes a problem with its result and a function that solves a problem; returns the lower bound of every unit
and circuit, and the effect of lifting each of them, and each limit, alone and in the best pairs. A change
whose lower bound shows that it cannot help is not solved.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise

from twill.engine.clock import Limit
from twill.ir.problem import Edge, Operation, Problem, Time
from twill.ir.schedule import Result, Status
from twill.modulo.bounds import bounds, recurrence_bound, resource_bound
from twill.smt.explain import FAMILIES

Solve = Callable[[Problem], Result]
Begin = Callable[[int, int, tuple[str, ...]], None]
"""Called with the number of a change, how many there are of its kind, and what is lifted."""


@dataclass(frozen=True, slots=True)
class Bottleneck:
    """A lower bound on the interval."""

    kind: str
    """`unit` or `circuit`."""
    name: str
    """Of the unit, or the operations of the circuit."""
    bound: Time


@dataclass(frozen=True, slots=True)
class Change:
    """A unit, circuit or limit that is lifted."""

    name: str
    apply: Callable[[Problem], Problem]


@dataclass(frozen=True, slots=True)
class Effect:
    """The loop after some changes."""

    changes: tuple[str, ...]
    interval: Time | None
    """None where no schedule was found; the interval of the loop itself where the bound excludes a smaller
    one."""
    proved: Time
    """No interval below this one is feasible after the changes."""
    status: Status
    binding: str
    """What sets the lower bound after the changes."""
    solved: bool
    """False where the lower bound alone shows that the changes do not help."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """Of one loop."""

    result: Result
    bottlenecks: tuple[Bottleneck, ...]
    """Largest first."""
    singles: tuple[Effect, ...]
    """One change at a time, the most effective first."""
    pairs: tuple[Effect, ...]
    """Pairs that gain more than each of their changes alone, the most effective first."""


def explained(
    result: Result,
    solve: Solve,
    pairs: int = 3,
    seconds: float = 60.0,
    begin: Begin = lambda number, total, changes: None,
    further: Sequence[Change] = (),
) -> Explanation:
    """Explain a result. At most `pairs` pairs are solved, and none is begun after `seconds`; bounds are
    always computed. `begin` is called before each change. `further` changes are tried alone."""
    problem, limit = result.problem, Limit(seconds)
    found = bottlenecks(problem)
    changes = tuple(_changes(result, found))
    tried = [(change,) for change in (*further, *changes)]
    singles = tuple(_effects(result, tried, solve, limit, begin))
    best = {effect.changes[0]: _value(effect) for effect in singles}
    candidates = _candidates(result, changes, best)[:pairs]
    doubles = _effects(result, candidates, solve, limit, begin)
    gaining = (effect for effect in doubles if _value(effect) < min(best[name] for name in effect.changes))
    return Explanation(result, found, tuple(sorted(singles, key=_value)), tuple(sorted(gaining, key=_value)))


def _effects(
    result: Result, tried: Sequence[Sequence[Change]], solve: Solve, limit: Limit, begin: Begin
) -> Iterator[Effect]:
    for number, changes in enumerate(tried, 1):
        begin(number, len(tried), tuple(change.name for change in changes))
        yield _effect(result, changes, solve, limit)


def _value(effect: Effect) -> tuple[Time, Time]:
    return (effect.interval or 1 << 60, effect.proved)


# --- bounds -----------------------------------------------------------------------------------------------


def bottlenecks(problem: Problem) -> tuple[Bottleneck, ...]:
    """The bound of every unit in use, and of the critical circuit of every strongly connected component."""
    units = [
        Bottleneck("unit", unit.name, resource_bound(replace(problem, units=(unit,))).value)
        for unit in problem.units
    ]
    circuits = [_circuit(problem, members) for members in _components(problem)]
    found = [one for one in (*units, *circuits) if one is not None and one.bound > 0]
    return tuple(sorted(found, key=lambda one: (-one.bound, one.kind, one.name)))


def _components(problem: Problem) -> Iterable[set[str]]:
    """The operations that lie on circuits together. Most loops at their bound have circuits of one operation
    alone, and no need of a graph library."""
    carried = {(edge.src, edge.dst) for edge in problem.edges if edge.distance}
    if all(src == dst for src, dst in carried):
        return [{src} for src, _ in sorted(carried)]
    import networkx as nx

    return nx.strongly_connected_components(nx.DiGraph([(edge.src, edge.dst) for edge in problem.edges]))


def _circuit(problem: Problem, members: set[str]) -> Bottleneck | None:
    edges = tuple(edge for edge in problem.edges if edge.src in members and edge.dst in members)
    found = recurrence_bound(replace(problem, edges=edges)) if edges else None
    return Bottleneck("circuit", found.circuit, found.value) if found and found.ops else None


def binding(problem: Problem) -> str:
    """What sets the lower bound."""
    found = bounds(problem)
    if found.resource.value >= found.recurrence.value:
        return f"unit {found.resource.unit}"
    return f"circuit {' -> '.join((*found.recurrence.ops, found.recurrence.ops[0]))}"


# --- changes ----------------------------------------------------------------------------------------------


def _changes(result: Result, found: Sequence[Bottleneck]) -> Iterator[Change]:
    """Each kind of limit lifted, where that changes the problem, those first that the result names as
    reasons; then each unit and circuit whose bound is at least half of the interval. Less busy ones rarely
    matter and would take most of the time."""
    problem, named = result.problem, {reason.family for reason in result.reasons}
    for family in sorted(FAMILIES, key=lambda family: family.name not in named):
        if family.lift(problem) != problem:
            yield Change(f"limit: {family.name}", family.lift)
    for one in found:
        if 2 * one.bound < result.proved:
            return
        if one.kind == "unit":
            yield Change(f"unit {one.name}", lambda problem, unit=one.name: without_unit(problem, unit))
        else:
            ops = tuple(one.name.split(" -> "))
            yield Change(f"circuit {one.name}", lambda problem, ops=ops: without_circuit(problem, ops))


def without_unit(problem: Problem, unit: str) -> Problem:
    """The problem with unlimited capacity of a unit; latencies do not change."""

    def free(op: Operation) -> Operation:
        kept = tuple(r for r in op.reservations if r.unit != unit)
        return replace(op, reservations=kept, latency=op.duration) if kept != op.reservations else op

    return replace(problem, operations=tuple(map(free, problem.operations)))


def without_circuit(problem: Problem, ops: Sequence[str]) -> Problem:
    """The problem with no delay along a circuit; `ops` ends where it begins."""
    steps = set(pairwise(ops))

    def free(edge: Edge) -> Edge:
        return replace(edge, delay=0, cross_delay=None) if (edge.src, edge.dst) in steps else edge

    return replace(problem, edges=tuple(map(free, problem.edges)))


def _candidates(
    result: Result, changes: Sequence[Change], best: dict[str, tuple[Time, Time]]
) -> list[tuple[Change, Change]]:
    """Pairs whose lower bound allows more than each change alone, the smallest bound first."""
    allowed = list[tuple[Time, int, tuple[Change, Change]]]()
    for number, (a, b) in enumerate(combinations(changes, 2)):
        low = bounds(b.apply(a.apply(result.problem))).value
        if low < min(best[a.name][0], best[b.name][0], _interval(result)):
            allowed.append((low, number, (a, b)))
    return [pair for _, _, pair in sorted(allowed, key=lambda one: one[:2])]


def _interval(result: Result) -> Time:
    return result.solution.interval if result.solution else 1 << 60


def _effect(result: Result, changes: Sequence[Change], solve: Solve, limit: Limit) -> Effect:
    """The loop after the changes; not solved where the lower bound excludes a gain, or past the limit."""
    problem = result.problem
    for change in changes:
        problem = change.apply(problem)
    names, low, what = tuple(change.name for change in changes), bounds(problem).value, binding(problem)
    now = result.solution.interval if result.solution else None
    if now is not None and low >= now:
        return Effect(names, now, low, "optimal", what, False)
    if not limit.left:
        return Effect(names, now, low, "feasible" if now else "unknown", what, False)
    found = solve(problem)
    interval = min((one for one in (found.solution and found.solution.interval, now) if one), default=None)
    return Effect(names, interval, found.proved, found.status, what, True)
