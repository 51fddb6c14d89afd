"""What a caller asks of the search, and what the search tells while it runs."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from twill.ir.problem import Time

Engine = Literal["auto", "cpsat", "sat", "yices", "cbc", "scip"]
"""auto: the fastest portfolio. cbc and scip solve plain modulo scheduling and the boolean joint model; yices is the paper's."""


@dataclass(frozen=True, slots=True)
class Options:
    """How to search."""

    engine: Engine = "auto"
    time_limit: float = 60.0
    """Seconds for the whole search; the best answer so far and its proven bound are given at the limit."""
    copies: int = 4
    """Schedules of up to this many iterations in flight are considered: L <= copies * I."""
    modulo_only: bool = False
    """Plain modulo scheduling: dependences and units alone, every operation in group 0."""
    explain: bool = True
    """Ask why the interval is above the bound, where it is."""


@dataclass(frozen=True, slots=True)
class Progress:
    """One event of the search: `engine` starts or ends trying `interval`."""

    seconds: float
    engine: str
    interval: Time
    what: Literal["trying", "feasible", "infeasible", "timeout", "improved", "note"]
    detail: str = ""


Report = Callable[[Progress], None]
"""Called with each event, from the searching thread."""
