"""Whether sub-tiles are taken where the user does not say."""

from collections.abc import Sequence
from dataclasses import replace
from math import inf
from typing import Any

import pytest

from twill.engine.clock import own_clock
from twill.engine.probe import Feasible, Refuted, Unknown
from twill.explain import explained
from twill.generation import candidates as module
from twill.generation.attempt import least_of_sm
from twill.generation.builds import spills
from twill.generation.builds.without_warnings import without_warnings
from twill.generation.choices import subtiles
from twill.generation.choices.subtiles import (
    Searched,
    Solve,
    Told,
    apart_already,
    better,
    change,
    cycles,
    divided,
    note,
    searched,
)
from twill.generation.generate import generate
from twill.generation.generated import Generated, GenerateOptions
from twill.generation.known.given import matching
from twill.inputs import Case, Inputs, cases, shares_of
from twill.ir.problem import Problem
from twill.ir.schedule import Result, Solution
from twill.ir.search import Options, Progress, Report
from twill.modulo.bounds import bounds
from twill.modulo.start import start
from twill.pipeline import Begun, solve, up_to
from twill.verify import check

FA_FWD = Inputs("examples/ttgir/fa_fwd.sm90.ttgir", arch="sm90")
GEMM = Inputs("examples/ttgir/gemm.sm90.ttgir", arch="sm90")
PAGED = Inputs("tests/kernels/ttgir/paged.sm90.ttgir", arch="sm90")
OPTIONS = GenerateOptions(time_limit=20, check=False)
OPTIONS_OF_SEARCH = Options(time_limit=60, explain=False)
SPILLED = ("16 bytes of registers are spilled, of 240 registers per thread",)


def result(case: Case) -> Result:
    return solve(case.problem, Options(time_limit=20, explain=False))


@pytest.fixture(scope="module")
def gemm() -> Generated:
    return generate(GEMM, OPTIONS)


def above(case: Case, interval: int) -> Result:
    """As if the search had ended at this interval."""
    found = result(cases(GEMM)[0])
    assert found.solution
    solution = replace(found.solution, interval=interval)
    return replace(found, problem=case.problem, bounds=bounds(case.problem), solution=solution)


def test_sub_tiles_are_tried_where_whole_tiles_stay_above_their_bound() -> None:
    whole = cases(FA_FWD)
    assert [len(one.problem.operations) for one in divided(FA_FWD, whole, [above(whole[0], 2456)])] == [30]
    assert not divided(FA_FWD, whole, [above(whole[0], 2048)]), "as good as the bound"
    assert not divided(FA_FWD, whole, [above(whole[0], 2060)]), "sub-tiles cannot be 2% better"
    assert not divided(replace(FA_FWD, subtile=1), whole, [above(whole[0], 2456)]), "the user has decided"


def forms(inputs: Inputs) -> tuple[Searched, list[int]]:
    """What is taken, and how many operations each loop has whose best schedule was looked for."""
    looked = list[int]()

    def counted(case: Case, options: Options, known: Begun | None) -> Result:
        looked.append(len(case.problem.operations))
        return solve(case.problem, options, known=known)

    def told(loop: str, event: Progress) -> None:
        assert loop.endswith("/for.0")

    return searched(inputs, cases(inputs), OPTIONS_OF_SEARCH, counted, told), looked


def test_sub_tiles_at_their_bound_spare_the_best_schedule_of_whole_tiles() -> None:
    found, looked = forms(FA_FWD)
    assert (found.subtile, looked) == (2, [30])
    assert [result.status for result in found.results] == ["optimal"]
    assert "2048 cycles an iteration, and none of at most 2089 cycles was found for whole tiles" in found.note


def test_whole_tiles_at_their_bound_spare_sub_tiles() -> None:
    found, looked = forms(GEMM)
    assert (found.subtile, found.note, looked) == (None, "", [3])


def test_a_search_ends_at_the_highest_interval_that_matters() -> None:
    (whole,) = (case.problem for case in cases(FA_FWD))
    found = up_to(whole, 2600, OPTIONS_OF_SEARCH, lambda event: None, best=False)
    assert isinstance(found, Feasible)
    assert found.solution.interval <= 2600
    assert not check(whole, found.solution)
    assert up_to(whole, 2089, OPTIONS_OF_SEARCH, lambda event: None) == Refuted(), "2456 is the least"
    assert up_to(whole, 2047, OPTIONS_OF_SEARCH, lambda event: None) == Refuted(), "below the bound"


def test_what_can_not_be_divided_stays_whole() -> None:
    inputs = Inputs("examples/ttgir/fa_fwd.sm100.ttgir", arch="sm100")
    whole = cases(inputs)
    assert not divided(inputs, whole, [above(whole[0], 9000)])
    assert change(inputs, whole[0]) == ()


@pytest.mark.parametrize(
    ("spec", "apart"),
    [("tests/kernels/ttgir/gathered_rows.sm90.ttgir", True), ("examples/ttgir/gemm.sm90.ttgir", False)],
)
def test_gathered_rows_of_two_warpgroups_stay_whole(spec: str, apart: bool) -> None:
    (whole,) = cases(Inputs(spec, arch="sm90", subtile=1))
    assert whole.module
    assert whole.module.num_warps == 8
    assert apart_already(whole) == apart


def test_a_loop_without_schedule_is_worse_than_any() -> None:
    whole = cases(GEMM)[0]
    none = replace(result(whole), solution=None)
    assert cycles([none], [True]) == float("inf")
    assert better(1024, cycles([none], [True]))
    assert not better(cycles([none], [True]), cycles([none], [True]))
    assert "none was found for whole tiles" in note(1024, cycles([none], [True]))


@pytest.mark.parametrize(
    ("inputs", "subtile", "warps"), [(GEMM, 1, None), (GEMM, 2, None), (PAGED, 1, None), (PAGED, 1, 8)]
)
def test_the_schedule_that_is_given_says_in_how_many_parts_rows_are(
    inputs: Inputs, subtile: int, warps: int | None
) -> None:
    form = replace(inputs, subtile=subtile, warps=warps)
    (case,) = cases(form)
    assert matching(inputs, {case.name: result(case)}) == form


def test_what_the_user_says_of_sub_tiles_and_warps_stays() -> None:
    (case,) = cases(replace(GEMM, subtile=2))
    assert matching(replace(GEMM, subtile=1, warps=4), {case.name: result(case)}).subtile == 1


def test_sub_tiles_are_taken_where_they_are_faster(monkeypatch: pytest.MonkeyPatch, gemm: Generated) -> None:
    slow = dict[int, float]()

    def promising(inputs: Inputs, whole: Sequence[Case], results: Sequence[Result]) -> Sequence[Case]:
        return whole

    def pace(made: Generated) -> float:
        return slow[made.subtile]

    monkeypatch.setattr(module, "divided", promising)
    monkeypatch.setattr(module, "pace_of_sm", pace)
    slow.update({1: 2000.0, 2: 1800.0})
    made = generate(GEMM, OPTIONS)
    assert made.subtile == 2
    assert made.program.notes[-1] == note(1800, 2000)
    assert f"// {note(1800, 2000)}" in made.cuda
    slow.update({2: 1980.0})
    assert generate(GEMM, OPTIONS).subtile == 1


def test_sub_tiles_that_can_not_be_faster_are_not_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    """The MMAs of an iteration occupy the tensor core for 1024 cycles, however its rows are divided."""
    searched, taken = list[str](), [0.0]
    solved = module.solved

    def solve(problem: Problem, *rest: Any) -> Result:
        searched.append(problem.name)
        return solved(problem, *rest)

    def promising(inputs: Inputs, whole: Sequence[Case], results: Sequence[Result]) -> Sequence[Case]:
        return whole

    def pace(made: Generated) -> float:
        return taken[0]

    monkeypatch.setattr(module, "divided", promising)
    monkeypatch.setattr(module, "pace_of_sm", pace)
    for whole, forms in ((1024.0, 1), (2000.0, 2)):
        searched.clear()
        taken[0] = whole
        made = module.candidates(GEMM, OPTIONS, lambda name, event: None, solve=solve)
        assert (len(searched), made[0].subtile) == (forms, 1)


def test_whole_tiles_are_not_generated_where_they_are_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = [True]

    def both(inputs: Inputs, whole: Sequence[Case], options: Options, solve: Solve, told: Told) -> Searched:
        (case,) = cases(replace(inputs, subtile=2))
        return Searched(2, (solve(case, options, None),), "none of whole tiles", alone=alone[0])

    monkeypatch.setattr(module, "of_both_forms", both)
    made = generate(GEMM, OPTIONS)
    assert [one.subtile for one in (made, *made.others)] == [2]
    assert made.program.notes[-1] == "none of whole tiles"
    assert len(made.searched) == 1, "what was searched is taken"
    assert generate(GEMM, replace(OPTIONS, whole_tiles=True)).subtile == 1, "known from another search"
    alone[0] = False
    assert generate(GEMM, OPTIONS).subtile == 1


@pytest.mark.parametrize(("trips", "proven"), [(2, False), (None, True), (8, True)])
def test_whole_tiles_of_short_loops_are_not_refuted(
    monkeypatch: pytest.MonkeyPatch, trips: int | None, proven: bool
) -> None:
    """Their iterations hardly overlap, so that intervals prove nothing of them."""
    found, asked = cases(replace(GEMM, subtile=1)), list[object]()

    def short(inputs: Inputs) -> tuple[Case, ...]:
        return tuple(replace(one, loop=one.loop and replace(one.loop, most_trips=trips)) for one in found)

    def both(*given: object) -> Searched:
        asked.append(given)
        return Searched(None, ())

    monkeypatch.setattr(module, "cases", short)
    monkeypatch.setattr(module, "of_both_forms", both)
    session = module.Session(OPTIONS, lambda name, event: None, module.solved, {}, [])  # pyright: ignore
    assert module._sub_tiles_alone(GEMM, session) == ()  # pyright: ignore
    assert bool(asked) == proven


def test_sub_tiles_are_taken_where_whole_tiles_spill(
    monkeypatch: pytest.MonkeyPatch, gemm: Generated
) -> None:
    spilling = {1}

    def said(made: Generated) -> Sequence[str]:
        return SPILLED if made.subtile in spilling else ()

    monkeypatch.setattr(spills, "_warnings", said)
    made = without_warnings(GEMM, OPTIONS, gemm, SPILLED)
    assert made
    assert made.subtile == 2
    assert made.program.notes[-1].startswith("rows are divided into 2 sub-tiles: otherwise 16 bytes")
    spilling = {2}
    made = without_warnings(GEMM, OPTIONS, gemm, SPILLED)
    assert made
    assert made.subtile == 1


def test_explain_lists_sub_tiles_as_a_change() -> None:
    (case,) = cases(FA_FWD)

    def never(problem: Problem) -> Result:
        raise AssertionError

    found = explained(above(case, 2456), never, seconds=-1.0, further=change(FA_FWD, case))
    (one,) = (one for one in found.singles if one.changes == ("whole tiles (--subtile 2)",))
    assert one.proved == 2048


@pytest.mark.parametrize("refuted", [True, False])
def test_both_forms_share_one_time_limit(monkeypatch: pytest.MonkeyPatch, refuted: bool) -> None:
    """Every search takes all the time that it is given; whole tiles are refuted beside sub-tiles, or not."""
    clock = own_clock()
    began = clock.mark()

    def passes(problem: Problem, options: Options, report: Report, spent: float = 0.0) -> Begun:
        clock.count(1.0)
        return Begun(start(problem))

    def nothing(problem: Problem, options: Options, report: Report, known: Begun) -> Begun:
        clock.count(1.0)
        return known

    def bounded(
        problem: Problem, highest: int, options: Options, report: Report, *, best: bool = True
    ) -> Refuted | Unknown:
        clock.count(options.seconds)
        return Refuted() if refuted else Unknown()

    def none(case: Case, options: Options, known: Begun | None) -> Result:
        assert known is not None
        given = options.seconds - known.spent
        assert given > 1.0, "every form has a part"
        clock.count(given)
        return Result(case.problem, "unknown", bounds(case.problem), known.start.low, None)

    for name, by in (("begun", passes), ("soon", nothing), ("up_to", bounded)):
        monkeypatch.setattr(subtiles, name, by)
    searched(FA_FWD, cases(FA_FWD), OPTIONS_OF_SEARCH, none, lambda loop, event: None)
    assert OPTIONS_OF_SEARCH.time_limit / 2 < clock.since(began) <= OPTIONS_OF_SEARCH.time_limit + 1.0


def test_a_loop_of_few_iterations_counts_as_little_in_schedules_as_in_predictions() -> None:
    """Else sub-tiles at their lower bounds took longer than what their schedules are said to take."""
    found = cases(Inputs("examples/ttgir/fa_fwd_causal.sm90.ttgir", arch="sm90", subtile=1))
    shares = shares_of(found)
    assert min(shares) < max(shares) == 1.0
    met = [start(one.problem).undecided(one.problem, Options(), "") for one in found]
    met = [replace(one, solution=Solution(one.proved, (), ())) for one in met]
    together = module._scheduled(found, met)  # pyright: ignore
    assert together == sum(share * one.proved for share, one in zip(shares, met, strict=True))
    assert together >= least_of_sm(found)
    assert module._scheduled(found, [met[0], replace(met[1], solution=None)]) == inf  # pyright: ignore
