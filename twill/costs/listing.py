"""A problem as text, for reading: every number that a schedule depends on.

Takes a `Problem` and the formulas of its costs; gives lines of aligned columns: operations, edges, values,
limits, and how much of each unit one iteration asks for.
"""

from collections.abc import Iterable, Iterator, Mapping

from twill.ir.problem import Edge, Operation, Problem, Value

Row = tuple[str, ...]


def listing(problem: Problem, formulas: Mapping[str, str] | None = None) -> str:
    """The whole problem; deterministic, one item per line."""
    parts = (
        (
            ("operation", "is", "units", "latency", "issue", "warps", "", "formula"),
            _operations(problem, formulas or {}),
        ),
        (("from", "to", "kind", "distance", "delay", "across groups", ""), map(_edge, problem.edges)),
        (
            ("value", "written by", "registers", "shared", "tensor", "staging", "", "read by"),
            map(_value, problem.values),
        ),
        (("unit", "capacity", "cycles per iteration", "at least"), _demand(problem)),
    )
    tables = [_table(head, rows) for head, rows in parts]
    return "\n".join([f"{problem.name} on {problem.machine}", *tables, *_rest(problem)]) + "\n"


def _operations(problem: Problem, formulas: Mapping[str, str]) -> Iterator[Row]:
    for op in problem.operations:
        units = ", ".join(
            f"{r.unit} {r.cycles}" + (f"x{r.amount}" if r.amount > 1 else "") for r in op.reservations
        )
        yield (
            op.id,
            op.name,
            units,
            str(op.latency),
            str(op.issue),
            str(op.warps),
            _flags(op),
            formulas.get(op.id, ""),
        )


def _flags(op: Operation) -> str:
    return "streaming" if op.streaming else "variable" if op.variable else ""


def _edge(edge: Edge) -> Row:
    return (
        edge.src,
        edge.dst,
        edge.kind,
        str(edge.distance),
        str(edge.delay),
        str(edge.crossing),
        "waits" if edge.blocking else "",
    )


def _value(value: Value) -> Row:
    uses = ", ".join(
        f"{u.op}" + (f"+{u.distance}" if u.distance else "") + (f" for {u.hold}" if u.hold else "")
        for u in value.uses
    )
    notes = "resident" if value.resident else f"{value.slots} ahead" if value.slots else ""
    sizes = (value.registers, value.shared, value.tensor, value.staging)
    return (value.id, value.src, *(str(size or "") for size in sizes), notes, uses)


def _demand(problem: Problem) -> Iterator[Row]:
    """How much one iteration asks of each unit, and the interval that forces."""
    for unit in problem.units:
        needed = sum(
            r.cycles * r.amount for op in problem.operations for r in op.reservations if r.unit == unit.name
        )
        yield (unit.name, str(unit.capacity), str(needed), str(-(-needed // unit.capacity)))


def _rest(problem: Problem) -> Iterator[str]:
    limits = problem.limits
    yield from (f"together: {', '.join(ops)}" for ops in problem.together)
    yield f"limits: {limits.groups} groups, {limits.warps} warps"
    yield f"memory: {limits.shared} bytes of shared memory, {limits.tensor} columns of tensor memory"
    yield (
        f"registers: {limits.registers_per_thread} per thread in steps of {limits.register_step},"
        f" {limits.registers_total} in all, {limits.register_base} for addresses and counters"
    )


def _table(head: Row, rows: Iterable[Row]) -> str:
    lines = [head, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    return (
        "\n".join(
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
            for line in lines
        )
        + "\n"
    )
