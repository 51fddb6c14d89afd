"""An explanation as text, as tables of the report, and as JSON (`twill.explain/1`)."""

from collections.abc import Iterator, Sequence
from typing import Any

from twill.explain import Bottleneck, Effect, Explanation
from twill.ir.problem import Problem, Time
from twill.report import facts, summary
from twill.report.tables import Table

_WIDTH = 30
"""Characters of a full bar."""


def tables(found: Explanation) -> tuple[tuple[str, Table], ...]:
    """What bounds the loop, and what would move the bound."""
    problem, effects = found.result.problem, (*found.singles, *found.pairs)
    return (
        (
            "Bottlenecks",
            Table(_BOUNDS, tuple(_bound(problem, one, _now(found)) for one in found.bottlenecks)),
        ),
        (
            "What moves the bound",
            Table(_EFFECTS, tuple(_effect(problem, one, _now(found)) for one in effects), note=_NOTE),
        ),
    )


_NOTE = "Each row lifts one unit, circuit or limit completely, or two of them, and schedules the loop again."
_BOUNDS = ("bound", "cycles", "of the interval", "")
_EFFECTS = ("without", "interval, cycles", "gain", "then bound by", "evidence")


def _now(found: Explanation) -> Time:
    """The interval to compare with; the proven bound where there is none."""
    return found.result.solution.interval if found.result.solution else found.result.proved


def _bound(problem: Problem, one: Bottleneck, now: Time) -> tuple[str, ...]:
    part = one.bound / now if now else 0.0
    bar = "█" * min(_WIDTH, round(_WIDTH * part))
    return (f"{one.kind} {one.name}", str(facts.cycles(problem, one.bound)), facts.percent(part), bar)


def _effect(problem: Problem, one: Effect, now: Time) -> tuple[str, ...]:
    interval = "none" if one.interval is None else str(facts.cycles(problem, one.interval))
    if one.interval is not None and one.interval < now:
        gain = f"{now / one.interval:.2f}x"
    else:
        gain = "none" if one.proved >= now else "unknown"
    return (" and ".join(one.changes), interval, gain, one.binding, _evidence(problem, one))


def _evidence(problem: Problem, one: Effect) -> str:
    proved = f"at least {facts.cycles(problem, one.proved)}"
    if not one.solved:
        return "lower bound" if one.status == "optimal" else f"not solved in time; {proved}"
    return "optimal" if one.status == "optimal" else f"{one.status}; {proved}"


def text(found: Explanation) -> str:
    """The tables as aligned text under the result's title."""
    lines = [summary.title(found.result)]
    lines += [f"  {label:<10} {line}" for label, line in summary.pairs(found.result)[:2]]
    for name, table in tables(found):
        lines += ["", name, *_aligned((table.head, *table.rows))]
    return "\n".join(lines)


def _aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return (
        "  " + "  ".join(f"{cell:<{w}}" for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def document(found: Explanation) -> dict[str, Any]:
    """The members of `twill.explain/1`."""
    result = found.result
    return {
        "schema": "twill.explain/1",
        "name": result.problem.name,
        "machine": result.problem.machine,
        "cycles_per_unit": result.problem.resolution.cycles_per_unit,
        "status": result.status,
        "interval": result.solution.interval if result.solution else None,
        "proved": result.proved,
        "bottlenecks": [
            {"kind": one.kind, "name": one.name, "bound": one.bound} for one in found.bottlenecks
        ],
        "effects": [
            {
                "changes": list(one.changes),
                "interval": one.interval,
                "proved": one.proved,
                "status": one.status,
                "binding": one.binding,
                "solved": one.solved,
            }
            for one in (*found.singles, *found.pairs)
        ],
    }
