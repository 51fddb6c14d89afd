"""A loop with several implementations: the choice is part of the problem, its answer the best of all."""

from dataclasses import replace
from random import Random

import pytest

from tests.properties.tiny import tiny_problem
from twill.files import read_graph, read_schedule, write_graph, write_schedule
from twill.ir.problem import Edge, Operation, Problem, Value, choice
from twill.ir.schedule import Considered, Result
from twill.ir.search import Options
from twill.pipeline import among_implementations, solve
from twill.verify import check_document, check_result

SEARCH = Options(time_limit=20, explain=False)


def otherwise(problem: Problem, random: Random) -> Problem:
    """The problem with some operations on other units, of other durations."""
    units = [unit.name for unit in problem.units]

    def changed(op: Operation) -> Operation:
        uses = tuple(
            replace(use, cycles=random.randint(1, 3), unit=random.choice(units), amount=1)
            for use in op.reservations
        )
        return replace(op, reservations=uses, latency=op.latency + random.randint(0, 1))

    def delayed(edge: Edge) -> Edge:
        return replace(edge, delay=edge.delay + random.randint(0, 1)) if edge.cross_delay is None else edge

    def held(value: Value) -> Value:
        return replace(value, uses=tuple(replace(use, hold=random.randint(0, 1)) for use in value.uses))

    return replace(
        problem,
        operations=tuple(map(changed, problem.operations)),
        edges=tuple(map(delayed, problem.edges)),
        values=tuple(map(held, problem.values)),
    )


def several(seed: int) -> dict[str, Problem]:
    first, random = tiny_problem(Random(seed)), Random(seed + 1000)
    return {"plain": first, "second": otherwise(first, random), "third": otherwise(first, random)}


@pytest.mark.parametrize("seed", range(12))
def test_the_times_of_each_are_those_of_its_own_problem(seed: int) -> None:
    made = several(seed)
    for name, one in made.items():
        found = choice(made).implemented("third").implemented(name)
        assert replace(found, implementations=(), implementation="") == one
        assert read_graph(write_graph(found), "choice.json") == found


@pytest.mark.parametrize("seed", range(12))
def test_the_answer_is_the_best_of_all(seed: int) -> None:
    made = several(seed)
    found = solve(choice(made), SEARCH)
    alone = {name: solve(one, SEARCH) for name, one in made.items()}
    intervals = {name: one.solution.interval for name, one in alone.items() if one.solution}
    assert (found.solution is None) == (not intervals)
    if found.solution:
        assert found.solution.interval == min(intervals.values())
        assert intervals[found.problem.implementation] == found.solution.interval
        assert found.status == "optimal"
    text = write_schedule(found, SEARCH)
    document = read_schedule(text, "choice.json")
    assert document.result.problem.implementation == found.problem.implementation
    assert check_document(document, choice(made)) == ()


def best() -> Result:
    return solve(choice(several(6)), SEARCH)


@pytest.mark.parametrize(
    "considered",
    [
        (),
        (Considered("fourth", 99, "ResMII none"),),
        tuple(Considered(name, 99, "ResMII TC") for name in ("plain", "second", "third")),
        tuple(Considered(name, 99, "somebody") for name in ("plain", "second", "third")),
    ],
)
def test_more_is_claimed_of_the_others_than_is_known(considered: tuple[Considered, ...]) -> None:
    found = best()
    assert check_result(found) == ()
    own = found.problem.implementation
    wrong = replace(found, considered=tuple(one for one in considered if one.implementation != own))
    assert "IMPLEMENTATION" in {violation.rule for violation in check_result(wrong)}


def test_one_implementation_searched_alone_is_optimal_where_bounds_exclude_the_others() -> None:
    made = several(6)
    problem, best_name = choice(made), best().problem.implementation
    alone = solve(made[best_name], SEARCH)
    found = among_implementations(alone, problem.implemented(best_name))
    assert {one.implementation for one in found.considered} == set(made) - {best_name}
    assert check_result(found) == ()
    assert alone.solution
    assert found.status == ("optimal" if found.proved >= alone.solution.interval else "feasible")
