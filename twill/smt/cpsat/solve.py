# pyright: basic
"""Runs CP-SAT on one interval: feasibility, or the answer with the fewest channels or of least length.

Deterministic: one worker, a fixed seed; only a wall-clock limit that strikes can change an answer.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from ortools.sat.python import cp_model

from twill.ir.problem import Problem, Time
from twill.ir.schedule import Solution
from twill.smt import decode
from twill.smt.cpsat import allocation as memory
from twill.smt.cpsat import groups, registers, timing
from twill.smt.cpsat.allocation import Room
from twill.smt.cpsat.variables import StoppedError, Variables
from twill.smt.engine import Attempt, Verdict
from twill.smt.symmetry import Family

Goal = Literal["channels", "stages", "length", "lateness", "promptness"]
"""Fewest channels between groups; fewest stages; least length; latest starts (which keeps loads and values short of their use); latest
starts of what is waited for from memory and earliest of all else (so that whoever is late has time left)."""


@dataclass(frozen=True, slots=True)
class Built:
    """A complete model with what is needed to read an answer off and to improve it."""

    variables: Variables
    rooms: list[Room]
    channels: list[cp_model.IntVar]


def build(problem: Problem, interval: Time, copies: int, joint: bool, late: Callable[[], bool] = lambda: False) -> Built:
    """State every rule at this interval. Raises `StoppedError` once it is late."""
    v = Variables(problem, interval, copies, joint, late)
    timing.state(v)
    if not joint:
        return Built(v, [], [])
    groups.state(v)
    used = groups.used(v)
    registers.state(v, used)
    return Built(v, memory.state(v), groups.channels(v))


def attempt(
    problem: Problem,
    interval: Time,
    copies: int,
    *,
    joint: bool = True,
    time_limit: float = 60.0,
    stop: threading.Event | None = None,
    effort: float | None = None,
    proving: bool = True,
    hint: Solution | None = None,
    shifted: tuple[Family, ...] = (),
    in_order: bool = False,
) -> Attempt:
    """Is there a schedule of at most `copies` iterations in flight at exactly this interval?

    `effort` limits the solver's deterministic time (about seconds), so that giving up does not depend on the machine's load.
    `proving` spends more on linear relaxations, which refute tight register budgets tenfold faster and find
    slower. `hint` is an answer to start from, perhaps at another interval. With families in `shifted` only schedules count in which their
    parts are shifted copies of each other, and where it is `in_order` only those in which no group issues two operations at once, so that
    "infeasible" speaks of those alone.
    """
    began = time.monotonic()
    try:
        built = build(problem, interval, copies, joint, _clock(began + time_limit, stop))
    except StoppedError:
        return Attempt("timeout", "cpsat", time.monotonic() - began)
    _narrowed(built, shifted, in_order)
    _hint(built, hint)
    solver, status = _run(built.variables.model, time_limit - (time.monotonic() - began), stop, effort, 2 if proving else 0)
    verdict = _VERDICT.get(status, "timeout")
    found = _read(built, solver) if verdict == "feasible" else None
    return Attempt(verdict, "cpsat", time.monotonic() - began, found)


def _narrowed(built: Built, shifted: tuple[Family, ...], in_order: bool) -> None:
    """No rules, narrower questions: see `attempt`."""
    timing.shifted(built.variables, shifted)
    if in_order:
        groups.in_order(built.variables)


def _clock(end: float, stop: threading.Event | None) -> Callable[[], bool]:
    """Whether the time is up or the event set."""
    return lambda: time.monotonic() > end or (stop is not None and stop.is_set())


_VERDICT: dict[cp_model.CpSolverStatus, Verdict] = {
    cp_model.OPTIMAL: "feasible",
    cp_model.FEASIBLE: "feasible",
    cp_model.INFEASIBLE: "infeasible",
}


def _run(
    model: cp_model.CpModel, seconds: float, stop: threading.Event | None, effort: float | None = None, linearization: int = 1
) -> tuple[cp_model.CpSolver, cp_model.CpSolverStatus]:
    """Solve; a stop event ends the search early."""
    solver = cp_model.CpSolver()
    if effort is not None:
        solver.parameters.max_deterministic_time = effort
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 1
    solver.parameters.linearization_level = linearization
    solver.parameters.max_time_in_seconds = max(0.01, seconds)
    solver.parameters.catch_sigint_signal = False
    if stop is None:
        return solver, _solved(solver, model)
    done = threading.Event()

    def watch() -> None:
        while not done.wait(0.05):
            if stop.is_set():
                solver.stop_search()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        return solver, _solved(solver, model)
    finally:
        done.set()
        watcher.join()


def _solved(solver: cp_model.CpSolver, model: cp_model.CpModel) -> cp_model.CpSolverStatus:
    """The status; once in some ten thousand models the presolve of OR-Tools 9.15 trips over its own symmetries, and is asked without."""
    try:
        return solver.solve(model)
    except IndexError:
        solver.parameters.symmetry_level = 0
        return solver.solve(model)


def _read(built: Built, solver: cp_model.CpSolver) -> Solution:
    """The answer in canonical form."""
    v = built.variables
    start = [solver.value(s) for s in v.start]
    if not v.joint:
        return decode.modulo(v.problem, v.interval, start)
    of_cluster = [next(g for g, x in enumerate(row) if solver.boolean_value(x)) for row in v.in_group]
    label = [of_cluster[c] for c in v.clusters.of]
    address = {(room.value, room.memory, room.staging): solver.value(room.address) * room.grain for room in built.rooms}
    return decode.solution(v.problem, v.interval, start, label, address)


def _hint(built: Built, hint: Solution | None) -> None:
    """Start from a known answer, perhaps at another interval: its stages, residues and groups."""
    if hint is None:
        return
    v = built.variables
    for i, start in enumerate(hint.start):
        stage, residue = start // hint.interval, min(start % hint.interval, v.interval - 1)
        v.model.add_hint(v.stage[i], stage)
        v.model.add_hint(v.residue[i], residue)
        v.model.add_hint(v.start[i], stage * v.interval + residue)
    if v.joint and hint.groups:
        for c, members in enumerate(v.clusters.members):
            for g, x in enumerate(v.in_group[c]):
                v.model.add_hint(x, int(hint.group[members[0]] == g))


def improve(
    goal: Goal,
    problem: Problem,
    interval: Time,
    copies: int,
    found: Solution,
    *,
    joint: bool = True,
    time_limit: float,
    effort: float | None = None,
    stop: threading.Event | None = None,
    shifted: tuple[Family, ...] = (),
    in_order: bool = False,
) -> tuple[Solution, bool]:
    """The best answer by one goal, no worse than `found` by those before it, and whether that is proven; `found` if nothing better is.
    `shifted` and `in_order` as for `attempt`."""
    began = time.monotonic()
    most = copies if goal in ("channels", "stages") else found.copies(problem)
    try:
        built = build(problem, interval, most, joint, _clock(began + time_limit, stop))
    except StoppedError:
        return found, False
    _narrowed(built, shifted, in_order)
    _hint(built, found)
    built.variables.model.minimize(_GOALS[goal](built, found))
    solver, status = _run(built.variables.model, time_limit - (time.monotonic() - began), stop, effort, 0)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return found, False
    return _read(built, solver), status == cp_model.OPTIMAL


def _channels(built: Built, found: Solution) -> cp_model.LinearExpr:
    return cp_model.LinearExpr.sum(built.channels)


def _stages(built: Built, found: Solution) -> cp_model.LinearExpr:
    """Intervals in which operations of one iteration start; at most as many channels as found."""
    v = built.variables
    if v.joint:
        v.model.add(_channels(built, found) <= len(decode.channels(v.problem, found.group)))
    stages = v.model.new_int_var(1, found.stages, "stages")
    for start in v.start:
        v.model.add(start - v.first < stages * v.interval)
    return 1 * stages


def _length(built: Built, found: Solution) -> cp_model.LinearExpr:
    """In at most as many stages as found."""
    _stages(built, found)
    return 1 * built.variables.length


def _earliness(built: Built, found: Solution) -> cp_model.LinearExpr:
    """Starts, negated, counted from the first; no longer than found."""
    v = built.variables
    v.model.add(_length(built, found) <= found.length(v.problem))
    return len(v.start) * v.first - cp_model.LinearExpr.sum(v.start)


def _delay(built: Built, found: Solution) -> cp_model.LinearExpr:
    """As for lateness, but only of loads; starts of the others, from the first on."""
    v = built.variables
    v.model.add(_length(built, found) <= found.length(v.problem))
    signs = [-1 if op.variable else 1 for op in v.problem.operations]
    return cp_model.LinearExpr.weighted_sum(v.start, signs) - sum(signs) * v.first


_GOALS: dict[Goal, Callable[[Built, Solution], cp_model.LinearExpr]] = {
    "channels": _channels,
    "stages": _stages,
    "length": _length,
    "lateness": _earliness,
    "promptness": _delay,
}
