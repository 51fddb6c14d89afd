"""Two schedules compared: interval, partition, moved operations; as text, as JSON (`twill.diff/1`) and as a
drawing.

Takes two `Result`s, of the same loop or of two related ones (another machine, another what-if, another
version). Operations are matched by id. Times are machine cycles, so that results of different resolutions
compare.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from twill.files.text import Json
from twill.ir.schedule import Result
from twill.report import facts, timeline
from twill.report.scene import Scene, stacked


@dataclass(frozen=True, slots=True)
class Place:
    """Of an operation: its start in cycles, its stage and its group."""

    start: int
    stage: int
    group: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """What differs between two results."""

    numbers: tuple[tuple[str, str, str], ...]
    """Label, before, after; equal ones included."""
    moved: tuple[tuple[str, Place, Place], ...]
    """Operations with another start, stage or group."""
    costs: tuple[tuple[str, str, str], ...]
    """Operations with other costs."""
    removed: tuple[str, ...]
    added: tuple[str, ...]
    regrouped: tuple[str, ...]
    """Operations whose group holds other operations than before; numbers of groups do not matter."""

    @property
    def same(self) -> bool:
        differing = any(a != b for label, a, b in self.numbers if label not in ("loop", "machine"))
        return not (differing or self.moved or self.costs or self.removed or self.added or self.regrouped)


def compared(before: Result, after: Result) -> Comparison:
    """Compare two results."""
    old, new = _places(before), _places(after)
    ops = [op.id for op in before.problem.operations]
    others = {op.id for op in after.problem.operations}
    labels = dict.fromkeys((*_numbers(before), *_numbers(after)))
    return Comparison(
        tuple((label, _numbers(before).get(label, "-"), _numbers(after).get(label, "-")) for label in labels),
        tuple((op, old[op], new[op]) for op in old if op in new and old[op] != new[op]),
        tuple(_costs(before, after)),
        tuple(op for op in ops if op not in others),
        tuple(op.id for op in after.problem.operations if op.id not in set(ops)),
        tuple(_regrouped(old, new)),
    )


def _places(result: Result) -> Mapping[str, Place]:
    problem, solution = result.problem, result.solution
    if solution is None:
        return {}
    return {
        op.id: Place(facts.cycles(problem, start), start // solution.interval, group)
        for op, start, group in zip(problem.operations, solution.start, solution.group, strict=True)
    }


def _numbers(result: Result) -> dict[str, str]:
    problem, solution = result.problem, result.solution
    found = {
        "loop": problem.name,
        "machine": problem.machine,
        "status": result.status,
        "interval": str(facts.cycles(problem, solution.interval)) if solution else "none",
        "proven bound": str(facts.cycles(problem, result.proved)),
    }
    if solution is None:
        return found
    found |= {
        "length": str(facts.cycles(problem, solution.length(problem))),
        "stages": str(solution.stages),
        "groups": str(len(solution.groups)),
        "registers": ", ".join(f"{g.registers}" for g in solution.groups),
        "shared memory": str(facts.allocated(solution, "shared")),
        "tensor memory": str(facts.allocated(solution, "tensor")),
    }
    return found | {f"unit {u.unit}": facts.percent(u.fraction) for u in facts.utilization(problem, solution)}


def _costs(before: Result, after: Result) -> Iterator[tuple[str, str, str]]:
    """Operations whose reservations, latency or issue differ."""
    new = {op.id: op for op in after.problem.operations}
    for op in before.problem.operations:
        if op.id in new:
            texts = [_cost(one, result) for one, result in ((op, before), (new[op.id], after))]
            if texts[0] != texts[1]:
                yield op.id, texts[0], texts[1]


def _cost(op: Any, result: Result) -> str:
    cycles = [f"{r.unit} {facts.cycles(result.problem, r.cycles * r.amount)}" for r in op.reservations]
    latency, issue = (facts.cycles(result.problem, time) for time in (op.latency, op.issue))
    return ", ".join([*cycles, f"latency {latency}", f"issue {issue}"])


def _regrouped(old: Mapping[str, Place], new: Mapping[str, Place]) -> Iterator[str]:
    shared = [op for op in old if op in new]

    def mates(places: Mapping[str, Place], op: str) -> frozenset[str]:
        return frozenset(other for other in shared if places[other].group == places[op].group)

    return (op for op in shared if mates(old, op) != mates(new, op))


def text(found: Comparison) -> str:
    """The differences as lines, `label: before -> after`."""
    if found.same:
        return "the schedules are the same"
    lines = [f"{label:<14} {a} -> {b}" for label, a, b in found.numbers if a != b]
    lines += [
        f"{name:<14} {', '.join(ops)}"
        for name, ops in (("removed", found.removed), ("added", found.added))
        if ops
    ]
    if found.regrouped:
        lines.append(f"{'regrouped':<14} {facts.listed(found.regrouped, 40)}")
    lines += ["", "moved operations (start cycle, stage, group)"] if found.moved else []
    width = max((len(op) for op, _, _ in found.moved), default=0)
    lines += [f"  {op:<{width}}  {_place(a):<22} -> {_place(b)}" for op, a, b in found.moved]
    lines += ["", "costs"] if found.costs else []
    return "\n".join([*lines, *(f"  {op}: {a} -> {b}" for op, a, b in found.costs)])


def _place(place: Place) -> str:
    return f"{place.start}, stage {place.stage}, group {place.group}"


def document(found: Comparison) -> dict[str, Json]:
    """The members of `twill.diff/1`."""
    places = [
        {"id": op, **{name: [getattr(a, name), getattr(b, name)] for name in ("start", "stage", "group")}}
        for op, a, b in found.moved
    ]
    return {
        "schema": "twill.diff/1",
        "same": found.same,
        "numbers": {label: [a, b] for label, a, b in found.numbers},
        "moved": places,
        "costs": {op: [a, b] for op, a, b in found.costs},
        "removed": list(found.removed),
        "added": list(found.added),
        "regrouped": list(found.regrouped),
    }


def drawing(before: Result, after: Result) -> Scene | None:
    """Both timelines, one above the other; None where one has no schedule."""
    if before.solution is None or after.solution is None:
        return None
    first, second = (
        timeline.draw(result.problem, result.solution) for result in (before, after) if result.solution
    )
    return stacked(first, second)
