"""`twill check`: a schedule file against the problem built afresh."""

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.verify.loops import figure1, piped
from twill.diagnostics import Location
from twill.files import read_schedule, write_schedule
from twill.ir.problem import Problem, Source
from twill.ir.schedule import Bounds, RecurrenceBound, ResourceBound, Result, Solution
from twill.ir.search import Options
from twill.modulo.bounds import bounds
from twill.verify import check_document
from twill.verify.document import ties

FIGURE1 = Result(
    figure1(),
    "optimal",
    Bounds(ResourceBound("TC", 2), RecurrenceBound(1, ("O",))),
    2,
    Solution(2, (0, 2, 3), (0, 0, 0)),
)
MODULO = Options(modulo_only=True)


def rules(text: str, problem: Problem) -> list[str]:
    return sorted(
        {violation.rule for violation in check_document(read_schedule(text, "schedule.json"), problem)}
    )


def joint() -> tuple[Problem, str]:
    problem, solution = piped()
    return problem, write_schedule(Result(problem, "optimal", bounds(problem), 4, solution))


def test_the_right_document() -> None:
    assert rules(write_schedule(FIGURE1, MODULO), figure1()) == []
    problem, text = joint()
    assert rules(text, problem) == []


def edited(change: dict[str, Any]) -> str:
    """The document of the hand-made pipeline with members replaced: `ops.2.start` is a path."""
    document = json.loads(joint()[1])
    for path, value in change.items():
        *steps, last = [int(step) if step.isdigit() else step for step in path.split(".")]
        place: Any = document
        for step in steps:
            place = place[step]
        place[last] = value
    return json.dumps(document)


EDITS: list[tuple[dict[str, Any], list[str]]] = [
    ({"ops.3.start": 7}, ["DOCUMENT"]),
    ({"ops.2.start": 2}, ["DEPENDENCE"]),
    ({"ops.1.start": 4, "ops.1.stage": 1}, ["DEPENDENCE"]),
    ({"length": 9}, ["DOCUMENT"]),
    ({"stages": 3}, ["DOCUMENT"]),
    ({"ops.1.stage": 1}, ["DOCUMENT"]),
    ({"ops.1.occupancy": 1}, ["DOCUMENT"]),
    ({"ops.1.unit": "SFU"}, ["DOCUMENT"]),
    ({"edges.1.cross_group": False}, ["DOCUMENT"]),
    ({"interval_cycles": 2}, ["DOCUMENT"]),
    ({"groups.1.ops": ["qk"]}, ["DOCUMENT"]),
    ({"groups.1.registers": 16}, ["REGISTERS"]),
    ({"places.0.address": 1}, ["SHARED"]),
    ({"edges.1.delay": 1}, ["PROBLEM"]),
    ({"ops.2.issue": 0}, ["PROBLEM"]),
    ({"limits.shared": 999}, ["PROBLEM"]),
    ({"units.0.capacity": 2}, ["PROBLEM"]),
    ({"ops.0.values.0.shared": 8, "places.0.size": 8}, ["PROBLEM", "SHARED"]),
    (
        {"interval": 3, "interval_cycles": 3, "bounds.proved": 3, "ops.2.stage": 1, "ops.3.stage": 2},
        ["UNITS"],
    ),
    ({"status": "feasible"}, ["STATUS"]),
    ({"bounds.resource.value": 3}, ["BOUNDS"]),
    ({"bounds.proved": 3}, ["STATUS"]),
]


@pytest.mark.parametrize(
    ("change", "expected"), EDITS, ids=[next(iter(change)) + str(i) for i, (change, _) in enumerate(EDITS)]
)
def test_an_edited_document(change: dict[str, Any], expected: list[str]) -> None:
    assert set(expected) <= set(rules(edited(change), joint()[0]))


def test_another_kernel() -> None:
    problem, text = joint()
    fewer = replace(
        problem, operations=problem.operations[:3], edges=problem.edges[:2], values=problem.values[:2]
    )
    (violation,) = [
        v for v in check_document(read_schedule(text, "s.json"), fewer) if "nodes.pv" in v.message
    ]
    assert violation.message.endswith("in the schedule and missing in the problem")


def test_where_the_kernel_lies_does_not_matter() -> None:
    def at(file: str) -> Problem:
        problem = figure1()
        ops = tuple(replace(op, location=Location(file, 7, 3)) for op in problem.operations)
        return replace(problem, operations=ops, source=Source(file, "kernel", 5), name=file)

    text = write_schedule(replace(FIGURE1, problem=at("a/kernel.ttgir")), MODULO)
    assert rules(text, at("b/kernel.ttgir")) == []
    assert rules(text, replace(at("a/kernel.ttgir"), machine="other")) == ["PROBLEM"]


def test_ties_to_other_loops_are_kept_and_named() -> None:
    """A schedule with operations in the groups of other loops is one of the loop; without a schedule the
    document speaks of the loop as it is, and a tie that is not kept is a broken rule."""
    problem, solution = piped()
    groups = dict(zip((op.id for op in problem.operations), solution.group, strict=True))
    (a, b), (c, d) = _pair(groups, same=True), _pair(groups, same=False)
    added = replace(problem, together=((a, b),), apart=((c, d),))
    result = Result(added, "optimal", bounds(added), 4, solution)
    document = read_schedule(write_schedule(result), "s.json")
    assert check_document(document, problem) == ()
    assert ties(document, problem) == (((a, b),), ((c, d),))
    assert ties(document, added) == ((), ())
    broken = replace(result, problem=replace(problem, apart=((a, b),)))
    assert "APART" in rules(write_schedule(broken), problem)
    nothing = replace(result, status="unknown", solution=None)
    assert "PROBLEM" in rules(write_schedule(nothing), problem)


def test_ties_of_the_problem_hold_where_the_document_lacks_them() -> None:
    problem, solution = piped()
    groups = dict(zip((op.id for op in problem.operations), solution.group, strict=True))
    text = write_schedule(Result(problem, "optimal", bounds(problem), 4, solution))
    assert rules(text, replace(problem, together=(_pair(groups, same=True),))) == []
    assert rules(text, replace(problem, together=(_pair(groups, same=False),))) != []


def _pair(groups: dict[str, int], *, same: bool) -> tuple[str, str]:
    return next((a, b) for a in groups for b in groups if a < b and (groups[a] == groups[b]) is same)
