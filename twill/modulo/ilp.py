"""Integer programming engines, whatever the solver: plain modulo scheduling by the paper's program, the joint
model by the boolean one.

A solver is a function from a formula with an objective to an `Optimum`. Its status is trusted and nothing
beyond it: a limit reached with a solution found is `feasible`, not `optimal`.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from twill.engine import boolean
from twill.engine.boolean.formula import Formula, Lane
from twill.engine.probe import Feasible, Outcome, Refuted, Unknown
from twill.ir.problem import Problem, Time
from twill.ir.schedule import Solution
from twill.modulo.formulation import modulo_program


@dataclass(frozen=True, slots=True)
class Optimum:
    """What a solver found; `truth[x]` is the value of unknown x in its best solution."""

    status: Literal["optimal", "feasible", "infeasible", "unknown"]
    truth: NDArray[np.bool_] | None = None


@dataclass(frozen=True, slots=True)
class Shortest:
    """The shortest schedule found, if any, and whether it is proven that there is no shorter one."""

    solution: Solution | None
    proven: bool


class Minimize(Protocol):
    """Minimizes the number of true unknowns in `objective`; any solution will do where it is None."""

    def __call__(self, formula: Formula, objective: Lane | None, time_limit: float) -> Optimum: ...


def decide(
    minimize: Minimize, problem: Problem, interval: Time, in_flight: int, *, joint: bool, time_limit: float
) -> Outcome:
    """The outcome at one interval."""
    end = time.process_time() + time_limit

    def satisfy(formula: Formula) -> NDArray[np.bool_] | Refuted | Unknown:
        found = minimize(formula, None, end - time.process_time())
        if found.truth is not None:
            return found.truth
        return Refuted() if found.status == "infeasible" else Unknown("time")

    if joint:
        return boolean.decide(satisfy, problem, interval, in_flight, joint=True)
    program = modulo_program(problem, interval, in_flight)
    if program is None:
        return Refuted()
    truth = satisfy(program.formula)
    return truth if isinstance(truth, Refuted | Unknown) else Feasible(program.solution(truth))


def shortest(
    minimize: Minimize, problem: Problem, interval: Time, in_flight: int, *, time_limit: float
) -> Shortest:
    """The modulo schedule of least length."""
    end = time.process_time() + time_limit
    program = modulo_program(problem, interval, in_flight)
    if program is None:
        return Shortest(None, proven=True)
    found = minimize(program.formula, program.length, end - time.process_time())
    solution = None if found.truth is None else program.solution(found.truth)
    return Shortest(solution, proven=found.status in ("optimal", "infeasible"))


@dataclass(frozen=True, slots=True)
class Row:
    """sum of coefficient * unknown >= least."""

    coefficients: tuple[int, ...]
    unknowns: tuple[int, ...]
    least: int


def rows(formula: Formula) -> Iterator[Row]:
    """Clauses and sums as linear rows over the unknowns 1..variables, of which the first is 1."""
    for block in formula.clauses:
        least = 1 - (block < 0).sum(axis=1)
        for literals, bound in zip(block.tolist(), least.tolist(), strict=True):
            yield _row(
                [1 if literal > 0 else -1 for literal in literals],
                [abs(literal) for literal in literals],
                bound,
            )
    for total in formula.sums:
        weights = np.array([-weight for addend in total.addends for weight in addend.weights])
        lanes = np.stack(
            np.broadcast_arrays(*(literal for addend in total.addends for literal in addend.literals)),
            axis=-1,
        )
        for literals in lanes.reshape(-1, len(weights)):
            coefficients = np.where(literals > 0, weights, -weights)
            yield _row(
                coefficients.tolist(),
                np.abs(literals).tolist(),
                int(coefficients[literals < 0].sum()) - total.bound,
            )


def _row(coefficients: list[int], unknowns: list[int], least: int) -> Row:
    """Terms in the same unknown added up: solvers differ in what they make of a repeated one."""
    if len(set(unknowns)) == len(unknowns):
        return Row(tuple(coefficients), tuple(unknowns), least)
    total = dict.fromkeys(unknowns, 0)
    for coefficient, unknown in zip(coefficients, unknowns, strict=True):
        total[unknown] += coefficient
    return Row(tuple(total.values()), tuple(total), least)
