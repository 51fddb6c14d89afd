# pyright: reportUnknownMemberType=false
"""Runs CP-SAT on one interval: feasibility, or the answer with the fewest channels or of least length.

Deterministic: one worker, a fixed seed, limits of work; only measured time that is many times the limit can
change an answer.
"""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Literal, cast

from ortools.sat.python import cp_model

from twill.engine import decode
from twill.engine.anchor import fastened
from twill.engine.clock import SEARCHED, STATED
from twill.engine.probe import UNLIMITED, Budget, Feasible, Outcome, Probe, Refuted, Stoppable, Unknown
from twill.ir.problem import Operation, Problem, Time
from twill.ir.schedule import Solution
from twill.smt.cpsat import allocation as memory
from twill.smt.cpsat import groups, registers, timing
from twill.smt.cpsat.allocation import Buffer
from twill.smt.cpsat.variables import StoppedError, TooLargeError, Variables
from twill.smt.symmetry import Family

PROBED = 48
"""Operations up to which the solver tries both values of every literal before its search; with more that
takes most of the time of a probe (fa_fwd_four: 1.1 s without, 2.6 to 5.7 s with)."""

Goal = Literal["channels", "stages", "length", "lateness", "promptness", "readiness"]
"""Fewest channels between groups; fewest stages; least length; latest starts (which keeps loads and values
short of their use); latest starts of loads and earliest of all else (so that a late operation has slack);
earliest starts of what works on by itself, as MMAs do (so that its unit has work), latest of all else."""


@dataclass(frozen=True, slots=True)
class Built:
    """A complete model with what is needed to read an answer off and to improve it."""

    variables: Variables
    buffers: list[Buffer]
    channels: list[cp_model.IntVar]


def build(
    problem: Problem,
    interval: Time,
    in_flight: int,
    joint: bool,
    late: Callable[[], bool] = lambda: False,
    to_improve: bool = False,
    most: float = inf,
    anchored: bool = False,
) -> Built:
    """State every rule at this interval. Raises `StoppedError` once it is late, or where the rules are more
    than `most` constraints."""
    v = Variables(problem, interval, in_flight, joint, late, to_improve, most, anchored)
    timing.state(v)
    if not joint:
        return Built(v, [], [])
    groups.state(v)
    used = groups.used(v)
    registers.state(v, used)
    return Built(v, memory.state(v), groups.channels(v))


@dataclass(frozen=True, slots=True)
class Tactics:
    """How CP-SAT searches, and for what; the default is any schedule of the problem."""

    linearization: Literal[0, 1, 2] = 2
    """How many linear relaxations: none finds fastest; more refute tight register budgets tenfold faster, but
    no level is best for all."""
    hint: Solution | None = None
    """A schedule to start from, perhaps of another interval."""
    shifted: tuple[Family, ...] = ()
    """Only schedules in which the parts of these families are shifted copies of each other, so that `Refuted`
    holds for those alone."""
    in_order: bool = False
    """Only schedules in which no group issues two operations at once; as above."""
    issuable: bool = False
    """Only schedules in which no group has more to issue than fits an interval; as above."""
    longest: Time | None = None
    """Only schedules no longer than this; as above."""
    parts: tuple[tuple[int, ...], ...] = ()
    """Each of these begins in the first period and lasts up to `in_flight` of them, all together one more."""
    periods: tuple[str, Time] | None = None
    """Only schedules in which this value, a streaming load's, lasts so many periods."""
    seed: int | None = None
    """Any schedule at random, from this seed."""


PLAIN = Tactics()

FINDING = Tactics(linearization=0)
"""Without linear relaxations: most schedules are found fastest so."""


def attempt(
    problem: Problem,
    interval: Time,
    in_flight: int,
    *,
    joint: bool = True,
    budget: Budget = UNLIMITED,
    tactics: Tactics = PLAIN,
) -> Probe:
    """Is there a schedule of at most `in_flight` iterations in flight at exactly this interval?"""
    began = time.monotonic()
    if budget.seconds <= 0:
        return Probe(Unknown("time"), "cpsat")
    try:
        most, late = budget.seconds / STATED, _clock(began, budget)
        within, anchored = in_flight + bool(tactics.parts), _anchored(problem, in_flight, tactics)
        built = build(problem, interval, within, joint, late, most=most, anchored=anchored)
    except StoppedError as early:
        return _not_stated(early, began, budget)
    _narrow(built, tactics)
    _hint(built, tactics.hint)
    solver, status = _run(built, began, budget, tactics)
    work = solver.response_proto.deterministic_time
    counted = _counted(built, solver)
    budget.count(counted)
    return Probe(_outcome(built, solver, status), "cpsat", time.monotonic() - began, work, counted)


def _not_stated(early: StoppedError, began: float, budget: Budget) -> Probe:
    """Nothing is known of a model that is not stated to the end. All that was left of the time limit is gone
    then, unless another probe made this one unnecessary: where little is left, searches would go on without
    an end otherwise."""
    counted = 0.0 if budget.stopped and not isinstance(early, TooLargeError) else budget.seconds
    budget.count(counted)
    return Probe(Unknown("time"), "cpsat", time.monotonic() - began, counted=counted)


def _anchored(problem: Problem, in_flight: int, tactics: Tactics) -> bool:
    """A start at a constant leaves few to others: those of a single iteration, and of circuits."""
    return not tactics.parts and (in_flight == 1 or fastened(problem) is not None)


def _outcome(built: Built, solver: cp_model.CpSolver, status: cp_model.CpSolverStatus) -> Outcome:
    """Only INFEASIBLE is a refutation; UNKNOWN and MODEL_INVALID prove nothing."""
    match status:
        case cp_model.OPTIMAL | cp_model.FEASIBLE:
            return Feasible(_read(built, solver))
        case cp_model.INFEASIBLE:
            return Refuted()
        case _:
            return Unknown("work")


def _narrow(built: Built, tactics: Tactics) -> None:
    """Not rules: restrictions of `Tactics` to schedules of some forms."""
    timing.shifted(built.variables, tactics.shifted)
    timing.no_longer(built.variables, tactics.longest)
    timing.begun_at_once(built.variables, tactics.parts)
    if tactics.periods is not None:
        memory.lasting(built.variables, built.buffers, *tactics.periods)
    if tactics.in_order:
        groups.in_order(built.variables)
    if tactics.issuable:
        groups.issuable(built.variables)


def _stating(built: Built) -> float:
    """Seconds that a model counts for."""
    stated = cast(Sequence[object], built.variables.model.proto.constraints)
    return STATED * len(stated)


def _counted(built: Built, solver: cp_model.CpSolver) -> float:
    """Seconds that a model and the search count for."""
    return _stating(built) + SEARCHED * solver.response_proto.deterministic_time


def _clock(began: float, budget: Budget) -> Callable[[], bool]:
    """Whether the time is up or the event set."""
    end = began + budget.measured
    return lambda: time.monotonic() > end or budget.stopped


def _run(
    built: Built, began: float, budget: Budget, tactics: Tactics
) -> tuple[cp_model.CpSolver, cp_model.CpSolverStatus]:
    """Solve on one core with a fixed seed; a stop event ends the search early."""
    model, solver = built.variables.model, cp_model.CpSolver()
    if len(built.variables.problem.operations) > PROBED:
        solver.parameters.cp_model_probing_level = 0
    left = max(1e-3, (budget.seconds - _stating(built)) / SEARCHED)
    solver.parameters.max_deterministic_time = left if budget.work is None else min(left, budget.work)
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 1 if tactics.seed is None else tactics.seed
    solver.parameters.randomize_search = tactics.seed is not None
    solver.parameters.permute_variable_randomly = tactics.seed is not None
    solver.parameters.linearization_level = tactics.linearization
    solver.parameters.max_time_in_seconds = max(0.01, began + budget.measured - time.monotonic())
    solver.parameters.catch_sigint_signal = False
    if budget.stop is None:
        return solver, _solved(solver, model)
    done = threading.Event()
    watcher = threading.Thread(target=_watch, args=(budget.stop, done, solver), daemon=True)
    watcher.start()
    try:
        return solver, _solved(solver, model)
    finally:
        done.set()
        watcher.join()


def _watch(stop: Stoppable, done: threading.Event, solver: cp_model.CpSolver) -> None:
    while not done.wait(0.02):
        if stop.is_set():
            solver.stop_search()


def _solved(solver: cp_model.CpSolver, model: cp_model.CpModel) -> cp_model.CpSolverStatus:
    """The status; for one model in some ten thousand, OR-Tools 9.15 fails in presolve on symmetries, and runs
    again without."""
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
    address = {(b.value, b.memory, b.staging): solver.value(b.address) * b.grain for b in built.buffers}
    return decode.solution(v.problem, v.interval, start, label, address)


def _hint(built: Built, hint: Solution | None) -> None:
    """Start from a known answer, perhaps at another interval: its stages, residues and groups."""
    if hint is None:
        return
    v = built.variables
    later = 0
    if v.anchored and not v.alone:
        later = v.in_flight * hint.interval - hint.start[timing.counted_from(v)]
    for i, start in enumerate(hint.start):
        start += later
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
    found: Solution,
    in_flight: int,
    *,
    joint: bool = True,
    budget: Budget = UNLIMITED,
    tactics: Tactics = PLAIN,
) -> tuple[Solution, bool]:
    """The best answer by one goal at `found`'s interval, no worse than `found` by the goals before it, and
    whether that is proven; `found` where no better one was found."""
    began = time.monotonic()
    most = in_flight if goal in ("channels", "stages") else found.in_flight(problem)
    room, late = budget.seconds / STATED, _clock(began, budget)
    try:
        built = build(problem, found.interval, most, joint, late, to_improve=True, most=room)
    except StoppedError as early:
        _not_stated(early, began, budget)
        return found, False
    _narrow(built, tactics)
    _hint(built, found)
    built.variables.model.minimize(_GOALS[goal](built, found))
    solver, status = _run(built, began, budget, FINDING)
    budget.count(_counted(built, solver))
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


def _idling(built: Built, found: Solution) -> cp_model.LinearExpr:
    """Starts of what works on when it is issued, counted twice, so that they decide; as for lateness of all
    else."""
    v = built.variables
    v.model.add(_length(built, found) <= found.length(v.problem))
    signs = [2 if _works_on(op) else -1 for op in v.problem.operations]
    return cp_model.LinearExpr.weighted_sum(v.start, signs) - sum(signs) * v.first


def _works_on(op: Operation) -> bool:
    return not op.variable and max((r.cycles for r in op.reservations), default=0) > op.issue


_GOALS: dict[Goal, Callable[[Built, Solution], cp_model.LinearExpr]] = {
    "channels": _channels,
    "stages": _stages,
    "length": _length,
    "lateness": _earliness,
    "promptness": _delay,
    "readiness": _idling,
}
