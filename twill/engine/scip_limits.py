"""What every SCIP model of Twill is limited by, so that equal work ends in equal answers."""

from pyscipopt import Model

PROCESSOR = 1
"""SCIP's number of the clock that counts processor time, which other work on the machine does not shorten."""


def limit(model: Model, seconds: float, seed: int) -> None:
    """End the search after so many seconds of processor time; `seed` makes it reproducible."""
    model.setParam("timing/clocktype", PROCESSOR)
    model.setParam("limits/time", seconds)
    model.setParam("randomization/randomseedshift", seed)
