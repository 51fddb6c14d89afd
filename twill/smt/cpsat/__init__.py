"""CP-SAT on exact cycles: modular start times as integers, one constraint family per module.

`variables` names the decisions, `timing`, `groups`, `registers` and `memory` state the rules of
`twill.ir.problem`, `solve` runs the solver and reads the answer off.
"""

from twill.smt.cpsat import without_pandas

without_pandas.load()

from twill.smt.cpsat.solve import FINDING, PLAIN, Goal, Tactics, attempt, improve  # noqa: E402

__all__ = ["FINDING", "PLAIN", "Goal", "Tactics", "attempt", "improve"]
