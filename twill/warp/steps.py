"""A pipelined loop of one group before it is legal: its statements with times and sources, without waits for
MMAs.

`warp.steady_state` makes the `Step`s, a target's `Legalization` turns `Parts` into statements.
"""

from dataclasses import dataclass

from twill.ir.problem import Time
from twill.ir.statements import Statement


@dataclass(frozen=True, slots=True)
class Step:
    """A statement in its steady form (`Iteration("newest", ...)`)."""

    statement: Statement
    stage: int
    always: bool = False
    """Executed in every interval of prologue and epilogue too."""
    time: Time = 0
    """From the beginning of the interval to when it starts."""
    done: Time = 0
    """The same of when the result of an MMA is there."""
    through: Time = 0
    """The same of when the tensor core is through with it."""
    sources: tuple[tuple[int, int | None], ...] = ()
    """Parallel to the statement's reads: the value (id of what the variable was assigned) and how many
    intervals back its iteration began; None for one from outside of the loop."""


@dataclass(frozen=True, slots=True)
class Parts:
    """A pipelined loop of one group."""

    prologue: tuple[Step, ...]
    steady: tuple[Step, ...]
    epilogue: tuple[Step, ...]
    stages: int
    interval: Time = 0
    """0 where one iteration follows the other, in which only its last MMA may be in flight."""
