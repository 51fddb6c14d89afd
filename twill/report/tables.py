"""Tables of the report as plain rows: a head and lines of text, ready for any writer."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from twill.costs.notes import Estimates
from twill.ir.problem import Operation, Problem
from twill.ir.schedule import Result, Solution
from twill.report import facts


@dataclass(frozen=True, slots=True)
class Table:
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    ops: tuple[tuple[str, ...], ...] = ()
    """The operations of each row; empty where rows are not about operations."""
    note: str = ""
    """A sentence above the table."""


@dataclass(frozen=True, slots=True)
class CostNotes:
    """Where the costs of operations come from, by operation id."""

    formulas: Mapping[str, str] = field(default_factory=dict[str, str])
    sources: Mapping[str, str] = field(default_factory=dict[str, str])
    """The sources of the numbers in the machine file."""
    lines: Mapping[str, str] = field(default_factory=dict[str, str])
    """The source line of each operation."""
    estimates: Estimates = field(default_factory=dict[str, tuple[str, ...]])


def operations(problem: Problem, solution: Solution | None, notes: CostNotes) -> Table:
    """Every operation by start: its place in the schedule, its costs, and their formula and source."""
    unit = _unit(problem)
    head = (
        *("operation", "op", "line", "source"),
        *(f"start, {unit}", "stage", "group", f"units, {unit}", f"latency, {unit}", f"issue, {unit}"),
        *("flags", "cost", "cost source"),
    )
    order = sorted(range(len(problem.operations)), key=lambda v: (solution.start[v] if solution else 0, v))
    ops = tuple((problem.operations[v].id,) for v in order)
    marked = any(notes.estimates.values())
    note = "≈ marks costs with a number that is an estimate: its source says which." if marked else ""
    return Table(head, tuple(_operation(problem.operations[v], v, solution, notes) for v in order), ops, note)


def _unit(problem: Problem) -> str:
    """The unit of time."""
    scale = problem.resolution.cycles_per_unit
    return "cycles" if scale == 1 else f"units of {scale:g} cycles"


def _operation(op: Operation, v: int, solution: Solution | None, notes: CostNotes) -> tuple[str, ...]:
    where = ("", "", "")
    if solution:
        stage = facts.stage(solution.start[v], solution.interval)
        where = (str(solution.start[v]), str(stage), str(solution.group[v]))
    units = ", ".join(
        f"{r.unit} {r.cycles}" + (f"×{r.amount}" if r.amount > 1 else "") for r in op.reservations
    )
    flags = ", ".join(flag for flag, on in (("variable", op.variable), ("streaming", op.streaming)) if on)
    line = str(op.location.line) if op.location else ""
    source = notes.sources.get(op.id, "")
    text = notes.lines.get(op.id, "")
    cost = f"{'≈ ' if notes.estimates.get(op.id) else ''}{notes.formulas.get(op.id, '')}"
    return (op.id, op.name, line, text, *where, units, str(op.latency), str(op.issue), flags, cost, source)


def units(problem: Problem, solution: Solution) -> Table:
    """How busy each unit is."""
    unit = _unit(problem)
    used = facts.utilization(problem, solution)
    rows = ((u.unit, str(u.busy), str(u.available), facts.percent(u.fraction)) for u in used)
    return Table(("unit", f"busy, {unit}", f"available, {unit}", "used"), tuple(rows))


def values(problem: Problem, solution: Solution) -> Table:
    """Every value with its live range and its registers, shared memory and tensor memory."""
    head = (
        *("value", "written by", f"live, {_unit(problem)}"),
        *("registers per thread", "shared bytes", "tensor columns", "staging bytes"),
    )
    rows, ops = list[tuple[str, ...]](), list[tuple[str, ...]]()
    for value in problem.values:
        start, end = facts.live(problem, solution, value)
        lives = "always" if value.resident else f"{start} to {end}"
        sizes = (value.registers, value.shared, value.tensor, value.staging)
        rows.append((value.id, value.src, lives, *(str(size) if size else "" for size in sizes)))
        ops.append(tuple(dict.fromkeys((value.src, *(use.op for use in value.uses)))))
    return Table(head, tuple(rows), tuple(ops))


def effort(result: Result) -> Table:
    """The refuted intervals, the engine or bound that refuted each, and the time it took."""
    rows = (
        (
            f"{'up to ' if r.below else ''}{r.interval}",
            "any length"
            if r.max_in_flight is None
            else facts.counted(r.max_in_flight, "iteration") + " in flight",
            r.by,
            f"{r.seconds:.2f}",
        )
        for r in result.refuted
    )
    return Table((f"interval, {_unit(result.problem)}", "for", "refuted by", "seconds"), tuple(rows))
