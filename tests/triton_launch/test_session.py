# pyright: basic, reportMissingImports=false
"""Which kernel a launch goes to, on a machine with no GPU: Triton's driver, tensors and Twill's kernels are
stand-ins."""

import logging
import os
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("triton")

import triton
from triton.compiler.compiler import CompiledKernel
from triton.runtime.autotuner import Autotuner

import twill.triton
from tests.triton_launch import kernels as sources
from tests.triton_launch.fakes import FLOAT, HALF, Built, Driver, Launched, Tensor, callee, forget
from twill.diagnostics import TwillError
from twill.triton import session, store, trial, workers
from twill.triton.request import request
from twill.triton.store import NoTrialError, Outcome, Trial

kernels: Any = sources

A, B, C = Tensor(HALF, 256), Tensor(HALF, 512), Tensor(HALF, 1024)

Trials = list[Trial | None]

ARGUMENTS = (
    *((name, "*f16") for name in "abc"),
    ("stride", "i32"),
    ("scale", "f32"),
)


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Driver]:
    """Of a Hopper GPU that is none; kernels forget what they were compiled for."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    made = Driver()
    monkeypatch.setattr(triton.runtime.driver, "_active", made)
    monkeypatch.setattr(session, "capturing", lambda stream: False)
    yield made
    twill.triton.uninstall()
    for kernel in (kernels.dot, kernels.tuned.fn, kernels.guessed.fn, kernels.pair, kernels.copy):
        forget(kernel)


@pytest.fixture
def built(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> Built:
    """Twill builds every kernel that is wanted, in no time; `dot`'s arguments fit."""
    made = Built(driver, ARGUMENTS)
    monkeypatch.setattr(
        workers,
        "outcome",
        lambda request, key, *_: store.keep(key, Outcome(callee(f"/built/{request.name}"))),
    )
    monkeypatch.setattr(
        workers,
        "begin",
        lambda request, key, settings, form=0: made.ahead.append((request.configuration, key)),
    )
    monkeypatch.setattr(session, "loaded", made.load)
    return made


def launch(scale: float = 2.0, stride: int = 64, grid: tuple[int, ...] = (3, 2)) -> None:
    kernels.dot[grid](A, B, C, stride, scale, BLOCK=16)


def who(driver: Driver) -> list[str]:
    return [one.who for one in driver.launches]


def only_row() -> Any:
    (row,) = twill.triton.report()
    return row


def test_a_launch_goes_to_twills_kernel(
    driver: Driver, built: Built, caplog: pytest.LogCaptureFixture
) -> None:
    twill.triton.install(measure=False)
    with caplog.at_level(logging.INFO, "twill.triton"):
        launch()
        launch(3.0)
    values = (256, 512, 1024, 64)
    assert driver.launches == [
        Launched("twill", (3, 2, 1), (*values, 2.0)),
        Launched("twill", (3, 2, 1), (*values, 3.0)),
    ]
    row = only_row()
    assert (row.kernel, row.choice, row.interval) == ("dot", "twill", "1024")
    assert "BLOCK=16" in row.configuration
    assert len(caplog.messages) == 1
    assert caplog.messages[0] == row.line()


def test_the_decision_is_made_once(driver: Driver, built: Built) -> None:
    """Afterwards Triton's own cache holds the launcher itself."""
    twill.triton.install(measure=False)
    for _ in range(3):
        launch()
    (kernel,) = kernels.dot.device_caches[0][0].values()
    assert built.loaded == ["/built/dot"]
    assert not isinstance(kernel._run, session.Route)


def test_each_specialization_is_a_kernel(driver: Driver, built: Built) -> None:
    twill.triton.install(measure=False)
    launch()
    kernels.dot[(1,)](A, B, C, 64, 2.0, BLOCK=32)
    kernels.dot[(1,)](A, B, C, 65, 2.0, BLOCK=16)
    assert [row.configuration.partition(",")[0] for row in twill.triton.report()] == [
        "BLOCK=16",
        "BLOCK=32",
        "BLOCK=16",
    ]
    assert len(list(store.folder_of("x").parent.glob("*/outcome.json"))) == 3


def test_a_refusal_is_tritons_and_says_why(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        workers, "outcome", lambda *_: Outcome(refused="values carried round a loop of tiles")
    )
    twill.triton.install()
    launch()
    launch()
    assert who(driver) == ["triton", "triton"]
    assert (only_row().choice, only_row().reason) == ("triton", "values carried round a loop of tiles")


def test_a_kernel_without_a_dot_starts_nothing(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "outcome", lambda *_: pytest.fail("there is nothing to schedule"))
    twill.triton.install()
    kernels.copy[(1,)](A, C, BLOCK=16)
    assert (who(driver), only_row().reason) == (["triton"], "it has no dot")


def test_other_architectures_stay_tritons(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "outcome", lambda *_: pytest.fail("nothing is generated for it"))
    driver.arch = 80
    twill.triton.install()
    launch()
    assert "this is sm80" in only_row().reason


def test_a_kernel_whose_arguments_differ_is_not_launched(driver: Driver, built: Built) -> None:
    built.arguments = ARGUMENTS[:-1]
    twill.triton.install(measure=False)
    launch()
    assert who(driver) == ["triton"]
    assert only_row().reason.startswith(
        "its launch passes (*f16, *f16, *f16, i32, f32), and the kernel takes"
    )


def test_a_failing_launch_falls_back(driver: Driver, built: Built) -> None:
    built.status = 1
    twill.triton.install(measure=False)
    launch()
    launch()
    assert who(driver) == ["triton", "triton"]
    assert "CUDA error 1" in only_row().reason


def test_an_empty_grid_launches_nothing(driver: Driver, built: Built) -> None:
    twill.triton.install(measure=False)
    launch(grid=(0, 1))
    assert driver.launches == []


def test_what_is_on_disk_is_used_by_the_next_process(
    driver: Driver, built: Built, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "find", store.recorded)
    twill.triton.install(measure=False)
    launch()
    twill.triton.uninstall()
    forget(kernels.dot)
    monkeypatch.setattr(workers, "outcome", lambda *_: pytest.fail("it is there"))
    twill.triton.install(compile="cached", measure=False)
    launch()
    assert who(driver) == ["twill", "twill"]


def test_cached_builds_nothing(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "outcome", lambda *_: pytest.fail("nothing is built"))
    twill.triton.install(compile="cached")
    launch()
    assert "not been built before" in only_row().reason


def test_in_the_background_tritons_kernel_runs_until_twills_is_there(
    driver: Driver, built: Built, monkeypatch: pytest.MonkeyPatch
) -> None:
    build, begun = Future[Outcome](), list[str]()
    monkeypatch.setattr(workers, "begin", lambda request, *_: begun.append(request.name) or build)
    twill.triton.install(compile="background", measure=False)
    launch()
    launch()
    assert (who(driver), only_row().choice) == (["triton", "triton"], "pending")
    assert "1 pending" in str(twill.triton.report())
    build.set_result(Outcome(callee("/built/dot")))
    assert only_row().reason == "Twill's is built; the next launch tries it"
    launch()
    launch()
    assert (who(driver)[2:], only_row().choice) == (["twill", "twill"], "twill")
    assert begun == ["dot"]


def test_a_refusal_in_the_background_needs_no_launch(
    driver: Driver, built: Built, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = Future[Outcome]()
    monkeypatch.setattr(workers, "begin", lambda *_: build)
    twill.triton.install(compile="background", measure=False)
    launch()
    build.set_result(Outcome(refused="too large"))
    assert (only_row().choice, only_row().reason) == ("triton", "too large")
    launch()
    (kernel,) = kernels.dot.device_caches[0][0].values()
    assert not isinstance(kernel._run, session.Route)


def test_launches_wait_no_longer_in_all_than_their_patience(
    driver: Driver, built: Built, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Of three kernels the first is built in time, the second is not, the third is not waited for."""
    builds = {f"BLOCK={size}": Future[Outcome]() for size in (16, 32, 64)}
    builds["BLOCK=16"].set_result(Outcome(callee("/built/dot")))
    clock, left = [100.0], list[float | None]()

    def outcome(request: Any, key: str, settings: Any, patience: float | None, form: int = 0) -> Any:
        build = builds[request.configuration.partition(",")[0]]
        left.append(patience)
        clock[0] += 2.0 if build.done() else patience or 0.0
        return build.result() if build.done() else build

    monkeypatch.setattr(workers, "outcome", outcome)
    monkeypatch.setattr(session, "monotonic", lambda: clock[0])
    twill.triton.install(measure=False, patience=3)
    for size in (16, 32, 64):
        kernels.dot[(1,)](A, B, C, 64, 2.0, BLOCK=size)
    assert left == [3.0, 1.0, 0.0]
    assert [row.choice for row in twill.triton.report()] == ["twill", "pending", "pending"]
    (said,) = [one.message for one in caplog.records if one.levelname == "WARNING"]
    assert "as long as they may (3 s in all" in said
    for build in builds.values():
        if not build.done():
            build.set_result(Outcome(callee("/built/dot")))
    for size in (16, 32, 64):
        kernels.dot[(1,)](A, B, C, 64, 2.0, BLOCK=size)
    assert who(driver) == ["twill", "triton", "triton", "twill", "twill", "twill"]


def test_what_was_late_is_not_waited_for_in_the_next_process(
    driver: Driver, built: Built, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless the user wants to wait as long as it takes."""
    monkeypatch.setattr(workers, "outcome", lambda *_: Future[Outcome]())
    twill.triton.install(measure=False, patience=0.1)
    launch()
    for patience, waits in ((60.0, False), (None, True)):
        twill.triton.uninstall()
        forget(kernels.dot)
        waited = list[str]()
        monkeypatch.setattr(workers, "begin", lambda *_: Future[Outcome]())
        monkeypatch.setattr(
            workers, "outcome", lambda asked, *_, to=waited: to.append(asked.name) or Outcome(refused="no")
        )
        twill.triton.install(measure=False, patience=patience)
        launch()
        assert waited == (["dot"] if waits else [])
        assert only_row().choice == ("triton" if waits else "pending")


def test_without_a_limit_launches_wait_as_long_as_it_takes(
    driver: Driver, built: Built, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = list[float | None]()
    monkeypatch.setattr(
        workers, "outcome", lambda *asked: left.append(asked[3]) or Outcome(callee("/built/dot"))
    )
    twill.triton.install(measure=False, patience=None)
    launch()
    assert left == [None]


def test_a_build_that_fails_while_nobody_waits_is_reported(
    driver: Driver, built: Built, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = Future[Outcome]()
    monkeypatch.setattr(workers, "outcome", lambda *_: build)
    twill.triton.install(measure=False)
    launch()
    build.set_exception(OSError("no more processes"))
    launch()
    assert (who(driver), only_row().choice) == (["triton", "triton"], "triton")
    assert only_row().reason == "no more processes"


def test_an_answer_after_uninstall_changes_nothing(
    driver: Driver, built: Built, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = Future[Outcome]()
    monkeypatch.setattr(workers, "begin", lambda *_: build)
    twill.triton.install(compile="background", measure=False)
    launch()
    twill.triton.uninstall()
    build.set_result(Outcome(callee("/built/dot")))
    launch()
    assert who(driver) == ["triton", "triton"]


def test_nothing_is_decided_while_a_graph_is_captured(
    driver: Driver, built: Built, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "capturing", lambda stream: True)
    twill.triton.install(measure=False)
    launch()
    assert (who(driver), built.loaded) == (["triton"], [])
    assert "CUDA graph" in only_row().reason
    monkeypatch.setattr(session, "capturing", lambda stream: False)
    launch()
    monkeypatch.setattr(session, "capturing", lambda stream: True)
    launch()
    assert who(driver) == ["triton", "twill", "twill"]


# --- trials -----------------------------------------------------------------------------------------------


@pytest.fixture
def trials(monkeypatch: pytest.MonkeyPatch) -> Trials:
    """What trials come to, one after the other; None where one is impossible. Both kernels are launched in
    each."""
    results: Trials = []

    @contextmanager
    def beside(run_triton: Any, values: Any, measure: bool) -> Iterator[Any]:
        assert len(values) == 6
        if results[0] is None:
            results.pop(0)
            raise NoTrialError("there is not enough memory")
        run_triton()

        def against(run_twill: Any) -> Trial | None:
            run_twill()
            return results.pop(0)

        yield against

    monkeypatch.setattr(trial, "torch_beside", beside)
    monkeypatch.setattr(session, "gpu", lambda: "NVIDIA H200")
    return results


def test_the_faster_kernel_is_kept(driver: Driver, built: Built, trials: Trials) -> None:
    trials.extend([Trial(None, 1.5, 1.0), Trial(None, 1.0, 2.0)])
    twill.triton.install()
    launch()
    launch()
    kernels.dot[(1,)](A, B, C, 64, 2.0, BLOCK=32)
    kernels.dot[(1,)](A, B, C, 64, 2.0, BLOCK=32)
    assert who(driver) == ["triton", "twill", "twill", "triton", "twill", "triton"]
    assert [(row.choice, row.speed, row.reason) for row in twill.triton.report()] == [
        ("twill", 1.5, "verified"),
        ("triton", 0.5, "Twill's is slower"),
    ]


def test_a_kernel_that_differs_is_switched_off(
    driver: Driver, built: Built, trials: Trials, caplog: pytest.LogCaptureFixture
) -> None:
    trials.append(Trial("argument 2 differs"))
    twill.triton.install(verify=True, measure=False)
    launch()
    launch()
    assert who(driver) == ["triton", "twill", "triton"]
    assert "argument 2 differs" in only_row().reason
    assert [record.levelname for record in caplog.records if record.name == "twill.triton"] == ["ERROR"]


def test_a_trial_is_kept_for_the_next_process(
    driver: Driver, built: Built, trials: Trials, monkeypatch: pytest.MonkeyPatch
) -> None:
    trials.append(Trial(None, 1.5, 1.0))
    for _ in range(2):
        twill.triton.install(verify=True)
        launch()
        twill.triton.uninstall()
        forget(kernels.dot)
    assert (who(driver), trials) == (["triton", "twill", "twill"], [])


def test_an_impossible_trial(driver: Driver, built: Built, trials: Trials) -> None:
    """To measure is a wish, to verify is not."""
    trials.extend([None, None])
    twill.triton.install(measure=True)
    launch()
    twill.triton.install(verify=True)
    kernels.dot[(1,)](A, B, C, 64, 2.0, BLOCK=32)
    assert [(row.choice, row.reason) for row in twill.triton.report()] == [
        ("twill", "not measured: there is not enough memory"),
        ("triton", "it cannot be verified: there is not enough memory"),
    ]


# --- other forms ------------------------------------------------------------------------------------------

FORMS = ("not made persistent", "its computing group loads")


@pytest.fixture
def forms(built: Built, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Twill builds two other forms of each kernel, in no time; those that were built."""
    numbers: list[int] = []

    def outcome(request: Any, key: str, settings: Any, patience: float | None, form: int = 0) -> Outcome:
        numbers.append(form)
        made = callee(f"/built/{form}")
        return store.keep(
            key,
            Outcome(replace(made, form=FORMS[form - 1])) if form else Outcome(made, forms=len(FORMS)),
        )

    monkeypatch.setattr(workers, "outcome", outcome)
    monkeypatch.setattr(store, "find", store.recorded)
    return numbers


def in_a_new_process() -> None:
    """As far as kernels are decided."""
    twill.triton.uninstall()
    forget(kernels.dot)


def test_another_form_is_tried_where_the_first_is_slower(
    driver: Driver, built: Built, forms: list[int], trials: Trials
) -> None:
    """In the same launch, which the program sees as one; the report says which form runs."""
    trials.extend([Trial(None, 1.0, 2.0), Trial(None, 1.5, 1.0)])
    twill.triton.install()
    launch()
    launch()
    assert who(driver) == ["triton", "twill", "twill", "twill"]
    assert built.loaded == ["/built/0", "/built/1"]
    row = only_row()
    assert (row.choice, row.speed, row.reason) == ("twill", 1.5, "verified, not made persistent")
    assert forms == [0, 1]
    in_a_new_process()
    twill.triton.install(compile="cached")
    launch()
    assert (who(driver)[4:], only_row().reason, forms) == (["twill"], row.reason, [0, 1])


def test_a_faster_kernel_has_no_other_forms_built(
    driver: Driver, built: Built, forms: list[int], trials: Trials
) -> None:
    trials.append(Trial(None, 1.0, 1.0))
    twill.triton.install()
    launch()
    assert (only_row().choice, forms) == ("twill", [0])


def test_where_no_form_is_faster_triton_stays(
    driver: Driver, built: Built, forms: list[int], trials: Trials
) -> None:
    """With the speed of the fastest form; the next process knows."""
    trials.extend(Trial(None, speed, 1.0) for speed in (0.5, 0.9, 0.7))
    twill.triton.install()
    for _ in range(2):
        launch()
        row = only_row()
        assert (row.choice, row.speed, row.reason) == ("triton", 0.9, "Twill's is slower")
        in_a_new_process()
        twill.triton.install()
    assert who(driver) == ["triton", *["twill"] * 3, "triton"]
    assert forms == [0, 1, 2]


def test_a_form_that_is_refused_is_left_out(
    driver: Driver, built: Built, forms: list[int], trials: Trials, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = workers.outcome
    monkeypatch.setattr(
        workers,
        "outcome",
        lambda request, key, settings, patience, form=0: (
            store.keep(key, Outcome(refused="ptxas spills"))
            if form == 1
            else made(request, key, settings, patience, form)
        ),
    )
    trials.extend([Trial(None, 1.0, 2.0), Trial(None, 1.5, 1.0)])
    twill.triton.install()
    launch()
    assert (only_row().choice, only_row().reason) == ("twill", "verified, its computing group loads")


def test_a_form_that_differs_leaves_triton(
    driver: Driver, built: Built, forms: list[int], trials: Trials
) -> None:
    trials.extend([Trial(None, 1.0, 2.0), Trial("argument 2 differs")])
    twill.triton.install()
    launch()
    assert only_row().choice == "triton"
    assert "argument 2 differs" in only_row().reason


def test_in_the_background_triton_runs_until_the_form_is_there(
    driver: Driver, built: Built, forms: list[int], trials: Trials, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel is there, its other forms are not."""
    twill.triton.install(measure=False)
    launch()
    in_a_new_process()
    driver.launches.clear()
    builds = [Future[Outcome](), Future[Outcome]()]
    begun: list[int] = []
    monkeypatch.setattr(workers, "begin", lambda *given: begun.append(given[3]) or builds[given[3] - 1])
    trials.extend([Trial(None, 1.0, 2.0), Trial(None, 1.5, 1.0)])
    twill.triton.install(compile="background")
    launch()
    launch()
    row = only_row()
    assert (row.choice, row.reason) == ("pending", "Twill's is slower; another form of it is being built")
    assert who(driver) == ["triton", "twill", "triton"]
    key = next(store.folder_of("k").parent.iterdir()).name
    builds[0].set_result(store.keep(store.form_of(key, 1), Outcome(refused="ptxas spills")))
    launch()
    assert (who(driver)[3:], begun, only_row().choice) == (["triton"], [1, 2], "pending")
    second = Outcome(replace(callee("/built/2"), form=FORMS[1]))
    builds[1].set_result(store.keep(store.form_of(key, 2), second))
    launch()
    assert who(driver)[4:] == ["triton", "twill"]
    launch()
    assert who(driver)[6:] == ["twill"]
    assert only_row().reason == "verified, its computing group loads"


def test_a_decision_for_other_sizes_is_not_taken_back_by_a_form(
    driver: Driver, built: Built, forms: list[int], trials: Trials, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The form is built for sizes for which the kernel is slower; meanwhile it is tried on others."""
    twill.triton.install(measure=False)
    launch()
    in_a_new_process()
    build = Future[Outcome]()
    monkeypatch.setattr(workers, "begin", lambda *_: build)
    trials.extend([Trial(None, 1.0, 2.0), Trial(None, 2.0, 1.0)])
    twill.triton.install(compile="background")
    launch()
    (kernel,) = kernels.dot.device_caches[0][0].values()
    listening: Any = twill.triton._session
    listening.measured(kernel)
    launch(stride=1024)
    assert (only_row().choice, only_row().reason) == ("twill", "verified")
    build.set_result(Outcome(callee("/built/1")))
    assert (only_row().choice, only_row().reason) == ("twill", "verified")


def test_a_form_that_cannot_be_built_now_leaves_triton(
    driver: Driver, built: Built, forms: list[int], trials: Trials, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And is not begun at each launch."""
    twill.triton.install(measure=False)
    launch()
    in_a_new_process()
    build, begun = Future[Outcome](), list[int]()
    monkeypatch.setattr(workers, "begin", lambda *given: begun.append(given[3]) or build)
    trials.append(Trial(None, 1.0, 2.0))
    twill.triton.install(compile="background")
    launch()
    build.set_result(Outcome(refused="nvcc is not on the PATH", lasting=False))
    launch()
    launch()
    assert (only_row().choice, only_row().reason, begun) == ("triton", "Twill's is slower", [1])


def test_where_nothing_is_built_a_slower_kernel_is_tritons(
    driver: Driver, built: Built, forms: list[int], trials: Trials
) -> None:
    twill.triton.install(measure=False)
    launch()
    in_a_new_process()
    trials.append(Trial(None, 1.0, 2.0))
    twill.triton.install(compile="cached")
    launch()
    assert (only_row().choice, forms) == ("triton", [0])


def test_a_trial_that_runs_out_of_memory_launches_nothing_more(
    driver: Driver, built: Built, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What Triton's kernel wrote is there already."""

    @contextmanager
    def beside(run_triton: Any, values: Any, measure: bool) -> Iterator[Any]:
        run_triton()

        def against(run: Any) -> Any:
            raise NoTrialError("there is not enough memory")

        yield against

    monkeypatch.setattr(trial, "torch_beside", beside)
    twill.triton.install()
    launch()
    assert (who(driver), only_row().choice) == (["triton"], "twill")


# --- what wraps kernels -----------------------------------------------------------------------------------


def test_autotuned_kernels(driver: Driver, built: Built, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every configuration is a kernel of its own; the refused one is Triton's."""
    built.arguments = ARGUMENTS[:4]
    kept = workers.outcome
    monkeypatch.setattr(
        workers,
        "outcome",
        lambda request, *rest: (
            Outcome(refused="too large") if "BLOCK=32" in request.configuration else kept(request, *rest)
        ),
    )

    def benchmark(run: Any, quantiles: Any) -> list[float]:
        run()
        return [1.0 if driver.launches[-1].who == "twill" else 2.0] * 3

    monkeypatch.setattr(kernels.tuned, "_do_bench", benchmark, raising=False)
    monkeypatch.setattr(type(kernels.tuned), "do_bench", property(lambda self: benchmark))
    twill.triton.install(measure=False)
    kernels.tuned[(1,)](A, B, C, 64)
    assert [(row.choice, row.configuration[:8]) for row in twill.triton.report()] == [
        ("twill", "BLOCK=16"),
        ("triton", "BLOCK=32"),
    ]
    assert who(driver)[-1] == "twill"


def tune(driver: Driver, monkeypatch: pytest.MonkeyPatch, tuned: Any) -> None:
    """Launches it with a tuner that takes the first configuration."""

    def benchmark(run: Any, quantiles: Any) -> list[float]:
        run()
        return [float(len(driver.launches))] * 3

    monkeypatch.setattr(tuned, "_do_bench", benchmark, raising=False)
    monkeypatch.setattr(type(tuned), "do_bench", property(lambda self: benchmark))
    tuned[(1,)](A, B, C, 64)


def test_configurations_are_built_ahead(
    driver: Driver, built: Built, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of them before the first launch; none where the tuner has an answer already."""
    built.arguments = ARGUMENTS[:4]
    ahead = built.ahead
    launched: list[int] = []
    monkeypatch.setattr(
        workers, "begin", lambda request, *_: ahead.append(request) or launched.append(len(driver.launches))
    )
    tuned = triton.autotune(kernels.tuned.configs, key=["stride"])(kernels.tuned.fn)
    twill.triton.install(measure=False)
    tune(driver, monkeypatch, tuned)
    assert [request.configuration[:8] for request in ahead] == ["BLOCK=16", "BLOCK=32"]
    assert launched == [0, 0]
    tuned[(1,)](A, B, C, 64)
    assert len(ahead) == 2


def test_configurations_are_compiled_side_by_side(
    driver: Driver, built: Built, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each in a thread; one that can not be compiled does not keep the others from it, and the tuner sees its
    error."""
    built.arguments = ARGUMENTS[:4]
    threads: list[str] = []
    compiled = triton.compiler.compile

    def made(source: Any, **options: Any) -> Any:
        threads.append(threading.current_thread().name)
        if 64 in source.constants.values():
            raise RuntimeError("too large")
        return compiled(source, **options)

    monkeypatch.setattr(triton.compiler, "compile", made)
    sizes = [triton.Config({"BLOCK": size}) for size in (64, 16, 32)]
    twill.triton.install(measure=False)
    with pytest.raises(RuntimeError, match="too large"):
        tune(driver, monkeypatch, triton.autotune(sizes, key=["stride"])(kernels.tuned.fn))
    assert threading.current_thread().name not in threads[:3]
    assert [configuration[:8] for configuration, _ in built.ahead] == ["BLOCK=16", "BLOCK=32"]


@pytest.mark.parametrize("compile", ["background", "cached"])
def test_nothing_is_built_ahead_where_launches_do_not_wait(
    driver: Driver, built: Built, monkeypatch: pytest.MonkeyPatch, compile: Any
) -> None:
    built.arguments = ARGUMENTS[:4]
    begun = list[bool]()
    monkeypatch.setattr(workers, "begin", lambda *_: begun.append(bool(driver.launches)) or Future[Outcome]())
    twill.triton.install(compile=compile, measure=False)
    tune(driver, monkeypatch, triton.autotune(kernels.tuned.configs, key=["stride"])(kernels.tuned.fn))
    assert begun == ([False, True] if compile == "background" else [])


def test_a_hook_runs_once_for_each_launch_and_once_ahead(
    driver: Driver, built: Built, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []
    hooked = [
        triton.Config({"BLOCK": size}, pre_hook=lambda arguments: calls.append(arguments["BLOCK"]))
        for size in (16, 32)
    ]
    built.arguments = ARGUMENTS[:4]
    twill.triton.install(measure=False)
    tune(driver, monkeypatch, triton.autotune(hooked, key=["stride"])(kernels.tuned.fn))
    assert calls == [16, 32, 16, 32, 16]


def test_a_configuration_that_fails_is_tritons_to_handle(
    driver: Driver, built: Built, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its hook raises before the tuner gets there; the tuner sees the same error."""

    def hook(arguments: Any) -> None:
        raise RuntimeError("too small")

    failing = [*kernels.tuned.configs, triton.Config({"BLOCK": 64}, pre_hook=hook)]
    built.arguments = ARGUMENTS[:4]
    twill.triton.install(measure=False)
    with pytest.raises(RuntimeError, match="too small"):
        tune(driver, monkeypatch, triton.autotune(failing, key=["stride"])(kernels.tuned.fn))
    assert len(built.ahead) == 2


def test_numbers_of_stages_share_a_kernel_and_not_a_trial(
    driver: Driver, built: Built, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They decide how Triton pipelines, and so how Triton's kernel does beside Twill's."""
    monkeypatch.setattr(session, "gpu", lambda: "NVIDIA H200")
    trials: list[Trial] = [Trial(None, 2.0, 1.0), Trial(None, 1.0, 2.0)]
    monkeypatch.setattr(trial, "torch_beside", lambda *_: nullcontext(lambda run: trials.pop(0)))
    twill.triton.install()
    for stages in (3, 4, 3):
        kernels.dot[(1,)](A, B, C, 64, 2.0, BLOCK=16, num_stages=stages)
    assert [(row.choice, row.configuration[-1]) for row in twill.triton.report()] == [
        ("twill", "3"),
        ("triton", "4"),
    ]
    assert len({*built.loaded}) == 1
    assert not trials
    assert len([*(store.folder_of("k").parent).glob("*")]) == 1


def test_a_tuner_tries_each_key_on_its_own_sizes(
    driver: Driver, built: Built, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twill's kernel wins at 64 and loses at 1024; 80 is as good as 64."""
    built.arguments = ARGUMENTS[:4]
    monkeypatch.setattr(session, "gpu", lambda: "NVIDIA H200")
    monkeypatch.setattr(workers, "begin", lambda *_: None)
    trials: list[int] = []

    def beside(triton: Any, values: Any, measure: bool) -> Any:
        trials.append(values[3])
        return nullcontext(lambda run: Trial(None, 2.0, 1.0 if values[3] < 100 else 4.0))

    monkeypatch.setattr(trial, "torch_beside", beside)
    tuned = triton.autotune(kernels.tuned.configs, key=["stride"])(kernels.tuned.fn)
    twill.triton.install()

    def benchmark(run: Any, quantiles: Any) -> list[float]:
        run()
        return [0.0] * 3

    monkeypatch.setattr(type(tuned), "do_bench", property(lambda self: benchmark))
    chosen: list[str] = []
    for stride in (64, 1024, 80):
        tuned[(1,)](A, B, C, stride)
        chosen += {row.choice for row in twill.triton.report()}
    assert chosen == ["twill", "triton", "twill"]
    assert trials == [64, 64, 1024, 1024]


def test_triton_counts_the_warps_that_it_adds(driver: Driver) -> None:
    """Its TTGIR says how many the kernel was compiled for."""
    kernel: Any = kernels.dot.run(A, B, C, 64, 2.0, BLOCK=16, grid=(1,), warmup=True)
    kernel.metadata = kernel.metadata._replace(num_warps=12)
    kernel.asm["ttgir"] = 'module attributes {"ttg.num-warps" = 8 : i32, "ttg.total-num-warps" = 12 : i32} {}'
    asked = request(kernel)
    assert asked is not None
    assert asked.metadata["num_warps"] == 8


def test_heuristics(driver: Driver, built: Built) -> None:
    built.arguments = ARGUMENTS[:3]
    twill.triton.install(measure=False)
    kernels.guessed[(1,)](A, B, C)
    assert driver.launches == [Launched("twill", (1, 1, 1), (256, 512, 1024))]


def test_tuples(driver: Driver, built: Built) -> None:
    built.arguments = ARGUMENTS[:3]
    twill.triton.install(measure=False)
    kernels.pair[(1,)]((A, B), C, BLOCK=16)
    assert driver.launches == [Launched("twill", (1, 1, 1), (256, 512, 1024))]


def test_types_are_compared(driver: Driver, built: Built) -> None:
    twill.triton.install(measure=False)
    kernels.dot[(1,)](A, B, Tensor(FLOAT, 64), 64, 2.0, BLOCK=16)
    assert who(driver) == ["triton"]
    assert "*f32" in only_row().reason


def test_one_kernel_alone(driver: Driver, built: Built) -> None:
    marked = twill.triton.jit(kernels.dot)
    twill.triton.start(twill.triton.Settings(measure=False))
    assert marked is kernels.dot
    launch()
    kernels.copy[(1,)](A, C, BLOCK=16)
    assert who(driver) == ["twill", "triton"]
    assert len(twill.triton.report().rows) == 1
    twill.triton._marked.clear()


# --- coming and going -------------------------------------------------------------------------------------


def test_kernels_launched_before_are_adopted(driver: Driver, built: Built) -> None:
    launch()
    twill.triton.install(measure=False)
    launch()
    assert who(driver) == ["triton", "twill"]


def test_uninstall_leaves_nothing(driver: Driver, built: Built, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TORCHINDUCTOR_USE_STATIC_CUDA_LAUNCHER", raising=False)
    before = CompiledKernel._init_handles, Autotuner.prune_configs, Autotuner._bench
    twill.triton.install(measure=False)
    twill.triton.install(measure=False)
    launch()
    (kernel,) = kernels.dot.device_caches[0][0].values()
    twill.triton.uninstall()
    launch()
    assert who(driver) == ["twill", "triton"]
    assert (CompiledKernel._init_handles, Autotuner.prune_configs, Autotuner._bench) == before
    assert not isinstance(kernel._run, session.Route)
    assert "TORCHINDUCTOR_USE_STATIC_CUDA_LAUNCHER" not in os.environ
    assert twill.triton.report().rows == ()


def test_a_defect_of_twill_leaves_the_launch_alone(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(kernel: Any) -> Any:
        raise AttributeError("metadata")

    monkeypatch.setattr(session, "request", broken)
    twill.triton.install()
    launch()
    assert who(driver) == ["triton"]


def test_a_built_kernel_that_cannot_be_loaded(
    driver: Driver, built: Built, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(key: str, known: Any) -> Any:
        raise TwillError(f"{known.folder} has no kernel.so")

    monkeypatch.setattr(session, "loaded", gone)
    twill.triton.install()
    launch()
    assert (who(driver), only_row().reason) == (["triton"], "/built/dot has no kernel.so")


class Sized(Tensor):
    """A tensor with an extent, of rows of 8 numbers."""

    def __init__(self, address: int, rows: int, pitch: int = 8) -> None:
        super().__init__(HALF, address)
        self.shape, self.pitch, self.nbytes = (rows, 8), pitch, 16 * rows

    def stride(self) -> tuple[int, ...]:
        return (self.pitch, 1)

    def is_contiguous(self) -> bool:
        return self.pitch == 8

    def element_size(self) -> int:
        return 2


def test_launches_whose_arrays_overlap_go_to_tritons_kernel(driver: Driver, built: Built) -> None:
    """Each launch by itself: others of the kernel stay Twill's. Arrays that alternate in memory are apart."""
    built.apart = (("c", "a", False), ("c", "b", True))
    twill.triton.install(measure=False)

    def run(a: Tensor, b: Tensor, c: Tensor) -> str:
        kernels.dot[(1,)](a, b, c, 64, 2.0, BLOCK=16)
        return driver.launches[-1].who

    whole, behind, far = Sized(4096, 64), Sized(4096 + 1024, 64), Sized(65536, 64)
    assert run(whole, whole, behind) == "twill"
    assert run(whole, behind, whole) == "triton"
    assert run(behind, whole, whole) == "twill", "b is updated in place"
    assert run(Sized(4096, 65), Sized(8192, 64), behind) == "triton", "the last row"
    assert run(Sized(4096, 64, 16), far, Sized(4096 + 16, 64, 16)) == "twill", "columns of packed rows"
    assert run(Sized(4096, 64, 16), far, Sized(4096 + 32, 64, 24)) == "triton"
    assert run(Tensor(HALF, 256), Tensor(HALF, 512), Tensor(HALF, 1024)) == "twill", "no extents are known"
    assert run(whole, whole, behind) == "twill"
    row = only_row()
    assert (row.choice, len(driver.launches)) == ("twill", 8)
