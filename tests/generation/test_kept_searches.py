"""Results of searches on disk, for kernels that differ in what no search sees."""

import re
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from twill.generation import searches as module
from twill.generation.candidates import candidates
from twill.generation.generated import GenerateOptions, ProgressCallback
from twill.generation.known.alike import carried, shape
from twill.generation.known.kept_searches import kept, load, place, save
from twill.generation.searches import solved
from twill.inputs import Inputs, cases
from twill.ir.problem import Problem
from twill.ir.schedule import Result
from twill.ir.search import Options
from twill.modulo.start import start
from twill.pipeline import Begun
from twill.verify import check_result
from twill.whatif import limited

OPTIONS = GenerateOptions(time_limit=20, check=False)
AUTO = Inputs("tests/kernels/ttgir/matmul_bands.sm90.ttgir", arch="sm90")
FA_FWD = Inputs("examples/ttgir/fa_fwd.sm90.ttgir", arch="sm90")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def silent(name: str, event: object) -> None:
    """No progress."""


def never(problem: Problem, *_: object) -> Result:
    raise AssertionError(f"{problem.name} is searched again")


def numbered(problem: Problem, more: int) -> Problem:
    """The problem of the same loop in a kernel that computes more, or less, before it: the numbers at the
    ends of names are others (9 becomes 10, so that names sort differently), and so are file and name."""

    def named(name: str) -> str:
        return re.sub(r"\d+$", lambda found: str(int(found[0]) + more), name)

    uses = {one.id: tuple(replace(use, op=named(use.op)) for use in one.uses) for one in problem.values}
    return replace(
        problem,
        name="another/for.0",
        source=None,
        operations=tuple(replace(op, id=named(op.id)) for op in problem.operations),
        edges=tuple(replace(edge, src=named(edge.src), dst=named(edge.dst)) for edge in problem.edges),
        values=tuple(
            replace(one, id=named(one.id), src=named(one.src), uses=uses[one.id]) for one in problem.values
        ),
        together=tuple(tuple(sorted(map(named, names))) for names in problem.together),
    )


def of(inputs: Inputs) -> Problem:
    (case,) = cases(replace(inputs, subtile=1))
    return replace(case.problem, implementations=())


def of_example() -> Problem:
    """Which is searched in no time."""
    return of(AUTO)


def test_what_was_searched_is_not_searched_by_another_process() -> None:
    (first, *_) = candidates(AUTO, OPTIONS, silent, solve=kept(solved, 20))
    (again, *_) = candidates(AUTO, OPTIONS, silent, solve=kept(never, 20))
    assert again.cuda == first.cuda
    with pytest.raises(AssertionError, match="is searched again"):
        candidates(AUTO, OPTIONS, silent, solve=kept(never, 10))


def test_numbers_in_names_make_no_other_problem() -> None:
    """Results are right for the other names, and their evidence speaks of them."""
    for problem in (of(FA_FWD), of_example()):
        for more in (1, 60, 7):
            other = numbered(problem, more)
            assert [op.id for op in other.operations] != [op.id for op in problem.operations]
            assert shape(other) == shape(problem)
            assert place(other, 4, 20) == place(problem, 4, 20)
    problem, other = of_example(), numbered(of_example(), 60)
    found = kept(solved, 20)(problem, Options(time_limit=20), silent, None)
    again = kept(never, 20)(other, Options(time_limit=20), silent, None)
    assert again.problem == other
    assert not check_result(again, in_flight=again.max_in_flight)
    assert found.solution
    assert again.solution
    assert again.solution.start == found.solution.start
    named = {op.id for op in other.operations}
    assert again.bounds.recurrence.ops
    assert set(again.bounds.recurrence.ops) <= named
    assert {one.value for one in again.solution.allocations} <= {one.id for one in other.values}


def test_texts_name_the_operations_of_the_other_problem() -> None:
    """Whole names alone: `dot.a_1` is no part of `dot.a_12` or `dot.a_1.b`."""
    problem = of_example()
    one, two = problem.operations[0].id, problem.operations[1].id
    other = replace(problem, operations=tuple(replace(op, id=f"x{op.id}") for op in problem.operations))
    note = f"{one} -> {two}; {one}1, {one}.b, z{one}, ({two})."
    found = replace(solved(problem, Options(time_limit=20), silent, None), notes=(note,))
    if found.solution:
        found = replace(found, solution=replace(found.solution, allocations=()))
    found = replace(found, bounds=replace(found.bounds, recurrence=replace(found.bounds.recurrence, ops=())))
    assert carried(found, other).notes == (f"x{one} -> x{two}; {one}1, {one}.b, z{one}, (x{two}).",)


@pytest.mark.parametrize("what", ["edges", "together", "limits", "latency"])
def test_what_differs_in_more_is_another_problem(what: str) -> None:
    problem = of_example()
    first, *rest = problem.operations
    others = {
        "edges": replace(problem, edges=problem.edges[1:]),
        "together": replace(problem, together=((first.id, rest[0].id),)),
        "limits": replace(problem, limits=replace(problem.limits, groups=2)),
        "latency": replace(problem, operations=(replace(first, latency=first.latency + 1), *rest)),
    }
    assert shape(others[what]) != shape(problem)
    assert place(others[what], 4, 20) != place(problem, 4, 20)


def test_one_of_several_searches_and_the_others_wait_for_what_it_finds() -> None:
    problem, count, began = of_example(), 0, threading.Barrier(3)

    def counted(
        one: Problem, options: Options, on_progress: ProgressCallback, known: Begun | None = None
    ) -> Result:
        nonlocal count
        count += 1
        return solved(one, options, on_progress, known)

    def search(more: int) -> Result:
        began.wait(10)
        return kept(counted, 20)(numbered(problem, more), Options(time_limit=20), silent, None)

    with ThreadPoolExecutor(3) as threads:
        found = list(threads.map(search, (0, 3, 60)))
    assert count == 1
    assert len({one.solution and one.solution.start for one in found}) == 1


def test_a_damaged_file_counts_as_missing() -> None:
    problem = of_example()
    found = solved(problem, Options(time_limit=20), silent, None)
    path = place(problem)
    save(path, found)
    assert load(path, problem)
    path.write_bytes(path.read_bytes()[:-9])
    assert load(path, problem) is None


def test_a_schedule_that_breaks_a_rule_is_not_taken() -> None:
    problem = of_example()
    found = solved(problem, Options(time_limit=20), silent, None)
    assert found.solution is not None
    shorter = replace(found, solution=replace(found.solution, interval=found.solution.interval - 1))
    save(place(problem), shorter)
    assert load(place(problem), problem) is None


def test_a_cache_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "twill").write_text("no folder")
    found = kept(solved, 20)(of_example(), Options(time_limit=20), silent, None)
    assert found.solution
    assert load(place(found.problem), found.problem) is None


def test_a_result_with_more_memory_is_taken_where_it_fits() -> None:
    """Else what it excludes is known: every schedule with less memory is one with more. With more memory, a
    schedule is known."""
    problem, options = of_example(), Options(time_limit=20)
    found, asked = solved(problem, options, silent), list[Begun | None]()
    assert found.solution

    def searched(less: Problem, *rest: object) -> Result:
        known = rest[-1]
        assert known is None or isinstance(known, Begun)
        asked.append(known)
        return solved(less, options, silent)

    def found_with(shared: int, before: Result) -> Result:
        session = module.Session(OPTIONS, silent, searched, {}, [before])
        return module.answered(limited(problem, shared=shared), 1, session, options)

    used = max(one.address + one.size * one.slots for one in found.solution.allocations)
    again = found_with(used, found)
    assert (again.solution, asked) == (found.solution, [])
    assert again.problem.limits.shared == used
    other = found_with(used - 1, found)
    assert other.solution != found.solution
    assert [known and known.wider and known.wider.refuted for known in asked] == [found.refuted]
    found_with(used, replace(found, problem=limited(problem, groups=2)))
    assert asked[1:] == [None]
    found_with(problem.limits.shared + 1, found)
    assert asked[2] is not None
    assert asked[2].made is not None
    assert asked[2].made.interval <= found.solution.interval


def test_a_search_goes_on_from_what_one_with_less_memory_has_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the best; not from what breaks a rule, nor where a better one is constructed."""
    problem, options = of_example(), Options(time_limit=20)
    found, asked = solved(problem, options, silent), list[Begun | None]()
    assert found.solution
    more = limited(problem, shared=problem.limits.shared + 1024)
    slow = replace(found, status="feasible", solution=replace(found.solution, interval=513))
    broken = replace(slow, solution=replace(found.solution, interval=511))
    assert check_result(broken)
    known = Begun(start(more))

    def begun(*_: object) -> Begun:
        return known

    monkeypatch.setattr("twill.pipeline.begun", begun)

    def searched(problem: Problem, *rest: object) -> Result:
        asked.append(rest[-1] if isinstance(rest[-1], Begun) else None)
        return replace(found, problem=problem)

    def made_after(*before: Result) -> int | None:
        session = module.Session(OPTIONS, silent, searched, {}, list(before))
        module.answered(more, 1, session, options)
        return asked[-1] and asked[-1].made and asked[-1].made.interval

    assert made_after(slow) == 513
    assert made_after(slow, found) == found.solution.interval
    assert made_after(broken) is None
    known = replace(known, made=found.solution)
    assert made_after(slow) == found.solution.interval
