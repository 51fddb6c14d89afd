"""The Yices engine: the paper's SMT solver on the modular, order-encoded formulation.

The formula has no arithmetic left, so Yices runs as a propositional solver; the printed encoding, with
arithmetic, is in `benchmarks/paper_encoding.py`. `decide` takes as long as it takes; `attempt` runs it in a
process of its own.
"""

import ctypes
from types import ModuleType

import numpy as np

from twill.engine import boolean
from twill.engine.boolean.cnf import clausify
from twill.engine.probe import Outcome, Refuted
from twill.engine.subprocess_engine import isolated
from twill.ir.problem import Problem, Time
from twill.smt.yices_library import library


def decide(
    problem: Problem,
    interval: Time,
    in_flight: int,
    *,
    joint: bool,
    time_limit: float = 0,
    work: float | None = None,
) -> Outcome:
    """The outcome at one interval; only memory limits it."""
    return boolean.decide(satisfy, problem, interval, in_flight, joint=joint)


def satisfy(formula: boolean.Formula) -> np.ndarray | Refuted:
    """An assignment found by Yices."""
    yices = library()
    yices.yices_init()
    try:
        return _solve(yices, _context(yices), clausify(formula))
    finally:
        yices.yices_exit()


def _solve(yices: ModuleType, context: int, formula: boolean.Formula) -> np.ndarray | Refuted:
    boolean = yices.yices_bool_type()
    terms = np.zeros(
        2 * formula.variables + 1, np.int32
    )  # indexed by literal: negative ones count from the end
    terms[1 : formula.variables + 1] = [
        yices.libyices.yices_new_uninterpreted_term(boolean) for _ in range(formula.variables)
    ]
    terms[: formula.variables : -1] = [
        yices.libyices.yices_not(int(term)) for term in terms[1 : formula.variables + 1]
    ]
    for block in formula.clauses:
        _assert(yices, context, terms[block])
    match yices.yices_check_context(context, None):
        case yices.STATUS_SAT:
            return _values(yices, yices.yices_get_model(context, 1), terms[: formula.variables + 1])
        case yices.STATUS_UNSAT:
            return Refuted()
        case status:
            raise RuntimeError(f"Yices gave no conclusive result (status {status})")


def _context(yices: ModuleType) -> int:
    """A context for propositional logic, for one check."""
    config = yices.yices_new_config()
    for name in ("uf-solver", "bv-solver", "array-solver", "arith-solver"):
        yices.yices_set_config(config, name, "none")
    yices.yices_set_config(config, "mode", "one-shot")
    return yices.yices_new_context(config)


def _assert(yices: ModuleType, context: int, clauses: np.ndarray) -> None:
    """One disjunction per row, through the C interface: making terms is what takes the time."""
    rows = np.ascontiguousarray(clauses, np.int32)
    count, width = rows.shape
    disjunction, base, step = yices.libyices.yices_or, rows.ctypes.data, rows.strides[0]
    term = ctypes.POINTER(ctypes.c_int32)
    formulas = np.array(
        [disjunction(width, ctypes.cast(base + i * step, term)) for i in range(count)], np.int32
    )
    yices.libyices.yices_assert_formulas(context, count, formulas.ctypes.data_as(term))


def _values(yices: ModuleType, model: int, terms: np.ndarray) -> np.ndarray:
    truth, value = np.zeros(len(terms), bool), ctypes.c_int32()
    for variable in range(1, len(terms)):
        yices.libyices.yices_get_bool_value(model, int(terms[variable]), ctypes.byref(value))
        truth[variable] = bool(value.value)
    return truth


attempt = isolated("yices", decide)
"""The engine (see `twill.engine.probe`)."""
