"""What would move the bound: effects are those of solving the changed problem, and bounds prune only what
cannot help."""

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.samples import attention, figure1
from twill.cli import run
from twill.explain import bottlenecks, explained, without_circuit, without_unit
from twill.ir.problem import Edge, Operation, Problem, Reservation, Unit
from twill.ir.schedule import Result
from twill.ir.search import Options
from twill.modulo.bounds import bounds
from twill.pipeline import solve
from twill.report.explanation import document, tables, text


def solved(problem: Problem) -> Result:
    return solve(problem, Options(time_limit=20.0, explain=False))


def chain(circuit: int, works: Sequence[int]) -> Problem:
    """Operations on units of their own, and a circuit from the first to itself."""
    operations = tuple(
        Operation(f"o{i}", "op", (Reservation(f"u{i}", c),), c, 1) for i, c in enumerate(works)
    )
    edges = (Edge("o0", "o0", circuit, 1), *(Edge(f"o{i}", f"o{i + 1}", 1) for i in range(len(works) - 1)))
    return Problem("chain", "", tuple(Unit(f"u{i}") for i in range(len(works))), operations, edges)


def test_bottlenecks_are_the_bounds_of_units_and_circuits() -> None:
    found = bottlenecks(chain(5, (7, 3)))
    assert [(one.kind, one.name, one.bound) for one in found] == [
        ("unit", "u0", 7),
        ("circuit", "o0 -> o0", 5),
        ("unit", "u1", 3),
    ]
    problem = attention().problem
    assert bottlenecks(problem)[0].bound == bounds(problem).value


def test_lifting_a_unit_or_a_circuit_removes_its_bound_alone() -> None:
    problem = chain(5, (7, 3))
    assert bounds(without_unit(problem, "u0")).value == 5
    assert bounds(without_circuit(problem, ("o0", "o0"))).value == 7
    assert without_unit(problem, "u0").operations[0].duration == problem.operations[0].duration


def test_effects_of_single_changes_and_of_pairs() -> None:
    found = explained(solved(chain(7, (7, 4))), solved)
    singles = {effect.changes[0]: effect for effect in found.singles}
    assert not singles["unit u0"].solved, "the circuit still takes 7"
    assert singles["unit u0"].interval == 7
    (pair,) = found.pairs
    assert set(pair.changes) == {"unit u0", "circuit o0 -> o0"}
    assert (pair.interval, pair.status, pair.binding) == (4, "optimal", "unit u1")


def test_no_change_makes_the_interval_longer() -> None:
    result = solved(figure1().problem)
    assert result.solution
    found = explained(result, solved)
    assert all(effect.interval and effect.interval <= result.solution.interval for effect in found.singles)
    assert all(effect.proved <= (effect.interval or 0) for effect in found.singles)


def test_nothing_is_solved_past_the_deadline() -> None:
    def never(problem: Problem) -> Result:
        raise AssertionError

    found = explained(replace(attention(), solution=None, status="unknown"), never, seconds=-1.0)
    assert all(effect.interval is None for effect in found.singles)


def test_what_was_not_solved_may_still_gain() -> None:
    found = explained(solved(figure1().problem), solved, seconds=-1.0)
    (_, effects) = (table for _, table in tables(found))
    rows = {row[0]: row for row in effects.rows}
    open_ = [effect for effect in found.singles if not effect.solved and effect.status != "optimal"]
    assert open_
    for effect in open_:
        assert rows[effect.changes[0]][2] == "unknown"


def test_each_change_is_announced() -> None:
    begun = list[tuple[int, int, tuple[str, ...]]]()
    found = explained(solved(chain(7, (7, 4))), solved, begin=lambda i, n, names: begun.append((i, n, names)))
    names = {effect.changes for effect in (*found.singles, *found.pairs)}
    assert names <= {changes for _, _, changes in begun}
    singles = [event for event in begun if len(event[2]) == 1]
    assert [(number, total) for number, total, _ in singles] == [
        (i, len(singles)) for i in range(1, len(singles) + 1)
    ]


def test_text_and_document_say_the_same() -> None:
    found = explained(solved(chain(7, (7, 4))), solved)
    members = document(found)
    assert members["interval"] == 7
    assert [effect["changes"] for effect in members["effects"]] == [
        list(effect.changes) for effect in (*found.singles, *found.pairs)
    ]
    assert "1.75x" in text(found)
    assert [name for name, _ in tables(found)] == ["Bottlenecks", "What moves the bound"]


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "examples/graphs/figure1.graph.json", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["schema"] == "twill.explain/1"
