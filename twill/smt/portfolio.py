"""Which complete engines race at one interval."""

from collections.abc import Callable
from importlib import import_module

from twill.engine.probe import Probe
from twill.ir.problem import Problem, Time
from twill.ir.search import Options

_HOME = {
    "cpsat": "twill.smt.cpsat",
    "benders": "twill.smt.benders",
    "sat": "twill.smt.sat",
    "yices": "twill.smt.yices",
    "cbc": "twill.modulo.cbc",
    "scip": "twill.modulo.scip",
}

SMALL = 12_000
"""Operations times interval up to which the boolean formulation is quick to build, so that SAT joins the
race."""


def complete_engines(problem: Problem, options: Options, interval: Time) -> list[Callable[..., Probe]]:
    """The engine chosen by name; or CP-SAT, with SAT beside it where times are small."""
    if options.engine != "auto":
        return [engine(options.engine)]
    names = ["cpsat"]
    if not options.modulo_only and len(problem.operations) * interval <= SMALL:
        names.append("sat")
    return [engine(name) for name in names]


def engine(name: str) -> Callable[..., Probe]:
    """An engine's `attempt`, its solver imported only now."""
    return import_module(_HOME[name]).attempt
