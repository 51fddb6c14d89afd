"""Schedules that are given: kept where a kernel can be made with them, replaced otherwise."""

from collections.abc import Sequence
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

import pytest

from tests.generation.test_generate import BANDS, GEMM, OPTIONS, SPILLED
from twill.diagnostics import TwillError
from twill.files import load, read_schedule, write_schedule
from twill.generation import candidates, loop_nest
from twill.generation.builds import retries, spills
from twill.generation.builds.without_warnings import without_warnings
from twill.generation.choices import multistage
from twill.generation.generate import generate
from twill.generation.generated import Generated, GenerateOptions
from twill.generation.scheduled import Schedules, scheduled
from twill.generation.searches import Session, solved
from twill.inputs import Case, Inputs, cases
from twill.ir.loop import Module
from twill.ir.program import Program
from twill.ir.schedule import Result
from twill.ir.search import Options
from twill.pipeline import Begun, solve
from twill.warp.tasks import Scheduled

SCHEDULE = "tests/kernels/schedules/gemm.for.0.json"


def test_a_schedule_that_can_not_be_generated_is_replaced(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """One that is eight cycles longer than need be, as if its slots were too large."""
    lowered, kept = loop_nest.lower, read_schedule(load(SCHEDULE), "").result
    assert kept.solution
    longer = replace(kept, status="feasible", solution=replace(kept.solution, interval=1032))
    path = tmp_path / "schedule.json"
    path.write_text(write_schedule(longer))

    def refused(module: Module, loops: Sequence[Scheduled], *others: Any) -> Program:
        if loops[0].solution.interval == 1032:
            raise TwillError("the channels need too much")
        return lowered(module, loops, *others)

    monkeypatch.setattr(loop_nest, "lower", refused)
    options = replace(OPTIONS, schedules=(str(path),))
    with pytest.raises(TwillError, match="the channels need too much"):
        generate(GEMM, replace(options, keep_schedules=True))
    made = generate(GEMM, options)
    assert made.replaced in made.program.notes
    assert f"// {made.replaced}" in made.cuda
    assert made.replaced == (
        "given schedules are replaced (--keep-schedules keeps them): 1024 cycles an iteration instead of"
        " 1032: the group that computes loads too: otherwise the channels need too much"
    )


def test_a_kernel_has_the_form_that_is_predicted_to_be_faster_with_a_given_schedule() -> None:
    """The schedule is what the search for the loop finds; with `keep_schedules` it decides the form."""
    open_form = replace(GEMM, persistent=None)
    options = replace(OPTIONS, schedules=(SCHEDULE,))
    made, kept = (generate(open_form, replace(options, keep_schedules=keeps)) for keeps in (False, True))
    assert (made.form, kept.form) == ("made persistent", "")
    ((_, one),), ((_, other),) = made.results.items(), kept.results.items()
    assert one.solution == other.solution == read_schedule(load(SCHEDULE), "").result.solution
    assert not made.replaced


def test_a_schedule_of_another_problem_is_kept(tmp_path: Path) -> None:
    """A search for the loop would not find it."""
    path = tmp_path / "schedule.json"
    limited = replace(GEMM, shared=160_000)
    path.write_text(write_schedule(solve(cases(limited)[0].problem, Options(time_limit=20, explain=False))))
    open_form = replace(GEMM, persistent=None)
    made = generate(open_form, replace(OPTIONS, schedules=(str(path),)))
    assert not made.form
    assert made.loops[0].problem.limits.shared == 160_000


def test_what_is_wrong_with_any_schedule_is_said_of_the_given_one() -> None:
    lowering = replace(OPTIONS.lowering, depths={"nothing": 2})
    with pytest.raises(TwillError, match="there is no channel 'nothing'"):
        generate(GEMM, replace(OPTIONS, schedules=(SCHEDULE,), lowering=lowering))


@pytest.fixture(scope="module")
def gemm() -> Generated:
    made = generate(GEMM, replace(OPTIONS, schedules=(SCHEDULE,)))
    assert not made.replaced, "it can be generated"
    launch = replace(made.program.launch, blocks=4)
    return replace(made, program=replace(made.program, launch=launch))


def test_a_schedule_stays_where_a_slower_kernel_with_it_does_not_spill(
    monkeypatch: pytest.MonkeyPatch, gemm: Generated
) -> None:
    tried = list[GenerateOptions]()
    slow = replace(gemm, intervals={name: 1.3 * pace for name, pace in (gemm.intervals or {}).items()})

    def again(inputs: Inputs, options: GenerateOptions, *_: object) -> Generated:
        assert options.schedules
        tried.append(options)
        return slow

    monkeypatch.setattr(retries, "generate", again)
    monkeypatch.setattr(spills, "_warnings", lambda made: () if made.intervals is slow.intervals else SPILLED)  # pyright: ignore
    other = without_warnings(GEMM, replace(OPTIONS, schedules=(SCHEDULE,)), gemm, SPILLED)
    assert other
    assert tried
    assert not other.replaced


def test_the_group_that_computes_loads_too_with_a_given_schedule(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Where that is predicted to be faster, and the user does not say."""
    ((name, result),) = generate(BANDS, OPTIONS).results.items()
    path = tmp_path / "schedule.json"
    path.write_text(write_schedule(result))
    monkeypatch.setattr(multistage, "CLEARLY", 0.01)
    options = replace(OPTIONS, schedules=(str(path),))
    made = generate(BANDS, options)
    assert not any(group.only_moves for group in made.program.groups)
    assert made.results[name].solution == result.solution
    apart = generate(BANDS, replace(options, lowering=replace(options.lowering, multistage=False)))
    assert any(group.only_moves for group in apart.program.groups)


def in_more_room(inputs: Inputs) -> Schedules:
    """The schedules where none holds tiles whole."""
    most = max(value.registers for value in cases(inputs)[0].problem.values)

    def searched(case: Case, options: Options, known: Begun | None) -> Result:
        found = solve(case.problem, options)
        if max(value.registers for value in case.problem.values) > most // 3:
            return replace(found, status="infeasible", solution=None)
        return found

    search = Options(time_limit=20, explain=False)
    return scheduled(inputs, cases(inputs), search, searched, lambda name, event: None)


def test_tiles_may_take_more_registers_than_a_thread_has_in_a_schedule(tmp_path: Path) -> None:
    """Eight warps hold half as much each, which is too much as if it were a third. `twill codegen` takes the
    schedule."""
    plain = replace(BANDS, subtile=1)
    made = in_more_room(plain)
    assert (made.form.spills, made.form.warps) == (2, 8)
    assert made.notes[0].startswith("tiles take up to 2 times the registers of a thread, which may spill")
    path = tmp_path / "schedule.json"
    path.write_text(write_schedule(made.together[0]))
    kernel = generate(BANDS, replace(OPTIONS, schedules=(str(path),), keep_schedules=True), slowest=inf)
    assert kernel.inputs.warps == 8
    assert kernel.loops[0].solution == made.together[0].solution
    limited = in_more_room(replace(plain, registers=200))
    assert limited.form.spills == 1
    assert limited.together[0].solution is None, "a limit that the user gives is a question"


def test_it_is_said_why_schedules_that_are_no_answers_are_replaced(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """One of another problem is kept, unless no kernel is made with it."""
    lowered, path = loop_nest.lower, tmp_path / "schedule.json"
    limited = replace(GEMM, shared=160_000)
    path.write_text(write_schedule(solve(cases(limited)[0].problem, Options(time_limit=20, explain=False))))

    def refused(module: Module, loops: Sequence[Scheduled], *others: Any) -> Program:
        if loops[0].problem.limits.shared == 160_000:
            raise TwillError("the channels need too much")
        return lowered(module, loops, *others)

    monkeypatch.setattr(loop_nest, "lower", refused)
    assert generate(GEMM, replace(OPTIONS, schedules=(str(path),))).replaced.endswith(
        "cycles an iteration instead of 1024: the channels need too much"
    )


def test_given_schedules_come_before_slower_ones_of_a_search(gemm: Generated) -> None:
    """In the form that they are for, where the kernel is predicted to be faster with them; not where the user
    has limits that only searches know of."""
    (name,), kept = gemm.results, read_schedule(load(SCHEDULE), "").result
    found = gemm.results[name]
    assert found.solution
    later = replace(found, solution=replace(found.solution, interval=2 * found.solution.interval))
    late = {path: 2 * cycles for path, cycles in (gemm.intervals or {}).items()}
    alone = replace(gemm.program, launch=replace(gemm.program.launch, blocks=1))
    slow = replace(gemm, program=alone, results={name: later}, intervals=late)

    def as_given(made: Generated, inputs: Inputs = GEMM, *answers: Result) -> tuple[Generated, ...]:
        options = replace(OPTIONS, answers=answers or (kept,))
        session = Session(options, lambda name, event: None, solved, {}, [])
        return candidates._as_given(inputs, session, made)  # pyright: ignore

    (made,) = as_given(slow)
    assert made.form == candidates.GIVEN
    assert made.results[name].solution == kept.solution
    assert made.program.notes[-1].startswith("with the given schedules: ")
    assert as_given(gemm) == (), "the search has found as good a schedule"
    assert as_given(replace(slow, intervals=gemm.intervals)) == (), "predicted to be as fast"
    assert as_given(replace(slow, inputs=replace(slow.inputs, subtile=2))) == (), "another form"
    assert as_given(slow, replace(GEMM, registers=200)) == ()
    assert as_given(slow, GEMM, replace(kept, solution=later.solution)) == ()
