"""Tables of the report as plain rows: a head and lines of text, ready for any writer."""

from collections.abc import Mapping
from dataclasses import dataclass

from twill.ir.problem import Operation, Problem
from twill.ir.schedule import Result, Solution
from twill.report import facts


@dataclass(frozen=True, slots=True)
class Table:
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def operations(problem: Problem, solution: Solution | None, formulas: Mapping[str, str]) -> Table:
    """Every operation by start: its place in the schedule, its costs, and the formula they come from."""
    head = ("operation", "what", "line", "start", "stage", "group", "units", "latency", "issue", "flags", "cost from")
    order = sorted(range(len(problem.operations)), key=lambda v: (solution.start[v] if solution else 0, v))
    return Table(head, tuple(_operation(problem.operations[v], v, solution, formulas) for v in order))


def _operation(op: Operation, v: int, solution: Solution | None, formulas: Mapping[str, str]) -> tuple[str, ...]:
    where = ("", "", "")
    if solution:
        where = (str(solution.start[v]), str(facts.stage(solution.start[v], solution.interval)), str(solution.group[v]))
    units = ", ".join(f"{r.unit} {r.cycles}" + (f"×{r.amount}" if r.amount > 1 else "") for r in op.reservations)
    flags = ", ".join(flag for flag, on in (("variable", op.variable), ("streaming", op.streaming)) if on)
    line = str(op.location.line) if op.location else ""
    return (op.id, op.name, line, *where, units, str(op.latency), str(op.issue), flags, formulas.get(op.id, ""))


def units(problem: Problem, solution: Solution) -> Table:
    """How busy each unit is."""
    rows = ((u.unit, str(u.busy), str(u.available), facts.percent(u.fraction)) for u in facts.utilization(problem, solution))
    return Table(("unit", "busy", "available", "used"), tuple(rows))


def values(problem: Problem, solution: Solution) -> Table:
    """Every value with its live range and its registers, shared memory and tensor memory."""
    head = ("value", "from", "lives", "registers per thread", "shared bytes", "tensor columns", "staging bytes")
    rows = list[tuple[str, ...]]()
    for value in problem.values:
        start, end = facts.live(problem, solution, value)
        lives = "always" if value.resident else f"{start} to {end}"
        sizes = (value.registers, value.shared, value.tensor, value.staging)
        rows.append((value.id, value.src, lives, *(str(size) if size else "" for size in sizes)))
    return Table(head, tuple(rows))


def effort(result: Result) -> Table:
    """The refuted intervals, the engine or bound that refuted each, and the time it took."""
    rows = (
        (
            f"{'up to ' if r.below else ''}{r.interval}",
            "any length" if r.max_in_flight is None else facts.counted(r.max_in_flight, "iteration") + " in flight",
            r.by,
            f"{r.seconds:.2f}",
        )
        for r in result.refuted
    )
    return Table(("interval", "for", "refuted by", "seconds"), tuple(rows))
