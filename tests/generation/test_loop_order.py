"""A loop that has no schedule on the groups of the loops before it is scheduled before them."""

from dataclasses import replace
from itertools import groupby

import pytest

from twill.diagnostics import TwillError
from twill.engine.clock import own_clock
from twill.files import load, read_schedule
from twill.generation import loop_nest
from twill.generation.going_together import going_together
from twill.generation.scheduled import of_use
from twill.inputs import Case, Inputs, cases
from twill.ir.problem import Problem
from twill.ir.schedule import Result
from twill.ir.search import Options
from twill.pipeline import Begun, begun
from twill.verify import check

KERNEL = Inputs("examples/ttgir/fa_fwd_causal.sm90.ttgir", arch="sm90")
KEPT = "tests/kernels/schedules/fa_fwd_causal.{}.json"


def given(asked: list[tuple[str, int]], *, shared: dict[str, int]) -> loop_nest.Solve:
    """The kept schedules, but for the registers of the two groups that compute. Alone, the first loop needs
    more in one of them and the second loop in the other one, so that both do not go together; with a limit
    of registers a loop has no more than its number of `shared`, and no schedule without one."""

    def solve(problem: Problem) -> Result:
        loop, most = problem.name.split("/")[1], problem.limits.registers_per_thread
        asked.append((loop, most))
        path = KEPT.format(loop)
        kept = read_schedule(load(path), path).result
        assert kept.solution
        own = (24, 248, 160) if loop == "for.0" else (24, 160, 248)
        if most < MOST:
            if loop not in shared:
                return replace(kept, problem=problem, status="infeasible", solution=None)
            own = (24, shared[loop], shared[loop])
        if problem.limits.groups < 3:
            return replace(kept, problem=problem, status="infeasible", solution=None)
        groups = tuple(
            replace(group, registers=number) for group, number in zip(kept.solution.groups, own, strict=True)
        )
        return replace(kept, problem=problem, solution=replace(kept.solution, groups=groups))

    return solve


MOST = cases(KERNEL)[0].problem.limits.registers_per_thread


def test_the_second_loop_is_scheduled_first_where_it_has_no_schedule_beside_the_first() -> None:
    asked = list[tuple[str, int]]()
    made, loops = loop_nest.program(cases(KERNEL), given(asked, shared={"for.0": 160}))
    assert [one.loop.path.split("/")[1] for one in loops] == ["for.0", "for.1"]
    assert [loop for loop, _ in groupby(loop for loop, _ in asked)] == ["for.0", "for.1", "for.0"]
    assert [group.registers for group in made.groups if group.warps == 4] == [192, 240]
    assert any(note.startswith("fa_fwd_causal/for.0: interval") for note in made.notes)


def test_loops_that_go_together_in_no_order_are_refused() -> None:
    asked = list[tuple[str, int]]()
    with pytest.raises(TwillError, match="need more registers together"):
        loop_nest.program(cases(KERNEL), given(asked, shared={}))
    turns = [loop for loop, _ in groupby(loop for loop, _ in asked)]
    assert turns[:4] == ["for.0", "for.1", "for.0", "for.1"]


def test_a_loop_without_a_schedule_beside_others_says_so() -> None:
    """The second loop has a schedule until it has to share the groups of the first, and the other way
    round."""

    def solve(problem: Problem) -> Result:
        found = given([], shared={})(problem)
        alone = problem in [case.problem for case in cases(KERNEL)]
        return found if alone else replace(found, status="unknown", solution=None)

    with pytest.raises(TwillError, match=r"for.1 has no schedule on the groups of the other loops \(unknown"):
        loop_nest.program(cases(KERNEL), solve)


def together(shared: dict[str, int], asked: list[tuple[str, int]]) -> tuple[list[Result], list[Result], str]:
    """The results of the loops alone, those that go together, and the notes."""
    solve, found = given(list[tuple[str, int]](), shared=shared), cases(KERNEL)
    alone = [solve(case.problem) for case in found]

    def again(case: Case, options: Options, known: Begun | None) -> Result:
        assert known
        assert known.wider in alone
        assert options.time_limit <= 10
        return given(asked, shared=shared)(case.problem)

    chosen, notes = going_together(found, alone, Options(time_limit=10), again)
    return alone, list(chosen), " ".join(notes)


def test_schedules_of_loops_that_do_not_go_together_are_searched_beside_each_other() -> None:
    """`twill codegen` takes what `twill schedule` gives, as it is."""
    asked = list[tuple[str, int]]()
    alone, chosen, notes = together({"for.0": 160}, asked)
    assert chosen[1] is alone[1]
    assert chosen[0] not in alone
    assert {loop for loop, _ in asked} == {"for.0", "for.1"}
    assert not notes, "nothing is lost"
    results = {one.problem.name: one for one in chosen}
    loop_nest.program(cases(KERNEL), lambda problem: results[problem.name])


def test_schedules_stay_where_none_go_together() -> None:
    alone, chosen, notes = together({}, list[tuple[str, int]]())
    assert chosen == alone
    assert notes.startswith("no schedules were found that go together: fa_fwd_causal/for.")


def test_schedules_that_go_together_are_not_searched_again() -> None:
    found = cases(KERNEL)
    kept = [read_schedule(load(path), path).result for path in map(KEPT.format, ("for.0", "for.1"))]
    assert going_together(found, kept, Options(), never) == (tuple(kept), ())


def test_searches_beside_each_other_have_what_those_alone_left_and_begin_with_what_was_found() -> None:
    """Two loops with a limit of 10 s each, 18 s of which are gone: a quarter of 20 s is left in any case."""
    solve, found, began = given([], shared={"for.0": 160}), cases(KERNEL), own_clock().mark()
    paths = map(KEPT.format, ("for.0", "for.1"))
    before = [
        replace(read_schedule(load(path), path).result, problem=case.problem)
        for path, case in zip(paths, found, strict=True)
    ]
    intervals = {one.problem.name: one.solution.interval for one in before if one.solution}
    limits = list[float]()

    def again(case: Case, options: Options, known: Begun | None) -> Result:
        limits.append(options.time_limit)
        mine = next(one.solution for one in before if one.problem.name == case.name)
        assert known
        assert mine
        if not check(case.problem, mine):
            assert known.made
            assert known.made.interval <= intervals[case.name]
        own_clock().count(options.time_limit)
        return solve(case.problem)

    own_clock().count(18)
    alone = [solve(case.problem) for case in found]
    going_together(found, alone, Options(time_limit=10), again, began=began, before=before)
    assert limits[0] == pytest.approx(5)
    assert set(limits[1:]) <= {2.5}


def never(case: Case, options: Options, known: Begun | None) -> Result:
    raise AssertionError(case.name)


def test_graphs_and_loops_without_a_schedule_are_left_alone() -> None:
    kept = read_schedule(load(KEPT.format("for.0")), "").result
    none = (replace(kept, solution=None), kept)
    assert going_together(cases(KERNEL), none, Options(), never) == (none, ())
    graph = cases(Inputs("examples/graphs/figure1.graph.json"))
    assert going_together(graph, (kept,), Options(), never) == ((kept,), ())


def test_a_loop_that_its_first_answers_leave_open_is_searched_with_what_is_tied() -> None:
    """What an unfinished search found of it excludes the same there."""
    case, asked = cases(KERNEL)[0], list[tuple[Problem, Begun | None]]()
    kept = read_schedule(load(KEPT.format("for.0")), "").result
    tied = loop_nest.tied_problem(case)
    assert tied.together != case.problem.together

    def solve(case: Case, options: Options, known: Begun | None) -> Result:
        asked.append((case.problem, known))
        return replace(kept, problem=case.problem, status="optimal" if len(asked) == 2 else "feasible")

    known = begun(case.problem, Options(), lambda event: None)
    found = of_use(solve, lambda loop, event: None, case, Options(), known)
    assert [problem for problem, _ in asked] == [case.problem, tied]
    assert found.problem == tied
    first, second = (known for _, known in asked)
    assert first
    assert first.use.brief
    assert second
    assert second.wider
    assert not second.use.brief
