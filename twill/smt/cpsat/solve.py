# pyright: basic
"""Runs CP-SAT on one interval: feasibility first, then the shortest of the simplest answers.

Deterministic: one worker, a fixed seed; only a wall-clock limit that strikes can change an answer.
"""

import threading
import time
from dataclasses import dataclass

from ortools.sat.python import cp_model

from twill.ir.problem import Problem, Time
from twill.ir.schedule import Solution
from twill.smt import decode
from twill.smt.cpsat import groups, memory, registers, timing
from twill.smt.cpsat.memory import Room
from twill.smt.cpsat.variables import Variables
from twill.smt.engine import Attempt, Verdict


@dataclass(frozen=True, slots=True)
class Built:
    """A complete model with what is needed to read an answer off and to improve it."""

    variables: Variables
    rooms: list[Room]
    group_count: cp_model.LinearExprT
    channels: list[cp_model.IntVar]


def build(problem: Problem, interval: Time, copies: int, joint: bool) -> Built:
    """State every rule at this interval."""
    v = Variables(problem, interval, copies, joint)
    timing.state(v)
    if not joint:
        return Built(v, [], 1, [])
    groups.state(v)
    used = groups.used(v)
    registers.state(v, used)
    return Built(v, memory.state(v), sum(used), groups.channels(v))


def attempt(
    problem: Problem,
    interval: Time,
    copies: int,
    *,
    joint: bool = True,
    time_limit: float = 60.0,
    stop: threading.Event | None = None,
    hint: Solution | None = None,
) -> Attempt:
    """Is there a schedule of at most `copies` iterations in flight at exactly this interval?"""
    began = time.monotonic()
    built = build(problem, interval, copies, joint)
    _hint(built, hint)
    solver, status = _run(built.variables.model, time_limit - (time.monotonic() - began), stop)
    verdict = _VERDICT.get(status, "timeout")
    found = _read(built, solver) if verdict == "feasible" else None
    return Attempt(verdict, "cpsat", time.monotonic() - began, found)


_VERDICT: dict[cp_model.CpSolverStatus, Verdict] = {
    cp_model.OPTIMAL: "feasible",
    cp_model.FEASIBLE: "feasible",
    cp_model.INFEASIBLE: "infeasible",
}


def _run(model: cp_model.CpModel, seconds: float, stop: threading.Event | None) -> tuple[cp_model.CpSolver, cp_model.CpSolverStatus]:
    """Solve; a stop event ends the search early."""
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 1
    solver.parameters.max_time_in_seconds = max(0.01, seconds)
    solver.parameters.catch_sigint_signal = False
    if stop is None:
        return solver, solver.solve(model)
    done = threading.Event()

    def watch() -> None:
        while not done.wait(0.05):
            if stop.is_set():
                solver.stop_search()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        return solver, solver.solve(model)
    finally:
        done.set()
        watcher.join()


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
    """Start from a known answer: its starts and groups."""
    if hint is None:
        return
    v = built.variables
    for var, value in zip(v.start, hint.start, strict=True):
        v.model.add_hint(var, value)
    if v.joint and hint.groups:
        for c, members in enumerate(v.clusters.members):
            for g, x in enumerate(v.in_group[c]):
                v.model.add_hint(x, int(hint.group[members[0]] == g))


def refine(
    problem: Problem,
    interval: Time,
    copies: int,
    found: Solution,
    *,
    joint: bool = True,
    time_limit: float,
    stop: threading.Event | None = None,
) -> tuple[Solution, tuple[str, ...]]:
    """Among the answers at this interval: fewest groups, then fewest channels between them, then the shortest.

    Gives the best answer found and which of these three are proven.
    """
    deadline = time.monotonic() + time_limit
    built = build(problem, interval, copies, joint)
    v, proven = built.variables, list[str]()
    goals: list[tuple[str, cp_model.LinearExprT]] = [("length", v.length)]
    if joint:
        goals = [("groups", built.group_count), ("channels", sum(built.channels)), *goals]
    for name, goal in goals:
        v.model.clear_hints()
        _hint(built, found)
        v.model.minimize(goal)
        solver, status = _run(v.model, deadline - time.monotonic(), stop)
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            break
        found = _read(built, solver)
        v.model.add(goal <= round(solver.objective_value))
        if status == cp_model.OPTIMAL:
            proven.append(name)
    return found, tuple(proven)
