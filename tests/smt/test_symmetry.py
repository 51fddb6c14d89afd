"""Sub-tiles are found, and a schedule in which they alternate is a schedule."""

from dataclasses import replace
from random import Random

from tests.properties.tiny import tiny_problem
from twill.ir.problem import Edge, Limits, Operation, Problem, Reservation, Unit
from twill.ir.search import Options, Progress
from twill.modulo.bounds import bounds
from twill.modulo.simplest import windows
from twill.smt import cpsat
from twill.smt.search import search
from twill.smt.symmetry import chained, families, mirrors, shifts, spread
from twill.verify.check import check


def _twice(problem: Problem) -> Problem:
    """The loop beside a copy of itself; what is loaded is loaded once, for both."""
    shared = {op.id for op in problem.operations if op.variable}

    def other(op: str) -> str:
        return op if op in shared else f"{op}'"

    operations = tuple(replace(op, id=other(op.id)) for op in problem.operations if op.id not in shared)
    edges = tuple(
        replace(edge, src=other(edge.src), dst=other(edge.dst))
        for edge in problem.edges
        if edge.dst not in shared
    )
    values = tuple(
        replace(
            value,
            id=f"{value.id}'",
            src=other(value.src),
            uses=tuple(replace(use, op=other(use.op)) for use in value.uses),
        )
        for value in problem.values
        if value.src not in shared
    )
    return replace(
        problem,
        operations=(*problem.operations, *operations),
        edges=(*problem.edges, *edges),
        values=(*problem.values, *values),
        together=(
            *problem.together,
            *(tuple(map(other, ops)) for ops in problem.together if not shared.intersection(ops)),
        ),
        apart=(),
    )


def test_a_loop_beside_its_copy_falls_into_pairs() -> None:
    found = 0
    for random in map(Random, range(60)):
        problem = _twice(tiny_problem(random, 3))
        ids = [op.id for op in problem.operations]
        pairs = {
            tuple(sorted((ids[a], ids[b])))
            for family in families(problem)
            if len(family) == 2
            for a, b in zip(*family, strict=True)
        }
        found += all((op, f"{op}'") in pairs for op in ids if f"{op}'" in ids)
    assert found >= 40  # the others resemble themselves in more ways


def test_symmetric_schedules_are_valid_and_shifted() -> None:
    found = 0
    for random in map(Random, range(40)):
        problem = _twice(tiny_problem(random, 3))
        alike, interval = families(problem), bounds(problem).value + random.randint(0, 4)
        solution = cpsat.attempt(problem, interval, 2, tactics=cpsat.Tactics(shifted=alike)).solution
        if solution is None:
            continue
        found += 1
        assert check(problem, solution) == ()
        for family in alike:
            for part, shift in zip(family, shifts(family, interval), strict=True):
                assert all(
                    solution.start[op] == solution.start[first] + shift
                    for op, first in zip(part, family[0], strict=True)
                )
    assert found >= 10


def test_operations_that_differ_in_one_number_are_no_sub_tiles() -> None:
    problem = _twice(tiny_problem(Random(1), 3))
    last = problem.operations[-1]
    changed = replace(problem, operations=(*problem.operations[:-1], replace(last, latency=last.latency + 1)))
    assert last.id not in {
        changed.operations[i].id for family in families(changed) for part in family for i in part
    }


def test_an_image_of_a_schedule_is_a_schedule() -> None:
    found = 0
    for random in map(Random, range(40)):
        problem = _twice(tiny_problem(random, 3))
        answer = cpsat.attempt(problem, bounds(problem).value + random.randint(0, 4), 2, joint=False).solution
        for image in mirrors(problem) if answer else ():
            assert answer is not None
            assert sorted(image) == list(range(len(problem.operations)))
            assert image != tuple(range(len(image)))
            start = tuple(answer.start[image[op]] for op in range(len(image)))
            assert check(problem, replace(answer, start=start), joint=False) == ()
            found += 1
    assert found > 20


def test_what_only_looks_alike_has_no_image() -> None:
    """Two circuits of three operations and one of six: every operation resembles every other."""
    ops = tuple(
        replace(tiny_problem(Random(0), 2).operations[0], id=f"o{i}", variable=False, streaming=False)
        for i in range(12)
    )
    cycles = [("o0", "o1", "o2"), ("o3", "o4", "o5"), ("o6", "o7", "o8", "o9", "o10", "o11")]
    edges = tuple(
        Edge(a, b, 1, 1) for cycle in cycles for a, b in zip(cycle, (*cycle[1:], cycle[0]), strict=True)
    )
    problem = replace(
        tiny_problem(Random(0), 2), operations=ops, edges=edges, values=(), together=(), apart=(), starts=()
    )
    assert all({image[op] for op in range(6)} == set(range(6)) for image in mirrors(problem))


def test_shifted_copies_that_dependences_exclude_are_refuted() -> None:
    """What makes the longest path of spread copies too long needs no model: that would find none either."""
    excluded = 0
    for random in map(Random, range(80)):
        problem = _twice(tiny_problem(random, 3))
        known, interval = families(problem), bounds(problem).value + random.randint(0, 4)
        window = windows(problem, interval, links=spread(known, interval))
        if not known or interval < 1 or (window is not None and window.longest <= interval):
            continue
        excluded += 1
        assert cpsat.attempt(problem, interval, 1, tactics=cpsat.Tactics(shifted=known)).refuted
    assert excluded >= 10


def test_an_answer_at_the_bound_is_told_when_it_is_found() -> None:
    """Not only once it has been made simple."""
    operations = tuple(Operation(name, "compute", (Reservation("ALU", 8),), 8, 8, 4) for name in "ab")
    problem = Problem("pair", "toy", (Unit("ALU"),), operations, (), (), Limits(groups=2))
    rough = cpsat.attempt(problem, 40, 2).solution
    told = list[Progress]()
    result = search(problem, Options(), told.append, made=rough)
    assert result.solution is not None
    assert result.solution.interval == 16
    found = [event.what for event in told if event.interval == 16]
    assert found.index("feasible") < found.index("improved")


def _in_a_chain(parts: int, back: int = 1) -> Problem:
    """Parts of three operations, the second of which passes an accumulator on to that of the next part; the
    last one to the first of `back` iterations on. What the first part loads runs ahead."""
    operations, edges = list[Operation](), list[Edge]()
    for i in range(parts):
        load = Operation(f"load{i}", "load", variable=True, streaming=not i, latency=9 * bool(i))
        work = [Operation(f"{name}{i}", name, (Reservation("u", 2),), 2, 2, 4) for name in ("a", "b", "c")]
        operations += [load, *work]
        edges += [
            Edge(f"load{i}", f"a{i}", load.latency),
            Edge(f"a{i}", f"b{i}", 2),
            Edge(f"b{i}", f"c{i}", 2),
        ]
        edges.append(Edge(f"b{i}", f"b{(i + 1) % parts}", 2, back * (i == parts - 1)))
    return Problem("chain", "", (Unit("u"),), tuple(operations), tuple(edges), limits=Limits(groups=2))


def test_parts_that_pass_an_accumulator_on_are_found() -> None:
    """The loads are left out, which may run ahead for some of them."""
    problem = _in_a_chain(3)
    ids = [op.id for op in problem.operations]
    assert families(problem) == ()
    (family,) = chained(problem)
    assert [sorted(ids[i] for i in part) for part in family] == [
        [f"a{i}", f"b{i}", f"c{i}"] for i in range(3)
    ]
    names = [[problem.operations[i].name for i in part] for part in family]
    assert names == [names[0]] * 3


def test_a_chain_that_skips_an_iteration_is_none() -> None:
    assert chained(_in_a_chain(3, back=2)) == ()
    assert chained(_in_a_chain(1)) == ()


def test_the_answer_has_chained_parts_evenly_spread() -> None:
    problem = _in_a_chain(2)
    result = search(problem, Options(time_limit=20, explain=False), lambda event: None)
    assert result.solution is not None
    assert check(problem, result.solution) == ()
    starts = dict(zip((op.id for op in problem.operations), result.solution.start, strict=True))
    half = result.solution.interval // 2
    assert {starts[f"{name}1"] - starts[f"{name}0"] for name in ("a", "b", "c")} == {half}
