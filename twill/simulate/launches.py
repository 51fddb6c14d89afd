"""A launch of a program that shows something: values that can be compared, in a bounded time.

Takes a program and the launch with the default arguments. Where the program of the grid that it names writes
nothing finite there, executes too much, or touches what memory does not have, the small problems of
`twill.simulate.check` follow, those with most iterations first. The choice follows from the program alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from twill.diagnostics import TwillError
from twill.ir.program import Program
from twill.simulate.check import Trial, by_use, compared_trial, trials
from twill.simulate.compare import Compared
from twill.simulate.interpret import Meter
from twill.simulate.operations import NotSimulatedError
from twill.simulate.protocol import HazardError

OPERATIONS = 40_000
"""That one launch may take where another can be chosen: a few seconds."""
TRIALS = 8
"""Other launches at most."""


@dataclass(frozen=True, slots=True)
class Launched:
    """A launch, and what was compared."""

    trial: Trial
    compared: Sequence[Compared]
    because: str = ""
    """Why it is not the launch with the default arguments; empty where it is."""

    @property
    def values(self) -> int:
        return sum(one.values for one in self.compared)

    @property
    def undefined(self) -> tuple[str, ...]:
        """What results follow from though Triton does not define it."""
        return tuple(dict.fromkeys(what for one in self.compared for what in one.undefined))


def compared_first(program: Program, first: Trial, *, others: bool) -> Launched:
    """The launch `first`; where it shows nothing and `others` may be chosen, one that does. Where none does,
    `first` without a limit. Raises TwillError and HazardError."""
    if not others:
        return _unlimited(program, first)
    found = _limited(program, first)
    if isinstance(found, Launched) and found.values:
        return found
    because = found if isinstance(found, str) else "this program of the grid writes nothing finite"
    for trial in by_use(trials(program))[:TRIALS]:
        other = _limited(program, trial)
        if isinstance(other, Launched) and other.values:
            return replace(other, because=because)
    return found if isinstance(found, Launched) else _unlimited(program, first)


def _limited(program: Program, trial: Trial) -> Launched | str:
    """What was compared, or why nothing was. Raises HazardError and NotSimulatedError."""
    try:
        return Launched(*compared_trial(program, trial, Meter(OPERATIONS)))
    except (HazardError, NotSimulatedError):
        raise
    except TwillError as problem:
        return problem.message


def _unlimited(program: Program, trial: Trial) -> Launched:
    return Launched(*compared_trial(program, trial))
