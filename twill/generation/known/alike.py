"""Problems that differ in names and places alone: results of one are results of the other.

`shape` takes a problem and returns what its schedules follow from; `carried` takes a result for a problem of
the same shape and returns it with this one's names. Names of operations have numbers that say where they
stand in the kernel, so kernels that differ in front of a loop name its operations differently.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from twill.ir.problem import Implementation, Problem, Use
from twill.ir.schedule import Result

Names = Mapping[str, str]


def shape(problem: Problem) -> Problem:
    """The problem with operations and values named by their places, of no kernel and no file."""
    ops = {op.id: f"{i}" for i, op in enumerate(problem.operations)}
    values = {value.id: f"{i}" for i, value in enumerate(problem.values)}
    place = {op.id: i for i, op in enumerate(problem.operations)}

    def placed(names: Iterable[str]) -> tuple[str, ...]:
        return tuple(ops[name] for name in sorted(names, key=place.__getitem__))

    return replace(
        problem,
        name="",
        source=None,
        operations=tuple(replace(op, id=ops[op.id], location=None) for op in problem.operations),
        edges=tuple(replace(edge, src=ops[edge.src], dst=ops[edge.dst]) for edge in problem.edges),
        values=tuple(
            replace(one, id=values[one.id], src=ops[one.src], uses=_uses(one.uses, ops))
            for one in problem.values
        ),
        together=tuple(sorted(map(placed, problem.together))),
        apart=tuple(sorted((one, other) for one, other in map(placed, problem.apart))),
        starts=tuple(sorted((ops[name], start) for name, start in problem.starts)),
        implementations=tuple(_implementation(one, ops, values) for one in problem.implementations),
    )


def _uses(uses: Iterable[Use], ops: Names) -> tuple[Use, ...]:
    return tuple(replace(use, op=ops[use.op]) for use in uses)


def _implementation(one: Implementation, ops: Names, values: Names) -> Implementation:
    return replace(
        one,
        operations=tuple(replace(times, op=ops[times.op]) for times in one.operations),
        values=tuple(
            replace(value, value=values[value.value], uses=_uses(value.uses, ops)) for value in one.values
        ),
    )


def carried(result: Result, problem: Problem) -> Result:
    """The result for another problem of the same shape. Start times and groups go by the places of
    operations; evidence and notes name them."""
    old = result.problem
    ops = {one.id: other.id for one, other in zip(old.operations, problem.operations, strict=True)}
    values = {one.id: other.id for one, other in zip(old.values, problem.values, strict=True)}
    if all(one == other for names in (ops, values) for one, other in names.items()):
        return replace(result, problem=problem)
    solution, circuit = result.solution, result.bounds.recurrence
    if solution is not None:
        allocations = tuple(replace(one, value=values[one.value]) for one in solution.allocations)
        solution = replace(solution, allocations=allocations)
    recurrence = replace(circuit, ops=tuple(ops[name] for name in circuit.ops))
    return replace(
        result,
        problem=problem,
        solution=solution,
        bounds=replace(result.bounds, recurrence=recurrence),
        refuted=tuple(replace(one, by=_reworded(one.by, ops)) for one in result.refuted),
        reasons=tuple(replace(one, text=_reworded(one.text, ops)) for one in result.reasons),
        notes=tuple(_reworded(one, ops) for one in result.notes),
        considered=tuple(replace(one, by=_reworded(one.by, ops)) for one in result.considered),
    )


def _reworded(text: str, names: Names) -> str:
    """A text with the names of operations replaced."""
    longest_first = sorted(names, key=len, reverse=True)
    word = "|".join(map(re.escape, longest_first))
    return re.sub(rf"(?<![\w.])(?:{word})(?!\w|\.\w)", lambda found: names[found[0]], text)
