"""The result as labelled lines of text: what `twill schedule` prints and the first section of the report.

Takes a `Result`; returns (label, text) pairs in a fixed order, the same for the same result except for
measured times.
"""

from collections.abc import Iterator

from twill.ir.problem import Problem
from twill.ir.schedule import Bounds, Refutation, Result, Solution
from twill.report import facts

Pair = tuple[str, str]

STATUS = {
    "optimal": "optimal",
    "feasible": "feasible, not proven optimal",
    "infeasible": "proven infeasible",
    "unknown": "stopped at a limit without an answer",
}


def title(result: Result) -> str:
    """The loop, the machine, and how good the answer is."""
    return f"{result.problem.title}: {STATUS[result.status]}"


def pairs(result: Result) -> tuple[Pair, ...]:
    """All facts about a result, the most important first."""
    return (*_answer(result), *_evidence(result))


def _answer(result: Result) -> Iterator[Pair]:
    problem, solution = result.problem, result.solution
    if solution is None:
        yield "interval", _no_interval(result)
        yield "bound", bound(result.problem, result.bounds)
        return
    yield "interval", f"{_cycles(problem, solution.interval)}; {_gap(result, solution)}"
    yield "bound", bound(result.problem, result.bounds)
    yield "length", f"{_cycles(problem, solution.length(problem))}, {_overlap(problem, solution)}"
    for group in solution.groups:
        members = facts.members(problem, solution, group.id)
        head = (
            f"{facts.counted(group.warps, 'warp')}, {group.registers} registers,"
            f" {facts.counted(len(members), 'operation')}"
        )
        yield f"group {group.id}", f"{head}: {facts.listed(members, 16)}"
    yield (
        "units",
        ", ".join(f"{u.unit} {facts.percent(u.fraction)}" for u in facts.utilization(problem, solution)),
    )
    yield from _memory(problem, solution)


def _no_interval(result: Result) -> str:
    proved = _cycles(result.problem, result.proved)
    if result.status == "infeasible":
        return f"none: refuted below {proved}, and no larger interval can help" + (
            f" ({_span(result)})" if _span(result) else ""
        )
    return f"none found; proven: at least {proved}"


def _cycles(problem: Problem, time: int) -> str:
    return facts.counted(facts.cycles(problem, time), "cycle")


def _gap(result: Result, solution: Solution) -> str:
    """How far the interval is from the proven lower bound."""
    if solution.interval <= result.proved:
        return "no smaller one exists" + (f" ({_span(result)})" if _span(result) else "")
    gap = (solution.interval - result.proved) / result.proved
    return f"proven: at least {_cycles(result.problem, result.proved)}, a gap of {100 * gap:.1f}%"


def _span(result: Result) -> str:
    """Up to how many iterations in flight the proof holds; empty where it holds for any number."""
    limits = [
        r.max_in_flight for r in result.refuted if r.max_in_flight is not None and r.interval < result.proved
    ]
    return f"with up to {min(limits)} iterations in flight" if limits else ""


def bound(problem: Problem, bounds: Bounds) -> str:
    """Both lower bounds, with the unit and the circuit that set them."""
    resource, recurrence = bounds.resource, bounds.recurrence
    decides = "resources decide" if resource.value >= recurrence.value else "recurrence decides"
    by_unit = f"{_cycles(problem, resource.value)} for unit {resource.unit}" if resource.unit else "no unit"
    by_circuit = (
        f"{_cycles(problem, recurrence.value)} for the circuit {recurrence.circuit}"
        if recurrence.ops
        else "no circuit"
    )
    return f"resources {by_unit}; recurrence {by_circuit}; the {decides}"


def _overlap(problem: Problem, solution: Solution) -> str:
    in_flight, stages = solution.in_flight(problem), solution.stages
    return (
        f"{facts.counted(in_flight, 'iteration')} in flight, operations start in"
        f" {facts.counted(stages, 'stage')}"
    )


def _memory(problem: Problem, solution: Solution) -> Iterator[Pair]:
    limits = problem.limits
    used = [
        f"shared {facts.allocated(solution, 'shared')} of {limits.shared} bytes" if limits.shared else "",
        f"tensor {facts.allocated(solution, 'tensor')} of {limits.tensor} columns" if limits.tensor else "",
    ]
    if solution.allocations:
        yield "memory", ", ".join(memory for memory in used if memory)
        for label, staging in (("multi-buffered", False), ("cross-group", True)):
            slots = [
                f"{p.value} {facts.counted(p.slots, 'slot')}"
                for p in solution.allocations
                if p.staging is staging and (staging or p.slots > 1)
            ]
            yield from [(label, ", ".join(slots))] if slots else []
    if solution.groups:
        total = sum(32 * group.warps * group.registers for group in solution.groups if group.warps > 1)
        yield "registers", f"{total} of {limits.registers_total} granted to groups of several warps"


def _evidence(result: Result) -> Iterator[Pair]:
    for refutation in result.refuted:
        yield "refuted", _refutation(result.problem, refutation)
    for reason in result.reasons:
        yield f"why: {reason.family}", reason.text
    if result.status == "infeasible":
        yield from _ways_out(result)
    for note in result.notes:
        yield "note", note
    if result.problem.resolution.cycles_per_unit != 1:
        resolution = result.problem.resolution
        error = facts.percent(resolution.worst_error)
        yield (
            "resolution",
            f"{resolution.cycles_per_unit:g} cycles per unit of time; worst rounding of a cost {error}",
        )
    if result.seconds:
        yield "seconds", ", ".join(f"{stage} {seconds:.2f}" for stage, seconds in result.seconds)


def _ways_out(result: Result) -> Iterator[Pair]:
    """What makes room for a loop without a schedule."""
    for way in dict.fromkeys(reason.way_out for reason in result.reasons if reason.way_out):
        yield "way out", way


def _refutation(problem: Problem, refutation: Refutation) -> str:
    what = "intervals up to" if refutation.below else "interval"
    most = refutation.max_in_flight
    flight = "any number of iterations" if most is None else f"up to {facts.counted(most, 'iteration')}"
    return (
        f"{what} {_cycles(problem, refutation.interval)}, {flight} in flight: by {refutation.by} in"
        f" {refutation.seconds:.2f} s"
    )
