"""Start times in order encoding, and the operations' windows.

Gives `Starts`: s(v) as the literals "v starts at t or later", for t in v's window. Rules PINNED and the
length bound live here. All rules but PINNED are invariant under shifting every start, so without pins one
operation is put at residue 0 (`twill.engine.anchor`), and the iteration lies in [first, first + in_flight *
I) with `first` below I.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from twill.engine.anchor import anchor
from twill.engine.boolean.formula import FALSE, TRUE, Formula, Lane
from twill.ir.problem import Problem, Time

Times = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Window:
    """An operation starts in [low, high]."""

    low: Time
    high: Time

    @property
    def times(self) -> Times:
        return np.arange(self.low, self.high + 1)


@dataclass(frozen=True, slots=True)
class Starts:
    """s(v) of every operation: `lines[v][k]` says that v starts at window.low + k or later."""

    interval: Time
    windows: tuple[Window, ...]
    lines: tuple[Lane, ...]
    slack: Time
    """How much longer the windows are than the iteration may be."""

    def at_least(self, op: int, times: Times) -> Lane:
        """Literals for s(op) >= t, constants outside the window."""
        window = self.windows[op]
        return self.lines[op][np.clip(times - window.low, 0, window.high - window.low + 1)]

    def at_most(self, op: int, times: Times) -> Lane:
        """Literals for s(op) <= t."""
        return -self.at_least(op, times + 1)

    def read(self, truth: NDArray[np.bool_]) -> list[Time]:
        """The start times of an assignment; `truth[x]` is the value of variable x."""
        return [
            window.low + int(truth[line[1:-1]].sum())
            for window, line in zip(self.windows, self.lines, strict=True)
        ]


def state(formula: Formula, problem: Problem, interval: Time, in_flight: int) -> Starts | None:
    """Start times within in_flight * interval; None where the windows alone leave an operation no start."""
    if problem.starts or not problem.operations:
        return within(formula, problem, interval, in_flight * interval)
    starts = within(formula, problem, interval, in_flight * interval, slack=interval - 1)
    if starts is not None:
        _anchor(formula, problem, starts)
        _span(formula, problem, starts, in_flight * interval)
    return starts


def within(formula: Formula, problem: Problem, interval: Time, end: Time, slack: Time = 0) -> Starts | None:
    """Start times from 0 on, everything over at end + slack; None where the windows alone leave an operation
    no start."""
    windows = _windows(problem, interval, end + slack)
    if windows is None or any(window.high - window.low < slack for window in windows):
        return None
    return Starts(interval, windows, tuple(chain(formula, window) for window in windows), slack)


def chain(formula: Formula, window: Window) -> Lane:
    """An integer in the window: literal k says that it is at least low + k, for k up to high - low + 1."""
    line = np.concatenate(([TRUE], formula.fresh(window.high - window.low), [FALSE])).astype(np.int32)
    formula.clause(-line[1:], line[:-1])
    return line


def _anchor(formula: Formula, problem: Problem, starts: Starts) -> None:
    op = anchor(problem, starts.interval)
    times = starts.windows[op].times
    times = times[times % starts.interval != 0]
    formula.clause(-starts.at_least(op, times), starts.at_least(op, times + 1))


def _span(formula: Formula, problem: Problem, starts: Starts, length: Time) -> None:
    """All of one iteration lies in [first, first + length)."""
    first = chain(formula, Window(0, starts.interval - 1))
    times = np.arange(1, starts.interval)
    for op, operation in enumerate(problem.operations):
        formula.clause(-first[times], starts.at_least(op, times))
        late = np.arange(starts.interval)
        formula.clause(-starts.at_least(op, late + length - operation.duration + 1), first[late + 1])


def _windows(problem: Problem, interval: Time, end: Time) -> tuple[Window, ...] | None:
    """Earliest and latest starts that every edge's smaller delay allows (Bellman-Ford)."""
    low = [0] * len(problem.operations)
    high = [end - op.duration for op in problem.operations]
    for op, start in problem.starts:
        at = problem.index(op)
        low[at], high[at] = max(low[at], start), min(high[at], start)
    arcs = [
        (problem.index(e.src), problem.index(e.dst), min(e.delay, e.crossing) - e.distance * interval)
        for e in problem.edges
    ]
    moved = True
    while moved:
        if any(a > b for a, b in zip(low, high, strict=True)):
            return None
        moved = False
        for src, dst, weight in arcs:
            if low[src] + weight > low[dst]:
                low[dst], moved = low[src] + weight, True
            if high[dst] - weight < high[src]:
                high[src], moved = high[dst] - weight, True
    return tuple(Window(a, b) for a, b in zip(low, high, strict=True))
