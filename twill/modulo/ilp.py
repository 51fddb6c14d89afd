"""Integer programming engines, whatever the solver: plain modulo scheduling by the paper's program, the joint model by the boolean one.

A solver is a function from a formula with an objective to an `Outcome`. Its claims are taken for no more than its status says: a limit
reached with a solution in hand is `feasible`, not `optimal`.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from twill.ir.problem import Problem, Time
from twill.modulo.formulation import modulo_program
from twill.smt import boolean
from twill.smt.boolean.formula import Formula, Lane
from twill.smt.subprocess_engine import Decision


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a solver found; `truth[x]` is the value of unknown x in its best solution."""

    status: Literal["optimal", "feasible", "infeasible", "unknown"]
    truth: NDArray[np.bool_] | None = None


class Minimize(Protocol):
    """Minimizes the number of true unknowns in `objective`; any solution will do where it is None."""

    def __call__(self, formula: Formula, objective: Lane | None, time_limit: float) -> Outcome: ...


def decide(minimize: Minimize, problem: Problem, interval: Time, copies: int, *, joint: bool, time_limit: float) -> Decision:
    """The verdict on one interval."""
    end = time.monotonic() + time_limit

    def satisfy(formula: Formula) -> NDArray[np.bool_] | Literal["infeasible", "timeout"]:
        outcome = minimize(formula, None, end - time.monotonic())
        if outcome.truth is not None:
            return outcome.truth
        return "infeasible" if outcome.status == "infeasible" else "timeout"

    if joint:
        return boolean.decide(satisfy, problem, interval, copies, joint=True)
    program = modulo_program(problem, interval, copies)
    if program is None:
        return Decision("infeasible")
    truth = satisfy(program.formula)
    return Decision(truth) if isinstance(truth, str) else Decision("feasible", program.solution(truth))


def shortest(minimize: Minimize, problem: Problem, interval: Time, copies: int, *, time_limit: float) -> Decision:
    """The modulo schedule of least length; `timeout` with the best one so far where that is not proven."""
    end = time.monotonic() + time_limit
    program = modulo_program(problem, interval, copies)
    if program is None:
        return Decision("infeasible")
    outcome = minimize(program.formula, program.length, end - time.monotonic())
    solution = None if outcome.truth is None else program.solution(outcome.truth)
    match outcome.status:
        case "optimal":
            return Decision("feasible", solution)
        case "infeasible":
            return Decision("infeasible")
        case _:
            return Decision("timeout", solution)


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
            yield _row([1 if literal > 0 else -1 for literal in literals], [abs(literal) for literal in literals], bound)
    for total in formula.sums:
        weights = np.array([-weight for addend in total.addends for weight in addend.weights])
        lanes = np.stack(np.broadcast_arrays(*(literal for addend in total.addends for literal in addend.literals)), axis=-1)
        for literals in lanes.reshape(-1, len(weights)):
            coefficients = np.where(literals > 0, weights, -weights)
            yield _row(coefficients.tolist(), np.abs(literals).tolist(), int(coefficients[literals < 0].sum()) - total.bound)


def _row(coefficients: list[int], unknowns: list[int], least: int) -> Row:
    """Terms in the same unknown added up: solvers differ in what they make of a repeated one."""
    if len(set(unknowns)) == len(unknowns):
        return Row(tuple(coefficients), tuple(unknowns), least)
    total = dict.fromkeys(unknowns, 0)
    for coefficient, unknown in zip(coefficients, unknowns, strict=True):
        total[unknown] += coefficient
    return Row(tuple(total.values()), tuple(total), least)
