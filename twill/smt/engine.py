"""What every engine is: a function that decides one interval.

`attempt(problem, interval, copies, joint=..., time_limit=..., stop=...)` answers whether a solution exists at exactly this interval
with every s(v) + duration(v) <= copies * interval, under all rules of `twill.ir.problem` (joint) or under DEPENDENCE, UNITS and PINNED
alone. An `infeasible` verdict is a proof; a limit gives `timeout`, never a guess.
"""

import threading
from dataclasses import dataclass
from typing import Literal, Protocol

from twill.ir.problem import Problem, Time
from twill.ir.schedule import Solution

FEW = 2
"""Iterations in flight that are asked about first: most answers have no more, and with no more all questions are easier."""

Verdict = Literal["feasible", "infeasible", "timeout"]


@dataclass(frozen=True, slots=True)
class Attempt:
    """One engine's word on one interval."""

    verdict: Verdict
    engine: str
    seconds: float
    solution: Solution | None = None


class Engine(Protocol):
    """The signature all engines share."""

    def __call__(
        self,
        problem: Problem,
        interval: Time,
        copies: int,
        *,
        joint: bool = True,
        time_limit: float = 60.0,
        stop: threading.Event | None = None,
    ) -> Attempt: ...
